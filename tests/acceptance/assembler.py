"""PromptAssembler as a real process, a client of it, and the material prompts are made of. No test is in here."""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import grpc

from assembler_service.domain.model import Computation, MemoryItem, Message, Source
from shared.gen.palimpsest.assembler.v1 import prompt_assembler_pb2 as pb
from shared.gen.palimpsest.assembler.v1 import prompt_assembler_pb2_grpc as pb_grpc
from shared.gen.palimpsest.assembler.v1 import prompt_pb2 as p
from shared.telemetry import Telemetry
from tests.assembler.samples import tokens
from tests.assembler.test_stories import computation, memory, sources, turn
from tests.service import ServiceProcess

READY = "Palimpsest PromptAssembler is ready on "
QUESTION = "综合以上资料，下一步应该先做什么？请给出理由。"
SYSTEM = "你是一名严谨的数据库顾问。" * 10


class AssemblerProcess(ServiceProcess):
    """One assembler-service process on a free loopback port."""

    module = "assembler_service"
    ready = READY

    def __init__(self, environment: Mapping[str, str]) -> None:
        super().__init__({"PALIMPSEST_ASSEMBLER_LISTEN": "127.0.0.1:0", **environment}, command="serve")


class Prompter:
    """Calls of one user of an assembler."""

    def __init__(self, address: str, user: str | None = None, *, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.user = user or f"user-{uuid.uuid4()}"
        self.headers = headers or (("x-user-id", self.user),)
        size = 16 << 20
        options = [("grpc.max_receive_message_length", size), ("grpc.max_send_message_length", size)]
        self.channel = grpc.insecure_channel(address, options=options)
        self._stub = pb_grpc.PromptAssemblerStub(self.channel)

    def assemble(self, request: pb.AssemblePromptRequest, timeout: float = 20) -> pb.AssemblePromptResponse:
        return self._stub.AssemblePrompt(request, timeout=timeout, metadata=self.headers)

    def prompt(self, question: str = QUESTION, timeout: float = 20, **fields: Any) -> pb.AssemblePromptResponse:
        """AssemblePrompt of these fields, whose receipt is checked against the messages."""
        request = pb.AssemblePromptRequest(question=question, **fields)
        answer = self.assemble(request, timeout)
        if not request.dry_run:
            check_receipt(request, answer)
        return answer

    def count(self, **fields: Any) -> pb.CountTokensResponse:
        return self._stub.CountTokens(pb.CountTokensRequest(**fields), timeout=20, metadata=self.headers)

    def report(self, **fields: Any) -> pb.ReportAnswerResponse:
        return self._stub.ReportAnswer(pb.ReportAnswerRequest(**fields), timeout=20, metadata=self.headers)

    def close(self) -> None:
        self.channel.close()


@contextlib.asynccontextmanager
async def in_this_process(serve: Any, settings: Any, telemetry: Telemetry, **more: Any) -> AsyncIterator[str]:
    """A service in this process; answers its address."""
    shutdown = asyncio.Event()
    bound: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(settings, shutdown=shutdown, ready=bound.set_result, telemetry=telemetry, **more))
    await asyncio.wait((task, bound), return_when=asyncio.FIRST_COMPLETED)
    try:
        if not bound.done():
            task.result()
        yield (await bound)[0]
    finally:
        shutdown.set()
        await task


def counted(messages: Iterable[p.Message], encoding: str = "o200k_base") -> int:
    """The whole prompt as the OpenAI cookbook counts it, by tiktoken itself."""
    total = 3
    for message in messages:
        total += 3 + tokens(message.role, encoding) + tokens(message.content, encoding)
        if message.tool_calls:
            shape = [
                {"id": c.id, "type": c.type, "function": {"name": c.function.name, "arguments": c.function.arguments}}
                for c in message.tool_calls
            ]
            total += tokens(json.dumps(shape, ensure_ascii=False), encoding)
        if message.tool_call_id:
            total += tokens(message.tool_call_id, encoding)
    return total


def check_receipt(request: pb.AssemblePromptRequest, answer: pb.AssemblePromptResponse) -> None:
    """What holds for every prompt: within its limit, question last and whole, kept tokens that add up."""
    report = answer.report
    total = counted(answer.messages, report.encoding)
    assert total == report.total_tokens <= report.limit_tokens
    assert tokens(answer.text, report.encoding) <= report.limit_tokens
    assert sum(block.kept_tokens for block in report.blocks) == total
    assert answer.messages[0].role == "system"
    assert answer.messages[0].content.startswith(request.system_prompt)
    assert answer.messages[-1].role == "user"
    assert answer.messages[-1].content.endswith(request.question)
    assert [citation.n for citation in answer.citations] == list(range(1, len(answer.citations) + 1))
    assert "\ufffd" not in answer.text or "\ufffd" in str(request)


def block(answer: pb.AssemblePromptResponse, which: int) -> Any:
    """The receipt of one block."""
    return next(one for one in answer.report.blocks if one.block == which)


def as_source(source: Source) -> p.Source:
    return p.Source(id=source.id, title=source.title, uri=source.uri, text=source.text, score=source.score)


def as_computation(one: Computation) -> p.Computation:
    return p.Computation(title=one.title, text=one.text, priority=one.priority)


def as_memory(one: MemoryItem) -> p.MemoryItem:
    item = p.MemoryItem(type=int(one.type), content=one.content, score=one.score)  # type: ignore[arg-type]
    if one.created_at is not None:
        item.created_at.FromMicroseconds(one.created_at)
    return item


def as_message(one: Message) -> p.Message:
    return p.Message(role=one.role.value, content=one.content)


def turns(many: int) -> list[p.Message]:
    """A Chinese conversation of so many turns, each of about 430 tokens."""
    return [as_message(message) for n in range(many) for message in turn(n)]


def full(turns_: int = 40) -> dict[str, Any]:
    """12 chunks, 30 memories, two computations, a profile and a conversation of so many turns, all Chinese."""
    return {
        "system_prompt": SYSTEM,
        "user_profile": "职业：后端工程师\n城市：杭州\n偏好：简洁",
        "sources": [as_source(source) for source in sources(12, 16)],
        "computations": [as_computation(computation(n)) for n in range(2)],
        "memories": [as_memory(memory(n)) for n in range(30)],
        "history": turns(turns_),
    }
