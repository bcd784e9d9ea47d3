"""The server helper through a real grpc.aio server on loopback, with a hand-made service behind it."""

import asyncio
import contextlib
import datetime
import ipaddress
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID
from google.protobuf.wrappers_pb2 import StringValue
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from shared.auth import Authenticator, current_principal, mint_dev_token, require_scope
from shared.channel import ChannelTls, open_channel
from shared.config import AuthSettings, ConfigError, GrpcSettings, TelemetrySettings, TlsSettings
from shared.context import current_deadline, request_id, time_left
from shared.errors import InvalidArgument, NotFound, ServiceError, Unavailable, Violation
from shared.grpc_errors import details_of
from shared.health import HealthBoard
from shared.server import ServerSpec, serve
from shared.telemetry import Telemetry

SERVICE = "palimpsest.test.v1.Probe"
SECRET = "0123456789abcdef0123456789abcdef"
DSN = "mysql://palimpsest:hunter2@db.internal:3306/memories"
ALICE = (("x-user-id", "alice"),)
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING

Work = Callable[[str], Any]


async def _said(text: str) -> str:
    return text


async def _words(text: str) -> AsyncIterator[str]:
    for word in text.split():
        yield word


@dataclass
class Probe:
    """The service under test: what its methods do is set by each test."""

    one: Work = _said
    many: Callable[[str], AsyncIterator[str]] = _words
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    started: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    release: asyncio.Event = field(default_factory=asyncio.Event)

    async def hold(self, text: str) -> str:
        """Waits to be released, and notes that it was cancelled."""
        self.started.release()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return text

    def register(self, server: grpc.aio.Server) -> None:
        async def one(request: StringValue, context: Any) -> StringValue:
            return StringValue(value=await self.one(request.value))

        async def many(request: StringValue, context: Any) -> AsyncIterator[StringValue]:
            async with contextlib.aclosing(self.many(request.value)) as texts:
                async for text in texts:
                    yield StringValue(value=text)

        async def written(request: StringValue, context: Any) -> None:
            for word in request.value.split():
                await context.write(StringValue(value=word))

        async def joined(requests: AsyncIterator[StringValue], context: Any) -> StringValue:
            return StringValue(value=" ".join([request.value async for request in requests]))

        async def chat(requests: AsyncIterator[StringValue], context: Any) -> AsyncIterator[StringValue]:
            async for request in requests:
                yield StringValue(value=request.value.upper())

        form = {"request_deserializer": StringValue.FromString, "response_serializer": StringValue.SerializeToString}
        server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler(
                    SERVICE,
                    {
                        "One": grpc.unary_unary_rpc_method_handler(one, **form),
                        "Many": grpc.unary_stream_rpc_method_handler(many, **form),
                        "Written": grpc.unary_stream_rpc_method_handler(written, **form),
                        "Joined": grpc.stream_unary_rpc_method_handler(joined, **form),
                        "Chat": grpc.stream_stream_rpc_method_handler(chat, **form),
                    },
                )
            ]
        )


@dataclass
class Client:
    """The hand-made service's stub, and health."""

    channel: grpc.aio.Channel
    metadata: tuple[tuple[str, str], ...] = ALICE

    def _form(self) -> dict[str, Any]:
        return {"request_serializer": StringValue.SerializeToString, "response_deserializer": StringValue.FromString}

    def call(self, text: str = "hello", *, method: str = "One", **options: Any) -> Any:
        stub = self.channel.unary_unary(f"/{SERVICE}/{method}", **self._form())
        return stub(StringValue(value=text), metadata=self.metadata, **options)

    async def one(self, text: str = "hello", **options: Any) -> str:
        return (await asyncio.wait_for(self.call(text, **options), 20)).value

    def stream(self, text: str, *, method: str = "Many", **options: Any) -> Any:
        stub = self.channel.unary_stream(f"/{SERVICE}/{method}", **self._form())
        return stub(StringValue(value=text), metadata=self.metadata, **options)

    async def many(self, text: str, **options: Any) -> list[str]:
        async with asyncio.timeout(20):
            return [message.value async for message in self.stream(text, **options)]

    async def health(self, service: str = "") -> int:
        stub = health_pb2_grpc.HealthStub(self.channel)
        return (await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=10)).status

    def with_metadata(self, *metadata: tuple[str, str]) -> "Client":
        return replace(self, metadata=metadata)


@dataclass
class Running:
    """A server at work."""

    client: Client
    board: HealthBoard
    address: str
    shutdown: asyncio.Event
    task: asyncio.Task[None]


