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
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

from pymilvus import DataType, MilvusClient, MilvusException
from pymilvus.client.types import LoadState

from memory_service.adapters.index_exact import checked_keys, checked_query, checked_rows
from memory_service.ports import IndexHit, IndexKey, IndexQuery, IndexRow, StoreUnavailable

T = TypeVar("T")

_STORE: Final = "index"
_THREADS: Final = 16
_DDL_SECONDS: Final = 60.0
_SEPARATOR: Final = "#"  # no id has it, so (user, memory) -> key is one to one
_MAX_NAME: Final = 255  # of a collection, bytes
_MAX_BYTES: Final = 4 << 20  # of one upsert
_MAX_ROWS: Final = 1_000  # of one upsert or delete
_SCAN_PAGE: Final = 8_192  # at most 257 + 128 bytes a row: below 4 MB
_PARTITIONS: Final = 64
_LITE_FLUSH_ROWS: Final = 500

_NOT_FOUND: Final = 100
_NOT_LOADED: Final = 101

Clause: TypeAlias = str | None
"""A filter expression; "" holds for every row, None for none."""


def literal(value: int | str) -> str:
    """A value as Milvus's expression language writes it; a text's quotes and backslashes are escaped.

    Raises ValueError for control characters, which that language cannot carry.
    """
    if isinstance(value, str):
        if not value.isprintable():
            raise ValueError("a control character in a filter")
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(int(value))


def compare(field: str, operator: str, value: int | str) -> Clause:
    """One comparison. `field` and `operator` are ours, never a caller's."""
    return f"{field} {operator} {literal(value)}"


def one_of(field: str, values: Sequence[int] | Sequence[str]) -> Clause:
    """`field` has one of the values. Without values no row qualifies, and nothing is worth asking."""
    return f"{field} in [{', '.join(literal(value) for value in values)}]" if values else None


def all_of(clauses: Sequence[Clause]) -> Clause:
    """Every clause holds."""
    if None in clauses:
        return None
    return " and ".join(clause for clause in clauses if clause)


def query_filter(query: IndexQuery) -> Clause:
    """The filter of a search: always user and generation, then whatever the query restricts."""
    clauses = [compare("user_id", "==", query.user_id), compare("generation", "==", query.generation)]
    if query.types:
        clauses.append(one_of("type", sorted(query.types)))
    if query.shards:
        clauses.append(one_of("shard", sorted(query.shards)))
    if query.happened_from is not None:
        clauses.append(compare("happened_at", ">=", query.happened_from))
    if query.happened_until is not None:
        clauses.append(compare("happened_at", "<", query.happened_until))
    return all_of(clauses)


def collection_name(prefix: str, space: str) -> str:
    """The collection of a space: `prefix__` and the id, what is not a letter or digit as `_` and two upper-case hex
    digits per UTF-8 byte. One to one, so that names give ids back. Raises ValueError above 255 bytes or without an id.
    """
    encoded = "".join(chr(b) if chr(b).isascii() and chr(b).isalnum() else f"_{b:02X}" for b in space.encode())
    name = f"{prefix}__{encoded}"
    if not space or len(name) > _MAX_NAME:
        raise ValueError("an embedding space's id is empty or too long")
    return name


def space_of(prefix: str, name: str) -> str | None:
    """The space whose collection has this name; None for a collection that is not ours."""
    encoded = name.removeprefix(f"{prefix}__")
    if encoded == name:
        return None
    try:
        raw = re.sub(rb"_([0-9A-F]{2})", lambda m: bytes.fromhex(m[1].decode()), encoded.encode())
        space = raw.decode()
        return space if collection_name(prefix, space) == name else None
    except ValueError:
        return None


class _MissingError(StoreUnavailable):
    """The collection is not there (any more). Whoever cannot make sense of that has a store that failed."""


