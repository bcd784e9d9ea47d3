"""The vector index agrees with the record: after saves and retirements, after damage, after a crash in the middle of a
rebuild, and while users move to another model. Damage is done to Milvus and to rows behind the service's back.
"""

import asyncio
import contextlib
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc
import numpy as np
import pytest
from pymilvus import MilvusClient

from memory_service.adapters.index_milvus import MilvusIndex
from memory_service.domain.model import MemoryType, Shard
from memory_service.ports import IndexKey, IndexRow
from shared.gen.palimpsest.memory.v1 import admin_service_pb2 as admin
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb
from tests.acceptance.calls import added, batch, clear, draft, invalidate, listed, update
from tests.acceptance.model import ModelServer
from tests.fake_openai import vector_of
from tests.servers import MariaDB, Milvus, Redis
from tests.service import Client, ServiceProcess, eventually

pytestmark = pytest.mark.servers
T = TypeVar("T")
USERS, EACH = 12, 100
PENDING = (admin.JOB_STATE_PENDING, admin.JOB_STATE_RUNNING)
INDEX_LEG, KEYWORD_LEG = pb.RECALL_LEG_INDEX, pb.RECALL_LEG_KEYWORD


@dataclass
class World:
    """A service that recalls through the index, and other ways into Milvus and the record."""

    mariadb: MariaDB
    milvus: Milvus
    name: str
    """Of its databases in both."""
    model: ModelServer
    next_model: ModelServer
    environment: dict[str, str]
    service: ServiceProcess
    users: set[str] = field(default_factory=set)

    @property
    def operator(self) -> Client:
        return Client(self.service.address, "operator")

    def client(self, user: str | None = None) -> Client:
        client = Client(self.service.address, user)
        self.users.add(client.user)
        return client

    def start(self) -> None:
        self.service = ServiceProcess(self.environment).start()

    def in_index(self, work: Callable[[MilvusIndex], Awaitable[T]]) -> T:
        """Does something to the index past the service."""

        async def run() -> T:
            index = MilvusIndex(self.milvus.url, database=self.name, timeout=10)
            try:
                return await work(index)
            finally:
                await index.close()

        return asyncio.run(run())

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Does something to the record past the service."""
        with contextlib.closing(self.mariadb.connect(self.name)) as connection, connection.cursor() as cursor:
            cursor.execute(statement, values)
            return list(cursor.fetchall())

    def vectors(self, space: str | None = None) -> dict[str, str]:
        """User by memory id of every vector that Milvus has."""

        async def scan(index: MilvusIndex) -> dict[str, str]:
            pages = [page async for page in index.scan(space or self.model.space)]
            return {key.memory_id: key.user_id for page in pages for key, _ in page}

        return self.in_index(scan)

    def active(self) -> dict[str, str]:
        """User by memory id of every active memory."""
        return {memory.id: user for user in self.users for memory in listed(self.client(user), page_size=1000)}

    def settle(self, seconds: float = 40) -> None:
        """Waits until the outbox is empty; then time passes, and its lines are forgotten."""
        eventually(lambda: self.operator.GetStats(admin.GetStatsRequest()).outbox_rows == 0, seconds, "the outbox")
        self.sql("DELETE FROM vector_outbox WHERE settled_at > 0")

    def ask(self, request: Any) -> str:
        """Asks for a job; answers its id."""
        return str(getattr(self.operator, type(request).__name__.removesuffix("Request"))(request).job.id)

    def job(self, id: str) -> admin.Job:
        found: admin.Job = self.operator.GetJob(admin.GetJobRequest(id=id)).job
        return found

    def finish(self, id: str, seconds: float = 60) -> admin.Job:
        """Waits for a job's end, which must be a good one."""
        eventually(lambda: self.job(id).state not in PENDING, seconds, "the job")
        job = self.job(id)
        assert job.state == admin.JOB_STATE_SUCCEEDED, job.error
        assert job.done == job.total
        return job

    def row(self, user: str, id: str, text: str, generation: str = "") -> IndexRow:
        """A vector as the service would write it."""
        if not generation:
            [(generation,)] = self.sql("SELECT generation FROM memory_head WHERE user_id = %s", user)
        raw = np.array(vector_of(text, 256), np.float32)
        now = time.time_ns() // 1000
        unit = raw / np.linalg.norm(raw)
        return IndexRow(user, id, generation, MemoryType.FACT, Shard.GENERAL, now, unit.astype(np.float32))

    def put(self, row: IndexRow) -> None:
        self.in_index(lambda index: index.upsert(self.model.space, [row]))
        assert row.memory_id in self.vectors()

    def remove(self, user: str, id: str) -> None:
        self.in_index(lambda index: index.delete(self.model.space, [IndexKey(user, id)]))
        assert id not in self.vectors()


