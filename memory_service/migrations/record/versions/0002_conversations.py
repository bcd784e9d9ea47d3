"""Conversations: sessions, their messages and pieces of them, and the extraction jobs."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "extraction",
        sa.Column("user_id", sa.String(length=128), nullable=False),
        sa.Column("generation", sa.String(length=32), nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("session_id", sa.String(length=128), nullable=False),
        sa.Column("turn", sa.BigInteger(), nullable=False),
        sa.Column("time_zone", sa.String(length=64), nullable=False),
        sa.Column("state", sa.SmallInteger(), nullable=False),
        sa.Column("lease", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.String(length=64), nullable=False),
        sa.Column(
            "outcome",
            sa.LargeBinary().with_variant(mysql.MEDIUMBLOB(), "mariadb").with_variant(mysql.MEDIUMBLOB(), "mysql"),
            nullable=True,
        ),
        sa.Column("prompt_version", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=128), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("user_id", "generation", "position"),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    op.create_index("ix_extraction_due", "extraction", ["state", "due_at"], unique=False)
    op.create_index("ix_extraction_queue", "extraction", ["user_id", "generation", "state", "position"], unique=False)
    op.create_index("ix_extraction_turn", "extraction", ["user_id", "generation", "session_id", "turn"], unique=False)
    op.create_table(
        "message",
        sa.Column("user_id", sa.String(length=128), nullable=False),
        sa.Column("generation", sa.String(length=32), nullable=False),
        sa.Column("session_id", sa.String(length=128), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("turn", sa.BigInteger(), nullable=False),
        sa.Column("message_id", sa.String(length=128), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column(
            "content",
            sa.LargeBinary().with_variant(mysql.MEDIUMBLOB(), "mariadb").with_variant(mysql.MEDIUMBLOB(), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "tool_data",
            sa.LargeBinary().with_variant(mysql.MEDIUMBLOB(), "mariadb").with_variant(mysql.MEDIUMBLOB(), "mysql"),
            nullable=True,
        ),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "generation", "session_id", "seq"),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    op.create_index("ix_message_turn", "message", ["user_id", "generation", "session_id", "turn"], unique=False)
    op.create_index("uq_message_id", "message", ["user_id", "generation", "session_id", "message_id"], unique=True)
    op.create_table(
        "message_piece",
        sa.Column("user_id", sa.String(length=128), nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("generation", sa.String(length=32), nullable=False),
        sa.Column("session_id", sa.String(length=128), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.SmallInteger(), nullable=False),
        sa.Column("begins", sa.Integer(), nullable=False),
        sa.Column("ends", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("embedding", sa.LargeBinary(), nullable=True),
        sa.Column("embedding_space", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("user_id", "id"),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    op.create_index(
        "ix_message_piece_message",
        "message_piece",
        ["user_id", "generation", "session_id", "seq", "number"],
        unique=False,
    )
    op.create_table(
        "session",
        sa.Column("user_id", sa.String(length=128), nullable=False),
        sa.Column("generation", sa.String(length=32), nullable=False),
        sa.Column("session_id", sa.String(length=128), nullable=False),
        sa.Column("uid", sa.String(length=36), nullable=False),
        sa.Column("turns", sa.BigInteger(), nullable=False),
        sa.Column("messages", sa.BigInteger(), nullable=False),
        sa.Column("channel", sa.String(length=32), nullable=False),
        sa.Column(
            "summary",
            sa.LargeBinary().with_variant(mysql.MEDIUMBLOB(), "mariadb").with_variant(mysql.MEDIUMBLOB(), "mysql"),
            nullable=True,
        ),
        sa.Column("summary_until", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("last_turn_at", sa.BigInteger(), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "generation", "session_id"),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    op.create_index("ix_session_changed", "session", ["user_id", "generation", "changed"], unique=False)
    op.add_column("memory_head", sa.Column("position", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("vector_outbox", sa.Column("kind", sa.SmallInteger(), server_default="1", nullable=False))
    op.create_index("ix_vector_outbox_kind", "vector_outbox", ["settled_at", "kind", "due_at"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_vector_outbox_kind", table_name="vector_outbox")
    op.drop_column("vector_outbox", "kind")
    op.drop_column("memory_head", "position")
    op.drop_index("ix_session_changed", table_name="session")
    op.drop_table("session")
    op.drop_index("ix_message_piece_message", table_name="message_piece")
    op.drop_table("message_piece")
    op.drop_index("uq_message_id", table_name="message")
    op.drop_index("ix_message_turn", table_name="message")
    op.drop_table("message")
    op.drop_index("ix_extraction_turn", table_name="extraction")
    op.drop_index("ix_extraction_queue", table_name="extraction")
    op.drop_index("ix_extraction_due", table_name="extraction")
    op.drop_table("extraction")
