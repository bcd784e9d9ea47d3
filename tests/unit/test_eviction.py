"""Which memories go above the cap."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.eviction import EvictionView, choose, value

DAY = 86_400_000_000
NOW = 1_000 * DAY


def view(
    name: str, *, age: float = 30, accessed: float | None = None, count: int = 0, pinned: bool = False
) -> EvictionView:
    last = None if accessed is None else NOW - round(accessed * DAY)
    return EvictionView(name, NOW - round(age * DAY), last, count, pinned)


def test_the_value_is_the_documents_formula() -> None:
    assert value(view("a", age=14), NOW) == pytest.approx(math.exp(-1))
    assert value(view("a", age=90, accessed=7, count=3), NOW) == pytest.approx(math.exp(-0.5) + 0.5 * math.log(4))
    assert value(view("a", age=-5), NOW) == pytest.approx(1.0)


def test_nothing_goes_up_to_the_cap() -> None:
    assert choose([view("a"), view("b")], 2, DAY, NOW, frozenset()) == []


def test_the_least_valuable_go_first_until_at_the_cap() -> None:
    active = [view("old", age=90), view("used", age=90, accessed=1, count=5), view("mid", age=40), view("new", age=2)]
    assert choose(active, 2, DAY, NOW, frozenset()) == ["old", "mid"]


def test_an_idle_but_much_used_memory_outlives_a_fresh_unused_one() -> None:
    active = [view("much", age=300, accessed=200, count=50), view("fresh", age=2)]
    assert choose(active, 1, DAY, NOW, frozenset()) == ["fresh"]


def test_ties_go_by_id() -> None:
    assert choose([view("c"), view("a"), view("b")], 1, DAY, NOW, frozenset()) == ["a", "b"]


def test_pinned_and_protected_never_go() -> None:
    active = [view("p", age=900, pinned=True), view("w", age=900), view("x", age=3)]
    assert choose(active, 1, DAY, NOW, frozenset({"w"})) == ["x"]
    assert choose(active[:2], 1, DAY, NOW, frozenset({"w"})) == []


def test_within_grace_nothing_goes_while_older_ones_are_there() -> None:
    active = [view("young", age=0.5), view("used", age=90, accessed=0, count=99)]
    assert choose(active, 1, DAY, NOW, frozenset()) == ["used"]


def test_exactly_grace_old_is_no_longer_young() -> None:
    assert choose([view("a", age=0.2), view("b", age=1)], 1, DAY, NOW, frozenset()) == ["b"]


def test_when_all_are_young_the_cap_still_holds() -> None:
    active = [view("a", age=0.1), view("b", age=0.9), view("c", age=0.5)]
    assert choose(active, 1, DAY, NOW, frozenset()) == ["b", "c"]
    mixed = [*active, view("old", age=5), view("keep", age=5, pinned=True)]
    assert choose(mixed, 2, DAY, NOW, frozenset({"a"})) == ["old", "b", "c"]


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 5), st.booleans()), max_size=30),
    st.integers(0, 30),
    st.sets(st.integers(0, 29)),
)
def test_invariants(rows: list[tuple[int, int, bool]], cap: int, kept: set[int]) -> None:
    active = [EvictionView(f"{i:02}", NOW - age * 1000, None, count, pin) for i, (age, count, pin) in enumerate(rows)]
    protected = frozenset(f"{i:02}" for i in kept)
    going = choose(active, cap, DAY, NOW, protected)
    free = {view.id for view in active if not view.pinned} - protected
    assert len(set(going)) == len(going)
    assert set(going) <= free
    assert len(going) == min(len(free), max(0, len(active) - cap))
