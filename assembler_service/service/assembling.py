"""AssemblePrompt: looks up, plans, asks for a summary where one is wanted, and answers the prompt with its receipt.

Owns the order of these and the time of each. What is kept and what goes is decided in `domain`. The prompt without a
summary is made first: whatever the summariser does, an answer is at hand.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from assembler_service.domain.assemble import assemble, needs_summary
from assembler_service.domain.model import (
    Assembled,
    CountTokens,
    Request,
    Summary,
    SummaryNeed,
    SummaryReason,
)
from assembler_service.ports import LookupStatus, Summarizer
from assembler_service.service.desk import Desk
from assembler_service.service.encodings import APPROXIMATE_MARGIN, Encodings, message_chars
from assembler_service.service.lookups import LookupReport, Lookups, Wanted
from assembler_service.service.measures import Measures
from assembler_service.service.sessions import Session, Sessions
from shared.context import time_left
from shared.telemetry import Telemetry

NO_FAILURE: Final = frozenset(
    {
        SummaryReason.NONE,
        SummaryReason.NOT_NEEDED,
        SummaryReason.DISABLED,
        SummaryReason.NO_MODEL,
        SummaryReason.NO_ROOM,
    }
)
"""Reasons for no summary that are nobody's fault."""
_RESERVE_SECONDS: Final = 0.05
_WANTED: Final = Summary(reason=SummaryReason.NO_MODEL)
"""Given to `assemble`, it comes back in the report exactly where a summary was wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCall:
    """What a caller asks for. `caller` names whose conversation it is."""

    caller: str
    request: Request
    encoding: str = ""
    model: str = ""
    safety_margin: float | None = None
    """None = by the model."""
    lookup: Wanted | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt and how it came about."""

    id: str
    assembled: Assembled
    lookups: tuple[LookupReport, ...]
    degraded: bool
    encoding: str


class Assembling:
    """The use case."""

    def __init__(
        self,
        *,
        encodings: Encodings,
        lookups: Lookups,
        sessions: Sessions,
        summarizer: Summarizer | SummaryReason,
        summary_seconds: float,
        desk: Desk,
        measures: Measures,
        telemetry: Telemetry,
        new_id: Callable[[], str],
    ) -> None:
        """`summarizer`: one, or the reason why this deployment has none. `summary_seconds`: the most one may take."""
        self._encodings = encodings
        self._lookups = lookups
        self._sessions = sessions
        self._summarizer = summarizer
        self._summary_seconds = summary_seconds
        self._desk = desk
        self._measures = measures
        self._telemetry = telemetry
        self._new_id = new_id

    async def prompt(self, call: PromptCall) -> Prompt:
        """Puts a prompt together. Raises FixedPartsTooLarge; a lookup or a summary that fails is only reported."""
        encoding, approximate = self._encodings.choose(call.encoding, call.model)
        margin = call.safety_margin
        if margin is None:
            margin = APPROXIMATE_MARGIN if approximate else 0.0
        request = replace(call.request, options=replace(call.request.options, safety_margin=margin))
        lookups: tuple[LookupReport, ...] = ()
        session = None
        if call.lookup is not None:
            found = await self._lookups.fetch(request.question, call.lookup, request.options)
            lookups, session = found.reports, found.session
            request = replace(request, memories=found.memories)
            if session is not None:
                request = replace(request, history=session.messages, earlier=session.earlier)
        made = await self._made(call, request, session, encoding)
        prompt = Prompt(
            id=self._new_id(),
            assembled=made,
            lookups=lookups,
            degraded=any(lookup.status is not LookupStatus.OK or lookup.omitted for lookup in lookups)
            or made.report.summary.reason not in NO_FAILURE,
            encoding=encoding,
        )
        self._measures.prompt(prompt.id, made.report, lookups, dry_run=call.dry_run)
        return prompt

    async def _made(self, call: PromptCall, request: Request, session: Session | None, encoding: str) -> Assembled:
        chars = request_chars(request)
        started = time.perf_counter()
        first = self._encodings.chars(encoding, chars)
        summarizer = SummaryReason.DISABLED if call.dry_run else self._summarizer
        if isinstance(summarizer, SummaryReason):
            none = Summary(reason=summarizer)
            return await self._desk.run(first, lambda: assemble(request, self._encodings.counter(encoding), none))
        count, plain, need = await self._desk.run(first, lambda: self._plain(request, encoding))
        if need is None:
            return plain
        # To put the summary in takes about as long as the prompt without it did.
        reserve = _RESERVE_SECONDS + 1.5 * (time.perf_counter() - started)
        left = time_left()
        seconds = self._summary_seconds if left is None else min(self._summary_seconds, left - reserve)
        summary = Summary(reason=SummaryReason.TIMEOUT)
        if seconds > 0:
            with self._telemetry.store_span("summary", covered_messages=len(need.covered), cap=need.cap) as span:
                keep = None if session is None else self._sessions.keep(session, len(need.covered))
                summary = await summarizer.summarize(call.caller, need, count, seconds, keep)
                span.set_attribute("outcome", summary.reason.name if not summary.text else "MADE")
                span.set_attribute("cached", summary.cached)
        if not summary.text:
            return _without_summary(plain, summary.reason)
        return await self._desk.run(chars, lambda: assemble(request, count, summary))

    def _plain(self, request: Request, encoding: str) -> tuple[CountTokens, Assembled, SummaryNeed | None]:
        """The counter, the prompt without a summary, and what a summary would have to be where one is wanted."""
        count = self._encodings.counter(encoding)
        made = assemble(request, count, _WANTED)
        if made.report.summary.reason is not _WANTED.reason:
            return count, made, None
        need = needs_summary(request, count)
        return count, made, need if isinstance(need, SummaryNeed) else None


def _without_summary(made: Assembled, reason: SummaryReason) -> Assembled:
    """The prompt with the reason for no new summary in its receipt; an empty one without a reason counts as EMPTY."""
    said = replace(made.report.summary, reason=reason or SummaryReason.EMPTY)
    return replace(made, report=replace(made.report, summary=said))


def request_chars(request: Request) -> int:
    """About how much text a request holds, in characters."""
    return (
        len(request.system_prompt)
        + len(request.user_profile)
        + len(request.question)
        + sum(len(source.text) for source in request.sources)
        + sum(len(computation.text) for computation in request.computations)
        + sum(len(memory.content) for memory in request.memories)
        + sum(map(message_chars, request.history))
        + len(request.earlier.summary)
    )
