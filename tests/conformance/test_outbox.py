"""The Outbox port, on SQLite and MariaDB."""

import asyncio

import pytest

from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.outbox import SqlOutbox
from memory_service.adapters.sql.record import SqlRecord
from memory_service.record import OutboxItem, OutboxStats
from tests.records import SECOND, ManualClock, Place, head, memory_id

LEASE = 60 * SECOND


@pytest.fixture
def outbox(database: Database, clock: ManualClock) -> SqlOutbox:
    return SqlOutbox(database, clock)


def keys(*names: str) -> list[tuple[str, str]]:
    return [("u1", name) for name in names]


def ids(items: list[OutboxItem]) -> list[str]:
    return [item.memory_id for item in items]


async def test_an_empty_outbox_has_nothing_to_do(outbox: SqlOutbox) -> None:
    assert await outbox.claim(10, LEASE) == []
    assert await outbox.recent("u1") == set()
    assert await outbox.purge(2**60) == 0
    assert await outbox.stats() == OutboxStats(0, 0)
    await outbox.settle([])
    await outbox.postpone([], SECOND)
    await outbox.enqueue([])


async def test_lines_are_claimed_oldest_first_up_to_the_limit(outbox: SqlOutbox, clock: ManualClock) -> None:
    for name in ("c", "a", "b"):
        await outbox.enqueue(keys(name))
        clock.advance(1)
    assert ids(await outbox.claim(2, LEASE)) == ["c", "a"]
    assert ids(await outbox.claim(2, LEASE)) == ["b"]
    assert await outbox.claim(2, LEASE) == []


async def test_a_claimed_line_is_due_again_after_its_lease(outbox: SqlOutbox, clock: ManualClock) -> None:
    await outbox.enqueue(keys("a"))
    [first] = await outbox.claim(10, LEASE)
    assert (first.user_id, first.memory_id, first.attempts) == ("u1", "a", 0)
    clock.advance(LEASE - 1)
    assert await outbox.claim(10, LEASE) == []
    clock.advance(1)
    assert await outbox.claim(10, LEASE) == [first]


async def test_a_settled_line_is_not_claimed_but_recent_until_purged(outbox: SqlOutbox, clock: ManualClock) -> None:
    await outbox.enqueue([*keys("a", "b"), ("u2", "c")])
    items = {item.memory_id: item for item in await outbox.claim(10, LEASE)}
    await outbox.settle([items["a"]])
    settled_at = clock.now
    clock.advance(LEASE)
    assert ids(await outbox.claim(10, LEASE)) != []
    assert await outbox.recent("u1") == {"a", "b"}, "what is settled may not be visible yet"
    assert await outbox.recent("u2") == {"c"}
    assert await outbox.purge(settled_at) == 0, "before that instant"
    assert await outbox.purge(settled_at + 1) == 1
    assert await outbox.recent("u1") == {"b"}, "pending lines are never purged"
    clock.advance(LEASE)
    assert set(ids(await outbox.claim(10, LEASE))) == {"b", "c"}


async def test_settling_with_an_old_token_leaves_the_line_pending(outbox: SqlOutbox, clock: ManualClock) -> None:
    await outbox.enqueue(keys("a"))
    [old] = await outbox.claim(10, LEASE)
    await outbox.enqueue(keys("a"))  # changed again while the worker was busy
    await outbox.settle([old])
    [new] = await outbox.claim(10, LEASE)
    assert new.memory_id == "a"
    assert new.token != old.token
    await outbox.postpone([old], 10 * LEASE)
    assert (await outbox.stats()).rows == 1
    await outbox.settle([new])
    clock.advance(20 * LEASE)
    assert await outbox.claim(10, LEASE) == []


async def test_a_line_written_anew_is_due_at_once_whatever_it_was(outbox: SqlOutbox, clock: ManualClock) -> None:
    await outbox.enqueue(keys("settled", "postponed", "claimed"))
    items = {item.memory_id: item for item in await outbox.claim(10, LEASE)}
    await outbox.settle([items["settled"]])
    await outbox.postpone([items["postponed"]], 10 * LEASE)
    clock.advance(5)
    await outbox.enqueue(keys("settled", "postponed", "claimed"))
    assert await outbox.stats() == OutboxStats(3, 0)
    again = await outbox.claim(10, LEASE)
    assert set(ids(again)) == {"settled", "postponed", "claimed"}
    assert {item.attempts for item in again} == {0}


async def test_postpone_counts_attempts_and_waits(outbox: SqlOutbox, clock: ManualClock) -> None:
    await outbox.enqueue(keys("a", "b"))
    for attempts in range(3):
        items = await outbox.claim(10, LEASE)
        assert [item.attempts for item in items] == [attempts, attempts]
        await outbox.postpone(items, 5 * SECOND)
        clock.advance(5 * SECOND - 1)
        assert await outbox.claim(10, LEASE) == []
        clock.advance(1)


