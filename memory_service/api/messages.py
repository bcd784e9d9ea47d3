"""Domain values as messages of the contract. Enums have the same numbers on both sides."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from memory_service.domain.model import InvalidReason, Memory, Micros, Outcome
from memory_service.service.curate import etag
from memory_service.service.recall import Hit
from memory_service.service.remember import Saved
from shared.gen.palimpsest.memory.v1 import memory_pb2
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb

MAX_ANSWER_BYTES = 3_500_000
"""An answer stays below; the transport's limit is 4 MiB."""


def timestamp(micros: Micros | None) -> Timestamp | None:
    """A Timestamp; None stays unset."""
    if micros is None:
        return None
    return Timestamp(seconds=micros // 1_000_000, nanos=micros % 1_000_000 * 1000)


def memory_message(memory: Memory, now: Micros | None = None) -> memory_pb2.Memory:
    """A memory; at `now`, one that has expired is shown as retired, though nothing may have retired its row yet."""
    if now is not None and memory.active and memory.expired(now):
        end = memory.expires_at
        memory = replace(memory, invalidated_at=end, valid_to=end, invalid_reason=InvalidReason.EXPIRED)
    source = memory.source
    known = any((source.session_id, source.message_id, source.quote, source.role, source.channel))
    return memory_pb2.Memory(
        id=memory.id,
        type=int(memory.type),  # type: ignore[arg-type]
        content=memory.content,
        shard=int(memory.shard),  # type: ignore[arg-type]
        attributes=memory.attributes,
        source=memory_pb2.MemorySource(
            session_id=source.session_id,
            message_id=source.message_id,
            quote=source.quote,
            role=source.role,
            channel=source.channel,
        )
        if known
        else None,
        created_at=timestamp(memory.created_at),
        occurred_at=timestamp(memory.occurred_at),
        last_accessed_at=timestamp(memory.last_accessed_at),
        access_count=memory.access_count,
        pinned=memory.pinned,
        valid_from=timestamp(memory.valid_from),
        valid_to=timestamp(memory.valid_to),
        invalidated_at=timestamp(memory.invalidated_at),
        superseded_by=memory.superseded_by or "",
        invalid_reason=int(memory.invalid_reason),  # type: ignore[arg-type]
        expires_at=timestamp(memory.expires_at),
        etag=etag(memory),
    )


def saved_message(saved: Saved, freshness: str, *, readable: bool) -> pb.SaveMemoryResponse:
    """What became of a draft. Callers who may not read get neither the memory nor the sentence that quotes others."""
    return pb.SaveMemoryResponse(
        outcome=int(saved.outcome),  # type: ignore[arg-type]
        memory=memory_message(saved.memory) if saved.memory is not None and readable else None,
        matched_id=saved.matched_id,
        superseded_ids=saved.superseded_ids,
        evicted_ids=saved.evicted_ids,
        similarity=saved.similarity,
        reason_code=int(saved.code),  # type: ignore[arg-type]
        reason=saved.reason if readable or saved.outcome is Outcome.FILTERED else _unquoted(saved),
        index_pending=saved.index_pending,
        freshness=freshness,
    )


def _unquoted(saved: Saved) -> str:
    return f"{saved.code.name}: what it was compared with is said to callers with the scope memory:read only."


def hit_message(hit: Hit) -> pb.RecallHit:
    """One memory found, without counters: an active set has them as they were when it was read."""
    return pb.RecallHit(
        memory=memory_message(replace(hit.memory, access_count=0, last_accessed_at=None)),
        score=hit.score,
        similarity=hit.similarity,
        keyword_score=hit.keyword_score,
        legs=[int(leg) for leg in hit.legs],  # type: ignore[misc]
    )


def within_limit(messages: Iterable[Any]) -> tuple[list[Any], bool]:
    """As many as fit into an answer, and whether some were left out. The first always fits."""
    kept: list[Any] = []
    size = 0
    for message in messages:
        size += message.ByteSize() + 8
        if kept and size > MAX_ANSWER_BYTES:
            return kept, True
        kept.append(message)
    return kept, False
