"""The index of turns agrees with the record: after appends and deletions, after damage, after a rebuild, and when users
move to another model. As `test_index_upkeep` has it for memories.
"""

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import numpy as np
import pytest
from pymilvus import MilvusClient

from memory_service.adapters.index_milvus import MilvusIndex
from memory_service.domain.model import MemoryType, Shard
from memory_service.ports import IndexKey, IndexRow
from shared.gen.palimpsest.memory.v1 import admin_service_pb2 as admin
from shared.gen.palimpsest.memory.v1 import conversation_service_pb2 as pb
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as memories
from tests.acceptance.calls import added
from tests.acceptance.model import ModelServer
from tests.acceptance.test_conversations import append, delete
from tests.acceptance.test_index_upkeep import World
from tests.fake_openai import vector_of
from tests.servers import MariaDB, Milvus, Redis
from tests.service import Client, ServiceProcess, eventually

pytestmark = pytest.mark.servers
T = TypeVar("T")
INDEX_LEG, KEYWORD_LEG = memories.RECALL_LEG_INDEX, memories.RECALL_LEG_KEYWORD


class Talks(World):
    """The world, seen from the index of turns."""

    def in_index(self, work: Callable[[MilvusIndex], Awaitable[T]]) -> T:
        async def run() -> T:
            index = MilvusIndex(self.milvus.url, database=self.name, timeout=10, collection_prefix="palimpsest_pieces")
            try:
                return await work(index)
            finally:
                await index.close()

        return asyncio.run(run())

    def pieces(self) -> dict[str, str]:
        """User by id of every piece in the record."""
        return dict(self.sql("SELECT id, user_id FROM message_piece"))

    def search(self, client: Client, query: str) -> pb.SearchHistoryResponse:
        answer: pb.SearchHistoryResponse = client.SearchHistory(pb.SearchHistoryRequest(query=query))
        return answer

    def finds(self, client: Client, content: str) -> bool:
        """The first hit is this text, by meaning, through the index."""
        answer = self.search(client, content)
        assert not answer.degraded
        assert list(answer.legs_used) == [INDEX_LEG, KEYWORD_LEG]
        return bool(answer.hits and answer.hits[0].message.content == content and answer.hits[0].similarity > 0.99)


@pytest.fixture(scope="module")
def talks(
    mariadb: MariaDB, redis_server: Redis, milvus_server: Milvus, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Talks]:
    """The world of this module; its tests build on each other's users, and the last one changes the model."""
    name, folder = f"pieces_{uuid.uuid4().hex}", tmp_path_factory.mktemp("models")
    with contextlib.closing(MilvusClient(milvus_server.url)) as milvus:
        milvus.create_database(name)
    with ModelServer(folder, "model-one") as model, ModelServer(folder, "model-two", dim=192) as next_model:
        environment = {
            "PALIMPSEST_DATABASE_URL": mariadb.create_database(name),
            "PALIMPSEST_REDIS_URL": redis_server.url,
            "PALIMPSEST_MILVUS_URI": milvus_server.url,
            "PALIMPSEST_MILVUS_DATABASE": name,
            "PALIMPSEST_INDEX__TIMEOUT_SECONDS": "10",
            "PALIMPSEST_INDEX__RECONCILE_HOURS": "0",
            "PALIMPSEST_RECALL__DENSE_LEG": "index",
            "PALIMPSEST_DATA_DIR": str(folder),
            **model.settings(),
        }
        service = ServiceProcess(environment).start()
        found = Talks(mariadb, milvus_server, name, model, next_model, environment, service)
        try:
            yield found
        finally:
            found.service.stop()


def test_turns_reach_the_index_and_deleted_ones_leave_it(talks: Talks) -> None:
    one, other = talks.client(), talks.client()
    long = "\n\n".join(f"第 {n} 段：" + "会议纪要的内容很多。" * 30 for n in range(3))
    append(one, "kept", ("user", "花生要从菜单上去掉"), ("assistant", long))
    append(one, "gone", ("user", "密码是 48151"))
    append(other, "kept", ("user", "花生要从菜单上去掉"))
    talks.settle()
    assert talks.vectors() == talks.pieces()
    assert len(talks.vectors()) == 1 + 3 + 1 + 1
    assert talks.finds(one, "花生要从菜单上去掉")
    assert [hit.session_id for hit in talks.search(one, "密码是 48151").hits][:1] == ["gone"]
    delete(one, "gone")
    assert not [hit for hit in talks.search(one, "密码是 48151").hits if "48151" in hit.message.content]
    talks.settle()
    assert talks.vectors() == talks.pieces()
    assert len(talks.vectors()) == 5


def test_what_is_not_in_the_index_yet_is_found_all_the_same(talks: Talks) -> None:
    client = talks.client()
    for number in range(5):
        text = f"第 {number} 次搬家在春天"
        append(client, "s", ("user", text))
        assert talks.finds(client, text)
    talks.settle()
    assert talks.vectors() == talks.pieces()
    assert talks.finds(client, "第 3 次搬家在春天")


