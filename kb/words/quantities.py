"""Quantities where a text states them, in digits and in words, English and Chinese, in one notation. Pure.

Units of one family are converted where the factor is exact ("90 minutes" is "1.5 hours"; a month is no number of days);
currencies never are. A unit that is no known one is the noun that is counted ("70 seats").
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.dates.flat_text import flat
from kb.terms import terms
from kb.words.number_words import NUMBER_WORDS, han_number, worded_number

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUGHLY = 0.1  # relative difference that "about" allows
RATE_REACH = 24  # characters after a unit in which its rate may stand
_SAME = 1e-9

_FAMILIES: dict[str, tuple[tuple[float, str], ...]] = {
    "eur": ((1, "€ eur euro euros 欧元"),),
    "usd": ((1, "$ us$ usd dollar dollars 美元 美金"),),
    "gbp": ((1, "£ gbp pounds sterling 英镑"),),
    "cny": ((1, "¥ rmb cny yuan renminbi 元 人民币 元人民币 块钱"),),
    "jpy": ((1, "jpy yen 日元"),),
    "hkd": ((1, "hkd hk$ 港元 港币"),),
    "percent": ((1, "% percent pct"), (0.1, "‰")),
    "points": ((1, "pp 百分点 个百分点"),),
    "second": (
        (0.001, "ms millisecond milliseconds 毫秒"),
        (1, "s sec secs second seconds 秒 秒钟"),
        (60, "min mins minute minutes 分钟"),
        (3600, "h hr hrs hour hours 小时 个小时"),
        (86400, "day days 天 日"),
        (604800, "week weeks 周 星期 个星期"),
    ),
    "month": ((1, "month months 个月"), (12, "year years yr yrs 年")),
    "byte": (
        (1, "byte bytes 字节"), (1e3, "kb"), (1e6, "mb megabyte megabytes"), (1e9, "gb gigabyte gigabytes"),
        (1e12, "tb terabyte terabytes"), (1024, "kib"), (1024**2, "mib"), (1024**3, "gib"), (1024**4, "tib"),
    ),
    "gram": (
        (0.001, "mg milligrams 毫克"), (1, "g gram grams 克"), (1e3, "kg kilogram kilograms kilo kilos 公斤 千克"),
        (500, "斤"), (1e6, "t ton tons tonne tonnes 吨"),
    ),
    "metre": (
        (0.001, "mm millimetres millimeters 毫米"), (0.01, "cm centimetres centimeters 厘米"),
        (1, "m metre metres meter meters 米"), (1e3, "km kilometre kilometres kilometer kilometers 公里 千米"),
        (1609.344, "mile miles mi 英里"), (0.3048, "ft feet foot 英尺"),
    ),
    "square metre": (
        (1, "m² 平方米"), (1e6, "km² 平方公里 平方千米"), (1e4, "hectare hectares 公顷"),
    ),
    "litre": ((0.001, "ml 毫升"), (1, "l litre litres liter liters 升")),
    "celsius": ((1, "℃ °c 摄氏度"),),
    "person": ((1, "people persons person 人 名 位"),),
    "time": ((1, "times 次"),),
    "age": ((1, "岁 周岁"),),
}  # fmt: skip
_UNITS = {
    word: (family, float(factor))
    for family, rows in _FAMILIES.items()
    for factor, words in rows
    for word in words.split()
}
_HAN_UNITS = sorted((word for word in _UNITS if not word.isascii()), key=len, reverse=True)
_SCALES = {
    "thousand": 1e3, "k": 1e3, "千": 1e3, "万": 1e4, "million": 1e6, "m": 1e6, "mn": 1e6, "百万": 1e6, "千万": 1e7,
    "亿": 1e8, "billion": 1e9, "bn": 1e9, "b": 1e9, "trillion": 1e12, "万亿": 1e12,
}  # fmt: skip
_DIGITS = r"\d+,\d{2}(?=\s?(?:€|eur))|\d{1,3}(?:[, ']\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d+)?"
_NUMBER = re.compile(
    rf"(?P<sign>(?:US|HK)?\$|[€£¥]|\b(?:USD|EUR|GBP|CNY|RMB)\s)?\s?(?P<minus>(?<![\w.)])-)?"
    rf"(?P<share>百分之)?(?:(?P<digits>(?<![A-Za-z\d.,_/第])(?<![\w)]-)(?<!\d[:.])(?:{_DIGITS})(?![.:/-]?\d))"
    rf"|(?P<words>\b(?:{NUMBER_WORDS})\b)|(?P<han>(?<!第)[零〇一二三四五六七八九十百千万亿两]+))"
    r"(?:[\s-]?(?P<scale>(?:thousand|million|billion|trillion|bn|mn)\b|万亿|百万|千万|[千万亿])|(?P<letter>(?-i:[kKMB])(?!\w)))?",
    re.IGNORECASE,
)
_UNIT = re.compile(r"[+多余]?[\s-]?(?P<latin>[%‰€$£℃]|°C|[A-Za-z]+[²$]?)|[+多余]?\s?(?P<han>[\u3400-\u9fff]{1,8})")
_RATE = re.compile(
    r"^[^.;。；，,]{0,16}?(?:\b(?:per|an?|each|every|/)\s*(?:\w+\s*(?:and|per|/|,)\s*)?|/\s?(?:\w+\s?/\s?)?)"
    r"(?P<unit>second|minute|hour|day|week|month|quarter|year|annum|mo|yr|h|s)\b"
    r"|^[^.;。；，,]{0,8}?(?:每|/)\s?个?(?:\w{1,3}[每/]个?)?(?P<han>秒|分钟|小时|天|日|周|月|季度|年)"
    r"|^\s?(?P<adverb>hourly|daily|weekly|monthly|quarterly|yearly|annually)",
    re.IGNORECASE,
)
_RATE_BEFORE = re.compile(
    r"(?:每个?|一个?)(?P<han>秒|分钟|小时|天|日|周|月|季度|年)[^。；，,]{0,6}$|(?P<adverb>月|年|日)[费租薪]\D{0,6}$"
)
_RATES = {
    "秒": "second", "s": "second", "分钟": "minute", "小时": "hour", "h": "hour", "hourly": "hour", "天": "day",
    "日": "day", "daily": "day", "周": "week", "weekly": "week", "月": "month", "mo": "month", "monthly": "month",
    "季度": "quarter", "quarterly": "quarter", "年": "year", "yr": "year", "annum": "year", "yearly": "year",
    "annually": "year",
}  # fmt: skip
_ABOUT = re.compile(
    r"(?:\b(?:about|around|approximately|approx\.?|roughly|some|nearly|almost|circa|c\.|ca\.)|~|约|大约|大概|近|将近|接近)"
    r"\s?\W?$",
    re.IGNORECASE,
)
_LEAST = re.compile(
    r"(?:\b(?:more than|over|at least|above|no less than|from|minimum of|exceeding)|>=?|≥|超过|至少|不少于|不低于|逾"
    r"|高于|多于)\s?\W?$",
    re.IGNORECASE,
)
_MOST = re.compile(
    r"(?:\b(?:less than|under|at most|below|no more than|up to|maximum of|fewer than)|<=?|≤|不超过|至多|最多|不足"
    r"|低于|少于|未满)\s?\W?$",
    re.IGNORECASE,
)
_OPEN = re.compile(r"^\s?(?:\+|or more\b|余|多(?=[\u3400-\u9fff])|以上)")
_CLASSIFIER = re.compile(r"^[个名位座枚家项种届款台部条份张只支辆艘架所间套期门本件组篇首句轮场集](?=[\u3400-\u9fff])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A number with its unit: characters [start, end) of the text.

    Args:
        number: in the base unit of its family.
        unit: family, the noun that is counted, or "".
        rate: what it is per: month, year...; "" when it says none.
        bound: about, least, most; "" when it is exact.
        step: worth of the last digit that is written, for a number with a scale ("10.4 billion": 1e8); else 0.
    """

    number: float
    unit: str
    rate: str
    bound: str
    step: float
    start: int
    end: int

    def agrees(self, other: Quantity) -> bool:
        """Return whether both say the same number, as exactly as they say it; units are not looked at."""
        gap = abs(self.number - other.number)
        size = max(abs(self.number), abs(other.number))
        if gap <= _SAME * size or gap <= max(self.step, other.step) / 2:
            return True
        if "about" in (self.bound, other.bound) and gap <= ROUGHLY * size:
            return True
        return _bounded(self, other) or _bounded(other, self)


