"""Lookups: memories of the caller and of nobody else, and a prompt all the same when MemoryService is not there."""

import time
from collections.abc import Iterator, Sequence
from concurrent import futures
from typing import Any

import grpc
import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import SecretStr

from assembler_service.main import serve as serve_assembler
from assembler_service.settings import AssemblerSettings
from memory_service.main import serve as serve_memory
from memory_service.settings import MemorySettings
from shared.auth import mint_dev_token
from shared.channel import open_channel
from shared.config import AuthSettings, TelemetrySettings
from shared.gen.palimpsest.assembler.v1 import prompt_assembler_pb2 as pb
from shared.gen.palimpsest.assembler.v1 import prompt_assembler_pb2_grpc as pb_grpc
from shared.gen.palimpsest.assembler.v1 import prompt_pb2 as p
from shared.gen.palimpsest.assembler.v1 import report_pb2 as r
from shared.gen.palimpsest.memory.v1 import memory_pb2 as m
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as mpb
from shared.gen.palimpsest.memory.v1 import memory_service_pb2_grpc as mpb_grpc
from shared.telemetry import Telemetry
from tests.acceptance.assembler import AssemblerProcess, Prompter, block, full, in_this_process
from tests.service import Client, ServiceProcess, refused

SECRET = "a secret of at least thirty-two bytes"
JWT = {"PALIMPSEST_AUTH__MODE": "jwt", "PALIMPSEST_AUTH__SECRET": SECRET}
ASKS = "我的数据库是什么？"
LOOKUP = p.Lookup()


def token(user: str, *scopes: str, **claims: Any) -> tuple[tuple[str, str], ...]:
    """Headers of a user with these scopes."""
    settings = AuthSettings(mode="jwt", secret=SecretStr(SECRET))
    minted = mint_dev_token(settings, sub=user, scopes=scopes, ttl=600, **claims)
    return (("authorization", f"Bearer {minted}"),)


def remembered(address: str, headers: tuple[tuple[str, str], ...], *statements: str, **fields: Any) -> None:
    """Saves statements for a user."""
    client = Client(address, headers=headers)
    for statement in statements:
        client.SaveMemory(mpb.SaveMemoryRequest(**{"type": m.MEMORY_TYPE_FACT, "content": statement, **fields}))
    client.close()


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[ServiceProcess, AssemblerProcess]]:
    """Both services, with signed tokens."""
    with (
        ServiceProcess(JWT) as memory,
        AssemblerProcess({**JWT, "PALIMPSEST_ASSEMBLER_MEMORY_TARGET": memory.address}) as assembler,
    ):
        yield memory, assembler


def lookups(answer: pb.AssemblePromptResponse) -> dict[str, int]:
    return {one.name: one.status for one in answer.report.lookups}


def test_a_lookup_finds_the_callers_memories_and_no_others(pair: tuple[ServiceProcess, AssemblerProcess]) -> None:
    memory, assembler = pair
    alice, bob = token("alice", "memory:read", "memory:write"), token("bob", "memory:read", "memory:write")
    remembered(memory.address, alice, "我的数据库是 MySQL 8", "我喜欢喝咖啡")
    remembered(memory.address, bob, "我的数据库是 Oracle")
    prompter = Prompter(assembler.address, headers=alice)
    answer = prompter.prompt(ASKS, lookup=LOOKUP)
    assert lookups(answer) == {"memories": r.LOOKUP_STATUS_OK}
    assert not answer.report.degraded
    assert "MySQL 8" in answer.messages[0].content
    assert "Oracle" not in answer.text
    assert answer.report.lookups[0].items == len([i for i in answer.report.items if i.block == r.BLOCK_MEMORIES])
    prompter.close()


def test_a_backend_acts_for_its_user(pair: tuple[ServiceProcess, AssemblerProcess]) -> None:
    memory, assembler = pair
    remembered(memory.address, token("carol", "memory:write"), "我的数据库是 PostgreSQL 16")
    backend = (*token("backend", "act_as", "memory:read"), ("x-user-id", "carol"))
    prompter = Prompter(assembler.address, headers=backend)
    assert "PostgreSQL 16" in prompter.prompt(ASKS, lookup=LOOKUP).text
    prompter.close()
    no_backend = Prompter(assembler.address, headers=(*token("dave", "memory:read"), ("x-user-id", "carol")))
    with refused(grpc.StatusCode.PERMISSION_DENIED) as refusal:
        no_backend.prompt(ASKS, lookup=LOOKUP)
    assert refusal.details.reason == "ACT_AS_REQUIRED"
    no_backend.close()


