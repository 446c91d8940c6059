"""Serving: API keys, of which only the hashes are kept."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", NAME, primary_key=True),
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("holder", NAME, nullable=False),
        sa.Column("secret_hash", NAME, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
    )
    op.create_index("ix_api_keys_tenant", "api_keys", ["tenant", "created_at", "id"])


def downgrade() -> None:
    op.drop_table("api_keys")
