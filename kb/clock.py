"""The one place that reads the time, and how an instant is written."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.model import Instant


class SystemClock:
    """The machine's clock."""

    def now(self) -> Instant:
        """Return the instant: epoch milliseconds, UTC."""
        return time.time_ns() // 1_000_000


LAST_SECOND: int = 253_402_300_799_000  # 9999-12-31T23:59:59Z, the last that a calendar date can name


def iso(instant: Instant | None) -> str | None:
    """Return an instant as ISO 8601 in UTC, to the second; None for none, or for one no calendar can name."""
    if instant is None or not 0 <= instant <= LAST_SECOND:
        return None
    return datetime.fromtimestamp(instant / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
