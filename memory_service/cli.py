"""The command line: `memory-service`. Reads settings, calls what does the work, says what is wrong in one line.

What does the work is imported by the command that needs it: drivers and models take seconds, which help, `config`,
`token` and a mistake in the settings should not.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from memory_service.settings import MemorySettings
from shared.auth import DEV_SCOPES, mint_dev_token
from shared.config import ConfigError, describe, load
from shared.logs import JsonFormatter

app = typer.Typer(
    help="Long-term memory for LLM agents. Settings come from PALIMPSEST_* variables or the TOML file that "
    "PALIMPSEST_CONFIG_FILE names; `memory-service config` shows them all.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
keys_app = typer.Typer(help="The key-encryption keys.", no_args_is_help=True)
app.add_typer(keys_app, name="keys")

FOREIGN = ("PALIMPSEST_ASSEMBLER_", "PALIMPSEST_TEST_", "PALIMPSEST_EVAL_")
"""Names of the same prefix that are not this service's."""
ADDRESSES = {
    "record": "PALIMPSEST_DATABASE_URL",
    "index": "PALIMPSEST_MILVUS_URI",
    "cache": "PALIMPSEST_REDIS_URL",
    "embedding": "PALIMPSEST_EMBEDDING__BASE_URL",
}
"""Where a store's address is set."""
console = Console(stderr=True)

FIRST_CALL = """\
Palimpsest MemoryService is ready on {address}
  embedded default: SQLite in {folder}, exact search, bundled model; one process, one writer: a laptop's store
  try it:  grpcurl -plaintext -H 'x-user-id: alice' \\
             -d '{{"type": "MEMORY_TYPE_FACT", "content": "我用 MySQL 8"}}' \\
             {address} palimpsest.memory.v1.MemoryService/SaveMemory
"""


def main() -> None:
    """Entry point: what is wrong with settings or stores is one line and exit code 1, never a traceback."""
    # gRPC's core prints lines of its own, which our errors and our log say better; it reads this when it is loaded.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        app()
    except ConfigError as error:
        print(f"memory-service: {error}", file=sys.stderr)
        raise SystemExit(1) from None


def _settings() -> MemorySettings:
    settings = load(MemorySettings, foreign=FOREIGN)
    handler = logging.StreamHandler()
    if not sys.stderr.isatty():
        handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)
    for noisy in ("alembic", "httpx"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # It logs every failed call with its expression, which holds user ids; the adapter reports what failed.
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    return settings


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    """What a command could not do becomes the line that `main` prints."""
    from memory_service.commands import CommandFailed
    from memory_service.ports import StoreUnavailable

    try:
        yield
    except CommandFailed as error:
        raise ConfigError(str(error)) from error
    except StoreUnavailable as error:
        name = ADDRESSES.get(error.store, "its address")
        raise ConfigError(f"the {error.store} does not answer: is it running, and is {name} right?") from error


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    with _failures():
        return asyncio.run(work)


async def _serving(settings: MemorySettings, ready: Callable[[list[str]], None], *, migrate_first: bool) -> None:
    from memory_service.main import serve

    shutdown = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, shutdown.set)
    await serve(settings, shutdown=shutdown, ready=ready, migrate_first=migrate_first)


async def _working(settings: MemorySettings) -> None:
    from memory_service.main import work

    shutdown = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, shutdown.set)
    await work(settings, shutdown=shutdown, ready=lambda: print("Palimpsest worker is at work", flush=True))


@app.command()
def up() -> None:
    """Migrate and serve in the foreground: the way to try it out, and the laptop's way to run it."""
    settings = _settings()

    def ready(addresses: list[str]) -> None:
        if settings.embedded:
            print(FIRST_CALL.format(address=addresses[0], folder=settings.data_dir), flush=True)
        else:
            print(f"Palimpsest MemoryService is ready on {addresses[0]}", flush=True)

    _run(_serving(settings, ready, migrate_first=True))


@app.command()
def serve() -> None:
    """Serve. The schema must be there (`memory-service migrate`); until it is, health says NOT_SERVING."""
    settings = _settings()
    _run(
        _serving(
            settings,
            lambda addresses: print(f"Palimpsest MemoryService is ready on {addresses[0]}", flush=True),
            migrate_first=False,
        )
    )


