"""A daemon in this process: a clock that jumps, jobs that fail, jobs that take long, a ledger that goes away."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from jobs.daemon import Daemon
from jobs.lease import LEADER
from jobs.names import JobName, Lane
from jobs.schedule import HOUR, SECOND, WEEK
from jobs.status import status_of
from jobs.stopping import Stop
from kb.errors import ConfigError, LedgerUnavailable, Locked
from kb.ledger import open_ledger
from kb.settings import Settings
from tests.contract.test_lease import lose
from tests.daemons import until
from tests.stores import FakeClock, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jobs.context import JobContext
    from jobs.registry import Task
    from jobs.report import Tally
    from kb.ledger import Ledger
    from kb.memories import Memories

QUICK = {"lease_seconds": 0.02, "heartbeat_seconds": 0.1}
OFF = {job.setting: "off" for job in JobName}


@dataclass
class Seen:
    """Counts runs by job; a job does what it is told to."""

    runs: dict[JobName, int] = field(default_factory=dict)
    deeds: dict[JobName, Callable[[JobContext], None]] = field(default_factory=dict)

    def task(self, job: JobName) -> Task:
        def run(context: JobContext, memories: Memories, tally: Tally) -> None:
            del memories
            self.runs[job] = self.runs.get(job, 0) + 1
            tally.attempt("acme", lambda: self.deeds.get(job, lambda _: None)(context))

        return run

    @property
    def tasks(self) -> dict[JobName, Task]:
        return {job: self.task(job) for job in JobName}


@contextmanager
def serving(home: Path, clock: FakeClock, seen: Seen, ledger: Ledger, **jobs: object) -> Iterator[Stop]:
    """Serve in a thread; the daemon ends with the context."""
    settings = Settings(data_dir=home, jobs={**OFF, **QUICK, **jobs})  # type: ignore[arg-type]
    stop = Stop()
    daemon = Daemon(
        settings,
        ledger,
        clock=clock,
        open_memories=lambda: open_store(home / "store", clock=clock),
        stop=stop,
        tasks=seen.tasks,
    )
    thread = threading.Thread(target=daemon.serve)
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join(60)
        assert not thread.is_alive()
        stop.close()


def outcomes(ledger: Ledger, job: JobName) -> list[str]:
    with ledger.read() as tx:
        return [str(s.report.get("outcome", s.status.value)) for s in tx.slots.latest(job.value, 100)]


def beats(ledger: Ledger, clock: FakeClock, number: int = 3) -> None:
    """Wait until the daemon has looked at everything a few times."""
    for _ in range(number):
        clock.advance(1)
        now = clock.now()
        until(lambda now=now: _last_beat(ledger) >= now, "its heart beats")


def _last_beat(ledger: Ledger) -> int:
    with ledger.read() as tx:
        return max((d.heartbeat_at for d in tx.slots.daemons()), default=0)


def test_after_three_days_asleep_each_job_is_caught_up_once(tmp_path: Path) -> None:
    clock, seen = FakeClock(), Seen()
    with (
        open_ledger(None, data_dir=tmp_path / "kb") as ledger,
        serving(tmp_path, clock, seen, ledger, reconcile="hourly :15", sync="daily 02:00"),
    ):
        both = (JobName.RECONCILE, JobName.SYNC)
        until(lambda: all(outcomes(ledger, job) == ["done"] for job in both), "what never ran is run")
        clock.advance(72 * HOUR)
        until(lambda: all(outcomes(ledger, job) == ["done"] * 2 for job in both), "what was missed is run")
        clock.advance(HOUR)
        until(lambda: outcomes(ledger, JobName.RECONCILE) == ["done"] * 3, "time goes on")
        clock.advance(-HOUR)
        until(lambda: _last_beat(ledger) <= clock.now(), "its heart beats by the clock that was set back")
        clock.advance(HOUR)
        beats(ledger, clock)
        assert seen.runs == {JobName.RECONCILE: 3, JobName.SYNC: 2}, "what was run is not run again"
    assert set(seen.runs) == set(both), "what is off never runs"


def test_a_failing_job_is_repeated_with_backoff_while_the_others_go_on(tmp_path: Path) -> None:
    clock, seen = FakeClock(), Seen()
    clock.instant -= clock.instant % HOUR

    def fail(_: JobContext) -> None:
        raise LedgerUnavailable("away")

    def break_down(_: JobContext) -> None:
        raise ZeroDivisionError

    seen.deeds = {JobName.DECAY: fail, JobName.PROMOTE: break_down}
    hourly = dict.fromkeys(("decay", "promote", "prune"), "hourly :00")
    with (
        open_ledger(None, data_dir=tmp_path / "kb") as ledger,
        serving(tmp_path, clock, seen, ledger, reconcile="every 1m", attempts=2, backoff_seconds=60, **hourly),
    ):
        until(lambda: outcomes(ledger, JobName.PRUNE) == ["done"], "a job after the failing ones is run")
        until(lambda: outcomes(ledger, JobName.DECAY) == ["failed"], "it has failed")
        assert seen.runs[JobName.DECAY] == 1
        clock.advance(59 * SECOND)
        beats(ledger, clock)
        assert seen.runs[JobName.DECAY] == 1
        clock.advance(2 * SECOND)
        until(lambda: seen.runs[JobName.DECAY] == 2 and seen.runs[JobName.PROMOTE] == 2, "they are tried again")
        until(lambda: len(outcomes(ledger, JobName.RECONCILE)) == 2, "the others go on")
        clock.advance(30 * 60 * SECOND)
        beats(ledger, clock)
        assert (seen.runs[JobName.DECAY], seen.runs[JobName.PROMOTE], seen.runs[JobName.PRUNE]) == (2, 2, 1)
        state = status_of(ledger, Settings(jobs={**OFF, **hourly}).jobs, clock.now())  # type: ignore[arg-type]
        assert next(j.outcome for j in state.jobs if j.job is JobName.DECAY) == "failed"
    with open_ledger(None, data_dir=tmp_path / "kb") as ledger, ledger.read() as tx:
        (slot,) = tx.slots.latest("promote")
    assert "ZeroDivisionError" in str(slot.report["errors"])


def test_a_long_job_holds_up_no_other_lane_and_hears_that_it_should_end(tmp_path: Path) -> None:
    clock, seen = FakeClock(), Seen()
    begun, ended = threading.Event(), threading.Event()

    def take_long(context: JobContext) -> None:
        begun.set()
        until(context.is_stopped, "it is told to end")
        ended.set()

    seen.deeds = {JobName.SYNC: take_long}
    with (
        open_ledger(None, data_dir=tmp_path / "kb") as ledger,
        serving(tmp_path, clock, seen, ledger, sync="daily 02:00", reconcile="hourly :15", prune="daily 04:00"),
    ):
        assert begun.wait(60)
        until(lambda: outcomes(ledger, JobName.RECONCILE) == ["done"], "the index is cared for")
        until(lambda: outcomes(ledger, JobName.PRUNE) == ["done"], "sweeps go on")
        clock.advance(HOUR)
        until(lambda: outcomes(ledger, JobName.RECONCILE) == ["done"] * 2, "the index is cared for")
        assert not ended.is_set()
    assert ended.is_set()
    assert seen.runs[JobName.SYNC] == 1


def test_a_daemon_that_loses_its_lease_leads_again_and_goes_on(
    ledger: Ledger, ledger_url: str | None, tmp_path: Path
) -> None:
    clock, seen = FakeClock(), Seen()
    with (
        open_ledger(ledger_url, data_dir=tmp_path / "kb") as other,
        serving(tmp_path, clock, seen, ledger, reconcile="hourly :15", lease_seconds=1.0),
    ):
        until(lambda: outcomes(ledger, JobName.RECONCILE) == ["done"], "it leads")
        with ExitStack() as stack:
            until(lambda: _robbed(stack, other, ledger_url, tmp_path / "kb"), "another one leads")
            until(lambda: not _leads(ledger), "it knows")
            clock.advance(HOUR)
            beats(ledger, clock)
            assert seen.runs == {JobName.RECONCILE: 1}, "who does not lead runs nothing"
        until(lambda: outcomes(ledger, JobName.RECONCILE) == ["done"] * 2, "it leads again")


def test_a_job_hears_before_its_next_batch_that_its_daemon_leads_no_longer(tmp_path: Path) -> None:
    clock, seen = FakeClock(), Seen()
    begun, heard = threading.Event(), threading.Event()

    def take_long(context: JobContext) -> None:
        assert not context.is_stopped()
        begun.set()
        until(context.is_stopped, "it is told that another one leads")
        heard.set()

    seen.deeds = {JobName.PRUNE: take_long}
    once = {"lease_seconds": 300, "heartbeat_seconds": 300}  # it looks no second time
    with (
        open_ledger(None, data_dir=tmp_path / "kb") as ledger,
        serving(tmp_path, clock, seen, ledger, prune="daily 04:00", **once),
    ):
        assert begun.wait(60)
        lose(None, tmp_path / "kb")
        assert heard.wait(60)


def _robbed(stack: ExitStack, other: Ledger, ledger_url: str | None, data_dir: Path) -> bool:
    """Take the lease away and keep it, if the daemon is not quicker."""
    lose(ledger_url, data_dir)
    try:
        stack.enter_context(other.lock(LEADER))
    except Locked:
        return False
    return True


def _leads(ledger: Ledger) -> bool:
    with ledger.read() as tx:
        return any(d.is_leader for d in tx.slots.daemons())


class Full:
    """A ledger whose disk is full while it is told so: what is there can be read."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.is_full = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._ledger, name)

    def write(self) -> object:
        if self.is_full:
            raise LedgerUnavailable("the disk is full")
        return self._ledger.write()


