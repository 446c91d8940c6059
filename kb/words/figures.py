"""The dates and quantities of a text in one notation, so that two texts can be compared: pure.

"1 July 2026", "2026-07-01" and "2026年7月1日" are one date; "1,000", "1 thousand" and "一千" one number; "€19",
"19 euros" and "19欧元" one quantity. A part that a text leaves out (the year of "5 May") is None.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import NamedTuple

from kb.words.number_words import NUMBER_WORDS, worded_number

MONTH_DAYS, MONTHS = 31, 12
_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?P<{0}>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_TH = "(?:st|nd|rd|th)?"
_DATES = re.compile(
    "|".join(
        (
            r"(?<![\d.])(?P<y1>\d{4})[-/.](?P<m1>\d{1,2})[-/.](?P<d1>\d{1,2})(?![\d.]\d|\d)",
            r"(?<!\d)(?P<y2>\d{4})\s?年(?:\s?(?P<m2>\d{1,2})\s?月(?:份|\s?(?P<d2>\d{1,2})\s?[日号])?)?",
            r"(?<!\d)(?P<m3>\d{1,2})\s?月(?:份|\s?(?P<d3>\d{1,2})\s?[日号])",
            rf"\b{_MONTH.format('m4')}\s{{1,3}}(?P<d4>\d{{1,2}}){_TH}(?![\d:])(?:,?\s{{1,3}}(?P<y4>\d{{4}}))?\b",
            rf"\b(?P<d5>\d{{1,2}}){_TH}\s{{1,3}}(?:of\s+)?{_MONTH.format('m5')}(?:,?\s{{1,3}}(?P<y5>\d{{4}}))?\b",
            rf"\b{_MONTH.format('m6')},?\s{{1,3}}(?P<y6>\d{{4}})\b",
            r"(?<![\d.,\w-])(?P<y7>1[5-9]\d\d|20\d\d|21\d\d)(?![\d.,]\d|\w|-\d)",
        )
    ),
    re.IGNORECASE,
)
_UNITS = {
    "money:eur": "€ euro euros eur 欧元",
    "money:usd": "$ us$ dollar dollars usd 美元 美金",
    "money:gbp": "£ pound pounds gbp 英镑",
    "money:cny": "¥ rmb cny yuan renminbi 元 人民币 块",
    "money:jpy": "yen jpy 日元",
    "share:percent": "% percent ％ 百分比",
    "time:ms": "ms millisecond milliseconds 毫秒",
    "time:s": "s sec secs second seconds 秒 秒钟",
    "time:min": "min mins minute minutes 分钟",
    "time:h": "h hr hrs hour hours 小时 个小时",
    "time:d": "d day days 天",
    "time:w": "week weeks 周 星期 个星期",
    "time:mo": "month months 个月",
    "time:y": "year years yr yrs",
    "size:b": "byte bytes 字节",
    "size:kb": "kb kib kilobytes",
    "size:mb": "mb mib megabyte megabytes 兆",
    "size:gb": "gb gib gigabyte gigabytes",
    "size:tb": "tb tib terabyte terabytes",
}
_UNIT_OF = {word: unit for unit, words in _UNITS.items() for word in words.split()}
_SCALES = {
    "thousand": 1e3, "k": 1e3, "千": 1e3, "万": 1e4, "million": 1e6, "m": 1e6, "百万": 1e6, "千万": 1e7, "亿": 1e8,
    "billion": 1e9, "bn": 1e9, "trillion": 1e12, "万亿": 1e12,
}  # fmt: skip
_QUANTITY = re.compile(
    r"(?P<sign>US\$|[$€£¥])?\s?(?P<number>(?<![A-Za-z\d_.])(?:\d{1,3}(?:[,，]\d{3})+|\d+)(?:\.\d+)?"
    r")(?!\d|[.-]\d+[.-]\d)(?<!\.)(?!\.\d)"
    r"(?:[\s-]?(?P<scale>thousand|million|billion|trillion|bn|万亿|百万|千万|[千万亿]|[kKM](?![A-Za-z])))?"
    r"(?:[\s-]?(?P<unit>[A-Za-z]+|[%€$£]|[\u4e00-\u9fff]{1,3}))?"
)
_TIMES = {"one": 1, "twice": 2, "double": 2, "both": 2, "half": 0.5}
_WORD = re.compile(rf"\b(?P<word>{NUMBER_WORDS}|{'|'.join(_TIMES)})\b(?:[\s-](?P<unit>[a-z]+))?", re.IGNORECASE)
_HAN_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0, "双": 2}
_HAN_TENS = {"十": 10, "百": 100, "千": 1000}
_COUNTED = "个条次天年月日名位种台倍人项周小分秒欧美元块版届级岁米公里字份家章页层号点期轮度吨斤克升名间所"
_HAN_NUMBER = re.compile(  # only before what is counted: 十分 (very) and 三星 (a name) are no numbers
    r"(?P<digits>[零〇一二三四五六七八九十百千两]+)(?P<scale>[万亿]?)"
    rf"(?=[{_COUNTED}]|星期|$|[,，。；;、)）])(?!分(?!钟))(?P<unit>个?[\u4e00-\u9fff]{{1,2}})?"
)


class Date(NamedTuple):
    """A date as far as a text says it."""

    year: int | None
    month: int | None
    day: int | None

    def covers(self, other: Date) -> bool:
        """Return whether everything that `other` says is said here too, and the same."""
        return all(theirs is None or theirs == ours for ours, theirs in zip(self, other, strict=True))


class Quantity(NamedTuple):
    """A number and its unit as `family:unit`, "" when it has none that is known."""

    number: float
    unit: str

    def covers(self, other: Quantity) -> bool:
        """Return whether this is the same quantity; a missing unit (a table's cell) fits any."""
        return self.number == other.number and (not self.unit or not other.unit or self.unit == other.unit)

    def rivals(self, other: Quantity) -> bool:
        """Return whether both measure the same thing and differ."""
        return bool(self.unit) and self.unit == other.unit and self.number != other.number


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a text says in figures.

    Args:
        dates: in order.
        quantities: written in digits, dates left out.
        worded: written in words ("three", 三); "one" is an article as often as a number.
        rest: the text without dates and numbers.
    """

    dates: tuple[Date, ...]
    quantities: tuple[Quantity, ...]
    worded: tuple[Quantity, ...]
    rest: str


def figures(text: str) -> Figures:
    """Return the figures of a text."""
    plain = unicodedata.normalize("NFKC", text)
    dates = [(m, date) for m in _DATES.finditer(plain) if (date := _date(m)) is not None]
    plain = _blanked(plain, [m.span() for m, _ in dates])
    numbers = list(_QUANTITY.finditer(plain))
    plain = _blanked(plain, [m.span("number") for m in numbers])
    words = [(m.group("word"), m) for m in _WORD.finditer(plain)]
    han = [(n, m) for m in _HAN_NUMBER.finditer(plain) if (n := _han(m.group("digits"), m.group("scale"))) is not None]
    worded = [Quantity(_worded(word), _unit(m.group("unit"))) for word, m in words]
    plain = _blanked(plain, [m.span("word") for _, m in words] + [m.span("digits") for _, m in han])
    return Figures(
        dates=tuple(date for _, date in dates),
        quantities=tuple(_quantity(m) for m in numbers),
        worded=(*worded, *(Quantity(n, _unit(m.group("unit"))) for n, m in han)),
        rest=plain,
    )


def _blanked(text: str, spans: list[tuple[int, int]]) -> str:
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def _date(found: re.Match[str]) -> Date | None:
    parts = {name[0]: value for name, value in found.groupdict().items() if value}
    month = parts.get("m")
    number = None if month is None else int(month) if month.isdigit() else 1 + _NAMES.index(month[:3].lower())
    day = int(parts["d"]) if "d" in parts else None
    if (number is not None and not 1 <= number <= MONTHS) or (day is not None and not 1 <= day <= MONTH_DAYS):
        return None
    return Date(int(parts["y"]) if "y" in parts else None, number, day)


def _quantity(found: re.Match[str]) -> Quantity:
    number = float(found.group("number").replace(",", "").replace("，", ""))
    scale = found.group("scale")
    number *= _SCALES.get(scale.lower(), 1.0) if scale else 1.0
    unit = _unit(found.group("sign")) or _unit(found.group("unit"))
    return Quantity(round(number, 6), unit)


def _unit(word: str | None) -> str:
    """Return the unit that a word names, or that a run of Han letters begins with."""
    if not word:
        return ""
    lowered = word.lower()
    for length in (len(lowered), 3, 2, 1) if not lowered.isascii() else (len(lowered),):
        if unit := _UNIT_OF.get(lowered[:length]):
            return unit
    return ""


def _worded(words: str) -> float:
    """Return the number that English words say; a lone "one" is 1."""
    said = worded_number(words) if words.lower() not in _TIMES else None
    return _TIMES[words.lower()] if said is None else said


def _han(digits: str, scale: str) -> float | None:
    """Return the number that Chinese digits write: 三十 → 30, 两 → 2, 五千 → 5000; None for a lone 一."""
    if digits == "一":
        return None
    total, current = 0, 0
    for letter in digits:
        if letter in _HAN_TENS:
            total += (current or 1) * _HAN_TENS[letter]
            current = 0
        elif total:
            current = _HAN_DIGITS[letter]
        else:
            current = current * 10 + _HAN_DIGITS[letter]
    return float(total + current) * _SCALES.get(scale, 1.0)
