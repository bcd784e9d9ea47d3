"""The tables. Owns names, types and keys; migrations bring a database there.

Every primary key of a user's table starts with the user id, so that the data can be sharded by it. Times are BIGINT
microseconds UTC: no session time zone can bend them. Identifiers compare by bytes (`utf8mb4_bin`): MySQL's default
collations make Alice, alice and álice one key. Nothing here goes beyond what MySQL 8, MariaDB 10.11 and SQLite share.
"""

from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, LargeBinary, MetaData, SmallInteger, String, Table
from sqlalchemy.dialects import mysql

metadata = MetaData()
keys_metadata = MetaData()
"""`user_key` alone: it may live in a database of its own."""

_mysql = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin", "mysql_engine": "InnoDB"}
_mariadb = {k.replace("mysql_", "mariadb_"): v for k, v in _mysql.items()}
_options: dict[str, Any] = _mysql | _mariadb


def _user_id() -> "Column[str]":
    return Column("user_id", String(128), primary_key=True)


def _hash() -> LargeBinary:
    return LargeBinary(32).with_variant(mysql.BINARY(32), "mysql", "mariadb")


def _long_text() -> String:
    return String(65_000).with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")


def _long_bytes() -> LargeBinary:
    return LargeBinary().with_variant(mysql.MEDIUMBLOB(), "mysql", "mariadb")


