"""`kb daemon`: leads or stands by, and runs each job when its slot comes, until it is told to end.

The scheduler's own clockwork fires jobs at their slots; what has run is known by the ledger alone. So a look at the
ledger, every time the lease is looked at, finds what the clockwork cannot know: a slot that was missed while nobody
led, one to be tried again, a clock that was set or a machine that slept. Both only ask whose turn it is, and the ledger
gives a slot to one.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from apscheduler.events import EVENT_JOB_MAX_INSTANCES, JobSubmissionEvent  # type: ignore[import-untyped] # has no types
from apscheduler.executors.pool import ThreadPoolExecutor  # type: ignore[import-untyped]
from apscheduler.schedulers.background import BackgroundScheduler  # type: ignore[import-untyped]
from apscheduler.triggers.base import BaseTrigger  # type: ignore[import-untyped]

from jobs.agenda import Agenda
from jobs.context import JobContext
from jobs.health import EVERY, STOPPED, Pulse, health_page, touch
from jobs.lease import Lease
from jobs.names import JobName, Lane
from jobs.registry import TASKS, run
from jobs.slots import Slots
from kb.errors import KbError, Locked
from kb.ledger.slots import DaemonBeat
from kb.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from jobs.registry import Task
    from jobs.report import Tally
    from jobs.schedule import Schedule
    from jobs.slots import Ran
    from jobs.stopping import Stop
    from kb.ledger import Ledger
    from kb.memories import Memories
    from kb.model import Instant
    from kb.ports import Clock
    from kb.settings import Settings


class SlotTrigger(BaseTrigger):  # type: ignore[misc] # the library has no types
    """Fires at a schedule's slots."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
        """Return the first slot after now; those before are for who looks at the ledger."""
        del previous
        slot = self._schedule.after(int(now.timestamp() * 1000))
        return None if slot is None else datetime.fromtimestamp(slot / 1000, UTC)


