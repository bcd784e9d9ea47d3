"""Memories over gRPC: RecallMemories of a MemoryService, on behalf of whoever calls the assembler.

The one adapter that speaks protobuf. What the other server says is logged by its code and never passed on: its text may
tell of stores.
"""

import asyncio
import logging
from collections.abc import Sequence

import grpc

from assembler_service.domain.model import MemoryItem, MemoryType
from assembler_service.ports import LookupFailed, LookupStatus, Recollection
from shared.channel import ChannelTls, open_channel
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb
from shared.gen.palimpsest.memory.v1 import memory_service_pb2_grpc as pb_grpc

_STATUS = {
    grpc.StatusCode.DEADLINE_EXCEEDED: LookupStatus.TIMEOUT,
    grpc.StatusCode.UNAUTHENTICATED: LookupStatus.DENIED,
    grpc.StatusCode.PERMISSION_DENIED: LookupStatus.DENIED,
}

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
        try:
            answer = await self._stub.RecallMemories(request, timeout=seconds)
        except grpc.RpcError as error:
            code = error.code() if isinstance(error, grpc.aio.AioRpcError) else grpc.StatusCode.UNKNOWN
            log.warning("RecallMemories answered %s", code.name)
            raise LookupFailed(_STATUS.get(code, LookupStatus.ERROR)) from error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise LookupFailed(LookupStatus.ERROR) from error  # gRPC's own, of a channel that went
        return [_item(hit) for hit in answer.hits]

    async def close(self) -> None:
        """As the port says."""
        await self._channel.close()


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
