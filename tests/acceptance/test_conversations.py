"""Conversations: turns are stored whole, in order and once; read back, summed up, searched and deleted; and nobody but
their owner sees them.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest

from shared.gen.palimpsest.memory.v1 import admin_service_pb2 as admin
from shared.gen.palimpsest.memory.v1 import conversation_service_pb2 as pb
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as memories
from tests.acceptance.calls import (
    ABORTED,
    INVALID,
    JWT,
    NOT_FOUND,
    PRECONDITION,
    added,
    bearer,
    fields,
    listed,
    raw_call,
    recall,
    stamp,
    update,
    uuid_text,
)
from tests.acceptance.conftest import environment_of
from tests.acceptance.model import ModelServer
from tests.service import Client, ServiceProcess, eventually, refused

DENIED = grpc.StatusCode.PERMISSION_DENIED
Said = tuple[str, str]


def messages(said: Sequence[Said]) -> list[pb.ConversationMessage]:
    return [pb.ConversationMessage(role=role, content=content) for role, content in said]


def append(client: Client, session: str, *said: Said, **more: Any) -> pb.AppendTurnResponse:
    request = pb.AppendTurnRequest(session_id=session, messages=messages(said), **more)
    answer: pb.AppendTurnResponse = client.AppendTurn(request)
    return answer


def history(client: Client, session: str, **more: Any) -> pb.GetHistoryResponse:
    answer: pb.GetHistoryResponse = client.GetHistory(pb.GetHistoryRequest(session_id=session, **more))
    return answer


def contents(client: Client, session: str, **more: Any) -> list[str]:
    return [message.content for message in history(client, session, **more).messages]


def search(client: Client, query: str, **more: Any) -> list[pb.HistoryHit]:
    answer = client.SearchHistory(pb.SearchHistoryRequest(query=query, **more))
    assert not answer.degraded, answer.degraded_reasons
    return list(answer.hits)


def found(client: Client, query: str, **more: Any) -> list[str]:
    return [hit.message.content for hit in search(client, query, **more)]


def sessions(client: Client, **more: Any) -> list[str]:
    """Ids of all sessions, page after page."""
    ids: list[str] = []
    token = ""
    while True:
        page = client.ListSessions(pb.ListSessionsRequest(page_token=token, **more))
        ids += [session.session_id for session in page.sessions]
        token = page.next_page_token
        if not token:
            return ids


def delete(client: Client, session: str, **more: Any) -> pb.DeleteSessionResponse:
    answer: pb.DeleteSessionResponse = client.DeleteSession(pb.DeleteSessionRequest(session_id=session, **more))
    return answer


def extraction(client: Client, session: str, turn: int = 0) -> pb.Extraction:
    found: pb.Extraction = client.GetExtraction(pb.GetExtractionRequest(session_id=session, turn=turn)).extraction
    return found


# Storing and reading


def test_turns_come_back_as_they_were_said(client: Client) -> None:
    said = stamp(datetime(2026, 3, 1, 9, 30, tzinfo=UTC))
    first = client.AppendTurn(
        pb.AppendTurnRequest(
            session_id="s/1",
            channel="web",
            time_zone="Asia/Shanghai",
            messages=[
                pb.ConversationMessage(
                    role="user", content="查一下订单 ORD-77 的状态 🐬", message_id="m-1", created_at=said
                ),
                pb.ConversationMessage(
                    role="assistant",
                    tool_calls=[
                        pb.ToolCall(id="c1", function=pb.FunctionCall(name="order", arguments='{"id": "ORD-77"}'))
                    ],
                ),
                pb.ConversationMessage(role="tool", tool_call_id="c1", content='{"state": "已发货"}'),
                pb.ConversationMessage(role="assistant", content="已发货，\n预计周五到。"),
            ],
        )
    )
    assert first.turn == 1
    assert [message.stored for message in first.messages] == [True] * 4
    assert first.messages[0].message_id == "m-1"
    assert len({message.message_id for message in first.messages}) == 4
    assert append(client, "s/1", ("user", "谢谢")).turn == 2
    read = history(client, "s/1")
    assert (read.turns, read.total_messages, read.omitted_messages, read.summary_until) == (2, 5, 0, 0)
    assert [(m.seq, m.turn) for m in read.messages] == [(1, 1), (2, 1), (3, 1), (4, 1), (5, 2)]
    assert [m.message_id for m in read.messages[:4]] == [m.message_id for m in first.messages]
    user, call, result, answer, thanks = read.messages
    assert (user.role, user.content, user.created_at) == ("user", "查一下订单 ORD-77 的状态 🐬", said)
    assert (call.content, call.tool_calls[0].id, call.tool_calls[0].type) == ("", "c1", "function")
    assert call.tool_calls[0].function.arguments == '{"id": "ORD-77"}'
    assert (result.role, result.tool_call_id, result.content) == ("tool", "c1", '{"state": "已发货"}')
    assert answer.content == "已发货，\n预计周五到。"
    assert thanks.created_at.seconds > said.seconds


def test_a_session_that_is_not_there_reads_like_an_empty_one(client: Client) -> None:
    assert history(client, "nowhere") == pb.GetHistoryResponse()
    assert sessions(client) == []
    assert search(client, "nowhere") == []
    assert delete(client, "nowhere") == pb.DeleteSessionResponse()
    with refused(NOT_FOUND):
        extraction(client, "nowhere")
    with refused(NOT_FOUND):
        client.SaveSessionSummary(pb.SaveSessionSummaryRequest(session_id="nowhere", summary="x", summary_until=1))


def test_sessions_share_nothing_and_ids_compare_by_bytes(client: Client) -> None:
    for name in ("Talk", "talk", "talk/", "tálk".replace("á", "a") + "1"):
        assert append(client, name, ("user", f"This is {name}")).turn == 1
    assert contents(client, "Talk") == ["This is Talk"]
    assert contents(client, "talk") == ["This is talk"]
    assert sessions(client) == ["talk1", "talk/", "talk", "Talk"]


def test_what_says_nothing_is_left_out_and_an_empty_turn_stores_nothing(client: Client) -> None:
    empty = append(client, "s", ("user", "/help"), ("assistant", "🎉🎉🎉"), ("user", " …… "))
    assert empty.turn == 0
    assert [(m.stored, m.message_id) for m in empty.messages] == [(False, "")] * 3 or not any(
        m.stored for m in empty.messages
    )
    assert [m.reason_code for m in empty.messages] == [
        memories.SAVE_REASON_CODE_SLASH_COMMAND,
        memories.SAVE_REASON_CODE_EMOJI_ONLY,
        memories.SAVE_REASON_CODE_PUNCTUATION_ONLY,
    ]
    assert sessions(client) == []
    some = append(
        client, "s", ("user", "<|im_start|>user"), ("user", "好的，就这么定"), ("assistant", "[FACT-1] 用户住在杭州")
    )
    assert some.turn == 1
    assert [m.stored for m in some.messages] == [False, True, False]
    assert contents(client, "s") == ["好的，就这么定"]


def test_a_tool_result_that_says_nothing_takes_its_call_along(client: Client) -> None:
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: no'
    calls = [pb.ToolCall(id=id, function=pb.FunctionCall(name="f", arguments="{}")) for id in ("good", "bad")]
    answer = client.AppendTurn(
        pb.AppendTurnRequest(
            session_id="s",
            messages=[
                pb.ConversationMessage(role="user", content="Run both"),
                pb.ConversationMessage(role="assistant", tool_calls=calls),
                pb.ConversationMessage(role="tool", tool_call_id="good", content=""),
                pb.ConversationMessage(role="tool", tool_call_id="bad", content=trace),
            ],
        )
    )
    assert [m.stored for m in answer.messages] == [True, True, True, False]
    assert [[call.id for call in m.tool_calls] for m in history(client, "s").messages] == [[], ["good"], []]


def test_a_message_id_is_used_once_in_a_session(client: Client) -> None:
    one = pb.ConversationMessage(role="user", content="First", message_id="m")
    client.AppendTurn(pb.AppendTurnRequest(session_id="s", messages=[one]))
    with refused(PRECONDITION) as refusal:
        client.AppendTurn(pb.AppendTurnRequest(session_id="s", messages=[*messages([("user", "x")]), one]))
    assert refusal.details.reason == "MESSAGE_EXISTS"
    assert contents(client, "s") == ["First"], "nothing of the refused turn was stored"
    assert client.AppendTurn(pb.AppendTurnRequest(session_id="other", messages=[one])).turn == 1


def test_a_repeated_request_is_one_turn(client: Client) -> None:
    id = uuid_text()
    first = append(client, "s", ("user", "我搬到了苏州"), request_id=id)
    append(client, "s", ("user", "Next"))
    assert append(client, "s", ("user", "我搬到了苏州"), request_id=id, time_zone="UTC") == first
    assert contents(client, "s") == ["我搬到了苏州", "Next"]
    with refused(INVALID) as refusal:
        append(client, "s", ("user", "我搬到了杭州"), request_id=id)
    assert fields(refusal) == ["request_id"]


def test_turns_at_once_are_numbered_without_a_gap(client_of: Callable[..., Client]) -> None:
    user = f"user-{uuid.uuid4()}"
    clients = [client_of(user) for _ in range(8)]

    def talk(number: int) -> int:
        said = (("user", f"Question {number}"), ("assistant", f"Answer {number}"))
        return append(clients[number % 8], "s", *said).turn

    with ThreadPoolExecutor(8) as pool:
        turns = list(pool.map(talk, range(40)))
    assert sorted(turns) == list(range(1, 41))
    read = history(clients[0], "s", max_messages=1000)
    assert [m.seq for m in read.messages] == list(range(1, 81))
    for question, answer in zip(read.messages[::2], read.messages[1::2], strict=True):
        assert answer.content == question.content.replace("Question", "Answer")
        assert answer.turn == question.turn == turns[int(question.content.split()[1])]


def test_the_same_request_at_once_is_one_turn(client_of: Callable[..., Client]) -> None:
    user, id = f"user-{uuid.uuid4()}", uuid_text()
    clients = [client_of(user) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda c: append(c, "s", ("user", "Once"), request_id=id), clients))
    assert all(answer == answers[0] for answer in answers)
    assert contents(clients[0], "s") == ["Once"]


def test_history_ends_with_the_last_messages(client: Client) -> None:
    for number in range(15):
        append(client, "s", ("user", f"问题 {number}"), ("assistant", f"回答 {number}"))
    assert contents(client, "s") == [f"{who} {n}" for n in range(5, 15) for who in ("问题", "回答")]
    read = history(client, "s", max_messages=3)
    assert [m.content for m in read.messages] == ["回答 13", "问题 14", "回答 14"]
    assert (read.turns, read.total_messages, read.omitted_messages) == (15, 30, 27)
    assert len(contents(client, "s", max_messages=1000)) == 30


def test_history_within_a_budget_has_whole_turns(client: Client) -> None:
    for number in range(100):
        append(client, "s", ("user", f"用户说的第 {number} 句话"), ("assistant", "好的" * 10))
    sizes = []
    for budget in (0, 10, 60, 200, 1500, 2000, 100_000):
        read = history(client, "s", max_tokens=budget)
        assert [m.seq for m in read.messages] == list(range(201 - len(read.messages), 201))
        assert len(read.messages) % 2 == 0, "no turn is cut"
        assert read.omitted_messages == 200 - len(read.messages)
        # At least half of what the budget is for, and never more: a turn has 30 to 50 tokens in any encoding.
        assert len(read.messages) / 2 <= budget / 30
        sizes.append(len(read.messages))
    assert sizes == sorted(sizes)
    assert sizes[0] == 0
    assert sizes[2] >= 2
    assert sizes[-1] == 200
    assert len(history(client, "s", max_tokens=100_000, max_messages=6).messages) == 6


def test_one_long_turn_is_answered_whole_or_not_at_all(client: Client) -> None:
    append(client, "s", ("user", "short"))
    append(client, "s", *[("user", f"line {n}") for n in range(150)])
    assert len(history(client, "s", max_tokens=100_000).messages) == 151
    read = history(client, "s", max_tokens=40)
    assert (len(read.messages), read.omitted_messages) == (0, 151)


def test_an_answer_stays_under_the_transports_limit(client: Client) -> None:
    for number in range(14):
        append(client, "s", ("user", f"{number:02}" + "长" * 99_998))
    read = history(client, "s")
    assert read.ByteSize() < 3_600_000
    assert 10 <= len(read.messages) < 14
    assert read.messages[-1].content.startswith("13")
    assert read.omitted_messages == 14 - len(read.messages)


def test_a_bad_turn_names_every_violation(client: Client) -> None:
    with refused(INVALID) as refusal:
        client.AppendTurn(
            pb.AppendTurnRequest(
                session_id="",
                channel="a b",
                time_zone="Mars/Base",
                request_id="x",
                messages=[
                    pb.ConversationMessage(role="system", content="You are"),
                    pb.ConversationMessage(role="user", content=""),
                    pb.ConversationMessage(role="user", content="a\0b", message_id="同"),
                    pb.ConversationMessage(role="user", content="x" * 100_001, message_id="m"),
                    pb.ConversationMessage(role="user", content="x", message_id="m", tool_call_id="c"),
                    pb.ConversationMessage(role="tool", content="x", tool_calls=[pb.ToolCall(id="c")]),
                ],
            )
        )
    assert set(fields(refusal)) == {
        "session_id",
        "channel",
        "time_zone",
        "request_id",
        "messages[0].role",
        "messages[1].content",
        "messages[2].message_id",
        "messages[2].content",
        "messages[3].content",
        "messages[4].message_id",
        "messages[4].tool_call_id",
        "messages[5].tool_calls",
        "messages[5].tool_calls[0].function.name",
    }
    for count in (0, 201):
        with refused(INVALID) as refusal:
            append(client, "s", *[("user", "x")] * count)
        assert fields(refusal) == ["messages"]
    assert sessions(client) == []


def test_bad_reads_are_refused(client: Client) -> None:
    append(client, "s", ("user", "x y"))
    for request, wrong in (
        (pb.GetHistoryRequest(session_id="a b", max_messages=1001), ["session_id", "max_messages"]),
        (pb.GetHistoryRequest(session_id="s", max_tokens=-1), ["max_tokens"]),
        (pb.SearchHistoryRequest(query="x" * 8001, top_k=101, session_ids=["a b"]), None),
        (pb.ListSessionsRequest(page_token="forged"), ["page_token"]),
        (pb.ListSessionsRequest(page_size=-1), ["page_size"]),
        (pb.DeleteSessionRequest(), ["session_id"]),
        (pb.GetExtractionRequest(session_id="s", turn=-1), ["turn"]),
        (pb.SaveSessionSummaryRequest(session_id="s", summary_until=0), ["summary", "summary_until"]),
    ):
        with refused(INVALID) as refusal:
            getattr(client, type(request).__name__.removesuffix("Request"))(request)
        assert sorted(fields(refusal)) == sorted(wrong or ["query", "top_k", "session_ids[0]"])
    assert raw_call(client, "AppendTurn", b"\xff\xff", "ConversationService") is not None


# The rolling summary


def test_a_summary_is_stored_where_the_one_before_still_ends(client: Client) -> None:
    for number in range(12):
        append(client, "s", ("user", f"q {number}"), ("assistant", f"a {number}"))

    def save(text: str, until: int, expected: int, **more: Any) -> int:
        request = pb.SaveSessionSummaryRequest(
            session_id="s", summary=text, summary_until=until, expected_until=expected, **more
        )
        return int(client.SaveSessionSummary(request).summary_until)

    id = uuid_text()
    assert save("用户问了四个问题。", 8, 0, request_id=id) == 8
    read = history(client, "s", max_messages=4)
    assert (read.summary, read.summary_until, read.omitted_messages) == ("用户问了四个问题。", 8, 12)
    with refused(ABORTED) as refusal:
        save("late", 6, 0)
    assert refusal.details.reason == "SUMMARY_MOVED"
    assert save("用户问了四个问题。", 8, 0, request_id=id) == 8, "a repeat"
    assert save("Ten questions.", 20, 8) == 20
    read = history(client, "s", max_messages=4)
    assert (read.summary, read.summary_until, read.omitted_messages) == ("Ten questions.", 20, 0)
    with refused(INVALID) as refusal:
        save("beyond", 25, 20)
    assert fields(refusal) == ["summary_until"]
    [listed_session] = client.ListSessions(pb.ListSessionsRequest()).sessions
    assert (listed_session.summary_until, listed_session.turns, listed_session.messages) == (20, 12, 24)


def test_of_summaries_at_once_one_is_stored(client_of: Callable[..., Client]) -> None:
    user = f"user-{uuid.uuid4()}"
    clients = [client_of(user) for _ in range(6)]
    append(clients[0], "s", ("user", "x y"), ("assistant", "z w"))

    def save(number: int) -> bool:
        request = pb.SaveSessionSummaryRequest(session_id="s", summary=f"by {number}", summary_until=2)
        try:
            clients[number].SaveSessionSummary(request)
        except grpc.RpcError as error:
            if error.code() != ABORTED:  # type: ignore[attr-defined]
                raise
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        won = list(pool.map(save, range(6)))
    assert sum(won) == 1
    assert history(clients[0], "s").summary == f"by {won.index(True)}"


# Lists


def test_sessions_are_listed_by_last_activity_page_by_page(client: Client) -> None:
    for number in range(7):
        append(client, f"s-{number}", ("user", f"topic {number}"), channel="app" if number % 2 else "")
    append(client, "s-2", ("user", "again"))
    assert sessions(client, page_size=2) == ["s-2", "s-6", "s-5", "s-4", "s-3", "s-1", "s-0"]
    page = client.ListSessions(pb.ListSessionsRequest(page_size=1))
    assert (page.sessions[0].turns, page.sessions[0].messages, page.sessions[0].channel) == (2, 2, "")
    assert page.sessions[0].last_turn_at.ToNanoseconds() > page.sessions[0].created_at.ToNanoseconds()


# Searching


TALK = (
    ("周末想去爬山，有什么推荐？", "可以去北高峰，早上人少。"),
    ("I keep forgetting the name of my dentist.", "You told me it is Dr. Okafor on Mill Road."),
    ("数据库我们最后定的是 PostgreSQL 15。", "记下了，迁移安排在下个月。"),
    ("Please remind me about order ORD-20991.", "Order ORD-20991 was shipped on Monday."),
    ("我妈妈对花生过敏。", "以后推荐菜谱时会避开花生。"),
)


@pytest.fixture
def talkative(client: Client) -> Client:
    for number, (asked, answered) in enumerate(TALK):
        append(client, f"talk-{number % 2}", ("user", asked), ("assistant", answered))
    return client


@pytest.mark.parametrize(
    ("query", "turn"),
    [
        ("ORD-20991", 3),
        ("哪天去登山比较好", 0),
        ("which database did we choose? 用什么数据库", 2),
        ("who is my dentist", 1),
        ("妈妈不能吃什么", 4),
    ],
)
def test_past_turns_are_found_by_meaning_and_by_word(talkative: Client, query: str, turn: int) -> None:
    hits = search(talkative, query)
    assert hits
    assert hits[0].message.content in TALK[turn]
    assert hits[0].session_id == f"talk-{turn % 2}"
    assert hits[0].message.message_id
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_what_was_just_said_is_found_at_once(client: Client) -> None:
    for number in range(5):
        text = f"我第 {number} 次去了 Lisbon-{number}77"
        append(client, "s", ("user", text))
        assert found(client, f"Lisbon-{number}77")[0] == text


def test_a_neighbour_lends_its_words(client: Client) -> None:
    for number in range(6):
        append(client, "s", ("user", f"今天天气第 {number} 天都不错"), ("assistant", "适合出门走走"))
    append(client, "s", ("user", "Zanzibar 之旅的预算是多少？"), ("assistant", "两万元左右就够了。"))
    texts = found(client, "Zanzibar 预算")
    assert texts[0] == "Zanzibar 之旅的预算是多少？"
    assert texts[1] == "两万元左右就够了。"


def test_a_search_is_restricted_by_session_and_time(client: Client) -> None:
    for day, session in ((1, "a"), (2, "b"), (3, "a")):
        said = pb.ConversationMessage(
            role="user", content=f"Rent was paid on day {day}", created_at=stamp(datetime(2026, 5, day, tzinfo=UTC))
        )
        client.AppendTurn(pb.AppendTurnRequest(session_id=session, messages=[said]))
    assert len(found(client, "rent paid")) == 3
    assert found(client, "rent paid", session_ids=["b"]) == ["Rent was paid on day 2"]
    second = stamp(datetime(2026, 5, 2, tzinfo=UTC))
    assert set(found(client, "rent paid", created_after=second)) == {"Rent was paid on day 2", "Rent was paid on day 3"}
    assert found(client, "rent paid", created_before=second) == ["Rent was paid on day 1"]
    assert found(client, "rent paid", top_k=1, session_ids=["a", "b", "c"])
    assert found(client, "rent paid", session_ids=["c"]) == []


@pytest.mark.parametrize("query", ["", "   ", "好的", "？？？", "ok"])
def test_a_query_that_asks_nothing_finds_nothing(talkative: Client, query: str) -> None:
    assert search(talkative, query) == []


def test_what_relates_to_nothing_finds_nothing(talkative: Client) -> None:
    assert found(talkative, "量子色动力学的渐近自由") == []


def test_a_part_of_a_long_message_is_found(client: Client) -> None:
    filler = "会议讨论了季度目标、招聘进展和办公室搬迁的若干细节，没有形成最终决定。" * 40
    append(client, "s", ("user", f"{filler}\n\n我家的猫叫团团，今年三岁，怕打雷。\n\n{filler}"))
    append(client, "s", ("user", "今天的会开得很长"))
    hits = search(client, "我的宠物叫什么名字")
    assert "团团" in hits[0].message.content
    assert hits[0].similarity > 0.3


def test_the_vectors_of_turns_are_made_by_the_outbox(client: Client) -> None:
    append(client, "s", ("user", "我每天骑车上班"), ("assistant", "骑车很健康"))
    operator_view = admin.GetStatsRequest()
    eventually(lambda: client.GetStats(operator_view).outbox_rows == 0, 120, "the outbox with long turns in it")
    [hit, *_] = search(client, "我平时怎么去上班")
    assert hit.similarity > 0.3


# Deleting


def test_a_deleted_session_leaves_nothing(client: Client) -> None:
    append(client, "gone", ("user", "My locker code is 48151"), ("assistant", "Noted."))
    append(client, "kept", ("user", "My bike is green"))
    client.SaveSessionSummary(pb.SaveSessionSummaryRequest(session_id="gone", summary="locker", summary_until=2))
    from_it = added(client, "The user's locker code is 48151", source={"session_id": "gone"})
    changed = update(client, from_it.id, content="The user's locker code is 48152").memory
    other = added(client, "用户住在杭州", source={"session_id": "kept"})
    assert found(client, "locker code")
    answer = delete(client, "gone")
    assert (answer.deleted_messages, answer.deleted_memories) == (2, 2)
    assert history(client, "gone") == pb.GetHistoryResponse()
    assert found(client, "locker code 48151") == []
    assert sessions(client) == ["kept"]
    assert [memory.id for memory in listed(client, state=memories.MEMORY_STATE_ANY)] == [other.id]
    assert recall(client, "locker code 48152") == []
    for id in (from_it.id, changed.id):
        with refused(NOT_FOUND):
            client.GetMemory(memories.GetMemoryRequest(id=id))
    with refused(NOT_FOUND):
        extraction(client, "gone", 1)
    assert delete(client, "gone") == pb.DeleteSessionResponse(), "again"
    assert contents(client, "kept") == ["My bike is green"]


def test_a_session_id_may_be_used_again(client: Client) -> None:
    append(client, "s", ("user", "Old words about Kyoto"))
    append(client, "s", ("user", "More old words"))
    assert found(client, "Kyoto")
    id = uuid_text()
    assert delete(client, "s", request_id=id).deleted_messages == 2
    assert append(client, "s", ("user", "New words about Osaka")).turn == 1
    assert delete(client, "s", request_id=id).deleted_messages == 2, "a repeat answers the first outcome"
    assert contents(client, "s") == ["New words about Osaka"]
    assert found(client, "Kyoto") == []
    assert found(client, "Osaka") == ["New words about Osaka"]


# Extraction


def test_every_turn_has_its_extraction(client: Client) -> None:
    append(client, "s", ("user", "我用 PostgreSQL"))
    append(client, "s", ("user", "我不吃辣"))
    for turn in (1, 2):
        waiting = extraction(client, "s", turn)
        assert (waiting.session_id, waiting.turn) == ("s", turn)
        assert waiting.state == pb.EXTRACTION_STATE_PENDING, "this deployment has no model: it waits, and is not lost"
        assert not waiting.items
        assert waiting.HasField("created_at")
    assert extraction(client, "s").turn == 2
    with refused(NOT_FOUND):
        extraction(client, "s", 3)


# Who may


def test_nobody_reads_another_users_conversations(client: Client, client_of: Callable[..., Client]) -> None:
    append(client, "s", ("user", "My pin is 9921"))
    other = client_of()
    assert history(other, "s") == pb.GetHistoryResponse()
    assert search(other, "pin 9921") == []
    assert sessions(other) == []
    assert delete(other, "s") == pb.DeleteSessionResponse()
    with refused(NOT_FOUND):
        extraction(other, "s", 1)
    append(other, "s", ("user", "Something else"))
    assert contents(client, "s") == ["My pin is 9921"]
    for name in ("a", "b"):
        append(client, name, ("user", "x y"))
    token = client.ListSessions(pb.ListSessionsRequest(page_size=1)).next_page_token
    with refused(INVALID):
        other.ListSessions(pb.ListSessionsRequest(page_token=token))


@pytest.fixture(scope="module")
def strict(request: pytest.FixtureRequest) -> Iterator[ServiceProcess]:
    with ServiceProcess(environment_of(request, "embedded", **JWT)) as process:
        yield process


READS = (
    pb.GetHistoryRequest(session_id="s"),
    pb.SearchHistoryRequest(query="x"),
    pb.ListSessionsRequest(),
    pb.GetExtractionRequest(session_id="s"),
)
WRITES = (
    pb.AppendTurnRequest(session_id="s", messages=messages([("user", "x y")])),
    pb.SaveSessionSummaryRequest(session_id="s", summary="x", summary_until=1),
    pb.DeleteSessionRequest(session_id="s"),
)


def call(client: Client, request: Any) -> Any:
    return getattr(client, type(request).__name__.removesuffix("Request"))(request)


def test_reads_and_writes_need_their_scope(strict: ServiceProcess) -> None:
    reader, writer = (bearer(strict.address, "u", [f"memory:{right}"]) for right in ("read", "write"))
    for request in READS:
        with refused(DENIED):
            call(writer, request)
    for request in WRITES:
        with refused(DENIED):
            call(reader, request)
    for request in WRITES:
        call(writer, request)
    call(reader, READS[0])


def test_a_token_restricted_to_shards_may_call_none(strict: ServiceProcess) -> None:
    for shards in ([], ["GENERAL"], ["GENERAL", "IDENTITY", "TRANSACTION", "KNOWLEDGE", "EMOTION"]):
        client = bearer(strict.address, "u", shards=shards)
        for request in (*READS, *WRITES):
            with refused(DENIED) as refusal:
                call(client, request)
            assert refusal.details.reason == "SHARD_DENIED"


# When things go wrong, and at once


@pytest.fixture
def model(tmp_path: Path) -> Iterator[ModelServer]:
    with ModelServer(tmp_path, "fake-model") as server:
        yield server


def test_turns_are_stored_and_searched_by_word_while_the_model_is_away(
    request: pytest.FixtureRequest, model: ModelServer
) -> None:
    with ServiceProcess(environment_of(request, "embedded", **model.settings())) as process:
        client = Client(process.address)
        model.away = True
        assert append(client, "s", ("user", "备用钥匙在花盆 K-7731 下面"), ("assistant", "记下了")).turn == 1
        answer = client.SearchHistory(pb.SearchHistoryRequest(query="K-7731"))
        assert answer.hits[0].message.content == "备用钥匙在花盆 K-7731 下面"
        assert not answer.hits[0].HasField("similarity")
        assert list(answer.degraded_reasons) == [memories.DEGRADED_REASON_EMBEDDING]
        assert list(answer.legs_used) == [memories.RECALL_LEG_KEYWORD]
        assert contents(client, "s") == ["备用钥匙在花盆 K-7731 下面", "记下了"]
        model.away = False

        def back() -> bool:
            again = client.SearchHistory(pb.SearchHistoryRequest(query="记下了"))
            return not again.degraded and bool(again.hits) and again.hits[0].similarity > 0.99

        eventually(back, 40, "the vectors of what was said meanwhile")
        eventually(lambda: client.GetStats(admin.GetStatsRequest()).outbox_rows == 0, 40, "the outbox")


def test_a_killed_server_loses_no_turn_that_it_answered(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    environment = environment_of(request, "embedded", PALIMPSEST_DATA_DIR=str(tmp_path))
    process = ServiceProcess(environment).start()
    client = Client(process.address)
    answered = [append(client, "s", ("user", f"第 {n} 句"), ("assistant", "嗯嗯，好")).turn for n in range(20)]
    process.kill()
    with ServiceProcess(environment) as again:
        client = Client(again.address, client.user)
        assert len(contents(client, "s", max_messages=1000)) == 2 * len(answered)
        assert extraction(client, "s").turn == 20
        assert append(client, "s", ("user", "第 20 句")).turn == 21
        assert found(client, "第 7 句", top_k=1)


def test_deleting_and_appending_at_once_leaves_whole_sessions(client_of: Callable[..., Client]) -> None:
    user = f"user-{uuid.uuid4()}"
    clients = [client_of(user) for _ in range(6)]

    def work(number: int) -> None:
        if number % 5 == 4:
            delete(clients[number % 6], "s")
        else:
            append(clients[number % 6], "s", ("user", f"ask {number}"), ("assistant", f"answer {number}"))
            search(clients[number % 6], f"ask {number}")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(60)))
    read = history(clients[0], "s", max_messages=1000)
    assert [m.seq for m in read.messages] == list(range(1, len(read.messages) + 1))
    assert [m.turn for m in read.messages] == [1 + n // 2 for n in range(len(read.messages))]
    assert read.total_messages == len(read.messages) == 2 * read.turns
    for question, answer in zip(read.messages[::2], read.messages[1::2], strict=True):
        assert answer.content == question.content.replace("ask", "answer")
    assert set(found(clients[0], "ask answer", top_k=100)) <= {m.content for m in read.messages}
