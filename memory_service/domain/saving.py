"""Deciding on a draft: the decision table, explicit corrections, and eviction, over a user's present memories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo

import numpy as np

from memory_service.domain.active_set import ActiveSet
from memory_service.domain.changes import Changes
from memory_service.domain.dedup import Decision, DedupPolicy, Neighbour, Statement, decide
from memory_service.domain.eviction import EvictionView, choose
from memory_service.domain.model import (
    UNKNOWN,
    InvalidReason,
    Memory,
    MemoryType,
    Micros,
    Outcome,
    ReasonCode,
    Shard,
    Source,
    Vector,
)
from memory_service.domain.person import neutral
from memory_service.domain.space import EmbeddingSpace

MAX_SUPERSEDES = 5
_PERSON = 16
"""Characters by which two forms of one text may differ: its subject, blanks and punctuation."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A statement to remember, validated and cleaned."""

    type: MemoryType
    content: str
    shard: Shard = Shard.GENERAL
    attributes: Mapping[str, str]
    source: Source = UNKNOWN
    occurred_at: Micros | None = None
    pinned: bool = False
    expires_at: Micros | None = None
    zone: tzinfo = UTC
    """Where the day of `occurred_at` is meant."""
    supersedes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A draft as the memory it may become, and whether its vector is of a part of the text only."""

    memory: Memory
    cut: bool
    supersedes: tuple[str, ...] = ()
    inherits_pin: bool = True
    """False where the caller said whether it is pinned."""
    newer: tuple[str, ...] = ()
    """Memories it contradicts that were said after it: it is stored as superseded by the first of them."""
    other: Vector | None = None
    """Vector of the same statement in the other grammatical person (`person`): the nearer of the two counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingPolicy:
    """The thresholds and caps of one moment. `shards` are those the caller may see; None = all.

    `across_types`: the draft is from an extraction. Layers 1 and 2 look at memories of every type and shard, in either
    grammatical person, and the draft is as old as the turn it is from.
    """

    dedup: DedupPolicy
    space: EmbeddingSpace | None
    max_active: int
    grace: Micros
    shards: frozenset[Shard] | None = None
    across_types: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a draft. `memory_id` names the memory that says it now; None when it was filtered."""

    outcome: Outcome
    code: ReasonCode
    reason: str
    memory_id: str | None = None
    matched_id: str | None = None
    superseded_ids: tuple[str, ...] = ()
    similarity: float | None = None


class NotActive(Exception):
    """A memory that should be superseded is not active any more."""

    def __init__(self, memory_id: str, superseded_by: str | None) -> None:
        super().__init__(memory_id)
        self.memory_id = memory_id
        self.superseded_by = superseded_by


def time_slice(shard: Shard, at: Micros, zone: tzinfo) -> str:
    """Label of the period a memory falls in: a quarter for IDENTITY, an ISO week for TRANSACTION and EMOTION."""
    day = _moment(at, zone)
    if shard is Shard.IDENTITY:
        return f"{day.year}Q{(day.month + 2) // 3}"
    if shard in (Shard.TRANSACTION, Shard.EMOTION):
        year, week, _ = day.isocalendar()
        return f"{year}W{week:02d}"
    return ""


def event_key(shard: Shard, occurred_at: Micros | None, now: Micros, draft_zone: tzinfo, home: tzinfo) -> str:
    """What tells two events with the same words apart: the stated day, else the week of a transaction, else nothing."""
    if occurred_at is not None:
        return _moment(occurred_at, draft_zone).date().isoformat()
    return time_slice(shard, now, home) if shard is Shard.TRANSACTION else ""


def _moment(at: Micros, zone: tzinfo) -> datetime:
    moment = _EPOCH + timedelta(microseconds=at)
    try:
        return moment.astimezone(zone)
    except OverflowError:  # the zone's clock shows a year before 1 or after 9999
        return moment


def statement_of(memory: Memory, *, cut: bool = False) -> Statement:
    """A memory as the decision table sees it."""
    return Statement(
        content=memory.content,
        shard=memory.shard,
        event_key=memory.event_key,
        occurred_at=memory.occurred_at,
        cut=cut,
    )


def _dated(memory: Memory) -> Statement:
    """A stored memory without a stated time holds since it was stored: a draft about the past does not replace it."""
    return Statement(
        content=memory.content, shard=memory.shard, event_key=memory.event_key, occurred_at=memory.happened_at
    )


def neighbours(
    active: ActiveSet, draft: Prepared, policy: SavingPolicy, floor: float, leave_out: frozenset[str] = frozenset()
) -> list[Neighbour]:
    """Active memories of the same type (or of all), within the caller's shards, at least `floor` alike on the dedup
    scale."""
    memory = draft.memory
    if memory.vector is None or policy.space is None or memory.space != active.space:
        return []
    cosines = active.cosines(memory.vector)
    if draft.other is not None:
        cosines = np.maximum(cosines, active.cosines(draft.other))
    types = frozenset[MemoryType]() if policy.across_types else frozenset({memory.type})
    fits = active.mask(types=types, shards=policy.shards) & ~np.isnan(cosines)
    fits &= cosines >= policy.space.raw_dedup(floor) - 1e-6
    rows = [int(row) for row in np.flatnonzero(fits) if active.ids[row] != memory.id]
    rows = [row for row in rows if active.ids[row] not in leave_out]
    if not rows:
        return []
    alike = policy.space.dedup_similarity(cosines[rows])
    found = [active.memories[active.ids[row]] for row in rows]
    return [
        Neighbour(other.id, _dated(other), float(similarity), other.type is memory.type)
        for other, similarity in zip(found, alike, strict=True)
    ]


def judge(
    active: ActiveSet, draft: Prepared, policy: SavingPolicy, leave_out: frozenset[str] = frozenset()
) -> Decision:
    """The decision table over the user's active memories, but those to leave out."""
    exact = active.by_hash.get(draft.memory.content_hash)
    if exact is None and policy.across_types:
        exact = _said_already(active, draft.memory, leave_out)
    if exact == draft.memory.id or exact in leave_out:
        exact = None
    floor = min(policy.dedup.update, policy.dedup.same_meaning)
    near = [] if exact else neighbours(active, draft, policy, floor, leave_out)
    statement = _dated(draft.memory) if policy.across_types else statement_of(draft.memory)
    return decide(replace(statement, cut=draft.cut), exact, near, policy.dedup)