def test_types_and_shards_narrow_a_lookup(pair: tuple[ServiceProcess, AssemblerProcess]) -> None:
    memory, assembler = pair
    erin = token("erin", "memory:read", "memory:write")
    remembered(memory.address, erin, "我的数据库是 SQLite")
    remembered(memory.address, erin, "我偏好的数据库是 Redis", type=m.MEMORY_TYPE_PREFERENCE)
    remembered(memory.address, erin, "数据库订单 778 已付款", shard=m.MEMORY_SHARD_TRANSACTION)
    prompter = Prompter(assembler.address, headers=erin)
    by_type = prompter.prompt(ASKS, lookup=p.Lookup(types=[m.MEMORY_TYPE_PREFERENCE])).text
    assert "Redis" in by_type
    assert "SQLite" not in by_type
    by_shard = prompter.prompt("数据库订单？", lookup=p.Lookup(shards=[m.MEMORY_SHARD_TRANSACTION])).text
    assert "778" in by_shard
    assert "SQLite" not in by_shard
    assert prompter.prompt(ASKS, lookup=p.Lookup(recall_top_k=1)).report.lookups[0].items == 1
    prompter.close()
    limited = Prompter(assembler.address, headers=token("erin", "memory:read", shards=["TRANSACTION"]))
    assert "SQLite" not in limited.prompt(ASKS, lookup=LOOKUP).text
    limited.close()


def test_a_right_that_is_missing_leaves_the_block_out(pair: tuple[ServiceProcess, AssemblerProcess]) -> None:
    _, assembler = pair
    prompter = Prompter(assembler.address, headers=token("frank"))
    answer = prompter.prompt(ASKS, lookup=LOOKUP)
    assert lookups(answer) == {"memories": r.LOOKUP_STATUS_DENIED}
    assert answer.report.degraded
    prompter.close()


@pytest.mark.parametrize("question", ["数据库" * 4_000 + "是什么？", "数据库\x00\x07是什么\ufffe？", "？？？"])
def test_no_question_makes_a_lookup_fail(pair: tuple[ServiceProcess, AssemblerProcess], question: str) -> None:
    _, assembler = pair
    prompter = Prompter(assembler.address, headers=token("alice", "memory:read"))
    answer = prompter.prompt(question, lookup=LOOKUP, options={"total_max_tokens": 50_000})
    assert lookups(answer) == {"memories": r.LOOKUP_STATUS_OK}
    prompter.close()


def test_what_this_version_does_not_serve_is_said(pair: tuple[ServiceProcess, AssemblerProcess]) -> None:
    _, assembler = pair
    prompter = Prompter(assembler.address, headers=token("alice", "memory:read"))
    answer = prompter.prompt(ASKS, lookup=p.Lookup(profile=True), user_profile="城市：杭州")
    assert lookups(answer) == {"memories": r.LOOKUP_STATUS_OK, "profile": r.LOOKUP_STATUS_UNSUPPORTED}
    assert answer.report.degraded
    assert "杭州" in answer.text
    prompter.close()


def test_a_conversation_and_a_lookup_go_together(pair: tuple[ServiceProcess, AssemblerProcess]) -> None:
    memory, assembler = pair
    grace = token("grace", "memory:read", "memory:write")
    remembered(memory.address, grace, "下一步应该先做数据库备份")
    given = full()
    del given["memories"]
    prompter = Prompter(assembler.address, headers=grace)
    answer = prompter.prompt(**given, lookup=LOOKUP)
    assert "下一步应该先做数据库备份" in answer.messages[0].content
    assert block(answer, r.BLOCK_HISTORY).kept_tokens > 0
    prompter.close()


def test_a_deployment_without_a_memory_service_says_so() -> None:
    with AssemblerProcess({}) as assembler:
        prompter = Prompter(assembler.address)
        answer = prompter.prompt(ASKS, lookup=LOOKUP)
        assert lookups(answer) == {"memories": r.LOOKUP_STATUS_ERROR}
        assert answer.report.degraded
        prompter.close()


