"""The ledger's table of serving: API keys, of which only the hashes are kept."""

from __future__ import annotations

import sqlalchemy as sa

from kb.ledger.schema import METADATA, Instant, Name

__all__ = ["METADATA", "api_keys"]

api_keys = sa.Table(
    "api_keys",
    METADATA,
    sa.Column("id", Name, primary_key=True),
    sa.Column("tenant", Name, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("scopes", sa.JSON, nullable=False),
    sa.Column("holder", Name, nullable=False),
    sa.Column("secret_hash", Name, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("expires_at", Instant, nullable=True),
    sa.Column("revoked_at", Instant, nullable=True),
    sa.Column("used_at", Instant, nullable=True),
    sa.Column("logouts", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Index("ix_api_keys_tenant", "tenant", "created_at", "id"),
)
