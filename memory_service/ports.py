"""What the use cases need from the outside, as contracts. Half of each is prose: it is what the adapters are held to.

The record's port is in `memory_service.record`, for its size. Every method may be cancelled at any await and must leave
its connection usable. No adapter waits longer than its own configured timeout. What a store's driver raises never
leaves an adapter: it is translated to `StoreUnavailable`.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from memory_service.domain.model import MemoryType, Shard, Vector


class StoreUnavailable(Exception):
    """A store or model did not answer, or answered that it cannot. `store`: record, index, cache or embedding.

    The text is for the log only; it may name hosts. The caller decides what that means for the answer.
    """

    def __init__(self, store: str, detail: str) -> None:
        super().__init__(f"{store}: {detail}")
        self.store = store


class Clock(Protocol):
    """Wall-clock time, microseconds since 1970-01-01 UTC."""

    def __call__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class IndexRow:
    """One vector as the index keeps it: ids, filters, vector; no text."""

    user_id: str
    memory_id: str
    generation: str
    type: MemoryType
    shard: Shard
    happened_at: int
    """Microseconds; `occurred_at`, or else `created_at`."""
    vector: Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexQuery:
    """A search among one user's vectors of one generation. An empty set means: no restriction."""

    user_id: str
    generation: str
    vector: Vector
    limit: int
    types: frozenset[MemoryType] = frozenset()
    shards: frozenset[Shard] = frozenset()
    happened_from: int | None = None
    """Inclusive, microseconds."""
    happened_until: int | None = None
    """Exclusive, microseconds."""


@dataclass(frozen=True, slots=True)
class IndexHit:
    """A vector found: raw cosine in the space, -1 to 1, higher is nearer."""

    memory_id: str
    cosine: float


@dataclass(frozen=True, slots=True, order=True)
class IndexKey:
    """Names one vector of one user."""

    user_id: str
    memory_id: str


class VectorIndex(Protocol):
    """A rebuildable index of vectors, one collection per embedding space. Never asked what is true, only what is near.

    Not promised: that a search sees an upsert or a delete at once, or that it finds every near vector. Promised: no hit
    of another user or generation, no hit twice, higher cosine first. Values are checked by the adapter, not left to the
    server: a vector of another dimension, with NaN or of zero length, or an id over 128 bytes raises ValueError and
    nothing of the call is written. A space's collection is made by its first upsert; a search in, scan of or delete
    from a space that has none finds nothing and is no error. A search with `limit` 0 finds nothing; above 16,384 it is
    clamped.
    """

    async def upsert(self, space: str, rows: Sequence[IndexRow]) -> None:
        """Writes the rows, replacing what has the same (user, memory id). Batched by bytes inside. Idempotent."""
        ...

    async def delete(self, space: str, keys: Sequence[IndexKey]) -> None:
        """Removes the vectors, absent ones too. Idempotent. An empty sequence does nothing (never "all")."""
        ...

    async def search(self, space: str, query: IndexQuery) -> list[IndexHit]:
        """The nearest vectors, at most `query.limit`, nearest first."""
        ...

    def scan(self, space: str) -> AsyncIterator[list[tuple[IndexKey, str]]]:
        """Every vector's key and generation, in pages, in no promised order; as fresh as the store can be (Strong)."""
        ...

    async def spaces(self) -> list[str]:
        """The spaces that have a collection."""
        ...

    async def drop(self, space: str) -> None:
        """Removes a space's collection. Idempotent."""
        ...

    async def ping(self) -> None:
        """A real, cheap round trip; raises StoreUnavailable."""
        ...

    async def close(self) -> None:
        """Frees connections. The index is not used afterwards."""
        ...


@dataclass(frozen=True, slots=True)
class CachedSet:
    """One user's active memories as the cache holds them: the state they were read in, and an opaque value per id."""

    generation: str
    version: int
    values: Mapping[str, bytes]


class SetCache(Protocol):
    """A cache of one user's active set. It may forget anything at any time, and is never believed without a check of
    (generation, version) against the record. Values are ciphertext already; the cache looks at none of them.
    """

    async def load(self, user_id: str) -> CachedSet | None:
        """The whole set, or None: not there, or not readable."""
        ...

    async def fill(self, user_id: str, entry: CachedSet) -> None:
        """Replaces the set, atomically, unless a newer version of the same generation is there. Sets the TTL anew."""
        ...

    async def drop(self, user_id: str) -> None:
        """Removes the set. Idempotent."""
        ...

    async def ping(self) -> None:
        """A real, cheap round trip; raises StoreUnavailable."""
        ...

    async def close(self) -> None:
        """Frees connections."""
        ...


class Embedder(Protocol):
    """A model that turns text into vectors. Answers the model's own vectors, of length 1, float32; centring and scales
    are the embedding space's.
    """

    @property
    def model(self) -> str:
        """Name of the model."""
        ...

    @property
    def dim(self) -> int:
        """Length of its vectors."""
        ...

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """One vector per text, in order. Texts are not empty; what is beyond the model's limit is cut off. Raises
        StoreUnavailable("embedding"). A provider that answers another number of vectors than asked, or another
        dimension, is asked text by text, and then that is raised: vectors are never shifted."""
        ...

    async def embed_query(self, text: str) -> Vector:
        """The vector of a query."""
        ...

    def cuts(self, text: str) -> bool:
        """True when the text is longer than what the model looks at, so that its vector is of a part only."""
        ...

    async def ping(self) -> None:
        """A real, cheap round trip; raises StoreUnavailable."""
        ...

    async def close(self) -> None:
        """Frees connections."""
        ...


class KeyProvider(Protocol):
    """Wraps users' data keys with key-encryption keys that never leave it. Several by id; one is current."""

    @property
    def current(self) -> str:
        """Id of the key that `wrap` uses."""
        ...

    def holds(self, kek_id: str) -> bool:
        """True when `unwrap` can open what that key wrapped."""
        ...

    def wrap(self, data_key: bytes, context: bytes) -> bytes:
        """Encrypts a 32-byte data key under the current key, bound to `context`."""
        ...

    def unwrap(self, kek_id: str, wrapped: bytes, context: bytes) -> bytes:
        """Opens what `wrap` made. KeyMissing when this installation does not hold that key, ValueError when the text is
        not what was wrapped with it."""
        ...


class KeyMissing(Exception):
    """A key-encryption key that wrapped data needs is not configured, or was retired."""

    def __init__(self, kek_id: str) -> None:
        super().__init__(f"key {kek_id} is missing")
        self.kek_id = kek_id
