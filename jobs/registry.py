"""What each job does: the table of jobs, and one run of one of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jobs.care import reconcile, verify_index
from jobs.names import JobName
from jobs.report import Tally
from jobs.sweeps import collect, decay, plan_of, promote, prune, recheck
from jobs.sync import sync
from kb.telemetry import Attr, Span, span

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobs.context import JobContext
    from kb.memories import Memories

    Task = Callable[[JobContext, Memories, Tally], None]

__all__ = ["TASKS", "plan_of", "run"]

TASKS: Mapping[JobName, Task] = {
    JobName.SYNC: sync,
    JobName.DECAY: decay,
    JobName.PROMOTE: promote,
    JobName.RECHECK: recheck,
    JobName.PRUNE: prune,
    JobName.GC: collect,
    JobName.RECONCILE: reconcile,
    JobName.VERIFY_INDEX: verify_index,
}


def run(job: JobName, context: JobContext, tasks: Mapping[JobName, Task] = TASKS) -> Tally:
    """Run a job once, and return what it did; whatever it meets stands in the report, nothing is raised."""
    tally = Tally(job=job, is_dry=context.is_dry)
    began = time.monotonic()
    with span(Span.JOB, {Attr.JOB: job.value}):
        tally.attempt(job.value, lambda: _run(tasks[job], context, tally))
    tally.seconds = time.monotonic() - began
    return tally


def _run(task: Task, context: JobContext, tally: Tally) -> None:
    with context.open_memories() as memories:
        task(context, memories, tally)
        tally.parts -= 1  # what the task attempts are its parts; the whole was none of them
