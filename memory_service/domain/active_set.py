"""One user's active memories at one version of the head: an immutable snapshot that is cheap to change and to search.

Arrays run in step with `ids`, so that filters and likeness are arithmetic over all memories at once. A change makes a
new snapshot; those in use stay as they are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.keywords import KeywordIndex, tokens
from memory_service.domain.model import Memory, MemoryType, Micros, Shard, Vector

NEVER = np.iinfo(np.int64).max
_OBJECT_BYTES = 1500
"""Rough size of a memory's Python objects beside its text and vector (measured with tracemalloc)."""


@dataclass(frozen=True, slots=True, eq=False)
class ActiveSet:
    """Snapshot of a user's active memories.

    Shapes, for n memories and vectors of length d: `matrix` (n, d) float32, rows of zeros where a memory has no vector
    in `space`; `embedded` (n,) bool; `types`, `shards` (n,) int8; `happened`, `expires` (n,) int64 microseconds.
    """

    generation: str
    version: int
    space: str
    memories: Mapping[str, Memory]
    ids: tuple[str, ...]
    rows: Mapping[str, int]
    """Where an id stands in the arrays."""
    by_hash: Mapping[bytes, str]
    matrix: NDArray[np.float32]
    embedded: NDArray[np.bool_]
    types: NDArray[np.int8]
    shards: NDArray[np.int8]
    happened: NDArray[np.int64]
    expires: NDArray[np.int64]
    keywords: KeywordIndex
    size_bytes: int

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(cls, memories: Iterable[Memory], *, generation: str, version: int, space: str) -> "ActiveSet":
        """A snapshot of these memories; retired ones are left out."""
        empty = cls(
            generation=generation,
            version=version,
            space=space,
            memories={},
            ids=(),
            rows={},
            by_hash={},
            matrix=np.zeros((0, 0), np.float32),
            embedded=np.zeros(0, np.bool_),
            types=np.zeros(0, np.int8),
            shards=np.zeros(0, np.int8),
            happened=np.zeros(0, np.int64),
            expires=np.zeros(0, np.int64),
            keywords=KeywordIndex.empty(),
            size_bytes=0,
        )
        return empty.changed(list(memories), version=version)

    def changed(self, rows: Sequence[Memory], *, version: int) -> "ActiveSet":
        """The snapshot after these rows: active ones are put in or replaced, retired ones go."""
        latest = {row.id: row for row in rows}
        gone = {id for id in latest if id in self.memories}
        keep = np.array([id not in gone for id in self.ids], dtype=np.bool_) if gone else np.ones(len(self), np.bool_)
        new = [row for row in latest.values() if row.active]
        memories = {id: memory for id, memory in self.memories.items() if id not in gone}
        memories.update((memory.id, memory) for memory in new)
        by_hash = {h: id for h, id in self.by_hash.items() if id not in gone} if gone else dict(self.by_hash)
        by_hash.update((memory.content_hash, memory.id) for memory in new)
        matrix, embedded = self._vectors(keep, new)
        return ActiveSet(
            generation=self.generation,
            version=version,
            space=self.space,
            memories=memories,
            ids=tuple(memories),
            rows={id: row for row, id in enumerate(memories)},
            by_hash=by_hash,
            matrix=matrix,
            embedded=embedded,
            types=np.concatenate([self.types[keep], np.array([m.type for m in new], np.int8)]),
            shards=np.concatenate([self.shards[keep], np.array([m.shard for m in new], np.int8)]),
            happened=np.concatenate([self.happened[keep], np.array([m.happened_at for m in new], np.int64)]),
            expires=np.concatenate([self.expires[keep], np.array([m.expires_at or NEVER for m in new], np.int64)]),
            keywords=self.keywords.changed([(m.id, tokens(m.content)) for m in new], gone),
            size_bytes=self.size_bytes + sum(_size(m) for m in new) - sum(_size(self.memories[id]) for id in gone),
        )

    def _vectors(self, keep: NDArray[np.bool_], new: Sequence[Memory]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        usable = [m.vector if m.space == self.space else None for m in new]
        width = self.matrix.shape[1] or next((len(v) for v in usable if v is not None), 0)
        kept = self.matrix[keep] if self.matrix.shape[1] else np.zeros((int(keep.sum()), width), np.float32)
        added = np.zeros((len(new), width), np.float32)
        for row, vector in enumerate(usable):
            if vector is not None:
                added[row] = vector
        embedded = np.concatenate([self.embedded[keep], np.array([v is not None for v in usable], np.bool_)])
        return np.concatenate([kept, added]), embedded

    def cosines(self, vector: Vector) -> NDArray[np.float32]:
        """(n,) raw cosines to a unit vector of this space; NaN where a memory has no vector."""
        if not self.embedded.any():
            return np.full(len(self), np.nan, np.float32)
        return np.where(self.embedded, self.matrix @ vector, np.nan).astype(np.float32)

    def mask(
        self,
        *,
        types: frozenset[MemoryType] = frozenset(),
        shards: frozenset[Shard] | None = None,
        happened_from: Micros | None = None,
        happened_until: Micros | None = None,
        now: Micros | None = None,
    ) -> NDArray[np.bool_]:
        """(n,) which memories fit. No types = all; shards None = all, an empty set = none; `now` leaves out expired."""
        fits = np.ones(len(self), np.bool_)
        if types:
            fits &= np.isin(self.types, [int(t) for t in types])
        if shards is not None:
            fits &= np.isin(self.shards, [int(s) for s in shards])
        if happened_from is not None:
            fits &= self.happened >= happened_from
        if happened_until is not None:
            fits &= self.happened < happened_until
        if now is not None:
            fits &= self.expires > now
        return fits


def _size(memory: Memory) -> int:
    vector = 0 if memory.vector is None else 2 * memory.vector.nbytes
    return _OBJECT_BYTES + 6 * len(memory.content) + vector