def quantities_of(text: str) -> tuple[Quantity, ...]:
    """Return the quantities of a text, in order of place; lone 一 and "one" are none."""
    return tuple(_quantities(flat(text)))


def _bounded(one: Quantity, other: Quantity) -> bool:
    """Return whether `other` lies within what `one` leaves open."""
    if one.bound == "least":
        return other.number >= one.number
    return one.bound == "most" and other.number <= one.number


def _quantities(plain: str) -> Iterator[Quantity]:
    for match in _NUMBER.finditer(plain):
        number = _number(match)
        if number is None:
            continue
        unit, factor, end = _unit(match, plain)
        lone = match["han"] is not None and len(match["han"]) == 1
        if lone and not unit and not match["share"]:  # 三 in a name is no number
            continue
        scaled = (match["scale"] or match["letter"] or "").lower()
        scale = _SCALES.get(scaled, 1.0)
        decimals = len(match["digits"].partition(".")[2]) if match["digits"] else 0
        yield Quantity(
            number=round(number * scale * factor, 9),
            unit=unit,
            rate=_rate(plain, match.start(), end),
            bound=_bound(plain, match.start(), match.end()),
            step=scale * factor * 10.0**-decimals if scaled else 0.0,
            start=match.start() + len(match.group()) - len(match.group().lstrip()),
            end=end,
        )


