"""Slots: a scheduled run is claimed in the ledger, run, and finished there, once, however many replicas there are.

Who runs a job holds its lock, so a slot that still counts as running without that lock has lost its holder, and is
taken again. What a lost holder may still try to write is fenced off: the lock is asked for before every batch, and a
slot is only finished by who holds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs.report import counts_json
from jobs.turn import STOPS, Deed, Outcome, outcome_of, stops_of, tries_of, turn_of
from kb.clock import iso
from kb.errors import KbError
from kb.ledger.slots import SlotStatus
from kb.log import get_logger
from kb.telemetry import Metric, count, observe

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobs.names import JobName
    from jobs.report import Tally
    from jobs.schedule import Schedule
    from jobs.turn import Rules, Turn
    from kb.ledger import Ledger
    from kb.ledger.slots import Slot
    from kb.model import Instant, Json
    from kb.ports import Clock

    Work = Callable[[JobName, Callable[[], bool]], Tally]  # a job, and whether to stop → what it did


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A slot's run.

    Args:
        slot: that was run.
        attempt: which of the slot's runs this was, from 1.
        tries: how many of these count, at least 1.
        tally: what it did; None when the slot was only given up.
        unrecorded: why the ledger does not know how it ended; None when it does.
    """

    slot: Instant
    attempt: int
    tries: int
    tally: Tally | None
    unrecorded: KbError | None = None


def job_lock(job: JobName) -> str:
    """Return the name of the lock that who runs a job holds."""
    return f"job-{job.value}"


