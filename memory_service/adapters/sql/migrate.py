"""Brings a database to the schema this code needs, and tells whether it is there."""

from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, MetaData

import memory_service.migrations
from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.schema import keys_metadata, metadata

_TREES: dict[str, MetaData] = {"record": metadata, "keys": keys_metadata}


def _config(tree: str, connection: Any = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(memory_service.migrations.__file__).parent / tree))
    config.attributes.update(connection=connection, metadata=_TREES[tree], version_table=f"alembic_version_{tree}")
    return config


async def upgrade(database: Database, tree: str) -> None:
    """Runs the migrations of a tree ("record" or "keys") that this database has not seen."""

    def run(connection: Connection) -> None:
        command.upgrade(_config(tree, connection), "head")
        connection.commit()

    async with database.engine.connect() as connection:
        # Alembic wants to hold a transaction of its own, where the dialect has one for DDL.
        level = "AUTOCOMMIT" if database.is_sqlite else "READ COMMITTED"
        await (await connection.execution_options(isolation_level=level)).run_sync(run)


async def is_current(database: Database, tree: str) -> bool:
    """True when the schema is the one this code knows, or a newer one (expand first, contract later)."""
    script = ScriptDirectory.from_config(_config(tree))
    known = {revision.revision for revision in script.walk_revisions()}

    def read(connection: Connection) -> str | None:
        context = MigrationContext.configure(connection, opts={"version_table": f"alembic_version_{tree}"})
        return context.get_current_revision()

    async def work(connection: Any) -> str | None:
        revision: str | None = await connection.run_sync(read)
        return revision

    present = await database.read(work)
    return present is not None and (present == script.get_current_head() or present not in known)
