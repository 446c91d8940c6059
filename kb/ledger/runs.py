"""Runs: who worked on what, when, and how it ended. A run whose heart stopped is marked interrupted by the next one."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from kb.errors import IntegrityError
from kb.ledger.checks import checked_int, checked_json, checked_key, checked_name
from kb.ledger.schema import runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kb.model import Instant, Json

_R = runs.c
_RUNNING = _R.status == "running"
_AT_ID = _R.id == sa.bindparam("run_id")
_LATEST_FIRST = (_R.started_at.desc(), _R.id.desc())


class RunStatus(StrEnum):
    """How a run stands."""

    RUNNING = "running"
    DONE = "done"
    PARTIAL = "partial"  # some items failed
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # its process died


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a command or a job."""

    id: str
    kind: str  # ingest, reindex, reconcile, a job's name
    tenant: str = ""  # empty: not of one tenant
    root: str = ""  # empty: not of one source
    status: RunStatus = RunStatus.RUNNING
    started_at: Instant
    heartbeat_at: Instant
    finished_at: Instant | None = None
    report: Mapping[str, Json] = field(default_factory=dict)


class Runs:
    """The runs of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def start(self, run_id: str, *, kind: str, tenant: str = "", root: str = "", at: Instant) -> Run:
        """Record that a run begins.

        Raises:
            IntegrityError: the id is taken.
            InputError: a value cannot be stored as it is.
        """
        row = {
            "id": checked_key(run_id, "run_id"),
            "kind": checked_key(kind, "kind"),
            "tenant": checked_name(tenant, "tenant"),
            "root": checked_name(root, "root"),
            "status": RunStatus.RUNNING.value,
            "started_at": checked_int(at, "at"),
            "heartbeat_at": at,
            "finished_at": None,
            "report": {},
        }
        self._connection.execute(sa.insert(runs), row)
        return Run(id=run_id, kind=kind, tenant=tenant, root=root, started_at=at, heartbeat_at=at)

    def heartbeat(self, run_id: str, at: Instant) -> bool:
        """Record that a run is alive; return whether it still counts as running."""
        beat = sa.update(runs).where(_AT_ID, _RUNNING).values(heartbeat_at=checked_int(at, "at"))
        return self._connection.execute(beat, {"run_id": checked_key(run_id, "run_id")}).rowcount > 0

    def finish(self, run_id: str, status: RunStatus, at: Instant, *, report: Mapping[str, Json]) -> None:
        """Record how a run ended, whatever it counted as before.

        Raises:
            IntegrityError: there is no such run.
            InputError: the report cannot be stored as it is.
        """
        end = {
            "status": status.value,
            "heartbeat_at": checked_int(at, "at"),
            "finished_at": at,
            "report": checked_json(dict(report), "report"),
        }
        ended = self._connection.execute(
            sa.update(runs).where(_AT_ID).values(end), {"run_id": checked_key(run_id, "run_id")}
        )
        if ended.rowcount == 0:
            raise IntegrityError(f"there is no run {run_id}")

    def get(self, run_id: str) -> Run | None:
        """Return a run, None when there is none."""
        row = self._connection.execute(sa.select(runs).where(_AT_ID), {"run_id": checked_key(run_id, "run_id")}).first()
        return None if row is None else _run_of_row(row)

    def latest(self, kind: str, *, tenant: str | None = None, root: str | None = None) -> Run | None:
        """Return the run of a kind that began last, None when there is none."""
        found = self.list(1, kind=kind, tenant=tenant, root=root)
        return found[0] if found else None

    def list(
        self, limit: int, *, kind: str | None = None, tenant: str | None = None, root: str | None = None
    ) -> list[Run]:
        """Return at most `limit` runs, those that began last first; None does not narrow."""
        query = sa.select(runs).order_by(*_LATEST_FIRST).limit(limit)
        for column, value in ((_R.kind, kind), (_R.tenant, tenant), (_R.root, root)):
            if value is not None:
                query = query.where(column == checked_name(value, column.name))
        return [_run_of_row(row) for row in self._connection.execute(query)]

    def interrupt_stale(self, before: Instant, at: Instant, *, kind: str | None = None) -> Sequence[str]:
        """Mark running runs whose last heartbeat is older than `before` as interrupted at `at`; return their ids."""
        query = sa.update(runs).where(_RUNNING, _R.heartbeat_at < checked_int(before, "before"))
        if kind is not None:
            query = query.where(_R.kind == checked_key(kind, "kind"))
        marked = query.values(status=RunStatus.INTERRUPTED.value, finished_at=checked_int(at, "at")).returning(_R.id)
        return sorted(self._connection.execute(marked).scalars())


def _run_of_row(row: Sequence[Any]) -> Run:
    return Run(
        id=row[0],
        kind=row[1],
        tenant=row[2],
        root=row[3],
        status=RunStatus(row[4]),
        started_at=row[5],
        heartbeat_at=row[6],
        finished_at=row[7],
        report=row[8],
    )
