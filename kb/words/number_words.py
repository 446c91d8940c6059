"""Numbers written in words: "twenty-one", "one hundred and twenty", 一百二十, 二十万. Pure."""

from __future__ import annotations

import re

_ONE_TO_NINETEEN = """one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen"""
_ONES = {"zero": 0} | {word: n for n, word in enumerate(_ONE_TO_NINETEEN.split(), 1)}
_TENS = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
}  # fmt: skip
_SIMPLE = _ONES | _TENS
_POWERS = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_WORD = "|".join(sorted([*_SIMPLE, *_POWERS, "dozen"], key=len, reverse=True))
NUMBER_WORDS = (
    rf"(?:(?:a|half\sa)\s(?=dozen|hundred|thousand|million|billion))?(?:{_WORD})(?:(?:-|\s(?:and\s)?)(?:{_WORD}))*"
)
_HAN_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_HAN_POWERS = {"十": 10, "百": 100, "千": 1000}
_HAN_SCALES = {"万": 10_000, "亿": 100_000_000}


def worded_number(words: str) -> float | None:
    """Return the number that English words say; None for a lone "one", which is as often a pronoun."""
    found = re.findall(_WORD, words.lower())
    if found == ["one"]:
        return None
    total, current = 0, 0
    for word in found:
        if word == "dozen":
            current = 12 * (current or 1)
        elif word == "hundred":
            current = 100 * (current or 1)
        elif word in _POWERS:
            total, current = total + (current or 1) * _POWERS[word], 0
        else:
            current += _SIMPLE[word]
    return (total + current) / 2 if words.lower().startswith("half") else float(total + current)


def han_number(written: str) -> float | None:
    """Return the number that Han numerals say; None for a lone 一, and for powers without a digit (万一, 千万)."""
    if written == "一" or written[0] in "百千万亿" or not any(c in _HAN_DIGITS or c == "十" for c in written):
        return None
    if all(c in _HAN_DIGITS for c in written):
        return float("".join(str(_HAN_DIGITS[c]) for c in written))
    total, section, digit = 0, 0, 0
    for letter in written:
        if letter in _HAN_DIGITS:
            digit = _HAN_DIGITS[letter]
        elif letter in _HAN_POWERS:
            section, digit = section + (digit or 1) * _HAN_POWERS[letter], 0
        else:
            total, section, digit = (total + section + digit) * _HAN_SCALES[letter], 0, 0
    return float(total + section + digit)
