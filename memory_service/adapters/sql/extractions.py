"""The extraction jobs on SQL: claims that are safe without a lock, because each is one conditional UPDATE."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import and_, exists, func, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from memory_service.adapters.sql import schema
from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.schema import memory_head
from memory_service.conversation_ports import (
    ExtractionJob,
    ExtractionKey,
    ExtractionRow,
    ExtractionState,
    ExtractionStats,
)
from memory_service.domain.model import Head
from memory_service.ports import Clock

_t = schema.extraction
_OPEN = (int(ExtractionState.PENDING), int(ExtractionState.RUNNING))
_PRESENT = and_(memory_head.c.user_id == _t.c.user_id, memory_head.c.generation == _t.c.generation)
_READ = [c for c in _t.c if c.name not in ("lease", "time_zone")]
_CHUNK = 200
_SPARE = 8
"""Jobs looked at beyond those wanted: other workers take some meanwhile."""
_ROUNDS = 3


async def finish(connection: AsyncConnection, head: Head, position: int, lease: int, values: Mapping[str, Any]) -> bool:
    """Makes a claimed job DONE, on the connection of the result's transaction; False when the claim is lost."""
    held = and_(
        _t.c.user_id == head.user_id,
        _t.c.generation == head.generation,
        _t.c.position == position,
        _t.c.state == int(ExtractionState.RUNNING),
        _t.c.lease == lease,
    )
    done = {"state": int(ExtractionState.DONE), "lease": 0, "error": "", **values}
    return (await connection.execute(update(_t).where(held).values(done))).rowcount > 0


def _row(row: Any) -> ExtractionRow:
    values: dict[str, Any] = dict(row._mapping)
    outcome = None if row.outcome is None else bytes(row.outcome)
    return ExtractionRow(**values | {"state": ExtractionState(row.state), "outcome": outcome})


