"""The migrations make exactly the tables the code speaks to, on both dialects, and can tell whether they did."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Column, Connection, LargeBinary, MetaData, inspect
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.asyncio import AsyncConnection

from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.migrate import is_current, upgrade
from memory_service.adapters.sql.schema import keys_metadata, metadata
from memory_service.ports import StoreUnavailable
from tests.records import Place
from tests.servers import MariaDB

TREES = {"record": metadata, "keys": keys_metadata}
USER_TABLES = {
    *("memory_head", "user_memory", "vector_outbox", "idempotency", "user_key"),
    *("session", "message", "message_piece", "extraction"),
}
OTHER_TABLES = {"job", "setting", "setting_change"}


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(f"sqlite:///{tmp_path / 'empty.db'}")
    yield place
    await place.close()


@pytest.fixture
async def maria(mariadb: MariaDB) -> AsyncIterator[Place]:
    name = f"empty_{uuid.uuid4().hex[:8]}"
    place = Place(mariadb.create_database(name), mariadb, name)
    # As a server set up long ago would have it: nothing may be taken from the database's defaults.
    await place.sql(f"ALTER DATABASE {name} CHARACTER SET latin1 COLLATE latin1_swedish_ci")
    yield place
    await place.close()
    mariadb.drop_database(name)


@pytest.fixture(params=["sqlite", pytest.param("maria", marks=pytest.mark.servers)])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found


@pytest.fixture
async def migrated(place: Place) -> Database:
    """Both trees in one database, as it is by default."""
    database = place.open(timeout=60)
    for tree in TREES:
        await upgrade(database, tree)
    return database


async def run_sync(database: Database, work: Any) -> Any:
    async def on(connection: AsyncConnection) -> Any:
        return await connection.run_sync(work)

    return await database.read(on)


async def test_a_database_is_current_from_its_migration_on(place: Place) -> None:
    database = place.open(timeout=60)
    assert not await is_current(database, "record")
    await upgrade(database, "record")
    assert await is_current(database, "record")
    assert not await is_current(database, "keys"), "the keys have a tree of their own"
    await upgrade(database, "keys")
    assert await is_current(database, "keys")


async def test_keys_can_live_in_a_database_of_their_own(place: Place) -> None:
    database = place.open(timeout=60)
    await upgrade(database, "keys")
    names = await run_sync(database, lambda c: set(inspect(c).get_table_names()))
    assert names == {"user_key", "alembic_version_keys"}
    assert not await is_current(database, "record")


async def test_a_newer_database_is_current_too(migrated: Database, place: Place) -> None:
    """Expand first, contract a release later: old code goes on working while the new one is rolled out."""
    await place.sql("UPDATE alembic_version_record SET version_num = '9999'")
    assert await is_current(migrated, "record")
    assert await is_current(migrated, "keys")


async def test_a_database_whose_migration_never_ended_is_not_current(migrated: Database, place: Place) -> None:
    await place.sql("DELETE FROM alembic_version_record")
    assert not await is_current(migrated, "record")


async def test_migrating_again_harms_nothing(migrated: Database, place: Place) -> None:
    await place.sql("INSERT INTO setting (name, value) VALUES ('名 🐬', 'kept')")
    for tree in TREES:
        await upgrade(migrated, tree)
        assert await is_current(migrated, tree)
    assert await place.sql("SELECT value FROM setting") == [("kept",)]


async def test_the_pool_serves_on_after_a_migration(migrated: Database, place: Place) -> None:
    """The connection that migrated goes back as it was: in autocommit, with no transaction open."""
    for _ in range(20):
        await migrated.read(lambda c: c.exec_driver_sql("SELECT COUNT(*) FROM setting"))
    await place.sql("INSERT INTO setting (name, value) VALUES ('a', 'b')")
    for _ in range(20):
        found = await migrated.read(lambda c: c.exec_driver_sql("SELECT COUNT(*) FROM setting"))
        assert found.scalar_one() == 1


async def test_a_server_that_is_not_there_is_unavailable(free_port: int) -> None:
    database = Database(f"mysql://u:p@127.0.0.1:{free_port}/d", timeout=2)
    with pytest.raises(StoreUnavailable):
        await is_current(database, "record")
    await database.close()


def differences(connection: Connection, tree: str) -> list[Any]:
    """What Alembic would change to come from the database to the code."""
    tables = TREES[tree].tables

    def of_this_tree(_object: Any, name: str | None, kind: str, _reflected: bool, _other: Any) -> bool:
        return kind != "table" or name in tables

    def type_differs(_context: Any, _found: Any, column: Column[Any], found: Any, wanted: Any) -> bool | None:
        # MySQL makes a TINYBLOB of BLOB(255), as documented: its type for up to 255 bytes.
        made = isinstance(found, mysql.TINYBLOB) and isinstance(wanted, LargeBinary) and wanted.length == 255
        return False if made else None

    options = {"include_object": of_this_tree, "compare_type": type_differs, "compare_server_default": True}
    return list(compare_metadata(MigrationContext.configure(connection, opts=options), TREES[tree]))


@pytest.mark.parametrize("tree", TREES)
async def test_the_migrated_database_is_the_one_in_the_code(migrated: Database, tree: str) -> None:
    assert await run_sync(migrated, lambda connection: differences(connection, tree)) == []


async def test_the_comparison_would_see_a_difference(migrated: Database, place: Place) -> None:
    await place.sql("DROP INDEX ix_user_memory_revision" + ("" if place.is_sqlite else " ON user_memory"))
    await place.sql("ALTER TABLE setting ADD COLUMN surprise INTEGER")
    found = await run_sync(migrated, lambda connection: differences(connection, "record"))
    assert sorted(line[0] for line in found) == ["add_index", "remove_column"]


def primary_keys(connection: Connection) -> dict[str, list[str]]:
    inspector = inspect(connection)
    names = [name for name in inspector.get_table_names() if not name.startswith("alembic")]
    return {name: inspector.get_pk_constraint(name)["constrained_columns"] for name in names}


async def test_every_table_of_users_is_keyed_by_the_user_first(migrated: Database) -> None:
    """So that the data can be sharded by user."""
    found = await run_sync(migrated, primary_keys)
    assert set(found) == USER_TABLES | OTHER_TABLES, "a new table belongs to one of the two kinds"
    assert {name for name, columns in found.items() if columns[0] == "user_id"} == USER_TABLES


def all_metadata() -> list[MetaData]:
    return list(TREES.values())


def test_no_column_counts_up_by_itself() -> None:
    tables = [table for each in all_metadata() for table in each.tables.values()]
    assert [table.name for table in tables if table.autoincrement_column is not None] == []


async def test_on_mariadb_text_compares_by_bytes_in_innodb_without_auto_increment(
    maria: Place, request: pytest.FixtureRequest
) -> None:
    database = maria.open(timeout=60)
    for tree in TREES:
        await upgrade(database, tree)
    of_ours = "TABLE_SCHEMA = DATABASE() AND TABLE_NAME NOT LIKE 'alembic%'"
    columns = await maria.sql(
        "SELECT TABLE_NAME, COLUMN_NAME, COLLATION_NAME, EXTRA, COLUMN_TYPE"
        f" FROM information_schema.COLUMNS WHERE {of_ours}"
    )
    assert len(columns) > 60
    assert {row[2] for row in columns} == {"utf8mb4_bin", None}
    assert [row for row in columns if "auto_increment" in row[3]] == []
    assert {row[4] for row in columns if row[1] == "user_id"} == {"varchar(128)"}
    assert {row[4] for row in columns if row[1].endswith("_hmac")} == {"binary(32)"}
    assert await maria.sql(f"SELECT DISTINCT ENGINE FROM information_schema.TABLES WHERE {of_ours}") == [("InnoDB",)]
    times = [row for row in columns if row[1].endswith("_at") or row[1].startswith("valid_")]
    assert {row[4] for row in times} == {"bigint(20)"}, "no session time zone can bend them"