def _said_already(active: ActiveSet, draft: Memory, leave_out: frozenset[str]) -> str | None:
    """An active memory of any type and shard that is this text, in either person, of the same event."""
    wanted = ""
    for other in active.memories.values():
        if other.event_key != draft.event_key or abs(len(other.content) - len(draft.content)) > _PERSON:
            continue
        wanted = wanted or neutral(draft.content)
        if other.id not in leave_out and neutral(other.content) == wanted:
            return other.id
    return None


def save(changes: Changes, draft: Prepared, policy: SavingPolicy) -> Verdict:
    """Decides on one draft and notes the changes. NotActive when `supersedes` names a retired memory."""
    if draft.newer or draft.supersedes:
        return _late(changes, draft) if draft.newer else _correct(changes, draft, policy)
    decision = judge(changes.current, draft, policy)
    matched, similarity = decision.matched_id, decision.similarity
    if decision.outcome is Outcome.DUPLICATE and matched is not None:
        changes.accessed.append(matched)
        return _verdict(decision, memory_id=matched)
    if decision.code is ReasonCode.OLDER and matched is not None:
        older = _superseded_already(draft.memory, changes.current.memories[matched], changes.now)
        changes.insert(older)
        return _verdict(decision, memory_id=older.id)
    replaced = matched if decision.outcome is Outcome.REPLACED else None
    memory = changes.insert(_heir(changes, draft, (replaced,) if replaced else ()))
    if replaced is not None:
        changes.supersede(replaced, memory)
        return _verdict(decision, memory_id=memory.id, superseded_ids=(replaced,))
    if memory.vector is None:
        reason = "Stored; its meaning is compared with the others when the embedding model is back."
        return Verdict(outcome=Outcome.ADDED, code=ReasonCode.NOT_COMPARED, reason=reason, memory_id=memory.id)
    return Verdict(
        outcome=Outcome.ADDED,
        code=decision.code,
        reason=decision.reason,
        memory_id=memory.id,
        matched_id=matched,
        similarity=similarity,
    )


