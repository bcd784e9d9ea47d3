"""The Record port when callers give up and when the database goes away, freezes or closes connections."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.record import SqlRecord
from memory_service.domain.model import Head
from memory_service.ports import StoreUnavailable
from memory_service.record import Remembered, UserWrite
from tests.records import GENERATION, PATIENCE_S, START, ManualClock, Place, head, row, sqlite_ended
from tests.servers import MariaDB

POOL = 3


@pytest.fixture
def record(place: Place, clock: ManualClock) -> SqlRecord:
    return SqlRecord(place.open(timeout=20, pool_size=POOL), clock)


async def one_more(tx: UserWrite) -> None:
    """A whole write: a row, its line, the head."""
    new = row(user=tx.head.user_id)
    await tx.insert([new])
    await tx.enqueue([new.id])
    await tx.set_head(version=tx.head.version + 1)


async def all_usable(record: SqlRecord, users: int = 2 * POOL) -> None:
    """Every connection of the pool takes a write and a read at once."""
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(record.write(head(f"check{n}"), one_more) for n in range(users)))
        found = await asyncio.gather(*(record.head(f"check{n}") for n in range(users)))
    assert all(one is not None and one.version >= 1 for one in found)


async def nothing_of(place: Place, user: str) -> None:
    for table in ("memory_head", "user_memory", "vector_outbox", "idempotency"):
        assert await place.sql(f"SELECT COUNT(*) FROM {table} WHERE user_id = '{user}'") == [(0,)], table


# Callers that give up


async def test_a_write_cancelled_in_its_work_writes_nothing_and_frees_its_connection(
    record: SqlRecord, place: Place
) -> None:
    for attempt in range(2 * POOL):  # a leak of one connection each would drain the pool
        inside = asyncio.Event()

        async def work(tx: UserWrite) -> None:
            await one_more(tx)
            await tx.remember_outcome("Save", "r1", Remembered(b"h" * 32, {}))
            inside.set()  # noqa: B023
            await asyncio.Event().wait()

        task = asyncio.create_task(record.write(head(f"gone{attempt}"), work))
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await nothing_of(place, f"gone{attempt}")
    await all_usable(record)


async def test_writes_cancelled_while_they_wait_for_the_head_write_nothing(record: SqlRecord, place: Place) -> None:
    await record.write(head(), one_more)
    inside, done = asyncio.Event(), asyncio.Event()

    async def hold(tx: UserWrite) -> None:
        inside.set()
        await done.wait()

    holder = asyncio.create_task(record.write(head(), hold))
    await inside.wait()
    waiting = POOL - 1
    for _ in range(3):
        tasks = [asyncio.create_task(record.write(head(), one_more)) for _ in range(waiting)]
        if place.is_sqlite:
            await asyncio.sleep(0)
        else:
            await place.lock_waited(waiting)  # the statements run on the server, where a cancel does not reach them
        for task in tasks:
            task.cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(answer, asyncio.CancelledError) for answer in answers)
        assert await record.head("u1") == head(version=1), "the pool serves on"
    done.set()
    await holder
    await all_usable(record)
    assert await record.head("u1") == head(version=1)
    assert len(await record.active_rows("u1", GENERATION)) == 1


async def test_reads_cancelled_at_any_moment_mix_up_no_answers(record: SqlRecord) -> None:
    users = [f"u{n}" for n in range(12)]
    for user in users:
        await record.write(head(user), lambda tx: tx.insert([row(user=tx.head.user_id, content=b"x" * 2000)]))

    async def impatient(number: int) -> None:
        task = asyncio.create_task(record.active_rows(users[number % 12], GENERATION))
        for _ in range(number % 40):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async with asyncio.timeout(100):
        await asyncio.gather(*(impatient(n) for n in range(120)))
        for _ in range(3):
            found = await asyncio.gather(*(record.active_rows(user, GENERATION) for user in users))
            assert [[one.user_id for one in rows] for rows in found] == [[user] for user in users]
    await all_usable(record)


async def test_writes_cancelled_at_any_moment_are_whole_or_not_there(record: SqlRecord, place: Place) -> None:
    async def impatient(number: int) -> None:
        task = asyncio.create_task(record.write(head("u1"), one_more))
        for _ in range(number):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async with asyncio.timeout(100):
        for number in range(0, 60, 2):
            await impatient(number)
    await all_usable(record)
    # A commit that was cancelled may have happened: then all of it.
    [(version,)] = await place.sql("SELECT COALESCE(MAX(version), 0) FROM memory_head WHERE user_id = 'u1'")
    assert await place.sql("SELECT COUNT(*) FROM user_memory WHERE user_id = 'u1'") == [(version,)]
    assert await place.sql("SELECT COUNT(*) FROM vector_outbox WHERE user_id = 'u1'") == [(version,)]


async def test_a_pool_that_stays_drained_answers_unavailable(place: Place, clock: ManualClock) -> None:
    record = SqlRecord(place.open(timeout=0.5, pool_size=1), clock)
    await record.ping()
    inside, done = asyncio.Event(), asyncio.Event()

    async def hold(tx: UserWrite) -> None:
        inside.set()
        await done.wait()

    holder = asyncio.create_task(record.write(head(), hold, seconds=PATIENCE_S))
    await inside.wait()
    with pytest.raises(StoreUnavailable):
        await record.head("u1")
    if place.is_sqlite:  # its one writer is awaited for as long as the call may last: the store is not to blame
        waiting = asyncio.create_task(record.write(head("u2"), one_more))
        assert not (await asyncio.wait([waiting], timeout=0.8))[0]
        done.set()
        await asyncio.gather(holder, waiting)
    else:
        with pytest.raises(StoreUnavailable):
            await record.write(head("u2"), one_more)
        done.set()
        await holder
    await all_usable(record, users=1)


async def test_work_that_outlasts_the_limit_writes_nothing_unless_more_was_asked_for(
    place: Place, clock: ManualClock
) -> None:
    record = SqlRecord(place.open(timeout=0.5, pool_size=POOL), clock)
    await record.ping()

    async def slow(tx: UserWrite) -> None:
        await one_more(tx)
        await asyncio.sleep(0.8)

    with pytest.raises(StoreUnavailable) as caught:
        await record.write(head(), slow)
    assert caught.value.store == "record"
    await nothing_of(place, "u1")
    await record.write(head(), slow, seconds=PATIENCE_S)
    assert await record.head("u1") == head(version=1)


# A database that is not there, or not as it should be


async def test_a_database_without_the_schema_is_unavailable(
    place: Place, clock: ManualClock, request: pytest.FixtureRequest
) -> None:
    record = SqlRecord(place.open(), clock)
    await place.sql("ALTER TABLE memory_head RENAME TO elsewhere")
    try:
        with pytest.raises(StoreUnavailable):
            await record.ping()
        with pytest.raises(StoreUnavailable):
            await record.write(head(), one_more)
    finally:
        await place.sql("ALTER TABLE elsewhere RENAME TO memory_head")
    await record.ping()


@pytest.mark.parametrize("scheme", ["mysql", "mariadb"])
async def test_a_server_that_is_not_there_is_unavailable(free_port: int, clock: ManualClock, scheme: str) -> None:
    database = Database(f"{scheme}://user:secret@127.0.0.1:{free_port}/x", timeout=2)
    record = SqlRecord(database, clock)
    calls = [record.ping(), record.head("u1"), record.write(head(), one_more), record.touch({})]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers[:3]] == [StoreUnavailable] * 3
    assert not any("secret" in str(answer) for answer in answers)
    await database.close()


async def test_an_unreachable_sqlite_file_is_unavailable(clock: ManualClock) -> None:
    record = SqlRecord(Database("sqlite:////nowhere/at/all.db"), clock)
    with pytest.raises(StoreUnavailable):
        await record.head("u1")
    await record.close()
    await sqlite_ended()


# Connections that the server closes


@pytest.fixture
def pooled(maria: Place, clock: ManualClock) -> SqlRecord:
    return SqlRecord(maria.open(timeout=20, pool_size=POOL), clock)


async def test_killed_idle_connections_are_replaced_unnoticed(maria: Place, pooled: SqlRecord) -> None:
    await all_usable(pooled)
    assert await maria.kill_connections() == POOL
    found = await asyncio.gather(*(pooled.head(f"check{n}") for n in range(2 * POOL)))
    assert all(found)
    assert await maria.kill_connections() >= 1
    await all_usable(pooled)
    assert await pooled.head("check0") == head("check0", version=2)


async def test_one_killed_connection_is_replaced_for_a_write_in_a_pool_of_one(maria: Place, clock: ManualClock) -> None:
    record = SqlRecord(maria.open(timeout=5, pool_size=1), clock)
    for turn in range(1, 4):
        await record.write(head(), one_more)
        assert await maria.kill_connections() == 1
        found = await record.head("u1") if turn % 2 else None
        assert found is None or found.version == turn
        await maria.kill_connections()


async def test_a_connection_killed_in_a_transaction_fails_it_and_writes_nothing(
    maria: Place, pooled: SqlRecord
) -> None:
    runs = 0

    async def work(tx: UserWrite) -> None:
        nonlocal runs
        runs += 1
        await one_more(tx)
        await maria.kill_connections()
        await tx.active_rows()

    with pytest.raises(StoreUnavailable):
        await pooled.write(head(), work)
    assert runs == 1, "what was done is not known to be undone before it is begun again"
    await nothing_of(maria, "u1")
    await all_usable(pooled)


async def test_a_connection_killed_before_the_commit_writes_nothing(maria: Place, pooled: SqlRecord) -> None:
    async def work(tx: UserWrite) -> None:
        await one_more(tx)
        await maria.kill_connections()

    with pytest.raises(StoreUnavailable):
        await pooled.write(head(), work)
    await nothing_of(maria, "u1")
    await all_usable(pooled)


async def test_a_work_that_swallows_the_loss_of_its_connection_commits_nothing(maria: Place, pooled: SqlRecord) -> None:
    async def work(tx: UserWrite) -> None:
        await one_more(tx)
        await maria.kill_connections()
        for _ in range(2):
            try:
                await one_more(tx)
            except Exception:
                continue

    with pytest.raises(StoreUnavailable):
        await pooled.write(head(), work)
    await nothing_of(maria, "u1")
    await all_usable(pooled)


# The server itself


@pytest.fixture
async def running(mariadb: MariaDB) -> AsyncIterator[MariaDB]:
    """The server, which goes on after the test, whatever became of it."""
    yield mariadb
    try:
        await asyncio.to_thread(mariadb.resume)
    except RuntimeError:
        await asyncio.to_thread(mariadb.start)


async def test_a_restarted_server_is_found_again(maria: Place, pooled: SqlRecord, running: MariaDB) -> None:
    await all_usable(pooled)
    await asyncio.to_thread(running.restart)
    assert await pooled.head("check0") == head("check0", version=1)
    await asyncio.to_thread(running.restart)
    await all_usable(pooled)


async def test_a_crashed_server_is_unavailable_and_has_kept_what_was_answered(
    maria: Place, pooled: SqlRecord, running: MariaDB
) -> None:
    await all_usable(pooled)

    async def half(tx: UserWrite) -> None:
        await one_more(tx)
        await asyncio.to_thread(running.kill)

    with pytest.raises(StoreUnavailable):
        await pooled.write(head(), half)
    for call in (pooled.head("check0"), pooled.write(head("check0"), one_more)):
        with pytest.raises(StoreUnavailable):
            await call
    await asyncio.to_thread(running.start)
    assert await pooled.head("check0") == head("check0", version=1)
    await nothing_of(maria, "u1")
    await all_usable(pooled)


async def test_a_frozen_server_is_unavailable_within_the_limit_and_usable_afterwards(
    maria: Place, clock: ManualClock, running: MariaDB
) -> None:
    warm = SqlRecord(maria.open(timeout=1, pool_size=POOL), clock)
    cold = SqlRecord(maria.open(timeout=1, pool_size=POOL), clock)
    await all_usable(warm)
    inside, frozen = asyncio.Event(), asyncio.Event()

    async def caught_inside(tx: UserWrite) -> Head:
        inside.set()
        await frozen.wait()
        await one_more(tx)
        return tx.head

    began = asyncio.get_running_loop().time()
    holder = asyncio.create_task(warm.write(head("caught"), caught_inside))
    await inside.wait()
    running.pause()
    frozen.set()
    calls = [call for record in (warm, cold) for n in range(POOL) for call in (record.head(f"check{n}"),)]
    calls += [record.write(head(f"check{n}"), one_more) for record in (warm, cold) for n in range(POOL)]
    async with asyncio.timeout(10):  # ten times what each may take: ends a hang, measures nothing
        answers = await asyncio.gather(holder, *calls, return_exceptions=True)
    assert {type(answer) for answer in answers} == {StoreUnavailable}, answers
    assert asyncio.get_running_loop().time() - began > 0.9, "they waited for the limit"
    await asyncio.to_thread(running.resume)
    patient = SqlRecord(maria.open(timeout=20, pool_size=POOL), clock)
    await all_usable(patient)
    await all_usable(warm)
    await all_usable(cold)
    await nothing_of(maria, "caught")


async def test_times_are_kept_in_utc_whatever_the_server_thinks(maria: Place, pooled: SqlRecord) -> None:
    new = row("a", created_at=START, expires_at=START + 1)
    await pooled.write(head(), lambda tx: tx.insert([new]))
    assert await maria.sql("SELECT created_at, expires_at FROM user_memory") == [(START, START + 1)]
