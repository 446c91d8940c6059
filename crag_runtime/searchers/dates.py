"""When a page says it was published, in the many ways pages say it: pure, and never raises."""

from __future__ import annotations

import contextlib
import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from kb.clock import LAST_SECOND

if TYPE_CHECKING:
    from kb.model import Instant

_LONGEST = 64
_NUMBER = re.compile(r"\d{9,13}(?:\.\d{1,9})?", re.ASCII)
_MILLISECONDS_FROM = 10**11  # as seconds this is the year 5138
_EARLIEST_EPOCH = 10**8  # smaller numbers are years or ranks, no instants
_YEAR_MONTH_DAY = re.compile(r"(\d{4})[年/.](\d{1,2})[月/.](\d{1,2})日?(?!\d)")
_WRITTEN = ("%b %d, %Y", "%B %d, %Y", "%d %b %Y", "%d %B %Y", "%b %d %Y", "%B %d %Y")


def instant_of(value: object) -> Instant | None:
    """Return the instant that a date means: ISO 8601, RFC 2822, epoch in seconds or milliseconds, or a written day.

    A date without a zone is taken as UTC, a day as its first instant. None for anything else, and for what no
    calendar from 1970 to 9999 holds.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _of_number(value)
    if not isinstance(value, str) or not (text := value.strip()) or len(text) > _LONGEST:
        return None
    if _NUMBER.fullmatch(text):
        return _of_number(float(text))
    found = _of_iso(text) or _of_mail(text) or _of_numbers(text) or _of_words(text)
    return None if found is None else _of_datetime(found)


def _of_number(value: float) -> Instant | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    if not math.isfinite(number) or number < _EARLIEST_EPOCH:
        return None
    return _bounded(round(number if number >= _MILLISECONDS_FROM else number * 1000))


def _of_iso(text: str) -> datetime | None:
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(text)
    return None


def _of_mail(text: str) -> datetime | None:
    with contextlib.suppress(ValueError, TypeError, IndexError, OverflowError):
        return parsedate_to_datetime(text)
    return None


def _of_numbers(text: str) -> datetime | None:
    if found := _YEAR_MONTH_DAY.match(text):
        with contextlib.suppress(ValueError):
            return datetime(int(found[1]), int(found[2]), int(found[3]), tzinfo=UTC)
    return None


def _of_words(text: str) -> datetime | None:
    for pattern in _WRITTEN:
        with contextlib.suppress(ValueError):
            return datetime.strptime(text, pattern).replace(tzinfo=UTC)
    return None


def _of_datetime(found: datetime) -> Instant | None:
    aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    try:
        return _bounded(round(aware.timestamp() * 1000))
    except (OverflowError, ValueError):
        return None


def _bounded(instant: int) -> Instant | None:
    return instant if 0 <= instant <= LAST_SECOND else None