def test_a_job_whose_end_the_full_disk_does_not_take_is_not_repeated_at_once(tmp_path: Path) -> None:
    clock, seen = FakeClock(), Seen()

    with open_ledger(None, data_dir=tmp_path / "kb") as ledger:
        full = Full(ledger)

        def fill_up(_: JobContext) -> None:
            full.is_full = True

        seen.deeds = {JobName.PRUNE: fill_up}
        with serving(tmp_path, clock, seen, full, prune="daily 04:00", attempts=3, backoff_seconds=60):  # type: ignore[arg-type]
            until(lambda: full.is_full, "it has run")
            until(lambda: not _runs(ledger), "its end was lost")
            full.is_full = False
            clock.advance(59 * SECOND)
            beats(ledger, clock)
            assert seen.runs[JobName.PRUNE] == 1, "it is no attempt that killed its process"
            seen.deeds = {}
            clock.advance(2 * SECOND)
            until(lambda: outcomes(ledger, JobName.PRUNE) == ["done"], "it is tried again")
        assert seen.runs[JobName.PRUNE] == 2


def _runs(ledger: Ledger) -> bool:
    """Return whether somebody holds the lock of the job."""
    try:
        with ledger.lock("job-prune"):
            return False
    except Locked:
        return True


def test_a_wrong_schedule_keeps_the_daemon_from_starting(tmp_path: Path) -> None:
    with (
        open_ledger(None, data_dir=tmp_path / "kb") as ledger,
        pytest.raises(ConfigError, match=r"jobs\.prune"),
        serving(tmp_path, FakeClock(), Seen(), ledger, prune="weekly 0 04:00"),
    ):
        pass


