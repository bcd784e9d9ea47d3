"""Several servers on one MariaDB, Redis and Milvus: what one of them acknowledged, all of them know at once.

Milvus and Redis are this module's own: the last tests freeze them and leave them so.
"""

import asyncio
import base64
import json
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import grpc
import pytest

from shared.gen.palimpsest.memory.v1 import admin_service_pb2 as admin
from shared.gen.palimpsest.memory.v1 import memory_pb2 as m
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb
from shared.gen.palimpsest.memory.v1 import memory_service_pb2_grpc as pb_grpc
from tests.servers import MariaDB, Milvus, Redis
from tests.service import Client, ServiceProcess, eventually

pytestmark = pytest.mark.servers
MODES = ["auto", "index"]
FACT = m.MEMORY_TYPE_FACT


@dataclass
class Replicas:
    """Servers on the same stores, and the stores that can be frozen."""

    servers: dict[str, list[ServiceProcess]]
    environment: dict[str, dict[str, str]]
    redis: Redis
    milvus: Milvus

    def clients(self, mode: str, user: str | None = None) -> list[Client]:
        """One client per server, all of one user."""
        user = user or f"user-{uuid.uuid4()}"
        return [Client(server.address, user) for server in self.servers[mode]]


@pytest.fixture(scope="module")
def replicas(mariadb: MariaDB) -> Iterator[Replicas]:
    """Two servers for each way to recall; the two pairs have databases of their own."""
    keys = json.dumps({"k1": base64.b64encode(bytes(range(32))).decode()})
    with ExitStack() as stack:
        redis, milvus = Redis(), Milvus()
        with ThreadPoolExecutor() as pool:
            list(pool.map(stack.enter_context, (redis, milvus)))
        environment = {}
        for mode in MODES:
            environment[mode] = {
                "PALIMPSEST_DATABASE_URL": mariadb.create_database(f"test_{uuid.uuid4().hex}"),
                "PALIMPSEST_REDIS_URL": redis.url,
                "PALIMPSEST_MILVUS_URI": milvus.url,
                "PALIMPSEST_KEYS__KEYS": keys,
                "PALIMPSEST_RECALL__DENSE_LEG": mode,
                # The pairs share one Milvus, and each would clear away the other's vectors.
                "PALIMPSEST_INDEX__RECONCILE_HOURS": "0",
            }
        servers: dict[str, list[ServiceProcess]] = {mode: [] for mode in MODES}
        try:
            # The first of each pair makes the schema, the second finds it.
            for command in ("up", "serve"):
                for mode in MODES:
                    servers[mode].append(ServiceProcess(environment[mode], command=command))
                with ThreadPoolExecutor() as pool:
                    list(pool.map(lambda mode: servers[mode][-1].start(), MODES))
            yield Replicas(servers, environment, redis, milvus)
        finally:
            with ThreadPoolExecutor() as pool:
                list(pool.map(lambda server: server.__exit__(), [s for pair in servers.values() for s in pair]))


def save(client: Client, content: str, **more: Any) -> pb.SaveMemoryResponse:
    answer: pb.SaveMemoryResponse = client.SaveMemory(pb.SaveMemoryRequest(type=FACT, content=content, **more))
    return answer


def found(client: Client, query: str) -> dict[str, str]:
    """Contents by id of what a recall answers."""
    answer = client.RecallMemories(pb.RecallMemoriesRequest(query=query, top_k=20))
    return {hit.memory.id: hit.memory.content for hit in answer.hits}


def order(n: int) -> str:
    """Statements that are never the same and never replace each other: the number is the order's identity."""
    return f"订单 {70000 + n} 已付款"


def active(client: Client) -> list[m.Memory]:
    """All active memories of the client's user."""
    return list(client.ListMemories(pb.ListMemoriesRequest(page_size=1000)).memories)


class AsyncUser:
    """Concurrent calls of one user to one server."""

    def __init__(self, address: str, user: str) -> None:
        self._channel = grpc.aio.insecure_channel(address)
        self._stub: Any = pb_grpc.MemoryServiceStub(self._channel)
        self._metadata = (("x-user-id", user),)

    async def save(self, content: str, kind: m.MemoryType = FACT) -> pb.SaveMemoryResponse:
        request = pb.SaveMemoryRequest(type=kind, content=content)
        answer: pb.SaveMemoryResponse = await self._stub.SaveMemory(request, metadata=self._metadata, timeout=60)
        return answer

    async def recall(self, query: str) -> pb.RecallMemoriesResponse:
        request = pb.RecallMemoriesRequest(query=query)
        answer: pb.RecallMemoriesResponse = await self._stub.RecallMemories(
            request, metadata=self._metadata, timeout=60
        )
        return answer

    async def close(self) -> None:
        await self._channel.close()


