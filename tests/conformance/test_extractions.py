"""The Extractions port, on SQLite and MariaDB: one job of a user at a time, in the order of turns, each done once."""

import asyncio

import pytest

from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.extractions import SqlExtractions
from memory_service.adapters.sql.record import SqlRecord
from memory_service.conversation_ports import ExtractionJob, ExtractionKey, ExtractionState, ExtractionStats
from tests.conformance.test_conversations import append, session, turn
from tests.records import GENERATION, OTHER_GENERATION, SECOND, START, ManualClock, Place, head

LEASE = 60 * SECOND


@pytest.fixture
def record(database: Database, clock: ManualClock) -> SqlRecord:
    return SqlRecord(database, clock)


@pytest.fixture
def jobs(database: Database, clock: ManualClock) -> SqlExtractions:
    return SqlExtractions(database, clock)


async def turns(record: SqlRecord, user: str, number: int) -> None:
    """Appends turns of a session each."""
    await append(record, *(turn(session(f"s{n}", user)) for n in range(1, number + 1)))


async def claim(jobs: SqlExtractions) -> ExtractionJob:
    [job] = await jobs.claim(LEASE)
    return job


async def finish(record: SqlRecord, job: ExtractionJob, outcome: bytes = b"sealed") -> bool:
    return await record.write(
        head(job.user_id, job.generation),
        lambda tx: tx.finish_extraction(job.position, job.lease, outcome, "zh-3", "qwen-flash"),
    )


def places(found: list[ExtractionJob]) -> list[tuple[str, int]]:
    return sorted((job.user_id, job.position) for job in found)


async def test_without_a_turn_there_is_nothing(jobs: SqlExtractions) -> None:
    assert await jobs.claim(LEASE) == []
    assert await jobs.get("u1", GENERATION, "s", 1) is None
    assert await jobs.failed(None, 10) == []
    assert await jobs.retry(None) == 0
    assert await jobs.retry([]) == 0
    assert await jobs.stats() == ExtractionStats()


async def test_a_job_says_what_to_extract(record: SqlRecord, jobs: SqlExtractions, clock: ManualClock) -> None:
    await append(record, turn(session("s", last_turn_at=START - 5)))
    row = await jobs.get("u1", GENERATION, "s", 1)
    assert row is not None
    assert (row.state, row.attempts, row.error, row.outcome) == (ExtractionState.PENDING, 0, "", None)
    job = await claim(jobs)
    assert (job.user_id, job.generation, job.position) == ("u1", GENERATION, 1)
    assert (job.session_id, job.turn, job.time_zone, job.created_at) == ("s", 1, "UTC", START - 5)
    assert job.attempts == 1
    assert job.lease != 0
    row = await jobs.get("u1", GENERATION, "s", 1)
    assert row is not None
    assert (row.state, row.due_at) == (ExtractionState.RUNNING, clock.now + LEASE)


async def test_a_turn_may_go_without_a_job(record: SqlRecord, jobs: SqlExtractions) -> None:
    await append(record, turn(session("s"), extract=False))
    assert await jobs.claim(LEASE) == []
    assert await jobs.get("u1", GENERATION, "s", 1) is None


async def test_a_users_jobs_come_one_by_one_in_order(record: SqlRecord, jobs: SqlExtractions) -> None:
    await turns(record, "u1", 3)
    for position in (1, 2, 3):
        job = await claim(jobs)
        assert job.position == position
        assert await jobs.claim(LEASE, 10) == [], "the next waits for this one"
        assert await finish(record, job)
    assert await jobs.claim(LEASE) == []


async def test_users_do_not_wait_for_each_other(record: SqlRecord, jobs: SqlExtractions) -> None:
    for user in ("u1", "u2", "u3"):
        await turns(record, user, 2)
    first = await jobs.claim(LEASE, 2)
    assert len(first) == 2
    rest = await jobs.claim(LEASE, 10)
    assert places(first + rest) == [("u1", 1), ("u2", 1), ("u3", 1)]


async def test_a_finished_job_keeps_its_outcome(record: SqlRecord, jobs: SqlExtractions, clock: ManualClock) -> None:
    await turns(record, "u1", 1)
    job = await claim(jobs)
    clock.advance(SECOND)
    assert await finish(record, job, b"x" * 100_000)
    row = await jobs.get("u1", GENERATION, "s1", 1)
    assert row is not None
    assert (row.state, row.outcome, row.finished_at) == (ExtractionState.DONE, b"x" * 100_000, clock.now)
    assert (row.prompt_version, row.model, row.error) == ("zh-3", "qwen-flash", "")
    assert not await finish(record, job), "once"
    assert not await jobs.renew(job, LEASE)
    assert not await jobs.postpone(job, SECOND, "LATE")
    assert not await jobs.bury(job, "LATE")


async def test_a_claim_that_ran_out_is_another_workers(
    record: SqlRecord, jobs: SqlExtractions, clock: ManualClock
) -> None:
    await turns(record, "u1", 2)
    first = await claim(jobs)
    clock.advance(LEASE - 1)
    assert await jobs.claim(LEASE) == []
    assert await jobs.renew(first, LEASE)
    assert await jobs.renew(first, LEASE), "to the same instant is no lost claim"
    clock.advance(LEASE - 1)
    assert await jobs.claim(LEASE) == []
    clock.advance(1)
    second = await claim(jobs)
    assert (second.position, second.attempts) == (1, 2)
    assert not await jobs.renew(first, LEASE)
    assert not await jobs.postpone(first, 0, "X")
    assert not await jobs.bury(first, "X")
    assert not await finish(record, first)
    assert await finish(record, second)


