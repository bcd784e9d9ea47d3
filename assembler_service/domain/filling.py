"""Filling the budget: fixed parts, profile, floors, sources, then the auxiliary streams (assembler.md §2).

Owns the order of filling and every cap. Adds tokens of pieces, which `layout` makes additive; whether the whole really
fits is checked, and mended, by `assemble`. With a larger budget the first decision that differs is always a gain.
"""

import math
from collections.abc import Callable, Sequence
from types import MappingProxyType

from assembler_service.domain.cutting import cut_head
from assembler_service.domain.duplicates import Kept
from assembler_service.domain.earlier import stored_summary
from assembler_service.domain.history import Fit, fit_turns
from assembler_service.domain.layout import (
    Words,
    closing,
    computation_piece,
    computation_title,
    empty_memories,
    opening,
    profile_piece,
    question_content,
    source_heading,
    source_piece,
)
from assembler_service.domain.model import (
    LAST_TURN_FLOOR,
    MEMORY_FLOOR,
    MESSAGE_TOKENS,
    PRIMING_TOKENS,
    PROFILE_MAX,
    SOURCE_CUT_MIN,
    Block,
    CountTokens,
    FixedPartsTooLarge,
    MemoryType,
    Overflow,
    Reason,
)
from assembler_service.domain.plan import (
    PlacedComputation,
    PlacedMemory,
    PlacedProfile,
    PlacedSource,
    PlacedSummary,
    Plan,
)
from assembler_service.domain.prepared import Prepared
from assembler_service.domain.text import is_structured
from assembler_service.domain.turns import Turn

_AUX = (Block.COMPUTATIONS, Block.MEMORIES, Block.HISTORY)


def fixed_parts(prepared: Prepared, count: CountTokens) -> dict[str, int]:
    """Tokens of what is never cut, by name."""
    return {
        "system_prompt": count(prepared.system_piece),
        "question": count(prepared.question),
        "frame": 2 * MESSAGE_TOKENS + PRIMING_TOKENS + count(empty_memories(prepared.frame)),
    }


