"""The breaker, and the ports behind it."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from memory_service.adapters.breaker import Breaker, GuardedCache, GuardedEmbedder, GuardedIndex
from memory_service.adapters.cache_none import NoCache
from memory_service.adapters.index_exact import ExactIndex
from memory_service.domain.model import MemoryType, Shard, Vector
from memory_service.ports import (
    CachedSet,
    Embedder,
    IndexKey,
    IndexQuery,
    IndexRow,
    SetCache,
    StoreUnavailable,
    VectorIndex,
)
from tests.conformance.test_index import axis


class Clock:
    """Seconds that pass when told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Store:
    """Answers, fails or waits as told, and counts how often it was asked."""

    def __init__(self) -> None:
        self.broken = False
        self.asked = 0
        self.gate: asyncio.Event | None = None

    async def __call__(self) -> str:
        self.asked += 1
        broken = self.broken
        if self.gate is not None:
            await self.gate.wait()
        if broken:
            raise StoreUnavailable("index", "broken")
        return "answer"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker("index", failures=3, cool_down=2.0, clock=clock)


async def fails(breaker: Breaker, store: Store, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(StoreUnavailable) as caught:
            await breaker.call(store)
        assert caught.value.store == "index"


async def opened(breaker: Breaker, store: Store) -> None:
    store.broken = True
    await fails(breaker, store, 3)
    assert breaker.is_open
    store.asked = 0


async def test_a_closed_breaker_passes_answers_and_errors_on(breaker: Breaker, store: Store) -> None:
    assert await breaker.call(store) == "answer"
    store.broken = True
    with pytest.raises(StoreUnavailable, match="broken"):
        await breaker.call(store)
    assert not breaker.is_open


async def test_it_opens_after_failures_in_a_row_only(breaker: Breaker, store: Store) -> None:
    for _ in range(5):
        store.broken = True
        await fails(breaker, store, 2)
        store.broken = False
        await breaker.call(store)
    assert not breaker.is_open
    store.broken = True
    await fails(breaker, store, 2)
    assert not breaker.is_open
    await fails(breaker, store)
    assert breaker.is_open


async def test_an_open_breaker_does_not_ask(breaker: Breaker, store: Store, clock: Clock) -> None:
    await opened(breaker, store)
    store.broken = False
    clock.now += 1.999
    await fails(breaker, store, 100)
    assert store.asked == 0


async def test_one_probe_after_the_cool_down_closes_it(breaker: Breaker, store: Store, clock: Clock) -> None:
    await opened(breaker, store)
    store.broken = False
    clock.now += 2.0
    assert await breaker.call(store) == "answer"
    assert not breaker.is_open
    store.broken = True
    await fails(breaker, store, 2)
    assert not breaker.is_open  # it counts from the beginning again


async def test_a_failed_probe_begins_a_new_cool_down(breaker: Breaker, store: Store, clock: Clock) -> None:
    await opened(breaker, store)
    for asked in (1, 2, 3):
        clock.now += 2.0
        await fails(breaker, store)
        assert store.asked == asked  # the probe
        clock.now += 1.9
        await fails(breaker, store)
        assert store.asked == asked  # refused again
        clock.now -= 1.9


async def test_while_the_probe_runs_all_others_are_refused(breaker: Breaker, store: Store, clock: Clock) -> None:
    await opened(breaker, store)
    store.broken, store.gate = False, asyncio.Event()
    clock.now += 2.0
    probe = asyncio.create_task(breaker.call(store))
    await asyncio.sleep(0)
    clock.now += 100.0
    await fails(breaker, store, 50)
    assert store.asked == 1
    assert breaker.is_open
    store.gate.set()
    assert await probe == "answer"
    assert not breaker.is_open


async def test_a_cancelled_probe_leaves_its_place_to_the_next_call(
    breaker: Breaker, store: Store, clock: Clock
) -> None:
    await opened(breaker, store)
    store.broken, store.gate = False, asyncio.Event()
    clock.now += 2.0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await breaker.call(store)
    assert breaker.is_open
    store.gate = None
    assert await breaker.call(store) == "answer"
    assert not breaker.is_open


async def test_calls_that_were_given_up_or_wrong_do_not_count(breaker: Breaker, store: Store) -> None:
    async def wrong() -> None:
        raise ValueError("not an id")

    store.gate = asyncio.Event()
    for _ in range(10):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await breaker.call(store)
        with pytest.raises(ValueError, match="not an id"):
            await breaker.call(wrong)
    assert not breaker.is_open


async def test_a_wrong_call_as_probe_decides_nothing(breaker: Breaker, store: Store, clock: Clock) -> None:
    async def wrong() -> None:
        raise ValueError("not an id")

    await opened(breaker, store)
    store.broken = False
    clock.now += 2.0
    with pytest.raises(ValueError, match="not an id"):
        await breaker.call(wrong)
    assert breaker.is_open
    assert await breaker.call(store) == "answer"


async def test_late_failures_do_not_prolong_the_cool_down(breaker: Breaker, store: Store, clock: Clock) -> None:
    store.broken, store.gate = True, asyncio.Event()
    late = [asyncio.create_task(breaker.call(store)) for _ in range(50)]
    await asyncio.sleep(0)
    gate, store.gate = store.gate, None
    await opened(breaker, store)
    clock.now += 1.5
    gate.set()
    assert all(isinstance(one, StoreUnavailable) for one in await asyncio.gather(*late, return_exceptions=True))
    store.broken = False
    clock.now += 0.5
    assert await breaker.call(store) == "answer"


class BrokenIndex(ExactIndex):
    """Works, or not."""

    broken = False
    asked = 0

    async def search(self, space: str, query: IndexQuery) -> list[object]:  # type: ignore[override]
        self.check()
        return list(await super().search(space, query))

    async def ping(self) -> None:
        self.check()

    async def scan(self, space: str) -> AsyncIterator[list[tuple[IndexKey, str]]]:
        async for page in super().scan(space):
            self.check()
            yield page

    def check(self) -> None:
        self.asked += 1
        if self.broken:
            raise StoreUnavailable("index", "broken")


def row(memory_id: str) -> IndexRow:
    return IndexRow("user", memory_id, "g", MemoryType.FACT, Shard.GENERAL, 0, axis(0))


async def test_guarded_index(breaker: Breaker, clock: Clock) -> None:
    inner = BrokenIndex()
    index: VectorIndex = GuardedIndex(inner, breaker)  # type: ignore[arg-type]
    await index.upsert("s", [row(f"m{number}") for number in range(2_500)])
    query = IndexQuery(user_id="user", generation="g", vector=axis(0), limit=1)
    assert [hit.memory_id for hit in await index.search("s", query)] == ["m0"]
    assert await index.spaces() == ["s"]
    assert sum([len(page) async for page in index.scan("s")]) == 2_500
    assert [page async for page in index.scan("none")] == []
    await index.delete("s", [IndexKey("user", f"m{number}") for number in range(1, 2_500)])
    with pytest.raises(ValueError, match="not an id"):
        await index.delete("s", [IndexKey("", "m0")])
    inner.broken, inner.asked = True, 0
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="broken"):
            await index.search("s", query)
    with pytest.raises(StoreUnavailable, match="broken"):
        _ = [page async for page in index.scan("s")]
    for call in (index.search("s", query), index.upsert("s", [row("m")]), index.drop("s"), index.ping()):
        with pytest.raises(StoreUnavailable, match="not asked"):
            await call
    assert inner.asked == 3
    inner.broken = False
    clock.now += 2.0
    await index.ping()
    assert [hit.memory_id for hit in await index.search("s", query)] == ["m0"]
    await index.drop("s")
    assert await index.spaces() == []
    await index.close()