@contextlib.asynccontextmanager
async def running(
    probe: Probe,
    *,
    auth: AuthSettings | None = None,
    tls: ChannelTls | None = None,
    server_tls: TlsSettings | None = None,
    **spec: Any,
) -> AsyncIterator[Running]:
    board = HealthBoard([SERVICE], ["record"])
    board.set("record", True)
    shutdown = asyncio.Event()
    bound: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
    full = ServerSpec(
        **{
            "listen": ["127.0.0.1:0"],
            "register": probe.register,
            "board": board,
            "authenticator": Authenticator(auth or AuthSettings()),
            "telemetry": Telemetry(TelemetrySettings()),
            "grpc": GrpcSettings(drain_seconds=5),
            "environ": {},
            "tls": server_tls or TlsSettings(),
            **spec,
        }
    )
    task = asyncio.create_task(serve(full, shutdown=shutdown, ready=bound.set_result))
    try:
        await asyncio.wait({task, bound}, timeout=20, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        address = bound.result()[0]
        async with open_channel(address, tls=tls) as channel:
            yield Running(Client(channel), board, address, shutdown, task)
    finally:
        shutdown.set()
        await asyncio.wait({task}, timeout=20)
        assert task.done()
        if not task.cancelled():
            task.exception()


async def failure(awaitable: Any) -> Any:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await awaitable
    return details_of(caught.value)


# The four shapes


async def test_every_shape_of_method_works_and_may_write_to_its_context():
    async with running(Probe()) as server:
        client = server.client
        assert await client.one("你好, world") == "你好, world"
        assert await client.many("a b c") == ["a", "b", "c"]
        assert await client.many("x y", method="Written") == ["x", "y"]
        form = client._form()
        joined = client.channel.stream_unary(f"/{SERVICE}/Joined", **form)
        texts = [StringValue(value="p"), StringValue(value="q")]
        assert (await joined(iter(texts), metadata=ALICE)).value == "p q"
        chat = client.channel.stream_stream(f"/{SERVICE}/Chat", **form)
        assert [m.value async for m in chat(iter(texts), metadata=ALICE)] == ["P", "Q"]


async def test_callers_do_not_see_each_other():
    probe = Probe()

    async def who(text: str) -> str:
        before = current_principal().user_id
        await asyncio.sleep(0)
        return f"{before} {current_principal().user_id}"

    probe.one = who
    async with running(probe) as server:
        names = [f"user{n}" for n in range(40)]
        answers = await asyncio.gather(*(server.client.with_metadata(("x-user-id", name)).one() for name in names))
    assert answers == [f"{name} {name}" for name in names]


# Errors


@pytest.mark.parametrize("shape", ["one", "many"])
async def test_what_is_unknown_is_internal_and_tells_nothing_but_the_request_id(shape, caplog):
    probe = Probe()

    async def fail(text: str) -> str:
        raise RuntimeError(f"cannot connect to {DSN}")

    async def fail_later(text: str) -> AsyncIterator[str]:
        yield "first"
        raise RuntimeError(f"cannot connect to {DSN}")

    probe.one, probe.many = fail, fail_later
    async with running(probe) as server:
        with caplog.at_level(logging.ERROR), pytest.raises(grpc.aio.AioRpcError) as caught:
            await getattr(server.client, shape)("x")
    error = caught.value
    details = details_of(error)
    assert details.code is grpc.StatusCode.INTERNAL
    assert (details.reason, details.domain) == ("INTERNAL", "palimpsest.dev")
    assert details.message == f"Internal error; quote request id {details.request_id}."
    everything = repr((error.details(), list(error.trailing_metadata()), list(error.initial_metadata())))
    for secret in ("hunter2", "db.internal", "RuntimeError", "connect"):
        assert secret not in everything
    logged = next(record.getMessage() for record in caplog.records if details.request_id in record.getMessage())
    assert "cannot connect to" in logged
    assert "hunter2" not in logged


async def test_a_panic_that_is_no_exception_is_internal_too():
    class Panic(BaseException):
        pass

    async def fail(text: str) -> str:
        raise Panic(DSN)

    async with running(Probe(one=fail)) as server:
        details = await failure(server.client.one())
        assert details.code is grpc.StatusCode.INTERNAL
        assert await server.client.health() == SERVING


async def test_all_violations_arrive_with_the_field_names():
    async def fail(text: str) -> str:
        raise InvalidArgument([Violation("content", "is empty"), Violation("drafts[3].类型", "must be set")])

    async with running(Probe(one=fail)) as server:
        details = await failure(server.client.one())
    assert details.code is grpc.StatusCode.INVALID_ARGUMENT
    assert details.violations == (Violation("content", "is empty"), Violation("drafts[3].类型", "must be set"))
    assert details.message == "content: is empty (and 1 more)"


async def test_more_violations_than_fit_into_a_trailer_still_arrive_as_invalid_argument():
    async def fail(text: str) -> str:
        raise InvalidArgument([Violation(f"drafts[{n}].content", "必须是 1 到 8000 个字符 " * 9) for n in range(300)])

    async with running(Probe(one=fail)) as server:
        details = await failure(server.client.one())
    assert details.code is grpc.StatusCode.INVALID_ARGUMENT
    shown = details.violations[:-1]
    assert [one.field for one in shown] == [f"drafts[{n}].content" for n in range(len(shown))]
    assert len(shown) > 5
    assert details.violations[-1] == Violation("*", f"and {300 - len(shown)} more violations")


async def test_service_errors_keep_reason_metadata_and_retry():
    errors: list[ServiceError] = [
        Unavailable(retry_after=2.5, reason="RECORD_UNAVAILABLE", metadata={"store": "record"}),
        NotFound("没有这条记忆"),
    ]

    async def fail(text: str) -> str:
        raise errors[int(text)] from ConnectionError(DSN)

    async with running(Probe(one=fail)) as server:
        unavailable = await failure(server.client.one("0"))
        missing = await failure(server.client.one("1"))
    assert unavailable.code is grpc.StatusCode.UNAVAILABLE
    assert (unavailable.reason, unavailable.metadata) == ("RECORD_UNAVAILABLE", {"store": "record"})
    assert unavailable.retry_after == 2.5
    assert (missing.code, missing.message, missing.retry_after) == (grpc.StatusCode.NOT_FOUND, "没有这条记忆", None)


async def test_the_services_own_exceptions_are_translated_first():
    class StoreAwayError(Exception):
        pass

    async def fail(text: str) -> str:
        raise ExceptionGroup("both", [StoreAwayError(DSN)])

    def translate(error: BaseException) -> ServiceError | None:
        return Unavailable(reason="STORE_AWAY") if isinstance(error, StoreAwayError) else None

    async with running(Probe(one=fail), translate=translate) as server:
        details = await failure(server.client.one())
    assert (details.code, details.reason) == (grpc.StatusCode.UNAVAILABLE, "STORE_AWAY")


async def test_the_callers_request_id_is_used_where_it_is_harmless():
    async def fail(text: str) -> str:
        raise NotFound(request_id())

    async with running(Probe(one=fail)) as server:
        kept = await failure(server.client.with_metadata(*ALICE, ("x-request-id", "req-1")).one())
        made = await failure(server.client.with_metadata(*ALICE, ("x-request-id", "two words " * 20)).one())
    assert (kept.request_id, kept.message) == ("req-1", "req-1")
    assert made.request_id == made.message
    assert len(made.request_id) == 36


async def test_bytes_that_are_no_message_and_methods_nobody_serves_have_details_too():
    async with running(Probe()) as server:
        raw = server.client.channel.unary_unary(f"/{SERVICE}/One")
        broken = await failure(raw(b"\xff\xff\xff", metadata=ALICE))
        unknown = await failure(server.client.one(method="Nothing"))
    assert (broken.code, broken.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED_REQUEST")
    assert (unknown.code, unknown.reason) == (grpc.StatusCode.UNIMPLEMENTED, "METHOD_UNKNOWN")


async def test_a_handlers_own_abort_is_left_alone():
    class Aborting(Probe):
        def register(self, server: grpc.aio.Server) -> None:
            async def one(request: StringValue, context: Any) -> StringValue:
                await context.abort(grpc.StatusCode.DATA_LOSS, "mine")

            handler = grpc.unary_unary_rpc_method_handler(one, StringValue.FromString, StringValue.SerializeToString)
            server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {"One": handler})])

    spans = InMemorySpanExporter()
    async with running(Aborting(), telemetry=Telemetry(TelemetrySettings(), span_exporter=spans)) as server:
        details = await failure(server.client.one())
    assert (details.code, details.message) == (grpc.StatusCode.DATA_LOSS, "mine")
    assert spans.get_finished_spans()[0].attributes["rpc.grpc.status_code"] == grpc.StatusCode.DATA_LOSS.value[0]


