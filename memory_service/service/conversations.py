"""Conversations: storing turns, reading them back, their rolling summary, deleting them, and what was extracted.

A turn and its extraction job are one transaction under the user's head, so turn numbers have no gap and no turn is
without its job. Refuses to search (`history`) and to extract. Session state is not kept in Redis: one indexed read of
the session's row would be needed to validate it, and that read is the state.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from uuid_utils import uuid7

from memory_service.conversation_ports import (
    Conversations,
    ExtractionRow,
    Extractions,
    MessageRow,
    NewTurn,
    PieceRow,
    SessionRow,
)
from memory_service.domain.conversation import Cleaned, Extracted, Message, Session, cleaned, whole_turns
from memory_service.domain.model import ReasonCode
from memory_service.domain.pieces import pieces
from memory_service.ports import Clock
from memory_service.record import Record, UserWrite
from memory_service.service.active import ActiveSets
from memory_service.service.calls import Caller, Mutation
from memory_service.service.embedding import Embeddings
from memory_service.service.turns import open_message, open_outcome, open_session, seal_message, seal_summary
from memory_service.service.vault import Keyring, UserKey
from memory_service.service.writer import Writer
from shared.errors import Aborted, FailedPrecondition, InvalidArgument, NotFound, Violation

log = logging.getLogger(__name__)

MAX_MESSAGES = 1000
"""Messages of one answer."""
FIRST_READ = 64
"""Messages read at first for a budget of tokens; then twice as many, until it is spent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn to store."""

    session_id: str
    messages: Sequence[Message]
    channel: str
    time_zone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSummary:
    """A rolling summary to store, where the present one still ends at `expected`."""

    session_id: str
    text: str
    until: int
    expected: int


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of a turn; `turn` 0 = nothing was left of it. (id, stored, rule) of each message."""

    turn: int
    messages: Sequence[tuple[str, bool, ReasonCode | None]]


@dataclass(frozen=True, slots=True)
class History:
    """The last messages of a session; `session` None = there is no such session."""

    session: Session | None
    messages: Sequence[Message]


@dataclass(frozen=True, slots=True)
class Extraction:
    """What became of the extraction of a turn."""

    row: ExtractionRow
    extracted: Extracted


