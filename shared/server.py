"""Serving: builds the gRPC server, binds it, tells when it is ready, and stops it in good order.

Owns transport, limits, TLS, reflection, health and drain. What is served is registered by the caller; when to stop is
the caller's event, so that a test binds port 0 and stops deterministically. Signals are the caller's business too.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
from grpc_health.v1 import health_pb2_grpc  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]

from shared import layers, tls
from shared.addresses import is_loopback, split
from shared.auth import Authenticator, check_dev_mode
from shared.config import ConfigError, GrpcSettings, TlsSettings
from shared.grpc_errors import Translate
from shared.health import HEALTH_SERVICE, HealthBoard, HealthServicer
from shared.interceptor import CallInterceptor
from shared.telemetry import Telemetry

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """What to serve, where, and within which limits."""

    listen: Sequence[str]
    """Addresses, `host:port`; port 0 takes a free one."""
    register: Callable[[grpc.aio.Server], None]
    """Adds the services' handlers, for instance by calling the generated `add_…Servicer_to_server`."""
    board: HealthBoard
    """Names the services and holds their health."""
    authenticator: Authenticator
    telemetry: Telemetry
    grpc: GrpcSettings = field(default_factory=GrpcSettings)
    tls: TlsSettings = field(default_factory=TlsSettings)
    allow_plaintext: bool = False
    """Serve beyond loopback without TLS: something else encrypts."""
    calls: Sequence[str] = ()
    """Addresses of other Palimpsest servers that callers' credentials are passed on to."""
    translate: Translate | None = None
    """The service's own exceptions as ServiceErrors."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)


async def serve(spec: ServerSpec, *, shutdown: asyncio.Event, ready: Callable[[list[str]], None] | None = None) -> None:
    """Serves until `shutdown` is set (or the task is cancelled), then drains.

    `ready` is called once with the bound addresses, in the order of `spec.listen`. Draining: health turns NOT_SERVING,
    new calls are refused, those in progress have `drain_seconds` to finish. Raises ConfigError, one line, when the spec
    cannot be served: no TLS beyond loopback, dev mode beyond loopback, a bad certificate, an address in use.
    """
    _check(spec)
    gate = layers.Gate(spec.board)
    server = _build(spec, gate)
    started = False
    try:
        bound = _bind(server, spec)
        await server.start()
        started = True
        if ready is not None:
            ready(bound)
        await shutdown.wait()
    finally:
        spec.board.close()
        end = asyncio.get_running_loop().time() + spec.grpc.drain_seconds
        try:
            if started:
                await gate.quiet()
        finally:
            await server.stop(max(0.0, end - asyncio.get_running_loop().time()))


def _check(spec: ServerSpec) -> None:
    if not spec.listen:
        raise ConfigError("there is no address to listen on")
    for address in spec.listen:
        try:
            if not address.startswith("unix:"):
                split(address)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        if not (spec.tls.enabled or spec.allow_plaintext or is_loopback(address)):
            raise ConfigError(
                f"refusing to listen on {address} without TLS; set PALIMPSEST_TLS__CERT_FILE and __KEY_FILE, "
                "or PALIMPSEST_ALLOW_PLAINTEXT=true where something in front encrypts"
            )
    check_dev_mode(spec.authenticator.settings, listen=spec.listen, calls=spec.calls, environ=spec.environ)


def _build(spec: ServerSpec, gate: layers.Gate) -> grpc.aio.Server:
    size = spec.grpc.max_message_mib * 1024 * 1024
    chain = [
        layers.measured(spec.telemetry),
        layers.mapped(spec.translate),
        gate.layer,
        layers.admitted(spec.grpc.max_concurrent, spec.grpc.max_streams),
        layers.authenticated(spec.authenticator),
        layers.bounded(spec.grpc.rpc_timeout_seconds),
    ]
    server = grpc.aio.server(
        interceptors=[CallInterceptor(chain)],
        options=[
            ("grpc.so_reuseport", 0),  # else a second server binds the same port, silently
            ("grpc.max_receive_message_length", size),
            ("grpc.max_send_message_length", size),
            ("grpc.keepalive_time_ms", 60_000),  # finds peers that are gone without a word
            ("grpc.keepalive_timeout_ms", 20_000),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
        ],
    )
    spec.register(server)
    health_pb2_grpc.add_HealthServicer_to_server(HealthServicer(spec.board), server)
    local = all(is_loopback(address) for address in spec.listen)
    if spec.grpc.reflection == "on" or (spec.grpc.reflection == "auto" and local):
        names = (*spec.board.services, HEALTH_SERVICE, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
    return server


def _bind(server: grpc.aio.Server, spec: ServerSpec) -> list[str]:
    credentials = tls.server_credentials(spec.tls) if spec.tls.enabled else None
    return [_bind_one(server, address, credentials) for address in spec.listen]


def _bind_one(server: grpc.aio.Server, address: str, credentials: Any) -> str:
    try:
        port = server.add_secure_port(address, credentials) if credentials else server.add_insecure_port(address)
    except RuntimeError as error:
        raise ConfigError(
            f"cannot listen on {address}: it is in use by another process, or not an address of this machine"
        ) from error
    return address if address.startswith("unix:") else f"{address.rpartition(':')[0]}:{port}"
