"""Conversations that MemoryService keeps: what of one goes into a prompt, and its summary, which is stored there.

Owns how much of a conversation is asked for, which messages the stored summary leaves over, and that storing a new one
never delays or fails a prompt. Keeps nothing: a summary is MemoryService's to keep (assembler.md §4).
"""

import logging
import time
from dataclasses import dataclass, field
from typing import Final

import regex

from assembler_service.domain.model import Earlier, HistoryStrategy, Message, Options, Overflow
from assembler_service.ports import (
    Conversations,
    Keep,
    LookupFailed,
    LookupStatus,
    NewSummary,
    StoredHistory,
    SummaryMoved,
)
from shared.context import deadline_anew
from shared.telemetry import Telemetry

MAX_MESSAGES: Final = 1_000
"""The most GetHistory answers."""
STORE_SECONDS: Final = 5.0
"""The most the storing of a summary may take. Nobody waits for it."""
MAX_TOKENS: Final = 2**31 - 1
MAX_SUMMARY: Final = 20_000
"""Characters SaveSessionSummary takes."""
NOT_TAKEN: Final = regex.compile(r"[[\p{Cc}\p{Cs}\p{Noncharacter_Code_Point}]--[\t\n\r]]", regex.V1)
"""What MemoryService refuses in a text."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What of a conversation goes into a prompt: the messages after the stored summary, and what came before them."""

    id: str
    numbers: tuple[int, ...] = ()
    """numbers[i] is that of messages[i] in the conversation."""
    messages: tuple[Message, ...] = ()
    earlier: Earlier = field(default_factory=Earlier)
    until: int = 0
    """Number of the last message that the stored summary stands for."""
    omitted: int = 0
    """How many messages are neither here nor told by the summary, though they might be wanted."""


class Sessions:
    """Reads conversations and stores their summaries. `conversations` None: this deployment has none to ask."""

    def __init__(self, conversations: Conversations | None, telemetry: Telemetry) -> None:
        self._conversations = conversations
        self._telemetry = telemetry

    async def read(self, session_id: str, options: Options, seconds: float) -> Session:
        """A conversation as a prompt with these options needs it. Raises LookupFailed."""
        if self._conversations is None:
            raise LookupFailed(LookupStatus.ERROR)
        found = await self._newest(self._conversations, session_id, options, seconds)
        if options.history_strategy is HistoryStrategy.TRUNCATE:  # no summary: what was summed up counts as words again
            kept, earlier, omitted = found.messages, Earlier(), 0
        else:
            kept = tuple((number, message) for number, message in found.messages if number > found.until)
            earlier, omitted = Earlier(found.summary, found.until, found.omitted), found.omitted
        return Session(
            id=session_id,
            numbers=tuple(number for number, _ in kept),
            messages=tuple(message for _, message in kept),
            earlier=earlier,
            until=found.until,
            omitted=omitted,
        )

    async def _newest(
        self, conversations: Conversations, session_id: str, options: Options, seconds: float
    ) -> StoredHistory:
        """First what can be in the prompt, several times over: while a summary is kept up to date, all that it does not
        tell is among it. Only where it is not, as much as can be had: a new summary is made from all of it.
        """
        started = time.perf_counter()
        found = await conversations.history(session_id, MAX_MESSAGES, _several_times(options), seconds)
        truncate = options.history_strategy is HistoryStrategy.TRUNCATE
        enough = bool(found.messages) if truncate else not found.omitted
        if enough or not found.total:
            return found
        try:
            left = seconds - (time.perf_counter() - started)
            return await conversations.history(session_id, MAX_MESSAGES, None, left)
        except LookupFailed:
            return found  # the newest turns, and it says how much is missing

    def keep(self, session: Session, covered: int) -> Keep:
        """Where the next summary of a conversation goes, one that tells the first `covered` messages of `session` and
        what came before them.
        """
        until = session.numbers[covered - 1]

        async def store(text: str) -> None:
            with self._telemetry.store_span("summary.store", covered_messages=covered) as span:
                with deadline_anew(STORE_SECONDS):
                    outcome = await self._stored(session, NOT_TAKEN.sub(" ", text), until)
                span.set_attribute("outcome", outcome)

        return Keep(session.id, store)

    async def _stored(self, session: Session, text: str, until: int) -> str:
        """Stores a summary; answers what became of it. Never raises but at a cancellation."""
        if self._conversations is None or len(text) > MAX_SUMMARY:
            log.warning("a summary of %d characters was not stored", len(text))
            return "TOO_LONG"
        summary = NewSummary(session_id=session.id, text=text, until=until, expected=session.until)
        try:
            await self._conversations.save_summary(summary, STORE_SECONDS)
        except SummaryMoved:  # another prompt of the same conversation was faster
            return "MOVED"
        except LookupFailed as error:
            log.warning("a summary was not stored: %s", error.status.name)
            return error.status.name
        except Exception as error:  # a fault of ours; its text may hold the conversation's
            log.error("a summary was not stored: %s", type(error).__name__)
            return "ERROR"
        return "STORED"


def _several_times(options: Options) -> int:
    """Tokens to ask for: four times what the history may have, for MemoryService counts too many rather than too few,
    tool calls may go before words do, and a few turns came since the last summary.
    """
    elastic = options.overflow is Overflow.ELASTIC
    return min(MAX_TOKENS, 4 * (options.total_max_tokens if elastic else options.history_max_tokens) + 2_000)
