"""The one server interceptor: it turns the four shapes of a gRPC handler into one, and passes each call through layers.

A layer is `async def layer(call, proceed)`, around everything inside it: it may refuse, bound or measure the call. What
the layers are is `layers`' business, in which order they stand is `server`'s.

Requests are parsed and answers serialized innermost, inside the layers: an unauthenticated caller costs no parsing, and
what cannot be parsed is answered like any other bad request.
"""

import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from shared.auth import Principal
from shared.context import set_request_id
from shared.errors import InvalidArgument, Unimplemented, Violation
from shared.grpc_errors import REQUEST_ID_KEY
from shared.health import HEALTH_SERVICE

_GIVEN_ID = re.compile(r"[A-Za-z0-9._:\-]{1,64}")
_UNKNOWN = "_OTHER"

Proceed = Callable[[], Awaitable[Any]]
Layer = Callable[["Call", Proceed], Awaitable[Any]]


class Call:
    """One call in progress, as the layers see it."""

    __slots__ = ("code", "context", "exempt", "metadata", "method", "principal", "request_id", "service", "streaming")

    def __init__(self, method: str, streaming: bool, context: Any) -> None:
        self.service, _, self.method = method.lstrip("/").rpartition("/")
        self.streaming = streaming
        """Whether it streams in either direction: then how long it takes is not up to the server alone."""
        self.context = context
        self.exempt = self.service in (HEALTH_SERVICE, _UNKNOWN) or self.service.startswith("grpc.reflection.")
        """Health and reflection, always let through, without credentials; and what nobody serves, because clients of
        reflection take UNIMPLEMENTED, and only that, as the sign to try its older version."""
        self.metadata: tuple[tuple[str, str | bytes], ...] = tuple(context.invocation_metadata() or ())
        self.principal: Principal | None = None
        self.code = grpc.StatusCode.OK
        self.request_id = _given_id(self.metadata) or str(uuid.uuid4())
        set_request_id(self.request_id)

    @property
    def name(self) -> str:
        """`service/method`."""
        return f"{self.service}/{self.method}"


def _given_id(metadata: tuple[tuple[str, str | bytes], ...]) -> str | None:
    """The caller's own request id, where it is harmless in a log."""
    for key, value in metadata:
        if key == REQUEST_ID_KEY and isinstance(value, str) and _GIVEN_ID.fullmatch(value):
            return value
    return None


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Runs every call through the layers, the first outermost."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._layers = tuple(reversed(layers))
        self._wrapped: dict[str, tuple[Any, Any]] = {}
        self._unknown = self._wrap(f"/{_UNKNOWN}/{_UNKNOWN}", grpc.stream_stream_rpc_method_handler(_no_such_method))

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """The handler, wrapped; methods nobody serves are answered through the layers as well."""
        inner = await continuation(handler_call_details)
        if inner is None:
            return self._unknown
        method = handler_call_details.method
        known = self._wrapped.get(method)
        if known is None or known[0] is not inner:
            known = self._wrapped[method] = (inner, self._wrap(method, inner))
        return known[1]

    async def _through(self, call: Call, work: Proceed) -> Any:
        step = work
        for layer in self._layers:
            step = partial(layer, call, step)
        return await step()

    def _wrap(self, method: str, inner: Any) -> Any:
        streams_in, streams_out = inner.request_streaming, inner.response_streaming
        behaviour = inner.unary_unary or inner.unary_stream or inner.stream_unary or inner.stream_stream
        parse = _parser(inner.request_deserializer)
        serialize = inner.response_serializer or _identity

        def given(request: Any) -> Any:
            return _parsed(request, parse) if streams_in else parse(request)

        async def answer_one(request: Any, context: Any) -> Any:
            async def work() -> Any:
                return serialize(await behaviour(given(request), context))

            return await self._through(Call(method, streams_in, context), work)

        async def answer_many(request: Any, context: Any) -> None:
            async def work() -> None:
                produced = behaviour(given(request), context)
                if not hasattr(produced, "__aiter__"):
                    await produced  # it writes to the context by itself
                    return
                # Closed here, in the call's own task, so that a handler's clean-up runs before the call is over.
                async with aclosing(produced) as messages:
                    async for message in messages:
                        await context.write(message)

            await self._through(Call(method, True, context), work)

        if streams_out:
            make = grpc.stream_stream_rpc_method_handler if streams_in else grpc.unary_stream_rpc_method_handler
            return make(answer_many, request_deserializer=None, response_serializer=inner.response_serializer)
        make = grpc.stream_unary_rpc_method_handler if streams_in else grpc.unary_unary_rpc_method_handler
        return make(answer_one, request_deserializer=None, response_serializer=None)


async def _no_such_method(request_iterator: Any, context: Any) -> None:
    raise Unimplemented


def _identity(value: Any) -> Any:
    return value


def _parser(deserialize: Any) -> Callable[[Any], Any]:
    if deserialize is None:
        return _identity

    def parse(raw: Any) -> Any:
        try:
            return deserialize(raw)
        except (DecodeError, ValueError) as error:
            raise InvalidArgument(
                [Violation("*", "is not a message of this method")], reason="MALFORMED_REQUEST"
            ) from error

    return parse


async def _parsed(requests: Any, parse: Callable[[Any], Any]) -> AsyncIterator[Any]:
    async for raw in requests:
        yield parse(raw)
