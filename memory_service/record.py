"""The port of the system of record: what must hold for whichever database stands behind it.

All text in a row is sealed before it comes here; the record opens nothing. It owns atomicity, the lock on a user's head
and the UNIQUE constraint. It does not decide: rows come in as the domain wants them.

Errors: `StoreUnavailable("record", ...)` when the database cannot be reached or does not answer in time; nothing was
written then, unless the connection broke during the commit itself, when nobody can know (a `request_id` makes the
repeat safe). Deadlocks and lock timeouts are repeated inside, bounded, and do not reach a caller otherwise.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol, TypeVar

from memory_service.conversation_ports import ConversationWrite
from memory_service.domain.model import Head, InvalidReason, MemoryType, Shard

T = TypeVar("T")

IDEMPOTENCY_WINDOW = 24 * 3600 * 1_000_000
"""Microseconds for which the outcome of a call with a request id is remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """A memory as it is stored: text and vector sealed, the rest in clear. Times in microseconds UTC."""

    user_id: str
    id: str
    generation: str
    type: int
    shard: int
    content_hmac: bytes
    content: bytes
    created_at: int
    valid_from: int
    revision: int
    event_key: str = ""
    attributes: bytes | None = None
    quote: bytes | None = None
    embedding: bytes | None = None
    embedding_space: str | None = None
    session_id: str = ""
    message_id: str = ""
    role: str = ""
    channel: str = ""
    occurred_at: int | None = None
    last_accessed_at: int | None = None
    access_count: int = 0
    pinned: bool = False
    time_slice: str = ""
    valid_to: int | None = None
    invalidated_at: int = 0
    invalid_reason: int = 0
    superseded_by: str | None = None
    expires_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirement:
    """One row on its way out: why, for whom and when."""

    id: str
    reason: InvalidReason
    at: int
    superseded_by: str | None = None
    valid_to: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """Which rows of a user to list. Empty or None = no restriction; `active` None = both."""

    types: frozenset[MemoryType] = frozenset()
    shards: frozenset[Shard] = frozenset()
    session_id: str = ""
    active: bool | None = True
    created_from: int | None = None
    """Inclusive."""
    created_until: int | None = None
    """Exclusive."""


@dataclass(frozen=True, slots=True)
class Counters:
    """How often and when last a row was accessed."""

    count: int
    last: int | None


class VectorKind(IntEnum):
    """What a vector is of."""

    MEMORY = 1
    PIECE = 2


@dataclass(frozen=True, slots=True)
class OutboxItem:
    """A claim on one line of the outbox: make the index agree with the record for this memory, or piece."""

    user_id: str
    memory_id: str
    token: int
    """Changes whenever the line is written anew: `settle` with an old token leaves the line pending."""
    attempts: int
    kind: VectorKind = VectorKind.MEMORY


@dataclass(frozen=True, slots=True)
class OutboxStats:
    """Lines not settled yet, and the age of the oldest in microseconds."""

    rows: int
    oldest: int


class JobKind(IntEnum):
    """What a job does."""

    REINDEX = 1
    RECONCILE = 2


