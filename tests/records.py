"""Databases and rows for tests of the SQL adapters.

Owns how a test gets a migrated, empty database of either dialect, and rows that are valid but say nothing. Owns no
server: `servers.py` does.
"""

import asyncio
import contextlib
import hashlib
import itertools
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql  # type: ignore[import-untyped]

from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.migrate import upgrade
from memory_service.domain.model import Head
from memory_service.record import MemoryRow
from tests.servers import MariaDB

SECOND = 1_000_000
HOUR = 3600 * SECOND
START = 1_760_000_000 * SECOND
SPACE = "space-a"
GENERATION = "0" * 31 + "1"
OTHER_GENERATION = "0" * 31 + "2"
PATIENCE_S = 30.0
_numbers = itertools.count(1)


class ManualClock:
    """A clock that stands still until the test moves it."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now

    def advance(self, micros: int) -> None:
        """Moves it on."""
        self.now += micros


@dataclass
class Place:
    """One migrated, empty database, and the Database objects a test opened on it."""

    url: str
    mariadb: MariaDB | None = None
    name: str = ""
    _open: list[Database] = field(default_factory=list)

    @property
    def is_sqlite(self) -> bool:
        return self.mariadb is None

    def open(self, **options: Any) -> Database:
        """A Database on it, closed when the test ends."""
        database = Database(self.url, **options)
        self._open.append(database)
        return database

    async def close(self) -> None:
        """Closes what was opened."""
        for database in self._open:
            await database.close()
        await sqlite_ended()

    async def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Runs a statement beside the adapters, on a connection of its own."""
        return await asyncio.to_thread(self._sql, statement)

    def _sql(self, statement: str) -> list[tuple[Any, ...]]:
        if self.mariadb is None:
            with contextlib.closing(sqlite3.connect(self.url.partition(":///")[2], timeout=10)) as plain, plain:
                return plain.execute(statement).fetchall()
        with contextlib.closing(self.mariadb.connect(self.name)) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    async def connection_ids(self) -> list[int]:
        """Ids of the connections that others hold to this MariaDB database."""
        where = f"DB = '{self.name}' AND ID <> CONNECTION_ID()"
        return [row[0] for row in await self.sql(f"SELECT ID FROM information_schema.PROCESSLIST WHERE {where}")]

    async def kill_connections(self) -> int:
        """Ends them, as a server does with idle ones; answers how many."""
        ids, killed = await self.connection_ids(), 0
        for id in ids:
            try:
                await self.sql(f"KILL {id}")
                killed += 1
            except pymysql.err.OperationalError as error:
                if error.args[0] != 1094:  # it was ending by itself
                    raise

        async def gone() -> bool:
            return not set(ids) & set(await self.connection_ids())

        await until(gone)
        return killed

    async def lock_waited(self, count: int = 1) -> None:
        """Returns when so many transactions wait for a row lock on this MariaDB server."""

        async def waits() -> bool:
            [(found,)] = await self.sql("SELECT COUNT(*) FROM information_schema.INNODB_LOCK_WAITS")
            return int(found) >= count

        await until(waits, every=0.15)  # asked more often than every 0.1 s, InnoDB repeats its last answer for ever


async def until(holds: Callable[[], Awaitable[bool]], every: float = 0.02) -> None:
    """Waits for a condition, within a deadline that fails the test."""
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(every)


async def sqlite_ended() -> None:
    """Waits for the threads of closed SQLite connections: what they have to say needs an event loop that is open."""

    async def ended() -> bool:
        return not any("_connection_worker_thread" in thread.name for thread in threading.enumerate())

    await until(ended)


async def _migrate(url: str) -> None:
    database = Database(url, timeout=60)
    await upgrade(database, "record")
    await upgrade(database, "keys")
    await database.close()


def sqlite_template(folder: Path) -> Path:
    """A migrated SQLite file, to be copied for each test."""
    template = folder / "template.db"
    asyncio.run(_migrate(f"sqlite:///{template}"))
    return template


def sqlite_place(template: Path, folder: Path) -> Place:
    """A copy of a migrated SQLite file."""
    return Place(f"sqlite:///{shutil.copy(template, folder / 'record.db')}")


def mariadb_database(server: MariaDB, name: str) -> Iterator[Place]:
    """A migrated database on a server; it goes at the end."""
    url = server.create_database(name)
    asyncio.run(_migrate(url))
    yield Place(url, server, name)
    server.drop_database(name)


async def emptied(place: Place) -> AsyncIterator[Place]:
    """The same database without a row, for one test."""
    for (table,) in await place.sql("SHOW TABLES"):
        if not table.startswith("alembic"):
            await place.sql(f"DELETE FROM `{table}`")
    fresh = Place(place.url, place.mariadb, place.name)
    yield fresh
    await fresh.close()


def head(user: str = "u1", generation: str = GENERATION, version: int = 0, space: str = SPACE) -> Head:
    """A head as a new user's is proposed."""
    return Head(user, generation, version, space, 0)


def digest(text: str) -> bytes:
    """A stand-in for a content HMAC."""
    return hashlib.sha256(text.encode()).digest()


def memory_id(number: int) -> str:
    """An id that has the shape of a UUIDv7; a greater number is a later one."""
    return f"{number:08x}-0000-7000-8000-000000000000"


def row(text: str = "", *, user: str = "u1", generation: str = GENERATION, **values: Any) -> MemoryRow:
    """A row. Ids rise from call to call; rows of different `text` (unset: of different ids) are different contents."""
    id = values.pop("id", None) or memory_id(next(_numbers))
    fields: dict[str, Any] = {
        "type": 1,
        "shard": 1,
        "content_hmac": digest(text or id),
        "content": b"sealed " + (text or id).encode(),
        "created_at": START,
        "valid_from": START,
        "revision": 1,
    }
    return MemoryRow(user_id=user, id=id, generation=generation, **fields | values)
