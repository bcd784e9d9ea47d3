"""One database: connections, transactions, time limits, and the translation of its drivers' errors.

Every statement outside `transaction` is its own (autocommit): no snapshot outlives it, so a pooled connection cannot
answer yesterday's rows. A transaction is begun by hand, because the two dialects need different words: SQLite must take
its write lock first (BEGIN IMMEDIATE), and has one writer at a time in the process.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

from sqlalchemy import Table, event, exc
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from memory_service.ports import StoreUnavailable

T = TypeVar("T")
log = logging.getLogger(__name__)

DEADLOCK, LOCK_WAIT_TIMEOUT = 1213, 1205
"""The two MySQL errors after which the whole transaction is safe to run again."""
_DRIVERS = {"mysql": "mysql+aiomysql", "mariadb": "mysql+aiomysql", "sqlite": "sqlite+aiosqlite"}


def database_url(text: str) -> URL:
    """Parses a database URL and puts in the driver; ValueError when it names no database this service knows."""
    try:
        url = make_url(text)
    except exc.ArgumentError as error:
        raise ValueError("not a database URL: write it like mysql://user:password@host:3306/name") from error
    name = url.get_backend_name()
    if name not in _DRIVERS:
        raise ValueError(f"'{name}' is not supported: use mysql://, mariadb:// or sqlite:///")
    url = url.set(drivername=_DRIVERS[name])
    if name != "sqlite" and "charset" not in url.query:
        url = url.update_query_dict({"charset": "utf8mb4"})
    return url


class Database:
    """A pool of connections to one database. `store` names it in errors."""

    def __init__(self, url: str, *, timeout: float = 5.0, pool_size: int = 16, store: str = "record") -> None:
        self._url = database_url(url)
        self._timeout = timeout
        self._store = store
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        # A file has one writer anyway: a queue here is fairer than SQLite's busy loop.
        self._writer: contextlib.AbstractAsyncContextManager[Any] = (
            asyncio.Lock() if self.is_sqlite else contextlib.nullcontext()
        )
        # No `connect_timeout`: aiomysql gives it to asyncio.wait_for, which before Python 3.12 swallows a cancellation
        # (and so the limit of `_limits`) that comes as the socket opens; a frozen server then held the call for ever.
        args: dict[str, Any] = {"timeout": 5.0} if self.is_sqlite else {}
        self.engine = create_async_engine(
            self._url,
            isolation_level="AUTOCOMMIT",
            skip_autocommit_rollback=True,  # a reset per read would double the round trips; see `_finish`
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=timeout,
            pool_recycle=1800,
            connect_args=args,
        )
        event.listen(self.engine.sync_engine, "connect", self._prepare)

    def _prepare(self, connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        if self.is_sqlite:
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=5000", "foreign_keys=ON"):
                cursor.execute(f"PRAGMA {pragma}")
        else:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            cursor.execute(
                "SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',"
                " innodb_lock_wait_timeout = 5"
            )
        cursor.close()

    def upsert(self, table: Table, row: Mapping[str, Any] | None, update: Mapping[str, Any]) -> Any:
        """INSERT that updates these columns where the primary key is there; with no columns it leaves the row be.

        On MySQL it also locks the row that is there: the only way to take a lock row that does not deadlock. Without
        `row` the statement takes many rows when it is executed; `update` may hold no bound values then, because
        aiomysql puts none into what stands behind VALUES.
        """
        if self.is_sqlite:
            insert = sqlite.insert(table) if row is None else sqlite.insert(table).values(row)
            if not update:
                return insert.on_conflict_do_nothing()
            return insert.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=dict(update))
        first = next(iter(table.primary_key.columns))
        into = mysql.insert(table) if row is None else mysql.insert(table).values(row)
        return into.on_duplicate_key_update(dict(update) or {first.name: first})

    @contextlib.asynccontextmanager
    async def _limits(self, seconds: float | None = None) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds or self._timeout):
                yield
        except exc.IntegrityError:
            raise
        except (exc.DBAPIError, exc.PendingRollbackError, exc.TimeoutError, TimeoutError, OSError) as error:
            raise StoreUnavailable(self._store, f"{type(error).__name__}: {error}") from error

    async def read(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Runs reads, or a single autocommitted statement. A connection found dead is replaced once."""
        async with self._limits():
            for last in (False, True):
                try:
                    async with self.engine.connect() as connection:
                        return await work(connection)
                except exc.DBAPIError as error:
                    if last or not error.connection_invalidated:
                        raise
            raise AssertionError("unreachable")

    async def transaction(self, work: Callable[[AsyncConnection], Awaitable[T]], seconds: float | None = None) -> T:
        """Runs `work` in a transaction: commits when it returns, rolls back when it raises; again after a deadlock."""
        retrying = AsyncRetrying(
            retry=retry_if_exception(_is_deadlock),
            stop=stop_after_attempt(10),
            wait=wait_random_exponential(multiplier=0.01, max=0.2),
            reraise=True,
        )
        # The queue for SQLite's one writer is no fault of the store: waiting in it is bounded by the call alone.
        async with self._writer, self._limits(seconds):
            async for attempt in retrying:
                with attempt:
                    async with self._begun() as connection:
                        return await self._finish(connection, work)
            raise AssertionError("unreachable")

    @contextlib.asynccontextmanager
    async def _begun(self) -> AsyncIterator[AsyncConnection]:
        """A connection with a transaction begun; one found dead by the BEGIN is replaced once."""
        begin = "BEGIN IMMEDIATE" if self.is_sqlite else "START TRANSACTION"
        async with contextlib.AsyncExitStack() as stack:
            connection = await stack.enter_async_context(self.engine.connect())
            try:
                await connection.exec_driver_sql(begin)
            except exc.DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                connection = await stack.enter_async_context(self.engine.connect())
                await connection.exec_driver_sql(begin)
            yield connection

    async def _finish(self, connection: AsyncConnection, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        try:
            result = await work(connection)
            await connection.exec_driver_sql("COMMIT")
        except Exception:
            try:
                await connection.exec_driver_sql("ROLLBACK")
            except exc.SQLAlchemyError:
                await connection.invalidate()
            raise
        except BaseException:
            # Cancelled: what the server is doing on this connection is not known, so it goes.
            await connection.invalidate()
            raise
        return result

    async def close(self) -> None:
        """Closes all connections."""
        await self.engine.dispose()


def _is_deadlock(error: BaseException) -> bool:
    if not isinstance(error, exc.DBAPIError) or error.orig is None:
        return False
    return bool(error.orig.args) and error.orig.args[0] in (DEADLOCK, LOCK_WAIT_TIMEOUT)