async def test_a_postponed_job_holds_up_its_user_and_nobody_else(
    record: SqlRecord, jobs: SqlExtractions, clock: ManualClock
) -> None:
    await turns(record, "u1", 2)
    job = await claim(jobs)
    assert await jobs.postpone(job, 10 * SECOND, "LLM_UNAVAILABLE")
    assert not await jobs.postpone(job, 10 * SECOND, "AGAIN"), "the claim was given back"
    assert not await finish(record, job)
    row = await jobs.get("u1", GENERATION, "s1", 1)
    assert row is not None
    assert (row.state, row.error, row.due_at) == (
        ExtractionState.PENDING,
        "LLM_UNAVAILABLE",
        clock.now + 10 * SECOND,
    )
    await turns(record, "u2", 1)
    assert places(await jobs.claim(LEASE, 10)) == [("u2", 1)]
    clock.advance(10 * SECOND)
    again = await claim(jobs)
    assert (again.position, again.attempts) == (1, 2)


async def test_a_dead_job_holds_up_nobody(record: SqlRecord, jobs: SqlExtractions, clock: ManualClock) -> None:
    await turns(record, "u1", 2)
    await turns(record, "u2", 1)
    [one] = [job for job in await jobs.claim(LEASE, 2) if job.user_id == "u1"]
    assert await jobs.bury(one, "PARSE_FAILED")
    assert (await claim(jobs)).position == 2
    [dead] = await jobs.failed(None, 10)
    assert (dead.user_id, dead.position, dead.error, dead.finished_at) == ("u1", 1, "PARSE_FAILED", clock.now)
    assert (await jobs.stats()).counts == {"DEAD": 1, "RUNNING": 2}


async def test_dead_jobs_are_listed_page_by_page_and_tried_again(
    record: SqlRecord, jobs: SqlExtractions, clock: ManualClock
) -> None:
    for user in ("u1", "u2"):
        await turns(record, user, 2)
    while found := await jobs.claim(LEASE, 10):
        for job in found:
            assert await jobs.bury(job, "REFUSED")
    first = await jobs.failed(None, 3)
    keys = [ExtractionKey(row.user_id, row.generation, row.position) for row in first]
    assert [(key.user_id, key.position) for key in keys] == [("u1", 1), ("u1", 2), ("u2", 1)]
    assert [(row.user_id, row.position) for row in await jobs.failed(keys[-1], 3)] == [("u2", 2)]
    assert await jobs.retry([keys[0], ExtractionKey("u9", GENERATION, 1)]) == 1
    assert await jobs.retry([keys[0]]) == 0, "it is not dead any more"
    again = await claim(jobs)
    assert (again.user_id, again.position, again.attempts) == ("u1", 1, 1)
    assert await jobs.retry(None) == 3
    assert places(await jobs.claim(LEASE, 10)) == [("u2", 1)], "u1's second waits for its first"


async def test_jobs_of_a_generation_that_is_no_more_are_nobodys(
    record: SqlRecord, jobs: SqlExtractions, place: Place
) -> None:
    await turns(record, "u1", 1)
    await turns(record, "u2", 1)
    [dead] = [job for job in await jobs.claim(LEASE, 2) if job.user_id == "u2"]
    await jobs.bury(dead, "X")
    await jobs.retry(None)
    await place.sql(f"UPDATE memory_head SET generation = '{OTHER_GENERATION}' WHERE user_id = 'u2'")
    assert await jobs.claim(LEASE) == []
    assert await jobs.failed(None, 9) == []
    assert await jobs.get("u2", OTHER_GENERATION, "s1", 1) is None


async def test_stats_tell_how_late_the_queue_is(record: SqlRecord, jobs: SqlExtractions, clock: ManualClock) -> None:
    await turns(record, "u1", 2)
    clock.advance(7 * SECOND)
    assert await jobs.stats() == ExtractionStats({"PENDING": 2}, 7 * SECOND)


async def test_many_workers_take_every_job_once_and_in_order(place: Place, clock: ManualClock) -> None:
    databases = [place.open(timeout=60) for _ in range(1 if place.is_sqlite else 2)]
    records = [SqlRecord(database, clock) for database in databases]
    workers = [SqlExtractions(database, clock) for database in databases]
    for user in ("u1", "u2", "u3", "u4"):
        await turns(records[0], user, 5)
    order: dict[str, list[int]] = {}

    async def work(number: int) -> None:
        jobs, record = workers[number % len(workers)], records[number % len(workers)]
        while (await jobs.stats()).oldest >= 0 and set((await jobs.stats()).counts) != {"DONE"}:
            for job in await jobs.claim(LEASE, 2):
                order.setdefault(job.user_id, []).append(job.position)
                assert await finish(record, job)

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(n) for n in range(4)))
    assert order == {user: [1, 2, 3, 4, 5] for user in ("u1", "u2", "u3", "u4")}
