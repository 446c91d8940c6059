"""Governance: sweeps and their journal, tombstones, contradictions, slots; what memories need for it."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
TABLES = ("sweeps", "actions", "images", "tombstones", "contradictions", "slots", "daemons")
NEW = ("shown", "pinned", "contested")  # columns of memories


def upgrade() -> None:
    _widen_memories()
    _create_sweeps()
    _create_actions()
    _create_images()
    _create_tombstones()
    _create_contradictions()
    _create_slots()
    _create_daemons()


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)
    op.drop_index("ix_memories_shown", "memories")
    op.drop_index("ix_memories_source", "memories")
    for column in NEW:
        op.drop_column("memories", column)


def _col(name: str, kind: sa.types.TypeEngine[Any] = NAME, *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=null)


def _widen_memories() -> None:
    op.add_column("memories", sa.Column("shown", sa.BigInteger(), nullable=False, server_default=sa.text("0")))
    op.add_column("memories", sa.Column("pinned", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("memories", sa.Column("contested", sa.Boolean(), nullable=False, server_default=sa.false()))
    # what rows have shown until now is c0; PostgreSQL's cast would round it up
    whole = (
        "floor(confidence * 1000 + 1e-9)" if op.get_bind().dialect.name == "postgresql" else "confidence * 1000 + 1e-9"
    )
    op.execute(f"UPDATE memories SET shown = CAST({whole} AS BIGINT)")  # noqa: S608 - constants
    op.create_index("ix_memories_shown", "memories", ["tenant", "standing", "source_class", "shown", "birth"])
    op.create_index("ix_memories_source", "memories", ["tenant", "source"])


def _create_sweeps() -> None:
    op.create_table(
        "sweeps",
        _col("id"),
        _col("tenant"),
        _col("job"),
        _col("actor", sa.Text()),
        _col("reason", sa.Text()),
        _col("policy"),
        _col("plan"),
        _col("at", sa.BigInteger()),
        _col("status"),
        _col("counts", sa.JSON()),
        _col("started_at", sa.BigInteger()),
        _col("finished_at", sa.BigInteger(), null=True),
        _col("undoes", null=True),
        _col("undone_by", null=True),
        sa.PrimaryKeyConstraint("id", name="pk_sweeps"),
    )
    op.create_index("ix_sweeps_started", "sweeps", ["tenant", "started_at", "id"])
    op.create_index("ix_sweeps_status", "sweeps", ["status"])


def _create_actions() -> None:
    op.create_table(
        "actions",
        _col("sweep_id"),
        _col("seq", sa.BigInteger()),
        _col("memory_id"),
        _col("kind"),
        _col("reason"),
        _col("rev", sa.BigInteger()),
        _col("detail", sa.JSON()),
        _col("applied_at", sa.BigInteger(), null=True),
        _col("skipped", sa.Text()),
        sa.PrimaryKeyConstraint("sweep_id", "seq", name="pk_actions"),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name="fk_actions_sweep_id"),
    )
    op.create_index("ix_actions_memory", "actions", ["memory_id", "applied_at"])
    op.create_index("ix_actions_waiting", "actions", ["sweep_id", "applied_at", "seq"])


def _create_images() -> None:
    op.create_table(
        "images",
        _col("sweep_id"),
        _col("seq", sa.BigInteger()),
        _col("number", sa.BigInteger()),
        _col("kind"),
        _col("key"),
        _col("before", sa.JSON(), null=True),
        _col("after", sa.JSON(), null=True),
        sa.PrimaryKeyConstraint("sweep_id", "seq", "number", name="pk_images"),
        sa.ForeignKeyConstraint(["sweep_id", "seq"], ["actions.sweep_id", "actions.seq"], name="fk_images_sweep_id"),
    )
    op.create_index("ix_images_key", "images", ["key"])


def _create_tombstones() -> None:
    op.create_table(
        "tombstones",
        _col("tenant"),
        _col("kind"),
        _col("mark"),
        _col("is_erased", sa.Boolean()),
        _col("sweep_id"),
        _col("reason", sa.Text()),
        _col("at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("tenant", "kind", "mark", name="pk_tombstones"),
    )
    op.create_index("ix_tombstones_sweep", "tombstones", ["sweep_id"])


def _create_contradictions() -> None:
    op.create_table(
        "contradictions",
        _col("tenant"),
        _col("one"),
        _col("other"),
        _col("kind"),
        _col("one_value", sa.Text()),
        _col("other_value", sa.Text()),
        _col("found_at", sa.BigInteger()),
        _col("settled_at", sa.BigInteger(), null=True),
        _col("settled_by", sa.Text()),
        sa.PrimaryKeyConstraint("one", "other", "kind", name="pk_contradictions"),
    )
    op.create_index("ix_contradictions_other", "contradictions", ["other"])
    op.create_index("ix_contradictions_open", "contradictions", ["tenant", "settled_at", "found_at"])


def _create_slots() -> None:
    op.create_table(
        "slots",
        _col("job"),
        _col("slot", sa.BigInteger()),
        _col("status"),
        _col("holder", sa.Text()),
        _col("attempts", sa.BigInteger()),
        _col("started_at", sa.BigInteger()),
        _col("finished_at", sa.BigInteger(), null=True),
        _col("report", sa.JSON()),
        sa.PrimaryKeyConstraint("job", "slot", name="pk_slots"),
    )
    op.create_index("ix_slots_started", "slots", ["started_at"])


def _create_daemons() -> None:
    op.create_table(
        "daemons",
        _col("id"),
        _col("host", sa.Text()),
        _col("pid", sa.BigInteger()),
        _col("version"),
        _col("is_leader", sa.Boolean()),
        _col("state"),
        _col("started_at", sa.BigInteger()),
        _col("heartbeat_at", sa.BigInteger()),
        _col("report", sa.JSON()),
        sa.PrimaryKeyConstraint("id", name="pk_daemons"),
    )
