"""Durable jobs on SQL."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import and_, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from memory_service.adapters.sql import schema
from memory_service.adapters.sql.engine import Database
from memory_service.ports import Clock
from memory_service.record import IDEMPOTENCY_WINDOW, Job, JobKind, JobState

_t = schema.job
_OPEN = (int(JobState.PENDING), int(JobState.RUNNING))
_READ = [c for c in _t.c if c.name not in ("user_id", "due_at", "actor", "request_id")]


def _job(row: Any) -> Job:
    values: dict[str, Any] = dict(row._mapping)
    for name in ("payload", "cursor", "counts"):
        values[name] = json.loads(values[name])
    return Job(**values | {"kind": JobKind(row.kind), "state": JobState(row.state)})


class SqlJobs:
    """Jobs on a Database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def create(self, job: Job, actor: str, request_id: str) -> Job:
        values = {
            "id": job.id,
            "kind": int(job.kind),
            "state": int(job.state),
            "payload": json.dumps(dict(job.payload)),
            "cursor": "{}",
            "done": 0,
            "total": job.total,
            "counts": "{}",
            "error": "",
            "attempts": 0,
            "lease": 0,
            "due_at": job.created_at,
            "actor": actor,
            "request_id": request_id or None,
            "created_at": job.created_at,
        }
        same = and_(_t.c.actor == actor, _t.c.kind == int(job.kind), _t.c.request_id == request_id)
        long_ago = _t.c.created_at <= self._clock() - IDEMPOTENCY_WINDOW

        async def work(connection: AsyncConnection) -> None:
            if request_id:
                await connection.execute(update(_t).where(same, long_ago).values(request_id=None))
            await connection.execute(insert(_t).values(values))

        try:
            await self._database.transaction(work)
        except IntegrityError:
            found = await self._one(same)
            if found is None:
                raise
            return found
        return job

    async def get(self, job_id: str) -> Job | None:
        return await self._one(_t.c.id == job_id)

    async def _one(self, which: Any) -> Job | None:
        async def work(connection: AsyncConnection) -> Job | None:
            row = (await connection.execute(select(*_READ).where(which))).one_or_none()
            return None if row is None else _job(row)

        return await self._database.read(work)

    async def claim(self, lease: int, job_id: str | None = None) -> Job | None:
        now = self._clock()
        # Due, or claimed by somebody whose lease ran out: `due_at` is the end of the lease while a job runs.
        which = and_(_t.c.state.in_(_OPEN), _t.c.due_at <= now)
        if job_id is not None:
            which = and_(which, _t.c.id == job_id)

        async def work(connection: AsyncConnection) -> Job | None:
            query = select(*_READ).where(which).order_by(_t.c.due_at).limit(1).with_for_update(skip_locked=True)
            row = (await connection.execute(query)).one_or_none()
            if row is None:
                return None
            token = secrets.randbits(62) or 1
            values = {
                "state": int(JobState.RUNNING),
                "lease": token,
                "due_at": now + lease,
                "attempts": row.attempts + 1,
            }
            await connection.execute(update(_t).where(_t.c.id == row.id).values(values))
            return replace(_job(row), state=JobState.RUNNING, lease=token, attempts=row.attempts + 1)

        return await self._database.transaction(work)

    async def _store(self, job: Job, **values: Any) -> bool:
        held = and_(_t.c.id == job.id, _t.c.state == int(JobState.RUNNING), _t.c.lease == job.lease)

        async def work(connection: AsyncConnection) -> bool:
            return (await connection.execute(update(_t).where(held).values(values))).rowcount > 0

        return await self._database.read(work)

    async def progress(self, job: Job, lease: int) -> bool:
        values: Mapping[str, Any] = {
            "cursor": json.dumps(dict(job.cursor)),
            "counts": json.dumps(dict(job.counts)),
            "done": job.done,
            "total": job.total,
            "due_at": self._clock() + lease,
        }
        return await self._store(job, **values)

    async def postpone(self, job: Job, delay: int, error: str) -> bool:
        return await self._store(
            job, state=int(JobState.PENDING), lease=0, due_at=self._clock() + delay, error=error[:1000]
        )

    async def finish(self, job: Job) -> bool:
        return await self._store(
            job,
            state=int(job.state),
            lease=0,
            counts=json.dumps(dict(job.counts)),
            done=job.done,
            total=job.total,
            error=job.error[:1000],
            finished_at=self._clock(),
        )

    async def counts(self) -> dict[str, int]:
        query = select(_t.c.state, func.count()).group_by(_t.c.state)

        async def work(connection: AsyncConnection) -> dict[str, int]:
            return {JobState(state).name: n for state, n in await connection.execute(query)}

        return await self._database.read(work)

    async def purge(self, finished_before: int) -> int:
        statement = _t.delete().where(_t.c.finished_at < finished_before)

        async def work(connection: AsyncConnection) -> int:
            return (await connection.execute(statement)).rowcount

        return await self._database.read(work)
