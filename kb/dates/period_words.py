"""A period in words that mean the same on every day: pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from kb.dates.almanac import DECEMBER, day_of, month_start
from kb.dates.mentions import mentions

if TYPE_CHECKING:
    from datetime import date

    from kb.dates.period import Period
    from kb.model import Instant

_PREPOSITIONS = frozenset(
    ("in", "on", "for", "of", "from", "to", "during", "and", "or", "between", "since", "the", "by", "than", "with")
)
_NAMES = "January February March April May June July August September October November December"


def absolute(period: Period, *, in_chinese: bool) -> str:
    """Return a period as a year, half, quarter, month or day, or else as days from one to another."""
    start, last = day_of(period.start), day_of(period.end - 1)
    if start.day == 1 and last + timedelta(days=1) == month_start(last.year, last.month + 1):
        months = (last.year - start.year) * DECEMBER + last.month - start.month + 1
        named = _months(start, months, in_chinese=in_chinese)
        if named:
            return named
    first, end = _day(start, in_chinese=in_chinese), _day(last, in_chinese=in_chinese)
    return first if start == last else f"{first}至{end}" if in_chinese else f"{first} to {end}"


def resolved(text: str, today: Instant, *, in_chinese: bool) -> str:
    """Return a text whose relative periods ("last year", 上个月) are absolute ones (2025, 2026年10月)."""
    for mention in reversed(mentions(text, today)):
        if mention.is_relative:
            words = absolute(mention.period, in_chinese=in_chinese)
            joint = "" if in_chinese else _preposition(text[: mention.at], words)
            text = f"{text[: mention.at]}{joint}{words}{text[mention.until :]}"
    return text


def _preposition(before: str, words: str) -> str:
    last = before.split()[-1:]
    if not last or last[0].lower() in _PREPOSITIONS:
        return ""
    return "from " if " to " in words else "on " if words.count("-") > 1 else "in "


def _months(start: date, months: int, *, in_chinese: bool) -> str:
    year, index = start.year, start.month - 1
    if months not in {1, 3, 6, DECEMBER} or index % months:
        return ""
    if months == DECEMBER:
        return f"{year}年" if in_chinese else str(year)
    if months == 1:
        return f"{year}年{start.month}月" if in_chinese else f"{_NAMES.split()[index]} {year}"
    number = index // months + 1
    if months == 3:  # noqa: PLR2004 - a quarter
        return f"{year}年第{'一二三四'[number - 1]}季度" if in_chinese else f"Q{number} {year}"
    return f"{year}年{'上下'[number - 1]}半年" if in_chinese else f"H{number} {year}"


def _day(day: date, *, in_chinese: bool) -> str:
    return f"{day.year}年{day.month}月{day.day}日" if in_chinese else day.isoformat()
