"""The ports of conversations: sessions, their messages, and the jobs that extract memories from them.

As in `record`: text is sealed before it comes here, rows of another generation do not exist, and when the database is
away it is `StoreUnavailable("record", ...)`. Positions count a user's turns over all sessions, turns and message
numbers (`seq`) one session's, all from 1; they are given while the user's head is held, so that none is given twice.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """A conversation as it is stored. Times in microseconds UTC."""

    user_id: str
    generation: str
    session_id: str
    uid: str
    """A UUIDv7: tells the session from one with the same id that was deleted before."""
    turns: int
    messages: int
    """Number of the last message."""
    channel: str
    created_at: int
    last_turn_at: int
    changed: int
    """The user's position at the last turn: the greater, the later the session was active."""
    summary: bytes | None = None
    summary_until: int = 0
    """Number of the last message that the summary covers; 0 = there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow:
    """A message as it is stored, text and tool data sealed."""

    user_id: str
    generation: str
    session_id: str
    seq: int
    turn: int
    message_id: str
    role: str
    content: bytes
    created_at: int
    tool_data: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceRow:
    """A part of a message that has a vector of its own: characters `begins` to before `ends`. For searching only."""

    user_id: str
    id: str
    generation: str
    session_id: str
    seq: int
    number: int
    begins: int
    ends: int
    created_at: int
    """The message's."""
    embedding: bytes | None = None
    embedding_space: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTurn:
    """What a transaction writes for one turn; messages carry their final `turn` and `seq`."""

    session: SessionRow
    """As it is after the turn; `changed` is set by the record."""
    messages: Sequence[MessageRow]
    pieces: Sequence[PieceRow]
    time_zone: str
    """IANA name; in which the turn's relative dates are meant."""
    extract: bool = True
    """False = no job."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """What went with a session."""

    messages: int
    memories: int


class ConversationWrite(Protocol):
    """A user's conversations within one transaction that holds the head: `UserWrite.conversations`."""

    async def session(self, session_id: str) -> SessionRow | None:
        """The session, or None."""
        ...

    async def known_ids(self, session_id: str, message_ids: Sequence[str]) -> set[str]:
        """Those of these message ids that the session has already."""
        ...

    async def append(self, turn: NewTurn) -> int:
        """Writes session, messages, pieces (into the outbox too) and the PENDING job; answers the turn's position."""
        ...

    async def save_summary(self, session_id: str, sealed: bytes, until: int) -> None:
        """Stores the rolling summary of a session that exists."""
        ...

    async def delete(self, session_id: str) -> Deleted:
        """Deletes the session's rows in every table, and the memories whose source it is, active and retired; has
        their vectors removed. An extraction that is under way cannot be finished any more. A session that is not
        there is no error."""
        ...

    async def embed(self, vectors: Mapping[str, bytes], space: str) -> None:
        """Gives pieces, by id, their sealed vectors in a space; pieces that are gone are passed over."""
        ...

    async def piece_ids(self) -> list[str]:
        """The ids of all the user's pieces."""
        ...

    async def enqueue(self, piece_ids: Sequence[str]) -> None:
        """Puts pieces into the outbox; a line that is there becomes new."""
        ...


class Conversations(Protocol):
    """Reading conversations. Single statements on the primary; they see every commit that was answered."""

    async def session(self, user_id: str, generation: str, session_id: str) -> SessionRow | None:
        """The session, or None."""
        ...

    async def sessions(self, user_id: str, generation: str, before: int | None, limit: int) -> list[SessionRow]:
        """Sessions by falling `changed`, below `before`; without summaries."""
        ...

    async def states(self, user_id: str, generation: str) -> dict[str, tuple[str, int]]:
        """(uid, turns) of every session, by id: what a searcher's copy is checked against."""
        ...

    async def newest(
        self, user_id: str, generation: str, session_id: str, limit: int, before_turn: int | None = None
    ) -> list[MessageRow]:
        """The last messages of a session (of turns below `before_turn`), at most `limit`, oldest first."""
        ...

    async def turn(self, user_id: str, generation: str, session_id: str, turn: int) -> list[MessageRow]:
        """The messages of one turn, in order; none when it was deleted."""
        ...

    async def since(
        self, user_id: str, generation: str, session_id: str, after_turn: int
    ) -> tuple[list[MessageRow], list[PieceRow]]:
        """Messages and pieces, with vectors, of the turns after one, in order."""
        ...

    async def piece_ids(self, user_id: str, generation: str) -> list[str]:
        """The ids of all the user's pieces."""
        ...

    async def pieces(self, user_id: str, generation: str, ids: Sequence[str]) -> list[tuple[PieceRow, MessageRow]]:
        """Those of these pieces that exist, each with its message."""
        ...