class SqlExtractions:
    """Extractions on a Database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def claim(self, lease: int, limit: int = 1) -> list[ExtractionJob]:
        claimed: list[ExtractionJob] = []
        for _ in range(_ROUNDS):
            candidates = await self._candidates(limit - len(claimed) + _SPARE)
            for candidate in candidates:
                job = await self._take(candidate, lease)
                if job is not None:
                    claimed.append(job)
                if len(claimed) == limit:
                    return claimed
            if claimed or not candidates:
                break
        return claimed

    async def _candidates(self, limit: int) -> Sequence[Any]:
        """Due jobs that are the first unfinished one of their user. Read without a lock: `_take` makes sure."""
        other = _t.alias("other")
        earlier = exists().where(
            other.c.user_id == _t.c.user_id,
            other.c.generation == _t.c.generation,
            other.c.state.in_(_OPEN),
            other.c.position < _t.c.position,
        )
        query = (
            select(_t)
            .join(memory_head, _PRESENT)
            .where(_t.c.state.in_(_OPEN), _t.c.due_at <= self._clock(), ~earlier)
            .order_by(_t.c.due_at, _t.c.user_id)
            .limit(limit)
        )

        async def work(connection: AsyncConnection) -> Sequence[Any]:
            return (await connection.execute(query)).all()

        return await self._database.read(work)

    async def _take(self, row: Any, lease: int) -> ExtractionJob | None:
        """The claim on a job, unless another worker was faster: its token is there then."""
        token, now = secrets.randbits(62) or 1, self._clock()
        as_seen = and_(
            self._key(ExtractionKey(row.user_id, row.generation, row.position)),
            _t.c.state == row.state,
            _t.c.lease == row.lease,
            _t.c.due_at <= now,
        )
        state, attempts = int(ExtractionState.RUNNING), row.attempts + 1
        values = {"state": state, "lease": token, "due_at": now + lease, "attempts": attempts}
        if not await self._update(as_seen, **values):
            return None
        return ExtractionJob(
            user_id=row.user_id,
            generation=row.generation,
            position=row.position,
            session_id=row.session_id,
            turn=row.turn,
            time_zone=row.time_zone,
            created_at=row.created_at,
            attempts=attempts,
            lease=token,
        )

    @staticmethod
    def _key(key: ExtractionKey) -> Any:
        return and_(_t.c.user_id == key.user_id, _t.c.generation == key.generation, _t.c.position == key.position)

    async def _update(self, which: Any, **values: Any) -> bool:
        async def work(connection: AsyncConnection) -> bool:
            return (await connection.execute(update(_t).where(which).values(values))).rowcount > 0

        return await self._database.read(work)

    async def _held(self, job: ExtractionJob, **values: Any) -> bool:
        key = self._key(ExtractionKey(job.user_id, job.generation, job.position))
        held = and_(key, _t.c.state == int(ExtractionState.RUNNING), _t.c.lease == job.lease)
        return await self._update(held, **values)

    async def renew(self, job: ExtractionJob, lease: int) -> bool:
        return await self._held(job, due_at=self._clock() + lease)

    async def postpone(self, job: ExtractionJob, delay: int, error: str) -> bool:
        pending = int(ExtractionState.PENDING)
        return await self._held(job, state=pending, lease=0, due_at=self._clock() + delay, error=error[:64])

    async def bury(self, job: ExtractionJob, error: str) -> bool:
        dead = int(ExtractionState.DEAD)
        return await self._held(job, state=dead, lease=0, error=error[:64], finished_at=self._clock())

    async def get(self, user_id: str, generation: str, session_id: str, turn: int) -> ExtractionRow | None:
        query = select(*_READ).where(
            _t.c.user_id == user_id,
            _t.c.generation == generation,
            _t.c.session_id == session_id,
            _t.c.turn == turn,
        )

        async def work(connection: AsyncConnection) -> ExtractionRow | None:
            row = (await connection.execute(query)).one_or_none()
            return None if row is None else _row(row)

        return await self._database.read(work)

    async def failed(self, after: ExtractionKey | None, limit: int) -> list[ExtractionRow]:
        query = select(*_READ).join(memory_head, _PRESENT).where(_t.c.state == int(ExtractionState.DEAD))
        if after is not None:
            same_user = and_(_t.c.user_id == after.user_id, _t.c.generation == after.generation)
            query = query.where(
                or_(
                    _t.c.user_id > after.user_id,
                    and_(_t.c.user_id == after.user_id, _t.c.generation > after.generation),
                    and_(same_user, _t.c.position > after.position),
                )
            )
        query = query.order_by(_t.c.user_id, _t.c.generation, _t.c.position).limit(limit)

        async def work(connection: AsyncConnection) -> list[ExtractionRow]:
            return [_row(row) for row in await connection.execute(query)]

        return await self._database.read(work)

    async def retry(self, keys: Sequence[ExtractionKey] | None) -> int:
        dead = _t.c.state == int(ExtractionState.DEAD)
        fresh = {
            "state": int(ExtractionState.PENDING),
            "lease": 0,
            "attempts": 0,
            "error": "",
            "finished_at": None,
            "due_at": self._clock(),
        }

        async def work(connection: AsyncConnection) -> int:
            if keys is None:
                return (await connection.execute(update(_t).where(dead).values(fresh))).rowcount
            count = 0
            for start in range(0, len(keys), _CHUNK):
                some = [(k.user_id, k.generation, k.position) for k in keys[start : start + _CHUNK]]
                these = tuple_(_t.c.user_id, _t.c.generation, _t.c.position).in_(some)
                count += (await connection.execute(update(_t).where(these, dead).values(fresh))).rowcount
            return count

        return await self._database.transaction(work)

    async def stats(self) -> ExtractionStats:
        counts = select(_t.c.state, func.count()).group_by(_t.c.state)
        oldest = select(func.min(_t.c.created_at)).where(_t.c.state.in_(_OPEN))

        async def work(connection: AsyncConnection) -> ExtractionStats:
            found = {ExtractionState(state).name: n for state, n in await connection.execute(counts)}
            since = (await connection.execute(oldest)).scalar_one_or_none()
            return ExtractionStats(found, max(0, self._clock() - since) if since else 0)

        return await self._database.read(work)
