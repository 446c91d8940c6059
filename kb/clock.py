"""The one place that reads the time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.model import Instant


class SystemClock:
    """The machine's clock."""

    def now(self) -> Instant:
        """Return the instant: epoch milliseconds, UTC."""
        return time.time_ns() // 1_000_000
