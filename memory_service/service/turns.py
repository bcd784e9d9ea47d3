"""Sealed rows of conversations: which value of a message, session, piece or extraction is bound to which place.

As `vault` does it for memories; `domain.conversation` says what the values are.
"""

import json
from dataclasses import asdict

import numpy as np

from memory_service.conversation_ports import MessageRow, PieceRow, SessionRow
from memory_service.domain.conversation import Extracted, Message, Session, ToolCall
from memory_service.domain.model import Vector
from memory_service.service.vault import UserKey


def _message_place(session_id: str, message_id: str) -> str:
    return f"message/{session_id}/{message_id}"


def seal_message(key: UserKey, message: Message) -> MessageRow:
    """The row of a message that has its session, turn and number."""
    place = _message_place(message.session_id, message.message_id)
    tools: dict[str, object] = {}
    if message.tool_calls:
        tools["calls"] = [asdict(call) for call in message.tool_calls]
    if message.tool_call_id:
        tools["answers"] = message.tool_call_id
    return MessageRow(
        user_id=key.user_id,
        generation=key.generation,
        session_id=message.session_id,
        seq=message.seq,
        turn=message.turn,
        message_id=message.message_id,
        role=message.role,
        content=key.seal(place, "content", message.content.encode()),
        tool_data=key.seal(place, "tool_data", json.dumps(tools, ensure_ascii=False).encode()) if tools else None,
        created_at=message.created_at,
    )


def open_message(key: UserKey, row: MessageRow) -> Message:
    """The message of a row; Unreadable when one of its values does not open."""
    place = _message_place(row.session_id, row.message_id)
    tools = json.loads(key.open(place, "tool_data", row.tool_data)) if row.tool_data else {}
    return Message(
        message_id=row.message_id,
        role=row.role,
        content=key.open(place, "content", row.content).decode(),
        created_at=row.created_at,
        tool_calls=tuple(ToolCall(**call) for call in tools.get("calls", ())),
        tool_call_id=tools.get("answers", ""),
        session_id=row.session_id,
        seq=row.seq,
        turn=row.turn,
    )


def seal_summary(key: UserKey, uid: str, text: str) -> bytes:
    """A session's rolling summary, sealed."""
    return key.seal(f"session/{uid}", "summary", text.encode())


def open_session(key: UserKey, row: SessionRow) -> Session:
    """The session of a row; Unreadable when its summary does not open."""
    summary = key.open(f"session/{row.uid}", "summary", row.summary).decode() if row.summary else ""
    return Session(
        session_id=row.session_id,
        turns=row.turns,
        messages=row.messages,
        channel=row.channel,
        created_at=row.created_at,
        last_turn_at=row.last_turn_at,
        summary=summary,
        summary_until=row.summary_until,
    )


def seal_piece(key: UserKey, piece_id: str, vector: Vector) -> bytes:
    """The vector of a piece, sealed."""
    return key.seal(f"piece/{piece_id}", "embedding", np.asarray(vector, dtype="<f4").tobytes())


def open_piece(key: UserKey, row: PieceRow) -> Vector | None:
    """The vector of a piece, or None while it has none; Unreadable when it does not open."""
    if row.embedding is None:
        return None
    return np.frombuffer(key.open(f"piece/{row.id}", "embedding", row.embedding), dtype="<f4")


def seal_outcome(key: UserKey, position: int, extracted: Extracted) -> bytes:
    """What an extraction came to, sealed."""
    return key.seal(f"extraction/{position}", "outcome", extracted.to_json())


def open_outcome(key: UserKey, position: int, sealed: bytes) -> Extracted:
    """What `seal_outcome` made; Unreadable when it does not open."""
    return Extracted.from_json(key.open(f"extraction/{position}", "outcome", sealed))