user_key = Table(
    "user_key",
    keys_metadata,
    _user_id(),
    Column("generation", String(32), primary_key=True),
    Column("kek_id", String(64), nullable=False, index=True),
    Column("wrapped", LargeBinary(255), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    **_options,
)

memory_head = Table(
    "memory_head",
    metadata,
    _user_id(),
    Column("state", SmallInteger, nullable=False, server_default="1"),  # 1 ACTIVE, 2 MERGED
    Column("merged_into", String(128)),
    Column("generation", String(32), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("reset_version", BigInteger, nullable=False),
    Column("embedding_space", String(64), nullable=False),
    Column("last_active_at", BigInteger, nullable=False),
    Column("audit_head", _hash()),
    Column("position", BigInteger, nullable=False, server_default="0"),  # counts the user's turns over all sessions
    Index("ix_memory_head_space", "embedding_space", "user_id"),
    **_options,
)

user_memory = Table(
    "user_memory",
    metadata,
    _user_id(),
    Column("id", String(36), primary_key=True),
    Column("generation", String(32), nullable=False),
    Column("type", SmallInteger, nullable=False),
    Column("shard", SmallInteger, nullable=False),
    Column("content_hmac", _hash(), nullable=False),
    Column("active_marker", SmallInteger),  # 1 or NULL: a retired row never blocks saving its text again
    Column("content", LargeBinary, nullable=False),
    Column("attributes", LargeBinary),
    Column("quote", LargeBinary),
    Column("embedding", LargeBinary),
    Column("embedding_space", String(64)),
    Column("event_key", String(16), nullable=False),
    Column("session_id", String(128), nullable=False),
    Column("message_id", String(128), nullable=False),
    Column("role", String(16), nullable=False),
    Column("channel", String(32), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("occurred_at", BigInteger),
    Column("last_accessed_at", BigInteger),
    Column("access_count", BigInteger, nullable=False),
    Column("pinned", Boolean, nullable=False),
    Column("time_slice", String(8), nullable=False),
    Column("valid_from", BigInteger, nullable=False),
    Column("valid_to", BigInteger),
    Column("invalidated_at", BigInteger, nullable=False),  # 0 = active
    Column("invalid_reason", SmallInteger, nullable=False),
    Column("superseded_by", String(36)),
    Column("expires_at", BigInteger),
    Column("revision", BigInteger, nullable=False),
    Index("uq_user_memory_active_content", "user_id", "content_hmac", "active_marker", unique=True),
    Index("ix_user_memory_active", "user_id", "active_marker"),
    Index("ix_user_memory_revision", "user_id", "revision"),
    Index("ix_user_memory_expiry", "active_marker", "expires_at"),
    Index("ix_user_memory_retired", "invalidated_at"),
    **_options,
)

vector_outbox = Table(
    "vector_outbox",
    metadata,
    _user_id(),
    Column("memory_id", String(36), primary_key=True),  # of a memory or of a piece: a UUID is of one of them only
    Column("kind", SmallInteger, nullable=False, server_default="1"),  # 1 memory, 2 piece of a message
    Column("token", BigInteger, nullable=False),
    Column("enqueued_at", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("settled_at", BigInteger, nullable=False),  # 0 = pending
    Index("ix_vector_outbox_due", "settled_at", "due_at"),
    Index("ix_vector_outbox_kind", "settled_at", "kind", "due_at"),  # a kind's lines, past the backlog of the other
    **_options,
)

session = Table(
    "session",
    metadata,
    _user_id(),
    Column("generation", String(32), primary_key=True),
    Column("session_id", String(128), primary_key=True),
    Column("uid", String(36), nullable=False),  # tells a session from one of that id that was deleted before
    Column("turns", BigInteger, nullable=False),
    Column("messages", BigInteger, nullable=False),
    Column("channel", String(32), nullable=False),
    Column("summary", _long_bytes()),
    Column("summary_until", BigInteger, nullable=False),  # seq of the last message it covers; 0 = there is none
    Column("created_at", BigInteger, nullable=False),
    Column("last_turn_at", BigInteger, nullable=False),
    Column("changed", BigInteger, nullable=False),  # the head's position at the last turn: the order of activity
    Index("ix_session_changed", "user_id", "generation", "changed"),
    **_options,
)

message = Table(
    "message",
    metadata,
    _user_id(),
    Column("generation", String(32), primary_key=True),
    Column("session_id", String(128), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("turn", BigInteger, nullable=False),
    Column("message_id", String(128), nullable=False),
    Column("role", String(16), nullable=False),
    Column("content", _long_bytes(), nullable=False),
    Column("tool_data", _long_bytes()),
    Column("created_at", BigInteger, nullable=False),
    Index("uq_message_id", "user_id", "generation", "session_id", "message_id", unique=True),
    Index("ix_message_turn", "user_id", "generation", "session_id", "turn"),
    **_options,
)

message_piece = Table(
    "message_piece",
    metadata,
    _user_id(),
    Column("id", String(36), primary_key=True),
    Column("generation", String(32), nullable=False),
    Column("session_id", String(128), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("number", SmallInteger, nullable=False),
    Column("begins", Integer, nullable=False),  # characters of the message, from `begins` to before `ends`
    Column("ends", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),  # the message's
    Column("embedding", LargeBinary),
    Column("embedding_space", String(64)),
    Index("ix_message_piece_message", "user_id", "generation", "session_id", "seq", "number"),
    **_options,
)

extraction = Table(
    "extraction",
    metadata,
    _user_id(),
    Column("generation", String(32), primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("session_id", String(128), nullable=False),
    Column("turn", BigInteger, nullable=False),
    Column("time_zone", String(64), nullable=False),
    Column("state", SmallInteger, nullable=False),  # 1 PENDING, 2 RUNNING, 3 DONE, 4 DEAD
    Column("lease", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),  # the end of the lease while it runs
    Column("attempts", Integer, nullable=False),
    Column("error", String(64), nullable=False),
    Column("outcome", _long_bytes()),
    Column("prompt_version", String(64), nullable=False),
    Column("model", String(128), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Index("ix_extraction_turn", "user_id", "generation", "session_id", "turn"),
    Index("ix_extraction_queue", "user_id", "generation", "state", "position"),
    Index("ix_extraction_due", "state", "due_at"),
    **_options,
)

idempotency = Table(
    "idempotency",
    metadata,
    _user_id(),
    Column("generation", String(32), primary_key=True),
    Column("rpc", String(64), primary_key=True),
    Column("request_id", String(36), primary_key=True),
    Column("args_hmac", _hash(), nullable=False),
    Column("outcome", _long_text(), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Index("ix_idempotency_created", "created_at"),
    **_options,
)

job = Table(
    "job",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("kind", SmallInteger, nullable=False),
    Column("state", SmallInteger, nullable=False),
    Column("user_id", String(128)),
    Column("payload", _long_text(), nullable=False),
    Column("cursor", _long_text(), nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("counts", _long_text(), nullable=False),
    Column("error", String(1000), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("lease", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("actor", String(128), nullable=False),
    Column("request_id", String(36)),
    Column("created_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Index("ix_job_due", "state", "due_at"),
    Index("uq_job_request", "actor", "kind", "request_id", unique=True),
    **_options,
)

setting = Table(
    "setting",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", String(255), nullable=False),
    **_options,
)

setting_change = Table(
    "setting_change",
    metadata,
    Column("id", String(36), primary_key=True),  # UUIDv7: the order of time
    Column("at", BigInteger, nullable=False),
    Column("actor", String(128), nullable=False),
    Column("request_id", String(36)),
    Column("name", String(64), nullable=False),
    Column("old_value", String(255)),
    Column("new_value", String(255)),
    **_options,
)
