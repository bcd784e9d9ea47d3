"""The rolling summary of a conversation: made by a model, checked, kept for minutes, grown with the conversation.

Owns when the model is asked: never twice at once for the same messages, never while it fails, never again soon for
messages whose summary was refused. What it may say is decided in `domain.summary`. Texts are kept in this process
alone, under their caller; a summary covers exactly the messages whose digest it is kept under, so that it can stand for
no others. That of a stored conversation is stored with it, and no text of it is kept here. Never raises: what goes
wrong is a reason.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assembler_service.domain.model import CountTokens, Language, Message, Summary, SummaryNeed, SummaryReason
from assembler_service.domain.summary import (
    check_summary,
    clean_summary,
    prefix_keys,
    summary_input,
    summary_language,
)
from assembler_service.domain.text import escape
from assembler_service.ports import Keep
from assembler_service.service.recent import Recent
from shared.llm import ChatModel, Completion, ModelTimeout, ModelUnavailable

REASONING_TOKENS: Final = 700
"""What the model may write beyond the cap: models that reason count that in, and an answer somewhat too long is told
from one that was cut off."""
FAILURES: Final = 3
PAUSE_SECONDS: Final = 10.0
"""After so many failures in a row the model is not asked for so long; then one call tries."""
REFUSED_SECONDS: Final = 60.0
"""So long the same messages are not summarised again after a summary of theirs was refused."""
_KEPT_CHARS: Final = 8_000
"""Longer summaries are used and not kept."""
_REFUSED_REASONS: Final = ("refusal", "content_filter")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a flight makes: a summary of `covered`, whose first `told` messages `previous` tells already."""

    caller: str
    need: SummaryNeed
    keys: Sequence[str]
    previous: str
    told: int
    keep: Keep | None = None

    @property
    def new(self) -> tuple[Message, ...]:
        return self.need.covered[self.told :]