class _NotLoadedError(StoreUnavailable):
    """The collection is there and cannot be searched: whoever made it did not come to the end."""


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
        self._link = _Link(uri, token or "", database or "", timeout)
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
        _same_dim(known, dim)
        for batch in _batches(checked, dim):
            work = partial(_upsert, name=name, rows=batch, timeout=self._timeout)
            try:
                await self._call(work)
            except _MissingError:
                self._dims.pop(space, None)
                _same_dim(await self._make(space, dim), dim)
                await self._call(work)
            except StoreUnavailable:
                self._dims.pop(space, None)  # it may have been made anew with another dimension
                raise
            await self._flush_lite(name, len(batch))

    async def delete(self, space: str, keys: Sequence[IndexKey]) -> None:
        """See `VectorIndex.delete`. The rows' bytes leave the server's files at its own garbage collection."""
        name = self._name(space)
        checked = [_key(key.user_id, key.memory_id) for key in checked_keys(keys)]
        for start in range(0, len(checked), _MAX_ROWS):
            keys_of_batch = checked[start : start + _MAX_ROWS]
            await self._read(space, partial(_delete, name=name, ids=keys_of_batch, timeout=self._timeout))

    async def search(self, space: str, query: IndexQuery) -> list[IndexHit]:
        """See `VectorIndex.search`."""
        name = self._name(space)
        query = checked_query(query)
        condition = query_filter(query)
        if query.limit == 0 or condition is None or (dim := await self._dim(space)) is None:
            return []
        _same_dim(dim, len(query.vector))
        found = await self._read(space, partial(_search, name=name, query=query, condition=condition, link=self._link))
        hits: dict[str, float] = {}
        own = query.user_id + _SEPARATOR
        for key, cosine in sorted(found or [], key=lambda hit: -hit[1]):
            if key.startswith(own):  # the filter says so already; a hit of somebody else must not depend on one thing
                hits.setdefault(key.removeprefix(own), max(-1.0, min(1.0, cosine)))
        return [IndexHit(memory_id, cosine) for memory_id, cosine in hits.items()]

    async def scan(self, space: str) -> AsyncIterator[list[tuple[IndexKey, str]]]:
        """See `VectorIndex.scan`; pages in order of key, each 0.3 s on a server, which waits for its newest write."""
        name = self._name(space)
        last = ""
        while rows := await self._read(space, partial(_page, name=name, after=last, timeout=self._timeout)):
            page = []
            for row in rows:
                user_id, _, memory_id = row["id"].partition(_SEPARATOR)
                page.append((IndexKey(user_id, memory_id), str(row["generation"])))
            if rows[-1]["id"] != max(row["id"] for row in rows) or rows[-1]["id"] <= last:
                raise StoreUnavailable(_STORE, "pages are not in order of key: a scan would miss rows")
            last = rows[-1]["id"]
            yield page

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
        with contextlib.suppress(_MissingError):
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
            raise StoreUnavailable(_STORE, f"no answer in {self._timeout} s") from None

    async def _read(self, space: str, work: Callable[[MilvusClient], T]) -> T | None:
        """Runs what needs a collection: None where there is none. One that was left half made is finished first."""
        try:
            return await self._call(work)
        except _MissingError:
            self._dims.pop(space, None)
            return None
        except _NotLoadedError:
            if (dim := await self._dim(space)) is None:
                return None
            await self._make(space, dim)
        return await self._call(work)

    async def _dim(self, space: str) -> int | None:
        """Dimension of the space's collection; None without one."""
        if (known := self._dims.get(space)) is not None:
            return known
        try:
            dim = await self._call(partial(_dim_of, name=self._name(space), timeout=self._timeout))
        except _MissingError:
            return None
        self._dims[space] = dim
        return dim

    async def _make(self, space: str, dim: int) -> int:
        """Makes the collection, or finishes one half made; answers its dimension, which may be another.

        One attempt at a time in this process; two processes may race, and both succeed.
        """
        if (making := self._making.get(space)) is None:
            work = partial(_ensure, name=self._name(space), space=space, dim=dim, lite=self._link.lite)
            making = asyncio.get_running_loop().run_in_executor(self._pool, self._link.run, work)
            self._making[space] = making
            making.add_done_callback(partial(self._made, space))
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.shield(making)
        except TimeoutError:
            raise StoreUnavailable(_STORE, "the collection is still being made") from None

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


class _Link:
    """The connection, made at its first use, and the only place where the driver's errors are seen. Used in threads."""

    def __init__(self, uri: str, token: str, database: str, timeout: float) -> None:
        self.lite = "://" not in uri
        self.timeout = timeout
        self._uri = uri
        self._token = token
        self._database = database
        self._lock = threading.Lock()
        self._client: MilvusClient | None = None
        self._closed = False

    def run(self, work: Callable[[MilvusClient], T]) -> T:
        """Answers what `work` makes of the client; raises StoreUnavailable or one of its two kinds above."""
        try:
            return work(self._open())
        except MilvusException as error:
            if error.code == _NOT_FOUND:
                raise _MissingError(_STORE, error.message) from error
            if error.code == _NOT_LOADED:
                raise _NotLoadedError(_STORE, error.message) from error
            raise StoreUnavailable(_STORE, f"{error.code}: {error.message}"[:300]) from error
        except StoreUnavailable:
            raise
        except Exception as error:  # the driver lets errors of gRPC, of sockets and its own bugs through
            raise StoreUnavailable(_STORE, repr(error)[:300]) from error

    def _open(self) -> MilvusClient:
        with self._lock:
            if self._closed:
                raise StoreUnavailable(_STORE, "closed")
            if self._client is None:
                address = _Lite.open(self._uri) if self.lite else self._uri
                try:
                    self._client = MilvusClient(
                        address, token=self._token, db_name=self._database, timeout=self.timeout, dedicated=True
                    )
                except BaseException:
                    if self.lite:
                        _Lite.close(self._uri)
                    raise
            return self._client

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._client is not None:
                self._client.close()
                self._client = None
                if self.lite:
                    _Lite.close(self._uri)


