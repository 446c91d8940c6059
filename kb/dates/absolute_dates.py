"""Words and figures that name years, parts of years and days of the calendar: pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kb.dates.almanac import DECEMBER, Part, Span, half, joined, quarter, span
from kb.dates.atoms import Atom
from kb.dates.bare_years import is_year
from kb.dates.date_starts import Rule, atoms_at, rules_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kb.dates.date_starts import Start

CENTURY_AHEAD = 20  # two digits are of this century up to so many years after today's

_HAN_DIGITS = {c: str(i) for i, c in enumerate("零一二三四五六七八九")} | {"〇": "0", "○": "0", "O": "0", "两": "2"}
_MONTHS = "january february march april may june july august september october november december"
_MONTH_NAMES = {name[:n]: i + 1 for i, name in enumerate(_MONTHS.split()) for n in (3, 4, len(name))}
_ORDINALS = {
    w: i
    for i, ws in enumerate(("first 1st", "second 2nd", "third 3rd", "fourth 4th last final"), 1)
    for w in ws.split()
}
_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    "|nov(?:ember)?|dec(?:ember)?)"
)
_Y4, _ORD = "[12][0-9]{3}", "(?:st|nd|rd|th)?"
_HAN_DIGIT = "[〇○零一二三四五六七八九]"
_NUM = "(?:[0-3]?[0-9]|[一二三]?十[一二三四五六七八九]?|[一二三四五六七八九])"
_EDGE, _END = r"(?<![A-Za-z0-9_.\-/:$€£¥#@+])(?<!\d,)", r"(?![A-Za-z0-9_%°$€£¥]|[.,]\d|[:/\-][A-Za-z0-9_])"
_QH = "Q[1-4]|H[12]|[1-4]Q|[12]H"
_COUNTS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven")
_YEAR_NEXT, _YEAR_LAST = re.compile(r"\.?,?\s(?:of\s)?[12]\d{3}\b"), re.compile(r"[12]\d{3}\s$")
_LENGTH = re.compile(r"(?:的?历史|前|来|以来|间)")
LEAP = 2024  # a year that has every day


def absolute_atoms(plain: str, starts: Sequence[Start], this_year: int) -> Iterator[Atom]:
    """Return what a flat text names, overlapping readings too, those of an earlier rule first.

    Args:
        plain: a text through `kb.dates.flat_text.flat`.
        starts: of that text.
        this_year: for years of two digits, and for what a bare number can mean.
    """
    return atoms_at(starts, plain, _RULES, this_year)


def number_of(figures: str) -> int:
    """Return what 12, 三 or 二十五 say; 0 when it is no number up to 99."""
    if figures.isascii():
        return int(figures)
    tens, ten, ones = figures.partition("十")
    if not ten:
        return int(_HAN_DIGITS.get(figures, "0")) if len(figures) == 1 else 0
    return int(_HAN_DIGITS.get(tens, "1")) * 10 + int(_HAN_DIGITS.get(ones, "0"))


def _year_of(figures: str, this_year: int) -> int:
    figures = "".join(_HAN_DIGITS.get(c, c) for c in figures)
    if len(figures) > 2:  # noqa: PLR2004 - two digits leave the century out
        return int(figures)
    century = this_year // 100 * 100
    year = century + int(figures)
    return year if year <= this_year + CENTURY_AHEAD else year - 100


def _part_of(name: str) -> Part:
    digit = int(re.sub(r"\D", "", name))
    return quarter(digit) if "Q" in name.upper() else half(digit)


def _month_of(name: str) -> int:
    return _MONTH_NAMES[name.lower().rstrip(".")]


def _days(match: re.Match[str], days: Span | None) -> Atom | None:
    return Atom(at=match.start(), until=match.end(), span=days) if days else None


def _dated(match: re.Match[str], year: int | None, part: Part | None = None) -> Atom | None:
    is_real = part is None or span(year or LEAP, part) is not None
    return Atom(at=match.start(), until=match.end(), year=year, part=part) if is_real else None


def _year_month_day(match: re.Match[str], _: int) -> Atom | None:
    year, month, day = (int(match[i]) for i in (1, 3, 4))
    return _days(match, span(year, Part(month, month, day)))


def _day_month_year(match: re.Match[str], _: int) -> Atom | None:
    """Read 5.3.2024; of 03/05/2024 nobody knows which is the month, so only the year is kept."""
    first, second, year = int(match[1]), int(match[3]), int(match[4])
    european, american = span(year, Part(second, second, first)), span(year, Part(first, first, second))
    if match[2] == "." or european == american or american is None:
        return _days(match, european)
    return _days(match, american if european is None else span(year))


def _years(match: re.Match[str], _: int) -> Atom | None:
    """Read 2019-2021, 2019-21 and 2019/20; 2010-12 is a month and has another rule."""
    first, last = int(match[1]), int(match[2])
    if last < 100:  # noqa: PLR2004 - two digits
        last = 0 if 1 <= last <= DECEMBER else first // 100 * 100 + last
    return _days(match, joined(span(first), span(last)))


def _lone_year(match: re.Match[str], this_year: int) -> Atom | None:
    year = int(match[1])
    return _dated(match, year) if is_year(match, year, this_year) else None


def _lone_month(match: re.Match[str], _: int) -> Atom | None:
    """Read a month's name; in small letters ("may", "march") only with a year beside it."""
    rest, before = match.string[match.end() :][:16], match.string[max(0, match.start() - 6) : match.start()]
    if match[0][0].islower() and not _YEAR_NEXT.match(rest) and not _YEAR_LAST.search(before):
        return None
    month = _month_of(match[1])
    return _dated(match, None, Part(month, month))


