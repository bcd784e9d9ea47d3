"""Eviction through the public door, on a service of its own whose cap is lowered through AdminService."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from shared.gen.palimpsest.memory.v1 import admin_service_pb2 as admin
from shared.gen.palimpsest.memory.v1 import memory_pb2 as m
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb
from tests.acceptance.calls import (
    ADDED,
    DUPLICATE,
    PRECONDITION,
    REPLACED,
    added,
    batch,
    clear,
    draft,
    get,
    invalidate,
    listed,
    recall,
    restore,
    save,
    update,
)
from tests.acceptance.conftest import environment_of
from tests.service import Client, ServiceProcess, eventually, refused

CAP = 5


@pytest.fixture(scope="module")
def small(request: pytest.FixtureRequest, deployment: str) -> Iterator[ServiceProcess]:
    """A service on which nobody has more than five active memories."""
    with ServiceProcess(environment_of(request, deployment)) as process:
        client = Client(process.address)
        client.UpdateSettings(admin.UpdateSettingsRequest(values={"eviction.max_active": str(CAP)}))
        client.close()
        yield process


@pytest.fixture
def client(small: ServiceProcess) -> Iterator[Client]:
    """A client of a new user of it."""
    client = Client(small.address)
    yield client
    client.close()


@pytest.fixture
def settings(client: Client) -> Iterator[Callable[..., None]]:
    """Changes settings for one test."""

    def change(**values: str) -> None:
        named = {name.replace("__", "."): value for name, value in values.items()}
        client.UpdateSettings(admin.UpdateSettingsRequest(values=named))

    yield change
    change(eviction__max_active=str(CAP), eviction__grace_hours="")


def fill(client: Client, count: int = CAP, *, first: int = 1, pinned: bool = False) -> list[m.Memory]:
    """So many memories, one save after the other."""
    return [added(client, f"Order {n} was paid", pinned=pinned) for n in range(first, first + count)]


def active(client: Client) -> set[str]:
    return {memory.id for memory in listed(client)}


def test_nobody_is_evicted_up_to_the_cap(client: Client) -> None:
    fill(client, CAP - 1)
    assert not save(client, "Order 77 was paid").evicted_ids
    assert len(active(client)) == CAP


def test_above_the_cap_the_oldest_of_equals_goes_and_is_named(client: Client) -> None:
    kept = fill(client)
    answer = save(client, "Order 77 was paid")
    assert answer.outcome == ADDED
    assert list(answer.evicted_ids) == [kept[0].id]
    assert active(client) == {memory.id for memory in kept[1:]} | {answer.memory.id}
    gone = get(client, kept[0].id)
    assert gone.invalid_reason == m.INVALID_REASON_EVICTED
    assert gone.HasField("invalidated_at")
    assert not gone.superseded_by
    assert not gone.HasField("valid_to"), "it holds still, it only lost its place"
    assert gone.etag != kept[0].etag
    assert [found.id for found in listed(client, state=pb.MEMORY_STATE_RETIRED)] == [gone.id]
    assert kept[0].id not in {found.id for found in recall(client, "order 1", top_k=100)}


def test_what_was_used_stays(client: Client) -> None:
    kept = fill(client)
    for _ in range(3):  # two of the oldest are used: one recalled, one repeated
        assert [found.id for found in recall(client, "order 1 paid", top_k=1)] == [kept[0].id]
    assert save(client, "Order 2 was paid").outcome == DUPLICATE
    # Not even the counts have to be written first.
    assert list(save(client, "Order 77 was paid").evicted_ids) == [kept[2].id]
    eventually(lambda: get(client, kept[0].id).access_count == 3, what="access counts")
    assert list(save(client, "Order 78 was paid").evicted_ids) == [kept[3].id]


def test_pinned_memories_stay(client: Client) -> None:
    kept = fill(client)
    update(client, kept[0].id, pinned=True)
    pinned = added(client, "Order 77 was paid", pinned=True)
    assert kept[1].id not in active(client)
    for n in range(78, 84):
        save(client, f"Order {n} was paid")
    assert {kept[0].id, pinned.id} < active(client)
    assert len(active(client)) == CAP
    update(client, kept[0].id, pinned=False)
    assert list(save(client, "Order 99 was paid").evicted_ids) == [kept[0].id]


def test_pins_do_not_grow_beyond_the_cap(client: Client) -> None:
    pinned = fill(client, CAP, pinned=True)
    new = added(client, "Order 77 was paid")
    refusals: list[Callable[[], object]] = [
        lambda: save(client, "Order 78 was paid", pinned=True),
        lambda: batch(client, [draft("Order 79 was paid"), draft("Order 80 was paid", pinned=True)]),
        lambda: update(client, new.id, pinned=True),
        lambda: update(client, new.id, content="Order 81 was paid", pinned=True),
    ]
    for call in refusals:
        with refused(PRECONDITION) as refusal:
            call()
        assert refusal.details.reason == "TOO_MANY_PINNED"
    assert active(client) == {memory.id for memory in pinned} | {new.id}
    # A pin that takes another's place, or that is there, is no further one.
    assert save(client, "Order 5 was paid", pinned=True).outcome == DUPLICATE
    heir = save(client, "Order 5 was sent back", pinned=True, supersedes=[pinned[-1].id])
    assert heir.memory.pinned
    assert update(client, heir.memory.id, content="Order 5 is lost", pinned=True).memory.pinned


def test_a_restored_pin_counts_too(client: Client) -> None:
    first = fill(client, 1, pinned=True)[0]
    invalidate(client, first.id)
    fill(client, CAP, first=2, pinned=True)
    with refused(PRECONDITION) as refusal:
        restore(client, first.id)
    assert refusal.details.reason == "TOO_MANY_PINNED"
    assert len(active(client)) == CAP
    assert first.id not in active(client)


def test_where_all_are_pinned_the_newest_has_the_one_place_left(client: Client) -> None:
    pinned = {memory.id for memory in fill(client, CAP, pinned=True)}
    newest = save(client, "Order 77 was paid")
    assert not newest.evicted_ids, "what was just saved is not lost"
    for n in range(78, 82):
        before, newest = newest, save(client, f"Order {n} was paid")
        assert list(newest.evicted_ids) == [before.memory.id]
    assert active(client) == pinned | {newest.memory.id}


def test_a_restored_memory_takes_the_place_of_the_least(client: Client) -> None:
    kept = fill(client)
    newest = save(client, "Order 77 was paid")
    back = restore(client, kept[0].id)
    assert back.memory.id == kept[0].id
    assert list(back.evicted_ids) == [kept[1].id]
    assert active(client) == {kept[0].id, *(memory.id for memory in kept[2:]), newest.memory.id}
    assert get(client, kept[1].id).invalid_reason == m.INVALID_REASON_EVICTED
    # Coming back counts as a use: it is not the next to go.
    assert list(save(client, "Order 78 was paid").evicted_ids) == [kept[2].id]


def test_an_evicted_text_can_be_saved_again(client: Client) -> None:
    kept = fill(client)
    save(client, "Order 77 was paid")
    again = save(client, "Order 1 was paid")
    assert again.outcome == ADDED
    assert again.memory.id != kept[0].id
    with refused(PRECONDITION) as refusal:
        restore(client, kept[0].id)
    assert refusal.details.metadata == {"conflicting_id": again.memory.id}
    assert list(restore(client, kept[0].id, retire_conflicting=True).evicted_ids) == []
    assert len(active(client)) == CAP


def test_a_replacement_evicts_nobody(client: Client) -> None:
    kept = fill(client, CAP - 1)
    old = added(client, "我用 MySQL 8")
    new = save(client, "我用 MySQL 9")
    assert (new.outcome, list(new.evicted_ids)) == (REPLACED, [])
    assert active(client) == {new.memory.id, *(memory.id for memory in kept)}
    assert get(client, old.id).invalid_reason == m.INVALID_REASON_SUPERSEDED


def test_a_batch_holds_the_cap_as_its_drafts_one_by_one_would(client: Client) -> None:
    kept = fill(client)
    results = batch(client, [draft(f"Parcel {n} has arrived") for n in range(2 * CAP)])
    assert [r.outcome for r in results] == [ADDED] * len(results)
    going = [memory.id for memory in kept] + [r.memory.id for r in results]
    assert [list(r.evicted_ids) for r in results] == [[id] for id in going[: len(results)]]
    assert active(client) == {r.memory.id for r in results[CAP:]}
    first = get(client, results[0].memory.id)
    assert first.invalid_reason == m.INVALID_REASON_EVICTED
    assert restore(client, first.id).memory.content == "Parcel 0 has arrived"


def test_a_lowered_cap_is_reached_with_the_next_save(client: Client, settings: Callable[..., None]) -> None:
    kept = fill(client)
    settings(eviction__max_active="2")
    assert len(active(client)) == CAP, "the setting itself takes nothing away"
    answer = save(client, "Order 77 was paid")
    assert list(answer.evicted_ids) == [memory.id for memory in kept[:4]]
    assert active(client) == {kept[4].id, answer.memory.id}
    settings(eviction__max_active="1")
    repeated = save(client, "Order 5 was paid")
    assert repeated.outcome == DUPLICATE
    assert list(repeated.evicted_ids) == [answer.memory.id], "never the one that the answer names"
    assert active(client) == {kept[4].id}


def test_the_young_go_last(client: Client, settings: Callable[..., None]) -> None:
    """What is older than the grace goes first, even where it is worth more: it was used, the young ones never."""
    settings(eviction__grace_hours="0.001")  # 3.6 seconds
    old = fill(client, 2)
    for times, order in ((3, 1), (1, 2)):
        for _ in range(times):
            recall(client, f"order {order} paid", top_k=1)
    end = old[1].created_at.ToDatetime(UTC) + timedelta(seconds=3.7)
    eventually(lambda: datetime.now(UTC) > end and get(client, old[0].id).access_count == 3, what="age and counts")
    young = fill(client, CAP - 2, first=3)
    assert list(save(client, "Order 77 was paid").evicted_ids) == [old[1].id]
    settings(eviction__grace_hours="24")  # nobody is old now: the least value goes
    assert list(save(client, "Order 78 was paid").evicted_ids) == [young[0].id]
    assert old[0].id in active(client)


def test_users_are_counted_apart(client: Client, small: ServiceProcess) -> None:
    fill(client)
    other = Client(small.address)
    fill(other)
    assert len(active(client)) == len(active(other)) == CAP
    assert clear(other) == CAP
    assert not save(other, "Order 77 was paid").evicted_ids
    assert len(active(client)) == CAP
    other.close()
