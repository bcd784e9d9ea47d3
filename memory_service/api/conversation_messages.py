"""Conversations as messages of the contract. Enums have the same numbers on both sides."""

from memory_service.api.messages import timestamp
from memory_service.conversation_ports import ExtractionState, SessionRow
from memory_service.domain.conversation import ExtractedItem, Message
from memory_service.service.conversations import Extraction
from memory_service.service.history import HistoryHit
from shared.gen.palimpsest.memory.v1 import conversation_service_pb2 as pb

_ENDED = (ExtractionState.DONE, ExtractionState.DEAD)


def conversation_message(message: Message) -> pb.ConversationMessage:
    """A stored message."""
    return pb.ConversationMessage(
        message_id=message.message_id,
        role=message.role,
        content=message.content,
        tool_calls=[
            pb.ToolCall(id=call.id, type=call.type, function=pb.FunctionCall(name=call.name, arguments=call.arguments))
            for call in message.tool_calls
        ],
        tool_call_id=message.tool_call_id,
        created_at=timestamp(message.created_at),
        seq=message.seq,
        turn=message.turn,
    )


def history_hit_message(hit: HistoryHit) -> pb.HistoryHit:
    """A message that was found."""
    return pb.HistoryHit(
        session_id=hit.message.session_id,
        message=conversation_message(hit.message),
        score=hit.score,
        similarity=hit.similarity,
        keyword_score=hit.keyword_score,
    )


def session_message(row: SessionRow) -> pb.Session:
    """A session without its messages."""
    return pb.Session(
        session_id=row.session_id,
        turns=row.turns,
        messages=row.messages,
        channel=row.channel,
        created_at=timestamp(row.created_at),
        last_turn_at=timestamp(row.last_turn_at),
        summary_until=row.summary_until,
    )


def extraction_message(found: Extraction) -> pb.Extraction:
    """The extraction of a turn."""
    row = found.row
    return pb.Extraction(
        session_id=row.session_id,
        turn=row.turn,
        state=int(row.state),  # type: ignore[arg-type]
        items=[_item(item) for item in found.extracted.items],
        attempts=row.attempts,
        error_code=row.error,
        prompt_version=row.prompt_version,
        model=row.model,
        created_at=timestamp(row.created_at),
        due_at=None if row.state in _ENDED else timestamp(row.due_at),
        finished_at=timestamp(row.finished_at),
    )


def _item(item: ExtractedItem) -> pb.ExtractedItem:
    return pb.ExtractedItem(
        action=item.action,
        type=int(item.type),  # type: ignore[arg-type]
        outcome=int(item.outcome or 0),  # type: ignore[arg-type]
        reason_code=int(item.code or 0),  # type: ignore[arg-type]
        memory_id=item.memory_id,
        superseded_ids=item.superseded_ids,
        rationale=item.rationale,
        refused_code=item.refused,
    )
