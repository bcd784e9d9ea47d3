"""A plan: what is in a prompt, unit by unit, and in which order it is given up.

Owns the order of sacrifice (assembler.md §2). A plan is a value; giving something up makes a new one. Refuses to decide
what goes in (`filling`) and to count.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from assembler_service.domain.layout import Words, computation_piece
from assembler_service.domain.model import Block, MemoryType, Reason
from assembler_service.domain.turns import Turn


@dataclass(frozen=True, slots=True)
class PlacedSource:
    """A source in the prompt. `piece` carries its number, which is its place in the plan, from 1."""

    index: int
    piece: str
    tokens: int
    whole: bool


@dataclass(frozen=True, slots=True)
class PlacedComputation:
    """The first `keep` paragraphs of a computation."""

    index: int
    title: str
    paragraphs: tuple[str, ...]
    keep: int

    def piece(self, frame: Words) -> str:
        """Its text in the prompt."""
        return computation_piece(self.title, self.paragraphs[: self.keep], len(self.paragraphs), frame)


@dataclass(frozen=True, slots=True)
class PlacedMemory:
    """A memory in the prompt; `floor`: it came in before the sources and goes after them."""

    index: int
    type: MemoryType
    piece: str
    tokens: int
    floor: bool


@dataclass(frozen=True, slots=True)
class PlacedProfile:
    """The profile's block, whole or cut."""

    piece: str
    tokens: int
    whole: bool


@dataclass(frozen=True, slots=True)
class PlacedSummary:
    """The summary of the first `covered` messages, and of what came before them.

    `stored`: it is the stored one, of what came before alone.
    """

    piece: str
    covered: int
    stored: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What is in the prompt. Sources and memories are best first, computations in filling order, turns oldest first."""

    profile: PlacedProfile | None = None
    sources: tuple[PlacedSource, ...] = ()
    computations: tuple[PlacedComputation, ...] = ()
    memories: tuple[PlacedMemory, ...] = ()
    summary: PlacedSummary | None = None
    turns: tuple[Turn, ...] = ()
    floor_turn: Turn | None = None
    """The last turn as its floor has it; what the repair leaves of `turns` before anything else is given up."""
    history_room: int = 0
    """The most the history, its summary included, could have in this plan."""
    reasons: Mapping[tuple[Block, int], Reason] = field(default_factory=lambda: MappingProxyType({}))
    """Why an item is not in whole, by block and place in the request. For the history: why a turn that is out is out,
    by 0; its messages follow from `turns`.
    """


def give_up_next(plan: Plan) -> Plan | None:
    """The plan without the unit that goes next; None = nothing is left to give up.

    History beyond the floor, oldest first; sources, worst first; memories beyond their floor, worst first;
    computations, last paragraph first; the summary; the floors; the profile.
    """
    for step in (_history, _sources, _memories, _computations, _summary, _floors, _profile):
        smaller = step(plan)
        if smaller is not None:
            return smaller
    return None


def _because(plan: Plan, block: Block, index: int) -> Mapping[tuple[Block, int], Reason]:
    return MappingProxyType({**plan.reasons, (block, index): Reason.BUDGET})


def _history(plan: Plan) -> Plan | None:
    if len(plan.turns) > 1:
        return replace(plan, turns=plan.turns[1:], reasons=_because(plan, Block.HISTORY, 0))
    if plan.turns and plan.floor_turn is not None and plan.turns[0] != plan.floor_turn:
        return replace(plan, turns=(plan.floor_turn,), reasons=_because(plan, Block.HISTORY, 0))
    return None


def _sources(plan: Plan) -> Plan | None:
    if not plan.sources:
        return None
    return replace(plan, sources=plan.sources[:-1], reasons=_because(plan, Block.SOURCES, plan.sources[-1].index))


def _without(plan: Plan, memory: PlacedMemory) -> Plan:
    rest = tuple(other for other in plan.memories if other is not memory)
    return replace(plan, memories=rest, reasons=_because(plan, Block.MEMORIES, memory.index))


def _memories(plan: Plan) -> Plan | None:
    worst = next((memory for memory in reversed(plan.memories) if not memory.floor), None)
    return None if worst is None else _without(plan, worst)


def _computations(plan: Plan) -> Plan | None:
    if not plan.computations:
        return None
    *before, last = plan.computations
    shorter = (replace(last, keep=last.keep - 1),) if last.keep > 1 else ()
    return replace(plan, computations=(*before, *shorter), reasons=_because(plan, Block.COMPUTATIONS, last.index))


def _summary(plan: Plan) -> Plan | None:
    return None if plan.summary is None else replace(plan, summary=None, reasons=_because(plan, Block.HISTORY, 0))


def _floors(plan: Plan) -> Plan | None:
    if plan.memories:
        return _without(plan, plan.memories[-1])
    return replace(plan, turns=(), reasons=_because(plan, Block.HISTORY, 0)) if plan.turns else None


def _profile(plan: Plan) -> Plan | None:
    return None if plan.profile is None else replace(plan, profile=None, reasons=_because(plan, Block.PROFILE, 0))
