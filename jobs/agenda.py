"""What a daemon has to look at, and when: the schedules, and for each job the instant before which nothing is due."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from jobs.names import JobName
from jobs.schedule import HOUR, SECOND, schedules
from jobs.turn import Rules, look_at, turn_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs.schedule import Schedule
    from kb.ledger.slots import Slot
    from kb.model import Instant
    from kb.settings_governance import JobsSettings

PATIENCE = 3 * SECOND  # before a job is looked at again that somebody else was running
FAR = 60 * SECOND  # nothing is believed for longer: another process may have changed the ledger


class Agenda:
    """The schedules of the jobs that are on. Safe for threads.

    Args:
        known: schedule by job, without those that are off.
        rules: how often, how late.
    """

    def __init__(self, known: Mapping[JobName, Schedule], rules: Rules) -> None:
        self.schedules = dict(known)
        self.rules = rules
        self._mutex = threading.Lock()
        self._look: dict[JobName, Instant] = {}
        self._seen: Instant = 0

    @classmethod
    def of(cls, settings: JobsSettings) -> Self:
        """Return the agenda that `[jobs]` means.

        Raises:
            ConfigError: a schedule is none.
        """
        return cls({job: s for job, s in schedules_of(settings).items() if not s.is_off}, rules_of(settings))

    @property
    def shown(self) -> dict[str, str]:
        """Schedule by job, as texts."""
        return {job.setting: schedule.text for job, schedule in self.schedules.items()}

    def to_look_at(self, at: Instant) -> list[JobName]:
        """Return the jobs for which something may be due now. A clock that was set back makes all of them that."""
        with self._mutex:
            if at < self._seen:
                self._look.clear()
            self._seen = at
            return [job for job in self.schedules if self._look.get(job, at) <= at]

    def is_turn(self, job: JobName, at: Instant, taken: Slot | None) -> bool:
        """Return whether it is a job's turn; if not, do not look at it before that may change."""
        schedule = self.schedules[job]
        if turn_of(schedule, at, taken, self.rules) is not None:
            return True
        again = look_at(schedule, at, taken, self.rules)
        with self._mutex:
            self._look[job] = min(at + FAR, at + FAR if again is None else again)
        return False

    def later(self, job: JobName, at: Instant, wait: int = PATIENCE) -> None:
        """Look at a job again after some milliseconds, not before."""
        with self._mutex:
            self._look[job] = at + wait

    def forget(self, job: JobName | None = None) -> None:
        """Look at a job, or at all of them, as soon as possible."""
        with self._mutex:
            if job is None:
                self._look.clear()
            else:
                self._look.pop(job, None)


def schedules_of(settings: JobsSettings) -> dict[JobName, Schedule]:
    """Return the schedule of every job, those that are off included.

    Raises:
        ConfigError: a schedule is none; the message names the setting.
    """
    parsed = schedules({job.setting: getattr(settings, job.setting) for job in JobName})
    return {job: parsed[job.setting] for job in JobName}


def rules_of(settings: JobsSettings) -> Rules:
    """Return how often and how late a slot may run."""
    return Rules(
        attempts=settings.attempts,
        backoff=round(settings.backoff_seconds * SECOND),
        misfire=round(settings.misfire_hours * HOUR),
    )