class Slots:
    """Runs the slots of jobs on behalf of one holder.

    Args:
        ledger: where slots are claimed.
        clock: the time.
        rules: how often, how late.
        holder: who this is, unique among all replicas.
        work: does a job.
        is_stopped: asked before every batch, beside the job's own lock.
    """

    def __init__(
        self, ledger: Ledger, clock: Clock, *, rules: Rules, holder: str, work: Work, is_stopped: Callable[[], bool]
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._rules = rules
        self._holder = holder
        self._work = work
        self._is_stopped = is_stopped

    def taken(self, job: JobName, at: Instant) -> Slot | None:
        """Return the latest slot at or before an instant that anybody took."""
        with self._ledger.read() as tx:
            slot = tx.upkeep.slot_before(job.value, at)
            return None if slot is None else tx.slots.get(job.value, slot)

    def turn(self, job: JobName, schedule: Schedule) -> Turn | None:
        """Return what the job should run now; only who holds the job's lock knows for sure."""
        now = self._clock.now()
        return turn_of(schedule, now, self.taken(job, now), self._rules)

    def run_due(self, job: JobName, schedule: Schedule) -> Ran | None:
        """Run the job's slot that is due; return None when there is none.

        Raises:
            Locked: another holder runs this job.
            LedgerUnavailable: the slot could not be claimed.
        """
        with self._ledger.lock(job_lock(job)) as lock:
            now = self._clock.now()
            taken = self.taken(job, now)
            turn = turn_of(schedule, now, taken, self._rules)
            if turn is None or self._is_stopped():
                return None
            if turn.deed is Deed.GIVE_UP and taken is not None:
                self._give_up(job, taken)
                return Ran(slot=taken.slot, attempt=taken.attempts, tries=tries_of(taken), tally=None)
            if turn.deed is Deed.BEGIN and taken is not None:
                self._pass_over(job, taken, turn.slot)
            own = self._take(job, turn.slot)
            return self._run(job, own, lock.is_held) if own else None

    def run_slot(self, job: JobName, slot: Instant) -> Ran | None:
        """Run a given slot, whatever was tried before; return None when it is done.

        Raises:
            Locked: another holder runs this job.
            LedgerUnavailable: the slot could not be claimed, or how it ended could not be recorded.
        """
        with self._ledger.lock(job_lock(job)) as lock:
            own = self._take(job, slot)
            ran = self._run(job, own, lock.is_held) if own else None
        if ran is not None and ran.unrecorded is not None:
            raise ran.unrecorded
        return ran

    def _take(self, job: JobName, slot: Instant) -> Slot | None:
        """Return the slot as it is now, this holder's; None when it is done."""
        now = self._clock.now()
        with self._ledger.write() as tx:
            is_taken = tx.slots.claim(job.value, slot, holder=self._holder, at=now) or tx.slots.retake(
                job.value, slot, holder=self._holder, at=now
            )
            return tx.slots.get(job.value, slot) if is_taken else None

    def _run(self, job: JobName, own: Slot, is_held: Callable[[], bool]) -> Ran:
        said = {"job": job.value, "slot": iso(own.slot), "attempt": own.attempts}
        get_logger().info("job_started", **said)
        tally = self._work(job, lambda: self._is_stopped() or not is_held())
        self._tell(job, own, tally)
        unrecorded: KbError | None = None
        try:
            self._record(job, own, tally, is_held)
        except KbError as error:
            get_logger().error("slot_not_recorded", **said, problem=str(error))
            unrecorded = error
        return Ran(slot=own.slot, attempt=own.attempts, tries=tries_of(own), tally=tally, unrecorded=unrecorded)

    def _record(self, job: JobName, own: Slot, tally: Tally, is_held: Callable[[], bool]) -> None:
        stops = stops_of(own) + (tally.outcome is Outcome.STOPPED)
        report = {**tally.summary(), **({STOPS: stops} if stops else {})}
        with self._ledger.write() as tx:
            stored = tx.slots.get(job.value, own.slot)
            is_ours = stored is not None and (stored.holder, stored.attempts) == (own.holder, own.attempts)
            if is_ours and is_held():
                is_done = tally.outcome is Outcome.DONE or not (tally.troubles or tally.is_stopped)
                status = SlotStatus.DONE if is_done else SlotStatus.FAILED
                tx.slots.finish(job.value, own.slot, status, self._clock.now(), report=report)
            else:
                get_logger().warning("slot_lost", job=job.value, slot=iso(own.slot), attempt=own.attempts)

    def _tell(self, job: JobName, own: Slot, tally: Tally) -> None:
        outcome = tally.outcome
        count(Metric.JOB_RUNS, job=job.value, outcome=outcome.value)
        observe(Metric.JOB_SECONDS, tally.seconds, job=job.value)
        said = {"job": job.value, "slot": iso(own.slot), "attempt": own.attempts, "outcome": outcome.value}
        done: dict[str, object] = {"seconds": round(tally.seconds, 3), "counts": counts_json(tally.counts)}
        if tally.sweep_ids:
            done["sweep_ids"] = list(tally.sweep_ids)
        if not tally.troubles:
            get_logger().info("job_finished", **said, **done)
            return
        first = tally.troubles[0]
        why = {
            "where": first.where,
            "problem": str(first.error),
            "hint": first.error.hint,
            "errors": len(tally.troubles),
        }
        tries = tries_of(own)
        if outcome is Outcome.FAILED and tries < self._rules.attempts:
            again = self._rules.wait(tries) / 1000
            get_logger().warning("job_failed", **said, **done, **why, retry_in_seconds=again)
        elif outcome is Outcome.STOPPED:
            get_logger().warning("job_stopped", **said, **done, **why)
        else:
            self._alert(**said, **done, **why)

    def _pass_over(self, job: JobName, taken: Slot, slot: Instant) -> None:
        """Leave an earlier slot as it is, since a later one does its work, too; nobody must miss that it had failed."""
        if taken.status is SlotStatus.RUNNING:
            self._end(job, taken, Outcome.INTERRUPTED, {"next": iso(slot)})
        elif outcome_of(taken) is Outcome.FAILED and tries_of(taken) < self._rules.attempts:
            why = f"the slot {iso(slot)} came before another attempt"
            self._alert(job=job.value, slot=iso(taken.slot), attempt=taken.attempts, outcome="failed", problem=why)

    def _give_up(self, job: JobName, taken: Slot) -> None:
        self._end(job, taken, Outcome.INTERRUPTED, {})
        why = "its process died in the last attempt"
        self._alert(job=job.value, slot=iso(taken.slot), attempt=taken.attempts, outcome="interrupted", problem=why)

    def _end(self, job: JobName, taken: Slot, outcome: Outcome, more: dict[str, Json]) -> None:
        report = {**taken.report, "outcome": outcome.value, **more}
        with self._ledger.write() as tx:
            tx.slots.finish(job.value, taken.slot, SlotStatus.FAILED, self._clock.now(), report=report)

    def _alert(self, **said: object) -> None:
        """Say that a slot has failed for good, or waits for a person; a metric and an error are what alarms watch."""
        count(Metric.JOB_ALERTS, job=str(said["job"]), outcome=str(said["outcome"]))
        get_logger().error("job_gave_up", **said)