def _number(match: re.Match[str]) -> float | None:
    if match["digits"]:
        digits = match["digits"]
        european = re.fullmatch(r"\d+,\d{2}", digits)
        number = float(digits.replace(",", ".") if european else re.sub(r"[, ']", "", digits))
    else:
        found = worded_number(match["words"]) if match["words"] else han_number(match["han"])
        if found is None:
            return None
        number = found
    return -number if match["minus"] else number


def _unit(match: re.Match[str], plain: str) -> tuple[str, float, int]:
    """Return the unit after a number, or the currency before it, its factor, and where it ends."""
    end = match.end()
    if match["share"]:
        return "percent", 1.0, end
    if sign := (match["sign"] or "").strip().lower():
        return *_UNITS[sign], end
    after = _UNIT.match(plain, end)
    if after is None:
        return "", 1.0, end
    if after["latin"]:
        word = after["latin"].lower()
        known = _UNITS.get(word) or _UNITS.get(word.rstrip("s"))
        if known:
            return *known, after.end()
        return (_noun(word), 1.0, after.end()) if len(word) > 2 else ("", 1.0, end)  # noqa: PLR2004 - "in", "to"
    return _han_unit(after["han"], after.start("han"), end)


def _han_unit(run: str, at: int, end: int) -> tuple[str, float, int]:
    for word in _HAN_UNITS:
        if run.startswith(word):
            return *_UNITS[word], at + len(word)
    counted = _CLASSIFIER.sub("", run)
    if counted == run:
        return "", 1.0, end
    noun = terms(counted).split(" ")[0]
    return noun, 1.0, at + len(run) - len(counted) + len(noun)


def _noun(word: str) -> str:
    from kb.words.strips import stop_terms  # noqa: PLC0415

    found = terms(word)
    return "" if found in stop_terms() else found


def _rate(plain: str, start: int, end: int) -> str:
    after = _RATE.match(plain[end : end + RATE_REACH])
    before = _RATE_BEFORE.search(plain[max(0, start - 12) : start])
    for found in (after, before):
        if found:
            named = next(value for value in found.groupdict().values() if value).lower()
            return _RATES.get(named, named)
    return ""


def _bound(plain: str, start: int, end: int) -> str:
    before = (
        plain[max(0, start - 16) : start + 1]
        if plain[start : start + 1].isspace()
        else plain[max(0, start - 16) : start]
    )
    if _MOST.search(before):
        return "most"
    if _LEAST.search(before) or _OPEN.match(plain[end : end + 8]):
        return "least"
    return "about" if _ABOUT.search(before) else ""
