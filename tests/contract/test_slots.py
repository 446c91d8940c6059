"""The slot ledger, on both databases: a slot runs once in all, is taken again when its holder died, and is fenced."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from jobs.names import JobName
from jobs.report import Tally
from jobs.schedule import DAY, HOUR, SECOND, WEEK, parsed
from jobs.slots import Slots, job_lock
from jobs.tidy import SLOT_DAYS
from jobs.turn import Deed, Rules
from kb.errors import InputError, LedgerUnavailable, Locked, Refused
from kb.ledger import open_ledger
from kb.ledger.slots import Slot, SlotStatus
from tests.contract.test_lease import lose
from tests.stores import FakeClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jobs.slots import Ran
    from kb.errors import KbError
    from kb.ledger import Ledger

PRUNE = JobName.PRUNE
HOURLY = parsed("hourly :15", setting="jobs.prune")
RULES = Rules(attempts=3, backoff=60 * SECOND, misfire=24 * HOUR)


class Worker:
    """Counts its runs; fails as told, and may be looked into while it works."""

    def __init__(self, *errors: KbError | None, during: Callable[[], None] = lambda: None) -> None:
        self.runs = 0
        self.stopped: list[bool] = []
        self._errors = list(errors)
        self._during = during

    def __call__(self, job: JobName, is_stopped: Callable[[], bool]) -> Tally:
        self.runs += 1
        tally = Tally(job=job, parts=1)
        self._during()
        self.stopped.append(is_stopped())
        tally.is_stopped = self.stopped[-1]
        error = self._errors.pop(0) if self._errors else None
        if error is not None:
            tally.trouble("acme", error)
        return tally


def slots_of(ledger: Ledger, clock: FakeClock, worker: Worker, holder: str = "one", **changes: object) -> Slots:
    given = {"rules": RULES, "holder": holder, "work": worker, "is_stopped": lambda: False, **changes}
    return Slots(ledger, clock, **given)  # type: ignore[arg-type]


def stored(ledger: Ledger, job: JobName = PRUNE) -> list[Slot]:
    with ledger.read() as tx:
        return tx.slots.latest(job.value, 100)


def due(slots: Slots) -> Ran | None:
    return slots.run_due(PRUNE, HOURLY)


def test_a_slot_runs_once_however_many_replicas_ask(ledger: Ledger, ledger_url: str | None, tmp_path: Path) -> None:
    clock, worker = FakeClock(), Worker()
    barrier = threading.Barrier(4)

    def replica(name: int) -> None:
        with open_ledger(ledger_url, data_dir=tmp_path / "kb") as own:
            slots = slots_of(own, clock, worker, holder=str(name))
            barrier.wait(60)
            for _ in range(5):
                try:
                    due(slots)
                except Locked:
                    continue

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(replica, range(4)))
    assert worker.runs == 1
    (slot,) = stored(ledger)
    assert (slot.status, slot.attempts, slot.slot) == (SlotStatus.DONE, 1, HOURLY.latest(clock.now()))


def test_a_restart_after_three_days_catches_up_once(ledger: Ledger) -> None:
    clock, worker = FakeClock(), Worker()
    slots = slots_of(ledger, clock, worker)
    assert due(slots) is not None
    clock.advance(72 * HOUR)
    assert due(slots) is not None
    assert due(slots) is None
    assert worker.runs == 2
    assert [s.slot for s in stored(ledger)] == [
        HOURLY.latest(clock.now()),
        (HOURLY.latest(clock.now()) or 0) - 72 * HOUR,
    ]


def test_a_clock_that_is_set_back_runs_nothing_twice(ledger: Ledger) -> None:
    clock, worker = FakeClock(), Worker()
    slots = slots_of(ledger, clock, worker)
    for _ in range(4):
        due(slots)
        clock.advance(HOUR)
    assert worker.runs == 4
    clock.advance(-3 * HOUR)
    for _ in range(3):
        assert due(slots) is None
        clock.advance(HOUR)
    assert worker.runs == 4
    assert due(slots) is not None


def test_a_job_goes_on_although_the_clock_was_a_year_ahead_once(ledger: Ledger) -> None:
    clock, worker = FakeClock(), Worker()
    slots = slots_of(ledger, clock, worker)
    clock.advance(365 * 24 * HOUR)
    assert due(slots) is not None
    clock.advance(-365 * 24 * HOUR)
    assert due(slots) is not None
    clock.advance(HOUR)
    assert due(slots) is not None


def test_a_failed_slot_is_repeated_with_backoff_and_then_left(ledger: Ledger) -> None:
    clock = FakeClock(HOURLY.after(1_800_000_000_000) or 0)
    worker = Worker(*[LedgerUnavailable("away")] * 9)
    slots = slots_of(ledger, clock, worker)
    waits = []
    for _ in range(600):
        if due(slots) is not None:
            waits.append(clock.now() - (HOURLY.latest(clock.now()) or 0))
        clock.advance(5 * SECOND)
    assert waits == [0, 60 * SECOND, 180 * SECOND]
    (slot,) = stored(ledger)
    assert (slot.status, slot.attempts) == (SlotStatus.FAILED, 3)
    assert slot.report["errors"][0]["message"] == "away"  # type: ignore[index,call-overload]


def test_what_a_guard_refused_is_not_repeated(ledger: Ledger) -> None:
    clock, worker = FakeClock(), Worker(Refused("too much"))
    slots = slots_of(ledger, clock, worker)
    due(slots)
    clock.advance(10 * 60 * SECOND)
    assert due(slots) is None
    (slot,) = stored(ledger)
    assert (slot.status, slot.report["outcome"]) == (SlotStatus.FAILED, "refused")


def test_a_repetition_that_succeeds_ends_it(ledger: Ledger) -> None:
    clock, worker = FakeClock(), Worker(LedgerUnavailable("away"), None)
    slots = slots_of(ledger, clock, worker)
    due(slots)
    clock.advance(60 * SECOND)
    ran = due(slots)
    assert ran is not None
    assert ran.attempt == 2
    assert stored(ledger)[0].status is SlotStatus.DONE


def test_a_slot_whose_holder_died_is_taken_again_at_once(ledger: Ledger) -> None:
    clock, worker = FakeClock(), Worker()
    slot = HOURLY.latest(clock.now()) or 0
    with ledger.write() as tx:
        assert tx.slots.claim("prune", slot, holder="dead", at=clock.now())
    ran = due(slots_of(ledger, clock, worker))
    assert ran is not None
    assert (ran.slot, ran.attempt, stored(ledger)[0].holder) == (slot, 2, "one")


def test_a_slot_that_kills_each_holder_is_given_up(ledger: Ledger) -> None:
    clock, worker = FakeClock(), Worker()
    slot = HOURLY.latest(clock.now()) or 0
    with ledger.write() as tx:
        tx.slots.claim("prune", slot, holder="dead", at=clock.now())
        tx.slots.retake("prune", slot, holder="dead", at=clock.now())
        tx.slots.retake("prune", slot, holder="dead", at=clock.now())
    slots = slots_of(ledger, clock, worker)
    turn = slots.turn(PRUNE, HOURLY)
    assert turn is not None
    assert turn.deed is Deed.GIVE_UP
    due(slots)
    assert due(slots) is None
    assert worker.runs == 0
    assert (stored(ledger)[0].status, stored(ledger)[0].report["outcome"]) == (SlotStatus.FAILED, "interrupted")


def test_an_interrupted_slot_gives_way_to_a_later_one_and_is_closed(ledger: Ledger) -> None:
    clock, worker = FakeClock(), Worker()
    early = (HOURLY.latest(clock.now()) or 0) - 2 * HOUR
    with ledger.write() as tx:
        tx.slots.claim("prune", early, holder="dead", at=early)
    due(slots_of(ledger, clock, worker))
    assert worker.runs == 1
    assert [(s.slot == early, s.status) for s in stored(ledger)] == [
        (False, SlotStatus.DONE),
        (True, SlotStatus.FAILED),
    ]


def test_a_job_that_another_process_runs_is_left_to_it(ledger: Ledger, ledger_url: str | None, tmp_path: Path) -> None:
    worker = Worker()
    with open_ledger(ledger_url, data_dir=tmp_path / "kb") as other, other.lock(job_lock(PRUNE)):
        with pytest.raises(Locked):
            due(slots_of(ledger, FakeClock(), worker))
        assert slots_of(ledger, FakeClock(), worker).run_due(JobName.GC, HOURLY) is not None, "other jobs go on"
    assert worker.runs == 1


def test_a_holder_that_lost_its_lock_stops_and_writes_nothing(
    ledger: Ledger, ledger_url: str | None, tmp_path: Path
) -> None:
    clock, other_worker = FakeClock(), Worker()

    def robbed() -> None:
        lose(ledger_url, tmp_path / "kb", job_lock(PRUNE))
        with open_ledger(ledger_url, data_dir=tmp_path / "kb") as other:
            assert due(slots_of(other, clock, other_worker, holder="two")) is not None

    worker = Worker(InputError("what the first one would report"), during=robbed)
    due(slots_of(ledger, clock, worker))
    assert worker.stopped == [True]
    assert other_worker.stopped == [False]
    (slot,) = stored(ledger)
    assert (slot.status, slot.holder, slot.attempts) == (SlotStatus.DONE, "two", 2)


def test_a_stopped_slot_is_taken_up_by_the_next_daemon(ledger: Ledger) -> None:
    clock = FakeClock()
    told: list[bool] = []
    worker = Worker(during=lambda: told.append(True))
    due(slots_of(ledger, clock, worker, is_stopped=lambda: bool(told)))
    assert stored(ledger)[0].report["outcome"] == "stopped"
    ran = due(slots_of(ledger, clock, Worker(), holder="two"))
    assert ran is not None
    assert (ran.attempt, stored(ledger)[0].status) == (2, SlotStatus.DONE)


def test_a_given_slot_is_run_whatever_was_tried_before_but_once_it_is_done(ledger: Ledger) -> None:
    clock, worker = FakeClock(), Worker(*[LedgerUnavailable("away")] * 4)
    slots = slots_of(ledger, clock, worker)
    slot = clock.now() - HOUR
    for attempt in range(1, 6):
        ran = slots.run_slot(PRUNE, slot)
        assert ran is not None
        assert ran.attempt == attempt
    assert slots.run_slot(PRUNE, slot) is None
    assert worker.runs == 5


def test_upkeep_forgets_old_slots_but_never_a_jobs_latest(ledger: Ledger) -> None:
    clock = FakeClock()
    with ledger.write() as tx:
        for n in range(5):
            tx.slots.claim("prune", n * HOUR, holder="x", at=n * HOUR)
        tx.slots.claim("gc", 0, holder="x", at=0)
        assert tx.upkeep.forget_slots(clock.now()) == 4
    assert [s.slot for s in stored(ledger)] == [4 * HOUR]
    assert len(stored(ledger, JobName.GC)) == 1
    with ledger.read() as tx:
        assert tx.upkeep.slot_before("prune", 4 * HOUR) == 4 * HOUR
        assert tx.upkeep.slot_before("prune", 4 * HOUR - 1) is None


def test_a_run_that_was_told_to_stop_uses_up_no_attempt(ledger: Ledger) -> None:
    clock = FakeClock(HOURLY.after(1_800_000_000_000) or 0)
    for n in range(RULES.attempts):
        told: list[bool] = []
        stopped = slots_of(
            ledger,
            clock,
            Worker(during=lambda told=told: told.append(True)),
            holder=f"rollout {n}",
            is_stopped=lambda told=told: bool(told),
        )
        assert due(stopped) is not None
    waits = []
    slots = slots_of(ledger, clock, Worker(*[LedgerUnavailable("away")] * 9))
    for _ in range(600):
        if due(slots) is not None:
            waits.append(clock.now() - (HOURLY.latest(clock.now()) or 0))
        clock.advance(5 * SECOND)
    assert waits == [0, 60 * SECOND, 180 * SECOND], "as often and as late as one that nobody told to stop"


def test_a_slot_that_was_told_to_stop_and_then_kills_a_holder_is_taken_again(ledger: Ledger) -> None:
    clock, slot = FakeClock(), HOURLY.latest(FakeClock().now()) or 0
    for _ in range(RULES.attempts):
        told: list[bool] = []
        worker = Worker(during=lambda told=told: told.append(True))
        due(slots_of(ledger, clock, worker, is_stopped=lambda told=told: bool(told)))
    with ledger.write() as tx:
        assert tx.slots.retake("prune", slot, holder="dead", at=clock.now())
    worker = Worker()
    assert due(slots_of(ledger, clock, worker, holder="two")) is not None
    assert worker.runs == 1


def test_a_clock_that_was_ahead_when_slots_were_forgotten_and_is_set_back_runs_nothing_twice(ledger: Ledger) -> None:
    clock, worker = FakeClock(), Worker()
    slots = slots_of(ledger, clock, worker)
    for days in (0, 400, 400):
        clock.advance(days * DAY)
        assert due(slots) is not None
        with ledger.write() as tx:
            tx.upkeep.forget_slots(clock.now() - SLOT_DAYS * DAY)
    for _ in range(2):
        clock.advance(-400 * DAY)
        assert due(slots) is None
    assert worker.runs == 3


def test_upkeep_forgets_a_long_row_of_slots_whole(ledger: Ledger) -> None:
    with ledger.write() as tx:
        for n in range(60):
            tx.slots.claim("prune", n * WEEK, holder="x", at=n * WEEK)
        assert tx.upkeep.forget_slots(50 * WEEK) == 50
        assert tx.upkeep.forget_slots(50 * WEEK) == 0
    assert [s.slot // WEEK for s in stored(ledger)] == list(range(59, 49, -1))
