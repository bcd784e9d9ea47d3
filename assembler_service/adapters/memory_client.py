"""Memories and conversations over gRPC: a MemoryService, on behalf of whoever calls the assembler.

The one adapter that speaks protobuf. What the other server says is logged by its code and never passed on: its text may
tell of stores.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import TypeVar

import grpc

from assembler_service.domain.model import MemoryItem, MemoryType, Message, Role, ToolCall
from assembler_service.ports import (
    LookupFailed,
    LookupStatus,
    NewSummary,
    Recollection,
    StoredHistory,
    SummaryMoved,
)
from shared.channel import ChannelTls, open_channel
from shared.gen.palimpsest.memory.v1 import conversation_service_pb2 as cpb
from shared.gen.palimpsest.memory.v1 import conversation_service_pb2_grpc as cpb_grpc
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb
from shared.gen.palimpsest.memory.v1 import memory_service_pb2_grpc as pb_grpc

_STATUS = {
    grpc.StatusCode.DEADLINE_EXCEEDED: LookupStatus.TIMEOUT,
    grpc.StatusCode.UNAUTHENTICATED: LookupStatus.DENIED,
    grpc.StatusCode.PERMISSION_DENIED: LookupStatus.DENIED,
}

_ROLES = {role.value: role for role in (Role.USER, Role.ASSISTANT, Role.TOOL)}

T = TypeVar("T")

log = logging.getLogger(__name__)


class GrpcMemories:
    """Memories of one MemoryService. Belongs to the event loop it is made on. Nothing connects before the first call.

    A server that is away is noticed at once, and found again within 5 s of its return (gRPC's back-off).
    """

    def __init__(self, target: str, tls: ChannelTls | None = None) -> None:
        self._channel = open_channel(target, tls=tls, carry_caller=True)
        self._stub = pb_grpc.MemoryServiceStub(self._channel)

    async def recall(self, wanted: Recollection, seconds: float) -> Sequence[MemoryItem]:
        """As the port says."""
        request = pb.RecallMemoriesRequest(
            query=wanted.query,
            top_k=wanted.top_k,
            types=[int(kind) for kind in wanted.types],  # type: ignore[misc]
            shards=wanted.shards,  # type: ignore[arg-type]
        )
        answer = await _answered("RecallMemories", self._stub.RecallMemories(request, timeout=seconds))
        return [_item(hit) for hit in answer.hits]

    async def close(self) -> None:
        """As the port says."""
        await self._channel.close()


class GrpcConversations:
    """Conversations of one MemoryService; otherwise as GrpcMemories, whose connection it shares within gRPC."""

    def __init__(self, target: str, tls: ChannelTls | None = None) -> None:
        self._channel = open_channel(target, tls=tls, carry_caller=True)
        self._stub = cpb_grpc.ConversationServiceStub(self._channel)

    async def history(
        self, session_id: str, max_messages: int, max_tokens: int | None, seconds: float
    ) -> StoredHistory:
        """As the port says."""
        request = cpb.GetHistoryRequest(session_id=session_id, max_messages=max_messages, max_tokens=max_tokens)
        answer = await _answered("GetHistory", self._stub.GetHistory(request, timeout=seconds))
        return StoredHistory(
            messages=tuple((said.seq, _message(said)) for said in answer.messages if said.role in _ROLES),
            total=answer.total_messages,
            summary=answer.summary,
            until=answer.summary_until,
            omitted=answer.omitted_messages,
        )

    async def save_summary(self, summary: NewSummary, seconds: float) -> None:
        """As the port says."""
        request = cpb.SaveSessionSummaryRequest(
            session_id=summary.session_id,
            summary=summary.text,
            summary_until=summary.until,
            expected_until=summary.expected,
        )
        try:
            await _answered("SaveSessionSummary", self._stub.SaveSessionSummary(request, timeout=seconds))
        except LookupFailed as error:
            if isinstance(error.__cause__, grpc.RpcError) and _code(error.__cause__) is grpc.StatusCode.ABORTED:
                raise SummaryMoved from error
            raise

    async def close(self) -> None:
        """As the port says."""
        await self._channel.close()


async def _answered(method: str, call: Awaitable[T]) -> T:
    """What the other server answers; else LookupFailed."""
    try:
        return await call
    except grpc.RpcError as error:
        code = _code(error)
        if code is not grpc.StatusCode.ABORTED:  # the caller expects it
            log.warning("%s answered %s", method, code.name)
        raise LookupFailed(_STATUS.get(code, LookupStatus.ERROR)) from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise LookupFailed(LookupStatus.ERROR) from error  # gRPC's own, of a channel that went


def _code(error: grpc.RpcError) -> grpc.StatusCode:
    return error.code() if isinstance(error, grpc.aio.AioRpcError) else grpc.StatusCode.UNKNOWN


def _message(said: cpb.ConversationMessage) -> Message:
    return Message(
        _ROLES[said.role],
        said.content,
        said.tool_call_id,
        tuple(
            ToolCall(call.id, call.function.name, call.function.arguments, call.type or "function")
            for call in said.tool_calls
        ),
    )


def _item(hit: pb.RecallHit) -> MemoryItem:
    memory = hit.memory
    known = memory.type in {int(kind) for kind in MemoryType}
    created = memory.created_at.seconds * 1_000_000 + memory.created_at.nanos // 1000
    return MemoryItem(
        content=memory.content,
        type=MemoryType(memory.type) if known else MemoryType.CONTEXT,
        score=hit.score,
        created_at=created if memory.HasField("created_at") else None,
    )
