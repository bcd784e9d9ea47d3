"""The Jobs port, on SQLite and MariaDB."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.jobs import SqlJobs
from memory_service.record import IDEMPOTENCY_WINDOW, Job, JobKind, JobState
from tests.records import SECOND, START, ManualClock, Place, memory_id

LEASE = 60 * SECOND
REQUEST = "7c9e6679-7425-40de-944b-e07fc1f90ae7"


@pytest.fixture
def jobs(database: Database, clock: ManualClock) -> SqlJobs:
    return SqlJobs(database, clock)


def job(number: int, **values: Any) -> Job:
    fields: dict[str, Any] = {
        "id": memory_id(number),
        "kind": JobKind.REINDEX,
        "state": JobState.PENDING,
        "payload": {"space": "s", "who": "所有用户 🐬"},
        "created_at": START,
    }
    return Job(**fields | values)


async def test_a_job_comes_back_as_it_was_created(jobs: SqlJobs) -> None:
    new = job(1, total=9)
    assert await jobs.create(new, "admin", "") == new
    assert await jobs.get(new.id) == new
    assert await jobs.get(memory_id(2)) is None


async def test_the_same_request_answers_the_same_job(jobs: SqlJobs) -> None:
    first = await jobs.create(job(1), "admin", REQUEST)
    assert await jobs.create(job(2), "admin", REQUEST) == first
    assert await jobs.get(memory_id(2)) is None
    claimed = await jobs.claim(LEASE)
    assert await jobs.create(job(3), "admin", REQUEST) == claimed, "as it is now"


@pytest.mark.parametrize(
    ("actor", "kind", "request_id"),
    [
        ("other", JobKind.REINDEX, REQUEST),
        ("Admin", JobKind.REINDEX, REQUEST),
        ("admin", JobKind.RECONCILE, REQUEST),
        ("admin", JobKind.REINDEX, REQUEST.replace("7c", "7d")),
    ],
)
async def test_another_request_is_another_job(jobs: SqlJobs, actor: str, kind: JobKind, request_id: str) -> None:
    await jobs.create(job(1), "admin", REQUEST)
    assert (await jobs.create(job(2, kind=kind), actor, request_id)).id == memory_id(2)


async def test_without_a_request_id_every_call_is_a_job(jobs: SqlJobs) -> None:
    for number in range(3):
        assert (await jobs.create(job(number), "admin", "")).id == memory_id(number)
    assert await jobs.counts() == {"PENDING": 3}


async def test_a_request_id_is_remembered_for_24_hours(jobs: SqlJobs, clock: ManualClock) -> None:
    await jobs.create(job(1), "admin", REQUEST)
    clock.advance(IDEMPOTENCY_WINDOW - 1)
    assert (await jobs.create(job(2, created_at=clock.now), "admin", REQUEST)).id == memory_id(1)
    clock.advance(1)
    assert (await jobs.create(job(3, created_at=clock.now), "admin", REQUEST)).id == memory_id(3)
    assert (await jobs.create(job(4, created_at=clock.now), "admin", REQUEST)).id == memory_id(3)
    assert await jobs.get(memory_id(1)) == job(1)


async def test_the_same_request_at_once_makes_one_job(place: Place, clock: ManualClock) -> None:
    workers = [SqlJobs(place.open(timeout=60), clock) for _ in range(1 if place.is_sqlite else 2)]
    calls = (workers[n % len(workers)].create(job(n), "admin", REQUEST) for n in range(24))
    assert len({answered.id for answered in await asyncio.gather(*calls)}) == 1
    assert await workers[0].counts() == {"PENDING": 1}


async def test_the_oldest_due_job_is_claimed_once(jobs: SqlJobs, clock: ManualClock) -> None:
    await jobs.create(job(1, created_at=START + 2), "admin", "")
    await jobs.create(job(2, created_at=START + 1), "admin", "")
    assert await jobs.claim(LEASE) is None, "neither is due yet"
    clock.advance(2)
    first, second = await jobs.claim(LEASE), await jobs.claim(LEASE)
    assert first is not None
    assert second is not None
    assert (first.id, second.id) == (memory_id(2), memory_id(1))
    assert (first.state, first.attempts, first.payload) == (JobState.RUNNING, 1, job(1).payload)
    assert 0 != first.lease != second.lease != 0
    assert await jobs.claim(LEASE) is None


async def test_one_job_can_be_claimed_by_its_id(jobs: SqlJobs) -> None:
    await jobs.create(job(1), "admin", "")
    await jobs.create(job(2), "admin", "")
    claimed = await jobs.claim(LEASE, memory_id(2))
    assert claimed is not None
    assert claimed.id == memory_id(2)
    assert await jobs.claim(LEASE, memory_id(2)) is None
    assert await jobs.claim(LEASE, memory_id(9)) is None


async def test_many_claims_at_once_share_the_jobs_out(place: Place, clock: ManualClock) -> None:
    workers = [SqlJobs(place.open(timeout=60), clock) for _ in range(1 if place.is_sqlite else 2)]
    for number in range(10):
        await workers[0].create(job(number), "admin", "")
    found: list[str] = []
    # A claim may pass over a job that another one is just looking at; it never takes it too.
    while (await workers[0].counts()).get("PENDING"):
        claims = await asyncio.gather(*(workers[n % len(workers)].claim(LEASE) for n in range(8)))
        assert any(claims)
        found += [claimed.id for claimed in claims if claimed is not None]
    assert sorted(found) == [memory_id(number) for number in range(10)]


async def test_a_lease_that_ran_out_lets_another_claim_and_stops_the_first(jobs: SqlJobs, clock: ManualClock) -> None:
    await jobs.create(job(1), "admin", "")
    first = await jobs.claim(LEASE)
    assert first is not None
    clock.advance(LEASE - 1)
    assert await jobs.claim(LEASE) is None
    clock.advance(1)
    second = await jobs.claim(LEASE)
    assert second is not None
    assert (second.id, second.attempts) == (first.id, 2)
    before = await jobs.get(first.id)
    assert not await jobs.progress(replace(first, done=99), LEASE)
    assert not await jobs.postpone(first, SECOND, "late")
    assert not await jobs.finish(replace(first, state=JobState.FAILED))
    assert await jobs.get(first.id) == before
    assert await jobs.finish(replace(second, state=JobState.SUCCEEDED))


async def test_progress_is_stored_and_extends_the_claim(jobs: SqlJobs, clock: ManualClock) -> None:
    await jobs.create(job(1), "admin", "")
    claimed = await jobs.claim(LEASE)
    assert claimed is not None
    claimed = replace(claimed, cursor={"user": "u1", "id": "x"}, counts={"upserted": 4}, done=4, total=9)
    clock.advance(LEASE - 1)
    assert await jobs.progress(claimed, LEASE)
    assert await jobs.progress(claimed, LEASE), "writing the same again is no lost claim"
    clock.advance(LEASE - 1)
    assert await jobs.claim(LEASE) is None
    assert await jobs.get(claimed.id) == claimed


async def test_a_postponed_job_is_due_later_and_goes_on_where_it_was(jobs: SqlJobs, clock: ManualClock) -> None:
    await jobs.create(job(1), "admin", "")
    claimed = await jobs.claim(LEASE)
    assert claimed is not None
    await jobs.progress(replace(claimed, cursor={"at": 5}, done=5), LEASE)
    assert await jobs.postpone(claimed, 10 * SECOND, "索引不可用 " * 500)
    waiting = await jobs.get(claimed.id)
    assert waiting is not None
    assert (waiting.state, waiting.cursor, waiting.done) == (JobState.PENDING, {"at": 5}, 5)
    assert waiting.error.startswith("索引不可用")
    assert not await jobs.progress(claimed, LEASE), "the claim was given back"
    clock.advance(10 * SECOND - 1)
    assert await jobs.claim(LEASE) is None
    clock.advance(1)
    again = await jobs.claim(LEASE)
    assert again is not None
    assert (again.cursor, again.attempts) == ({"at": 5}, 2)


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.FAILED])
async def test_a_finished_job_is_never_claimed_again(jobs: SqlJobs, clock: ManualClock, state: JobState) -> None:
    await jobs.create(job(1), "admin", "")
    claimed = await jobs.claim(LEASE)
    assert claimed is not None
    clock.advance(SECOND)
    done = replace(claimed, state=state, done=7, total=7, counts={"rows": 7}, error="x" * 5000)
    assert await jobs.finish(done)
    assert await jobs.get(done.id) == replace(done, error="x" * 1000, lease=0, finished_at=clock.now)
    assert not await jobs.finish(done)
    assert not await jobs.progress(done, LEASE)
    clock.advance(100 * LEASE)
    assert await jobs.claim(LEASE) is None
    assert await jobs.claim(LEASE, done.id) is None


async def test_who_holds_no_claim_writes_nothing(jobs: SqlJobs) -> None:
    new = await jobs.create(job(1), "admin", "")
    assert not await jobs.progress(replace(new, done=3), LEASE)
    assert not await jobs.postpone(new, SECOND, "x")
    assert not await jobs.finish(replace(new, state=JobState.FAILED))
    assert await jobs.get(new.id) == new


async def test_purge_forgets_only_what_ended_before(jobs: SqlJobs, clock: ManualClock) -> None:
    for number in range(4):
        await jobs.create(job(number), "admin", f"{number}" * 36)
    ended = []
    for _ in range(2):
        claimed = await jobs.claim(LEASE)
        assert claimed is not None
        ended.append(claimed.id)
        await jobs.finish(replace(claimed, state=JobState.SUCCEEDED))
        clock.advance(SECOND)
    running = await jobs.claim(LEASE)
    assert running is not None
    assert await jobs.counts() == {"SUCCEEDED": 2, "RUNNING": 1, "PENDING": 1}
    assert await jobs.purge(START) == 0
    assert await jobs.purge(START + 1) == 1
    assert await jobs.get(ended[0]) is None
    assert await jobs.get(ended[1]) is not None
    assert await jobs.purge(2**60) == 1
    assert await jobs.counts() == {"RUNNING": 1, "PENDING": 1}
