"""Whether a bare number of four digits is a year: nothing beside it may say otherwise. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

NEAR = (1900, 15)  # a year from the first to so many after this one needs no word that says so
_BEFORE, _AFTER = 28, 16  # characters read before and after a number

_LAST_WORD, _FIRST_WORD = re.compile(r"[a-z]+$"), re.compile(r"\s?-?([a-z]+)(?![a-z])")
_COUNTED = (
    *("more than", "less than", "fewer than", "at least", "at most", "total of", "no.", "nr.", "$", "€", "£", "¥", "#"),
    *(
        "端口",
        "版本",
        "编号",
        "型号",
        "房间",
        "代码",
        "错误",
        "错误码",
        "页码",
        "工号",
        "单号",
        "订单",
        "邮编",
        "约",
        "共",
        "超过",
        "第",
    ),
)
_HAN_UNITS = (
    *"个元人名条次件块米吨字页行篇家台套辆万亿千百美欧英港号位岁秒分天毫公克斤升度倍种项股户门座间点张支部",
    *("小时", "日元", "端口"),
)
# "from 1811 to 1827", "between 1811 and 1827": one end says what the other is
_RANGE_END = re.compile(r"\b(?:from|between)\s+1\d{3}\s+(?:to|until|till|through|and)$")
_RANGE_START = re.compile(r"\s+and\s+1\d{3}(?!\d|\s[a-z]+s\b)")
_PLURAL_AFTER = re.compile(r"\s(?!was\b|is\b|has\b|as\b)[a-z]+s\b")
_YEAR_WORDS = frozenset(
    ("in", "since", "by", "until", "till", "year", "during", "circa", "before", "after", "from", "early", "late")
)


def is_year(match: re.Match[str], year: int, this_year: int) -> bool:
    """Return whether the number that was matched is a year.

    Args:
        match: of the number, in its text.
        year: the number.
        this_year: today's.
    """
    text, at, until = match.string, match.start(), match.end()
    before = text[max(0, at - _BEFORE) : at].rstrip(" .:#=\t").lower()
    after = text[until : until + _AFTER].lower()
    word = _LAST_WORD.search(before[-_AFTER:])
    last = word[0] if word else ""
    if last in _words("no_year_before.txt") or before.endswith(_COUNTED) or _is_counted(after):
        return False
    is_near = NEAR[0] <= year <= this_year + NEAR[1]
    if (year % 100 == 0 or not is_near) and _PLURAL_AFTER.match(after):
        return False
    is_start = last == "between" and _RANGE_START.match(after) is not None
    is_said = is_start or last in _YEAR_WORDS or _RANGE_END.search(before) is not None
    return is_near or is_said


def _is_counted(after: str) -> bool:
    """Return whether a unit, or what is counted, comes next."""
    if after.lstrip(" -").startswith(_HAN_UNITS):
        return True
    word = _FIRST_WORD.match(after)
    return word is not None and word[1] in _words("units_en.txt")


@lru_cache(maxsize=2)
def _words(name: str) -> frozenset[str]:
    return frozenset(_lines(name))


def _lines(name: str) -> Iterable[str]:
    return (files("crag_runtime") / "data" / name).read_text(encoding="utf-8").split()
