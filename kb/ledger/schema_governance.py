"""The ledger's tables of governance: sweeps with their journal, tombstones, contradictions, slots of the daemon."""

from __future__ import annotations

import sqlalchemy as sa

from kb.ledger.schema import METADATA, Instant, Name

__all__ = ["METADATA", "actions", "contradictions", "daemons", "images", "slots", "sweeps", "tombstones"]

sweeps = sa.Table(
    "sweeps",
    METADATA,
    sa.Column("id", Name, primary_key=True),
    sa.Column("tenant", Name, nullable=False),
    sa.Column("job", Name, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("policy", Name, nullable=False),
    sa.Column("plan", Name, nullable=False),
    sa.Column("at", Instant, nullable=False),
    sa.Column("status", Name, nullable=False),
    sa.Column("counts", sa.JSON, nullable=False),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("finished_at", Instant, nullable=True),
    sa.Column("undoes", Name, nullable=True),
    sa.Column("undone_by", Name, nullable=True),
    sa.Index("ix_sweeps_started", "tenant", "started_at", "id"),
    sa.Index("ix_sweeps_status", "status"),
)

actions = sa.Table(
    "actions",
    METADATA,
    sa.Column("sweep_id", Name, sa.ForeignKey("sweeps.id"), primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("memory_id", Name, nullable=False),  # no foreign key: the journal outlives what was erased
    sa.Column("kind", Name, nullable=False),
    sa.Column("reason", Name, nullable=False),
    sa.Column("rev", sa.BigInteger, nullable=False),
    sa.Column("detail", sa.JSON, nullable=False),
    sa.Column("applied_at", Instant, nullable=True),
    sa.Column("skipped", sa.Text, nullable=False),
    sa.Index("ix_actions_memory", "memory_id", "applied_at"),
    sa.Index("ix_actions_waiting", "sweep_id", "applied_at", "seq"),
)

images = sa.Table(
    "images",
    METADATA,
    sa.Column("sweep_id", Name, primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("kind", Name, nullable=False),
    sa.Column("key", Name, nullable=False),
    sa.Column("before", sa.JSON, nullable=True),
    sa.Column("after", sa.JSON, nullable=True),
    sa.ForeignKeyConstraint(["sweep_id", "seq"], ["actions.sweep_id", "actions.seq"], name="fk_images_sweep_id"),
    sa.Index("ix_images_key", "key"),
)

tombstones = sa.Table(
    "tombstones",
    METADATA,
    sa.Column("tenant", Name, primary_key=True),
    sa.Column("kind", Name, primary_key=True),
    sa.Column("mark", Name, primary_key=True),
    sa.Column("is_erased", sa.Boolean, nullable=False),
    sa.Column("sweep_id", Name, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("at", Instant, nullable=False),
    sa.Index("ix_tombstones_sweep", "sweep_id"),
)

contradictions = sa.Table(
    "contradictions",
    METADATA,
    sa.Column("tenant", Name, nullable=False),
    sa.Column("one", Name, primary_key=True),
    sa.Column("other", Name, primary_key=True),
    sa.Column("kind", Name, primary_key=True),
    sa.Column("one_value", sa.Text, nullable=False),
    sa.Column("other_value", sa.Text, nullable=False),
    sa.Column("found_at", Instant, nullable=False),
    sa.Column("settled_at", Instant, nullable=True),
    sa.Column("settled_by", sa.Text, nullable=False),
    sa.Index("ix_contradictions_other", "other"),
    sa.Index("ix_contradictions_open", "tenant", "settled_at", "found_at"),
)

slots = sa.Table(
    "slots",
    METADATA,
    sa.Column("job", Name, primary_key=True),
    sa.Column("slot", Instant, primary_key=True, autoincrement=False),
    sa.Column("status", Name, nullable=False),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("attempts", sa.BigInteger, nullable=False),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("finished_at", Instant, nullable=True),
    sa.Column("report", sa.JSON, nullable=False),
    sa.Index("ix_slots_started", "started_at"),
)

daemons = sa.Table(
    "daemons",
    METADATA,
    sa.Column("id", Name, primary_key=True),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("pid", sa.BigInteger, nullable=False),
    sa.Column("version", Name, nullable=False),
    sa.Column("is_leader", sa.Boolean, nullable=False),
    sa.Column("state", Name, nullable=False),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("heartbeat_at", Instant, nullable=False),
    sa.Column("report", sa.JSON, nullable=False),
)