async def test_a_cancelled_inner_task_does_not_leave_the_caller_without_an_answer():
    async def fail(text: str) -> str:
        inner = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        inner.cancel()
        await inner
        return "never"

    async with running(Probe(one=fail)) as server:
        details = await failure(server.client.one())
    assert details.code is grpc.StatusCode.INTERNAL


# Admission


async def test_beyond_the_limit_calls_are_refused_at_once_and_health_still_answers():
    probe = Probe()
    probe.one = probe.hold
    async with running(probe, grpc=GrpcSettings(max_concurrent=2, drain_seconds=5)) as server:
        busy = [asyncio.create_task(server.client.one(str(n))) for n in range(2)]
        for _ in busy:
            await asyncio.wait_for(probe.started.acquire(), 10)
        details = await failure(server.client.one("third"))
        assert details.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (details.reason, details.retry_after) == ("ADMISSION_LIMIT", 0.5)
        assert await server.client.health() == SERVING
        assert await server.client.many("streams have a limit of their own") != []
        probe.release.set()
        assert await asyncio.gather(*busy) == ["0", "1"]
        assert await server.client.one("again") == "again"


async def test_open_streams_are_counted_and_a_cancelled_one_gives_its_place_back():
    probe = Probe()

    async def hold(text: str) -> AsyncIterator[str]:
        yield await probe.hold(text)

    probe.many = hold
    async with running(probe, grpc=GrpcSettings(max_streams=1, drain_seconds=5)) as server:
        call = server.client.stream("x")
        reading = asyncio.create_task(call.read())
        await asyncio.wait_for(probe.started.acquire(), 10)
        refused = await failure(server.client.many("y"))
        assert refused.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await server.client.one() == "hello"
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.wait_for(probe.cancelled.wait(), 10)
        probe.release.set()
        assert await eventually(lambda: server.client.many("y"), grpc.StatusCode.RESOURCE_EXHAUSTED) == ["y"]


