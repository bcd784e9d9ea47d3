"""The one way in: a request and a token counter go in, a prompt that fits and its receipt come out.

Owns the promise: the tokens of what is returned, counted as a whole, are never over the limit. The plan is made by
adding; the rendered whole is counted, and while it is over, the next unit in the order of sacrifice goes.
"""

from collections.abc import Iterator

from assembler_service.domain.earlier import SUMMARY_MIN, summary_cap, summary_heading
from assembler_service.domain.filling import Filling, fixed_parts
from assembler_service.domain.history import fit_turns, message_tokens
from assembler_service.domain.layout import (
    closing,
    empty_memories,
    opening,
    question_content,
    render_text,
    summary_piece,
)
from assembler_service.domain.model import (
    PRIMING_TOKENS,
    Assembled,
    Citation,
    CountTokens,
    FixedPartsTooLarge,
    HistoryStrategy,
    Layout,
    MemoryType,
    Message,
    Request,
    Role,
    Summary,
    SummaryNeed,
    SummaryReason,
)
from assembler_service.domain.plan import PlacedSummary, Plan, give_up_next
from assembler_service.domain.prepared import Prepared, prepare
from assembler_service.domain.receipt import Rendered, write_report
from assembler_service.domain.text import clean, escape


def assemble(request: Request, count: CountTokens, summary: Summary | None = None) -> Assembled:
    """Puts a prompt together. Same arguments, same bytes. Raises FixedPartsTooLarge.

    `summary`: an accepted one for what `needs_summary` answered for this same request, or why there is none; None = not
    asked. It is placed only where it is still needed and within its cap; its text is escaped like any from outside.
    """
    prepared = prepare(request)
    limit = request.options.limit
    plan = Filling(prepared, count, limit).fill()
    outcome = Summary(reason=SummaryReason.DISABLED) if summary is None else summary
    need = _summary_need(prepared, plan, count)
    if isinstance(need, SummaryReason):
        outcome = Summary(reason=need)
    elif outcome.text:
        text = escape(clean(outcome.text))
        if not text:
            outcome = Summary(reason=SummaryReason.EMPTY)
        elif count(text) > need.cap:
            outcome = Summary(reason=SummaryReason.OVER_CAP)
        else:
            placed = PlacedSummary(summary_piece(text, prepared.frame), len(need.covered))
            plan = Filling(prepared, count, limit).fill(placed)
    rendered = _render(prepared, plan, count)
    while rendered.total > limit or rendered.text_tokens > limit:
        smaller = give_up_next(plan)
        if smaller is None:
            raise FixedPartsTooLarge(fixed_parts(prepared, count), limit)
        plan = smaller
        rendered = _render(prepared, plan, count)
    return Assembled(
        messages=rendered.messages,
        text=rendered.text,
        citations=_citations(request, plan),
        report=write_report(prepared, plan, rendered, outcome, count),
    )


def needs_summary(request: Request, count: CountTokens) -> SummaryNeed | SummaryReason:
    """What a summary would have to tell and in how many tokens, or why none is wanted. Raises FixedPartsTooLarge.

    One is wanted only when turns are cut off because the history, the stored summary in front of it, is over its share
    of tokens, never by their number, the strategy is not TRUNCATE, and nothing is missing before the history. The
    newest `verbatim_turns` turns stay as they are, as far as they fit beside a summary of min(`summary_max_tokens`,
    30 % of the share); all before them is covered.
    """
    prepared = prepare(request)
    return _summary_need(prepared, Filling(prepared, count, request.options.limit).fill(), count)


def _summary_need(prepared: Prepared, plan: Plan, count: CountTokens) -> SummaryNeed | SummaryReason:
    options, turns = prepared.options, prepared.turns
    if len(plan.turns) >= len(turns):
        return SummaryReason.NOT_NEEDED
    truncate = options.history_strategy is HistoryStrategy.TRUNCATE
    if truncate or prepared.request.earlier.missing:
        return SummaryReason.DISABLED if truncate else SummaryReason.INCOMPLETE
    heading = summary_heading(prepared.frame, count)
    cap = summary_cap(options, plan.history_room)
    if cap < SUMMARY_MIN:
        return SummaryReason.NO_ROOM
    newest = turns[-max(1, options.verbatim_turns) :]
    kept = fit_turns(newest, plan.history_room - cap - heading, prepared.frame, count).turns
    if plan.floor_turn is not None and not kept:
        return SummaryReason.NO_ROOM
    verbatim = turns[-max(1, len(kept))]
    first = verbatim.said[0].index
    if first == 0:
        return SummaryReason.NOT_NEEDED
    return SummaryNeed(prepared.request.history[:first], cap, prepared.language, prepared.request.earlier.summary)


def _citations(request: Request, plan: Plan) -> tuple[Citation, ...]:
    given = ((n, request.sources[placed.index]) for n, placed in enumerate(plan.sources, start=1))
    return tuple(Citation(n, source.id, source.title, source.uri) for n, source in given)


def _render(prepared: Prepared, plan: Plan, count: CountTokens) -> Rendered:
    """Writes a plan down and counts it: every message as a whole, and the text as a whole."""
    question = question_content(prepared.question, prepared.frame, cite=bool(plan.sources))
    messages = (
        Message(Role.SYSTEM, "".join(_system_pieces(prepared, plan))),
        *(said.message for turn in plan.turns for said in turn.said),
        Message(Role.USER, question),
    )
    text = render_text(prepared.system_piece, messages)
    total = sum(message_tokens(message, count) for message in messages) + PRIMING_TOKENS
    return Rendered(messages, text, total, count(text))


def _system_pieces(prepared: Prepared, plan: Plan) -> Iterator[str]:
    yield prepared.system_piece
    profile = "" if plan.profile is None else plan.profile.piece
    if prepared.options.layout is Layout.CACHE_FRIENDLY:
        yield profile
        yield from _memories(prepared, plan)
        yield from _sources(prepared, plan)
        yield from _computations(prepared, plan)
    else:
        yield from _sources(prepared, plan)
        yield from _computations(prepared, plan)
        yield from _memories(prepared, plan)
        yield profile
    if plan.summary is not None:
        yield plan.summary.piece


def _sources(prepared: Prepared, plan: Plan) -> Iterator[str]:
    if plan.sources:
        yield opening("sources", prepared.frame.sources)
        yield from (placed.piece for placed in plan.sources)
        yield closing("sources")


def _computations(prepared: Prepared, plan: Plan) -> Iterator[str]:
    if plan.computations:
        yield opening("computations", prepared.frame.computations)
        yield from (placed.piece(prepared.frame) for placed in plan.computations)
        yield closing("computations")


def _memories(prepared: Prepared, plan: Plan) -> Iterator[str]:
    if not plan.memories:
        yield empty_memories(prepared.frame)
        return
    yield opening("memories", prepared.frame.memories)
    for group in MemoryType:
        lines = [memory.piece for memory in plan.memories if memory.type is group]
        if lines:
            yield f"{prepared.frame.groups[group]}\n"
            yield from lines
    yield closing("memories")
