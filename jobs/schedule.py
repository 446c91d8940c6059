"""When a job is due. Pure arithmetic on instants in UTC: no time zone, so no hour is ever missing or there twice.

A schedule is a period and a phase; its slots are the instants `phase + n · period`. Which slots there are depends on
nothing but the schedule, so every replica and every restart agrees on them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kb.model import Instant

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY

_UNITS = {"s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}
_DAYS = ("thursday", "friday", "saturday", "sunday", "monday", "tuesday", "wednesday")  # as the epoch's first week has
_EVERY = re.compile(r"every (\d{1,6}) ?([smhd])")
_HOURLY = re.compile(r"hourly :(\d\d)")
_DAILY = re.compile(r"daily (\d{1,2}):(\d\d)")
_WEEKLY = re.compile(r"weekly (\w+) (\d{1,2}):(\d\d)")
_HINT = "write `hourly :15`, `daily 02:00`, `weekly sun 04:00`, `every 10m` or `off`; times are UTC"
_DAY_HINT = "name the day: mon tue wed thu fri sat sun; numbers mean different days to different schedulers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The slots of a job.

    Args:
        text: as it was written.
        period: milliseconds between two slots; 0: there are none, the job is off.
        phase: milliseconds from the epoch to a slot, in [0, period).
    """

    text: str
    period: int
    phase: int = 0

    @property
    def is_off(self) -> bool:
        """Whether it has no slots."""
        return self.period == 0

    def latest(self, at: Instant) -> Instant | None:
        """Return the latest slot at or before an instant; None when the job is off, or before the epoch."""
        if self.is_off:
            return None
        slot = at - (at - self.phase) % self.period
        return slot if slot >= 0 else None

    def after(self, at: Instant) -> Instant | None:
        """Return the first slot after an instant; None when the job is off."""
        if self.is_off:
            return None
        return max(self.phase, at - (at - self.phase) % self.period + self.period)

    def due(self, at: Instant, *, last: Instant | None, misfire: int) -> Instant | None:
        """Return the one slot to run now: of all that were missed since the last one, the latest.

        Args:
            at: now.
            last: the last slot at or before now that was run; None: none ever was.
            misfire: milliseconds by which a slot may be late; one that is later is passed over.
        """
        slot = self.latest(at)
        if slot is None or at - slot > misfire:
            return None
        return slot if last is None or slot > last else None


OFF = Schedule(text="off", period=0)


def parsed(text: str, *, setting: str) -> Schedule:
    """Return the schedule that a text means; capitals and further blanks do not matter.

    Args:
        text: e.g. `weekly sun 04:00`.
        setting: the setting that holds it, as an error should name it.

    Raises:
        ConfigError: it is none.
    """
    said = " ".join(text.lower().split())
    if said == "off":
        return OFF
    if found := _EVERY.fullmatch(said):
        period = int(found[1]) * _UNITS[found[2]]
        return Schedule(text=said, period=_checked(period > 0, period, text, setting))
    if found := _HOURLY.fullmatch(said):
        return Schedule(text=said, period=HOUR, phase=_time("0", found[1], text, setting))
    if found := _DAILY.fullmatch(said):
        return Schedule(text=said, period=DAY, phase=_time(found[1], found[2], text, setting))
    if found := _WEEKLY.fullmatch(said):
        phase = _day(found[1], text, setting) * DAY + _time(found[2], found[3], text, setting)
        return Schedule(text=said, period=WEEK, phase=phase)
    raise _wrong(text, setting, _HINT)


def schedules(texts: Mapping[str, str]) -> dict[str, Schedule]:
    """Return the schedule of each setting of `[jobs]`, by its key.

    Raises:
        ConfigError: one of them is none; the message names it.
    """
    return {key: parsed(text, setting=f"jobs.{key}") for key, text in texts.items()}


def _time(hour: str, minute: str, text: str, setting: str) -> int:
    is_time = int(hour) <= 23 and int(minute) <= 59  # noqa: PLR2004 - of a day
    return _checked(is_time, int(hour) * HOUR + int(minute) * MINUTE, text, setting)


def _day(name: str, text: str, setting: str) -> int:
    for number, day in enumerate(_DAYS):
        if name in (day, day[:3]):
            return number
    raise _wrong(text, setting, _DAY_HINT)


def _checked(is_right: bool, value: int, text: str, setting: str) -> int:  # noqa: FBT001 - reads as the claim it is
    if not is_right:
        raise _wrong(text, setting, _HINT)
    return value


def _wrong(text: str, setting: str, hint: str) -> ConfigError:
    return ConfigError(f"{setting} is {text!r}, which is no schedule", hint=hint)
