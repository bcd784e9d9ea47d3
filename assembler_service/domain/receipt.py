"""The receipt: what became of every item, and tokens per block that add up to the total.

Owns the accounting only; everything was decided before.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from assembler_service.domain.history import message_tokens
from assembler_service.domain.layout import (
    Words,
    closing,
    computation_piece,
    computation_title,
    opening,
    profile_piece,
    question_content,
    source_heading,
    source_piece,
    summary_piece,
)
from assembler_service.domain.model import (
    MESSAGE_TOKENS,
    PROFILE_MAX,
    Block,
    BlockReport,
    CountTokens,
    HistoryStrategy,
    ItemReport,
    Layout,
    Message,
    Reason,
    Report,
    Status,
    Summary,
    SummaryReason,
    SummaryReport,
)
from assembler_service.domain.plan import Plan
from assembler_service.domain.prepared import Prepared

_LAST = (Block.SUMMARY, Block.HISTORY, Block.QUESTION, Block.FRAME)
_SOURCES_FIRST = (Block.SYSTEM, Block.SOURCES, Block.COMPUTATIONS, Block.MEMORIES, Block.PROFILE, *_LAST)
_CACHE_FRIENDLY = (Block.SYSTEM, Block.PROFILE, Block.MEMORIES, Block.SOURCES, Block.COMPUTATIONS, *_LAST)
"""Blocks as they follow each other in the prompt."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A plan written down. `total`: tokens of the messages with all overhead; `text_tokens`: of the text as a whole."""

    messages: tuple[Message, ...]
    text: str
    total: int
    text_tokens: int


def write_report(prepared: Prepared, plan: Plan, rendered: Rendered, summary: Summary, count: CountTokens) -> Report:
    """The receipt of a rendered plan. `summary` says why there is none where the plan holds none."""
    items = (
        *_profile_items(prepared, plan, count),
        *_source_items(prepared, plan, count),
        *_computation_items(prepared, plan, count),
        *_memory_items(prepared, plan, count),
        *_history_items(prepared, plan, count),
    )
    blocks = _blocks(prepared, plan, rendered, items, count)
    return Report(
        total=rendered.total,
        limit=prepared.options.limit,
        blocks=blocks,
        items=items,
        summary=_summary(prepared, plan, summary, count),
    )


def _summary(prepared: Prepared, plan: Plan, summary: Summary, count: CountTokens) -> SummaryReport:
    told, earlier = plan.summary, prepared.request.earlier
    if told is None:
        reason = summary.reason
        if summary.text or (prepared.earlier_text and reason is SummaryReason.NOT_NEEDED):
            truncate = prepared.options.history_strategy is HistoryStrategy.TRUNCATE
            reason = SummaryReason.DISABLED if truncate else SummaryReason.NO_ROOM
        return SummaryReport(reason=reason)
    # Where the stored one stands alone, the reason says why it did not grow; that it need not is none.
    grown = not told.stored or summary.reason is SummaryReason.NOT_NEEDED
    return SummaryReport(
        used=True,
        cached=told.stored or summary.cached,
        tokens=count(told.piece),
        covered_messages=earlier.messages + told.covered,
        reason=SummaryReason.NONE if grown else summary.reason,
    )


def _item(key: tuple[Block, int], tokens: tuple[int, int], reason: Reason | None, *, whole: bool) -> ItemReport:
    """`tokens`: given and kept."""
    if tokens[1] and whole:
        return ItemReport(*key, Status.KEPT, Reason.NONE, *tokens)
    return ItemReport(*key, Status.TRUNCATED if tokens[1] else Status.DROPPED, reason or Reason.BUDGET, *tokens)


def _profile_items(prepared: Prepared, plan: Plan, count: CountTokens) -> Iterator[ItemReport]:
    if not prepared.profile_lines:
        return
    given = count(profile_piece(prepared.profile_lines, prepared.frame, whole=True))
    kept, whole = (0, False) if plan.profile is None else (plan.profile.tokens, plan.profile.whole)
    key = (Block.PROFILE, 0)
    yield _item(key, (given, kept), plan.reasons.get(key), whole=whole)


def _source_items(prepared: Prepared, plan: Plan, count: CountTokens) -> Iterator[ItemReport]:
    placed = {source.index: (n, source) for n, source in enumerate(plan.sources, start=1)}
    next_n = len(plan.sources) + 1
    for index, (source, text) in enumerate(zip(prepared.request.sources, prepared.source_texts, strict=True)):
        n, kept = placed.get(index, (next_n, None))
        tokens, whole = (0, False) if kept is None else (kept.tokens, kept.whole)
        given = tokens if whole else count(source_piece(source_heading(n, source), text))
        key = (Block.SOURCES, index)
        yield replace(_item(key, (given, tokens), plan.reasons.get(key), whole=whole), id=source.id)


