"""The Record port under many callers at once: nothing lost, nothing twice, nobody waits for a stranger.

The writers come from two `Database` objects, as from two processes, where the database allows that: SQLite has one
process. Times are bounded only so that a hang ends.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import pytest

from memory_service.adapters.sql.record import SqlRecord
from memory_service.domain.model import InvalidReason
from memory_service.ports import StoreUnavailable
from memory_service.record import Counters, DuplicateContent, Retirement, UserWrite
from tests.records import GENERATION, PATIENCE_S, START, ManualClock, Place, head, row

T = TypeVar("T")


def processes(place: Place, clock: ManualClock, pool_size: int = 16) -> list[SqlRecord]:
    """Records as of several processes."""
    count = 1 if place.is_sqlite else 2
    return [SqlRecord(place.open(timeout=120, pool_size=pool_size), clock) for _ in range(count)]


async def all_of(calls: Sequence[Awaitable[T]]) -> list[T | BaseException]:
    """Answers and errors of calls that run at once."""
    async with asyncio.timeout(200):
        return await asyncio.gather(*calls, return_exceptions=True)


async def grow(tx: UserWrite) -> int:
    """Reads, gives others their chance, and writes one more."""
    await asyncio.sleep(0)
    await tx.set_head(version=tx.head.version + 1)
    return tx.head.version + 1


async def test_200_concurrent_read_modify_writes_lose_none(place: Place, clock: ManualClock) -> None:
    records = processes(place, clock)
    answers = await all_of([records[n % len(records)].write(head(), grow) for n in range(200)])
    assert sorted(a for a in answers if isinstance(a, int)) == list(range(1, 201))
    assert await records[0].head("u1") == head(version=200)


@pytest.mark.parametrize("kind", ["one user", "new users"])
async def test_32_concurrent_writers_meet_no_deadlock(place: Place, clock: ManualClock, kind: str) -> None:
    records = processes(place, clock)

    async def writer(number: int) -> None:
        for turn in range(6):
            user = "u1" if kind == "one user" else f"u{turn}-{number % 8}"

            async def work(tx: UserWrite) -> None:
                new = row(user=tx.head.user_id)
                await tx.insert([new])
                await tx.enqueue([new.id])
                await tx.set_head(version=tx.head.version + 1)

            await records[number % len(records)].write(head(user), work)

    assert await all_of([writer(n) for n in range(32)]) == [None] * 32
    assert await place.sql("SELECT SUM(version), COUNT(*) FROM memory_head") == [
        (192, 1) if kind == "one user" else (192, 48)
    ]
    assert await place.sql("SELECT COUNT(*) FROM user_memory") == [(192,)]
    assert await place.sql("SELECT COUNT(*) FROM vector_outbox") == [(192,)]


async def test_500_concurrent_writers_of_one_text_leave_one_row(place: Place, clock: ManualClock) -> None:
    """Without a look at what is there: the UNIQUE constraint alone decides, and each loser is told."""
    records = processes(place, clock)

    async def blind(tx: UserWrite) -> str:
        new = row("I really like coffee")
        await tx.insert([new])
        return new.id

    answers = await all_of([records[n % len(records)].write(head(), blind) for n in range(500)])
    [winner] = [answer for answer in answers if isinstance(answer, str)]
    assert sum(isinstance(answer, DuplicateContent) for answer in answers) == 499
    assert [one.id for one in await records[0].active_rows("u1", GENERATION)] == [winner]


async def test_500_concurrent_writers_that_look_first_all_answer_the_winner(place: Place, clock: ManualClock) -> None:
    """Under the head a look is enough: nobody meets the constraint."""
    records = processes(place, clock)

    async def look(tx: UserWrite) -> str:
        new = row("I really like coffee")
        for present in await tx.active_rows():
            if present.content_hmac == new.content_hmac:
                return present.id
        await asyncio.sleep(0)
        await tx.insert([new])
        return new.id

    answers = await all_of([records[n % len(records)].write(head(), look) for n in range(500)])
    assert len(set(answers)) == 1
    assert [one.id for one in await records[0].active_rows("u1", GENERATION)] == [answers[0]]


async def test_two_corrections_of_one_memory_leave_one_successor(place: Place, clock: ManualClock) -> None:
    records = processes(place, clock)
    old = row("old")
    await records[0].write(head(), lambda tx: tx.insert([old]))

    def correct(number: int) -> Callable[[UserWrite], Awaitable[bool]]:
        async def work(tx: UserWrite) -> bool:
            if not [one for one in await tx.active_rows() if one.id == old.id]:
                return False
            new = row(f"new {number}")
            gone = Retirement(id=old.id, reason=InvalidReason.SUPERSEDED, at=START, superseded_by=new.id)
            await tx.retire([gone], 2)
            await tx.insert([new])
            return True

        return work

    answers = await all_of([records[n % len(records)].write(head(), correct(n)) for n in range(20)])
    assert sorted(map(bool, answers)) == [False] * 19 + [True]
    [successor] = await records[0].active_rows("u1", GENERATION)
    [retired] = await records[0].rows("u1", GENERATION, [old.id])
    assert retired.superseded_by == successor.id


async def test_concurrent_touches_add_up(place: Place, clock: ManualClock) -> None:
    records = processes(place, clock)
    rows = [row() for _ in range(5)]
    await records[0].write(head(), lambda tx: tx.insert(rows))

    def batch(number: int) -> dict[tuple[str, str], Counters]:
        order = rows if number % 2 else rows[::-1]
        return {("u1", one.id): Counters(1, START + number) for one in order}

    assert await all_of([records[n % len(records)].touch(batch(n)) for n in range(40)]) == [None] * 40
    for one in await records[0].active_rows("u1", GENERATION):
        assert (one.access_count, one.last_accessed_at) == (40, START + 39)


async def test_touches_never_fail_a_write_and_count_exactly_once(place: Place, clock: ManualClock) -> None:
    """They take no head, so they can deadlock with a write: then it is the touch that gives way, and comes again."""
    records = processes(place, clock)
    rows = [row() for _ in range(30)]
    await records[0].write(head(), lambda tx: tx.insert(rows))

    async def flusher(record: SqlRecord) -> None:
        counted = 0
        while counted < 10:
            with contextlib.suppress(StoreUnavailable):  # as the access log does
                await record.touch({("u1", one.id): Counters(1, START) for one in rows})
                counted += 1

    async def amend(number: int) -> None:
        async def work(tx: UserWrite) -> None:
            for one in reversed(rows):  # against the order in which touches take them
                await tx.amend(one.id, number, {"pinned": True})

        await records[number % len(records)].write(head(), work)

    calls = [*map(flusher, records), *map(amend, range(12))]
    assert await all_of(calls) == [None] * len(calls)
    assert {one.access_count for one in await records[0].active_rows("u1", GENERATION)} == {10 * len(records)}


async def test_a_pooled_connection_answers_no_old_snapshot(place: Place, clock: ManualClock) -> None:
    reader, writer = (SqlRecord(place.open(timeout=20, pool_size=1), clock) for _ in range(2))
    await writer.write(head(), grow)
    for version in range(1, 4):
        found = await reader.head("u1")
        assert found is not None
        assert found.version == version
        assert len(await reader.active_rows("u1", GENERATION)) == version - 1
        new = row()

        async def work(tx: UserWrite) -> None:
            await tx.insert([new])  # noqa: B023
            await grow(tx)

        await writer.write(head(), work)
    with pytest.raises(LookupError):
        await reader.write(head(), _refuse)  # a rolled back transaction leaves no snapshot either
    await writer.write(head(), grow)
    assert await reader.head("u1") == head(version=5)


async def _refuse(tx: UserWrite) -> None:
    await tx.active_rows()
    raise LookupError


async def test_a_transaction_sees_what_was_committed_before_it_took_the_head(maria: Place, clock: ManualClock) -> None:
    """READ COMMITTED: under REPEATABLE READ a waiting writer would decide on the rows of before it waited."""
    first, second = processes(maria, clock)
    new, may_commit = row("new"), asyncio.Event()

    async def slow(tx: UserWrite) -> None:
        await tx.insert([new])
        await may_commit.wait()

    async def waiting(tx: UserWrite) -> list[str]:
        return [one.id for one in await tx.active_rows()]

    await first.write(head(), grow)
    holder = asyncio.create_task(first.write(head(), slow))
    waiter = asyncio.create_task(second.write(head(), waiting))
    await maria.lock_waited()
    may_commit.set()
    await holder
    assert await waiter == [new.id]


@pytest.mark.parametrize("others", ["known", "new"])
async def test_writes_of_different_users_do_not_block_each_other(maria: Place, clock: ManualClock, others: str) -> None:
    """SQLite has one writer at a time, by its nature and in `engine`; its file is one laptop's."""
    first, second = processes(maria, clock)
    users = ["a", "b", "b0", "c", "ba"]
    rows = {user: row(user=user) for user in users}
    for user in users if others == "known" else ["b"]:
        await first.write(head(user), lambda tx: tx.insert([rows[tx.head.user_id]]))
    inside, done = asyncio.Event(), asyncio.Event()

    async def slow(tx: UserWrite) -> None:
        gone = Retirement(id=rows["b"].id, reason=InvalidReason.CLEARED, at=START)
        await tx.retire([gone], 2)
        await tx.insert([row(user="b") for _ in range(20)])
        await tx.enqueue([rows["b"].id])
        inside.set()
        await done.wait()

    async def quick(tx: UserWrite) -> None:
        new = row(user=tx.head.user_id)
        await tx.insert([new])
        await tx.retire([Retirement(id=new.id, reason=InvalidReason.CLEARED, at=START)], 2)
        await tx.enqueue([new.id])
        await tx.set_head(version=1)

    holder = asyncio.create_task(first.write(head("b"), slow))
    await inside.wait()
    async with asyncio.timeout(PATIENCE_S):
        for user in users:
            if user != "b":
                await second.write(head(user), quick)
                assert await first.head(user) == head(user, version=1)
        assert await second.head("b") == head("b"), "a read waits for no writer"
    assert not holder.done()
    done.set()
    await holder


async def test_a_reader_waits_for_no_writer(place: Place, clock: ManualClock) -> None:
    record = processes(place, clock)[0]
    old = row("old")
    await record.write(head(), lambda tx: tx.insert([old]))
    inside, done = asyncio.Event(), asyncio.Event()

    async def slow(tx: UserWrite) -> None:
        await tx.amend(old.id, 2, {"pinned": True})
        await tx.insert([row("new")])
        inside.set()
        await done.wait()

    holder = asyncio.create_task(record.write(head(), slow))
    await inside.wait()
    async with asyncio.timeout(PATIENCE_S):
        assert await record.active_rows("u1", GENERATION) == [old]
    done.set()
    await holder
    assert replace(old, pinned=True, revision=2) in await record.active_rows("u1", GENERATION)