def _month_day(match: re.Match[str], _: int) -> Atom | None:
    month = _month_of(match["month"])
    return _dated(match, None, Part(month, month, int(match["day"]), int(match["last"] or 0)))


def _first_of_year(match: re.Match[str], _: int) -> Atom | None:
    months = _COUNTS.index(match[1].lower()) * (3 if match[2][0] in "qQ" else 1)
    return _dated(match, None, Part(1, months)) if 0 < months < DECEMBER else None


def _ordinal(match: re.Match[str], _: int) -> Atom | None:
    number = _ORDINALS[match[1].lower()]
    is_quarter = match[2][0] in "qQ"
    if not is_quarter and number > 2:  # noqa: PLR2004 - halves
        return _dated(match, None, half(2)) if match[1].lower() in {"last", "final"} else None
    return _dated(match, None, quarter(number) if is_quarter else half(number))


def _decade(match: re.Match[str], _: int) -> Atom | None:
    start = int(match[1]) if len(match[1]) == 4 else 1900 + int(match[1])  # noqa: PLR2004 - 1990 or 90
    return _days(match, joined(span(start), span(start + 9)))


def _han_decade(match: re.Match[str], this_year: int) -> Atom | None:
    century = number_of(match[1]) if match[1] else this_year // 100
    start = (century - 1) * 100 + number_of(match[2])
    return _days(match, joined(span(start), span(start + 9)))


def _han_months(match: re.Match[str], _: int) -> Atom | None:
    first = number_of(match[1])
    last = number_of(match[2]) if match[2] else first
    is_real = 1 <= first <= last <= DECEMBER
    return _dated(match, None, Part(first, last)) if is_real else None


def _han_days(match: re.Match[str], _: int) -> Atom | None:
    month, day = number_of(match[1]), number_of(match[2])
    last = number_of(match[3]) if match[3] else 0
    return _dated(match, None, Part(month, month, day, last)) if day else None


def _month_part(name: str) -> Part:
    month = int(name) if name.isdigit() else _month_of(name)
    return Part(month, month)


def _day_part(month: int, day: int) -> Part:
    return Part(month, month, day)


def _han_year(match: re.Match[str], this_year: int) -> Atom | None:
    """Read 2024年 and 二〇二四年; 1500年前 and 2000年历史 are lengths of time."""
    year = _year_of(match[1], this_year)
    is_length = (year < 1900 or year % 1000 == 0) and _LENGTH.match(match.string, match.end())  # noqa: PLR2004
    return None if is_length else _dated(match, year)


def _rule(kinds: str, pattern: str, make: Callable[[re.Match[str], int], Atom | None]) -> Rule[int]:
    return Rule(kinds, re.compile(pattern, re.IGNORECASE), make)


