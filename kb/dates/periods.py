"""Periods that texts name, in English and Chinese, and what a question wants of time: pure.

Every period is [start, end) in epoch milliseconds, UTC. What counts as naming a period is told in
`kb.dates.mentions`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kb.dates.flat_text import flat
from kb.dates.mentions import DAWN, mentions
from kb.dates.period import Period, TimeIntent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kb.dates.mentions import Mention
    from kb.model import Instant

_DAY = 86_400_000
ANOTHER_TIME = "it speaks of another time than"  # in the reason of a grade that was lowered for that
AS_OF_REACH = 48  # characters between "as of" and its period

_CURRENT = re.compile(
    r"\b(?:latest|newest|current(?:ly)?|now|nowadays|today(?:'s)?|most\srecent(?:ly)?|recent(?:ly)?|up[\s-]to[\s-]date|at\s(?:present"
    r"|the\smoment|this\smoment)|these\sdays|present[\s-]day)\b"
    r"|最新|目前|(?<![出实体表发呈展再显])现在|当前|如今|现今|眼下|当下|时下|今天|今日|近期|(?<!离)(?<!离\w)(?<!离\w\w)最近|现阶段|现任|现行|截至今",
    re.IGNORECASE,
)
_COMPARED = re.compile(
    r"\b(?:year|quarter|month|week)[\s-](?:on|over)[\s-](?:year|quarter|month|week)\b|\b(?:yoy|y/y|qoq|q/q|m/m)\b"
    r"|同比|环比",
    re.IGNORECASE,
)
_NOT_CURRENT = re.compile(
    r"\b(?:electric(?:al)?|direct|alternating|eddy|ocean|leakage|rated|output|input|inrush|stall|supply|dc|ac)\scurrent\b"
    r"|\bcurrent\s(?:of\s\d|transformer|sensor|limit|draw|rating|consumption)",
    re.IGNORECASE,
)
_AS_OF = re.compile(
    r"\bas\s(?:of|at)\b|\bat\sthe\stime\sof\b|\bat\sthat\stime\b|\bback\sthen\b|截[至止]到?", re.IGNORECASE
)
_THEN = re.compile(r"\b(?:at\sthat\stime|back\sthen)\b|当时|那时|彼时", re.IGNORECASE)
_CHANGE = "(?:change|update|revision|release|amendment|increase|rise|reform|switch|migration|upgrade)"
_BEFORE_CHANGE = re.compile(
    rf"\bbefore\s(?:the\s|its\s|their\s)?(?:[\w'-]+\s){{0,4}}{_CHANGE}\b|(?:调整|变更|修订|改版|更新|升级|改革|涨价|修改)(?:之|以)?前",
    re.IGNORECASE,
)


def periods_in(text: str, today: Instant) -> tuple[Period, ...]:
    """Return the periods that a text names, in order, distinct by start and end.

    Args:
        text: any.
        today: what "last year" is resolved against.
    """
    return _distinct(mention.period for mention in mentions(text, today))


def time_intent(question: str, today: Instant) -> TimeIntent:
    """Return what a question wants of time.

    Of a period and a longer one that contains it ("in 2024, … in Q3") only the finer one is asked. An `as_of` is the
    last millisecond of the period that "as of", "at the time of", 截至 or 当时 go with, or the last one before the
    period that "before the change" goes with; never later than today.
    """
    plain = flat(question)
    found = mentions(question, today)
    periods = _distinct(mention.period for mention in found)
    finest = tuple(p for p in periods if not any(_contains(p, other) for other in periods))
    is_current = _CURRENT.search(_NOT_CURRENT.sub(" ", plain)) is not None
    return TimeIntent(
        is_current=is_current,
        periods=finest,
        as_of=_as_of(plain, found, today),
        is_compared=_COMPARED.search(plain) is not None,
    )


def mismatched(asked: Sequence[Period], text: str, dated: Instant | None, today: Instant) -> bool:
    """Return whether a passage names periods and none of them is one that is asked for.

    A passage that names no period never is mismatched, nor is one that names a longer period around, or a shorter one
    within, what is asked. Relative words of a passage ("last year") mean something on the day it was written only: they
    are resolved against `dated`, and skipped when that is unknown, or when they name single days.

    Args:
        asked: periods of the question; none never mismatch.
        text: of the passage; with its title and headings where they name the period.
        dated: when the passage was written. It is no named period: what was published in 2025 can be about 2024.
        today: end of open periods ("since 2022").
    """
    if not asked:
        return False
    named = [
        m for m in mentions(text, today if dated is None else dated) if not m.is_relative or _is_resolved(m, dated)
    ]
    return bool(named) and not any(overlaps(m.period, period) for m in named for period in asked)


def overlaps(one: Period, other: Period) -> bool:
    """Return whether two periods share an instant."""
    return one.start < other.end and other.start < one.end


def _is_resolved(mention: Mention, dated: Instant | None) -> bool:
    return dated is not None and mention.period.end - mention.period.start > _DAY


def _contains(outer: Period, inner: Period) -> bool:
    is_larger = outer.end - outer.start > inner.end - inner.start
    return is_larger and outer.start <= inner.start and inner.end <= outer.end


def _distinct(periods: Iterable[Period]) -> tuple[Period, ...]:
    kept: dict[tuple[Instant, Instant], Period] = {}
    for period in periods:
        kept.setdefault((period.start, period.end), period)
    return tuple(kept.values())


def _as_of(plain: str, found: Sequence[Mention], today: Instant) -> Instant | None:
    if not found:
        return None
    if _BEFORE_CHANGE.search(plain):
        period = found[0].period  # "before the 2024 change" names what ends there; 2024年调整前 the year itself
        return min((period.end if period.start == DAWN else period.start) - 1, today)
    for match in _AS_OF.finditer(plain):
        for mention in found:
            if mention.until >= match.end() and mention.at <= match.end() + AS_OF_REACH:
                return min(mention.period.end - 1, today)
    return min(found[-1].period.end - 1, today) if _THEN.search(plain) else None
