"""Telemetry by itself: nothing leaves unasked, and text never does."""

import grpc
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from shared.config import TelemetrySettings
from shared.telemetry import Telemetry, outgoing_trace, trace_id


async def test_without_an_endpoint_spans_cost_nothing_and_go_nowhere(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    telemetry = Telemetry(TelemetrySettings())
    with telemetry.store_span("record.load", rows=1) as span:
        assert not span.is_recording()
        assert outgoing_trace() == {}
        assert trace_id() == ""
    await telemetry.close()


def test_a_callers_trace_is_passed_on_even_then():
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with Telemetry(TelemetrySettings()).server_span("s", "m", {"traceparent": parent}):
        assert outgoing_trace()["traceparent"] == parent
        assert trace_id() == "0af7651916cd43dd8448eb211c80319c"


def test_a_failing_store_shows_its_class_and_not_its_words():
    spans = InMemorySpanExporter()
    telemetry = Telemetry(TelemetrySettings(service_name="memory-service"), span_exporter=spans)
    with pytest.raises(ValueError, match="我的秘密"), telemetry.store_span("index.search", limit=5):
        raise ValueError("我的秘密")
    (span,) = spans.get_finished_spans()
    assert span.attributes == {"limit": 5, "error.type": "ValueError"}
    assert span.status.status_code is StatusCode.ERROR
    assert not span.status.description
    assert span.events == ()
    assert span.resource.attributes["service.name"] == "memory-service"


def test_the_hash_of_a_user_depends_on_the_key_only():
    one, same, other = (Telemetry(TelemetrySettings(), hash_key=key) for key in (b"k" * 32, b"k" * 32, b"o" * 32))
    assert one.hash_user("alice") == same.hash_user("alice")
    assert one.hash_user("alice") != other.hash_user("alice")
    assert one.hash_user("alice") != one.hash_user("Alice")


async def test_with_an_endpoint_spans_and_metrics_are_sent_there():
    received: dict[str, bytes] = {}

    class Collector(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            async def export(request: bytes, context: object) -> bytes:
                received[details.method.split(".")[-1]] = request
                return b""

            return grpc.unary_unary_rpc_method_handler(export)

    collector = grpc.aio.server()
    collector.add_generic_rpc_handlers([Collector()])
    port = collector.add_insecure_port("127.0.0.1:0")
    await collector.start()
    telemetry = Telemetry(TelemetrySettings(otlp_endpoint=f"http://127.0.0.1:{port}"))
    with telemetry.server_span("palimpsest.memory.v1.MemoryService", "SaveMemory", {}) as call:
        call.user_id = "alice"
    await telemetry.close()
    await collector.stop(None)
    assert b"MemoryService/SaveMemory" in received["TraceService/Export"]
    assert b"rpc.server.duration" in received["MetricsService/Export"]
    assert b"alice" not in b"".join(received.values())
