"""The vector index on Milvus: Lite in a folder, standalone and distributed, 2.3.5 or newer, through one adapter.

Owns the collections (one per embedding space), their schema, the filter expressions and the translation of the driver's
errors. Refuses to own what is active, what a memory says (no text ever reaches Milvus) and when to try again: it fails
within its timeout, and a breaker and the outbox decide what then.

The driver's synchronous client runs in threads of ours. Its asynchronous one was measured no faster (480 to 530
searches a second against 440 to 545 at 16 concurrent), is labelled experimental, and keeps its locks by the id of an
event loop, which a later loop may get again.
"""

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from typing import Final, TypeVar

from pymilvus import MilvusClient

from memory_service.adapters.index_exact import checked_keys, checked_query, checked_rows
from memory_service.adapters.milvus_calls import (
    MAX_ROWS,
    SEPARATOR,
    batches,
    delete,
    dim_of,
    ensure,
    page,
    row_key,
    same_dim,
    search,
    upsert,
)
from memory_service.adapters.milvus_expressions import collection_name, query_filter, space_of
from memory_service.adapters.milvus_link import STORE, Link, MissingError, NotLoadedError
from memory_service.ports import IndexHit, IndexKey, IndexQuery, IndexRow, StoreUnavailable

T = TypeVar("T")

_THREADS: Final = 16
_LITE_FLUSH_ROWS: Final = 500


