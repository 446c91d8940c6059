"""Slots of the schedule and the daemons that work on them: a slot runs once, however many replicas there are."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from kb.ledger.batches import insert_into, upsert_into
from kb.ledger.checks import checked_int, checked_json, checked_key, checked_text
from kb.ledger.schema_governance import daemons, slots

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kb.model import Instant, Json

_S, _D = slots.c, daemons.c
_AT = sa.and_(_S.job == sa.bindparam("at_job"), _S.slot == sa.bindparam("at_slot"))


class SlotStatus(StrEnum):
    """How a slot stands."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"  # may be taken again, with backoff


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One scheduled run of one job: the instant that it was due at."""

    job: str
    slot: Instant
    status: SlotStatus = SlotStatus.RUNNING
    holder: str = ""  # daemon that took it
    attempts: int = 1
    started_at: Instant = 0
    finished_at: Instant | None = None
    report: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonBeat:
    """A daemon's heartbeat."""

    id: str
    host: str
    pid: int
    version: str
    is_leader: bool
    state: str  # starting, waiting, leading, running JOB, draining, stopped
    started_at: Instant
    heartbeat_at: Instant
    report: Mapping[str, Json] = field(default_factory=dict)


class Slots:
    """The slots and daemons of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def claim(self, job: str, slot: Instant, *, holder: str, at: Instant) -> bool:
        """Take a slot that nobody took; return whether it was free. The caller holds the job's lock."""
        row = {
            "job": checked_key(job, "job"),
            "slot": checked_int(slot, "slot"),
            "status": SlotStatus.RUNNING.value,
            "holder": checked_text(holder, "holder"),
            "attempts": 1,
            "started_at": checked_int(at, "at"),
            "finished_at": None,
            "report": {},
        }
        insert = insert_into(self._connection, slots).on_conflict_do_nothing().returning(_S.job)
        return self._connection.execute(insert, row).first() is not None

    def retake(self, job: str, slot: Instant, *, holder: str, at: Instant) -> int:
        """Take a slot again that failed, or whose holder died; return which attempt this is, 0 when it is done.

        The caller holds the job's lock, so a slot that still counts as running has lost its holder.
        """
        query = (
            sa.update(slots)
            .where(_AT, _S.status != SlotStatus.DONE.value)
            .values(
                status=SlotStatus.RUNNING.value,
                holder=checked_text(holder, "holder"),
                attempts=_S.attempts + 1,
                started_at=checked_int(at, "at"),
                finished_at=None,
            )
            .returning(_S.attempts)
        )
        row = self._connection.execute(query, {"at_job": job, "at_slot": slot}).first()
        return 0 if row is None else int(row[0])

    def finish(self, job: str, slot: Instant, status: SlotStatus, at: Instant, *, report: Mapping[str, Json]) -> None:
        """Record how a slot's run ended."""
        values = {
            "status": status.value,
            "finished_at": checked_int(at, "at"),
            "report": checked_json(dict(report), "report"),
        }
        self._connection.execute(sa.update(slots).where(_AT).values(values), {"at_job": job, "at_slot": slot})

    def get(self, job: str, slot: Instant) -> Slot | None:
        """Return a slot, None when it was never taken."""
        row = self._connection.execute(sa.select(slots).where(_AT), {"at_job": job, "at_slot": slot}).first()
        return None if row is None else _slot_of_row(row)

    def latest(self, job: str, limit: int = 1, *, status: SlotStatus | None = None) -> list[Slot]:
        """Return a job's slots, the latest first."""
        query = sa.select(slots).where(_S.job == checked_key(job, "job")).order_by(_S.slot.desc()).limit(limit)
        if status is not None:
            query = query.where(_S.status == status.value)
        return [_slot_of_row(row) for row in self._connection.execute(query)]

    def unfinished(self) -> list[Slot]:
        """Return the slots that are running or failed, the oldest first."""
        query = sa.select(slots).where(_S.status != SlotStatus.DONE.value).order_by(_S.slot, _S.job)
        return [_slot_of_row(row) for row in self._connection.execute(query)]

    def forget_before(self, before: Instant) -> int:
        """Forget slots that were done before an instant; return how many."""
        done = sa.and_(_S.status == SlotStatus.DONE.value, _S.finished_at < checked_int(before, "before"))
        return self._connection.execute(sa.delete(slots).where(done)).rowcount

    def beat(self, beat: DaemonBeat) -> None:
        """Record a daemon's heartbeat."""
        row = {
            "id": checked_key(beat.id, "id"),
            "host": checked_text(beat.host, "host"),
            "pid": checked_int(beat.pid, "pid"),
            "version": checked_text(beat.version, "version"),
            "is_leader": beat.is_leader,
            "state": checked_text(beat.state, "state"),
            "started_at": checked_int(beat.started_at, "started_at"),
            "heartbeat_at": checked_int(beat.heartbeat_at, "heartbeat_at"),
            "report": checked_json(dict(beat.report), "report"),
        }
        self._connection.execute(upsert_into(self._connection, daemons), row)

    def daemons(self) -> list[DaemonBeat]:
        """Return every daemon that ever beat and was not forgotten, the latest first."""
        rows = self._connection.execute(sa.select(daemons).order_by(_D.heartbeat_at.desc(), _D.id))
        return [
            DaemonBeat(
                id=row[0],
                host=row[1],
                pid=row[2],
                version=row[3],
                is_leader=row[4],
                state=row[5],
                started_at=row[6],
                heartbeat_at=row[7],
                report=row[8],
            )
            for row in rows
        ]

    def forget_daemons(self, before: Instant) -> int:
        """Forget daemons whose last heartbeat is older than an instant; return how many."""
        return self._connection.execute(
            sa.delete(daemons).where(_D.heartbeat_at < checked_int(before, "before"))
        ).rowcount


def _slot_of_row(row: Sequence[Any]) -> Slot:
    return Slot(
        job=row[0],
        slot=row[1],
        status=SlotStatus(row[2]),
        holder=row[3],
        attempts=row[4],
        started_at=row[5],
        finished_at=row[6],
        report=row[7],
    )
