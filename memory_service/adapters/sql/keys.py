"""Wrapped data keys on SQL."""

from typing import Any

from sqlalchemy import and_, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.schema import user_key
from memory_service.ports import Clock
from memory_service.record import WrappedKey

_k = user_key.c
_READ = (_k.user_id, _k.generation, _k.kek_id, _k.wrapped)


def _key(row: Any) -> WrappedKey:
    return WrappedKey(row.user_id, row.generation, row.kek_id, bytes(row.wrapped))


class SqlKeyStore:
    """KeyStore on a Database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def put(self, key: WrappedKey) -> WrappedKey:
        values = {
            "user_id": key.user_id,
            "generation": key.generation,
            "kek_id": key.kek_id,
            "wrapped": key.wrapped,
            "created_at": self._clock(),
        }
        await self._database.transaction(lambda c: c.execute(self._database.upsert(user_key, values, {})))
        stored = await self.get(key.user_id, key.generation)
        if stored is None:
            raise AssertionError("a key that was just stored is gone")
        return stored

    async def get(self, user_id: str, generation: str) -> WrappedKey | None:
        query = select(*_READ).where(_k.user_id == user_id, _k.generation == generation)

        async def work(connection: AsyncConnection) -> WrappedKey | None:
            row = (await connection.execute(query)).one_or_none()
            return None if row is None else _key(row)

        return await self._database.read(work)

    async def kek_ids(self) -> dict[str, int]:
        query = select(_k.kek_id, func.count()).group_by(_k.kek_id)

        async def work(connection: AsyncConnection) -> dict[str, int]:
            return dict(tuple(row) for row in await connection.execute(query))

        return await self._database.read(work)

    async def not_under(self, kek_id: str, limit: int) -> list[WrappedKey]:
        query = select(*_READ).where(_k.kek_id != kek_id).limit(limit)

        async def work(connection: AsyncConnection) -> list[WrappedKey]:
            return [_key(row) for row in await connection.execute(query)]

        return await self._database.read(work)

    async def rewrap(self, old: WrappedKey, new: WrappedKey) -> bool:
        same = and_(
            _k.user_id == old.user_id,
            _k.generation == old.generation,
            _k.kek_id == old.kek_id,
            _k.wrapped == old.wrapped,
        )
        statement = update(user_key).where(same).values(kek_id=new.kek_id, wrapped=new.wrapped)

        async def work(connection: AsyncConnection) -> bool:
            return (await connection.execute(statement)).rowcount > 0

        return await self._database.read(work)

    async def close(self) -> None:
        await self._database.close()