class Daemon:
    """One of the daemons on a ledger. `serve` returns when it is told to end and its running batches are done.

    Args:
        settings: all of them; `[jobs]` says when.
        ledger: of the lease, the slots and the heartbeats.
        clock: the time.
        open_memories: opens the store for one run of a job.
        stop: tells it to end.
        tasks: what the jobs do.

    Raises:
        ConfigError: a schedule of `[jobs]` is none.
    """

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        *,
        clock: Clock,
        open_memories: Callable[[], AbstractContextManager[Memories]],
        stop: Stop,
        tasks: Mapping[JobName, Task] = TASKS,
    ) -> None:
        self.id = uuid.uuid4().hex
        self._settings = settings
        self._ledger = ledger
        self._clock = clock
        self._open_memories = open_memories
        self._stop = stop
        self._tasks = tasks
        self._lease = Lease(ledger)
        self._agenda = Agenda.of(settings.jobs)
        holder = f"{socket.gethostname()}:{os.getpid()}:{self.id[:8]}"
        self._slots = Slots(
            ledger, clock, rules=self._agenda.rules, holder=holder, work=self._work, is_stopped=self._is_stopped
        )
        self._mutex = threading.Lock()
        self._waiting: set[JobName] = set()  # given to the clockwork, not begun yet
        self._running: dict[JobName, None] = {}
        self._started_at = clock.now()
        self._pulse = Pulse(id=self.id, state="starting", every=round(settings.jobs.heartbeat_seconds * 1000))
        self._beat_again = 0.0  # monotonic
        self._scheduler = self._clockwork()

    def serve(self) -> None:
        """Lead or stand by until told to end; then let running batches finish."""
        jobs = self._settings.jobs
        pause = min(jobs.lease_seconds, jobs.heartbeat_seconds)  # a tick is when the heart beats, too
        with ExitStack() as stack:
            port = stack.enter_context(health_page(jobs.health_port, self._look))
            stack.callback(self._lease.give_back)
            get_logger().info("daemon_started", daemon=self.id, pid=os.getpid(), health_port=port, **self._agenda.shown)
            self._beat("waiting")
            self._scheduler.start()
            while not self._stop.is_set():
                self._tick()
                self._stop.wait(pause)
            self._drain()

    def _clockwork(self) -> BackgroundScheduler:
        logging.getLogger("apscheduler").setLevel(logging.ERROR)  # what runs and fails is logged by us, once
        scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={lane.value: ThreadPoolExecutor(1) for lane in Lane},
            # Whether a slot is too late, the ledger's rules say; the clockwork drops nothing that waited in its lane.
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        scheduler.add_listener(self._turned_away, EVENT_JOB_MAX_INSTANCES)
        for job, schedule in self._agenda.schedules.items():
            scheduler.add_job(
                partial(self._turn, job), SlotTrigger(schedule), id=job.value, name=job.value, executor=job.lane.value
            )
        return scheduler

    def _tick(self) -> None:
        """Keep the lease or try for it; give the clockwork what is due; beat."""
        try:
            is_leading = self._led()
            for job in self._agenda.to_look_at(self._clock.now()) if is_leading else ():
                self._rouse(job)
        except KbError as error:
            self._beat("waiting", is_leader=self._lease.is_held(), problem=error)
            return
        if time.monotonic() >= self._beat_again:
            self._beat("leading" if is_leading else "waiting")

    def _led(self) -> bool:
        was_leading = self._pulse.is_leader
        is_leading = self._lease.take()
        if is_leading != was_leading:
            get_logger().info("lease_taken" if is_leading else "lease_lost", daemon=self.id)
            self._agenda.forget()
            self._beat("leading" if is_leading else "waiting", is_leader=is_leading)
        return is_leading

    def _rouse(self, job: JobName) -> None:
        """Let the clockwork run a job now, if it is its turn and it is not running."""
        with self._mutex:
            if job in self._waiting or job in self._running:
                return
        now = self._clock.now()
        if not self._agenda.is_turn(job, now, self._slots.taken(job, now)):
            return
        with self._mutex:
            self._waiting.add(job)
        self._scheduler.modify_job(job.value, next_run_time=datetime.now(UTC) - timedelta(milliseconds=1))

    def _turned_away(self, event: JobSubmissionEvent) -> None:
        """Let a job be asked for again: the clockwork learns only after a turn's end that it is over."""
        with self._mutex:
            self._waiting.discard(JobName(event.job_id))

    def _turn(self, job: JobName) -> None:
        """Run a job's slot if one is due. In a lane's thread; every error ends here, as a line of the log."""
        with self._mutex:
            self._waiting.discard(job)
            self._running[job] = None
        ran: Ran | None = None
        try:
            if not self._is_stopped():
                ran = self._slots.run_due(job, self._agenda.schedules[job])
        except Locked as error:
            get_logger().info("job_is_run_elsewhere", job=job.value, why=str(error))
            self._agenda.later(job, self._clock.now())
        except KbError as error:
            get_logger().warning("job_not_begun", job=job.value, problem=str(error), hint=error.hint)
            self._agenda.later(job, self._clock.now())
        else:
            self._agenda.forget(job)
            if ran is not None and ran.unrecorded is not None:  # to the ledger it looks as if its process had died
                self._agenda.later(job, self._clock.now(), self._agenda.rules.wait(ran.tries))
        finally:
            with self._mutex:
                self._running.pop(job, None)
                self._waiting.discard(job)  # whoever asked for it meanwhile was turned away, and asks again

    def _work(self, job: JobName, is_stopped: Callable[[], bool]) -> Tally:
        context = JobContext(
            settings=self._settings,
            open_memories=self._open_memories,
            clock=self._clock,
            is_stopped=is_stopped,
            actor="daemon",
        )
        return run(job, context, self._tasks)

    def _is_stopped(self) -> bool:
        return self._stop.is_set() or not self._lease.is_held()

    def _drain(self) -> None:
        get_logger().info("daemon_draining", daemon=self.id, running=[job.value for job in self._running])
        self._beat("draining")
        done = threading.Event()
        ending = threading.Thread(target=self._shut_down, args=(done,), name="kb-drain")
        ending.start()
        while not done.wait(self._settings.jobs.heartbeat_seconds):
            self._beat("draining")
        ending.join()
        self._beat(STOPPED, is_leader=False)
        get_logger().info("daemon_stopped", daemon=self.id)

    def _shut_down(self, done: threading.Event) -> None:
        try:
            self._scheduler.shutdown(wait=True)
        finally:
            done.set()

    def _beat(self, state: str, *, is_leader: bool | None = None, problem: KbError | None = None) -> None:
        """Say that it lives: in the ledger, to whoever asks the page, and by the file."""
        leads = self._pulse.is_leader if is_leader is None else is_leader
        with self._mutex:
            running = tuple(job.value for job in self._running)
        shown = f"running {', '.join(running)}" if running and state == "leading" else state
        now = self._clock.now()
        problem = problem or self._recorded(shown, is_leader=leads, now=now)
        self._tell_problem(problem)
        at = self._pulse.at if problem else now
        said = "" if problem is None else str(problem)
        self._pulse = Pulse(
            id=self.id,
            state=shown,
            is_leader=leads,
            at=at,
            every=self._pulse.every,
            problem=said,
            running=running,
        )
        if problem is None:
            touch(self._settings.jobs.health_file, self._pulse.as_json(now))
        self._beat_again = time.monotonic() + self._settings.jobs.heartbeat_seconds

    def _recorded(self, state: str, *, is_leader: bool, now: Instant) -> KbError | None:
        beat = DaemonBeat(
            id=self.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=version("kbwarden"),
            is_leader=is_leader,
            state=state,
            started_at=self._started_at,
            heartbeat_at=now,
            report={EVERY: self._pulse.every},
        )
        try:
            with self._ledger.write() as tx:
                tx.slots.beat(beat)
        except KbError as error:
            return error
        return None

    def _tell_problem(self, problem: KbError | None) -> None:
        if problem is not None and not self._pulse.problem:
            get_logger().error("ledger_away", daemon=self.id, problem=str(problem), hint=problem.hint)
        elif problem is None and self._pulse.problem:
            get_logger().info("ledger_back", daemon=self.id)

    def _look(self) -> tuple[bool, Mapping[str, Any]]:
        now = self._clock.now()
        return self._pulse.is_alive(now), self._pulse.as_json(now)
