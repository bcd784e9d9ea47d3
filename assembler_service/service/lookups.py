"""Lookups: what the assembler fetches for its caller. All at once, each by itself: one that fails leaves its block out.

Owns which are made, how long they may take and how the question becomes a query. A profile comes with the service that
holds it; until then asking for one answers UNSUPPORTED.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Final

from assembler_service.domain.model import MemoryItem, MemoryType, Options
from assembler_service.ports import LookupFailed, LookupStatus, Memories, Recollection
from assembler_service.service.sessions import NOT_TAKEN, Session, Sessions
from shared.context import time_left
from shared.telemetry import Telemetry

SHARE_OF_TIME: Final = 0.5
"""The most of the call's time that goes to lookups: the rest is for the summary and for putting together."""
QUERY_BYTES: Final = 1_200
"""A query's length in UTF-8: 400 Chinese characters, or 200 English words. The embedding model reads no more than about
512 tokens from the start, and its time grows with them: 8,000 characters cost 0.7 to 1.3 s on a busy laptop, the whole
of a lookup's time."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a request wants looked up."""

    top_k: int
    types: tuple[MemoryType, ...] = ()
    shards: tuple[int, ...] = ()
    session_id: str = ""
    """The conversation whose history is wanted. Empty = none."""
    profile: bool = False


@dataclass(frozen=True, slots=True)
class LookupReport:
    """How one lookup went. `name`: memories, history, profile."""

    name: str
    status: LookupStatus
    items: int = 0
    milliseconds: int = 0
    omitted: int = 0
    """How many it could not give."""


@dataclass(frozen=True, slots=True)
class Found:
    """What lookups gave."""

    memories: tuple[MemoryItem, ...] = ()
    session: Session | None = None
    """None = none was wanted, or it could not be had."""
    reports: tuple[LookupReport, ...] = ()


class Lookups:
    """Makes lookups. `memories` None: this deployment has no MemoryService, and looking there is an error like any."""

    def __init__(
        self, memories: Memories | None, sessions: Sessions, timeout_seconds: float, telemetry: Telemetry
    ) -> None:
        self._memories = memories
        self._sessions = sessions
        self._timeout = timeout_seconds
        self._telemetry = telemetry

    async def fetch(self, question: str, wanted: Wanted, options: Options) -> Found:
        """Everything that is wanted, at once, for a prompt with these options. Never raises but at a cancellation."""
        left = time_left()
        seconds = self._timeout if left is None else min(self._timeout, left * SHARE_OF_TIME)
        (memories, report), (session, *told) = await asyncio.gather(
            self._recall(question, wanted, seconds), self._history(wanted, options, seconds)
        )
        profile = [LookupReport("profile", LookupStatus.UNSUPPORTED)] if wanted.profile else []
        return Found(memories, session, (report, *told, *profile))

    async def _recall(
        self, question: str, wanted: Wanted, seconds: float
    ) -> tuple[tuple[MemoryItem, ...], LookupReport]:
        started = time.perf_counter()
        asked = Recollection(query=query_of(question), top_k=wanted.top_k, types=wanted.types, shards=wanted.shards)
        found: tuple[MemoryItem, ...] = ()
        with self._telemetry.store_span("lookup.memories", top_k=wanted.top_k) as span:
            try:
                if self._memories is None:
                    raise LookupFailed(LookupStatus.ERROR)
                found = tuple(await self._memories.recall(asked, seconds))
                status = LookupStatus.OK
            except LookupFailed as error:
                status = error.status
                log.warning("the lookup of memories failed: %s", error.status.name)
            span.set_attribute("status", status.name)
            span.set_attribute("items", len(found))
        spent = round((time.perf_counter() - started) * 1000)
        return found, LookupReport("memories", status, len(found), spent)

    async def _history(
        self, wanted: Wanted, options: Options, seconds: float
    ) -> tuple[Session | None, *tuple[LookupReport, ...]]:
        if not wanted.session_id:
            return (None,)
        started = time.perf_counter()
        session = None
        with self._telemetry.store_span("lookup.history") as span:
            try:
                session = await self._sessions.read(wanted.session_id, options, seconds)
                status = LookupStatus.OK
            except LookupFailed as error:
                status = error.status
                log.warning("the lookup of a conversation failed: %s", error.status.name)
            items, omitted = (len(session.messages), session.omitted) if session else (0, 0)
            span.set_attributes({"status": status.name, "items": items, "omitted": omitted})
        spent = round((time.perf_counter() - started) * 1000)
        return session, LookupReport("history", status, items, spent, omitted)


def query_of(question: str) -> str:
    """The question as RecallMemories takes it: without characters it refuses; of a long one beginning and end, where
    what is asked stands."""
    query = NOT_TAKEN.sub(" ", question)
    raw = query.encode()
    if len(raw) <= QUERY_BYTES:
        return query
    half = QUERY_BYTES // 2
    return "\n".join(part.decode(errors="ignore") for part in (raw[:half], raw[-half:]))
