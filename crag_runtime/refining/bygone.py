"""Whether a passage speaks of a time that is over, by what it says itself: title, headings, sentence. Pure.

When a passage was stored says nothing of the time that it speaks of, so that is not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb.dates.almanac import DAY_MS
from kb.dates.mentions import mentions

if TYPE_CHECKING:
    from crag_runtime.evidence import Evidence
    from kb.dates.period import Period, TimeIntent
    from kb.model import Instant


def ended(evidence: Evidence, today: Instant, sentence: str = "") -> Instant | None:
    """Return when the time ended that a passage speaks of; None when it goes on, or when it names none.

    A page on a quarter tells that quarter's state, whatever it says "since": so title and headings come first.

    Args:
        evidence: the passage.
        today: the instant of asking.
        sentence: of it, looked at where title and headings name no time; "" for none.
    """
    for text in ("\n".join((evidence.title, *evidence.heading_path)), sentence):
        named = [m.period for m in mentions(text, today) if not m.is_relative and not _is_day(m.period)]
        if named:
            return max(p.end for p in named) if all(p.end <= today for p in named) else None
    return None


def _is_day(period: Period) -> bool:
    """Return whether a period is one day: what was decided or published on a day may hold on."""
    return period.end - period.start <= DAY_MS


def wants_now(time: TimeIntent) -> bool:
    """Return whether a question is about the present: it names no period and no instant."""
    return not time.periods and time.as_of is None
