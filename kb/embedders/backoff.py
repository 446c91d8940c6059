"""When to ask a busy endpoint again: pure rules. Seconds everywhere."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime
from math import isfinite

ATTEMPTS = 6
FIRST_S = 0.5
CAP_S = 30.0
LONGEST_S = 120.0  # an endpoint that asks for more is reported as unavailable, not waited for


def retry_after_seconds(value: str | None, now: float) -> float | None:
    """Return how long a `Retry-After` header asks to wait, or None when it says nothing that can be read.

    Args:
        value: the header: seconds, or an HTTP date.
        now: epoch seconds.
    """
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            at = parsedate_to_datetime(value)
        except ValueError:
            return None
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return max(0.0, at.timestamp() - now)
    return max(0.0, seconds) if isfinite(seconds) else None


def pause(attempt: int, asked: float | None) -> float | None:
    """Return how long to wait before the next attempt, or None to give up.

    Args:
        attempt: attempts made so far, from 1.
        asked: what the endpoint asked for; never undercut.
    """
    if attempt >= ATTEMPTS or (asked is not None and asked > LONGEST_S):
        return None
    return max(asked or 0.0, min(CAP_S, FIRST_S * 2.0 ** (attempt - 1)))
