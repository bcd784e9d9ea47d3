"""What every call passes on its way to a handler: telemetry, errors, the gate, admission, authentication, deadline.

Each is a layer as `interceptor` calls it. Health and reflection pass all but errors untouched.
"""

import asyncio
import time
from typing import Any

import grpc

from shared import auth, grpc_errors
from shared.auth import Authenticator
from shared.context import deadline_at
from shared.errors import DeadlineExceeded, ResourceExhausted, Unauthenticated, Unavailable
from shared.health import HealthBoard
from shared.interceptor import Call, Layer, Proceed
from shared.telemetry import Telemetry

_RETRY_AFTER = 0.5


def measured(telemetry: Telemetry) -> Layer:
    """A span and a measurement of each call. Outermost: it sees the code that is sent."""

    async def layer(call: Call, proceed: Proceed) -> Any:
        if call.exempt:
            return await proceed()
        if not telemetry.enabled and not any(key == "traceparent" for key, _ in call.metadata):
            return await proceed()
        headers = {key: str(value) for key, value in call.metadata if key in ("traceparent", "tracestate")}
        with telemetry.server_span(call.service, call.method, headers) as span:
            span.request_id = call.request_id
            try:
                return await proceed()
            except asyncio.CancelledError:
                call.code = grpc.StatusCode.CANCELLED
                raise
            finally:
                span.code, span.number = call.code.name, call.code.value[0]
                span.user_id = call.principal.user_id if call.principal is not None else ""

    return layer


def mapped(translate: grpc_errors.Translate | None) -> Layer:
    """Ends a call whose handler raised with a status, and logs what the caller is not told."""

    async def layer(call: Call, proceed: Proceed) -> Any:
        try:
            return await proceed()
        except grpc.aio.AbortError:
            call.code = _code_of(call.context)
            raise
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # some libraries panic with a BaseException
            if isinstance(error, asyncio.CancelledError) and not grpc_errors.stray_cancellation(call.context):
                raise
            code, status = grpc_errors.rewrite(error, call.request_id, translate)
            grpc_errors.log_hidden(error, code, call.name, call.request_id)
            call.code = code
            await grpc_errors.abort_with(call.context, code, status, call.request_id)
            raise

    return layer


def _code_of(context: Any) -> grpc.StatusCode:
    code = context.code()
    if isinstance(code, grpc.StatusCode):
        return code
    return next((known for known in grpc.StatusCode if known.value[0] == code), grpc.StatusCode.UNKNOWN)


class Gate:
    """Refuses new calls once the server stops, until nobody sends any.

    Stopping gRPC's server at once would answer CANCELLED, which no client repeats, to every call that had arrived but
    was not taken up yet: with 8 callers at work, nearly all 8. UNAVAILABLE makes them go elsewhere first.
    """

    def __init__(self, board: HealthBoard) -> None:
        self._board = board
        self._refused = 0

    async def layer(self, call: Call, proceed: Proceed) -> Any:
        """The gate as a layer."""
        if self._board.closing.is_set() and not call.exempt:
            self._refused += 1
            raise Unavailable(
                "This server is stopping; call another.", reason="SHUTTING_DOWN", retry_after=_RETRY_AFTER
            )
        return await proceed()

    async def quiet(self) -> None:
        """Waits until no call was refused for a tenth of a second, one second at most."""
        for _ in range(10):
            before = self._refused
            await asyncio.sleep(0.1)
            if self._refused == before:
                return


def admitted(max_concurrent: int, max_streams: int) -> Layer:
    """Refuses at once what is beyond the limits; nothing queues. Streams are counted apart from unary calls."""
    room = {False: max_concurrent, True: max_streams}

    async def layer(call: Call, proceed: Proceed) -> Any:
        if call.exempt:
            return await proceed()
        if room[call.streaming] <= 0:
            kind = "streams are open" if call.streaming else "calls are in progress"
            raise ResourceExhausted(
                f"Too many {kind} on this server; try again.", reason="ADMISSION_LIMIT", retry_after=_RETRY_AFTER
            )
        room[call.streaming] -= 1
        try:
            return await proceed()
        finally:
            room[call.streaming] += 1

    return layer


def authenticated(authenticator: Authenticator) -> Layer:
    """Establishes `current_principal()`, or refuses."""

    async def layer(call: Call, proceed: Proceed) -> Any:
        if not call.exempt:
            call.principal, credentials = authenticator.authenticate(call.metadata)
            auth.set_caller(call.principal, credentials)
        return await proceed()

    return layer


def bounded(cap: float) -> Layer:
    """Ends a unary call after `cap` seconds or at its caller's deadline, whichever is earlier, and a streaming call at
    its caller's deadline or when its token expires (without leeway)."""

    async def layer(call: Call, proceed: Proceed) -> Any:
        if call.exempt:
            return await proceed()
        now = asyncio.get_running_loop().time()
        asked: float | None = call.context.time_remaining()
        ends = [now + asked] if asked is not None else []
        expires = call.principal.expires_at if call.streaming and call.principal is not None else None
        expiry = now + expires - time.time() if expires is not None else None
        if expiry is not None:
            ends.append(expiry)
        if not call.streaming:
            ends.append(now + cap)
        when = min(ends, default=None)
        try:
            async with asyncio.timeout_at(when) as scope:
                with deadline_at(when):
                    return await proceed()
        except TimeoutError as error:
            if not scope.expired():
                raise
            if expiry is not None and when == expiry:
                raise Unauthenticated(
                    "The token has expired; call again with another.", reason="TOKEN_EXPIRED"
                ) from error
            raise DeadlineExceeded from error

    return layer