class RollingSummarizer:
    """The port's implementation. For one event loop."""

    def __init__(
        self,
        model: ChatModel | None,
        template: Callable[[Language], str],
        *,
        timeout_seconds: float = 2.0,
        cache_seconds: float = 900.0,
        cache_entries: int = 1_000,
        enabled: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`template`: the summariser's prompt for a language. `cache_seconds` 0 = nothing is kept. Closes `model`."""
        self._model = model
        self._template = template
        self._timeout = timeout_seconds
        self._enabled = enabled
        self._kept: Recent[tuple[str, str], str] = Recent(cache_entries, cache_seconds, clock)
        self._refused: Recent[tuple[str, str, int], SummaryReason] = Recent(cache_entries, REFUSED_SECONDS, clock)
        self._flights: dict[tuple[str, str, int], asyncio.Task[Summary]] = {}
        self._storing: set[asyncio.Future[None]] = set()
        self._pause = _Pause(clock)
        self._closed = False

    async def summarize(
        self, caller: str, need: SummaryNeed, count: CountTokens, seconds: float, keep: Keep | None = None
    ) -> Summary:
        """See the port. A call that ends before its summary is made leaves the making under way, for the next one."""
        if not self._enabled:
            return Summary(reason=SummaryReason.DISABLED)
        if self._model is None:
            return Summary(reason=SummaryReason.NO_MODEL)
        if not need.covered:
            return Summary(reason=SummaryReason.NOT_NEEDED)
        try:
            async with asyncio.timeout(min(seconds, self._timeout)):
                return await self._found_or_made(self._model, caller, need, count, keep)
        except TimeoutError:
            return Summary(reason=SummaryReason.TIMEOUT)
        except Exception as error:
            return _unexpected(error)

    @property
    def busy(self) -> bool:
        """True while a summary is being made or stored."""
        return bool(self._flights or self._storing)

    async def close(self) -> None:
        """See the port. Who waits for a summary gets ERROR; one that is being stored is given up."""
        self._closed = True
        under_way: list[asyncio.Future[Any]] = [*self._flights.values(), *self._storing]
        for work in under_way:
            work.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        self._kept.clear()
        if self._model is not None:
            await self._model.close()

    async def _found_or_made(
        self, model: ChatModel, caller: str, need: SummaryNeed, count: CountTokens, keep: Keep | None
    ) -> Summary:
        before = () if keep is None else (keep.session_id, need.previous)
        keys = await asyncio.to_thread(prefix_keys, need.covered, *before)
        kept = self._kept.get((caller, keys[-1]))
        if kept is not None and _fits(kept, need, count):
            return Summary(kept, cached=True)
        place = (caller, keys[-1], need.cap)
        flight = self._flights.get(place)
        if flight is None:
            reason = self._refused.get(place) or self._pause.reason()
            if self._closed or reason:
                return Summary(reason=reason or SummaryReason.ERROR)
            previous, told = self._longest_kept(caller, keys) if keep is None else (need.previous, 0)
            wanted = _Wanted(caller, need, keys, previous, told, keep)
            flight = asyncio.ensure_future(self._flight(model, wanted, count))
            self._flights[place] = flight
            flight.add_done_callback(lambda landed: self._landed(place, landed, keep))
        await asyncio.wait({flight})  # not awaited itself: a caller that gives up must not end it for the others
        if flight.cancelled():
            return Summary(reason=SummaryReason.ERROR)
        made = flight.result()
        if made.text and not _fits(made.text, need, count):  # the others may count in another encoding
            return Summary(reason=SummaryReason.OVER_CAP)
        return made

    def _landed(self, place: tuple[str, str, int], flight: asyncio.Task[Summary], keep: Keep | None) -> None:
        """Forgets a flight; a summary that is to be stored is there for others until it is."""
        text = "" if keep is None or flight.cancelled() or self._closed else flight.result().text
        if keep is None or not text:
            self._flights.pop(place, None)
            return
        storing = asyncio.ensure_future(keep.store(text))
        self._storing.add(storing)

        def stored(_: asyncio.Future[None]) -> None:
            self._storing.discard(storing)
            self._flights.pop(place, None)

        storing.add_done_callback(stored)

    def _longest_kept(self, caller: str, keys: Sequence[str]) -> tuple[str, int]:
        """The summary kept for most of the first messages, not all, and how many it tells."""
        for told in range(len(keys) - 1, 0, -1):
            kept = self._kept.get((caller, keys[told - 1]))
            if kept is not None:
                return kept, told
        return "", 0

    async def _flight(self, model: ChatModel, wanted: _Wanted, count: CountTokens) -> Summary:
        place = (wanted.caller, wanted.keys[-1])
        try:
            async with asyncio.timeout(self._timeout):
                made = await self._ask(model, wanted, count)
        except (TimeoutError, ModelUnavailable) as error:
            late = isinstance(error, TimeoutError | ModelTimeout)
            reason = SummaryReason.TIMEOUT if late else SummaryReason.ERROR
            logger.warning("no summary: %s", "not in time" if isinstance(error, TimeoutError) else error)
            self._pause.failed(reason)
            return Summary(reason=reason)
        except Exception as error:
            return _unexpected(error)
        if made.reason:
            self._refused.put((*place, wanted.need.cap), made.reason)
            if wanted.told:  # what it grew from may be the cause: the next one begins anew
                self._kept.drop((wanted.caller, wanted.keys[wanted.told - 1]))
        elif wanted.keep is None and len(made.text) <= _KEPT_CHARS:
            self._kept.put(place, made.text)
        return made

    async def _ask(self, model: ChatModel, wanted: _Wanted, count: CountTokens) -> Summary:
        need = wanted.need
        template = self._template(summary_language(need.covered))
        # In a thread: a history may be megabytes long.
        system, user = await asyncio.to_thread(summary_input, template, wanted.new, wanted.previous, need.cap)
        answer = await model.complete(system, user, max_tokens=need.cap + REASONING_TOKENS, seconds=self._timeout)
        self._pause.answered()
        return await asyncio.to_thread(_judged, answer, wanted, count)


class _Pause:
    """Keeps a dead endpoint from costing every prompt the whole wait."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._until = 0.0
        self._reason = SummaryReason.NONE

    def reason(self) -> SummaryReason:
        """NONE where the model may be asked; else how it failed last. Once in a pause's length one may try."""
        now = self._clock()
        if self._failures < FAILURES:
            return SummaryReason.NONE
        if now < self._until:
            return self._reason
        self._until = now + PAUSE_SECONDS
        return SummaryReason.NONE

    def failed(self, reason: SummaryReason) -> None:
        """The model gave no answer."""
        self._failures += 1
        self._reason = reason
        self._until = self._clock() + PAUSE_SECONDS

    def answered(self) -> None:
        """It gave one."""
        self._failures = 0


def _judged(answer: Completion, wanted: _Wanted, count: CountTokens) -> Summary:
    if answer.finish_reason == "length":
        return Summary(reason=SummaryReason.LENGTH)
    if answer.finish_reason in _REFUSED_REASONS:
        return Summary(reason=SummaryReason.REFUSED)
    text = clean_summary(answer.text)
    reason = check_summary(text, wanted.new, wanted.previous, wanted.need.cap, count)
    return Summary(reason=reason) if reason else Summary(text)


def _fits(text: str, need: SummaryNeed, count: CountTokens) -> bool:
    return count(escape(text)) <= need.cap


def _unexpected(error: Exception) -> Summary:
    """A fault of ours: its kind is logged, not its text, which may hold the conversation's."""
    logger.error("no summary: %s", type(error).__name__)
    return Summary(reason=SummaryReason.ERROR)
