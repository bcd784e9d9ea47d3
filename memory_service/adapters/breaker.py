"""Keeps a dead store from adding its timeout to every call.

Owns when a store is asked at all, for any port: `Breaker`, and one thin wrapper per port. Refuses to own timeouts (the
adapters'), retries (the outbox's and the jobs') and what a missing store means for an answer (the use case's).
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from memory_service.domain.model import Vector
from memory_service.ports import (
    CachedSet,
    Embedder,
    IndexHit,
    IndexKey,
    IndexQuery,
    IndexRow,
    SetCache,
    StoreUnavailable,
    VectorIndex,
)

T = TypeVar("T")


class Breaker:
    """Opens after `failures` StoreUnavailable in a row; while it is open, calls raise StoreUnavailable at once.

    After `cool_down` seconds one call, the probe, is let through, and the others go on being refused until it has
    decided: an answer closes the breaker, another failure begins a new cool-down. Only StoreUnavailable speaks against
    a store. A call that its caller gave up (cancelled, its own deadline) or that was wrong in itself (ValueError) says
    nothing either way, and a probe that ends so leaves its place to the next call. Failures of calls that began before
    the breaker opened do not prolong it. For one event loop.
    """

    def __init__(
        self,
        store: str,
        *,
        failures: int = 3,
        cool_down: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`store` is the name that StoreUnavailable carries; `clock` answers seconds and never goes back."""
        self._store = store
        self._threshold = failures
        self._cool_down = cool_down
        self._clock = clock
        self._failures = 0
        self._opened_at: float | None = None
        self._probing = False

    @property
    def is_open(self) -> bool:
        """True from the failure that opened it until an answer closes it, probing included."""
        return self._opened_at is not None

    async def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """Awaits `work()` and answers what it answers, or raises StoreUnavailable without calling it."""
        probe = self._admit()
        try:
            answer = await work()
        except StoreUnavailable:
            self._failed(probe)
            raise
        finally:
            if probe:
                self._probing = False
        self._failures = 0
        self._opened_at = None
        return answer

    def _admit(self) -> bool:
        """True for the probe, False for a call through a closed breaker; raises for all others."""
        if self._opened_at is None:
            return False
        if self._probing or self._clock() < self._opened_at + self._cool_down:
            raise StoreUnavailable(self._store, "not asked: it failed a moment ago")
        self._probing = True
        return True

    def _failed(self, probe: bool) -> None:
        self._failures += 1
        if probe or (self._opened_at is None and self._failures >= self._threshold):
            self._opened_at = self._clock()


class GuardedIndex:
    """A `VectorIndex` behind a breaker; a scan asks it page by page."""

    def __init__(self, inner: VectorIndex, breaker: Breaker) -> None:
        self._inner = inner
        self._breaker = breaker

    async def upsert(self, space: str, rows: Sequence[IndexRow]) -> None:
        """See the port."""
        await self._breaker.call(lambda: self._inner.upsert(space, rows))

    async def delete(self, space: str, keys: Sequence[IndexKey]) -> None:
        """See the port."""
        await self._breaker.call(lambda: self._inner.delete(space, keys))

    async def search(self, space: str, query: IndexQuery) -> list[IndexHit]:
        """See the port."""
        return await self._breaker.call(lambda: self._inner.search(space, query))

    async def scan(self, space: str) -> AsyncIterator[list[tuple[IndexKey, str]]]:
        """See the port."""
        pages = aiter(self._inner.scan(space))
        while (page := await self._breaker.call(lambda: anext(pages, None))) is not None:
            yield page

    async def spaces(self) -> list[str]:
        """See the port."""
        return await self._breaker.call(self._inner.spaces)

    async def drop(self, space: str) -> None:
        """See the port."""
        await self._breaker.call(lambda: self._inner.drop(space))

    async def ping(self) -> None:
        """See the port. A health check that pings thereby closes the breaker without a user's call as probe."""
        await self._breaker.call(self._inner.ping)

    async def close(self) -> None:
        """See the port."""
        await self._inner.close()


class GuardedCache:
    """A `SetCache` behind a breaker."""

    def __init__(self, inner: SetCache, breaker: Breaker) -> None:
        self._inner = inner
        self._breaker = breaker

    async def load(self, user_id: str) -> CachedSet | None:
        """See the port."""
        return await self._breaker.call(lambda: self._inner.load(user_id))

    async def fill(self, user_id: str, entry: CachedSet) -> None:
        """See the port."""
        await self._breaker.call(lambda: self._inner.fill(user_id, entry))

    async def drop(self, user_id: str) -> None:
        """See the port."""
        await self._breaker.call(lambda: self._inner.drop(user_id))

    async def ping(self) -> None:
        """See the port, and `GuardedIndex.ping`."""
        await self._breaker.call(self._inner.ping)

    async def close(self) -> None:
        """See the port."""
        await self._inner.close()


class GuardedEmbedder:
    """An `Embedder` behind a breaker."""

    def __init__(self, inner: Embedder, breaker: Breaker) -> None:
        self._inner = inner
        self._breaker = breaker

    @property
    def model(self) -> str:
        """See the port."""
        return self._inner.model

    @property
    def dim(self) -> int:
        """See the port."""
        return self._inner.dim

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """See the port."""
        return await self._breaker.call(lambda: self._inner.embed_passages(texts))

    async def embed_query(self, text: str) -> Vector:
        """See the port."""
        return await self._breaker.call(lambda: self._inner.embed_query(text))

    def cuts(self, text: str) -> bool:
        """See the port."""
        return self._inner.cuts(text)

    async def ping(self) -> None:
        """See the port, and `GuardedIndex.ping`."""
        await self._breaker.call(self._inner.ping)

    async def close(self) -> None:
        """See the port."""
        await self._inner.close()
