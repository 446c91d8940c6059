"""The one place that reads the time, and how an instant is written."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kb.errors import InputError

if TYPE_CHECKING:
    from kb.model import Instant


class SystemClock:
    """The machine's clock."""

    def now(self) -> Instant:
        """Return the instant: epoch milliseconds, UTC."""
        return time.time_ns() // 1_000_000


_RELATIVE = re.compile(r"([+-])(\d{1,6})([dhm])")
_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000}
LAST_SECOND: int = 253_402_300_799_000  # 9999-12-31T23:59:59Z, the last that a calendar date can name


def iso(instant: Instant | None) -> str | None:
    """Return an instant as ISO 8601 in UTC, to the second; None for none, or for one no calendar can name."""
    if instant is None or not 0 <= instant <= LAST_SECOND:
        return None
    return datetime.fromtimestamp(instant / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def instant(text: str, now: Instant) -> Instant:
    """Return the instant that `text` names: ISO 8601 (UTC where it names no zone), or relative to `now` like -7d, +12h.

    Raises:
        InputError: it is neither.
    """
    if match := _RELATIVE.fullmatch(text.strip()):
        sign, amount, unit = match.groups()
        return now + int(f"{sign}{amount}") * _MS[unit]
    try:
        when = datetime.fromisoformat(text.strip())
        aware = when if when.tzinfo else when.replace(tzinfo=UTC)
        return round(aware.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise InputError(f"{text!r} is no instant", hint="write 2026-03-01, 2026-03-01T12:00Z, -7d or +30d") from None
