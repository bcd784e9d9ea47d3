"""Lookups: what the assembler fetches for its caller. All at once, each by itself: one that fails leaves its block out.

Owns which are made, how long they may take and how the question becomes a query. History and profile come with the
services that hold them; until then asking for one answers UNSUPPORTED.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Final

import regex

from assembler_service.domain.model import MemoryItem, MemoryType
from assembler_service.ports import LookupFailed, LookupStatus, Memories, Recollection
from shared.context import time_left
from shared.telemetry import Telemetry

SHARE_OF_TIME: Final = 0.5
"""The most of the call's time that goes to lookups: the rest is for the summary and for putting together."""
_NOT_TAKEN: Final = regex.compile(r"[[\p{Cc}\p{Cs}\p{Noncharacter_Code_Point}]--[\t\n\r]]", regex.V1)
"""What RecallMemories refuses in a query."""
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
    history: bool = False
    profile: bool = False


@dataclass(frozen=True, slots=True)
class LookupReport:
    """How one lookup went. `name`: memories, history, profile."""

    name: str
    status: LookupStatus
    items: int = 0
    milliseconds: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """What lookups gave."""

    memories: tuple[MemoryItem, ...] = ()
    reports: tuple[LookupReport, ...] = ()


class Lookups:
    """Makes lookups. `memories` None: this deployment has no MemoryService, and looking there is an error like any."""

    def __init__(self, memories: Memories | None, timeout_seconds: float, telemetry: Telemetry) -> None:
        self._memories = memories
        self._timeout = timeout_seconds
        self._telemetry = telemetry

    async def fetch(self, question: str, wanted: Wanted) -> Found:
        """Everything that is wanted, at once. Never raises but at a cancellation."""
        left = time_left()
        seconds = self._timeout if left is None else min(self._timeout, left * SHARE_OF_TIME)
        (memories, report), *others = await asyncio.gather(
            self._recall(question, wanted, seconds),
            *(
                _unsupported(name)
                for name, asked in (("history", wanted.history), ("profile", wanted.profile))
                if asked
            ),
        )
        return Found(memories, (report, *(other for _, other in others)))

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


async def _unsupported(name: str) -> tuple[tuple[MemoryItem, ...], LookupReport]:
    return (), LookupReport(name, LookupStatus.UNSUPPORTED)


def query_of(question: str) -> str:
    """The question as RecallMemories takes it: without characters it refuses; of a long one beginning and end, where
    what is asked stands."""
    query = _NOT_TAKEN.sub(" ", question)
    raw = query.encode()
    if len(raw) <= QUERY_BYTES:
        return query
    half = QUERY_BYTES // 2
    return "\n".join(part.decode(errors="ignore") for part in (raw[:half], raw[-half:]))
