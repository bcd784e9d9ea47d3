"""The decision table (memory.md §2): what becomes of a draft, given the user's active memories that are near it.

Owns the order of the layers, the thresholds and the sentence that explains the outcome. Does not own what "same values"
and "state value" mean (`values`, `state`), the similarity scale (`space`), nor the exact layer's hash (the record).
Pure and cheap: it runs under the user's lock, compares only neighbours at or above the update threshold, and remembers
what it has read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from memory_service.domain.model import Micros, Outcome, ReasonCode, Shard
from memory_service.domain.text import estimate_tokens
from memory_service.domain.values import Change, Comparison, compare


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What the table asks of a memory or a draft. `cut`: the embedder saw only a part of the content."""

    content: str
    shard: Shard
    event_key: str = ""
    occurred_at: Micros | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An active memory that the caller may see, with its similarity on the dedup scale."""

    id: str
    statement: Statement
    similarity: float
    own_type: bool = True
    """False = of another type than the draft: it may say the same, and is never replaced by likeness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupPolicy:
    """The table's settings. `threshold` is the source document's literal rule: everything from `update` up to
    `same_meaning` replaces, whatever the two texts say; `guarded` asks for a state value.
    """

    same_meaning: float = 0.85
    update: float = 0.75
    max_tokens: int = 128
    conflict_policy: Literal["guarded", "threshold"] = "guarded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The outcome and the row of the table that gave it.

    DUPLICATE: `matched_id` says it already. REPLACED: `matched_id` is retired by the draft. ADDED with code OLDER: the
    draft is stored as superseded by `matched_id`. Any other ADDED has neither `matched_id` nor `similarity`.
    """

    outcome: Outcome
    code: ReasonCode
    matched_id: str | None = None
    similarity: float | None = None
    reason: str = ""


_SHOWN: Final = 60
"""Characters of a difference that a reason may show: of another memory never more than the value that differs."""


def decide(draft: Statement, exact_id: str | None, neighbours: Sequence[Neighbour], policy: DedupPolicy) -> Decision:
    """Applies the layers in order; within a layer the most similar memory decides. Never names more than one memory.

    `exact_id`: the active memory of the same type, shard, normalised content and event key, if there is one.
    `neighbours`: in any order; those below the thresholds are not looked at.
    """
    if exact_id is not None:
        reason = "Layer 1, exact: this text is active already."
        return Decision(outcome=Outcome.DUPLICATE, code=ReasonCode.EXACT, matched_id=exact_id, reason=reason)
    if _long(draft, policy):
        return _added("Kept: only short statements are compared by meaning, and this text is longer.")
    floor = min(policy.update, policy.same_meaning)
    near = sorted((n for n in neighbours if n.similarity >= floor), key=lambda n: (-n.similarity, n.id))
    compared = [(n, compare(n.statement.content, draft.content)) for n in near if not _long(n.statement, policy)]
    decision = _same_meaning(draft, compared, policy) or _update(draft, compared, policy)
    return decision or _kept(draft, compared)


def _long(statement: Statement, policy: DedupPolicy) -> bool:
    # A token is at least one character, so most texts need no count.
    if statement.cut:
        return True
    return len(statement.content) > policy.max_tokens and estimate_tokens(statement.content) > policy.max_tokens


def _added(reason: str) -> Decision:
    return Decision(outcome=Outcome.ADDED, code=ReasonCode.NEW, reason=reason)


def _same_meaning(
    draft: Statement, compared: Sequence[tuple[Neighbour, Comparison]], policy: DedupPolicy
) -> Decision | None:
    for other, comparison in compared:
        if other.similarity < policy.same_meaning:
            break
        if comparison.same_values and other.statement.event_key == draft.event_key:
            return Decision(
                outcome=Outcome.DUPLICATE,
                code=ReasonCode.SAME_MEANING,
                matched_id=other.id,
                similarity=other.similarity,
                reason=f"Layer 2, same meaning: {other.id} says this with the same values ({other.similarity:.2f}).",
            )
    return None


def _update(draft: Statement, compared: Sequence[tuple[Neighbour, Comparison]], policy: DedupPolicy) -> Decision | None:
    for other, comparison, why in _replaceable(draft, compared, policy):
        older = _before(draft.occurred_at, other.statement.occurred_at)
        if older:
            outcome, code = Outcome.ADDED, ReasonCode.OLDER
            reason = f"Layer 3, update: {why} as {other.id}, but of an earlier time; stored as superseded by it"
        else:
            outcome, code = Outcome.REPLACED, ReasonCode.STATE_CHANGED
            reason = f"Layer 3, update: {why} as {other.id}"
        reason += f", {_short(comparison.detail)}." if comparison.change is Change.STATE else "."
        return Decision(outcome=outcome, code=code, matched_id=other.id, similarity=other.similarity, reason=reason)
    return None


def _replaceable(
    draft: Statement, compared: Sequence[tuple[Neighbour, Comparison]], policy: DedupPolicy
) -> Iterator[tuple[Neighbour, Comparison, str]]:
    for other, comparison in compared:
        if other.similarity < policy.update:
            return
        if not other.own_type:
            continue
        if policy.conflict_policy == "threshold" and other.similarity < policy.same_meaning:
            yield other, comparison, "as alike as one statement with another value"
        elif comparison.change is Change.STATE and not _apart(draft, other.statement):
            yield other, comparison, "same statement"


def _apart(draft: Statement, other: Statement) -> bool:
    """Whether two statements are about single events, whose values do not take each other's place."""
    if Shard.TRANSACTION in (draft.shard, other.shard):
        return True
    # A key that is only the day of `occurred_at` dates a state and does not make an event of it.
    dated = all(s.occurred_at is not None or not s.event_key for s in (draft, other))
    return draft.event_key != other.event_key and not dated


def _before(draft: Micros | None, other: Micros | None) -> bool:
    return draft is not None and other is not None and draft < other


def _kept(draft: Statement, compared: Sequence[tuple[Neighbour, Comparison]]) -> Decision:
    if not compared:
        return _added("No active memory says this.")
    other, comparison = compared[0]
    beside = f"Kept beside {other.id} ({other.similarity:.2f})"
    if _apart(draft, other.statement) or (comparison.same_values and draft.event_key != other.statement.event_key):
        return _added(f"{beside}: a transaction or event of its own.")
    if comparison.change is Change.IDENTITY:
        return _added(f"{beside}: another event or subject ({_short(comparison.detail)}).")
    if comparison.change is Change.STATE or comparison.same_values:
        return _added(f"{beside}: not alike enough to be sure that it is the same statement.")
    return _added(f"{beside}: it is not certain that both say the same.")


def _short(detail: str) -> str:
    return detail if len(detail) <= _SHOWN else detail[: _SHOWN - 1] + "…"