def _computation_items(prepared: Prepared, plan: Plan, count: CountTokens) -> Iterator[ItemReport]:
    placed = {computation.index: computation for computation in plan.computations}
    for index, computation in enumerate(prepared.request.computations):
        parts, title = prepared.paragraphs[index], computation_title(computation)
        given = count(computation_piece(title, parts, len(parts), prepared.frame)) if parts else 0
        kept = placed.get(index)
        tokens, whole = (0, False) if kept is None else (count(kept.piece(prepared.frame)), kept.keep == len(parts))
        key = (Block.COMPUTATIONS, index)
        yield _item(key, (given, tokens), plan.reasons.get(key), whole=whole)


def _memory_items(prepared: Prepared, plan: Plan, count: CountTokens) -> Iterator[ItemReport]:
    placed = {memory.index: memory.tokens for memory in plan.memories}
    for index, piece in enumerate(prepared.memory_pieces):
        reason = plan.reasons.get((Block.MEMORIES, index))
        given = count(piece) if piece else 0
        yield _item((Block.MEMORIES, index), (given, placed.get(index, 0)), reason, whole=True)


def _history_items(prepared: Prepared, plan: Plan, count: CountTokens) -> Iterator[ItemReport]:
    kept = {said.index: said.message for turn in plan.turns for said in turn.said}
    ready = {said.index: said.message for turn in prepared.turns for said in turn.said}
    covered = 0 if plan.summary is None else plan.summary.covered
    out = plan.reasons.get((Block.HISTORY, 0))
    for index, message in enumerate(prepared.request.history):
        reason = prepared.left_out_messages.get(index) or (Reason.SUMMARIZED if index < covered else out)
        given = message_tokens(ready.get(index, message), count)
        tokens = message_tokens(kept[index], count) if index in kept else 0
        yield _item((Block.HISTORY, index), (given, tokens), reason, whole=kept.get(index) == ready.get(index))


def _framed(tag: str, note: str, pieces: int, count: CountTokens) -> int:
    return pieces + count(opening(tag, note)) + count(closing(tag)) if pieces else 0


def _kept(prepared: Prepared, plan: Plan, items: tuple[ItemReport, ...], count: CountTokens) -> dict[Block, int]:
    """Tokens of every block but the frame: its items with the words around them."""
    sums = dict.fromkeys(Block, 0)
    for item in items:
        sums[item.block] += item.kept
    frame: Words = prepared.frame
    cited = count(question_content(prepared.question, frame, cite=True)) - count(prepared.question)
    sums[Block.SOURCES] = _framed("sources", frame.sources, sums[Block.SOURCES], count) + (cited if plan.sources else 0)
    sums[Block.COMPUTATIONS] = _framed("computations", frame.computations, sums[Block.COMPUTATIONS], count)
    groups = {memory.type for memory in plan.memories}
    headings = sum(count(f"{frame.groups[group]}\n") for group in groups)
    sums[Block.MEMORIES] = _framed("memories", frame.memories, sums[Block.MEMORIES], count) + headings
    sums[Block.SYSTEM] = count(prepared.system_piece)
    sums[Block.QUESTION] = count(prepared.question) + MESSAGE_TOKENS
    sums[Block.SUMMARY] = 0 if plan.summary is None else count(plan.summary.piece)
    return sums


def _blocks(
    prepared: Prepared, plan: Plan, rendered: Rendered, items: tuple[ItemReport, ...], count: CountTokens
) -> tuple[BlockReport, ...]:
    kept = _kept(prepared, plan, items, count)
    kept[Block.FRAME] = rendered.total - sum(kept.values())
    if kept[Block.FRAME] < 0:  # joining pieces saved more than the frame costs: the largest block had the gain
        largest = max(kept, key=lambda block: kept[block])
        kept[largest] += kept[Block.FRAME]
        kept[Block.FRAME] = 0
    given = dict.fromkeys(Block, 0)
    for item in items:
        given[item.block] += item.given
    for block in (Block.SYSTEM, Block.QUESTION, Block.SUMMARY, Block.FRAME):
        given[block] = kept[block]
    if prepared.earlier_text and (plan.summary is None or plan.summary.stored):
        given[Block.SUMMARY] = count(summary_piece(prepared.earlier_text, prepared.frame))
    options = prepared.options
    caps = {
        Block.PROFILE: PROFILE_MAX,
        Block.SOURCES: options.sources_max_tokens,
        Block.COMPUTATIONS: options.computations_max_tokens,
        Block.MEMORIES: options.memory_max_tokens,
        Block.SUMMARY: options.summary_max_tokens + (count(summary_piece("", prepared.frame)) if plan.summary else 0),
        Block.HISTORY: options.history_max_tokens,
    }
    order = _CACHE_FRIENDLY if options.layout is Layout.CACHE_FRIENDLY else _SOURCES_FIRST
    return tuple(BlockReport(block, given[block], kept[block], caps.get(block)) for block in order)
