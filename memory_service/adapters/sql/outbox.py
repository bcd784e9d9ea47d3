"""The outbox on SQL: lines that ask for index and record to agree on one memory."""

import secrets
from collections.abc import Sequence
from typing import Any

from sqlalchemy import and_, delete, func, literal_column, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.schema import vector_outbox
from memory_service.ports import Clock
from memory_service.record import OutboxItem, OutboxStats, VectorKind

_CHUNK = 200


async def enqueue_lines(
    database: Database,
    connection: AsyncConnection,
    keys: Sequence[tuple[str, str]],
    now: int,
    kind: VectorKind = VectorKind.MEMORY,
) -> None:
    """Makes these lines new and due at once."""
    times = {"enqueued_at": now, "due_at": now, "attempts": 0, "settled_at": 0}
    fresh = {"kind": int(kind), "token": secrets.randbits(62), **times}
    # In order of key, so that two writers never wait for each other in a circle.
    rows = [{"user_id": user, "memory_id": memory, **fresh} for user, memory in sorted(set(keys))]
    if rows:
        # Compiled for one row: for 500 rows in one VALUES that took 200 ms. Its text never comes again: not cached.
        statement = database.upsert(vector_outbox, None, {name: literal_column(str(n)) for name, n in fresh.items()})
        await connection.execute(statement, rows, execution_options={"compiled_cache": None})


def _these(items: Sequence[OutboxItem]) -> Any:
    c = vector_outbox.c
    return or_(*(and_(c.user_id == i.user_id, c.memory_id == i.memory_id, c.token == i.token) for i in items))


class SqlOutbox:
    """Outbox on a Database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def claim(self, limit: int, lease: int, kind: VectorKind | None = None) -> list[OutboxItem]:
        c = vector_outbox.c
        now = self._clock()
        which = [c.settled_at == 0, c.due_at <= now, *([c.kind == int(kind)] if kind is not None else [])]

        async def work(connection: AsyncConnection) -> list[OutboxItem]:
            # SKIP LOCKED: several workers take different lines. SQLite drops the clause; it has one worker.
            query = (
                select(c.user_id, c.memory_id, c.token, c.attempts, c.kind)
                .where(*which)
                .order_by(c.due_at)
                .limit(limit)
                .with_for_update(skip_locked=True)
            )
            items = [OutboxItem(*row[:4], VectorKind(row.kind)) for row in await connection.execute(query)]
            await self._update(connection, items, due_at=now + lease)
            return items

        return await self._database.transaction(work)

    async def _update(self, connection: AsyncConnection, items: Sequence[OutboxItem], **values: Any) -> None:
        for start in range(0, len(items), _CHUNK):
            these = _these(items[start : start + _CHUNK])
            await connection.execute(update(vector_outbox).where(these).values(values))

    async def settle(self, items: Sequence[OutboxItem]) -> None:
        now = self._clock()
        await self._database.transaction(lambda connection: self._update(connection, items, settled_at=now))

    async def postpone(self, items: Sequence[OutboxItem], delay: int) -> None:
        values = {"due_at": self._clock() + delay, "attempts": vector_outbox.c.attempts + 1}
        await self._database.transaction(lambda connection: self._update(connection, items, **values))

    async def enqueue(self, keys: Sequence[tuple[str, str]], kind: VectorKind = VectorKind.MEMORY) -> None:
        if not keys:
            return
        now = self._clock()
        await self._database.transaction(lambda connection: enqueue_lines(self._database, connection, keys, now, kind))

    async def recent(self, user_id: str, kind: VectorKind = VectorKind.MEMORY) -> set[str]:
        c = vector_outbox.c
        query = select(c.memory_id).where(c.user_id == user_id, c.kind == int(kind))

        async def work(connection: AsyncConnection) -> set[str]:
            return set((await connection.execute(query)).scalars())

        return await self._database.read(work)

    async def purge(self, settled_before: int) -> int:
        c = vector_outbox.c
        statement = delete(vector_outbox).where(c.settled_at > 0, c.settled_at < settled_before)

        async def work(connection: AsyncConnection) -> int:
            return (await connection.execute(statement)).rowcount

        return await self._database.read(work)

    async def stats(self) -> OutboxStats:
        c = vector_outbox.c
        query = select(func.count(), func.min(c.enqueued_at)).where(c.settled_at == 0)

        async def work(connection: AsyncConnection) -> OutboxStats:
            rows, oldest = (await connection.execute(query)).one()
            return OutboxStats(rows, max(0, self._clock() - oldest) if oldest else 0)

        return await self._database.read(work)
