"""Serving MemoryService: listen first, open the stores when they answer, work in the background, end in good order."""

import asyncio
import contextlib
import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc

from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.migrate import is_current, upgrade
from memory_service.compose import Application, Infrastructure, application, databases, infrastructure
from memory_service.ports import KeyMissing, StoreUnavailable
from memory_service.settings import MemorySettings
from shared.auth import Authenticator
from shared.config import ConfigError
from shared.errors import ServiceError, Unavailable
from shared.gen.palimpsest.memory.v1 import (
    admin_service_pb2_grpc,
    conversation_service_pb2_grpc,
    memory_service_pb2_grpc,
)
from shared.health import HealthBoard
from shared.server import ServerSpec
from shared.server import serve as serve_grpc
from shared.telemetry import Telemetry

log = logging.getLogger(__name__)

SERVICES = (
    "palimpsest.memory.v1.MemoryService",
    "palimpsest.memory.v1.ConversationService",
    "palimpsest.memory.v1.AdminService",
)
WATCH_SECONDS = 2.0
SETTINGS_SECONDS = 2.0
RETRY_SECONDS = 1.0


class Gate:
    """Stands for a servicer until the stores are open, and hands calls on from then on."""

    def __init__(self) -> None:
        self.api: Any = None

    def __getattr__(self, name: str) -> Any:
        async def call(request: Any, context: Any) -> Any:
            if self.api is None:
                raise Unavailable("The server is starting; its record does not answer yet.", reason="STARTING")
            return await getattr(self.api, name)(request, context)

        return call


@contextlib.contextmanager
def data_folder(settings: MemorySettings) -> Iterator[None]:
    """Holds the data folder of the embedded record for this process alone; ConfigError when another one has it."""
    if not settings.embedded:
        yield
        return
    path = settings.data_dir / "palimpsest.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the data folder {settings.data_dir} cannot be used: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(_held(path, settings.data_dir)) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _held(path: Path, folder: Path) -> str:
    owner = path.read_text(encoding="utf-8").strip() or "unknown"
    return (
        f"the data folder {folder} is in use by another memory-service (process {owner}): "
        "stop it first, or set PALIMPSEST_DATA_DIR to another folder"
    )


async def migrate(settings: MemorySettings) -> None:
    """Brings the databases to this version's schema. The embedded record must not be in use."""
    with data_folder(settings):
        await _migrate(settings)


async def _migrate(settings: MemorySettings) -> None:
    async with contextlib.AsyncExitStack() as stack:
        record, keys = databases(settings, stack)
        await _upgrade(record, keys)


async def _upgrade(record: Database, keys: Database) -> None:
    for database, tree in ((record, "record"), (keys, "keys")):
        # Asked first: a schema that is newer than this version is as good, and Alembic would not know it.
        if not await is_current(database, tree):
            await upgrade(database, tree)


async def serve(
    settings: MemorySettings,
    *,
    shutdown: asyncio.Event,
    ready: Callable[[list[str]], None] = lambda addresses: None,
    listening: Callable[[list[str]], None] = lambda addresses: None,
    migrate_first: bool = False,
    telemetry: Telemetry | None = None,
) -> None:
    """Serves until `shutdown` is set. `listening` is called with the bound addresses once they are bound, `ready` once
    the stores are open as well. `migrate_first` makes the schema as soon as the record answers, instead of waiting for
    it. ConfigError, one line, when the settings cannot be served.
    """
    with data_folder(settings):
        async with contextlib.AsyncExitStack() as stack:
            telemetry = telemetry or Telemetry(settings.telemetry)
            stack.push_async_callback(telemetry.close)
            infra = infrastructure(settings, telemetry, stack)
            await _Server(settings, infra, shutdown, ready, listening, migrate_first=migrate_first).run()


