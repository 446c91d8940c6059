"""Whose turn it is: the slot that a job should run now, anew or again, and when to look next. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobs.schedule import Schedule
    from kb.ledger.slots import Slot
    from kb.model import Instant

STOPS = "stops"  # key in a slot's report: its runs so far that ended because they were told to
LONGEST_WAIT = 6 * 3_600_000  # milliseconds; so that a long row of doublings never outlasts a night


class Outcome(StrEnum):
    """How a run ended."""

    DONE = "done"
    PARTIAL = "partial"  # some of it failed for good; each is listed, the rest is done
    REFUSED = "refused"  # a guard said no; only a person can say yes
    FAILED = "failed"  # something that may pass: the slot is run again
    STOPPED = "stopped"  # its daemon was told to end, or lost its lock; the rest is still to be done
    INTERRUPTED = "interrupted"  # its process died


class Deed(StrEnum):
    """What to do with a slot."""

    BEGIN = "begin"
    REPEAT = "repeat"
    GIVE_UP = "give_up"  # it has taken its process down, and no attempt is left


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A slot, and what to do with it."""

    slot: Instant
    deed: Deed


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How often and how late a slot may run.

    Args:
        attempts: runs of one slot before it counts as failed for good, but for those told to stop; at least 1.
        backoff: milliseconds before the second attempt; doubles with each.
        misfire: milliseconds by which a slot may be late.
    """

    attempts: int
    backoff: int
    misfire: int

    def wait(self, attempts: int) -> int:
        """Return the milliseconds to wait after so many attempts, at least one of them made."""
        return min(LONGEST_WAIT, self.backoff << min(attempts - 1, 40))


def turn_of(schedule: Schedule, at: Instant, taken: Slot | None, rules: Rules) -> Turn | None:
    """Return what a job should run now; None: nothing. Who asks holds the job's lock.

    Of several missed slots only the latest is run: whatever an earlier one left undone, it does, too.

    Args:
        schedule: of the job.
        at: now.
        taken: the latest slot at or before now that anybody took; what counts as running lost its holder.
        rules: how often, how late.
    """
    slot = schedule.due(at, last=None if taken is None else taken.slot, misfire=rules.misfire)
    if slot is not None:
        return Turn(slot=slot, deed=Deed.BEGIN)
    if taken is None or schedule.is_off:
        return None
    if taken.status == "running" and tries_of(taken) >= rules.attempts:
        return Turn(slot=taken.slot, deed=Deed.GIVE_UP)
    is_time = _is_ready(taken, at, rules) and at - taken.slot <= rules.misfire
    return Turn(slot=taken.slot, deed=Deed.REPEAT) if is_time else None


def _is_ready(taken: Slot, at: Instant, rules: Rules) -> bool:
    """Return whether a slot may be run again now.

    A clock that was set back must not make it wait for long. But the clocks of two replicas are never quite the same,
    and the one that is behind must not skip the wait; so it counts as set back when it is behind by more than that.
    """
    ready, finished = ready_at(taken, rules), taken.finished_at or 0
    return ready is not None and (ready <= at or finished - at > ready - finished)


def ready_at(taken: Slot, rules: Rules) -> Instant | None:
    """Return when a slot may be run again; None: not at all."""
    if taken.status == "running":
        return taken.started_at
    if taken.status == "done":
        return None
    if outcome_of(taken) is Outcome.STOPPED:
        return taken.finished_at
    if outcome_of(taken) is not Outcome.FAILED or tries_of(taken) >= rules.attempts:
        return None
    return (taken.finished_at or taken.started_at) + rules.wait(tries_of(taken))


def look_at(schedule: Schedule, at: Instant, taken: Slot | None, rules: Rules) -> Instant | None:
    """Return the next instant at which it may be the job's turn, given that it is not now; None: never again."""
    after = schedule.after(at)
    again = None if taken is None or taken.status == "running" else ready_at(taken, rules)
    return min((t for t in (after, again) if t is not None and t > at), default=None)


def outcome_of(taken: Slot) -> Outcome:
    """Return how a slot's latest run ended; of one that says nothing, what its status says."""
    said = taken.report.get("outcome")
    if isinstance(said, str) and said in [outcome.value for outcome in Outcome]:
        return Outcome(said)
    return Outcome.DONE if taken.status == "done" else Outcome.FAILED


def stops_of(taken: Slot) -> int:
    """Return how many of a slot's runs so far ended because they were told to; 0 when the record makes no sense."""
    said = taken.report.get(STOPS)
    return said if type(said) is int and 0 <= said <= taken.attempts else 0


def tries_of(taken: Slot) -> int:
    """Return how many of a slot's runs count as attempts, at least 1: each but those that were told to stop.

    A slot that is running counts its run, which may yet be told to.
    """
    return max(1, taken.attempts - stops_of(taken))