async def test_stats_count_what_is_pending_and_its_age(outbox: SqlOutbox, clock: ManualClock) -> None:
    await outbox.enqueue(keys("a"))
    clock.advance(7 * SECOND)
    await outbox.enqueue(keys("b", "c"))
    assert await outbox.stats() == OutboxStats(3, 7 * SECOND)
    [oldest] = await outbox.claim(1, LEASE)
    assert await outbox.stats() == OutboxStats(3, 7 * SECOND), "claimed is not settled"
    await outbox.settle([oldest])
    assert await outbox.stats() == OutboxStats(2, 0)


async def test_users_and_ids_of_lines_compare_by_bytes(outbox: SqlOutbox) -> None:
    names = [("Alice", "a"), ("alice", "a"), ("alice", "A"), ("álice", "a")]
    await outbox.enqueue(names)
    items = await outbox.claim(10, LEASE)
    assert sorted((item.user_id, item.memory_id) for item in items) == sorted(names)
    await outbox.settle([item for item in items if item.user_id == "Alice"])
    assert (await outbox.stats()).rows == 3


async def test_ten_thousand_lines_are_queued_claimed_and_settled(outbox: SqlOutbox) -> None:
    names = keys(*(memory_id(n) for n in range(10_000)))
    await outbox.enqueue([*names, *names[:10]])
    seen: set[str] = set()
    while items := await outbox.claim(2500, LEASE):
        await outbox.settle(items)
        assert not seen & set(ids(items))
        seen |= set(ids(items))
    assert len(seen) == 10_000
    assert await outbox.recent("u1") == seen
    assert await outbox.purge(2**60) == 10_000


async def test_a_line_and_its_users_transaction_are_one(outbox: SqlOutbox, database: Database, place: Place) -> None:
    record = SqlRecord(database, ManualClock())
    await record.write(head(), lambda tx: tx.enqueue(["a", "b", "a"]))
    assert set(ids(await outbox.claim(10, LEASE))) == {"a", "b"}


async def test_workers_of_several_processes_claim_different_lines(maria: Place, clock: ManualClock) -> None:
    workers = [SqlOutbox(maria.open(timeout=20), clock) for _ in range(2)]
    names = keys(*(memory_id(n) for n in range(600)))
    await workers[0].enqueue(names)

    async def drain(outbox: SqlOutbox) -> list[str]:
        claimed: list[str] = []
        while (await outbox.stats()).rows:
            items = await outbox.claim(40, LEASE)
            claimed += ids(items)
            await asyncio.sleep(0)
            await outbox.settle(items)
        return claimed

    async with asyncio.timeout(60):
        shares = await asyncio.gather(drain(workers[0]), drain(workers[1]), drain(workers[0]))
    everything = [id for share in shares for id in share]
    assert len(everything) == len(set(everything)) == 600


async def test_a_claim_does_not_wait_for_lines_that_a_transaction_holds(maria: Place, clock: ManualClock) -> None:
    outbox, record = SqlOutbox(maria.open(timeout=5), clock), SqlRecord(maria.open(timeout=20), clock)
    await outbox.enqueue([("u1", "held"), ("u2", "free")])
    inside, done = asyncio.Event(), asyncio.Event()

    async def rewrite(tx: object) -> None:
        await tx.enqueue(["held"])  # type: ignore[attr-defined]
        inside.set()
        await done.wait()

    holder = asyncio.create_task(record.write(head(), rewrite))
    await inside.wait()
    assert ids(await outbox.claim(10, LEASE)) == ["free"]
    done.set()
    await holder
    assert ids(await outbox.claim(10, LEASE)) == ["held"]


async def test_producers_and_workers_at_once_lose_no_line(place: Place, clock: ManualClock) -> None:
    """Every memory is claimed at least once after it was queued last."""
    database = place.open(timeout=60)
    outbox, record = SqlOutbox(database, clock), SqlRecord(database, clock)
    pending: set[tuple[str, str]] = set()
    producing = True

    async def produce(user: str) -> None:
        for turn in range(12):
            names = [memory_id(n) for n in range(turn % 5, 8)][:: 1 if turn % 2 else -1]
            await record.write(head(user), lambda tx, names=names: tx.enqueue(names))  # type: ignore[misc]
            pending.update((user, name) for name in names)

    async def work() -> None:
        while producing or (await outbox.stats()).rows:
            items = await outbox.claim(5, LEASE)
            claimed = {(item.user_id, item.memory_id) for item in items}
            pending.difference_update(claimed)
            await outbox.settle(items)

    async with asyncio.timeout(100):
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(work()) for _ in range(2)]
            await asyncio.gather(*(produce(f"u{n}") for n in range(6)))
            producing = False
        assert all(worker.done() for worker in workers)
    assert (await outbox.stats()).rows == 0
    for n in range(6):
        assert await outbox.recent(f"u{n}") == {memory_id(k) for k in range(8)}