class BrokenCache(NoCache):
    """A cache that is away."""

    async def load(self, user_id: str) -> CachedSet | None:
        raise StoreUnavailable("cache", "broken")


async def test_guarded_cache(clock: Clock) -> None:
    breaker = Breaker("cache", clock=clock)
    cache: SetCache = GuardedCache(BrokenCache(), breaker)
    await cache.fill("user", CachedSet("g", 1, {}))
    await cache.drop("user")
    await cache.ping()
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="broken"):
            await cache.load("user")
    for call in (cache.load("user"), cache.fill("user", CachedSet("g", 1, {})), cache.drop("user"), cache.ping()):
        with pytest.raises(StoreUnavailable, match="not asked"):
            await call
    await cache.close()


class BrokenEmbedder:
    """An embedder whose passages fail."""

    model = "fake"
    dim = 8

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        raise StoreUnavailable("embedding", "broken")

    async def embed_query(self, text: str) -> Vector:
        return axis(len(text))

    def cuts(self, text: str) -> bool:
        return len(text) > 3

    async def ping(self) -> None: ...

    async def close(self) -> None: ...


async def test_guarded_embedder(clock: Clock) -> None:
    embedder: Embedder = GuardedEmbedder(BrokenEmbedder(), Breaker("embedding", clock=clock))
    assert (embedder.model, embedder.dim, embedder.cuts("long"), embedder.cuts("abc")) == ("fake", 8, True, False)
    assert (await embedder.embed_query("ab"))[2] == 1.0
    await embedder.ping()
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="broken"):
            await embedder.embed_passages(["text"])
    with pytest.raises(StoreUnavailable, match="not asked"):
        await embedder.embed_query("ab")
    assert embedder.dim == 8
    await embedder.close()
