"""When things break: each store away, frozen or dead, alone and with another. What is still answered, what the answer
says about it, and that everything comes back without a restart of the service.

All servers are this module's own.
"""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from shared.gen.palimpsest.memory.v1 import admin_service_pb2 as admin
from shared.gen.palimpsest.memory.v1 import memory_pb2 as m
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb
from tests.acceptance.calls import ADDED, DUPLICATE, FACT, added, draft, get, listed, save, texts
from tests.acceptance.model import ModelServer
from tests.servers import MariaDB, Milvus, Redis
from tests.service import Client, ServiceProcess, eventually, refused

pytestmark = pytest.mark.servers
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
INDEX, EMBEDDING, CACHE = pb.DEGRADED_REASON_INDEX, pb.DEGRADED_REASON_EMBEDDING, pb.DEGRADED_REASON_CACHE
EXACT_LEG, INDEX_LEG, KEYWORD_LEG = pb.RECALL_LEG_EXACT, pb.RECALL_LEG_INDEX, pb.RECALL_LEG_KEYWORD
HURRY = 2.0
"""Seconds that an impatient caller waits: less than a frozen store's own timeout and half of it on top."""


@dataclass
class World:
    """A service that recalls through the index, and everything it hangs on."""

    service: ServiceProcess
    mariadb: MariaDB
    redis: Redis
    milvus: Milvus
    model: ModelServer

    def client(self, user: str | None = None) -> Client:
        return Client(self.service.address, user)

    def health(self, service: str = "") -> int:
        with grpc.insecure_channel(self.service.address) as channel:
            request = health_pb2.HealthCheckRequest(service=service)
            return int(health_pb2_grpc.HealthStub(channel).Check(request, timeout=5).status)

    def up(self) -> dict[str, bool]:
        """What the service says of its stores."""
        stats = self.client().GetStats(admin.GetStatsRequest())
        return {store.name: store.up for store in stats.stores}

    def settled(self) -> bool:
        """The index has taken over everything, and everything has its vector."""
        stats = self.client().GetStats(admin.GetStatsRequest())
        return bool(stats.outbox_rows == 0 and stats.unembedded_memories == 0)

    def well(self, client: Client, query: str) -> bool:
        """A recall is what it is on a good day."""
        answer = recall(client, query)
        return not answer.degraded and list(answer.legs_used) == [INDEX_LEG, KEYWORD_LEG]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The world of this module; each test leaves it whole."""
    mariadb, redis, milvus = MariaDB(), Redis(), Milvus()
    with ExitStack() as stack:
        with ThreadPoolExecutor() as pool:
            list(pool.map(stack.enter_context, (mariadb, redis, milvus)))
        model = stack.enter_context(ModelServer(tmp_path_factory.mktemp("model"), "fake-model"))
        service = ServiceProcess(
            {
                "PALIMPSEST_DATABASE_URL": mariadb.create_database("memory"),
                "PALIMPSEST_REDIS_URL": redis.url,
                "PALIMPSEST_MILVUS_URI": milvus.url,
                "PALIMPSEST_RECALL__DENSE_LEG": "index",
                "PALIMPSEST_DATABASE_TIMEOUT_SECONDS": "3",
                **model.settings(),
            }
        )
        found = World(stack.enter_context(service), mariadb, redis, milvus, model)
        # The first upsert makes the collection, which takes Milvus some seconds.
        added(found.client(), "用户住在杭州")
        eventually(found.settled, 30, "the first vector")
        yield found


@pytest.fixture
def client(world: World) -> Iterator[Client]:
    """A new user with two memories, in a world that is whole."""
    client = world.client()
    eventually(lambda: all(world.up().values()), 60, "all stores")
    assert world.health() == SERVING
    added(client, "用户使用 MySQL 8 存储订单 88123")
    added(client, "我的猫叫团团")
    eventually(world.settled, 30, "indexing")
    eventually(lambda: world.well(client, "我的猫叫团团"), 30, "a recall through the index")
    yield client
    client.close()


def recall(client: Client, query: str, timeout: float = 20) -> pb.RecallMemoriesResponse:
    answer: pb.RecallMemoriesResponse = client.RecallMemories(pb.RecallMemoriesRequest(query=query), timeout=timeout)
    return answer


def contents(answer: pb.RecallMemoriesResponse) -> list[str]:
    return [hit.memory.content for hit in answer.hits]


@contextmanager
def frozen(*servers: MariaDB | Redis | Milvus) -> Iterator[None]:
    """The servers keep their connections and answer nothing until the block ends."""
    for server in servers:
        server.pause()
    try:
        yield
    finally:
        for server in servers:
            server.resume()


@contextmanager
def dead(*servers: MariaDB | Redis | Milvus) -> Iterator[None]:
    """The servers are killed, and started again when the block ends."""
    for server in servers:
        server.kill()
    try:
        yield
    finally:
        for server in servers:
            server.start()


@pytest.mark.parametrize("how", [frozen, dead])
def test_without_the_cache_everything_works(world: World, client: Client, how: Callable[..., Any]) -> None:
    with how(world.redis):
        assert added(client, "我对花生过敏").content in contents(recall(client, "我对花生过敏", HURRY))
        eventually(lambda: CACHE in recall(client, "我对花生过敏", HURRY).degraded_reasons, 10, "knowing")
        assert contents(recall(client, "我的猫叫团团", HURRY)) == ["我的猫叫团团"]
        assert not save(client, "我有一辆蓝色的自行车").index_pending
        assert world.health() == SERVING
    eventually(lambda: world.well(client, "我对花生过敏"), 20, "the cache's return")


def without_index(client: Client, world: World) -> None:
    """What must hold from the first call on, in a hurry or not, and once it is known."""
    first = recall(client, "我的猫叫团团", HURRY)
    assert contents(first) == ["我的猫叫团团"]
    assert first.hits[0].similarity > 0.99  # by meaning all the same
    assert INDEX in first.degraded_reasons
    assert list(first.legs_used) == [EXACT_LEG, KEYWORD_LEG]
    eventually(lambda: not world.up()["index"], 10, "knowing")
    pending = save(client, "我对花生过敏")
    assert (pending.outcome, pending.index_pending) == (ADDED, True)
    assert save(client, "我对花生过敏").outcome == DUPLICATE
    began = time.monotonic()
    assert contents(recall(client, "我对花生过敏", HURRY)) == ["我对花生过敏"]
    assert time.monotonic() - began < HURRY / 2  # what is known to be away is not waited for
    assert world.health() == SERVING


def test_with_a_frozen_index_recall_is_exact(world: World, client: Client) -> None:
    with frozen(world.milvus):
        without_index(client, world)
    eventually(lambda: world.well(client, "我对花生过敏"), 40, "the index's return")
    eventually(world.settled, 40, "indexing")


def test_with_index_and_cache_frozen_recall_is_exact(world: World, client: Client) -> None:
    with frozen(world.milvus, world.redis):
        without_index(client, world)
        assert CACHE in recall(client, "我的猫叫团团", HURRY).degraded_reasons
    eventually(lambda: world.well(client, "我对花生过敏"), 40, "their return")


def test_a_model_that_hangs_leaves_the_keyword_leg(world: World, client: Client) -> None:
    world.model.delay = 30
    try:
        found = recall(client, "订单 88123 在哪里", HURRY)
        assert contents(found) == ["用户使用 MySQL 8 存储订单 88123"]
        assert list(found.degraded_reasons) == [EMBEDDING]
        assert list(found.legs_used) == [KEYWORD_LEG]
        kept = client.SaveMemory(pb.SaveMemoryRequest(type=FACT, content="我的航班是 CA1831"), timeout=HURRY)
        assert (kept.outcome, kept.index_pending) == (ADDED, True)
        assert contents(recall(client, "CA1831", HURRY)) == ["我的航班是 CA1831"]
        assert world.health() == SERVING
    finally:
        world.model.delay = 0
    eventually(lambda: world.well(client, "我的航班是 CA1831"), 60, "the model's return")
    eventually(world.settled, 60, "embedding")


def test_with_model_and_index_away_the_keyword_leg_is_left(world: World, client: Client) -> None:
    world.model.away = True
    try:
        with frozen(world.milvus):
            found = recall(client, "订单 88123 在哪里")
            assert contents(found) == ["用户使用 MySQL 8 存储订单 88123"]
            assert EMBEDDING in found.degraded_reasons
            assert save(client, "我的航班是 MU5137").index_pending
    finally:
        world.model.away = False
    eventually(lambda: world.well(client, "我的航班是 MU5137"), 60, "their return")
    eventually(world.settled, 60, "embedding and indexing")


def calls_on_the_record(client: Client, id: str) -> list[Callable[[], Any]]:
    """One call of each RPC."""
    return [
        lambda: save(client, "我对花生过敏"),
        lambda: client.BatchSaveMemories(pb.BatchSaveMemoriesRequest(drafts=[draft("我对花生过敏")])),
        lambda: recall(client, "我的猫叫团团"),
        lambda: get(client, id),
        lambda: listed(client),
        lambda: client.UpdateMemory(
            pb.UpdateMemoryRequest(memory=m.Memory(id=id, pinned=True), update_mask={"paths": ["pinned"]})
        ),
        lambda: client.InvalidateMemory(pb.InvalidateMemoryRequest(id=id)),
        lambda: client.RestoreMemory(pb.RestoreMemoryRequest(id=id)),
        lambda: client.ClearMemories(pb.ClearMemoriesRequest()),
        lambda: client.GetStats(admin.GetStatsRequest()),
        lambda: client.UpdateSettings(admin.UpdateSettingsRequest(values={"eviction.max_active": "3"})),
    ]


@pytest.mark.parametrize("how", [frozen, dead])
def test_without_the_record_nothing_is_answered(world: World, client: Client, how: Callable[..., Any]) -> None:
    def state() -> list[Any]:
        return [(memory.id, memory.content, memory.etag, memory.pinned) for memory in listed(client)]

    before = state()
    assert len(before) == 2

    def try_it(call: Callable[[], Any]) -> None:
        with refused(grpc.StatusCode.UNAVAILABLE) as answer:
            call()
        assert answer.details.reason == "RECORD_UNAVAILABLE"
        assert answer.details.retry_after
        assert "mysql" not in answer.details.message.lower()

    with how(world.mariadb):
        began = time.monotonic()
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(try_it, calls_on_the_record(client, before[0][0])))
        assert time.monotonic() - began < 15  # beside each other, each within its deadline
        eventually(lambda: world.health() == NOT_SERVING, 10, "health")
        assert world.health("palimpsest.memory.v1.MemoryService") == NOT_SERVING
        assert world.health("liveness") == SERVING
    eventually(lambda: world.health() == SERVING, 30, "the record's return")
    assert state() == before  # nothing was written, then or late
    assert contents(recall(client, "我的猫叫团团")) == ["我的猫叫团团"]


def test_a_save_that_ran_out_of_time_is_whole_or_not_there(world: World, client: Client) -> None:
    requests = [
        pb.SaveMemoryRequest(type=FACT, content=f"订单 {91000 + n} 已付款", request_id=str(uuid.uuid4()))
        for n in range(60)
    ]
    late = []
    for n, request in enumerate(requests):
        try:
            client.SaveMemory(request, timeout=0.002 + 0.002 * n)
        except grpc.RpcError as error:
            late.append(error.code())
    assert set(late) == {grpc.StatusCode.DEADLINE_EXCEEDED}
    for memory in listed(client, page_size=200):
        assert get(client, memory.id).content == memory.content
    # The same call again: it is either the first or a repeat, and one row in the end.
    for request in requests:
        answer = client.SaveMemory(request)
        assert (answer.outcome, answer.memory.content) == (ADDED, request.content)
    kept = texts(client, page_size=200)
    assert sorted(kept) == sorted([*(r.content for r in requests), "我的猫叫团团", "用户使用 MySQL 8 存储订单 88123"])
    eventually(world.settled, 40, "indexing")
    for request in requests[::6]:
        assert contents(recall(client, request.content))[0] == request.content
    print(f"\n{len(late)} of {len(requests)} saves ran out of time")


def test_an_index_that_was_killed_comes_back(world: World, client: Client) -> None:
    with dead(world.milvus):
        without_index(client, world)
    eventually(lambda: world.well(client, "我对花生过敏"), 90, "the index's return")
    eventually(world.settled, 60, "indexing")


def test_a_record_killed_under_load_loses_nothing_acknowledged(world: World, client: Client) -> None:
    acknowledged: list[str] = []
    codes: set[grpc.StatusCode] = set()
    stop = threading.Event()

    def write(thread: int) -> None:
        writer = world.client(client.user)
        for n in range(1000):
            if stop.is_set():
                break
            try:
                acknowledged.append(save(writer, f"订单 {10000 * (thread + 1) + n} 已付款").memory.content)
            except grpc.RpcError as error:
                codes.add(error.code())
        writer.close()

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(acknowledged) >= 30, 30, "some saves")
    with dead(world.mariadb):
        eventually(lambda: codes, 10, "a refusal")
    done = len(acknowledged)
    eventually(lambda: len(acknowledged) >= done + 8, 30, "saves again")
    stop.set()
    for thread in threads:
        thread.join()
    assert codes == {grpc.StatusCode.UNAVAILABLE}
    present = texts(client, page_size=1000)
    assert len(present) == len(set(present))
    assert len(present) == 200 or set(acknowledged) <= set(present)  # 200 is the cap
