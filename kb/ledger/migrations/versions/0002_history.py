"""What happened to memories: answers, citations, evaluations, lineage, evidence, utility."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
SEQUENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _create_answers()
    _create_evaluations()
    _create_lineage()
    _create_evidence_side()


def downgrade() -> None:
    for table in ("utility", "evidence", "lineage", "evaluations", "citations", "answers"):
        op.drop_table(table)


def _col(name: str, kind: sa.types.TypeEngine[Any] = NAME, *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=null)


def _create_answers() -> None:
    op.create_table(
        "answers",
        _col("id"),
        _col("tenant"),
        _col("scope_agent"),
        _col("scope_user"),
        _col("scope_conversation"),
        _col("thread"),
        _col("question", sa.Text()),
        _col("text", sa.Text()),
        _col("outcome"),
        _col("verdict"),
        _col("report", sa.JSON()),
        _col("created_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_answers"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], name="fk_answers_tenant"),
    )
    op.create_index("ix_answers_created", "answers", ["tenant", "created_at", "id"])
    op.create_index("ix_answers_thread", "answers", ["tenant", "thread", "created_at", "id"])
    op.create_table(
        "citations",
        _col("answer_id"),
        _col("number", sa.BigInteger()),
        _col("memory_id"),
        _col("rev", sa.BigInteger()),
        _col("source"),
        _col("url", sa.Text()),
        _col("title", sa.Text()),
        _col("quote", sa.Text()),
        _col("supports", sa.Boolean()),
        sa.PrimaryKeyConstraint("answer_id", "number", name="pk_citations"),
        sa.ForeignKeyConstraint(["answer_id"], ["answers.id"], name="fk_citations_answer_id"),
    )
    op.create_index("ix_citations_memory", "citations", ["memory_id"])


def _create_evaluations() -> None:
    op.create_table(
        "evaluations",
        sa.Column("seq", SEQUENCE, autoincrement=True, nullable=False),
        _col("answer_id"),
        _col("tenant"),
        _col("question", sa.Text()),
        _col("memory_id"),
        _col("rev", sa.BigInteger()),
        _col("label"),
        _col("relevance", sa.Double(), null=True),
        _col("reason", sa.Text()),
        _col("evaluator"),
        _col("model"),
        _col("version"),
        _col("at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("seq", name="pk_evaluations"),
        sa.CheckConstraint("relevance >= 0 AND relevance <= 1", name=op.f("ck_evaluations_relevance")),
        sa.CheckConstraint("(label = 'unknown') = (relevance IS NULL)", name=op.f("ck_evaluations_label")),
    )
    op.create_index("ix_evaluations_answer", "evaluations", ["answer_id"])
    op.create_index("ix_evaluations_memory", "evaluations", ["memory_id", "at"])


def _create_lineage() -> None:
    op.create_table(
        "lineage",
        _col("tenant"),
        _col("parent"),
        _col("child"),
        _col("kind"),
        _col("at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("parent", "child", "kind", name="pk_lineage"),
    )
    op.create_index("ix_lineage_child", "lineage", ["child", "kind"])


def _create_evidence_side() -> None:
    op.create_table(
        "evidence",
        _col("memory_id"),
        _col("tenant"),
        _col("kind"),
        _col("weight", sa.Double()),
        _col("witness"),
        _col("answer_id", null=True),
        _col("reason", sa.Text()),
        _col("at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("memory_id", "kind", "witness", name="pk_evidence"),
    )
    op.create_index("ix_evidence_memory", "evidence", ["memory_id", "at"])
    op.create_index("ix_evidence_at", "evidence", ["tenant", "at"])
    op.create_table(
        "utility",
        _col("memory_id"),
        _col("retrieved", sa.BigInteger()),
        _col("relevant", sa.BigInteger()),
        _col("cited", sa.BigInteger()),
        _col("last_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("memory_id", name="pk_utility"),
    )
