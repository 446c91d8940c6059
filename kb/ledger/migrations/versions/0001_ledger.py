"""The first ledger: tenants, sources, documents, memories, embeddings, outbox, collections, runs, failures."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
SEQUENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _create_registers()
    _create_documents()
    _create_memories()
    _create_index_side()
    _create_run_side()


def downgrade() -> None:
    for table in (
        "failures", "runs", "collections", "outbox", "embeddings",
        "memories", "versions", "documents", "sources", "tenants", "meta",
    ):  # fmt: skip
        op.drop_table(table)


def _col(name: str, kind: sa.types.TypeEngine[Any] = NAME, *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=null)


def _create_registers() -> None:
    op.create_table(
        "meta",
        _col("key"),
        _col("value", sa.JSON()),
        sa.PrimaryKeyConstraint("key", name="pk_meta"),
    )
    op.create_table(
        "tenants",
        _col("name"),
        _col("created_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("name", name="pk_tenants"),
    )
    op.create_table(
        "sources",
        _col("tenant"),
        _col("name"),
        _col("location", sa.Text()),
        _col("source_class"),
        _col("options", sa.JSON()),
        _col("registered_at", sa.BigInteger()),
        _col("synced_at", sa.BigInteger(), null=True),
        sa.PrimaryKeyConstraint("tenant", "name", name="pk_sources"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], name="fk_sources_tenant"),
    )


def _create_documents() -> None:
    op.create_table(
        "documents",
        _col("id"),
        _col("tenant"),
        _col("root"),
        _col("source"),
        _col("birth_source"),
        _col("version", sa.BigInteger()),
        _col("raw"),
        _col("content"),
        _col("metadata_hash"),
        _col("pipeline"),
        _col("size", sa.BigInteger()),
        _col("mtime_ns", sa.BigInteger()),
        _col("title", sa.Text()),
        _col("memory_ids", sa.JSON()),
        _col("deleted_at", sa.BigInteger(), null=True),
        _col("created_at", sa.BigInteger()),
        _col("updated_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_documents"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], name="fk_documents_tenant"),
    )
    live = sa.text("deleted_at IS NULL")
    op.create_index(
        "uq_documents_live_source",
        "documents",
        ["tenant", "source"],
        unique=True,
        sqlite_where=live,
        postgresql_where=live,
    )
    op.create_index("ix_documents_root", "documents", ["tenant", "root", "raw"])
    op.create_index("ix_documents_birth", "documents", ["tenant", "birth_source"])
    op.create_table(
        "versions",
        _col("doc_id"),
        _col("version", sa.BigInteger()),
        _col("raw"),
        _col("content"),
        _col("metadata_hash"),
        _col("pipeline"),
        _col("memory_ids", sa.JSON()),
        _col("created_at", sa.BigInteger()),
        _col("superseded_at", sa.BigInteger(), null=True),
        _col("run_id"),
        sa.PrimaryKeyConstraint("doc_id", "version", name="pk_versions"),
        sa.ForeignKeyConstraint(
            ["doc_id"], ["documents.id"], name="fk_versions_doc_id", deferrable=True, initially="DEFERRED"
        ),
    )


def _create_memories() -> None:
    op.create_table(
        "memories",
        _col("id"),
        _col("tenant"),
        _col("kind"),
        _col("source_class"),
        _col("source"),
        _col("text", sa.Text()),
        _col("confidence", sa.Double()),
        _col("anchor", sa.BigInteger()),
        _col("birth", sa.BigInteger()),
        _col("verified", sa.Boolean()),
        _col("verified_at", sa.BigInteger(), null=True),
        _col("strength", sa.Double()),
        _col("standing"),
        _col("standing_reason", sa.Text()),
        _col("doc_id", null=True),
        _col("ordinal", sa.BigInteger()),
        _col("title", sa.Text()),
        _col("heading_path", sa.JSON()),
        _col("page", sa.BigInteger(), null=True),
        _col("span_start", sa.BigInteger()),
        _col("span_end", sa.BigInteger()),
        _col("scope_agent"),
        _col("scope_user"),
        _col("scope_conversation"),
        _col("embed_hash"),
        _col("valid_from", sa.BigInteger()),
        _col("valid_to", sa.BigInteger()),
        _col("created_at", sa.BigInteger()),
        _col("updated_at", sa.BigInteger()),
        _col("rev", sa.BigInteger()),
        _col("metadata", sa.JSON()),
        sa.PrimaryKeyConstraint("id", name="pk_memories"),
        sa.CheckConstraint("confidence >= 0 AND confidence <= 1", name=op.f("ck_memories_confidence")),
    )
    staged = sa.text("standing = 'staged'")
    op.create_index("ix_memories_gate", "memories", ["tenant", "standing", "birth"])
    op.create_index("ix_memories_document", "memories", ["doc_id", "standing"])
    op.create_index("ix_memories_updated", "memories", ["updated_at"])
    op.create_index("ix_memories_staged", "memories", ["id"], sqlite_where=staged, postgresql_where=staged)


def _create_index_side() -> None:
    op.create_table(
        "embeddings",
        _col("model"),
        _col("text_hash"),
        _col("dim", sa.Integer()),
        _col("vector", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("model", "text_hash", name="pk_embeddings"),
    )
    op.create_table(
        "outbox",
        sa.Column("seq", SEQUENCE, autoincrement=True, nullable=False),
        _col("memory_id"),
        _col("marked_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("seq", name="pk_outbox"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "collections",
        _col("name"),
        _col("model"),
        _col("dim", sa.Integer()),
        _col("generation", sa.BigInteger()),
        _col("state"),
        _col("created_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("name", name="pk_collections"),
    )
    current = sa.text("state = 'current'")
    op.create_index(
        "uq_collections_current",
        "collections",
        ["state"],
        unique=True,
        sqlite_where=current,
        postgresql_where=current,
    )


def _create_run_side() -> None:
    op.create_table(
        "runs",
        _col("id"),
        _col("kind"),
        _col("tenant"),
        _col("root"),
        _col("status"),
        _col("started_at", sa.BigInteger()),
        _col("heartbeat_at", sa.BigInteger()),
        _col("finished_at", sa.BigInteger(), null=True),
        _col("report", sa.JSON()),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_index("ix_runs_started", "runs", ["started_at"])
    op.create_index("ix_runs_status", "runs", ["status"])
    op.create_table(
        "failures",
        _col("tenant"),
        _col("source"),
        _col("root"),
        _col("raw"),
        _col("pipeline"),
        _col("code"),
        _col("message", sa.Text()),
        _col("hint", sa.Text()),
        _col("attempts", sa.BigInteger()),
        _col("failed_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("tenant", "source", name="pk_failures"),
    )
    op.create_index("ix_failures_root", "failures", ["tenant", "root"])