async def eventually(call: Callable[[], Any], passing: grpc.StatusCode) -> Any:
    """The call's answer, repeated while it fails with a status that passes."""
    end = time.monotonic() + 10
    while True:
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            if error.code() is not passing or time.monotonic() > end:
                raise
            await asyncio.sleep(0.01)


# Authentication through the wire; the table of rules is in tests/unit/test_shared_auth.py


JWT = AuthSettings(mode="jwt", secret=SECRET)


def bearer(token: str) -> tuple[str, str]:
    return ("authorization", f"Bearer {token}")


async def test_tokens_open_the_door_and_scopes_open_the_rooms():
    probe = Probe()

    async def read(text: str) -> str:
        return require_scope("memory:read").user_id

    probe.one = read
    async with running(probe, auth=JWT) as server:
        client = server.client
        good = mint_dev_token(JWT, sub="alice", scopes=["memory:read"], ttl=60)
        poor = mint_dev_token(JWT, sub="alice", scopes=["memory:write"], ttl=60)
        assert await client.with_metadata(bearer(good)).one() == "alice"
        none = await failure(client.with_metadata().one())
        header_only = await failure(client.one())
        twice = await failure(client.with_metadata(bearer(good), bearer(good)).one())
        denied = await failure(client.with_metadata(bearer(poor)).one())
        borrowed = await failure(client.with_metadata(bearer(good), ("x-user-id", "bob")).one())
        assert await client.with_metadata().health() == SERVING
    assert (none.code, none.reason) == (grpc.StatusCode.UNAUTHENTICATED, "CREDENTIALS_MISSING")
    assert header_only.code is grpc.StatusCode.UNAUTHENTICATED
    assert (twice.code, twice.reason) == (grpc.StatusCode.UNAUTHENTICATED, "HEADER_REPEATED")
    assert (denied.code, denied.metadata) == (grpc.StatusCode.PERMISSION_DENIED, {"scope": "memory:read"})
    assert (borrowed.code, borrowed.reason) == (grpc.StatusCode.PERMISSION_DENIED, "ACT_AS_REQUIRED")


