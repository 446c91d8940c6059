"""Periods in one notation, so that those which are equal compare equal across formats and languages. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb.dates.almanac import MONTHS, day_of

if TYPE_CHECKING:
    from kb.dates.period import Period


def notation_of(period: Period) -> str:
    """Return `2024`, `2024-03`, `2024-03-05`, or `first..last` day of any other stretch."""
    first, last = day_of(period.start), day_of(period.end - 1)
    if first == last:
        return first.isoformat()
    after = day_of(period.end)
    if first.day == after.day == 1 and (after.year * MONTHS + after.month) - (first.year * MONTHS + first.month) == 1:
        return f"{first.year}-{first.month:02}"
    whole_year = (first.month, first.day, after.month, after.day) == (1, 1, 1, 1) and after.year == first.year + 1
    return f"{first.year}" if whole_year else f"{first.isoformat()}..{last.isoformat()}"