class JobState(IntEnum):
    """How far a job is."""

    PENDING = 1
    RUNNING = 2
    SUCCEEDED = 3
    FAILED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A piece of long work. `cursor` is the worker's own bookmark, so that it goes on where it was."""

    id: str
    kind: JobKind
    state: JobState
    payload: Mapping[str, Any]
    created_at: int
    finished_at: int | None = None
    done: int = 0
    total: int = 0
    cursor: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    error: str = ""
    attempts: int = 0
    lease: int = 0
    """Token of the present claim; a worker that lost it cannot write progress any more."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """The first outcome of a mutating call: a keyed hash of its arguments, and ids and codes only."""

    args_hmac: bytes
    outcome: Mapping[str, Any]


class UserWrite(Protocol):
    """One transaction over one user's rows. The head is held until it ends; all reads see what it wrote."""

    @property
    def head(self) -> Head:
        """The head as it was taken."""
        ...

    @property
    def conversations(self) -> ConversationWrite:
        """The user's conversations, in this same transaction."""
        ...

    async def active_rows(self, since: int | None = None) -> list[MemoryRow]:
        """All active rows; with `since`, the rows (active or not) whose revision is above it instead."""
        ...

    async def rows(self, ids: Sequence[str]) -> list[MemoryRow]:
        """Those of these rows that exist in the head's generation, in no promised order."""
        ...

    async def counters(self) -> dict[str, Counters]:
        """The access counters of all active rows, by id."""
        ...

    async def insert(self, rows: Sequence[MemoryRow]) -> None:
        """Adds rows. An active one whose `content_hmac` is active already raises DuplicateContent."""
        ...

    async def retire(self, retirements: Sequence[Retirement], revision: int) -> None:
        """Ends active rows; those that are retired already stay as they are."""
        ...

    async def revive(self, id: str, revision: int, now: int) -> None:
        """Makes a retired row active again and counts that as an access. DuplicateContent as with `insert`."""
        ...

    async def amend(self, id: str, revision: int, values: Mapping[str, Any]) -> None:
        """Sets columns of one row in place: pinned, attributes, expires_at, embedding, embedding_space."""
        ...

    async def enqueue(self, ids: Sequence[str]) -> None:
        """Puts memories into the outbox; a line that is there becomes new."""
        ...

    async def finish_extraction(
        self, position: int, lease: int, outcome: bytes, prompt_version: str, model: str
    ) -> bool:
        """Makes a claimed extraction DONE, with its sealed outcome; False when the claim is lost: whoever asked must
        raise then, so that nothing of the result is written."""
        ...

    async def set_head(self, *, version: int, space: str | None = None, reset: bool = False) -> None:
        """Writes the head's version; `reset` also makes it the reset version."""
        ...

    async def recall_outcome(self, rpc: str, request_id: str) -> Remembered | None:
        """What an earlier call with this request id answered, within its 24 hours."""
        ...

    async def remember_outcome(self, rpc: str, request_id: str, outcome: Remembered) -> None:
        """Keeps the outcome in this same transaction."""
        ...


class DuplicateContent(Exception):
    """An active row with this content exists already: the UNIQUE constraint said so."""


class Record(Protocol):
    """The users' rows. Reads are single statements on the primary and see every commit that was answered."""

    async def head(self, user_id: str) -> Head | None:
        """The user's head, or None: this user has nothing."""
        ...

    async def active_rows(self, user_id: str, generation: str, since: int | None = None) -> list[MemoryRow]:
        """As UserWrite.active_rows, outside a transaction. May see commits later than a head that was read before."""
        ...

    async def rows(self, user_id: str, generation: str, ids: Sequence[str]) -> list[MemoryRow]:
        """Those of these rows that exist in this generation."""
        ...

    async def page(
        self, user_id: str, generation: str, which: RowFilter, before: str | None, limit: int
    ) -> list[MemoryRow]:
        """Rows by falling id, below `before`; without embeddings. An expired row is no active one."""
        ...

    async def write(
        self, proposal: Head, work: Callable[[UserWrite], Awaitable[T]], *, seconds: float | None = None
    ) -> T:
        """Takes the head (made from `proposal` where the user has none) and runs `work` in its transaction.

        `seconds` is for work that takes longer than the usual time limit of the store.
        Commits when `work` returns; rolls back when it raises, and raises that. `work` is run again after a deadlock:
        it must not change anything outside the transaction.
        """
        ...

    async def touch(self, accesses: Mapping[tuple[str, str], Counters]) -> None:
        """Adds to counters by (user, memory id): `count` more, `last` if later. Takes no head; retired rows too."""
        ...

    async def close(self) -> None:
        """Frees connections."""
        ...

    async def ping(self) -> None:
        """A real, cheap round trip."""
        ...


class Outbox(Protocol):
    """The worker's side of the outbox. A line may be claimed twice; what it asks for is idempotent."""

    async def claim(self, limit: int, lease: int, kind: VectorKind | None = None) -> list[OutboxItem]:
        """Due lines (of this kind), oldest first, and not due again for `lease` microseconds."""
        ...

    async def settle(self, items: Sequence[OutboxItem]) -> None:
        """Marks lines as done. They are kept for `purge`: see `recent`."""
        ...

    async def postpone(self, items: Sequence[OutboxItem], delay: int) -> None:
        """Makes lines due again after `delay` microseconds, and counts the attempt."""
        ...

    async def enqueue(self, keys: Sequence[tuple[str, str]], kind: VectorKind = VectorKind.MEMORY) -> None:
        """Puts (user, id) into the outbox, outside a user's transaction."""
        ...

    async def recent(self, user_id: str, kind: VectorKind = VectorKind.MEMORY) -> set[str]:
        """The user's ids of that kind whose vectors the index may not show yet: pending, or settled and not purged."""
        ...

    async def purge(self, settled_before: int) -> int:
        """Forgets lines that were settled before that instant."""
        ...

    async def stats(self) -> OutboxStats:
        """How much is waiting."""
        ...