_RULES = rules_at(
    _rule(
        "d",
        rf"(?<![A-Za-z0-9_.\-/])({_Y4})([-/.])(\d{{1,2}})\2(\d{{1,2}})(?=T\d|(?![A-Za-z0-9_]|[-/.][A-Za-z0-9_]))",
        _year_month_day,
    ),
    _rule(
        "d",
        rf"(?<![A-Za-z0-9_.\-/])(\d{{1,2}})([/.])(\d{{1,2}})\2({_Y4})(?![A-Za-z0-9_]|[-/.][A-Za-z0-9_])",
        _day_month_year,
    ),
    _rule(
        "d",
        rf"{_EDGE}({_Y4})[-/](0[1-9]|1[0-2])(?![A-Za-z0-9_]|[-/.:][A-Za-z0-9_])",
        lambda m, _: _dated(m, int(m[1]), _month_part(m[2])),
    ),
    _rule("d", rf"{_EDGE}({_Y4})\s?(?:-{{1,2}}|/)\s?({_Y4}|\d\d){_END}", _years),
    _rule(
        "w",
        rf"(?<![A-Za-z0-9_])(?:[FC]Y|fiscal(?:\syear)?)\s?'?({_Y4}|\d\d){_END}",
        lambda m, now: _dated(m, _year_of(m[1], now)),
    ),
    _rule(
        "dw",
        rf"{_EDGE}(?:(?:FY\s?)?({_Y4})\s?-?\s?|FY\s?'?(\d\d)\s?-?\s?|(\d\d))(Q[1-4]|H[12])(?![A-Za-z0-9_]|-[A-Za-z0-9_])",
        lambda m, now: _dated(m, _year_of(m[1] or m[2] or m[3], now), _part_of(m[4])),
    ),
    _rule(
        "dw",
        rf"(?:(?<![A-Za-z0-9_.\-])|(?<=[QH]\d-)|(?<=\dQ-))({_QH})(?:(?:\s?[-/,']?\s?|\s?FY\s?)({_Y4})|(?:\s?'|\s?FY\s?'?|(?<=[QH]))(\d\d)){_END}",
        lambda m, now: _dated(m, _year_of(m[2] or m[3], now), _part_of(m[1])),
    ),
    _rule(
        "dw",
        rf"(?:(?<![A-Za-z0-9_.\-])|(?<=[QH]\d-)|(?<=\dQ-))({_QH})(?![A-Za-z0-9_]|-(?!Q|H|[1-4]Q))",
        lambda m, _: _dated(m, None, _part_of(m[1])),
    ),
    _rule(
        "w",
        r"\bfirst[\s-](two|three|four|five|six|seven|eight|nine|ten|eleven)[\s-](months|quarters)\b",
        _first_of_year,
    ),
    _rule(
        "dw",
        r"\b(first|second|third|fourth|[1-4](?:st|nd|rd|th)|(?:last|final)(?=\s\w+\sof))[\s-](quarter|half)\b",
        _ordinal,
    ),
    _rule(
        "w",
        rf"\b(?P<month>{_MONTH})\.?\s+(?P<day>\d{{1,2}}){_ORD}(?:\s?-\s?(?P<last>\d{{1,2}}){_ORD})?(?!\w|[.:%]\d)",
        _month_day,
    ),
    _rule(
        "d",
        rf"(?<![A-Za-z0-9_.\-/:])(?P<day>\d{{1,2}}){_ORD}(?:\s?-\s?(?P<last>\d{{1,2}}){_ORD})?[\s-](?:of\s)?(?P<month>{_MONTH})\b\.?",
        _month_day,
    ),
    _rule(
        "d",
        rf"(?<![A-Za-z0-9_.\-/:])(\d{{1,2}})([-/])({_MONTH})\2({_Y4}){_END}",
        lambda m, _: _dated(m, int(m[4]), _day_part(_month_of(m[3]), int(m[1]))),
    ),
    _rule(
        "w",
        rf"\b({_MONTH})\.?(?:\s?[-/]\s?({_Y4})|\s?'(\d\d)){_END}",
        lambda m, now: _dated(m, _year_of(m[2] or m[3], now), _month_part(m[1])),
    ),
    _rule("w", rf"\b({_MONTH})\b\.?", _lone_month),
    _rule(
        "d",
        rf"(?:{_EDGE}|(?<=\bmid-)|(?<=\blate-)|(?<=\bearly-)|(?<=\bend-)|(?<=\bpre-)|(?<=\bpost-))({_Y4}){_END}",
        _lone_year,
    ),
    _rule("d", r"(?<![A-Za-z0-9_.\-])([12]\d\d0)'?s\b", _decade),
    _rule("w", r"(?:\bthe\s(?:early\s|late\s|mid-?\s?)?'?|(?<!\w)')([3-9]0)'?s\b", _decade),
    _rule("dh", rf"(?<![\d.\-])({_Y4}|{_HAN_DIGIT}{{4}})\s?[财学]?年度?(?!代)", _han_year),
    _rule(
        "d",
        r"(?<![\d.])(\d\d)年(?=\d{1,2}月|第?[一二三四1-4]季|[上下]半年|Q[1-4])",
        lambda m, now: _dated(m, _year_of(m[1], now)),
    ),
    _rule(
        "dh",
        r"(?:第\s?([一二三四1-4])\s?个?季度?|([一二三四1-4])\s?季度)",
        lambda m, _: _dated(m, None, quarter(number_of(m[1] or m[2]))),
    ),
    _rule("h", r"前([二两三2-3])个?季度", lambda m, _: _dated(m, None, Part(1, 3 * (3 if m[1] in "三3" else 2)))),
    _rule("h", r"([上下])半年", lambda m, _: _dated(m, None, half(1 + (m[1] == "下")))),
    _rule("dh", rf"(?<![\d.第])({_NUM})\s?(?:月?(?:-|~|至|到)({_NUM})\s?)?月份?", _han_months),
    _rule("dh", rf"(?<![\d.])({_NUM})\s?月\s?({_NUM})\s?[日号]?(?:(?:-|~|至|到)({_NUM})\s?)?[日号]", _han_days),
    _rule("d", r"(?<!\d)([12]\d\d0)\s?年代", _decade),
    _rule("dh", r"(?:(\d\d|[一二]?十[一二三四五六七八九]?)|上)世纪\s?([2-9]0|[二三四五六七八九]十)年代", _han_decade),
)
