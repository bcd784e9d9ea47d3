"""One database: connections as they must be, transactions that commit or do not, errors in words of our own.

What callers of the ports see of it is in `tests/conformance`.
"""

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiomysql.connection  # type: ignore[import-untyped]
import pymysql  # type: ignore[import-untyped]
import pytest
from sqlalchemy import exc, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from memory_service.adapters.sql.engine import DEADLOCK, LOCK_WAIT_TIMEOUT, Database, database_url
from memory_service.adapters.sql.schema import setting
from memory_service.ports import StoreUnavailable
from tests.records import PATIENCE_S, Place, emptied, mariadb_database, sqlite_place, sqlite_template, until
from tests.servers import MariaDB

ONE = select(text("1"))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sqlite_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
async def sqlite(template: Path, tmp_path: Path) -> AsyncIterator[Place]:
    place = sqlite_place(template, tmp_path)
    yield place
    await place.close()


@pytest.fixture(scope="module")
def schema(mariadb: MariaDB) -> Iterator[Place]:
    yield from mariadb_database(mariadb, f"engine_{uuid.uuid4().hex[:8]}")


@pytest.fixture
async def maria(schema: Place) -> AsyncIterator[Place]:
    async for place in emptied(schema):
        yield place


@pytest.fixture(params=["sqlite", pytest.param("maria", marks=pytest.mark.servers)])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found


def put(name: str, value: str = "0") -> Any:
    return insert(setting).values(name=name, value=value)


async def values(database: Database) -> dict[str, str]:
    async def work(connection: AsyncConnection) -> dict[str, str]:
        return dict(tuple(row) for row in await connection.execute(select(setting.c.name, setting.c.value)))

    return await database.read(work)


async def scalar(database: Database, statement: str) -> Any:
    async def work(connection: AsyncConnection) -> Any:
        return (await connection.exec_driver_sql(statement)).scalar_one()

    return await database.read(work)


# Addresses


@pytest.mark.parametrize(
    ("given", "driver", "query"),
    [
        ("mysql://u:p@h:3306/d", "mysql+aiomysql", {"charset": "utf8mb4"}),
        ("mariadb://u:p@h/d", "mysql+aiomysql", {"charset": "utf8mb4"}),
        ("mysql+pymysql://u:p@h/d", "mysql+aiomysql", {"charset": "utf8mb4"}),
        ("mysql://u:p@h/d?charset=utf8mb4&ssl_ca=x", "mysql+aiomysql", {"charset": "utf8mb4", "ssl_ca": "x"}),
        ("sqlite:////var/lib/x.db", "sqlite+aiosqlite", {}),
    ],
)
def test_an_address_gets_the_driver_of_its_database(given: str, driver: str, query: dict[str, str]) -> None:
    url = database_url(given)
    assert url.drivername == driver
    assert dict(url.query) == query


