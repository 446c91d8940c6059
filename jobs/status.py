"""How the daemons and the jobs are: who lives, who leads, what ran last and what comes next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs.agenda import rules_of, schedules_of
from jobs.health import EVERY, STOPPED, is_recent
from jobs.schedule import SECOND
from jobs.turn import outcome_of, turn_of
from kb.clock import iso
from kb.ledger.slots import SlotStatus

if TYPE_CHECKING:
    from jobs.names import JobName
    from kb.ledger import Ledger
    from kb.ledger.slots import DaemonBeat, Slot
    from kb.model import Instant, Json
    from kb.settings_governance import JobsSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonLine:
    """A daemon, and whether it lives: `alive`, `stale` (it said nothing for a while) or `stopped`."""

    beat: DaemonBeat
    health: str

    def as_json(self) -> dict[str, Json]:
        """Return it under the stable keys of docs/reference/json.md."""
        b = self.beat
        return {
            "id": b.id,
            "host": b.host,
            "pid": b.pid,
            "version": b.version,
            "health": self.health,
            "state": b.state,
            "is_leader": b.is_leader and self.health == "alive",
            "started_at": iso(b.started_at),
            "heartbeat_at": iso(b.heartbeat_at),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """A job: its schedule, its next slot, the last one that was taken, and whether one waits to be run."""

    job: JobName
    schedule: str
    next: Instant | None
    last: Slot | None
    is_due: bool

    @property
    def outcome(self) -> str:
        """How the last slot ended; `running`; "" when none ever ran."""
        if self.last is None:
            return ""
        return "running" if self.last.status is SlotStatus.RUNNING else outcome_of(self.last).value

    def as_json(self) -> dict[str, Json]:
        """Return it under the stable keys of docs/reference/json.md."""
        last = self.last
        shown: dict[str, Json] | None = None
        if last is not None:
            shown = {
                "slot": iso(last.slot),
                "status": last.status.value,
                "outcome": self.outcome,
                "attempts": last.attempts,
                "holder": last.holder,
                "started_at": iso(last.started_at),
                "finished_at": iso(last.finished_at),
                "report": dict(last.report),
            }
        return {
            "job": self.job.value,
            "schedule": self.schedule,
            "next": iso(self.next),
            "is_due": self.is_due,
            "last": shown,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStatus:
    """The daemons of a ledger, the latest heartbeat first, and all jobs."""

    daemons: tuple[DaemonLine, ...]
    jobs: tuple[JobLine, ...]

    @property
    def leader(self) -> str | None:
        """Id of the daemon that leads; None when none does."""
        return next((d.beat.id for d in self.daemons if d.beat.is_leader and d.health == "alive"), None)

    def as_json(self) -> dict[str, Json]:
        """Return it under the stable keys of docs/reference/json.md."""
        return {
            "leader": self.leader,
            "alive": sum(d.health == "alive" for d in self.daemons),
            "daemons": [d.as_json() for d in self.daemons],
            "jobs": [j.as_json() for j in self.jobs],
        }


def status_of(ledger: Ledger, settings: JobsSettings, now: Instant) -> DaemonStatus:
    """Return how daemons and jobs are at this instant.

    Raises:
        ConfigError: a schedule of `[jobs]` is none.
        LedgerUnavailable: the ledger cannot be read.
    """
    schedules, rules = schedules_of(settings), rules_of(settings)
    every = round(settings.heartbeat_seconds * SECOND)
    lines: list[JobLine] = []
    with ledger.read() as tx:
        daemons = tuple(DaemonLine(beat=b, health=_health(b, now, every)) for b in tx.slots.daemons())
        for job, schedule in schedules.items():
            slot = tx.upkeep.slot_before(job.value, now)
            taken = None if slot is None else tx.slots.get(job.value, slot)
            is_due = turn_of(schedule, now, taken, rules) is not None
            is_running = taken is not None and taken.status is SlotStatus.RUNNING
            lines.append(
                JobLine(
                    job=job,
                    schedule=schedule.text,
                    next=schedule.after(now),
                    last=taken,
                    is_due=is_due and not is_running,
                )
            )
    return DaemonStatus(daemons=daemons, jobs=tuple(lines))


def _health(beat: DaemonBeat, now: Instant, every: int) -> str:
    if beat.state == STOPPED:
        return STOPPED
    said = beat.report.get(EVERY)
    own = said if isinstance(said, int) and said > 0 else every
    return "alive" if is_recent(beat.heartbeat_at, now, own) else "stale"