class MilvusIndex:
    """`VectorIndex` on Milvus. `uri` is `http(s)://host:port` of a server, or else a folder for Milvus Lite.

    Every round trip, and every wait for a thread or for a collection being made, is bounded by `timeout` seconds.
    Making a collection takes a server 2 to 4 s: it goes on in the background, and an upsert that comes back finds it
    done. A cancelled call's write may still be applied.

    An upsert is a delete and an insert, with a few milliseconds between them in which a search may miss the row; two
    processes that upsert one key at once may leave it twice, which searches hide and the next upsert or delete mends.
    Searches read with bounded staleness (a search that waits for the last write costs 394 ms). Scans read strongly, by
    the collection's own default: the driver ignores the level asked for as soon as a query is an iteration, and then
    missed 4,000 of 5,000 fresh rows.

    Caveats of Milvus Lite, a Python engine in our process: one process per folder (a second one gets StoreUnavailable);
    search is linear and slow over what is not flushed (166 ms for 4,000 rows), so we flush after every 500 rows, which
    holds up that upsert for 0.1 s; its vectors are searched exactly (FLAT). It is for trying things out.
    """

    def __init__(
        self,
        uri: str,
        *,
        token: str | None = None,
        database: str | None = None,
        timeout: float = 3.0,
        collection_prefix: str = "palimpsest",
    ) -> None:
        """Connects at the first call. Raises ValueError for a prefix that could be mistaken for another one, and for a
        folder where Milvus Lite is not installed.
        """
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*", collection_prefix):
            raise ValueError("a collection prefix is letters and digits, in words joined by single underscores")
        if "://" not in uri and find_spec("milvus_lite") is None:
            raise ValueError("Milvus Lite is not installed: pip install 'palimpsest[lite]', or give a server's address")
        self._link = Link(uri, token or "", database or "", timeout)
        self._prefix = collection_prefix
        self._timeout = timeout
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="milvus")
        self._dims: dict[str, int] = {}  # of collections seen; forgotten at the first sign of a change
        self._making: dict[str, asyncio.Future[int]] = {}
        self._unflushed: Counter[str] = Counter()

    async def upsert(self, space: str, rows: Sequence[IndexRow]) -> None:
        """See `VectorIndex.upsert`. A collection that somebody dropped is made again."""
        name = self._name(space)
        checked, dim = checked_rows(rows)
        if not checked:
            return
        known = self._dims.get(space)
        if known is None:
            known = await self._make(space, dim)
        same_dim(known, dim)
        for batch in batches(checked, dim):
            work = partial(upsert, name=name, rows=batch, timeout=self._timeout)
            try:
                await self._call(work)
            except MissingError:
                self._dims.pop(space, None)
                same_dim(await self._make(space, dim), dim)
                await self._call(work)
            except StoreUnavailable:
                self._dims.pop(space, None)  # it may have been made anew with another dimension
                raise
            await self._flush_lite(name, len(batch))

    async def delete(self, space: str, keys: Sequence[IndexKey]) -> None:
        """See `VectorIndex.delete`. The rows' bytes leave the server's files at its own garbage collection."""
        name = self._name(space)
        checked = [row_key(key.user_id, key.memory_id) for key in checked_keys(keys)]
        for start in range(0, len(checked), MAX_ROWS):
            keys_of_batch = checked[start : start + MAX_ROWS]
            await self._read(space, partial(delete, name=name, ids=keys_of_batch, timeout=self._timeout))

    async def search(self, space: str, query: IndexQuery) -> list[IndexHit]:
        """See `VectorIndex.search`."""
        name = self._name(space)
        query = checked_query(query)
        condition = query_filter(query)
        if query.limit == 0 or condition is None or (dim := await self._dim(space)) is None:
            return []
        same_dim(dim, len(query.vector))
        found = await self._read(space, partial(search, name=name, query=query, condition=condition, link=self._link))
        hits: dict[str, float] = {}
        own = query.user_id + SEPARATOR
        for key, cosine in sorted(found or [], key=lambda hit: -hit[1]):
            if key.startswith(own):  # the filter says so already; a hit of somebody else must not depend on one thing
                hits.setdefault(key.removeprefix(own), max(-1.0, min(1.0, cosine)))
        return [IndexHit(memory_id, cosine) for memory_id, cosine in hits.items()]

    async def scan(self, space: str) -> AsyncIterator[list[tuple[IndexKey, str]]]:
        """See `VectorIndex.scan`; pages in order of key, each 0.3 s on a server, which waits for its newest write."""
        name = self._name(space)
        last = ""
        while rows := await self._read(space, partial(page, name=name, after=last, timeout=self._timeout)):
            found = []
            for row in rows:
                user_id, _, memory_id = row["id"].partition(SEPARATOR)
                found.append((IndexKey(user_id, memory_id), str(row["generation"])))
            if rows[-1]["id"] != max(row["id"] for row in rows) or rows[-1]["id"] <= last:
                raise StoreUnavailable(STORE, "pages are not in order of key: a scan would miss rows")
            last = rows[-1]["id"]
            yield found

    async def spaces(self) -> list[str]:
        """See `VectorIndex.spaces`."""
        names = await self._call(lambda c: c.list_collections(timeout=self._timeout))
        found = (space_of(self._prefix, name) for name in names)
        return sorted(space for space in found if space is not None)

    async def drop(self, space: str) -> None:
        """See `VectorIndex.drop`."""
        name = self._name(space)
        self._dims.pop(space, None)
        self._unflushed.pop(name, None)
        with contextlib.suppress(MissingError):
            await self._call(lambda c: c.drop_collection(name, timeout=self._timeout))

    async def ping(self) -> None:
        """See `VectorIndex.ping`: lists collections, which only a server with its coordinator can."""
        await self.spaces()

    async def close(self) -> None:
        """See `VectorIndex.close`. Calls in flight end with StoreUnavailable."""
        self._pool.shutdown(wait=False)
        await asyncio.to_thread(self._link.close)

    def _name(self, space: str) -> str:
        return collection_name(self._prefix, space)

    async def _call(self, work: Callable[[MilvusClient], T]) -> T:
        """Runs `work` in a thread, for at most `timeout`; raises StoreUnavailable or one of its two kinds above."""
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.get_running_loop().run_in_executor(self._pool, self._link.run, work)
        except TimeoutError:
            raise StoreUnavailable(STORE, f"no answer in {self._timeout} s") from None

    async def _read(self, space: str, work: Callable[[MilvusClient], T]) -> T | None:
        """Runs what needs a collection: None where there is none. One that was left half made is finished first."""
        try:
            return await self._call(work)
        except MissingError:
            self._dims.pop(space, None)
            return None
        except NotLoadedError:
            if (dim := await self._dim(space)) is None:
                return None
            await self._make(space, dim)
        return await self._call(work)

    async def _dim(self, space: str) -> int | None:
        """Dimension of the space's collection; None without one."""
        if (known := self._dims.get(space)) is not None:
            return known
        try:
            dim = await self._call(partial(dim_of, name=self._name(space), timeout=self._timeout))
        except MissingError:
            return None
        self._dims[space] = dim
        return dim

    async def _make(self, space: str, dim: int) -> int:
        """Makes the collection, or finishes one half made; answers its dimension, which may be another.

        One attempt at a time in this process; two processes may race, and both succeed.
        """
        if (making := self._making.get(space)) is None:
            work = partial(ensure, name=self._name(space), space=space, dim=dim, lite=self._link.lite)
            making = asyncio.get_running_loop().run_in_executor(self._pool, self._link.run, work)
            self._making[space] = making
            making.add_done_callback(partial(self._made, space))
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.shield(making)
        except TimeoutError:
            raise StoreUnavailable(STORE, "the collection is still being made") from None

    def _made(self, space: str, making: asyncio.Future[int]) -> None:
        del self._making[space]
        if not making.cancelled() and making.exception() is None:
            self._dims[space] = making.result()

    async def _flush_lite(self, name: str, rows: int) -> None:
        if not self._link.lite:
            return
        self._unflushed[name] += rows
        if self._unflushed[name] >= _LITE_FLUSH_ROWS:
            self._unflushed[name] = 0
            await self._call(lambda c: c.flush(name, timeout=self._timeout))