def test_a_job_that_waited_in_its_lane_beyond_the_misfire_grace_is_not_forgotten(tmp_path: Path) -> None:
    clock, seen, begun = FakeClock(), Seen(), time.monotonic()
    clock.instant -= clock.instant % HOUR

    def take_long(_: JobContext) -> None:
        until(lambda: time.monotonic() - begun > 2.5, "more than the clockwork's least grace has passed")

    seen.deeds = {JobName.DECAY: take_long}
    hourly = dict.fromkeys(("decay", "promote"), "hourly :00")
    with (
        open_ledger(None, data_dir=tmp_path / "kb") as ledger,
        serving(tmp_path, clock, seen, ledger, misfire_hours=0.0003, **hourly),
    ):
        until(lambda: outcomes(ledger, JobName.PROMOTE) == ["done"], "its slot is run, the lane being free again")


class Clockwork:
    """The library's clockwork, held up in a lane between the end of a first run and the moment when it knows of it."""

    def __init__(self) -> None:
        self.is_over, self.has_refused, self.goes_on = threading.Event(), threading.Event(), threading.Event()

    def _in_lane(self, record: logging.LogRecord) -> bool:
        if "executed successfully" in record.msg and not self.is_over.is_set():
            self.is_over.set()
            assert self.goes_on.wait(30)
        return False

    def _in_clockwork(self, record: logging.LogRecord) -> bool:
        if "maximum number of running instances" in record.msg:
            self.has_refused.set()
        return False

    @contextmanager
    def held(self, lane: Lane) -> Iterator[None]:
        """Hold it by what it logs: the only hook that it has at these moments."""
        heard = {f"executors.{lane.value}": self._in_lane, "scheduler": self._in_clockwork}
        loggers = {logging.getLogger(f"apscheduler.{name}"): hear for name, hear in heard.items()}
        for logger, hear in loggers.items():
            logger.setLevel(logging.INFO)
            logger.addFilter(hear)
        try:
            yield
        finally:
            for logger, hear in loggers.items():
                logger.setLevel(logging.NOTSET)
                logger.removeFilter(hear)


def test_a_job_that_the_clockwork_turned_away_is_given_to_it_again(tmp_path: Path) -> None:
    clock, seen, clockwork = FakeClock(), Seen(), Clockwork()
    with (
        open_ledger(None, data_dir=tmp_path / "kb") as ledger,
        clockwork.held(JobName.PRUNE.lane),
        serving(tmp_path, clock, seen, ledger, prune="weekly sun 04:00"),
    ):
        assert clockwork.is_over.wait(60)
        clock.advance(WEEK)
        assert clockwork.has_refused.wait(60), "to the clockwork the first run is not over yet"
        clockwork.goes_on.set()
        until(lambda: outcomes(ledger, JobName.PRUNE) == ["done"] * 2, "its slot is not left to the next one")


def test_a_daemon_that_seldom_looks_at_its_lease_is_alive_by_its_heart(tmp_path: Path) -> None:
    clock = FakeClock()
    settings = Settings(jobs={**OFF, **QUICK}).jobs  # type: ignore[arg-type]

    def healths() -> list[str]:
        return [d.health for d in status_of(ledger, settings, clock.now()).daemons]

    with (
        open_ledger(None, data_dir=tmp_path / "kb") as ledger,
        serving(tmp_path, clock, Seen(), ledger, lease_seconds=300),
    ):
        until(lambda: _leads(ledger), "it has looked at its lease")
        clock.advance(HOUR)
        until(lambda: healths() == ["alive"], "its heart beats on")
