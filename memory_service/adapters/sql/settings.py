"""Settings that were changed at run time, and who changed them, on SQL."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection
from uuid_utils import uuid7

from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.schema import setting, setting_change
from memory_service.record import EtagMismatch, RequestReused

_COUNTER = ""
"""The line that is no setting: how often settings were saved. Writers queue for it, and it is the etag."""


async def _load(connection: AsyncConnection) -> tuple[dict[str, str], str]:
    # One statement: values and an etag of two moments would let a writer undo what it never saw.
    values = dict(tuple(row) for row in await connection.execute(select(setting.c.name, setting.c.value)))
    return values, values.pop(_COUNTER, "0")


class SqlSettingStore:
    """SettingStore on a Database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self) -> tuple[dict[str, str], str]:
        return await self._database.read(_load)

    async def save(
        self, changes: Mapping[str, str | None], *, etag: str, actor: str, at: int, request_id: str
    ) -> tuple[dict[str, str], str]:
        async def work(connection: AsyncConnection) -> tuple[dict[str, str], str]:
            counter = {"name": _COUNTER, "value": "0"}
            await connection.execute(self._database.upsert(setting, counter, {"value": setting.c.value}))
            values, present = await _load(connection)
            before = await self._known(connection, actor, request_id) if request_id else {}
            if before:
                if before != dict(changes):
                    raise RequestReused
                return values, present
            if etag and etag != present:
                raise EtagMismatch
            for name, value in changes.items():
                await self._set(connection, name, value)
                line: dict[str, Any] = {
                    "id": str(uuid7()),
                    "at": at,
                    "actor": actor,
                    "request_id": request_id or None,
                    "name": name,
                    "old_value": values.get(name),
                    "new_value": value,
                }
                await connection.execute(insert(setting_change).values(line))
            await self._set(connection, _COUNTER, str(int(present) + 1))
            return await _load(connection)

        return await self._database.transaction(work)

    async def _known(self, connection: AsyncConnection, actor: str, request_id: str) -> dict[str, str | None]:
        """What an earlier call with this request id changed; empty when there was none."""
        c = setting_change.c
        query = select(c.name, c.new_value).where(c.actor == actor, c.request_id == request_id)
        return dict(tuple(row) for row in await connection.execute(query))

    async def _set(self, connection: AsyncConnection, name: str, value: str | None) -> None:
        if value is None:
            await connection.execute(delete(setting).where(setting.c.name == name))
        else:
            await connection.execute(self._database.upsert(setting, {"name": name, "value": value}, {"value": value}))
