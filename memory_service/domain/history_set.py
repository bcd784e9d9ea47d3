"""What a search in the past looks through: one user's messages, with their words and the vectors of their pieces.

An immutable snapshot, valid for the (uid, turns) of each session that it holds. A change makes a new one; those in use
stay as they are. Arrays run in step with `messages`, which stand session after session, each in order.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.conversation import Message
from memory_service.domain.history_search import best_of_pieces
from memory_service.domain.keywords import KeywordIndex, tokens
from memory_service.domain.model import Vector

_MESSAGE_BYTES = 1200
"""Rough size of a message's Python objects and of its words in the index, beside its text and vectors."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A piece of a message: its id, its text's place, and its vector while it has one."""

    id: str
    begins: int
    ends: int
    vector: Vector | None = None


@dataclass(frozen=True, slots=True, eq=False)
class HeldMessage:
    """A message and its pieces."""

    message: Message
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True, eq=False)
class HeldSession:
    """The messages of one session, in order, up to a turn."""

    uid: str
    turns: int
    messages: tuple[HeldMessage, ...]


@dataclass(frozen=True, slots=True, eq=False)
class HistorySet:
    """Snapshot of a user's messages. See the module."""

    generation: str
    space: str
    sessions: Mapping[str, HeldSession] = field(default_factory=dict)
    messages: tuple[Message, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    """Row by key, which the keyword index knows messages by."""
    session_of: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    created: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    piece_ids: tuple[str, ...] = ()
    """Of the pieces that have a vector; in step with `message_of` and `matrix`."""
    message_of: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    matrix: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    bare: tuple[tuple[Piece, Message], ...] = ()
    """Pieces without a vector, the latest turns first."""
    keywords: KeywordIndex = field(default_factory=KeywordIndex.empty)
    size_bytes: int = 0

    def __len__(self) -> int:
        return len(self.messages)

    def changed(self, sessions: Mapping[str, HeldSession], gone: Iterable[str]) -> "HistorySet":
        """The snapshot with these sessions put in or grown, and without those that are gone or begun anew."""
        kept = {id: held for id, held in self.sessions.items() if id not in set(gone)}
        before = {key(m.message) for id, held in kept.items() for m in held.messages if _same(sessions.get(id), held)}
        now = kept | dict(sessions)
        ordered = [m for held in now.values() for m in held.messages]
        after = {key(m.message) for m in ordered}
        words = [(key(m.message), tokens(m.message.content)) for m in ordered if key(m.message) not in before]
        keywords = self.keywords.changed(words, [known for known in self.rows if known not in after])
        return _arranged(self.generation, self.space, now, keywords)

    def with_vectors(self, vectors: Mapping[str, Vector]) -> "HistorySet":
        """The snapshot in which pieces, by id, have got vectors."""
        if not vectors:
            return self
        touched = {message.session_id for piece, message in self.bare if piece.id in vectors}
        sessions = {id: _given(held, vectors) if id in touched else held for id, held in self.sessions.items()}
        return _arranged(self.generation, self.space, sessions, self.keywords)

    def similarities(self, cosines: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n,) the best of each message's pieces, of (pieces,) numbers; NaN where a message has none."""
        return best_of_pieces(cosines, self.message_of, len(self))

    def by_key(self, scores: Mapping[str, float]) -> NDArray[np.float64]:
        """(n,) numbers that the keyword index answered by key; 0 where it answered none."""
        found = np.zeros(len(self))
        for known, score in scores.items():
            found[self.rows[known]] = score
        return found


def key(message: Message) -> str:
    """Names a message among all the user's; no id has a blank."""
    return f"{message.session_id} {message.message_id}"


def _same(new: HeldSession | None, old: HeldSession) -> bool:
    """True when the new state of a session still has the messages of the old one."""
    return new is None or new.uid == old.uid


def _given(held: HeldSession, vectors: Mapping[str, Vector]) -> HeldSession:
    messages = tuple(
        HeldMessage(m.message, tuple(Piece(p.id, p.begins, p.ends, vectors.get(p.id, p.vector)) for p in m.pieces))
        for m in held.messages
    )
    return HeldSession(held.uid, held.turns, messages)


def _arranged(generation: str, space: str, sessions: Mapping[str, HeldSession], keywords: KeywordIndex) -> HistorySet:
    ordered = [m for held in sessions.values() for m in held.messages]
    numbers = [n for n, held in enumerate(sessions.values()) for _ in held.messages]
    vectors = [(piece, row) for row, m in enumerate(ordered) for piece in m.pieces if piece.vector is not None]
    bare = [(piece, m.message) for m in ordered for piece in m.pieces if piece.vector is None]
    matrix = _stacked([piece.vector for piece, _ in vectors if piece.vector is not None])
    texts = sum(len(m.message.content) for m in ordered)
    return HistorySet(
        generation=generation,
        space=space,
        sessions=sessions,
        messages=tuple(m.message for m in ordered),
        rows={key(m.message): row for row, m in enumerate(ordered)},
        session_of=np.array(numbers, np.int64),
        created=np.array([m.message.created_at for m in ordered], np.int64),
        piece_ids=tuple(piece.id for piece, _ in vectors),
        message_of=np.array([row for _, row in vectors], np.int64),
        matrix=matrix,
        bare=tuple(sorted(bare, key=lambda one: -one[1].created_at)),
        keywords=keywords,
        size_bytes=_MESSAGE_BYTES * len(ordered) + 6 * texts + 2 * matrix.nbytes,
    )


def _stacked(vectors: Sequence[Vector]) -> NDArray[np.float32]:
    return np.stack(vectors).astype(np.float32) if vectors else np.zeros((0, 0), np.float32)
