"""The first schema."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:

    op.create_table(
        "idempotency",
        sa.Column("user_id", sa.String(length=128), nullable=False),
        sa.Column("generation", sa.String(length=32), nullable=False),
        sa.Column("rpc", sa.String(length=64), nullable=False),
        sa.Column("request_id", sa.String(length=36), nullable=False),
        sa.Column(
            "args_hmac",
            sa.LargeBinary(length=32)
            .with_variant(sa.BINARY(length=32), "mariadb")
            .with_variant(sa.BINARY(length=32), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "outcome",
            sa.String(length=65000)
            .with_variant(mysql.MEDIUMTEXT(), "mariadb")
            .with_variant(mysql.MEDIUMTEXT(), "mysql"),
            nullable=False,
        ),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "generation", "rpc", "request_id"),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    op.create_index("ix_idempotency_created", "idempotency", ["created_at"], unique=False)
    op.create_table(
        "job",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("state", sa.SmallInteger(), nullable=False),
        sa.Column("user_id", sa.String(length=128), nullable=True),
        sa.Column(
            "payload",
            sa.String(length=65000)
            .with_variant(mysql.MEDIUMTEXT(), "mariadb")
            .with_variant(mysql.MEDIUMTEXT(), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "cursor",
            sa.String(length=65000)
            .with_variant(mysql.MEDIUMTEXT(), "mariadb")
            .with_variant(mysql.MEDIUMTEXT(), "mysql"),
            nullable=False,
        ),
        sa.Column("done", sa.BigInteger(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column(
            "counts",
            sa.String(length=65000)
            .with_variant(mysql.MEDIUMTEXT(), "mariadb")
            .with_variant(mysql.MEDIUMTEXT(), "mysql"),
            nullable=False,
        ),
        sa.Column("error", sa.String(length=1000), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("lease", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.Column("request_id", sa.String(length=36), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    op.create_index("ix_job_due", "job", ["state", "due_at"], unique=False)
    op.create_index("uq_job_request", "job", ["actor", "kind", "request_id"], unique=True)
    op.create_table(
        "memory_head",
        sa.Column("user_id", sa.String(length=128), nullable=False),
        sa.Column("state", sa.SmallInteger(), server_default="1", nullable=False),
        sa.Column("merged_into", sa.String(length=128), nullable=True),
        sa.Column("generation", sa.String(length=32), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("reset_version", sa.BigInteger(), nullable=False),
        sa.Column("embedding_space", sa.String(length=64), nullable=False),
        sa.Column("last_active_at", sa.BigInteger(), nullable=False),
        sa.Column(
            "audit_head",
            sa.LargeBinary(length=32)
            .with_variant(sa.BINARY(length=32), "mariadb")
            .with_variant(sa.BINARY(length=32), "mysql"),
            nullable=True,
        ),
        sa.PrimaryKeyConstraint("user_id"),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    op.create_index("ix_memory_head_space", "memory_head", ["embedding_space", "user_id"], unique=False)
    op.create_table(
        "setting",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    op.create_table(
        "setting_change",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.Column("request_id", sa.String(length=36), nullable=True),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("old_value", sa.String(length=255), nullable=True),
        sa.Column("new_value", sa.String(length=255), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    op.create_table(
        "user_memory",
        sa.Column("user_id", sa.String(length=128), nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("generation", sa.String(length=32), nullable=False),
        sa.Column("type", sa.SmallInteger(), nullable=False),
        sa.Column("shard", sa.SmallInteger(), nullable=False),
        sa.Column(
            "content_hmac",
            sa.LargeBinary(length=32)
            .with_variant(sa.BINARY(length=32), "mariadb")
            .with_variant(sa.BINARY(length=32), "mysql"),
            nullable=False,
        ),
        sa.Column("active_marker", sa.SmallInteger(), nullable=True),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("attributes", sa.LargeBinary(), nullable=True),
        sa.Column("quote", sa.LargeBinary(), nullable=True),
        sa.Column("embedding", sa.LargeBinary(), nullable=True),
        sa.Column("embedding_space", sa.String(length=64), nullable=True),
        sa.Column("event_key", sa.String(length=16), nullable=False),
        sa.Column("session_id", sa.String(length=128), nullable=False),
        sa.Column("message_id", sa.String(length=128), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("channel", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("occurred_at", sa.BigInteger(), nullable=True),
        sa.Column("last_accessed_at", sa.BigInteger(), nullable=True),
        sa.Column("access_count", sa.BigInteger(), nullable=False),
        sa.Column("pinned", sa.Boolean(), nullable=False),
        sa.Column("time_slice", sa.String(length=8), nullable=False),
        sa.Column("valid_from", sa.BigInteger(), nullable=False),
        sa.Column("valid_to", sa.BigInteger(), nullable=True),
        sa.Column("invalidated_at", sa.BigInteger(), nullable=False),
        sa.Column("invalid_reason", sa.SmallInteger(), nullable=False),
        sa.Column("superseded_by", sa.String(length=36), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "id"),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    op.create_index("ix_user_memory_active", "user_memory", ["user_id", "active_marker"], unique=False)
    op.create_index("ix_user_memory_expiry", "user_memory", ["active_marker", "expires_at"], unique=False)
    op.create_index("ix_user_memory_retired", "user_memory", ["invalidated_at"], unique=False)
    op.create_index("ix_user_memory_revision", "user_memory", ["user_id", "revision"], unique=False)
    op.create_index(
        "uq_user_memory_active_content", "user_memory", ["user_id", "content_hmac", "active_marker"], unique=True
    )
    op.create_table(
        "vector_outbox",
        sa.Column("user_id", sa.String(length=128), nullable=False),
        sa.Column("memory_id", sa.String(length=36), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("enqueued_at", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("settled_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "memory_id"),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    op.create_index("ix_vector_outbox_due", "vector_outbox", ["settled_at", "due_at"], unique=False)


def downgrade() -> None:

    op.drop_index("ix_vector_outbox_due", table_name="vector_outbox")
    op.drop_table("vector_outbox")
    op.drop_index("uq_user_memory_active_content", table_name="user_memory")
    op.drop_index("ix_user_memory_revision", table_name="user_memory")
    op.drop_index("ix_user_memory_retired", table_name="user_memory")
    op.drop_index("ix_user_memory_expiry", table_name="user_memory")
    op.drop_index("ix_user_memory_active", table_name="user_memory")
    op.drop_table("user_memory")
    op.drop_table("setting_change")
    op.drop_table("setting")
    op.drop_index("ix_memory_head_space", table_name="memory_head")
    op.drop_table("memory_head")
    op.drop_index("uq_job_request", table_name="job")
    op.drop_index("ix_job_due", table_name="job")
    op.drop_table("job")
    op.drop_index("ix_idempotency_created", table_name="idempotency")
    op.drop_table("idempotency")
