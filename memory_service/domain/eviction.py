"""Which memories go when a user has more than the cap.

Owns the value of a memory and the order of going. Refuses to retire anything: the caller does, in its transaction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest
from math import exp, log1p
from typing import Final

from memory_service.domain.model import Micros

_DAY: Final = 86_400_000_000
_FADING_DAYS: Final = 14.0
_COUNT_WEIGHT: Final = 0.5


@dataclass(frozen=True, slots=True)
class EvictionView:
    """What of an active memory decides whether it stays. Times in microseconds; no last access = never recalled."""

    id: str
    created_at: Micros
    last_accessed_at: Micros | None
    access_count: int
    pinned: bool


def value(view: EvictionView, now: Micros) -> float:
    """exp(-age_days / 14) + 0.5 * ln(1 + access_count), age since the last access, or creation if there was none.

    Source: the design document's formula (memory.md §2). A time in the future (another clock) counts as now.
    """
    since = view.created_at if view.last_accessed_at is None else view.last_accessed_at
    age_days = max(0, now - since) / _DAY
    return exp(-age_days / _FADING_DAYS) + _COUNT_WEIGHT * log1p(max(0, view.access_count))


def choose(
    active: Sequence[EvictionView], cap: int, grace: Micros, now: Micros, protected: frozenset[str]
) -> list[str]:
    """Ids to evict so that at most `cap` of `active` stay, lowest value first, equal values by id.

    Pinned and `protected` ones never go, so that more than `cap` may stay. One younger than `grace` (microseconds since
    creation) goes only when all older ones that may go do.
    """
    excess = len(active) - cap
    if excess <= 0:
        return []
    free = [view for view in active if not view.pinned and view.id not in protected]
    old = [view for view in free if now - view.created_at >= grace]
    going = _lowest(old, excess, now)
    if len(going) < excess:
        young = [view for view in free if now - view.created_at < grace]
        going += _lowest(young, excess - len(going), now)
    return going


def _lowest(views: Sequence[EvictionView], count: int, now: Micros) -> list[str]:
    return [id_ for _, id_ in nsmallest(count, ((value(view, now), view.id) for view in views))]