class PieceUpkeep(Protocol):
    """Walks over all users' pieces, for the operator's commands and the reconciler; as `record.Upkeep`."""

    def scan_pieces(self, after: tuple[str, str], limit: int) -> AsyncIterator[list[PieceRow]]:
        """All pieces of present generations by (user, id), in pages, from behind `after`."""
        ...

    async def present_pieces(self, keys: Sequence[tuple[str, str]], space: str) -> dict[tuple[str, str], str]:
        """Which of these are pieces of the present generation with a vector in this space: their generation."""
        ...

    async def piece_count(self) -> int:
        """How many pieces there are."""
        ...


class ExtractionState(IntEnum):
    """How far the extraction of a turn is."""

    PENDING = 1
    RUNNING = 2
    DONE = 3
    DEAD = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionJob:
    """A claim on the extraction of one turn."""

    user_id: str
    generation: str
    position: int
    session_id: str
    turn: int
    time_zone: str
    created_at: int
    """When the turn was stored, microseconds."""
    attempts: int
    """Claims so far, this one counted."""
    lease: int
    """Token of this claim; whoever lost it cannot write any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionRow:
    """An extraction as it is stored; its outcome sealed."""

    user_id: str
    generation: str
    position: int
    session_id: str
    turn: int
    state: ExtractionState
    attempts: int
    error: str
    """A code such as PARSE_FAILED, never text of a turn or of a model. Empty = none."""
    outcome: bytes | None
    prompt_version: str
    model: str
    created_at: int
    due_at: int
    finished_at: int | None


@dataclass(frozen=True, slots=True)
class ExtractionKey:
    """Names one extraction among all users'."""

    user_id: str
    generation: str
    position: int


@dataclass(frozen=True, slots=True)
class ExtractionStats:
    """Extractions by the name of their state, and the age of the oldest unfinished one in microseconds."""

    counts: Mapping[str, int] = field(default_factory=dict)
    oldest: int = 0


class Extractions(Protocol):
    """The worker's side of the extraction jobs. Finishing one is part of the result's transaction:
    `UserWrite.finish_extraction`."""

    async def claim(self, lease: int, limit: int = 1) -> list[ExtractionJob]:
        """Claims due jobs for `lease` microseconds, at most one of a user: the first unfinished one. One whose claim
        ran out is due again. A dead one holds nobody up."""
        ...

    async def renew(self, job: ExtractionJob, lease: int) -> bool:
        """Extends the claim to `lease` microseconds from now; False when it is lost."""
        ...

    async def postpone(self, job: ExtractionJob, delay: int, error: str) -> bool:
        """Gives the claim back, due again after `delay` microseconds; False when it is lost."""
        ...

    async def bury(self, job: ExtractionJob, error: str) -> bool:
        """Ends the job as DEAD, its turn kept; False when the claim is lost."""
        ...

    async def get(self, user_id: str, generation: str, session_id: str, turn: int) -> ExtractionRow | None:
        """The extraction of a turn, or None."""
        ...

    async def failed(self, after: ExtractionKey | None, limit: int) -> list[ExtractionRow]:
        """Dead jobs of present generations by (user, generation, position), from behind `after`."""
        ...

    async def retry(self, keys: Sequence[ExtractionKey] | None) -> int:
        """Makes dead jobs (None = all) PENDING and due, their attempts forgotten; answers how many were dead."""
        ...

    async def stats(self) -> ExtractionStats:
        """How many there are and how late the queue is."""
        ...
