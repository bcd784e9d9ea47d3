"""Traces and metrics: set-up, the server's span of a call, spans around stores, what a call to a server carries.

Nothing leaves the process unless an OTLP endpoint is set. Spans hold ids, sizes, codes and a keyed hash of the user id,
never text: exceptions are recorded by the name of their class only. There is no global provider; who measures is handed
a `Telemetry`.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.metrics import Meter, NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.trace import NoOpTracerProvider, Span, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from shared.config import TelemetrySettings

Scalar = str | int | float | bool
_SCOPE = "palimpsest"
_propagator = TraceContextTextMapPropagator()
# Codes that are the server's fault, after the semantic conventions for gRPC servers.
_SERVER_FAULTS = frozenset({"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})


class Telemetry:
    """Tracer and meter of one server. `span_exporter` and `metric_reader` are for tests; they see things at once.

    `hash_key` (16 to 64 bytes) makes the hash of a user id the same in all replicas; unset: random for this process.
    """

    def __init__(
        self,
        settings: TelemetrySettings,
        *,
        hash_key: bytes | None = None,
        span_exporter: SpanExporter | None = None,
        metric_reader: MetricReader | None = None,
    ) -> None:
        self._hash_key = hash_key or secrets.token_bytes(32)
        resource = Resource.create({"service.name": settings.service_name})
        self._traces: TracerProvider | None = None
        self._metrics: MeterProvider | None = None
        if span_exporter is not None:
            self._traces = TracerProvider(resource=resource, shutdown_on_exit=False)
            self._traces.add_span_processor(SimpleSpanProcessor(span_exporter))
        elif settings.otlp_endpoint is not None:
            self._traces = TracerProvider(resource=resource, shutdown_on_exit=False)
            self._traces.add_span_processor(BatchSpanProcessor(_otlp_spans(settings.otlp_endpoint)))
        if metric_reader is None and settings.otlp_endpoint is not None:
            metric_reader = _otlp_metrics(settings.otlp_endpoint)
        if metric_reader is not None:
            self._metrics = MeterProvider([metric_reader], resource=resource, shutdown_on_exit=False)
        self.tracer: Tracer = (self._traces or NoOpTracerProvider()).get_tracer(_SCOPE)
        self.meter: Meter = (self._metrics or NoOpMeterProvider()).get_meter(_SCOPE)
        self._calls = self.meter.create_histogram(
            "rpc.server.duration", unit="s", description="Time of calls, by method and status."
        )

    @property
    def enabled(self) -> bool:
        """Whether anything is measured at all."""
        return self._traces is not None or self._metrics is not None

    def hash_user(self, user_id: str) -> str:
        """A keyed hash of the user id, 16 hex digits: the same user, and no way back without the key."""
        return hashlib.blake2b(user_id.encode("utf-8", "surrogatepass"), key=self._hash_key, digest_size=8).hexdigest()

    @contextmanager
    def store_span(self, name: str, **attributes: Scalar) -> Iterator[Span]:
        """A span around one call of a store or model, such as `record.load`. Attributes: sizes and ids, never text."""
        with self._span(name, SpanKind.CLIENT, attributes) as span:
            yield span

    @contextmanager
    def server_span(self, service: str, method: str, headers: Mapping[str, str]) -> Iterator["CallSpan"]:
        """The span of a call served, a child of the caller's `traceparent`; its time goes to the meter too."""
        call = CallSpan()
        started = time.perf_counter()
        attributes: dict[str, Scalar] = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}
        parent = _propagator.extract(headers) if "traceparent" in headers else Context()
        token = otel_context.attach(parent)
        try:
            with self._span(f"{service}/{method}", SpanKind.SERVER, attributes) as span:
                try:
                    yield call
                finally:
                    span.set_attribute("rpc.grpc.status_code", call.number)
                    if call.user_id:
                        span.set_attribute("palimpsest.user", self.hash_user(call.user_id))
                    if call.request_id:
                        span.set_attribute("palimpsest.request_id", call.request_id)
                    if call.code in _SERVER_FAULTS:
                        span.set_status(StatusCode.ERROR)
        finally:
            otel_context.detach(token)
            attributes["rpc.grpc.status_code"] = call.number
            self._calls.record(time.perf_counter() - started, attributes)

    @contextmanager
    def _span(self, name: str, kind: SpanKind, attributes: Mapping[str, Scalar]) -> Iterator[Span]:
        with self.tracer.start_as_current_span(
            name, kind=kind, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)
                if kind is SpanKind.CLIENT:
                    span.set_status(StatusCode.ERROR)
                raise

    async def close(self) -> None:
        """Sends what is left, off the loop. At most some seconds, also when the collector is away."""
        for provider in (self._traces, self._metrics):
            if provider is not None:
                await asyncio.to_thread(provider.shutdown)


class CallSpan:
    """What is known of a served call only at its end."""

    __slots__ = ("code", "number", "request_id", "user_id")

    def __init__(self) -> None:
        self.code = "OK"
        self.number = 0
        self.user_id = ""
        self.request_id = ""


def outgoing_trace() -> dict[str, str]:
    """`traceparent` and `tracestate` of the current span, for a call to another server; empty without one."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    return carrier


def trace_id() -> str:
    """Trace id of the current span, 32 hex digits; empty without one."""
    found = trace.get_current_span().get_span_context()
    return f"{found.trace_id:032x}" if found.is_valid else ""


def _otlp_spans(endpoint: str) -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint=endpoint, insecure=endpoint.startswith("http://"), timeout=5)


def _otlp_metrics(endpoint: str) -> MetricReader:
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter

    exporter = OTLPMetricExporter(endpoint=endpoint, insecure=endpoint.startswith("http://"), timeout=5)
    return PeriodicExportingMetricReader(exporter)
