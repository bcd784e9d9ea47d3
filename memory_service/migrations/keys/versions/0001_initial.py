"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "user_key",
        sa.Column("user_id", sa.String(length=128), nullable=False),
        sa.Column("generation", sa.String(length=32), nullable=False),
        sa.Column("kek_id", sa.String(length=64), nullable=False),
        sa.Column("wrapped", sa.LargeBinary(length=255), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "generation"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
    )
    op.create_index("ix_user_key_kek_id", "user_key", ["kek_id"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_user_key_kek_id", table_name="user_key")
    op.drop_table("user_key")