def test_a_memory_service_may_die_and_come_back(free_port: int) -> None:
    place = {"PALIMPSEST_LISTEN": f"127.0.0.1:{free_port}"}
    with (
        ServiceProcess(place) as memory,
        AssemblerProcess({"PALIMPSEST_ASSEMBLER_MEMORY_TARGET": memory.address}) as assembler,
    ):
        prompter = Prompter(assembler.address, "heidi")
        remembered(memory.address, (("x-user-id", "heidi"),), "我的数据库是 MySQL 8")
        assert "MySQL 8" in prompter.prompt(ASKS, lookup=LOOKUP).text
        memory.kill()
        answer = prompter.prompt(ASKS, lookup=LOOKUP)
        assert lookups(answer) == {"memories": r.LOOKUP_STATUS_ERROR}
        assert answer.report.degraded
        memory.start()
        until = time.monotonic() + 20
        while "MySQL 8" not in prompter.prompt(ASKS, lookup=LOOKUP).text:
            assert time.monotonic() < until, "the memory service was not found again"
            time.sleep(0.2)
        prompter.close()


class Stub(mpb_grpc.MemoryServiceServicer):
    """A MemoryService that does as it is told."""

    code: grpc.StatusCode | None = None
    release: futures.Future[None] | None = None
    hits: Sequence[mpb.RecallHit] = ()

    def __init__(self) -> None:
        self.seen: list[dict[str, str]] = []

    def RecallMemories(self, request: mpb.RecallMemoriesRequest, context: Any) -> mpb.RecallMemoriesResponse:
        self.seen.append({key: str(value) for key, value in context.invocation_metadata()})
        if self.release is not None:
            self.release.result(30)
        if self.code is not None:
            context.abort(self.code, "mysql://palimpsest:hunter2@db.internal says no")
        return mpb.RecallMemoriesResponse(hits=self.hits)


@pytest.fixture
def stub() -> Iterator[tuple[Stub, AssemblerProcess]]:
    """An assembler before a MemoryService of our own."""
    servicer = Stub()  # type: ignore[abstract]  # the others are never called
    server = grpc.server(futures.ThreadPoolExecutor(4))
    mpb_grpc.add_MemoryServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    settings = {
        "PALIMPSEST_ASSEMBLER_MEMORY_TARGET": f"127.0.0.1:{port}",
        "PALIMPSEST_ASSEMBLER_LOOKUP_TIMEOUT_SECONDS": "20",
    }
    with AssemblerProcess(settings) as process:
        yield servicer, process
    if servicer.release is not None and not servicer.release.done():
        servicer.release.set_result(None)
    server.stop(0)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (grpc.StatusCode.UNAVAILABLE, r.LOOKUP_STATUS_ERROR),
        (grpc.StatusCode.INTERNAL, r.LOOKUP_STATUS_ERROR),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, r.LOOKUP_STATUS_ERROR),
        (grpc.StatusCode.DEADLINE_EXCEEDED, r.LOOKUP_STATUS_TIMEOUT),
        (grpc.StatusCode.UNAUTHENTICATED, r.LOOKUP_STATUS_DENIED),
        (grpc.StatusCode.PERMISSION_DENIED, r.LOOKUP_STATUS_DENIED),
    ],
)
def test_an_error_of_the_memory_service_stays_there(
    stub: tuple[Stub, AssemblerProcess], code: grpc.StatusCode, status: int
) -> None:
    servicer, assembler = stub
    servicer.code = code
    prompter = Prompter(assembler.address)
    answer = prompter.prompt(ASKS, lookup=LOOKUP, sources=[p.Source(text="备份在两点。")])
    assert lookups(answer) == {"memories": status}
    assert answer.report.degraded
    assert "备份在两点" in answer.text
    assert "hunter2" not in str(answer)
    assert "hunter2" not in assembler.log
    prompter.close()


def test_a_slow_memory_service_costs_half_of_the_time_at_most(stub: tuple[Stub, AssemblerProcess]) -> None:
    """It never answers, and the settings allow 20 s: the call's own deadline rules, and leaves time to assemble."""
    servicer, assembler = stub
    servicer.release = futures.Future()
    prompter = Prompter(assembler.address)
    answer = prompter.prompt(ASKS, timeout=3, lookup=LOOKUP)
    assert lookups(answer) == {"memories": r.LOOKUP_STATUS_TIMEOUT}
    assert answer.report.lookups[0].duration_ms >= 1_000
    assert answer.report.degraded
    prompter.close()


