"""Walks over all users' rows: for reindexing, reconciling, sweeping and counting."""

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial

from sqlalchemy import and_, delete, func, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.record import MEMORY_COLUMNS, fetch_rows
from memory_service.adapters.sql.schema import idempotency, memory_head, user_memory
from memory_service.domain.model import Head
from memory_service.record import MemoryRow

_m, _h = user_memory.c, memory_head.c
_PRESENT = and_(_h.user_id == _m.user_id, _h.generation == _m.generation)
_DELETE_CHUNK = 1000


class SqlUpkeep:
    """Upkeep on a Database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def scan_active(self, after: tuple[str, str], limit: int) -> AsyncIterator[list[MemoryRow]]:
        user, memory = after
        while True:
            behind = or_(_m.user_id > user, and_(_m.user_id == user, _m.id > memory))
            query = (
                select(*MEMORY_COLUMNS)
                .join(memory_head, _PRESENT)
                # The first condition is implied by the second, and is the one the primary key can serve.
                .where(_m.user_id >= user, behind, _m.active_marker == 1)
                .order_by(_m.user_id, _m.id)
                .limit(limit)
            )
            rows = await self._database.read(partial(fetch_rows, query=query))
            if not rows:
                return
            yield rows
            user, memory = rows[-1].user_id, rows[-1].id

    async def present(self, keys: Sequence[tuple[str, str]], space: str) -> dict[tuple[str, str], str]:
        found: dict[tuple[str, str], str] = {}

        async def work(connection: AsyncConnection, some: Sequence[tuple[str, str]]) -> None:
            query = (
                select(_m.user_id, _m.id, _m.generation)
                .join(memory_head, _PRESENT)
                .where(tuple_(_m.user_id, _m.id).in_(some), _m.active_marker == 1, _m.embedding_space == space)
            )
            found.update({(row.user_id, row.id): row.generation for row in await connection.execute(query)})

        for start in range(0, len(keys), 300):
            some = keys[start : start + 300]
            await self._database.read(partial(work, some=some))
        return found

    async def heads_not_in(self, space: str, after: str, limit: int) -> list[Head]:
        query = (
            select(_h.user_id, _h.generation, _h.version, _h.embedding_space, _h.reset_version)
            .where(_h.embedding_space != space, _h.user_id > after)
            .order_by(_h.user_id)
            .limit(limit)
        )

        async def work(connection: AsyncConnection) -> list[Head]:
            return [Head(*row) for row in await connection.execute(query)]

        return await self._database.read(work)

    async def expired(self, now: int, limit: int) -> list[str]:
        query = (
            select(_m.user_id).distinct().join(memory_head, _PRESENT).where(_m.active_marker == 1, _m.expires_at <= now)
        )

        async def work(connection: AsyncConnection) -> list[str]:
            return list((await connection.execute(query.limit(limit))).scalars())

        return await self._database.read(work)

    async def purge(self, *, outcomes_before: int, retired_before: int | None) -> int:
        async def outcomes(connection: AsyncConnection) -> int:
            statement = delete(idempotency).where(idempotency.c.created_at < outcomes_before)
            return (await connection.execute(statement)).rowcount

        deleted = await self._database.read(outcomes)
        if retired_before is None:
            return deleted
        old = and_(_m.invalidated_at > 0, _m.invalidated_at < retired_before)

        async def retired(connection: AsyncConnection) -> int:
            found = await connection.execute(select(_m.user_id, _m.id).where(old).limit(_DELETE_CHUNK))
            keys = [tuple(row) for row in found]
            if keys:
                # Asked again: a row may have been brought back since it was found.
                await connection.execute(delete(user_memory).where(tuple_(_m.user_id, _m.id).in_(keys), old))
            return len(keys)

        while some := await self._database.read(retired):
            deleted += some
        return deleted

    async def totals(self) -> Mapping[str, int]:
        active = select(func.count()).select_from(user_memory).where(_m.active_marker == 1)
        counts = {
            "users": select(func.count()).select_from(memory_head),
            "active": active,
            "retired": select(func.count()).select_from(user_memory).where(_m.active_marker.is_(None)),
            "unembedded": active.where(_m.embedding_space.is_(None)),
        }

        async def work(connection: AsyncConnection) -> Mapping[str, int]:
            return {name: (await connection.execute(query)).scalar_one() for name, query in counts.items()}

        return await self._database.read(work)

    async def spaces(self) -> dict[str, int]:
        query = select(_h.embedding_space, func.count()).group_by(_h.embedding_space)

        async def work(connection: AsyncConnection) -> dict[str, int]:
            return dict(tuple(row) for row in await connection.execute(query))

        return await self._database.read(work)