def test_some_sessions_are_searched_exactly_however_near_others_are(talks: Talks) -> None:
    client = talks.client()
    for number in range(150):
        append(client, "loud", ("user", "每天喝一杯咖啡"), ("assistant", f"好 {number}"))
    append(client, "quiet", ("user", "偶尔也喝茶"))
    talks.settle(60)
    request = pb.SearchHistoryRequest(query="偶尔也喝茶", session_ids=["quiet"], top_k=1)
    answer = client.SearchHistory(request)
    assert [hit.message.content for hit in answer.hits] == ["偶尔也喝茶"]
    assert list(answer.legs_used) == [memories.RECALL_LEG_EXACT, KEYWORD_LEG]


def test_reconcile_mends_both_ways(talks: Talks) -> None:
    client = talks.client()
    append(client, "s", ("user", "鱼缸里有两条鱼"), ("assistant", "鱼要勤换水"))
    talks.settle()
    before = talks.pieces()
    [(lost,)] = talks.sql("SELECT id FROM message_piece WHERE user_id = %s AND seq = 1", client.user)
    nowhere = str(uuid.uuid4())
    raw = np.array(vector_of("没有这一条", 256), np.float32)
    [(generation,)] = talks.sql("SELECT generation FROM memory_head WHERE user_id = %s", client.user)
    unit = (raw / np.linalg.norm(raw)).astype(np.float32)
    orphan = IndexRow(client.user, nowhere, generation, MemoryType.CONTEXT, Shard.GENERAL, 1, unit)
    talks.in_index(lambda index: index.upsert(talks.model.space, [orphan]))
    talks.in_index(lambda index: index.delete(talks.model.space, [IndexKey(client.user, lost)]))
    job = talks.finish(talks.ask(admin.ReconcileRequest()))
    assert (job.counts["removed"], job.counts["missing"]) == (1, 1)
    talks.settle()
    assert talks.vectors() == talks.pieces() == before
    assert talks.finds(client, "鱼缸里有两条鱼")


def test_a_stale_vector_is_never_shown_and_goes(talks: Talks) -> None:
    client = talks.client()
    append(client, "s", ("user", "周末去爬山"))
    talks.settle()
    nowhere = str(uuid.uuid4())
    [(generation,)] = talks.sql("SELECT generation FROM memory_head WHERE user_id = %s", client.user)
    raw = np.array(vector_of("周末去爬山", 256), np.float32)
    unit = (raw / np.linalg.norm(raw)).astype(np.float32)
    stale = IndexRow(client.user, nowhere, generation, MemoryType.CONTEXT, Shard.GENERAL, 1, unit)
    talks.in_index(lambda index: index.upsert(talks.model.space, [stale]))
    assert nowhere in talks.vectors()

    def gone() -> bool:
        assert len(talks.search(client, "周末去爬山").hits) == 1
        return nowhere not in talks.vectors()

    eventually(gone, 20, "its removal")


def test_a_lost_collection_is_noticed_and_rebuilt(talks: Talks) -> None:
    client = talks.client()
    append(client, "s", ("user", "车库里停着蓝色的车"))
    added(client, "用户的车是蓝色的")
    talks.settle()
    calls = len(talks.model.requests)
    talks.in_index(lambda index: index.drop(talks.model.space))
    answer = talks.search(client, "车库里停着蓝色的车")
    assert answer.hits[0].message.content == "车库里停着蓝色的车"
    assert answer.hits[0].similarity > 0.99
    assert list(answer.degraded_reasons) == [memories.DEGRADED_REASON_INDEX]
    job = talks.finish(talks.ask(admin.ReindexRequest()))
    assert job.counts["upserted"] == job.total == len(talks.active()) + len(talks.pieces())
    talks.settle()
    assert talks.vectors() == talks.pieces()
    assert talks.finds(client, "车库里停着蓝色的车")
    assert len(talks.model.requests) <= calls + 1  # the query; nothing was embedded again


def test_turns_move_to_another_model_with_their_user(talks: Talks) -> None:
    client = talks.client()
    append(client, "s", ("user", "会议推迟到周五"), ("assistant", "欢迎你"))
    talks.settle()
    talks.service.stop()
    talks.environment |= {**talks.next_model.settings(), **talks.model.settings("EMBEDDING_PREVIOUS")}
    talks.start()
    assert talks.finds(talks.client(client.user), "会议推迟到周五"), "in the old space, until the user has moved"
    job = talks.finish(talks.ask(admin.ReindexRequest(reembed=True)), 120)
    assert job.counts["reembedded"] == len(talks.active()) + len(talks.pieces())
    talks.settle(60)
    assert talks.in_index(lambda index: index.spaces()) == [talks.next_model.space]
    assert talks.vectors(talks.next_model.space) == talks.pieces()
    assert talks.finds(talks.client(client.user), "会议推迟到周五")
