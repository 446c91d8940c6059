"""Words that name a period by its distance from today, in English and Chinese: pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kb.dates.absolute_dates import number_of
from kb.dates.almanac import UNIT_MONTHS, Span, shifted
from kb.dates.atoms import Atom
from kb.dates.date_starts import Rule, atoms_at, rules_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import date

    from kb.dates.date_starts import Start

SHORTEST_MONTH = 28  # days

_COUNTS = {
    word: i
    for i, words in enumerate(
        ("", "a an one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    )
    for word in words.split()
}
_N = r"(\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
_HAN_N = r"(\d{1,3}|[一二三四五六七八九两]|[一二三]?十[一二三四五六七八九]?)"
_HAN_UNITS = {"年": "year", "季": "quarter", "月": "month", "周": "week", "星": "week", "天": "day", "日": "day"}
_HAN_YEARS = {
    "大前": -3,
    "前": -2,
    "去": -1,
    "上": -1,
    "上一": -1,
    "今": 0,
    "本": 0,
    "这一": 0,
    "明": 1,
    "来": 1,
    "下一": 1,
    "后": 2,
}
_STEPS = {"this": 0, "current": 0, "last": -1, "previous": -1, "past": -1, "prior": -1, "next": 1, "coming": 1}
_DAYS = {"today": 0, "yesterday": -1, "tomorrow": 1}
_HAN_DAYS = {"今": 0, "昨": -1, "前": -2, "明": 1, "后": 2}


def relative_atoms(plain: str, starts: Sequence[Start], today: date) -> Iterator[Atom]:
    """Return what a flat text names relative to today; years as years, so that "Q3 last year" can be joined.

    Args:
        plain: a text through `kb.dates.flat_text.flat`.
        starts: of that text.
        today: a day, UTC.
    """
    return atoms_at(starts, plain, _RULES, today)


def _atom(match: re.Match[str], days: Span | None, unit: str = "") -> Atom | None:
    if days is None:
        return None
    if unit == "year":
        return Atom(at=match.start(), until=match.end(), year=days.start.year, is_relative=True)
    return Atom(at=match.start(), until=match.end(), span=days, is_relative=True)


def _day(match: re.Match[str], today: date) -> Atom | None:
    before = match[1] is not None
    by = _DAYS[match[2].lower()]
    return _atom(match, shifted(today, "day", by + (1 if by > 0 else -1) if before else by))


def _step(match: re.Match[str], today: date) -> Atom | None:
    unit = match[2].lower()
    by = _STEPS[match[1].lower()] - (match[3] is not None)
    return _atom(match, shifted(today, unit, by), unit)


def _ago(match: re.Match[str], today: date) -> Atom | None:
    unit = match[2].lower()
    return _atom(match, shifted(today, unit, -_count(match[1])), unit)


def _stretch(match: re.Match[str], today: date) -> Atom | None:
    return _atom(match, _until_today(today, match[2].lower(), _count(match[1])))


def _so_far(match: re.Match[str], today: date) -> Atom | None:
    return _atom(match, Span(today.replace(month=1, day=1), _tomorrow(today)))


def _han_day(match: re.Match[str], today: date) -> Atom | None:
    return _atom(match, shifted(today, "day", _HAN_DAYS[match[1]]))


def _han_year(match: re.Match[str], today: date) -> Atom | None:
    return _atom(match, shifted(today, "year", _HAN_YEARS[match[1]]), "year")


def _han_step(match: re.Match[str], today: date) -> Atom | None:
    by = {"本": 0, "这": 0, "上": -1, "下": 1}[match[1][0]] * len(match[1].rstrip("个一"))
    return _atom(match, shifted(today, _han_unit(match[2]), by))


def _han_ago(match: re.Match[str], today: date) -> Atom | None:
    unit = _han_unit(match[2])
    return _atom(match, shifted(today, unit, -number_of(match[1].replace("两", "二"))), unit)


def _han_stretch(match: re.Match[str], today: date) -> Atom | None:
    count = number_of(match[1].replace("两", "二"))
    return _atom(match, _until_today(today, _han_unit(match[2]), count))


def _han_unit(word: str) -> str:
    return _HAN_UNITS[word.removeprefix("个")[0]]


def _count(word: str) -> int:
    return int(word) if word.isdigit() else _COUNTS[word.lower()]


def _tomorrow(today: date) -> date:
    days = shifted(today, "day", 1)
    return days.start if days else today


def _until_today(today: date, unit: str, count: int) -> Span | None:
    """Return the last `count` units up to and with today."""
    if not count:
        return None
    if unit in {"day", "week"}:
        days = count * (7 if unit == "week" else 1)
        return shifted(today, "day", 1 - days, days)
    months = count * UNIT_MONTHS[unit]
    first = shifted(today, "month", -months)
    if first is None:
        return None
    return Span(first.start.replace(day=min(today.day, SHORTEST_MONTH)), _tomorrow(today))


def _rule(kinds: str, pattern: str, make: Callable[[re.Match[str], date], Atom | None]) -> Rule[date]:
    return Rule(kinds, re.compile(pattern, re.IGNORECASE), make)


_RULES = rules_at(
    _rule("w", r"\b(the\sday\s(?:before|after)\s)?(today|yesterday|tomorrow)\b", _day),
    _rule(
        "w",
        r"\b(this|current|last|previous|past|prior|next|coming)\s(?:calendar\s|fiscal\s|financial\s)?"
        r"(week|month|quarter|half|year|decade)\b(?!\sof\b)(\sbefore\slast)?",
        _step,
    ),
    _rule("dw", rf"\b{_N}\s(day|week|month|quarter|year|decade)s?\s(?:ago|earlier)\b", _ago),
    _rule("w", rf"\b(?:last|past|previous|recent)\s{_N}\s(day|week|month|quarter|year|decade)s?\b(?!\sof\b)", _stretch),
    _rule("w", r"\b(?:year[\s-]to[\s-]date|YTD|so\sfar\sthis\syear)\b", _so_far),
    _rule("h", r"([今昨前明后])[天日](?!内)", _han_day),
    _rule("h", r"(?<![以之从目空生])(大前|前|去|上一|今|本|这一|明|来|下一|后)年度?(?![代轻级龄])", _han_year),
    _rule("h", r"(上)年度?(?=同期|末|度|底)", _han_year),
    _rule(
        "h",
        r"(本|这个?|上一个?|上上?个?|下一个?|下个?)(周(?![年期转刊末边岁密全])|星期|月(?![球亮饼光台])|季度?)",
        _han_step,
    ),
    _rule("dh", rf"(?<![\d.第]){_HAN_N}\s?(年|个月|个季度|周|个星期|天)(?:之|以)?前", _han_ago),
    _rule("h", rf"(?:最近|过去|近|前)(?:的)?\s?{_HAN_N}\s?(年|个?月|个?季度|周|个星期|天)(?!前|代)", _han_stretch),
    _rule("h", r"年初至今|年初以来|今年以来|今年至今", _so_far),
)