class _Lite:
    """Folders that Milvus Lite has open in this process, each with its number of users: the last one closes it."""

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _users: ClassVar[Counter[str]] = Counter()

    @classmethod
    def open(cls, folder: str) -> str:
        from milvus_lite.server_manager import server_manager_instance  # type: ignore[import-untyped]

        with cls._lock:
            address = server_manager_instance.start_and_get_uri(folder)
            if address is None:
                raise StoreUnavailable(_STORE, "Milvus Lite cannot open its folder; has another process opened it?")
            cls._users[folder] += 1
            return str(address)

    @classmethod
    def close(cls, folder: str) -> None:
        from milvus_lite.server_manager import server_manager_instance

        with cls._lock:
            cls._users[folder] -= 1
            if cls._users[folder] == 0:
                server_manager_instance.release_server(folder)


def _key(user_id: str, memory_id: str) -> str:
    return f"{user_id}{_SEPARATOR}{memory_id}"


def _same_dim(dim: int, other: int) -> None:
    if dim != other:
        raise ValueError(f"a vector of {other} dimensions in a space of {dim}")


def _batches(rows: list[IndexRow], dim: int) -> Iterator[list[dict[str, Any]]]:
    size = max(1, min(_MAX_ROWS, _MAX_BYTES // (dim * 4 + 1_024)))  # ids and numbers take less than 1 KiB
    for start in range(0, len(rows), size):
        yield [
            {
                "id": _key(row.user_id, row.memory_id),
                "user_id": row.user_id,
                "generation": row.generation,
                "type": int(row.type),
                "shard": int(row.shard),
                "happened_at": int(row.happened_at),
                "vector": row.vector,
            }
            for row in rows[start : start + size]
        ]


def _upsert(client: MilvusClient, *, name: str, rows: list[dict[str, Any]], timeout: float) -> None:
    # Not the server's own upsert: 2.3.5 takes the primary key for the partition key there (milvus-io/milvus#30607),
    # so that a search with a user finds next to none of the rows.
    _delete(client, name=name, ids=[row["id"] for row in rows], timeout=timeout)
    client.insert(name, rows, timeout=timeout)


def _delete(client: MilvusClient, *, name: str, ids: list[str], timeout: float) -> None:
    if condition := one_of("id", ids):
        client.delete(name, filter=condition, timeout=timeout)


def _search(
    client: MilvusClient, *, name: str, query: IndexQuery, condition: str, link: _Link
) -> list[tuple[str, float]]:
    found = client.search(
        name,
        data=[query.vector],
        anns_field="vector",
        filter=condition,
        limit=query.limit,
        search_params={"metric_type": "COSINE", "params": {} if link.lite else {"ef": max(64, query.limit)}},
        consistency_level="Bounded",
        timeout=link.timeout,
    )
    return [(str(hit["id"]), float(hit["distance"])) for hit in found[0]]


def _page(client: MilvusClient, *, name: str, after: str, timeout: float) -> list[dict[str, Any]]:
    # `iterator` makes Lite answer in order of key (a server always does) and both read at the collection's own level.
    rows = client.query(
        name,
        filter=compare("id", ">", after),
        output_fields=["id", "generation"],
        limit=_SCAN_PAGE,
        timeout=timeout,
        iterator="True",
    )
    return list(rows)


def _dim_of(client: MilvusClient, *, name: str, timeout: float) -> int:
    fields = client.describe_collection(name, timeout=timeout)["fields"]
    return next(int(field["params"]["dim"]) for field in fields if field["name"] == "vector")


def _ensure(client: MilvusClient, *, name: str, space: str, dim: int, lite: bool) -> int:
    """Creates, indexes and loads whatever of that is not done; answers the collection's dimension."""
    if not client.has_collection(name, timeout=_DDL_SECONDS):
        try:
            _create(client, name, space, dim)
        except MilvusException:  # another process was faster, or it is a real error
            if not client.has_collection(name, timeout=_DDL_SECONDS):
                raise
    found = _dim_of(client, name=name, timeout=_DDL_SECONDS)
    index = MilvusClient.prepare_index_params()
    if lite:
        index.add_index("vector", index_type="FLAT", metric_type="COSINE")
    else:
        index.add_index("vector", index_type="HNSW", metric_type="COSINE", params={"M": 16, "efConstruction": 64})
    if not client.list_indexes(name, "vector", timeout=_DDL_SECONDS):
        try:
            client.create_index(name, index, timeout=_DDL_SECONDS)
        except MilvusException:
            if not client.list_indexes(name, "vector", timeout=_DDL_SECONDS):
                raise
    if client.get_load_state(name, timeout=_DDL_SECONDS)["state"] not in (LoadState.Loaded, LoadState.Loading):
        client.load_collection(name, timeout=_DDL_SECONDS)
    return found


def _create(client: MilvusClient, name: str, space: str, dim: int) -> None:
    # Lengths are bytes; ids are ASCII. The key is user, separator, memory id: 128 + 1 + 128.
    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False, description=space)
    schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=257)
    schema.add_field("user_id", DataType.VARCHAR, is_partition_key=True, max_length=128)
    schema.add_field("generation", DataType.VARCHAR, max_length=128)
    schema.add_field("type", DataType.INT8)
    schema.add_field("shard", DataType.INT8)
    schema.add_field("happened_at", DataType.INT64)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dim)
    client.create_collection(
        name, schema=schema, num_partitions=_PARTITIONS, consistency_level="Strong", timeout=_DDL_SECONDS
    )