async def test_five_hundred_saves_of_one_text_make_one_memory(replicas: Replicas) -> None:
    user = f"user-{uuid.uuid4()}"
    callers = [AsyncUser(server.address, user) for server in replicas.servers["auto"]]
    answers = await asyncio.gather(*(callers[n % 2].save("I really like coffee") for n in range(500)))
    for caller in callers:
        await caller.close()
    [added] = [a for a in answers if a.outcome == pb.SAVE_OUTCOME_ADDED]
    others = [a for a in answers if a.outcome == pb.SAVE_OUTCOME_DUPLICATE]
    assert len(others) == 499
    assert {a.matched_id for a in others} == {added.memory.id} == {a.memory.id for a in others}
    for client in replicas.clients("auto", user):
        assert [memory.id for memory in active(client)] == [added.memory.id]


@pytest.mark.parametrize("mode", MODES)
def test_what_one_server_acknowledged_the_other_recalls_at_once(replicas: Replicas, mode: str) -> None:
    clients = replicas.clients(mode)
    gaps = []
    for n in range(50):
        writer, reader = clients[n % 2], clients[(n + 1) % 2]
        saved = save(writer, order(n))
        at = time.monotonic()
        answer = reader.RecallMemories(pb.RecallMemoriesRequest(query=order(n)))
        gaps.append(time.monotonic() - at)
        hits = {hit.memory.id: hit for hit in answer.hits}
        assert saved.memory.id in hits, n
        # By meaning too, not only because the number is the same.
        assert hits[saved.memory.id].HasField("similarity")
        assert not answer.degraded
    print(f"\n{mode}: recall on the other server p50 {1e3 * statistics.median(gaps):.1f} ms")


def corrections_show_at_once(clients: list[Client]) -> None:
    """Update, invalidate, restore and clear, each seen by the next recall on the other server."""
    for turn in range(2):
        one, other = clients[turn], clients[1 - turn]
        id = save(one, order(turn)).memory.id
        assert id in found(other, order(turn))
        updated = one.UpdateMemory(
            pb.UpdateMemoryRequest(
                memory=m.Memory(id=id, content="快递已经签收，放在门卫"), update_mask={"paths": ["content"]}
            )
        ).memory
        seen = found(other, "快递已经签收，放在门卫")
        assert updated.id in seen
        assert id not in seen
        assert id not in found(other, order(turn))
        one.InvalidateMemory(pb.InvalidateMemoryRequest(id=updated.id))
        assert updated.id not in found(other, "快递已经签收，放在门卫")
        other.RestoreMemory(pb.RestoreMemoryRequest(id=updated.id))
        assert updated.id in found(one, "快递已经签收，放在门卫")
        one.ClearMemories(pb.ClearMemoriesRequest())
        assert not found(other, "快递已经签收，放在门卫")
        assert not active(other)


@pytest.mark.parametrize("mode", MODES)
def test_corrections_show_on_the_other_server_at_once(replicas: Replicas, mode: str) -> None:
    corrections_show_at_once(replicas.clients(mode))


async def test_many_writers_of_one_user_get_no_error_and_hold_up_nobody(replicas: Replicas) -> None:
    servers = replicas.servers["auto"]
    texts = [order(1000 + n) for n in range(64)]
    # Both servers embed the texts now: the processor's time is not what this is about.
    warm = [pb.MemoryDraft(type=FACT, content=text) for text in texts]
    for client in replicas.clients("auto"):
        client.BatchSaveMemories(pb.BatchSaveMemoriesRequest(drafts=warm), timeout=30)
    busy, quiet = f"user-{uuid.uuid4()}", [f"user-{uuid.uuid4()}" for _ in range(4)]
    writers = [AsyncUser(servers[n % 2].address, busy) for n in range(32)]
    strangers = [AsyncUser(servers[n % 2].address, f"user-{uuid.uuid4()}") for n in range(32)]
    readers = [AsyncUser(servers[n % 2].address, user) for n, user in enumerate(quiet)]
    for reader in readers:
        await reader.save(texts[0])

    async def reads(until: Callable[[], bool]) -> list[float]:
        times: list[float] = []
        while not until():
            for reader in readers:
                at = time.monotonic()
                answer = await reader.recall(texts[0])
                times.append(time.monotonic() - at)
                assert len(answer.hits) == 1
            await asyncio.sleep(0.01)
        return times

    async def beside(callers: list[AsyncUser]) -> tuple[list[float], list[str]]:
        saving = asyncio.gather(*(save_all(caller, texts[2 * n : 2 * n + 2]) for n, caller in enumerate(callers)))
        times = await reads(saving.done)
        return times, [id for some in await saving for id in some]

    rounds = iter(range(25))
    idle = await reads(lambda: next(rounds, None) is None)
    apart, _ = await beside(strangers)
    together, ids = await beside(writers)
    for caller in (*writers, *strangers, *readers):
        await caller.close()
    assert len(set(ids)) == 128
    for client in replicas.clients("auto", busy):
        assert {memory.id for memory in active(client)} == set(ids)
    p50 = [f"{1e3 * statistics.median(times):.1f} ms" for times in (idle, apart, together)]
    print(
        f"\nother users' recall p50: idle {p50[0]}; beside 32 writers, each of a user of its own, {p50[1]}; "
        f"beside 32 writers of one user {p50[2]}"
    )


