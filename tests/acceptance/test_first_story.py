"""The story of the README: what a new user tries first, and what must come out."""

import pytest

from shared.gen.palimpsest.memory.v1 import memory_pb2 as m
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb
from tests.service import Client


def save(client: Client, content: str, type: int = m.MEMORY_TYPE_FACT, **more: object) -> pb.SaveMemoryResponse:
    answer: pb.SaveMemoryResponse = client.SaveMemory(pb.SaveMemoryRequest(type=type, content=content, **more))
    return answer


def test_the_same_twice_is_one_memory(client: Client) -> None:
    first = save(client, "我用 MySQL 8")
    assert first.outcome == pb.SAVE_OUTCOME_ADDED
    again = save(client, "我用 MySQL 8")
    assert again.outcome == pb.SAVE_OUTCOME_DUPLICATE
    assert again.reason_code == pb.SAVE_REASON_CODE_EXACT
    assert again.matched_id == again.memory.id == first.memory.id


def test_a_new_version_replaces_and_the_old_row_can_be_traced(client: Client) -> None:
    old = save(client, "我用 MySQL 8")
    new = save(client, "我用 MySQL 9")
    assert new.outcome == pb.SAVE_OUTCOME_REPLACED
    assert list(new.superseded_ids) == [old.memory.id]
    traced = client.GetMemory(pb.GetMemoryRequest(id=old.memory.id)).memory
    assert traced.superseded_by == new.memory.id
    assert traced.invalid_reason == m.INVALID_REASON_SUPERSEDED
    assert traced.content == "我用 MySQL 8"


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        ("我有两个孩子", "我有两个小孩", pb.SAVE_OUTCOME_DUPLICATE),
        ("订单 12345 已付款", "订单 12346 已付款", pb.SAVE_OUTCOME_ADDED),
        ("10 月 15 日体检", "10 月 16 日体检", pb.SAVE_OUTCOME_ADDED),
        ("小王爱喝咖啡", "小李爱喝咖啡", pb.SAVE_OUTCOME_ADDED),
        ("用户喜欢简洁回答", "用户的项目是 DocMind", pb.SAVE_OUTCOME_ADDED),
    ],
)
def test_what_is_the_same_and_what_is_not(client: Client, first: str, second: str, outcome: int) -> None:
    save(client, first)
    answer = save(client, second)
    assert answer.outcome == outcome, answer.reason
    kept = client.ListMemories(pb.ListMemoriesRequest()).memories
    assert len(kept) == (1 if outcome == pb.SAVE_OUTCOME_DUPLICATE else 2)


def test_recall_finds_by_meaning_and_nothing_for_nothing(client: Client) -> None:
    save(client, "我用 MySQL 8")
    save(client, "用户住在杭州")
    found = client.RecallMemories(pb.RecallMemoriesRequest(query="他的数据库是什么"))
    assert [hit.memory.content for hit in found.hits] == ["我用 MySQL 8"]
    nothing = client.RecallMemories(pb.RecallMemoriesRequest(query="今天天气怎么样"))
    assert not nothing.hits
    assert not nothing.degraded