class Filling:
    """One filling of one budget. Make one, call `fill` once."""

    def __init__(self, prepared: Prepared, count: CountTokens, limit: int) -> None:
        """Raises FixedPartsTooLarge."""
        self._prepared, self._count, self._options = prepared, count, prepared.options
        parts = fixed_parts(prepared, count)
        self._left = limit - sum(parts.values())
        if self._left < 0:
            raise FixedPartsTooLarge(parts, limit)
        self._used: dict[Block, int] = dict.fromkeys(Block, 0)
        self._reasons: dict[tuple[Block, int], Reason] = dict(prepared.left_out)
        self._kept_memories = Kept(statements=True)
        self._memories: list[PlacedMemory] = []
        self._sources: list[PlacedSource] = []
        self._computations: list[PlacedComputation] = []

    @property
    def _frame(self) -> Words:
        return self._prepared.frame

    def fill(self, summary: PlacedSummary | None = None) -> Plan:
        """The plan. With a summary, the turns it covers are not tried; without one, the stored one stands in front."""
        options, turns = self._options, self._turns_after(summary)
        profile = self._profile()
        floor = self._turns_floor(turns)
        self._fill_memories(min(MEMORY_FLOOR, options.memory_max_tokens), floor=True)
        self._fill_sources()
        self._fill_computations()
        self._fill_memories(options.memory_max_tokens, floor=False)
        history_room, kept, summary = self._fill_history(turns, floor, summary)
        least = kept if kept.tokens < floor.tokens else floor
        if self._elastic(options.memory_max_tokens):
            self._fill_memories(None, floor=False)
        return Plan(
            profile=profile,
            sources=tuple(self._sources),
            computations=tuple(self._computations),
            memories=tuple(sorted(self._memories, key=lambda memory: self._prepared.memory_rank[memory.index])),
            summary=summary,
            turns=kept.turns,
            floor_turn=least.turns[-1] if least.turns else None,
            history_room=history_room,
            reasons=MappingProxyType(self._reasons),
        )

    def _turns_after(self, summary: PlacedSummary | None) -> Sequence[Turn]:
        covered = 0 if summary is None else summary.covered
        return [turn for turn in self._prepared.turns if turn.said[0].index >= covered]

    def _spend(self, block: Block, tokens: int, from_left: int | None = None) -> None:
        self._used[block] += tokens
        self._left -= tokens if from_left is None else from_left

    def _room(self, block: Block, cap: int | None) -> int:
        """What a block may still take: its own cap, the auxiliary pool where it draws on that, and the whole."""
        room = self._left if cap is None else min(self._left, cap - self._used[block])
        if block in _AUX and cap is not None:
            room = min(room, self._options.aux_total_tokens - sum(self._used[other] for other in _AUX))
        return max(0, room)

    def _elastic(self, cap: int) -> bool:
        """Whether a stream with this limit takes what is left over: a limit of 0 leaves it out, whatever is left."""
        options = self._options
        return options.overflow is Overflow.ELASTIC and cap > 0 and options.aux_total_tokens > 0

    def _why(self, block: Block, cap: int | None) -> Reason:
        """Which limit it was that stopped a block."""
        own = math.inf if cap is None else cap - self._used[block]
        return Reason.BLOCK_CAP if own <= self._room(block, cap) else Reason.BUDGET

    def _opening(self, tag: str, note: str) -> int:
        return self._count(opening(tag, note)) + self._count(closing(tag))

    def _profile(self) -> PlacedProfile | None:
        lines = self._prepared.profile_lines
        if not lines:
            return None
        room = self._room(Block.PROFILE, PROFILE_MAX)

        def piece(keep: int) -> str:
            return profile_piece(lines[:keep], self._frame, whole=keep == len(lines))

        keep = most(len(lines), lambda keep: self._count(piece(keep)), room)
        if keep < len(lines):
            self._reasons[Block.PROFILE, 0] = self._why(Block.PROFILE, PROFILE_MAX)
        if not keep:
            return None
        tokens = self._count(piece(keep))
        self._spend(Block.PROFILE, tokens)
        return PlacedProfile(piece(keep), tokens, keep == len(lines))

    def _turns_floor(self, turns: Sequence[Turn]) -> Fit:
        room = self._room(Block.HISTORY, min(LAST_TURN_FLOOR, self._options.history_max_tokens))
        fit = fit_turns(turns[-1:], room, self._frame, self._count)
        self._spend(Block.HISTORY, fit.tokens)
        return fit

    def _fill_memories(self, cap: int | None, *, floor: bool) -> None:
        """Places the best memories that are not placed yet, up to `cap` tokens of the block in all."""
        if not self._prepared.memory_order:
            return
        note, empty = self._opening("memories", self._frame.memories), self._count(empty_memories(self._frame))
        placed = {memory.index for memory in self._memories}
        groups: set[MemoryType] = {memory.type for memory in self._memories}
        for index in self._prepared.memory_order:
            if index in placed or self._reasons.get((Block.MEMORIES, index)) is Reason.DUPLICATE:
                continue
            memory = self._prepared.request.memories[index]
            piece = self._prepared.memory_pieces[index]
            tokens = self._count(piece)
            heading = 0 if memory.type in groups else self._count(f"{self._frame.groups[memory.type]}\n")
            extra = heading if groups else heading + note
            if tokens + extra > self._room(Block.MEMORIES, cap):
                self._reasons[Block.MEMORIES, index] = self._why(Block.MEMORIES, cap)
                continue
            if self._kept_memories.says(memory.content):
                self._reasons[Block.MEMORIES, index] = Reason.DUPLICATE
                continue
            self._spend(Block.MEMORIES, tokens + extra, tokens + extra if groups else tokens + extra - empty)
            self._memories.append(PlacedMemory(index, memory.type, piece, tokens, floor))
            self._reasons.pop((Block.MEMORIES, index), None)
            groups.add(memory.type)

    def _fill_sources(self) -> None:
        cap, top_k = self._options.sources_max_tokens, self._options.sources_top_k
        question, frame = self._prepared.question, self._frame
        cite = self._count(question_content(question, frame, cite=True)) - self._count(question)
        note = self._opening("sources", frame.sources) + cite
        kept = Kept(statements=False)
        for index in self._prepared.source_order:
            if top_k is not None and len(self._sources) >= top_k:
                self._reasons[Block.SOURCES, index] = Reason.BLOCK_CAP
                continue
            extra = 0 if self._sources else note
            room = self._room(Block.SOURCES, cap) - extra
            text = self._prepared.source_texts[index]
            heading = source_heading(len(self._sources) + 1, self._prepared.request.sources[index])
            placed = self._fit_source(index, heading, text, room)
            reason = self._why(Block.SOURCES, cap)
            if placed is not None and kept.says(text if placed.whole else placed.piece.removeprefix(heading)):
                placed, reason = None, Reason.DUPLICATE
            if placed is None or not placed.whole:
                self._reasons[Block.SOURCES, index] = reason
            if placed is not None:
                self._sources.append(placed)
                self._spend(Block.SOURCES, placed.tokens + extra)

    def _fit_source(self, index: int, heading: str, text: str, room: int) -> PlacedSource | None:
        """The source whole, else cut if at least 80 tokens of it stay, else None. JSON is not cut."""
        piece = source_piece(heading, text)
        tokens = self._count(piece)
        if tokens <= room:
            return PlacedSource(index, piece, tokens, whole=True)
        cut = self._frame.cut
        least = self._count(source_piece(heading, cut)) + SOURCE_CUT_MIN
        if room < least or is_structured(self._prepared.request.sources[index].text.strip()):
            return None
        kept = cut_head(text, room, lambda part: self._count(source_piece(heading, part + cut)), least)
        if kept is None:
            return None
        piece = source_piece(heading, kept + cut)
        return PlacedSource(index, piece, self._count(piece), whole=False)

    def _fill_computations(self) -> None:
        cap, frame = self._options.computations_max_tokens, self._frame
        note = self._opening("computations", frame.computations)
        for index in self._prepared.computation_order:
            paragraphs = self._prepared.paragraphs[index]
            title = computation_title(self._prepared.request.computations[index])

            def tokens(
                keep: int, title: str = title, paragraphs: tuple[str, ...] = paragraphs, frame: Words = frame
            ) -> int:
                return self._count(computation_piece(title, paragraphs[:keep], len(paragraphs), frame))

            extra = 0 if self._computations else note
            keep = most(len(paragraphs), tokens, self._room(Block.COMPUTATIONS, cap) - extra)
            if keep < len(paragraphs):
                self._reasons[Block.COMPUTATIONS, index] = self._why(Block.COMPUTATIONS, cap)
            if keep:
                self._computations.append(PlacedComputation(index, title, paragraphs, keep))
                self._spend(Block.COMPUTATIONS, tokens(keep) + extra)

    def _fill_history(
        self, turns: Sequence[Turn], floor: Fit, summary: PlacedSummary | None
    ) -> tuple[int, Fit, PlacedSummary | None]:
        """The room of the history, what is kept in it, and the summary in front of that.

        Without a summary that is never less than the floor; beside one the last turn may be cut shorter: both have to
        share the room, or sources would have to make more.
        """
        cap: int | None = self._options.history_max_tokens
        if self._elastic(self._options.history_max_tokens):
            cap = None
        room = self._room(Block.HISTORY, cap) + floor.tokens
        if summary is None:
            summary = stored_summary(self._prepared, room, self._count)
        head = 0 if summary is None else self._count(summary.piece)
        fit = fit_turns(turns, room - head, self._frame, self._count)
        if floor.turns and not fit.turns:  # what was said last is worth more than a summary of what was said before
            summary, head, fit = None, 0, floor
        self._reasons[Block.HISTORY, 0] = self._why(Block.HISTORY, cap)
        self._spend(Block.HISTORY, fit.tokens + head - floor.tokens)
        return room, fit, summary


def most(total: int, measure: Callable[[int], int], room: int) -> int:
    """The largest number of first units whose measure is within `room`; 0 = not even one."""
    if room <= 0 or total == 0:
        return 0
    if measure(total) <= room:
        return total
    low, high = 0, total - 1
    while low < high:
        middle = (low + high + 1) // 2
        if measure(middle) <= room:
            low = middle
        else:
            high = middle - 1
    return low