def test_who_calls_and_its_request_id_go_along(stub: tuple[Stub, AssemblerProcess]) -> None:
    servicer, assembler = stub
    hit = mpb.RecallHit(memory=m.Memory(content="我用 MySQL 8", type=m.MEMORY_TYPE_FACT), score=0.9)
    hit.memory.created_at.FromJsonString("2026-10-02T08:00:00Z")
    odd = mpb.RecallHit(memory=m.Memory(content="还有别的", type=77), score=0.5)  # type: ignore[arg-type]
    servicer.hits = [hit, odd]
    prompter = Prompter(assembler.address, headers=(("x-user-id", "ivan"), ("x-request-id", "req-7")))
    answer = prompter.prompt(ASKS, lookup=LOOKUP)
    assert "2026-10-02" in answer.text
    assert "还有别的" in answer.text
    assert servicer.seen[0]["x-user-id"] == "ivan"
    assert servicer.seen[0]["x-request-id"] == "req-7"
    prompter.close()


async def test_one_trace_shows_assembler_memory_and_stores(tmp_path: Any) -> None:
    """And no span, and no metric, holds a word of anybody's."""
    exporters = InMemorySpanExporter(), InMemorySpanExporter()
    reader = InMemoryMetricReader()
    named = [TelemetrySettings(service_name=name) for name in ("memory", "assembler")]
    memory = Telemetry(named[0], span_exporter=exporters[0])
    assembler = Telemetry(named[1], span_exporter=exporters[1], metric_reader=reader)
    settings = MemorySettings(listen="127.0.0.1:0", data_dir=tmp_path)
    async with (
        in_this_process(serve_memory, settings, memory, migrate_first=True) as memory_address,
        in_this_process(
            serve_assembler,
            AssemblerSettings(assembler_listen="127.0.0.1:0", assembler_memory_target=memory_address),
            assembler,
        ) as address,
    ):
        async with open_channel(memory_address) as channel:
            save = mpb.SaveMemoryRequest(type=m.MEMORY_TYPE_FACT, content="我的数据库是 MySQL 8")
            await mpb_grpc.MemoryServiceStub(channel).SaveMemory(save, timeout=20, metadata=(("x-user-id", "judy"),))
        for exporter in exporters:
            exporter.clear()
        async with open_channel(address) as channel:
            stub = pb_grpc.PromptAssemblerStub(channel)
            request = pb.AssemblePromptRequest(question=ASKS, lookup=LOOKUP, history=full(20)["history"])
            headers = (("x-user-id", "judy"), ("traceparent", f"00-{'ab' * 16}-{'cd' * 8}-01"))
            answer = await stub.AssemblePrompt(request, timeout=20, metadata=headers)
            report = pb.ReportAnswerRequest(prompt_id=answer.prompt_id, citation_count=1, answer="是 MySQL 8。[1]")
            await stub.ReportAnswer(report, timeout=20, metadata=headers)
        metrics = str(reader.get_metrics_data())
    assert "MySQL 8" in answer.text
    spans = {span.name: span for exporter in exporters for span in exporter.get_finished_spans()}
    call = spans["palimpsest.assembler.v1.PromptAssembler/AssemblePrompt"]
    recall = spans["palimpsest.memory.v1.MemoryService/RecallMemories"]
    lookup = spans["lookup.memories"]
    assert parent(recall) == lookup.context.span_id
    assert parent(lookup) == call.context.span_id
    assert {span.context.trace_id for span in (call, recall, lookup)} == {int("ab" * 16, 16)}
    stores = [span for name, span in spans.items() if name.startswith("record.")]
    assert any(parent(span) == recall.context.span_id for span in stores)
    assert call.attributes is not None
    assert call.attributes["palimpsest.prompt_id"] == answer.prompt_id
    assert call.attributes["assembler.total_tokens"] == answer.report.total_tokens
    everything = metrics + "".join(span.to_json() for exporter in exporters for span in exporter.get_finished_spans())
    for word in ("MySQL", "数据库", "judy", "第1轮"):
        assert word not in everything
    for name in (
        "assembler.block.tokens",
        "assembler.prompt.tokens",
        "assembler.cuts",
        "assembler.summaries",
        "assembler.lookups",
        "assembler.citation_coverage",
    ):
        assert name in metrics


def parent(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id
