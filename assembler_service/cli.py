"""The command line: `assembler-service`. Reads settings, serves, says what is wrong in one line."""

import asyncio
import logging
import os
import signal
import sys

import typer

from assembler_service.settings import FOREIGN, AssemblerSettings
from shared.config import ConfigError, describe, load
from shared.logs import JsonFormatter

app = typer.Typer(
    help="Prompt assembly for LLM agents. Settings come from PALIMPSEST_* variables or the TOML file that "
    "PALIMPSEST_CONFIG_FILE names; `assembler-service config` shows them all.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point: what is wrong with settings is one line and exit code 1, never a traceback."""
    # gRPC's core prints lines of its own, which our errors and our log say better; it reads this when it is loaded.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        app()
    except ConfigError as error:
        print(f"assembler-service: {error}", file=sys.stderr)
        raise SystemExit(1) from None


def _settings() -> AssemblerSettings:
    settings = load(AssemblerSettings, foreign=FOREIGN)
    handler = logging.StreamHandler()
    if not sys.stderr.isatty():
        handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return settings


async def _serving(settings: AssemblerSettings) -> None:
    from assembler_service.main import serve

    shutdown = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, shutdown.set)
    await serve(
        settings,
        shutdown=shutdown,
        ready=lambda addresses: print(f"Palimpsest PromptAssembler is ready on {addresses[0]}", flush=True),
    )


@app.command()
def serve() -> None:
    """Serve. It needs no store and no network; `lookup` needs a MemoryService."""
    asyncio.run(_serving(_settings()))


@app.command()
def config() -> None:
    """Show every setting: its value (secrets masked), unit, where it came from, and what it does."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("variable", "value", "unit", "from", "what it does"):
        table.add_column(heading, overflow="fold")
    for row in describe(load(AssemblerSettings, foreign=FOREIGN)):
        table.add_row(row.env, str(row.value), row.unit, row.source, row.help)
    Console(width=None if sys.stdout.isatty() else 220).print(table)
