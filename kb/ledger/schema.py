"""The ledger's tables. `migrations/` creates them; a test holds the two together on both databases.

Instants are epoch milliseconds in 64 bits. Names are compared by code point on both databases (SQLite's default;
collation "C" on PostgreSQL), so both agree with Python on order and on prefixes.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

METADATA = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
Sequence = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # only INTEGER counts by itself there
Instant = sa.BigInteger


ColumnType = sa.types.TypeEngine[Any] | type[sa.types.TypeEngine[Any]]


def _col(name: str, kind: ColumnType = Name, *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=null)


def _hashes() -> tuple[sa.Column[Any], ...]:
    return _col("raw"), _col("content"), _col("metadata_hash"), _col("pipeline")


meta = sa.Table("meta", METADATA, sa.Column("key", Name, primary_key=True), _col("value", sa.JSON))

tenants = sa.Table("tenants", METADATA, sa.Column("name", Name, primary_key=True), _col("created_at", Instant))

sources = sa.Table(
    "sources",
    METADATA,
    sa.Column("tenant", Name, sa.ForeignKey("tenants.name"), primary_key=True),
    sa.Column("name", Name, primary_key=True),
    _col("location", sa.Text),
    _col("source_class"),
    _col("options", sa.JSON),
    _col("registered_at", Instant),
    _col("synced_at", Instant, null=True),
)

documents = sa.Table(
    "documents",
    METADATA,
    sa.Column("id", Name, primary_key=True),
    sa.Column("tenant", Name, sa.ForeignKey("tenants.name"), nullable=False),
    _col("root"),
    _col("source"),
    _col("birth_source"),
    _col("version", sa.BigInteger),
    *_hashes(),
    _col("size", sa.BigInteger),
    _col("mtime_ns", sa.BigInteger),
    _col("title", sa.Text),
    _col("memory_ids", sa.JSON),
    _col("deleted_at", Instant, null=True),
    _col("created_at", Instant),
    _col("updated_at", Instant),
    sa.Index(
        "uq_documents_live_source",
        "tenant",
        "source",
        unique=True,
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    ),
    sa.Index("ix_documents_root", "tenant", "root", "raw"),
    sa.Index("ix_documents_birth", "tenant", "birth_source"),
)

versions = sa.Table(
    "versions",
    METADATA,
    sa.Column("doc_id", Name, sa.ForeignKey("documents.id", deferrable=True, initially="DEFERRED"), primary_key=True),
    sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
    *_hashes(),
    _col("memory_ids", sa.JSON),
    _col("created_at", Instant),
    _col("superseded_at", Instant, null=True),
    _col("run_id"),
)

memories = sa.Table(
    "memories",
    METADATA,
    sa.Column("id", Name, primary_key=True),
    _col("tenant"),
    _col("kind"),
    _col("source_class"),
    _col("source"),
    _col("text", sa.Text),
    _col("confidence", sa.Double),
    _col("anchor", Instant),
    _col("birth", Instant),
    _col("verified", sa.Boolean),
    _col("verified_at", Instant, null=True),
    _col("strength", sa.Double),
    sa.Column("shown", sa.BigInteger, nullable=False, server_default=sa.text("0")),  # thousandths
    _col("standing"),
    _col("standing_reason", sa.Text),
    sa.Column("pinned", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("contested", sa.Boolean, nullable=False, server_default=sa.false()),
    _col("doc_id", null=True),  # no foreign key: a new document's memories are staged before its row is switched in
    _col("ordinal", sa.BigInteger),
    _col("title", sa.Text),
    _col("heading_path", sa.JSON),
    _col("page", sa.BigInteger, null=True),
    _col("span_start", sa.BigInteger),
    _col("span_end", sa.BigInteger),
    _col("scope_agent"),
    _col("scope_user"),
    _col("scope_conversation"),
    _col("embed_hash"),
    _col("valid_from", Instant),
    _col("valid_to", Instant),
    _col("created_at", Instant),
    _col("updated_at", Instant),
    _col("rev", sa.BigInteger),
    _col("metadata", sa.JSON),
    sa.CheckConstraint("confidence >= 0 AND confidence <= 1", name="confidence"),
    sa.Index("ix_memories_gate", "tenant", "standing", "birth"),  # serves (tenant, standing) too
    sa.Index("ix_memories_document", "doc_id", "standing"),
    sa.Index("ix_memories_updated", "updated_at"),
    sa.Index("ix_memories_shown", "tenant", "standing", "source_class", "shown", "birth"),
    sa.Index("ix_memories_source", "tenant", "source"),
    sa.Index(
        "ix_memories_staged",
        "id",
        sqlite_where=sa.text("standing = 'staged'"),
        postgresql_where=sa.text("standing = 'staged'"),
    ),
)

embeddings = sa.Table(
    "embeddings",
    METADATA,
    sa.Column("model", Name, primary_key=True),
    sa.Column("text_hash", Name, primary_key=True),
    _col("dim", sa.Integer),
    _col("vector", sa.LargeBinary),  # float32, little-endian
)

outbox = sa.Table(
    "outbox",
    METADATA,
    sa.Column("seq", Sequence, primary_key=True, autoincrement=True),
    _col("memory_id"),
    _col("marked_at", Instant),
    sqlite_autoincrement=True,  # a cleared number is never given out again
)

collections = sa.Table(
    "collections",
    METADATA,
    sa.Column("name", Name, primary_key=True),
    _col("model"),
    _col("dim", sa.Integer),
    _col("generation", sa.BigInteger),
    _col("state"),
    _col("created_at", Instant),
    sa.Index(
        "uq_collections_current",
        "state",
        unique=True,
        sqlite_where=sa.text("state = 'current'"),
        postgresql_where=sa.text("state = 'current'"),
    ),
)

runs = sa.Table(
    "runs",
    METADATA,
    sa.Column("id", Name, primary_key=True),
    _col("kind"),
    _col("tenant"),
    _col("root"),
    _col("status"),
    _col("started_at", Instant),
    _col("heartbeat_at", Instant),
    _col("finished_at", Instant, null=True),
    _col("report", sa.JSON),
    sa.Index("ix_runs_started", "started_at"),
    sa.Index("ix_runs_status", "status"),
)

failures = sa.Table(
    "failures",
    METADATA,
    sa.Column("tenant", Name, primary_key=True),
    sa.Column("source", Name, primary_key=True),
    _col("root"),
    _col("raw"),
    _col("pipeline"),
    _col("code"),
    _col("message", sa.Text),
    _col("hint", sa.Text),
    _col("attempts", sa.BigInteger),
    _col("failed_at", Instant),
    sa.Index("ix_failures_root", "tenant", "root"),
)

answers = sa.Table(
    "answers",
    METADATA,
    sa.Column("id", Name, primary_key=True),
    sa.Column("tenant", Name, sa.ForeignKey("tenants.name"), nullable=False),
    _col("scope_agent"),
    _col("scope_user"),
    _col("scope_conversation"),
    _col("thread"),
    _col("question", sa.Text),
    _col("text", sa.Text),
    _col("outcome"),
    _col("verdict"),
    _col("report", sa.JSON),
    _col("created_at", Instant),
    sa.Index("ix_answers_created", "tenant", "created_at", "id"),
    sa.Index("ix_answers_thread", "tenant", "thread", "created_at", "id"),
)

citations = sa.Table(
    "citations",
    METADATA,
    sa.Column("answer_id", Name, sa.ForeignKey("answers.id"), primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    _col("memory_id"),  # no foreign key: an answer still says what it cited when that has been erased
    _col("rev", sa.BigInteger),
    _col("source"),
    _col("url", sa.Text),
    _col("title", sa.Text),
    _col("quote", sa.Text),
    _col("supports", sa.Boolean),
    sa.Index("ix_citations_memory", "memory_id"),
)

evaluations = sa.Table(
    "evaluations",
    METADATA,
    sa.Column("seq", Sequence, primary_key=True, autoincrement=True),
    _col("answer_id"),  # no foreign key: what is retrieved for another's answer is graded too
    _col("tenant"),
    _col("question", sa.Text),
    _col("memory_id"),
    _col("rev", sa.BigInteger),
    _col("label"),
    _col("relevance", sa.Double, null=True),
    _col("reason", sa.Text),
    _col("evaluator"),
    _col("model"),
    _col("version"),
    _col("at", Instant),
    sa.CheckConstraint("relevance >= 0 AND relevance <= 1", name="relevance"),
    sa.CheckConstraint("(label = 'unknown') = (relevance IS NULL)", name="label"),
    sa.Index("ix_evaluations_answer", "answer_id"),
    sa.Index("ix_evaluations_memory", "memory_id", "at"),
)

lineage = sa.Table(
    "lineage",
    METADATA,
    _col("tenant"),
    sa.Column("parent", Name, primary_key=True),
    sa.Column("child", Name, primary_key=True),
    sa.Column("kind", Name, primary_key=True),
    _col("at", Instant),
    sa.Index("ix_lineage_child", "child", "kind"),
)

evidence = sa.Table(
    "evidence",
    METADATA,
    sa.Column("memory_id", Name, primary_key=True),
    _col("tenant"),
    sa.Column("kind", Name, primary_key=True),
    _col("weight", sa.Double),
    sa.Column("witness", Name, primary_key=True),
    _col("answer_id", null=True),
    _col("reason", sa.Text),
    _col("at", Instant),
    sa.Index("ix_evidence_memory", "memory_id", "at"),
    sa.Index("ix_evidence_at", "tenant", "at"),
)

utility = sa.Table(
    "utility",
    METADATA,
    sa.Column("memory_id", Name, primary_key=True),
    _col("retrieved", sa.BigInteger),
    _col("relevant", sa.BigInteger),
    _col("cited", sa.BigInteger),
    _col("last_at", Instant),
)