def _verdict(decision: Decision, *, memory_id: str, superseded_ids: tuple[str, ...] = ()) -> Verdict:
    return Verdict(
        outcome=decision.outcome,
        code=decision.code,
        reason=decision.reason,
        memory_id=memory_id,
        matched_id=decision.matched_id,
        superseded_ids=superseded_ids,
        similarity=decision.similarity,
    )


def _superseded_already(memory: Memory, by: Memory, now: Micros) -> Memory:
    return replace(
        memory,
        invalidated_at=now,
        invalid_reason=InvalidReason.SUPERSEDED,
        superseded_by=by.id,
        valid_to=max(by.valid_from, memory.valid_from),
    )


def _heir(changes: Changes, draft: Prepared, replaced: Sequence[str]) -> Memory:
    """A pin is about the subject, not the wording: it passes to the memory that takes the place."""
    inherited = draft.inherits_pin and any(changes.current.memories[id].pinned for id in replaced)
    return replace(draft.memory, pinned=draft.memory.pinned or inherited)


def _late(changes: Changes, draft: Prepared) -> Verdict:
    """What was true before something newer: it is kept, and is not active."""
    newer = changes.current.memories[draft.newer[0]]
    memory = changes.insert(_superseded_already(draft.memory, newer, changes.now))
    for id in draft.supersedes:
        changes.supersede(id, memory)
    return Verdict(
        outcome=Outcome.ADDED,
        code=ReasonCode.OLDER,
        reason=f"Said before {newer.id}, which it contradicts; stored as superseded by it.",
        memory_id=memory.id,
        matched_id=newer.id,
        superseded_ids=draft.supersedes,
    )


def _correct(changes: Changes, draft: Prepared, policy: SavingPolicy) -> Verdict:
    """An explicit correction: what the caller names is retired; likeness is asked of the others only, and only where
    it is a model that names."""
    for id in draft.supersedes:
        if id not in changes.current.memories:
            known = changes.memory(id)
            raise NotActive(id, known.superseded_by if known else None)
    exact, code = changes.current.by_hash.get(draft.memory.content_hash), ReasonCode.EXACT
    if exact is None and policy.across_types:
        decision = judge(changes.current, draft, policy, frozenset(draft.supersedes))
        if decision.outcome is Outcome.DUPLICATE:
            exact, code = decision.matched_id, decision.code
    if exact is not None:
        # The new text is active already: it stays, and the others give way to it.
        keeper = changes.current.memories[exact]
        gone = tuple(id for id in draft.supersedes if id != exact)
        if gone and not keeper.pinned and _heir(changes, draft, gone).pinned:
            keeper = changes.amend(exact, {"pinned": True})
        for id in gone:
            changes.supersede(id, keeper)
        changes.accessed.append(exact)
        layer = "1, exact: this text" if code is ReasonCode.EXACT else "2, same meaning: this"
        reason = f"Layer {layer} is active already" + ("; what it corrects was retired for it." if gone else ".")
        return Verdict(
            outcome=Outcome.DUPLICATE,
            code=code,
            reason=reason,
            memory_id=exact,
            matched_id=exact,
            superseded_ids=gone,
        )
    memory = changes.insert(_heir(changes, draft, draft.supersedes))
    for id in draft.supersedes:
        changes.supersede(id, memory)
    return Verdict(
        outcome=Outcome.REPLACED,
        code=ReasonCode.EXPLICIT,
        reason="The caller named what this memory corrects.",
        memory_id=memory.id,
        superseded_ids=draft.supersedes,
    )


def evict(changes: Changes, counters: Sequence[EvictionView], policy: SavingPolicy, keep: frozenset[str]) -> list[str]:
    """Ends the memories of least value above the cap, within the caller's shards and never one of `keep`; answers their
    ids."""
    surplus = len(changes.current) - policy.max_active
    if surplus <= 0:
        return []
    gone = choose(counters, cap=len(counters) - surplus, grace=policy.grace, now=changes.now, protected=keep)
    for id in gone:
        changes.retire(id, InvalidReason.EVICTED)
    return gone