@pytest.fixture(scope="module")
def world(
    mariadb: MariaDB, redis_server: Redis, milvus_server: Milvus, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """The world of this module; its tests build on each other's users, and the last one changes the model."""
    name, folder = f"upkeep_{uuid.uuid4().hex}", tmp_path_factory.mktemp("models")
    with contextlib.closing(MilvusClient(milvus_server.url)) as milvus:
        milvus.create_database(name)
    with ModelServer(folder, "model-one") as model, ModelServer(folder, "model-two", dim=192) as next_model:
        environment = {
            "PALIMPSEST_DATABASE_URL": mariadb.create_database(name),
            "PALIMPSEST_REDIS_URL": redis_server.url,
            "PALIMPSEST_MILVUS_URI": milvus_server.url,
            "PALIMPSEST_MILVUS_DATABASE": name,
            "PALIMPSEST_INDEX__RECONCILE_HOURS": "0",
            "PALIMPSEST_RECALL__DENSE_LEG": "index",
            "PALIMPSEST_DATA_DIR": str(folder),
            **model.settings(),
        }
        service = ServiceProcess(environment).start()
        found = World(mariadb, milvus_server, name, model, next_model, environment, service)
        try:
            yield found
        finally:
            found.service.stop()


def recall(client: Client, query: str) -> pb.RecallMemoriesResponse:
    answer: pb.RecallMemoriesResponse = client.RecallMemories(pb.RecallMemoriesRequest(query=query))
    return answer


def finds(client: Client, content: str) -> bool:
    """The first hit is this text, by meaning, through the index."""
    answer = recall(client, content)
    assert not answer.degraded
    assert list(answer.legs_used) == [INDEX_LEG, KEYWORD_LEG]
    return bool(answer.hits and answer.hits[0].memory.content == content and answer.hits[0].similarity > 0.99)


def test_saves_and_retirements_reach_the_index(world: World) -> None:
    one, other = world.client(), world.client()
    kept = [added(one, text) for text in ("我对花生过敏", "用户住在杭州", "我的猫叫团团", "每周三去游泳")]
    added(other, "我对花生过敏")
    update(one, kept[1].id, content="用户住在苏州")
    invalidate(one, kept[2].id)
    world.settle()
    assert world.vectors() == world.active()
    assert len(world.vectors()) == 4
    assert finds(one, "用户住在苏州")
    clear(one)
    world.settle()
    assert world.vectors() == world.active()
    assert list(world.vectors().values()) == [other.user]


def test_reconcile_mends_both_ways(world: World) -> None:
    client = world.client()
    lost, other, gone = (added(client, text) for text in ("我养了两条鱼", "喜欢喝乌龙茶", "会拉小提琴"))
    invalidate(client, gone.id)
    world.settle()
    nowhere = str(uuid.uuid4())
    world.put(world.row(client.user, nowhere, "没有这一条"))
    world.put(world.row("somebody-else", nowhere, "没有这个人", "0" * 32))
    world.put(world.row(client.user, gone.id, "会拉小提琴"))
    world.put(world.row(client.user, other.id, "喜欢喝乌龙茶", "0" * 32))  # of a generation that is no more
    world.remove(client.user, lost.id)
    job = world.finish(world.ask(admin.ReconcileRequest()))
    assert job.counts["removed"] == 4
    assert job.counts["missing"] == 2
    world.settle()
    assert world.vectors() == world.active()
    assert finds(client, "我养了两条鱼")
    assert finds(client, "喜欢喝乌龙茶")
    # Nothing is left to mend.
    again = world.finish(world.ask(admin.ReconcileRequest()))
    assert not any(again.counts.values())
    # Taken up anew, as after a crash just before its end, it counts anew.
    world.sql("UPDATE job SET state = %s, due_at = 1, finished_at = NULL WHERE id = %s", PENDING[0], again.id)
    world.finish(again.id)


def test_a_stale_vector_is_never_shown_and_goes(world: World) -> None:
    client = world.client()
    retired, kept = added(client, "我在学法语"), added(client, "周末去爬山")
    invalidate(client, retired.id)
    world.settle()
    world.put(world.row(client.user, retired.id, "我在学法语"))
    for _ in range(3):
        assert retired.id not in {hit.memory.id for hit in recall(client, "我在学法语").hits}
    eventually(lambda: retired.id not in world.vectors(), 20, "its removal")
    assert finds(client, kept.content)


def test_a_lost_collection_is_noticed_and_rebuilt(world: World) -> None:
    client = world.client()
    added(client, "我的车是蓝色的")
    world.settle()
    calls = len(world.model.requests)
    world.in_index(lambda index: index.drop(world.model.space))
    answer = recall(client, "我的车是蓝色的")
    assert [hit.memory.content for hit in answer.hits] == ["我的车是蓝色的"]
    assert answer.hits[0].similarity > 0.99
    assert list(answer.degraded_reasons) == [pb.DEGRADED_REASON_INDEX]
    job = world.finish(world.ask(admin.ReindexRequest()))
    assert job.counts["upserted"] == job.total == len(world.active())
    world.settle()
    assert world.vectors() == world.active()
    assert finds(client, "我的车是蓝色的")
    assert len(world.model.requests) <= calls + 1  # the query; no memory was embedded again


def test_one_row_that_does_not_open_holds_up_nobody(world: World) -> None:
    broken, sound = world.client(), world.client()
    bad, good = added(broken, "这一行会坏掉"), added(sound, "这一行是好的")
    world.settle()
    world.service.stop()
    [(sealed,)] = world.sql("SELECT content FROM user_memory WHERE id = %s", bad.id)
    world.sql("UPDATE user_memory SET content = %s WHERE id = %s", bytes(sealed)[:-1] + b"\0", bad.id)
    for memory, client in ((bad, broken), (good, sound)):
        world.remove(client.user, memory.id)
        world.sql(
            "INSERT INTO vector_outbox (user_id, memory_id, token, enqueued_at, due_at, attempts, settled_at)"
            " VALUES (%s, %s, 7, 1, 1, 0, 0)",
            client.user,
            memory.id,
        )
    world.start()
    eventually(lambda: good.id in world.vectors(), 15, "the other user's vector")
    assert bad.id not in world.vectors()
    job = world.finish(world.ask(admin.ReindexRequest()))
    assert job.counts["upserted"] == job.total - 1
    world.sql("UPDATE user_memory SET content = %s WHERE id = %s", bytes(sealed), bad.id)
    world.settle(60)
    assert world.vectors() == world.active()


def test_a_rebuild_killed_in_the_middle_goes_on_where_it_was(world: World) -> None:
    for n in range(USERS):
        client = world.client(f"user-{n:02}")
        batch(client, [draft(f"订单 {1000 * n + k} 已付款") for k in range(EACH)])
    world.settle(90)
    assert world.vectors() == world.active()
    world.in_index(lambda index: index.drop(world.model.space))
    id = world.ask(admin.ReindexRequest())
    eventually(lambda: world.job(id).done > 0, 30, "the first page")
    world.service.kill()
    [(state, done, total, cursor)] = world.sql("SELECT state, done, total, `cursor` FROM job WHERE id = %s", id)
    assert state == admin.JOB_STATE_RUNNING
    assert 0 < done < total
    assert "rebuild" in cursor
    world.sql("UPDATE job SET due_at = 1 WHERE id = %s", id)  # a minute passes, and the dead worker's lease
    world.start()
    job = world.finish(id)
    # Counted on from the bookmark: nothing was done twice, nothing was left out.
    assert job.done == total
    assert job.counts["upserted"] == total
    world.settle()
    assert world.vectors() == world.active()


def test_users_move_to_another_model_while_recall_goes_on(world: World) -> None:
    world.service.stop()
    world.environment |= {**world.next_model.settings(), **world.model.settings("EMBEDDING_PREVIOUS")}
    world.start()
    stop, wrong, asked = threading.Event(), [], []

    def ask(user: int) -> None:
        client = world.client(f"user-{user:02}")
        while not stop.is_set():
            content = f"订单 {1000 * user + len(asked) % EACH} 已付款"
            asked.append(content)
            answer = recall(client, content)
            first = answer.hits[0] if answer.hits else pb.RecallHit()
            if pb.DEGRADED_REASON_EMBEDDING in answer.degraded_reasons or first.similarity < 0.99:
                wrong.append(content)

    def guarded(user: int) -> None:
        try:
            ask(user)
        except grpc.RpcError as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=guarded, args=(user,)) for user in (0, USERS // 2, USERS - 1)]
    for thread in threads:
        thread.start()
    try:
        # A new user begins in the new model, an old one's saves stay in the old one until it moves.
        added(world.client(), "我来得最晚")
        job = world.finish(world.ask(admin.ReindexRequest(reembed=True)), 120)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong, wrong[:3]
    world.settle(60)
    print(f"\n{len(asked)} recalls while {job.counts['reembedded']} memories moved")
    assert len(asked) > 20
    assert job.counts["reembedded"] == len(world.active()) - 1
    stats = world.operator.GetStats(admin.GetStatsRequest())
    assert list(stats.embedding_spaces) == [world.next_model.space]
    assert world.in_index(lambda index: index.spaces()) == [world.next_model.space]
    assert world.vectors(world.next_model.space) == world.active()
    assert finds(world.client("user-03"), "订单 3042 已付款")
