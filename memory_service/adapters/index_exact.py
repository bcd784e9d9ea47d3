"""The vector index in memory: exact cosine over one user's vectors, and the rules on values that every index keeps.

Owns the reference answers of the port `VectorIndex` and the checks of ids and vectors (`checked_rows` and its like; the
Milvus adapter uses them too). Refuses to own persistence, approximation and any knowledge of what a memory says.
"""

import math
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memory_service.domain.model import Vector
from memory_service.ports import IndexHit, IndexKey, IndexQuery, IndexRow

MAX_LIMIT = 16_384
"""Most hits of one search, and most rows of one answer: the limit of a Milvus server."""

_PAGE = 1_000
_INT64 = 1 << 63
_ID = re.compile(r"[A-Za-z0-9._:@+=/|-]{1,128}")


def checked_id(value: str) -> str:
    """Answers `value`; raises ValueError unless it is 1 to 128 characters of `A-Z a-z 0-9 . _ : @ + = / | -`.

    An allow-list, so that no id can end a literal in a filter expression or carry a separator.
    """
    if not _ID.fullmatch(value):
        raise ValueError(f"not an id: {value[:40]!r}")
    return value


def unit_vector(vector: ArrayLike) -> Vector:
    """The vector at length 1, float32; raises ValueError if it has another rank than 1, NaN, infinity or length 0."""
    wide = np.asarray(vector, dtype=np.float64)
    length = float(np.linalg.norm(wide))
    if wide.ndim != 1 or not math.isfinite(length) or length <= 0:
        raise ValueError("not a vector of finite, positive length")
    return (wide / length).astype(np.float32)


def checked_rows(rows: Sequence[IndexRow]) -> tuple[list[IndexRow], int]:
    """Checks every value and answers the rows with vectors of length 1, and their dimension (0 without rows).

    Of rows with an equal key only the last stays: a store that is handed both in one call may keep both. Raises
    ValueError on the first value that is wrong, so that nothing of a call is written.
    """
    kept: dict[tuple[str, str], IndexRow] = {}
    dim = 0
    for row in rows:
        vector = unit_vector(row.vector)
        dim = dim or len(vector)
        if len(vector) != dim:
            raise ValueError(f"vectors of {dim} and of {len(vector)} dimensions in one call")
        if not -_INT64 <= row.happened_at < _INT64:
            raise ValueError("happened_at is not a 64-bit number")
        checked_id(row.generation)
        kept[checked_id(row.user_id), checked_id(row.memory_id)] = replace(row, vector=vector)
    return list(kept.values()), dim


def checked_query(query: IndexQuery) -> IndexQuery:
    """Answers the query with its vector at length 1 and its limit between 0 and `MAX_LIMIT`; raises ValueError."""
    checked_id(query.user_id)
    checked_id(query.generation)
    limit = max(0, min(query.limit, MAX_LIMIT))
    return replace(query, vector=unit_vector(query.vector), limit=limit)


def checked_keys(keys: Sequence[IndexKey]) -> list[IndexKey]:
    """The keys, each once, in order; raises ValueError."""
    for key in keys:
        checked_id(key.user_id)
        checked_id(key.memory_id)
    return list(dict.fromkeys(keys))


@dataclass(frozen=True, slots=True)
class _Columns:
    """One user's rows as arrays, in order of memory id, so that equal cosines keep that order."""

    ids: list[str]
    generations: NDArray[np.str_]
    types: NDArray[np.int64]
    shards: NDArray[np.int64]
    happened: NDArray[np.int64]
    vectors: NDArray[np.float32]


class _Shelf:
    """One user's rows in one space; the columns are built at the first search after a change."""

    __slots__ = ("_columns", "rows")

    def __init__(self) -> None:
        self.rows: dict[str, IndexRow] = {}
        self._columns: _Columns | None = None

    def put(self, row: IndexRow) -> None:
        self.rows[row.memory_id] = row
        self._columns = None

    def remove(self, memory_id: str) -> None:
        self.rows.pop(memory_id, None)
        self._columns = None

    def columns(self) -> _Columns:
        if self._columns is None:
            rows = [self.rows[key] for key in sorted(self.rows)]
            self._columns = _Columns(
                ids=[row.memory_id for row in rows],
                generations=np.array([row.generation for row in rows]),
                types=np.array([row.type for row in rows], dtype=np.int64),
                shards=np.array([row.shard for row in rows], dtype=np.int64),
                happened=np.array([row.happened_at for row in rows], dtype=np.int64),
                vectors=np.stack([row.vector for row in rows]),
            )
        return self._columns