class _Server:
    """One run of the server."""

    def __init__(
        self,
        settings: MemorySettings,
        infra: Infrastructure,
        shutdown: asyncio.Event,
        ready: Callable[[list[str]], None],
        listening: Callable[[list[str]], None],
        *,
        migrate_first: bool,
    ) -> None:
        self._migrate_first = migrate_first
        self._settings = settings
        self._infra = infra
        self._shutdown = shutdown
        self._ready = ready
        self._listening = listening
        self._memory, self._conversation, self._admin = Gate(), Gate(), Gate()
        self._board = HealthBoard(SERVICES, ("record", "schema"))
        self._bound: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Listens, then opens the stores; the background work ends when the last call has."""
        opening = asyncio.create_task(self._open_and_work())
        serving = asyncio.create_task(serve_grpc(self._spec(), shutdown=self._shutdown, ready=self._on_bound))
        try:
            done, _ = await asyncio.wait((opening, serving), return_when=asyncio.FIRST_COMPLETED)
            if opening in done:
                # It ends by itself only when it fails.
                self._shutdown.set()
                await asyncio.wait((serving,))
                opening.result()
            serving.result()
        finally:
            for task in (opening, serving):
                task.cancel()
            await asyncio.gather(opening, serving, return_exceptions=True)

    def _spec(self) -> ServerSpec:
        return ServerSpec(
            listen=[self._settings.listen],
            register=self._register,
            board=self._board,
            authenticator=Authenticator(self._settings.auth),
            telemetry=self._infra.telemetry,
            grpc=self._settings.grpc,
            tls=self._settings.tls,
            allow_plaintext=self._settings.allow_plaintext,
            translate=translate,
        )

    def _register(self, server: grpc.aio.Server) -> None:
        memory: Any = self._memory
        conversation: Any = self._conversation
        admin: Any = self._admin
        memory_service_pb2_grpc.add_MemoryServiceServicer_to_server(memory, server)
        conversation_service_pb2_grpc.add_ConversationServiceServicer_to_server(conversation, server)
        admin_service_pb2_grpc.add_AdminServiceServicer_to_server(admin, server)

    def _on_bound(self, addresses: list[str]) -> None:
        self._bound.set_result(addresses)
        self._listening(addresses)

    async def _open_and_work(self) -> None:
        # Not before the address is ours: whoever is refused that has touched nothing.
        addresses = await self._bound
        app = await open_application(self._infra, migrate_first=self._migrate_first, schema=self._schema)
        self._memory.api, self._conversation.api = app.memory_api, app.conversation_api
        self._admin.api = app.admin_api
        self._board.set("record", True)
        self._ready(addresses)
        try:
            await _forever(self._background(app))
        finally:
            await app.access.flush()

    def _schema(self, current: bool) -> None:
        self._board.set("schema", current, "" if current else "run `memory-service migrate`")

    def _follow(self) -> None:
        down = self._infra.stores.down("record")
        self._board.set("record", not down, "does not answer" if down else "")

    def _background(self, app: Application) -> list[Any]:
        stores = self._infra.stores
        work: list[Any] = [
            stores.watch(WATCH_SECONDS, self._follow),
            app.tunables.follow(SETTINGS_SECONDS),
            app.sweeper.flush_for_ever(),
        ]
        if self._settings.worker:
            work += background(app)
        return work


def background(app: Application) -> list[Any]:
    """The work that one process of an installation must do, and any number may."""
    return [app.indexer.run(), app.runner.run(), app.sweeper.run(), app.extractor.run()]


async def work(settings: MemorySettings, *, shutdown: asyncio.Event, ready: Callable[[], None] = lambda: None) -> None:
    """Does the background work without serving, until `shutdown` is set. ConfigError with the embedded record: its one
    process is the server."""
    if settings.embedded:
        raise ConfigError(
            "the embedded record has one process, the server, and its worker runs there: "
            "set PALIMPSEST_DATABASE_URL for workers of their own"
        )
    async with contextlib.AsyncExitStack() as stack:
        telemetry = Telemetry(settings.telemetry)
        stack.push_async_callback(telemetry.close)
        infra = infrastructure(settings, telemetry, stack)
        working = asyncio.create_task(_work(infra, ready))
        waiting = asyncio.create_task(shutdown.wait())
        try:
            await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()  # it ends by itself only when it fails
        finally:
            for task in (working, waiting):
                task.cancel()
            await asyncio.gather(working, waiting, return_exceptions=True)


async def _work(infra: Infrastructure, ready: Callable[[], None]) -> None:
    app = await open_application(infra)
    ready()
    stores = infra.stores
    try:
        await _forever(
            [
                stores.watch(WATCH_SECONDS, lambda: None),
                app.tunables.follow(SETTINGS_SECONDS),
                app.sweeper.flush_for_ever(),
                *background(app),
            ]
        )
    finally:
        await app.access.flush()


async def open_application(
    infra: Infrastructure, *, migrate_first: bool = False, schema: Callable[[bool], None] = lambda current: None
) -> Application:
    """Waits for the record and for a schema this code can work with; `schema` is told whether it is one."""
    said = ""
    while True:
        try:
            if migrate_first:
                await _upgrade(infra.database, infra.key_database)
            current = await is_current(infra.database, "record") and await is_current(infra.key_database, "keys")
            schema(current)
            if current:
                return await application(infra)
            problem = "the schema of the record is older than this version: run `memory-service migrate`"
        except StoreUnavailable as error:
            problem = f"waiting for the record: {error}"
        if problem != said:
            log.warning("%s", problem)
            said = problem
        await asyncio.sleep(RETRY_SECONDS)


async def _forever(coroutines: list[Any]) -> None:
    async with asyncio.TaskGroup() as group:
        for coroutine in coroutines:
            group.create_task(coroutine)


def translate(error: BaseException) -> ServiceError | None:
    """What a port's errors are to a caller."""
    if isinstance(error, StoreUnavailable):
        return Unavailable(
            "The record cannot be reached now; nothing was answered from anywhere else."
            if error.store == "record"
            else "A part of the service cannot be reached now.",
            reason=f"{error.store.upper()}_UNAVAILABLE",
            retry_after=1.0,
        )
    if isinstance(error, KeyMissing):
        return Unavailable("A key that this user's memories need is not available.", reason="KEY_UNAVAILABLE")
    return None
