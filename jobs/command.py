"""One run of a job by hand, by cron or by a Kubernetes CronJob: at once, or for a slot that is run once in all."""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from jobs.agenda import rules_of, schedules_of
from jobs.registry import run
from jobs.schedule import MINUTE
from jobs.slots import Slots, job_lock
from kb.clock import LAST_SECOND, iso
from kb.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobs.context import JobContext
    from jobs.names import JobName
    from jobs.report import Tally
    from jobs.schedule import Schedule
    from kb.ledger import Ledger
    from kb.ledger.slots import Slot
    from kb.model import Instant

NOW = "now"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRun:
    """What came of a slot: `tally` of the run, or None and the record of who had done it before."""

    slot: Instant
    tally: Tally | None
    before: Slot | None = None


def run_at_once(job: JobName, context: JobContext, ledger: Ledger) -> Tally:
    """Run a job now, whatever its schedule; a dry run takes no lock, since it writes nothing.

    Raises:
        Locked: another process runs this job.
    """
    if context.is_dry:
        return run(job, context)
    with ledger.lock(job_lock(job)) as lock:
        asked = context.is_stopped
        return run(job, replace(context, is_stopped=lambda: asked() or not lock.is_held()))


def run_slot(job: JobName, slot: Instant, context: JobContext, ledger: Ledger) -> SlotRun:
    """Run a job's slot, unless it is done.

    Raises:
        ConfigError: a schedule of `[jobs]` is none.
        Locked: another process runs this job.
    """

    def work(name: JobName, is_stopped: Callable[[], bool]) -> Tally:
        return run(name, replace(context, is_stopped=is_stopped))

    slots = Slots(
        ledger,
        context.clock,
        rules=rules_of(context.settings.jobs),
        holder=f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}",
        work=work,
        is_stopped=context.is_stopped,
    )
    ran = slots.run_slot(job, slot)
    if ran is not None:
        return SlotRun(slot=slot, tally=ran.tally)
    with ledger.read() as tx:
        return SlotRun(slot=slot, tally=None, before=tx.slots.get(job.value, slot))


def slot_of(text: str, job: JobName, context: JobContext) -> Instant:
    """Return the slot that a caller means: `now` is the schedule's latest one, or this minute when the job is off.

    Raises:
        InputError: it is neither `now` nor an instant of ISO 8601, or it is still to come.
        ConfigError: a schedule of `[jobs]` is none.
    """
    now = context.clock.now()
    if text.strip().lower() == NOW:
        return _latest(schedules_of(context.settings.jobs)[job], now)
    slot = _instant(text)
    if not 0 <= slot <= now:
        raise InputError(f"the slot {iso(slot) or text} is still to come, or before 1970", hint="--slot now")
    return slot


def _latest(schedule: Schedule, now: Instant) -> Instant:
    latest = schedule.latest(now)
    return now - now % MINUTE if latest is None else latest


def _instant(text: str) -> Instant:
    try:
        said = datetime.fromisoformat(text.strip())
        aware = said if said.tzinfo is not None else said.replace(tzinfo=UTC)
        return min(LAST_SECOND, round(aware.timestamp() * 1000))
    except (ValueError, OverflowError) as error:
        hint = "write it like 2026-03-01T04:00:00Z, or `now`"
        raise InputError(f"{text!r} is no instant of ISO 8601", hint=hint) from error