async def save_all(writer: AsyncUser, texts: list[str]) -> list[str]:
    ids = []
    for text in texts:
        for kind in (FACT, m.MEMORY_TYPE_PREFERENCE):
            answer = await writer.save(text, kind)
            assert answer.outcome == pb.SAVE_OUTCOME_ADDED
            ids.append(answer.memory.id)
    return ids


@pytest.mark.parametrize("mode", MODES)
def test_settings_changed_on_one_server_are_followed_by_the_other(replicas: Replicas, mode: str) -> None:
    one, other = replicas.clients(mode)
    save(one, order(0))
    wanted = MODES[1 - MODES.index(mode)]
    leg = {"auto": pb.RECALL_LEG_EXACT, "index": pb.RECALL_LEG_INDEX}

    def legs(client: Client) -> list[int]:
        return list(client.RecallMemories(pb.RecallMemoriesRequest(query=order(0))).legs_used)

    assert leg[wanted] not in legs(other)
    one.UpdateSettings(admin.UpdateSettingsRequest(values={"recall.dense_leg": wanted}))
    try:
        eventually(lambda: leg[wanted] in legs(other), 5, "the other server's change of leg")
    finally:
        other.UpdateSettings(admin.UpdateSettingsRequest(values={"recall.dense_leg": ""}))
    eventually(lambda: leg[mode] in legs(one), 5, "the way back")


async def test_a_killed_server_takes_nothing_acknowledged_with_it(replicas: Replicas) -> None:
    environment = replicas.environment["auto"]
    users = [f"user-{uuid.uuid4()}" for _ in range(4)]
    acknowledged: dict[str, set[str]] = {user: set() for user in users}
    victim = await asyncio.to_thread(ServiceProcess(environment, command="serve").start)

    enough = asyncio.Event()

    async def write(user: str) -> None:
        caller = AsyncUser(victim.address, user)
        try:
            for n in range(1000):
                acknowledged[user].add((await caller.save(order(n))).memory.id)
                if sum(map(len, acknowledged.values())) >= 40:
                    enough.set()
        finally:
            await caller.close()

    writing = asyncio.gather(*(write(user) for user in users), return_exceptions=True)
    await enough.wait()
    victim.kill()
    assert {cut.code() for cut in await writing if isinstance(cut, grpc.aio.AioRpcError)} == {
        grpc.StatusCode.UNAVAILABLE
    }
    for user in users:
        for client in replicas.clients("auto", user):
            present = {memory.id for memory in active(client)}
            assert acknowledged[user] <= present
            # At most the one call that was cut off may have been written as well: whole, and no more.
            assert len(present) <= len(acknowledged[user]) + 1
        last = max(acknowledged[user])
        assert last in found(client, next(x.content for x in active(client) if x.id == last))


@pytest.fixture(scope="module")
def frozen(replicas: Replicas) -> Replicas:
    """The replicas with Milvus and Redis frozen, for good: tests that ask for it stand last."""
    replicas.milvus.pause()
    replicas.redis.pause()
    return replicas


@pytest.mark.parametrize("mode", MODES)
def test_reads_see_writes_with_milvus_and_redis_frozen(frozen: Replicas, mode: str) -> None:
    clients = frozen.clients(mode)
    for n in range(20):
        writer, reader = clients[n % 2], clients[(n + 1) % 2]
        saved = save(writer, order(n))
        assert saved.memory.id in found(reader, order(n)), n


@pytest.mark.parametrize("mode", MODES)
def test_corrections_show_with_milvus_and_redis_frozen(frozen: Replicas, mode: str) -> None:
    corrections_show_at_once(frozen.clients(mode))


@pytest.mark.parametrize("mode", MODES)
def test_corrections_show_with_milvus_and_redis_gone(frozen: Replicas, mode: str) -> None:
    frozen.milvus.kill()
    frozen.redis.kill()
    corrections_show_at_once(frozen.clients(mode))