class Converse:
    """The use cases of ConversationService but the search."""

    def __init__(
        self,
        *,
        record: Record,
        conversations: Conversations,
        extractions: Extractions,
        keyring: Keyring,
        writer: Writer,
        active: ActiveSets,
        embeddings: Embeddings,
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        self._record = record
        self._conversations = conversations
        self._extractions = extractions
        self._keyring = keyring
        self._writer = writer
        self._active = active
        self._embeddings = embeddings
        self._clock = clock
        self._wake = wake
        """Called when there is something to embed, and something to extract."""

    async def append(self, caller: Caller, turn: Turn, call: Mutation) -> Appended:
        """Stores a turn. FailedPrecondition when one of its message ids is in the session already."""
        given = [replace(m, message_id=m.message_id or str(uuid7())) for m in turn.messages]
        left = cleaned(given)
        kept = [one.message for one in left if one.message is not None]
        if not kept:
            return Appended(0, _fates(turn.messages, left, {}))
        spans = [pieces(message.content) for message in kept]

        async def work(tx: UserWrite, key: UserKey) -> Mapping[str, Any]:
            await self._refuse_known(tx, turn.session_id, kept)
            session = self._after(await tx.conversations.session(turn.session_id), turn, key, len(kept))
            numbered = [
                replace(m, session_id=turn.session_id, turn=session.turns, seq=session.messages - len(kept) + n)
                for n, m in enumerate(kept, start=1)
            ]
            rows = [seal_message(key, message) for message in numbered]
            parts = [piece for row, ends in zip(rows, spans, strict=True) for piece in _piece_rows(row, ends)]
            await tx.conversations.append(
                NewTurn(session=session, messages=rows, pieces=parts, time_zone=turn.time_zone)
            )
            ids = {str(n): one.message.message_id for n, one in enumerate(left) if one.message is not None}
            return {"turn": session.turns, "ids": ids}

        outcome = await self._writer.beside(caller, call, work, new_in=self._embeddings.current)
        self._wake()
        return Appended(int(outcome["turn"]), _fates(turn.messages, left, outcome["ids"]))

    def _after(self, before: SessionRow | None, turn: Turn, key: UserKey, messages: int) -> SessionRow:
        """The session's row as the turn leaves it."""
        now = self._clock()
        if before is None:
            return SessionRow(
                user_id=key.user_id,
                generation=key.generation,
                session_id=turn.session_id,
                uid=str(uuid7()),
                turns=1,
                messages=messages,
                channel=turn.channel,
                created_at=now,
                last_turn_at=now,
                changed=0,
            )
        return replace(
            before,
            turns=before.turns + 1,
            messages=before.messages + messages,
            channel=turn.channel or before.channel,
            last_turn_at=now,
        )

    @staticmethod
    async def _refuse_known(tx: UserWrite, session_id: str, messages: Sequence[Message]) -> None:
        known = await tx.conversations.known_ids(session_id, [message.message_id for message in messages])
        if known:
            first = min(known)
            raise FailedPrecondition(
                f"The session has a message {first} already.", reason="MESSAGE_EXISTS", metadata={"message_id": first}
            )

    async def history(self, caller: Caller, session_id: str, most: int, budget: int | None) -> History:
        """The last `most` messages, or the last whole turns of at most `budget` tokens among them."""
        head = await self._record.head(caller.user_id)
        row = await self._conversations.session(caller.user_id, head.generation, session_id) if head else None
        if head is None or row is None:
            return History(None, ())
        key = await self._keyring.get(caller.user_id, head.generation)
        size = most if budget is None else min(FIRST_READ, most)
        while True:
            # One more than wanted: it tells whether the first turn is whole.
            rows = await self._conversations.newest(caller.user_id, head.generation, session_id, size + 1)
            messages = [open_message(key, one) for one in rows]
            before = messages[0].turn if len(messages) > size else 0
            messages = messages[-size:]
            if budget is None:
                return History(open_session(key, row), messages)
            whole = whole_turns(messages, budget)
            if len(whole) < len(messages) or not before:
                return History(open_session(key, row), whole)
            if size >= most:
                return History(open_session(key, row), [m for m in whole if m.turn != before])
            size = min(2 * size, most)

    async def save_summary(self, caller: Caller, summary: NewSummary, call: Mutation) -> int:
        """Stores a summary; answers where it ends. NotFound, Aborted, InvalidArgument (`until` beyond the session)."""
        session_id = summary.session_id
        if await self._session(caller, session_id) is None:
            raise _no_session(session_id)

        async def work(tx: UserWrite, key: UserKey) -> Mapping[str, Any]:
            session = await tx.conversations.session(session_id)
            if session is None:
                raise _no_session(session_id)
            if session.summary_until != summary.expected:
                raise Aborted(
                    f"The summary ends at message {session.summary_until} by now: read the history again.",
                    reason="SUMMARY_MOVED",
                    metadata={"summary_until": str(session.summary_until)},
                )
            if summary.until > session.messages:
                what = f"must not be beyond the session's last message, {session.messages}"
                raise InvalidArgument([Violation("summary_until", what)])
            sealed = seal_summary(key, session.uid, summary.text)
            await tx.conversations.save_summary(session_id, sealed, summary.until)
            return {"until": summary.until}

        outcome = await self._writer.beside(caller, call, work, new_in=self._embeddings.current)
        return int(outcome["until"])

    async def sessions(self, caller: Caller, before: int | None, limit: int) -> list[SessionRow]:
        """Sessions by last activity, the latest first; `before` = `changed` of the last one that was seen."""
        head = await self._record.head(caller.user_id)
        if head is None:
            return []
        return await self._conversations.sessions(caller.user_id, head.generation, before, limit)

    async def delete(self, caller: Caller, session_id: str, call: Mutation) -> tuple[int, int]:
        """Deletes a session and the memories from it; answers how many messages and memories went."""
        if await self._record.head(caller.user_id) is None:
            return 0, 0

        async def work(tx: UserWrite, key: UserKey) -> Mapping[str, Any]:
            deleted = await tx.conversations.delete(session_id)
            if deleted.memories:
                # Rows that are gone cannot be followed: whoever holds an older state reads all anew.
                await tx.set_head(version=tx.head.version + 1, reset=True)
            return {"messages": deleted.messages, "memories": deleted.memories}

        outcome = await self._writer.beside(caller, call, work, new_in=self._embeddings.current)
        self._wake()
        if outcome["memories"]:
            await self._active.changed(caller.user_id)
        return int(outcome["messages"]), int(outcome["memories"])

    async def extraction(self, caller: Caller, session_id: str, turn: int) -> Extraction:
        """The extraction of a turn; 0 = the last one. NotFound."""
        head = await self._record.head(caller.user_id)
        if head is not None and turn == 0:
            session = await self._conversations.session(caller.user_id, head.generation, session_id)
            turn = session.turns if session else 0
        row = await self._extractions.get(caller.user_id, head.generation, session_id, turn) if head else None
        if head is None or row is None:
            raise NotFound(f"There is no turn {turn} in a session {session_id}.", reason="TURN_NOT_FOUND")
        key = await self._keyring.get(caller.user_id, head.generation)
        return Extraction(row, open_outcome(key, row.position, row.outcome) if row.outcome else Extracted())

    async def _session(self, caller: Caller, session_id: str) -> SessionRow | None:
        head = await self._record.head(caller.user_id)
        if head is None:
            return None
        return await self._conversations.session(caller.user_id, head.generation, session_id)


def _no_session(session_id: str) -> NotFound:
    return NotFound(f"There is no session {session_id}.", reason="SESSION_NOT_FOUND")


def _piece_rows(row: MessageRow, spans: Sequence[tuple[int, int]]) -> list[PieceRow]:
    return [
        PieceRow(
            user_id=row.user_id,
            id=str(uuid7()),
            generation=row.generation,
            session_id=row.session_id,
            seq=row.seq,
            number=number,
            begins=begin,
            ends=end,
            created_at=row.created_at,
        )
        for number, (begin, end) in enumerate(spans)
    ]


def _fates(
    given: Sequence[Message], left: Sequence[Cleaned], ids: Mapping[str, str]
) -> list[tuple[str, bool, ReasonCode | None]]:
    """What became of each message, with the id it was stored under, or the caller's."""
    return [
        (ids.get(str(n), message.message_id), one.message is not None, one.rule)
        for n, (message, one) in enumerate(zip(given, left, strict=True))
    ]
