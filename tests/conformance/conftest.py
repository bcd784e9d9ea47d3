"""A migrated, empty database for each test of an SQL adapter: `place` in both dialects, the others in one of them."""

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from memory_service.adapters.sql.engine import Database
from tests.records import ManualClock, Place, emptied, mariadb_database, sqlite_place, sqlite_template
from tests.servers import MariaDB


@pytest.fixture(scope="session")
def sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sqlite_template(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(scope="module")
def mariadb_schema(mariadb: MariaDB) -> Iterator[Place]:
    yield from mariadb_database(mariadb, f"conformance_{uuid.uuid4().hex[:8]}")


@pytest.fixture
async def sqlite(sqlite_file: Path, tmp_path: Path) -> AsyncIterator[Place]:
    """A SQLite file."""
    place = sqlite_place(sqlite_file, tmp_path)
    yield place
    await place.close()


@pytest.fixture
async def maria(mariadb_schema: Place) -> AsyncIterator[Place]:
    """A database on MariaDB."""
    async for place in emptied(mariadb_schema):
        yield place


@pytest.fixture(params=["sqlite", pytest.param("maria", marks=pytest.mark.servers)])
def place(request: pytest.FixtureRequest) -> Place:
    """A database in each dialect in turn."""
    found: Place = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def database(place: Place) -> Database:
    """A Database on `place`, patient enough for a busy machine."""
    return place.open(timeout=20)
