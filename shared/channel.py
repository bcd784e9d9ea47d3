"""Channels to other Palimpsest servers, and what a call carries along: credentials, request id, trace, time left.

The OpenTelemetry interceptor for aio clients breaks cancellation (opentelemetry-python-contrib#3271), so the few lines
that are needed are here.
"""

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import grpc

from shared.auth import current_credentials
from shared.context import request_id, time_left
from shared.grpc_errors import REQUEST_ID_KEY
from shared.telemetry import outgoing_trace


@dataclass(frozen=True, slots=True)
class ChannelTls:
    """TLS towards a server, as PEM. `authorities` None: those of the system. `certificate` and `key`: mutual TLS."""

    authorities: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = None


def open_channel(
    target: str, *, max_message_mib: int = 4, tls: ChannelTls | None = None, carry_caller: bool = False
) -> grpc.aio.Channel:
    """A channel to `host:port`; without `tls` in plaintext. Nothing connects before the first call. Close it.

    `carry_caller`: calls go on behalf of the caller of the call in progress, with its credentials, request id, trace
    and what is left of its deadline.
    """
    size = max_message_mib * 1024 * 1024
    options = [
        ("grpc.max_receive_message_length", size),
        ("grpc.max_send_message_length", size),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.enable_http_proxy", 0),  # http_proxy of the environment is not meant for these
        ("grpc.max_reconnect_backoff_ms", 5_000),
    ]
    interceptors = carrying_interceptors() if carry_caller else None
    if tls is None:
        return grpc.aio.insecure_channel(target, options=options, interceptors=interceptors)
    credentials = grpc.ssl_channel_credentials(tls.authorities, tls.key, tls.certificate)
    return grpc.aio.secure_channel(target, credentials, options=options, interceptors=interceptors)


def carrying_interceptors() -> list[grpc.aio.ClientInterceptor]:
    """Interceptors of the four shapes; grpc.aio takes one per shape. The call itself is handed on untouched."""
    return [_UnaryUnary(), _UnaryStream(), _StreamUnary(), _StreamStream()]


def _with_caller(details: Any) -> Any:
    metadata = grpc.aio.Metadata(*(details.metadata or ()))
    present = set(metadata.keys())
    credentials = current_credentials()
    carried = {REQUEST_ID_KEY: request_id(), **outgoing_trace()}
    if credentials is not None:
        carried["authorization"] = credentials.authorization or ""
        carried["x-user-id"] = credentials.user_id or ""
    for key, value in carried.items():
        if value and key not in present:
            metadata.add(key, value)
    left = time_left()
    timeout = details.timeout if left is None else left if details.timeout is None else min(left, details.timeout)
    return details._replace(metadata=metadata, timeout=timeout)


Continuation = Callable[[Any, Any], Awaitable[Any]]


class _UnaryUnary(grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(self, continuation: Continuation, client_call_details: Any, request: Any) -> Any:
        return await continuation(_with_caller(client_call_details), request)


class _UnaryStream(grpc.aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(self, continuation: Continuation, client_call_details: Any, request: Any) -> Any:
        return await continuation(_with_caller(client_call_details), request)


class _StreamUnary(grpc.aio.StreamUnaryClientInterceptor):
    async def intercept_stream_unary(
        self,
        continuation: Continuation,
        client_call_details: Any,
        request_iterator: AsyncIterable[Any] | Iterable[Any],
    ) -> Any:
        return await continuation(_with_caller(client_call_details), request_iterator)


class _StreamStream(grpc.aio.StreamStreamClientInterceptor):
    async def intercept_stream_stream(
        self,
        continuation: Continuation,
        client_call_details: Any,
        request_iterator: AsyncIterable[Any] | Iterable[Any],
    ) -> Any:
        return await continuation(_with_caller(client_call_details), request_iterator)