class Jobs(Protocol):
    """Durable long work."""

    async def create(self, job: Job, actor: str, request_id: str) -> Job:
        """Stores a job; with a request id that this actor used for this kind in the last 24 hours, answers that job."""
        ...

    async def get(self, job_id: str) -> Job | None:
        """The job, or None."""
        ...

    async def claim(self, lease: int, job_id: str | None = None) -> Job | None:
        """The oldest due job (or this one), for `lease` microseconds, or None."""
        ...

    async def progress(self, job: Job, lease: int) -> bool:
        """Stores cursor, done and total and extends the claim; False when the claim is lost."""
        ...

    async def postpone(self, job: Job, delay: int, error: str) -> bool:
        """Gives the claim back, due again after `delay` microseconds; False when it is lost."""
        ...

    async def finish(self, job: Job) -> bool:
        """Stores state, counts and error; False when the claim is lost."""
        ...

    async def purge(self, finished_before: int) -> int:
        """Forgets jobs that ended before that instant."""
        ...

    async def counts(self) -> dict[str, int]:
        """Jobs by the name of their state."""
        ...


class Upkeep(Protocol):
    """Walks over all users, for the operator's commands and the sweeper. Slow ones page; none holds a lock for long."""

    def scan_active(self, after: tuple[str, str], limit: int) -> AsyncIterator[list[MemoryRow]]:
        """All active rows of present generations by (user, id), in pages, from behind `after`."""
        ...

    async def present(self, keys: Sequence[tuple[str, str]], space: str) -> dict[tuple[str, str], str]:
        """Which of these are active rows of the present generation with a vector in this space: their generation."""
        ...

    async def heads_not_in(self, space: str, after: str, limit: int) -> list[Head]:
        """Heads in another embedding space, by user id."""
        ...

    async def expired(self, now: int, limit: int) -> list[str]:
        """Users that have an active row whose `expires_at` has passed."""
        ...

    async def purge(self, *, outcomes_before: int, retired_before: int | None) -> int:
        """Deletes remembered outcomes and, unless None, rows retired before an instant."""
        ...

    async def totals(self) -> Mapping[str, int]:
        """users, active, retired, unembedded."""
        ...

    async def spaces(self) -> dict[str, int]:
        """Users by embedding space."""
        ...


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting that was changed at run time."""

    name: str
    value: str


class SettingStore(Protocol):
    """The tunables that were changed at run time, with their history."""

    async def load(self) -> tuple[dict[str, str], str]:
        """Values by name, and their etag."""
        ...

    async def save(
        self, changes: Mapping[str, str | None], *, etag: str, actor: str, at: int, request_id: str
    ) -> tuple[dict[str, str], str]:
        """Sets or (None) removes values, keeps who changed what, and answers the new state. A stale etag (not empty)
        raises EtagMismatch. A repeated request id of this actor changes nothing, and raises RequestReused when it
        came with other changes."""
        ...


class EtagMismatch(Exception):
    """Somebody else changed it meanwhile."""


class RequestReused(Exception):
    """The request id belongs to a call with other arguments."""


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """A data key as it is stored."""

    user_id: str
    generation: str
    kek_id: str
    wrapped: bytes


class KeyStore(Protocol):
    """The wrapped data keys, in the record's database or one of their own."""

    async def put(self, key: WrappedKey) -> WrappedKey:
        """Stores it unless (user, generation) is there; answers what is there now."""
        ...

    async def get(self, user_id: str, generation: str) -> WrappedKey | None:
        """The key, or None."""
        ...

    async def kek_ids(self) -> dict[str, int]:
        """Keys by the key-encryption key that wraps them."""
        ...

    async def not_under(self, kek_id: str, limit: int) -> list[WrappedKey]:
        """Some keys that are wrapped by another one."""
        ...

    async def rewrap(self, old: WrappedKey, new: WrappedKey) -> bool:
        """Replaces `old`, if it is still what is stored."""
        ...

    async def close(self) -> None:
        """Frees connections."""
        ...
