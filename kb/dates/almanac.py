"""The calendar that periods are made of, in days and UTC: pure arithmetic, no words.

A part of a year is (first month, last month, first day, last day), days 0 when whole months are meant; so one shape
serves months, quarters, halves, days and stretches of days.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kb.model import Instant

DAY_MS = 86_400_000
FIRST_YEAR, LAST_YEAR = 1000, 2999  # what four digits can mean as a year
MONTHS = DECEMBER = 12
_DAYS = {"day": 1, "week": 7}
UNIT_MONTHS = {"month": 1, "quarter": 3, "half": 6, "year": 12, "decade": 120}
_EPOCH = date(1970, 1, 1).toordinal()


class Part(NamedTuple):
    """Months, or days of one month, of a year that is said elsewhere."""

    first: int
    last: int
    day: int = 0
    last_day: int = 0


class Span(NamedTuple):
    """Days [start, end)."""

    start: date
    end: date


WHOLE_YEAR = Part(1, MONTHS)


def instant(day: date) -> Instant:
    """Return the first millisecond of a day, UTC."""
    return (day.toordinal() - _EPOCH) * DAY_MS


def day_of(at: Instant) -> date:
    """Return the day of an instant, UTC; instants outside the calendar give its edges."""
    low, high = instant(date(FIRST_YEAR, 1, 1)), instant(date(LAST_YEAR, MONTHS, 31))
    return datetime.fromtimestamp(min(max(at, low), high) / 1000, tz=UTC).date()


def quarter(number: int) -> Part:
    """Return a quarter, 1 to 4."""
    return Part(3 * number - 2, 3 * number)


def half(number: int) -> Part:
    """Return a half, 1 or 2."""
    return Part(6 * number - 5, 6 * number)


def span(year: int, part: Part = WHOLE_YEAR) -> Span | None:
    """Return the days of a part of a year; None for a date that does not exist."""
    if not FIRST_YEAR <= year <= LAST_YEAR:
        return None
    try:
        start = date(year, part.first, part.day or 1)
        if part.day:
            end = date(year, part.last, part.last_day or part.day) + timedelta(days=1)
        else:
            end = month_start(year, part.last + 1)
    except ValueError:
        return None
    return Span(start, end) if start < end else None


def joined(first: Span | None, last: Span | None) -> Span | None:
    """Return from the first to the end of the last; None unless the last starts later."""
    return Span(first.start, last.end) if first and last and first.start < last.start else None


def month_start(year: int, month: int) -> date:
    """Return the first day of a month; months below 1 and above 12 run into other years.

    Raises:
        ValueError: the year is outside 1 to 9999.
    """
    shifted, zero_based = divmod(year * MONTHS + month - 1, MONTHS)
    return date(shifted, zero_based + 1, 1)


def shifted(today: date, unit: str, by: int, length: int = 1) -> Span | None:
    """Return `length` whole units, the first of them `by` units after today's; None outside the calendar.

    Args:
        today: in the unit numbered 0.
        unit: day, week (from Monday), month, quarter, half, year or decade.
        by: negative for the past.
        length: at least 1.
    """
    try:
        if unit in _DAYS:
            first = today - timedelta(days=today.weekday()) if unit == "week" else today
            start = first + timedelta(days=by * _DAYS[unit])
            end = start + timedelta(days=length * _DAYS[unit])
        else:
            size = UNIT_MONTHS[unit]
            index = (today.year * MONTHS + today.month - 1) // size + by
            start, end = month_start(0, index * size + 1), month_start(0, (index + length) * size + 1)
    except (ValueError, OverflowError):
        return None
    return Span(start, end) if start.year >= FIRST_YEAR and end.year <= LAST_YEAR + 1 else None