async def test_a_token_signed_with_the_public_key_as_secret_is_refused(tmp_path: Path):
    public = rsa.generate_private_key(65537, 2048).public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key.pem").write_bytes(pem)
    auth = AuthSettings(mode="jwt", public_key_file=tmp_path / "key.pem")
    claims = {"sub": "alice", "aud": "palimpsest", "exp": int(time.time()) + 60}
    forged = _hs256_with(pem, claims)
    async with running(Probe(), auth=auth) as server:
        details = await failure(server.client.with_metadata(bearer(forged)).one())
        unsigned = await failure(server.client.with_metadata(bearer(jwt.encode(claims, "", algorithm="none"))).one())
    assert (details.code, details.reason) == (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_INVALID")
    assert unsigned.code is grpc.StatusCode.UNAUTHENTICATED


def _hs256_with(key: bytes, claims: dict[str, Any]) -> str:
    """HS256 by hand: PyJWT refuses a PEM as secret."""
    import base64
    import hmac
    import json

    def part(value: Any) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    signed = part({"alg": "HS256", "typ": "JWT"}) + b"." + part(claims)
    signature = base64.urlsafe_b64encode(hmac.new(key, signed, "sha256").digest()).rstrip(b"=")
    return (signed + b"." + signature).decode()


async def test_a_stream_ends_when_its_token_expires_and_a_unary_call_does_not():
    probe = Probe()

    async def endless(text: str) -> AsyncIterator[str]:
        yield "first"
        yield await probe.hold(text)

    probe.many = endless
    async with running(probe, auth=JWT) as server:
        expires = int(time.time()) + 2
        claims = {"sub": "alice", "aud": "palimpsest", "exp": expires}
        token = jwt.encode(claims, SECRET, algorithm="HS256")
        call = server.client.with_metadata(bearer(token)).stream("x")
        assert (await call.read()).value == "first"
        details = await failure(asyncio.wait_for(call.read(), 20))
        assert time.time() >= expires - 0.1
        assert probe.cancelled.is_set()
        assert await server.client.with_metadata(bearer(token)).one("leeway") == "leeway"
    assert (details.code, details.reason) == (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_EXPIRED")


# Refusals at the start


async def refused(**spec: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        async with running(Probe(), **spec):
            pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_dev_mode_is_refused_wherever_others_could_call():
    assert "10.0.0.5:50051" in await refused(calls=["10.0.0.5:50051"])
    assert "0.0.0.0:0" in await refused(listen=["127.0.0.1:0", "0.0.0.0:0"], allow_plaintext=True)
    assert "Kubernetes" in await refused(environ={"KUBERNETES_SERVICE_HOST": "10.96.0.1"})


async def test_dev_mode_is_warned_about(caplog):
    with caplog.at_level(logging.WARNING):
        async with running(Probe()):
            pass
    assert any("dev authentication" in record.getMessage() for record in caplog.records)


async def test_plaintext_beyond_loopback_needs_to_be_allowed():
    assert "PALIMPSEST_ALLOW_PLAINTEXT" in await refused(auth=JWT, listen=["0.0.0.0:0"])
    async with running(Probe(), auth=JWT, listen=["0.0.0.0:0"], allow_plaintext=True) as server:
        assert server.address.startswith("0.0.0.0:")
        port = server.address.rpartition(":")[2]
        async with open_channel(f"127.0.0.1:{port}") as channel:
            token = mint_dev_token(JWT, sub="alice", scopes=[], ttl=60)
            assert await Client(channel, (bearer(token),)).one() == "hello"


async def test_a_port_in_use_is_named_in_one_line():
    async with running(Probe()) as server:
        assert server.address in await refused(listen=[server.address])
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        assert taken in await refused(listen=[taken])


async def test_what_is_no_address_is_named():
    for wrong in ("127.0.0.1", "127.0.0.1:http", "[::1:50051", "127.0.0.1:70000"):
        assert wrong in await refused(auth=JWT, listen=[wrong])


# Deadlines and cancellation


async def test_the_server_caps_a_call_and_says_so():
    probe = Probe()
    probe.one = probe.hold
    async with running(probe, grpc=GrpcSettings(rpc_timeout_seconds=0.2, drain_seconds=5)) as server:
        details = await failure(server.client.one())
    assert (details.code, details.reason) == (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED")
    assert probe.cancelled.is_set()


async def test_time_left_is_the_callers_deadline_or_the_cap():
    async def left(text: str) -> str:
        assert current_deadline() is not None
        return str(time_left())

    async with running(Probe(one=left), grpc=GrpcSettings(rpc_timeout_seconds=100, drain_seconds=5)) as server:
        assert 95 < float(await server.client.one()) <= 100
        assert 25 < float(await server.client.one(timeout=30)) < 31  # on the wire, gRPC rounds up


async def test_a_timeout_of_something_inside_is_not_the_calls_deadline():
    async def fail(text: str) -> str:
        raise TimeoutError("a store's own")

    async with running(Probe(one=fail)) as server:
        assert (await failure(server.client.one())).code is grpc.StatusCode.INTERNAL


@pytest.mark.parametrize("shape", ["unary", "stream"])
async def test_a_cancelled_call_stops_the_handler(shape):
    probe = Probe()
    probe.one = probe.hold
    closed = asyncio.Event()

    async def endless(text: str) -> AsyncIterator[str]:
        try:
            yield await probe.hold(text)
        finally:
            closed.set()

    probe.many = endless
    async with running(probe) as server:
        call = server.client.call() if shape == "unary" else server.client.stream("x")
        waiting = asyncio.create_task(call.read()) if shape == "stream" else asyncio.ensure_future(_answer(call))
        await asyncio.wait_for(probe.started.acquire(), 10)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.wait_for(probe.cancelled.wait(), 10)
        if shape == "stream":
            await asyncio.wait_for(closed.wait(), 10)


async def _answer(call: Any) -> Any:
    return await call


# Health, drain


async def test_health_follows_the_components_and_liveness_does_not():
    async with running(Probe()) as server:
        names = ("", SERVICE, "grpc.health.v1.Health")
        assert [await server.client.health(name) for name in names] == [SERVING] * 3
        server.board.set("record", False, "away")
        assert [await server.client.health(name) for name in names] == [NOT_SERVING] * 3
        assert await server.client.health("liveness") == SERVING
        assert await server.client.one() == "hello"
        server.board.set("record", True)
        assert await server.client.health() == SERVING
        unknown = await failure(server.client.health("palimpsest.nothing"))
        listed = await health_pb2_grpc.HealthStub(server.client.channel).List(health_pb2.HealthListRequest())
    assert (unknown.code, unknown.reason) == (grpc.StatusCode.NOT_FOUND, "SERVICE_UNKNOWN")
    assert {name: response.status for name, response in listed.statuses.items()} == dict.fromkeys(
        ("", "liveness", "grpc.health.v1.Health", SERVICE), SERVING
    )


async def test_watching_health_shows_changes_and_ends_with_the_server():
    async with running(Probe()) as server:
        stub = health_pb2_grpc.HealthStub(server.client.channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest(service=SERVICE), timeout=20)
        assert (await watch.read()).status == SERVING
        server.board.set("record", False, "away")
        assert (await watch.read()).status == NOT_SERVING
        server.board.set("record", True)
        assert (await watch.read()).status == SERVING
        began = time.monotonic()
        server.shutdown.set()
        assert (await watch.read()).status == NOT_SERVING
        assert await watch.read() is grpc.aio.EOF
        await asyncio.wait_for(server.task, 20)
        assert time.monotonic() - began < 4, "a watcher held up the drain"


async def test_draining_lets_calls_finish_and_takes_no_new_ones():
    probe = Probe()
    probe.one = probe.hold
    async with running(probe) as server:
        running_call = asyncio.create_task(server.client.one("kept"))
        await asyncio.wait_for(probe.started.acquire(), 10)
        assert await server.client.health() == SERVING
        server.shutdown.set()
        await asyncio.wait_for(server.board.closing.wait(), 10)
        late = await failure(server.client.one("late"))
        assert (late.code, late.reason) == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")
        assert await server.client.health() == NOT_SERVING
        assert not server.task.done()
        probe.release.set()
        assert await asyncio.wait_for(running_call, 10) == "kept"
        await asyncio.wait_for(server.task, 10)


async def test_callers_at_work_while_the_server_stops_are_told_to_go_elsewhere():
    async with running(Probe()) as server:
        stopped: set[grpc.StatusCode] = set()

        async def work() -> None:
            while True:
                try:
                    await server.client.one()
                except grpc.aio.AioRpcError as error:
                    stopped.add(error.code())
                    return

        callers = [asyncio.create_task(work()) for _ in range(16)]
        for _ in range(20):
            await server.client.one()
        server.shutdown.set()
        await asyncio.wait_for(asyncio.gather(*callers), 20)
        assert stopped == {grpc.StatusCode.UNAVAILABLE}
        async with open_channel(server.address) as channel:
            await asyncio.wait_for(server.task, 20)
            assert (await failure(Client(channel).one(timeout=5))).code is grpc.StatusCode.UNAVAILABLE


async def test_what_does_not_finish_in_time_is_cut_off():
    probe = Probe()
    probe.one = probe.hold
    async with running(probe, grpc=GrpcSettings(drain_seconds=0.2)) as server:
        running_call = asyncio.create_task(server.client.one("cut"))
        await asyncio.wait_for(probe.started.acquire(), 10)
        server.shutdown.set()
        await asyncio.wait_for(server.task, 10)
        with pytest.raises((grpc.aio.AioRpcError, asyncio.CancelledError)):
            await running_call
        await asyncio.wait_for(probe.cancelled.wait(), 10)


async def test_cancelling_serve_drains_as_well():
    probe = Probe()
    probe.one = probe.hold
    async with running(probe) as server:
        running_call = asyncio.create_task(server.client.one("kept"))
        await asyncio.wait_for(probe.started.acquire(), 10)
        server.task.cancel()
        await asyncio.wait_for(server.board.closing.wait(), 10)
        probe.release.set()
        assert await asyncio.wait_for(running_call, 10) == "kept"
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(server.task, 10)


# Reflection


async def services_by_reflection(channel: grpc.aio.Channel) -> list[str]:
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    async for answer in stub.ServerReflectionInfo(iter([request]), timeout=10):
        return [service.name for service in answer.list_services_response.service]
    return []


async def test_reflection_is_on_by_default_only_where_every_listener_is_loopback():
    async with running(Probe()) as server:
        names = await services_by_reflection(server.client.channel)
        assert {SERVICE, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"} == set(names)
    async with running(Probe(), grpc=GrpcSettings(reflection="off", drain_seconds=5)) as server:
        assert (await failure(services_by_reflection(server.client.channel))).code is grpc.StatusCode.UNIMPLEMENTED
    wide: dict[str, Any] = {"auth": JWT, "listen": ["127.0.0.1:0", "0.0.0.0:0"], "allow_plaintext": True}
    async with running(Probe(), **wide) as server:
        assert (await failure(services_by_reflection(server.client.channel))).code is grpc.StatusCode.UNIMPLEMENTED
    async with running(Probe(), **wide, grpc=GrpcSettings(reflection="on", drain_seconds=5)) as server:
        assert SERVICE in await services_by_reflection(server.client.channel)


# TLS


@dataclass
class Authority:
    """A certificate authority that lives as long as a test."""

    name: str = "test authority"
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def __post_init__(self) -> None:
        self.cert = self._signed(self.name, self.key.public_key(), authority=True)

    def _signed(self, name: str, public: ec.EllipticCurvePublicKey, *, authority: bool) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)]))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName(
                    [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
                ),
                critical=False,
            )
            .sign(self.key, hashes.SHA256())
        )

    @property
    def pem(self) -> bytes:
        return self.cert.public_bytes(Encoding.PEM)

    def issue(self, name: str) -> tuple[bytes, bytes]:
        """Certificate and key, PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        cert = self._signed(name, key.public_key(), authority=False)
        return cert.public_bytes(Encoding.PEM), key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write_pair(folder: Path, authority: Authority, name: str) -> TlsSettings:
    cert, key = authority.issue(name)
    (folder / "tls.crt").write_bytes(cert)
    (folder / "tls.key").write_bytes(key)
    return TlsSettings(cert_file=folder / "tls.crt", key_file=folder / "tls.key")


async def test_tls_serves_those_who_trust_it_and_nobody_in_plaintext(tmp_path: Path):
    authority = Authority()
    settings = write_pair(tmp_path, authority, "server")
    async with running(Probe(), tls=ChannelTls(authority.pem), server_tls=settings) as server:
        assert await server.client.one("over tls") == "over tls"
        async with open_channel(server.address) as plain:
            assert (await failure(Client(plain).one(timeout=5))).code is grpc.StatusCode.UNAVAILABLE
        async with open_channel(server.address, tls=ChannelTls(Authority("other").pem)) as distrusting:
            assert (await failure(Client(distrusting).one(timeout=5))).code is grpc.StatusCode.UNAVAILABLE


async def test_mutual_tls_wants_a_certificate_of_its_authority(tmp_path: Path):
    authority, clients = Authority(), Authority("clients")
    (tmp_path / "ca.crt").write_bytes(clients.pem)
    settings = write_pair(tmp_path, authority, "server").model_copy(update={"client_ca_file": tmp_path / "ca.crt"})
    cert, key = clients.issue("caller")
    async with running(Probe(), tls=ChannelTls(authority.pem, cert, key), server_tls=settings) as server:
        assert await server.client.one("both") == "both"
        async with open_channel(server.address, tls=ChannelTls(authority.pem)) as nobody:
            assert (await failure(Client(nobody).one(timeout=5))).code is grpc.StatusCode.UNAVAILABLE
        forged_cert, forged_key = Authority("clients").issue("caller")
        tls = ChannelTls(authority.pem, forged_cert, forged_key)
        async with open_channel(server.address, tls=tls) as forged:
            assert (await failure(Client(forged).one(timeout=5))).code is grpc.StatusCode.UNAVAILABLE


async def test_renewed_certificates_are_used_without_a_restart_and_broken_ones_are_not(tmp_path: Path):
    old, new = Authority("old"), Authority("new")
    settings = write_pair(tmp_path, old, "server")
    async with running(Probe(), tls=ChannelTls(old.pem), server_tls=settings) as server:
        assert await server.client.one() == "hello"
        (tmp_path / "tls.crt").write_bytes(b"half a renewal")
        async with open_channel(server.address, tls=ChannelTls(old.pem)) as channel:
            assert await Client(channel).one() == "hello"
        write_pair(tmp_path, new, "server")
        async with open_channel(server.address, tls=ChannelTls(new.pem)) as channel:
            assert await Client(channel).one() == "hello"
        async with open_channel(server.address, tls=ChannelTls(old.pem)) as channel:
            assert (await failure(Client(channel).one(timeout=5))).code is grpc.StatusCode.UNAVAILABLE
        assert await server.client.one("old connections live on") == "old connections live on"


async def test_certificates_that_cannot_be_used_stop_the_start(tmp_path: Path):
    authority = Authority()
    settings = write_pair(tmp_path, authority, "server")
    (tmp_path / "tls.key").write_bytes(authority.issue("other")[1])
    assert "not the key of the" in await refused(server_tls=settings)
    (tmp_path / "tls.key").unlink()
    assert "tls.key" in await refused(server_tls=settings)


# Sizes


async def test_messages_of_the_agreed_size_pass_both_ways_and_larger_ones_do_not():
    big = "x" * (5 * 1024 * 1024)
    wide = GrpcSettings(max_message_mib=6, drain_seconds=5)
    async with running(Probe(), grpc=wide) as server, open_channel(server.address, max_message_mib=6) as channel:
        assert len(await Client(channel).one(big)) == len(big)
    async with running(Probe()) as server, open_channel(server.address, max_message_mib=6) as channel:
        assert (await failure(Client(channel).one(big))).code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await Client(channel).one("still there") == "still there"


# Telemetry and passing on


async def test_spans_and_metrics_say_what_happened_and_hold_no_text():
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    telemetry = Telemetry(TelemetrySettings(), hash_key=b"k" * 32, span_exporter=spans, metric_reader=reader)

    async def work(text: str) -> str:
        with telemetry.store_span("record.load", rows=3):
            if text == "fail":
                raise RuntimeError("用户的秘密")
        return text

    trace_parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with running(Probe(one=work), telemetry=telemetry) as server:
        client = server.client.with_metadata(*ALICE, ("traceparent", trace_parent))
        await client.one("我喜欢茶")
        await failure(client.one("fail"))
        await client.health()
    finished = spans.get_finished_spans()
    assert [span.name for span in finished] == ["record.load", f"{SERVICE}/One"] * 2
    store, good, _, bad = finished
    assert good.kind is SpanKind.SERVER
    assert dict(good.attributes) | {"palimpsest.request_id": ""} == {
        "rpc.system": "grpc",
        "rpc.service": SERVICE,
        "rpc.method": "One",
        "rpc.grpc.status_code": 0,
        "palimpsest.user": telemetry.hash_user("alice"),
        "palimpsest.request_id": "",
    }
    assert good.context.trace_id == 0x0AF7651916CD43DD8448EB211C80319C
    assert good.parent.span_id == 0xB7AD6B7169203331
    assert (store.parent.span_id, dict(store.attributes)) == (good.context.span_id, {"rows": 3})
    assert bad.attributes["rpc.grpc.status_code"] == grpc.StatusCode.INTERNAL.value[0]
    assert bad.status.status_code is StatusCode.ERROR
    assert "秘密" not in "".join(span.to_json(indent=None) + str(span.events) for span in finished)
    assert "alice" not in "".join(span.to_json(indent=None) for span in finished)
    metrics = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    points = next(metric for metric in metrics if metric.name == "rpc.server.duration").data.data_points
    assert sorted((p.attributes["rpc.grpc.status_code"], p.count) for p in points) == [(0, 1), (13, 1)]


async def test_a_call_made_for_a_caller_carries_credentials_trace_request_id_and_deadline():
    spans = InMemorySpanExporter()
    telemetry = Telemetry(TelemetrySettings(), span_exporter=spans)
    seen: dict[str, Any] = {}

    async def inner(text: str) -> str:
        seen.update(user=current_principal(), request=request_id(), left=time_left())
        return text

    async with (
        running(Probe(one=inner), auth=JWT, telemetry=telemetry) as behind,
        open_channel(behind.address, carry_caller=True) as onward,
    ):

        async def outer(text: str) -> str:
            return await Client(onward, metadata=()).one(text)

        async with running(Probe(one=outer), auth=JWT, telemetry=telemetry) as front:
            token = mint_dev_token(JWT, sub="backend", scopes=["act_as", "memory:read"], ttl=60)
            metadata = (bearer(token), ("x-user-id", "alice"), ("x-request-id", "one-id"))
            assert await front.client.with_metadata(*metadata).one("through", timeout=9) == "through"
    assert (seen["user"].user_id, seen["user"].subject) == ("alice", "backend")
    assert seen["request"] == "one-id"
    assert 0 < seen["left"] <= 9
    first, second = spans.get_finished_spans()
    assert first.context.trace_id == second.context.trace_id


async def test_cancelling_a_call_cancels_the_call_it_made():
    probe = Probe()
    probe.one = probe.hold
    async with running(probe) as behind, open_channel(behind.address, carry_caller=True) as onward:

        async def outer(text: str) -> str:
            return await Client(onward, metadata=()).one(text)

        async with running(Probe(one=outer)) as front:
            call = front.client.call()
            waiting = asyncio.ensure_future(_answer(call))
            await asyncio.wait_for(probe.started.acquire(), 10)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await asyncio.wait_for(probe.cancelled.wait(), 10)
