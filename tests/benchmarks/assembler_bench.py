"""What a prompt costs: against one count of it by tiktoken, over gRPC, and what the process needs to stand there.

Owns the assembler's rows of the quality goals. The prompt is the full one: 12 chunks, 30 memories, two computations and
40 turns in Chinese, about 20,000 tokens of material for a budget of 6,000.
"""

import statistics
import time
from collections.abc import Iterator
from typing import Final

from assembler_service.adapters.tokenizer import Tokenizer, load_encoding
from assembler_service.domain.assemble import assemble
from assembler_service.domain.model import Request
from shared.gen.palimpsest.assembler.v1 import prompt_assembler_pb2 as pb
from tests.acceptance.assembler import QUESTION, SYSTEM, AssemblerProcess, full
from tests.assembler.test_stories import computation, memory, sources, turn
from tests.benchmarks.harness import Row, medians, resident_mb
from tests.benchmarks.load import Load, Plan, run

AREA: Final = "assembler"
ROUNDS: Final = 60
STARTS: Final = 7
METHOD: Final = "/palimpsest.assembler.v1.PromptAssembler/AssemblePrompt"
COUNT_METHOD: Final = "/palimpsest.assembler.v1.PromptAssembler/CountTokens"
COLD_REQUESTS: Final = 400
"""Each with texts of its own; together they are more texts than the server keeps counts of."""


def material() -> Request:
    """The full request as the domain takes it; the same that `full` makes for gRPC."""
    return Request(
        question=QUESTION,
        system_prompt=SYSTEM,
        user_profile="职业：后端工程师\n城市：杭州\n偏好：简洁",
        sources=sources(12, 16),
        computations=tuple(computation(n) for n in range(2)),
        memories=tuple(memory(n) for n in range(30)),
        history=tuple(message for n in range(40) for message in turn(n)),
    )


def in_process() -> list[Row]:
    """Assembling against one encode of the result, with no count known and with all known."""
    request = material()
    counter = Tokenizer().counter()
    encoding = load_encoding("o200k_base")
    text = assemble(request, counter).text

    def encode() -> object:
        return encoding.encode(text, disallowed_special=())

    def prompt() -> object:
        return assemble(request, counter)

    tokens = len(encoding.encode(text, disallowed_special=()))
    cold_encode, cold = medians(ROUNDS, encode, prompt, before=counter.forget)
    prompt()
    warm_encode, warm = medians(ROUNDS, encode, prompt)
    return [
        Row(
            AREA,
            f"full prompt of {tokens:,} tokens, {kind} counts / one encode of it",
            took / once,
            floor=floor,
            medians={"prompt ms": took, "encode ms": once},
        )
        for kind, took, once, floor in (("cold", cold, cold_encode, 10.0), ("warm", warm, warm_encode, 5.0))
    ]


def over_grpc() -> list[Row]:
    """The same prompt from another process, beside the smallest call of the same server."""
    request = pb.AssemblePromptRequest(question=QUESTION, **full())
    encoding = load_encoding("o200k_base")
    metadata = (("x-user-id", "bench"),)
    with AssemblerProcess({}) as service:
        warm_requests = [request.SerializeToString()]
        smallest = [pb.CountTokensRequest(texts=["好"]).SerializeToString()]
        least = _load(service, COUNT_METHOD, smallest, metadata)
        warm = _load(service, METHOD, warm_requests, metadata)
        many = _load(service, METHOD, warm_requests, metadata, concurrency=8)
        cold = _load(service, METHOD, list(_never_seen(request, COLD_REQUESTS)), metadata)
        resident = resident_mb(service.pid)
    text = assemble(material(), Tokenizer().counter()).text
    (encode,) = medians(ROUNDS, lambda: encoding.encode(text, disallowed_special=()))
    rows = [
        Row(
            AREA,
            f"the same over gRPC, {kind} counts, p50 / one encode",
            load.p50 / encode,
            medians={"p50 ms": load.p50, "p95 ms": load.p95, "encode ms": encode, "smallest call ms": least.p50},
        )
        for kind, load in (("cold", cold), ("warm", warm))
    ]
    rows.append(
        Row(
            AREA,
            "the same over gRPC, warm, 8 at once",
            many.per_second,
            "prompts/s",
            medians={"p50 ms": many.p50, "p95 ms": many.p95, "smallest call, one at once, calls/s": least.per_second},
        )
    )
    rows.append(Row(AREA, f"resident memory after {many.calls + warm.calls + cold.calls:,} prompts", resident, "MB"))
    return rows


def _load(
    service: AssemblerProcess,
    method: str,
    requests: list[bytes],
    metadata: tuple[tuple[str, str], ...],
    *,
    concurrency: int = 1,
) -> Load:
    done = run(Plan(service.address, method, requests, concurrency, seconds=4.0, metadata=metadata))
    if done.failures:
        raise RuntimeError(f"{done.failures} of {done.calls} calls of {method} failed")
    return done


def _never_seen(request: pb.AssemblePromptRequest, many: int) -> Iterator[bytes]:
    """The same request with every text changed in two characters, so that no count is known."""
    for n in range(many):
        other = pb.AssemblePromptRequest()
        other.CopyFrom(request)
        mark = f"{chr(0x4E00 + n % 500)}{chr(0x5E00 + n // 500)}"
        for source in other.sources:
            source.text = mark + source.text
        for computed in other.computations:
            computed.text = "\n\n".join(mark + paragraph for paragraph in computed.text.split("\n\n"))
        for remembered in other.memories:
            remembered.content = mark + remembered.content
        for message in other.history:
            message.content = mark + message.content
        yield other.SerializeToString()


def start_up() -> list[Row]:
    """From the command to the line that says it is ready, and what it holds then and after a prompt."""
    spent, idle = [], []
    for _ in range(STARTS):
        process = AssemblerProcess({})
        begun = time.perf_counter()
        with process:
            spent.append(time.perf_counter() - begun)
            idle.append(resident_mb(process.pid))
    with AssemblerProcess({}) as service:
        request = pb.AssemblePromptRequest(question=QUESTION, **full()).SerializeToString()
        run(Plan(service.address, METHOD, [request], seconds=0.5, metadata=(("x-user-id", "bench"),)))
        used = resident_mb(service.pid)
    return [
        Row(
            AREA,
            "start-up, median of the starts",
            statistics.median(spent),
            "s",
            1.5,
            medians={"slowest s": max(spent)},
        ),
        Row(
            AREA, "resident memory after full prompts", used, "MB", 220.0, medians={"idle MB": statistics.median(idle)}
        ),
    ]


def rows() -> Iterator[Row]:
    """All of them, as they are measured."""
    for part in (in_process, over_grpc, start_up):
        yield from part()