@pytest.mark.parametrize("given", ["postgresql://u:geheim@h/d", "geheim", "", "mysql:geheim", "://geheim"])
def test_another_address_is_a_value_error_that_shows_no_password(given: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        database_url(given)
    assert "geheim" not in str(caught.value)
    assert "mysql://" in str(caught.value)


# Connections


async def test_every_sqlite_connection_is_durable_and_patient(sqlite: Place) -> None:
    database = sqlite.open(pool_size=3)
    expected = {"journal_mode": "wal", "synchronous": 2, "busy_timeout": 5000, "foreign_keys": 1}
    barrier = asyncio.Barrier(3)

    async def work(connection: AsyncConnection) -> dict[str, Any]:
        await barrier.wait()  # three connections at once
        return {name: (await connection.exec_driver_sql(f"PRAGMA {name}")).scalar_one() for name in expected}

    assert await asyncio.gather(*(database.read(work) for _ in range(3))) == [expected] * 3


async def test_every_mariadb_session_is_strict_and_reads_what_is_committed(maria: Place) -> None:
    database = maria.open()
    expected = {
        "@@session.tx_isolation": "READ-COMMITTED",
        "@@session.time_zone": "+00:00",
        "@@session.innodb_lock_wait_timeout": 5,
        "@@session.autocommit": 1,
        "@@character_set_client": "utf8mb4",
        "@@character_set_results": "utf8mb4",
    }
    assert {name: await scalar(database, f"SELECT {name}") for name in expected} == expected
    assert set((await scalar(database, "SELECT @@session.sql_mode")).split(",")) == {
        "STRICT_ALL_TABLES",
        "NO_ENGINE_SUBSTITUTION",
    }
    with pytest.raises(StoreUnavailable, match="Data too long"):
        await database.read(lambda connection: connection.execute(put("x" * 65)))
    assert await values(database) == {}, "cut to fit it would be another name"


async def test_reads_and_writes_make_no_threads_beyond_the_pool(sqlite: Place) -> None:
    database = sqlite.open(pool_size=4)
    await asyncio.gather(*(database.read(lambda c: c.execute(ONE)) for _ in range(16)))
    before = threading.active_count()
    for _ in range(10):
        await asyncio.gather(*(database.read(lambda c: c.execute(ONE)) for _ in range(100)))
    assert threading.active_count() == before


async def test_a_cancellation_that_comes_as_the_connection_stands_is_not_lost(
    maria: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Python 3.12 `asyncio.wait_for` swallowed it, with it a time limit, and the call went on without one."""
    database = maria.open()
    connect = aiomysql.connection._open_connection

    async def connected(*args: Any, **kwargs: Any) -> Any:
        found = await connect(*args, **kwargs)
        task.cancel()
        return found

    monkeypatch.setattr(aiomysql.connection, "_open_connection", connected)
    task = asyncio.create_task(database.read(lambda c: c.execute(ONE)))
    with pytest.raises(asyncio.CancelledError):
        await task
    monkeypatch.undo()
    assert await scalar(database, "SELECT 1") == 1


# Transactions


async def test_a_transaction_commits_or_leaves_nothing(place: Place) -> None:
    database = place.open(timeout=20)

    async def two(connection: AsyncConnection) -> str:
        await connection.execute(put("a"))
        await connection.execute(put("b"))
        return "done"

    assert await database.transaction(two) == "done"

    async def fails(connection: AsyncConnection) -> None:
        await connection.execute(put("c"))
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await database.transaction(fails)
    assert set(await values(database)) == {"a", "b"}


async def test_a_violated_constraint_is_told_as_such_and_undoes_everything(place: Place) -> None:
    database = place.open(timeout=20)
    await database.transaction(lambda c: c.execute(put("a")))

    async def work(connection: AsyncConnection) -> None:
        await connection.execute(put("b"))
        await connection.execute(put("a"))

    with pytest.raises(exc.IntegrityError):
        await database.transaction(work)
    assert set(await values(database)) == {"a"}


def deadlock(code: int) -> exc.OperationalError:
    return exc.OperationalError("UPDATE", {}, pymysql.err.OperationalError(code, "try restarting transaction"))


@pytest.mark.parametrize("code", [DEADLOCK, LOCK_WAIT_TIMEOUT])
async def test_after_a_deadlock_the_whole_transaction_runs_again(place: Place, code: int) -> None:
    database = place.open(timeout=20)
    runs = 0

    async def work(connection: AsyncConnection) -> int:
        nonlocal runs
        runs += 1
        await connection.execute(put("a"))  # would violate the key, had the first run left it
        if runs < 3:
            raise deadlock(code)
        return runs

    assert await database.transaction(work) == 3
    assert await values(database) == {"a": "0"}


async def test_deadlocks_without_end_are_unavailable(place: Place) -> None:
    database = place.open(timeout=20, store="record")
    runs = 0

    async def work(connection: AsyncConnection) -> None:
        nonlocal runs
        runs += 1
        await connection.execute(put("a"))
        raise deadlock(DEADLOCK)

    with pytest.raises(StoreUnavailable):
        await database.transaction(work)
    assert 3 <= runs <= 20
    assert await values(database) == {}


async def test_other_errors_of_the_database_are_not_tried_again(place: Place) -> None:
    database = place.open(timeout=20, store="keys")
    runs = 0

    async def work(connection: AsyncConnection) -> None:
        nonlocal runs
        runs += 1
        await connection.exec_driver_sql("SELECT * FROM no_such_table")

    with pytest.raises(StoreUnavailable, match="keys: ") as caught:
        await database.transaction(work)
    assert caught.value.store == "keys"
    assert runs == 1


async def test_two_transactions_that_wait_for_each_other_both_commit(maria: Place) -> None:
    database = maria.open(timeout=20)
    await database.transaction(lambda c: c.execute(insert(setting), [{"name": n, "value": "0"} for n in "ab"]))
    barrier, runs = asyncio.Barrier(2), 0

    async def move(first: str, second: str) -> None:
        met = False

        async def work(connection: AsyncConnection) -> None:
            nonlocal met, runs
            runs += 1
            await _add(connection, first)
            if not met:
                met = True
                await barrier.wait()  # each holds its first row now
            await _add(connection, second)

        await database.transaction(work)

    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(move("a", "b"), move("b", "a"))
    assert runs == 3, "one was the victim, once"
    assert await values(database) == {"a": "2", "b": "2"}


async def _add(connection: AsyncConnection, name: str) -> None:
    value = (await connection.execute(select(setting.c.value).where(setting.c.name == name).with_for_update())).scalar()
    await connection.execute(update(setting).where(setting.c.name == name).values(value=str(int(value or 0) + 1)))


async def test_sqlite_writers_queue_and_never_find_it_locked(sqlite: Place) -> None:
    database = sqlite.open(timeout=20)
    inside, done, order = asyncio.Event(), asyncio.Event(), list[str]()

    async def hold(connection: AsyncConnection) -> None:
        await connection.execute(put("held"))
        inside.set()
        await done.wait()
        order.append("held")

    async def next_one(connection: AsyncConnection) -> None:
        order.append("next")
        assert set(dict(tuple(r) for r in await connection.execute(select(setting.c.name, setting.c.value)))) == {
            "held"
        }

    holder = asyncio.create_task(database.transaction(hold))
    await inside.wait()
    waiting = asyncio.create_task(database.transaction(next_one))
    assert await values(database) == {}, "readers wait for nobody"
    done.set()
    await asyncio.gather(holder, waiting)
    assert order == ["held", "next"]


async def test_a_single_statement_waits_for_the_sqlite_writer(sqlite: Place) -> None:
    """Jobs and purges write without `transaction`, and other processes write beside: SQLite itself makes them wait."""
    database, beside = sqlite.open(timeout=20), sqlite.open(timeout=20)
    inside, done = asyncio.Event(), asyncio.Event()

    async def hold(connection: AsyncConnection) -> None:
        await connection.execute(put("held"))
        inside.set()
        await done.wait()

    holder = asyncio.create_task(database.transaction(hold))
    await inside.wait()
    writers = [asyncio.create_task(d.read(lambda c: c.execute(put(uuid.uuid4().hex)))) for d in (database, beside)]
    finished, _ = await asyncio.wait(writers, timeout=0.2)
    assert not finished
    done.set()
    await asyncio.gather(holder, *writers)
    assert len(await values(database)) == 3


# Connections that die


async def test_a_read_is_tried_once_more_on_a_new_connection(maria: Place) -> None:
    database = maria.open(timeout=20)
    runs, deaths = 0, 1

    async def work(connection: AsyncConnection) -> int:
        nonlocal runs
        runs += 1
        await connection.execute(ONE)
        if runs <= deaths:
            await maria.kill_connections()
        await connection.execute(ONE)
        return runs

    assert await database.read(work) == 2
    runs, deaths = 0, 9
    with pytest.raises(StoreUnavailable):
        await database.read(work)
    assert runs == 2


async def test_an_error_that_is_no_loss_is_not_tried_again(place: Place) -> None:
    database = place.open(timeout=20)
    runs = 0

    async def work(connection: AsyncConnection) -> None:
        nonlocal runs
        runs += 1
        await connection.exec_driver_sql("SELECT * FROM no_such_table")

    with pytest.raises(StoreUnavailable):
        await database.read(work)
    assert runs == 1


async def test_after_it_is_closed_no_connection_is_left(maria: Place) -> None:
    database = maria.open(timeout=20, pool_size=4)
    await asyncio.gather(*(database.read(lambda c: c.execute(ONE)) for _ in range(8)))
    assert await maria.connection_ids()
    await database.close()

    async def none() -> bool:
        return not await maria.connection_ids()

    await until(none)
