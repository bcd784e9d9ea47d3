"""Serving PromptAssembler: there is nothing to wait for, so it is healthy as soon as it listens."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import grpc

from assembler_service.compose import application
from assembler_service.domain.model import FixedPartsTooLarge
from assembler_service.settings import AssemblerSettings
from shared.auth import Authenticator
from shared.errors import FailedPrecondition, ServiceError
from shared.gen.palimpsest.assembler.v1 import prompt_assembler_pb2_grpc
from shared.health import HealthBoard
from shared.server import ServerSpec
from shared.server import serve as serve_grpc
from shared.telemetry import Telemetry

SERVICES = ("palimpsest.assembler.v1.PromptAssembler",)


async def serve(
    settings: AssemblerSettings,
    *,
    shutdown: asyncio.Event,
    ready: Callable[[list[str]], None] = lambda addresses: None,
    telemetry: Telemetry | None = None,
) -> None:
    """Serves until `shutdown` is set. `ready` is called with the bound addresses. ConfigError, one line, when the
    settings cannot be served.

    MemoryService is no component of its health: without it prompts are assembled all the same.
    """
    async with contextlib.AsyncExitStack() as stack:
        telemetry = telemetry or Telemetry(settings.telemetry)
        stack.push_async_callback(telemetry.close)
        api: Any = application(settings, telemetry, stack)

        def register(server: grpc.aio.Server) -> None:
            prompt_assembler_pb2_grpc.add_PromptAssemblerServicer_to_server(api, server)

        spec = ServerSpec(
            listen=[settings.assembler_listen],
            register=register,
            board=HealthBoard(SERVICES),
            authenticator=Authenticator(settings.auth),
            telemetry=telemetry,
            grpc=settings.assembler_grpc,
            tls=settings.tls,
            allow_plaintext=settings.allow_plaintext,
            calls=[settings.assembler_memory_target] if settings.assembler_memory_target else [],
            translate=translate,
        )
        await serve_grpc(spec, shutdown=shutdown, ready=ready)


def translate(error: BaseException) -> ServiceError | None:
    """What the domain's errors are to a caller."""
    if isinstance(error, FixedPartsTooLarge):
        parts = {name: str(tokens) for name, tokens in error.parts.items()}
        return FailedPrecondition(
            str(error), reason="FIXED_PARTS_TOO_LARGE", metadata={**parts, "limit": str(error.limit)}
        )
    return None