@app.command()
def worker() -> None:
    """Do the background work (outbox, extraction of turns, jobs, upkeep) without serving. Needs a database server; any
    number may run. Servers that leave it to workers have PALIMPSEST_WORKER=false."""
    settings = _settings()
    _run(_working(settings))


@app.command("failed-jobs")
def failed_jobs(
    retry: Annotated[bool, typer.Option(help="Have all of them tried again.")] = False,
    bearer: Annotated[str, typer.Option("--token", help="Token with memory:admin.")] = "",
) -> None:
    """Show the turns whose extraction was given up, as the running server lists them."""
    settings = _settings()
    from memory_service import commands

    _run(commands.failed_jobs(settings, retry=retry, bearer=bearer))


@app.command()
def migrate() -> None:
    """Bring the databases to the schema of this version. Safe to run again."""
    settings = _settings()
    from memory_service.main import migrate

    _run(migrate(settings))
    print("The schema is up to date.")


@app.command()
def config() -> None:
    """Show every setting: its value (secrets masked), unit, where it came from, and what it does."""
    table = Table(box=None, pad_edge=False)
    for heading in ("variable", "value", "unit", "from", "what it does"):
        table.add_column(heading, overflow="fold")
    for row in describe(load(MemorySettings, foreign=FOREIGN)):
        table.add_row(row.env, str(row.value), row.unit, row.source, row.help)
    width = None if sys.stdout.isatty() else 220
    Console(width=width).print(table)


@app.command()
def token(
    user: Annotated[str, typer.Argument(help="The user the token is for (its `sub`).")],
    scope: Annotated[
        list[str] | None,
        typer.Option(help="A scope; may be given several times. Unset: all but act_as and memory:pii."),
    ] = None,
    shard: Annotated[
        list[str] | None, typer.Option(help="A shard the token is limited to; may be given several times. Unset: all.")
    ] = None,
    minutes: Annotated[float, typer.Option(help="How long it is valid, in minutes.")] = 60,
    act_as_prefix: Annotated[str | None, typer.Option(help="With scope act_as: whom the token may act as.")] = None,
) -> None:
    """Make a token of the configured HS256 secret (PALIMPSEST_AUTH__SECRET), for trying things out."""
    settings = _settings()
    print(
        mint_dev_token(
            settings.auth,
            sub=user,
            scopes=scope or sorted(DEV_SCOPES),
            ttl=minutes * 60,
            shards=shard,
            act_as_prefix=act_as_prefix,
        )
    )


@app.command()
def calibrate(
    out: Annotated[Path, typer.Option(help="Where to write the embedding space.")],
    pairs: Annotated[
        Path | None, typer.Option(help="Labelled pairs (TSV: task, label, lang, a, b). Unset: the ones that ship.")
    ] = None,
) -> None:
    """Make the embedding space of the configured model: what its vectors are centred by and what its cosines mean.

    Configure the model first (PALIMPSEST_EMBEDDING__PROVIDER, __BASE_URL, __MODEL, __DIM ...), with
    PALIMPSEST_EMBEDDING__SPACE_FILE naming the file that is to be written.
    """
    settings = _settings()
    from memory_service import commands

    with _failures():
        commands.calibrate(settings, out, pairs, console)


@app.command()
def reindex(
    reembed: Annotated[
        bool,
        typer.Option(help="First move every user to the configured embedding model (it is called for every memory)."),
    ] = False,
    bearer: Annotated[
        str, typer.Option("--token", help="Token with memory:admin, where a running server is asked.")
    ] = "",
) -> None:
    """Rebuild the vector index from the record. Can be interrupted: run it again, or let the server's worker go on."""
    settings = _settings()
    from memory_service import commands

    _run(commands.long_work(settings, "reindex", reembed=reembed, bearer=bearer, console=console))


@app.command()
def reconcile(
    bearer: Annotated[
        str, typer.Option("--token", help="Token with memory:admin, where a running server is asked.")
    ] = "",
) -> None:
    """Compare record and vector index both ways and mend what differs."""
    settings = _settings()
    from memory_service import commands

    _run(commands.long_work(settings, "reconcile", reembed=False, bearer=bearer, console=console))


@keys_app.command("rotate")
def keys_rotate() -> None:
    """Wrap every user's data key by a new key-encryption key (from the key file) or the current one (from the
    environment). The old one stays valid. Can be interrupted and run again."""
    settings = _settings()
    from memory_service import commands

    _run(commands.rotate_keys(settings, console))