@dataclass(slots=True)
class _Space:
    dim: int
    shelves: dict[str, _Shelf]


class ExactIndex:
    """`VectorIndex` by exact cosine in NumPy, per space and user. A write is seen by the very next search.

    Caveats: it is one process's memory, empty after a restart (`memory-service reindex` or the reconciler fills it),
    and two replicas do not share it. The embedded default needs none of this: its recall is exact over the record. A
    search takes time in proportion to the user's vectors (0.07 ms for 2,000 of 384 dimensions); a component takes 8
    bytes, 4 in its row and 4 in the columns that are searched.
    """

    def __init__(self) -> None:
        self._spaces: dict[str, _Space] = {}

    async def upsert(self, space: str, rows: Sequence[IndexRow]) -> None:
        """See `VectorIndex.upsert`; all or nothing."""
        checked, dim = checked_rows(rows)
        if not checked:
            return
        home = self._spaces.setdefault(space, _Space(dim, {}))
        _same_dim(home.dim, dim)
        for row in checked:
            home.shelves.setdefault(row.user_id, _Shelf()).put(row)

    async def delete(self, space: str, keys: Sequence[IndexKey]) -> None:
        """See `VectorIndex.delete`."""
        checked = checked_keys(keys)
        if (home := self._spaces.get(space)) is None:
            return
        for key in checked:
            if (shelf := home.shelves.get(key.user_id)) is not None:
                shelf.remove(key.memory_id)
                if not shelf.rows:
                    del home.shelves[key.user_id]

    async def search(self, space: str, query: IndexQuery) -> list[IndexHit]:
        """See `VectorIndex.search`; finds every vector there is, equal cosines in order of memory id."""
        query = checked_query(query)
        if (home := self._spaces.get(space)) is None:
            return []
        _same_dim(home.dim, len(query.vector))
        if (shelf := home.shelves.get(query.user_id)) is None:
            return []
        columns = shelf.columns()
        chosen = np.flatnonzero(_mask(columns, query))
        cosines = np.clip(columns.vectors[chosen] @ query.vector, -1.0, 1.0)
        best = np.argsort(-cosines, kind="stable")[: query.limit]
        return [IndexHit(columns.ids[chosen[i]], float(cosines[i])) for i in best]

    async def scan(self, space: str) -> AsyncIterator[list[tuple[IndexKey, str]]]:
        """See `VectorIndex.scan`; the state at the first page."""
        if (home := self._spaces.get(space)) is None:
            return
        rows = [row for shelf in home.shelves.values() for row in shelf.rows.values()]
        for start in range(0, len(rows), _PAGE):
            page = rows[start : start + _PAGE]
            yield [(IndexKey(row.user_id, row.memory_id), row.generation) for row in page]

    async def spaces(self) -> list[str]:
        """See `VectorIndex.spaces`."""
        return sorted(self._spaces)

    async def drop(self, space: str) -> None:
        """See `VectorIndex.drop`."""
        self._spaces.pop(space, None)

    async def ping(self) -> None:
        """Always succeeds: there is no store to be away."""

    async def close(self) -> None:
        """Forgets everything."""
        self._spaces.clear()


def _same_dim(dim: int, other: int) -> None:
    if dim != other:
        raise ValueError(f"a vector of {other} dimensions in a space of {dim}")


def _mask(columns: _Columns, query: IndexQuery) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = columns.generations == query.generation
    if query.types:
        mask &= np.isin(columns.types, list(query.types))
    if query.shards:
        mask &= np.isin(columns.shards, list(query.shards))
    if query.happened_from is not None:
        mask &= columns.happened >= query.happened_from
    if query.happened_until is not None:
        mask &= columns.happened < query.happened_until
    return mask
