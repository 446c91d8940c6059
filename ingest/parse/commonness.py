"""How surprising a character is in a language: what tells a right reading of double-byte text from a wrong one.

Bytes of one encoding read in another give real characters, but hardly ever the ones that people write. The scale is
natural logarithms of probability below that of a common character: a common one costs 0, one e times rarer costs 1.
All common ones cost the same, so that repeating a single character proves nothing.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

UNLISTED = 6.0  # a letter of the language that hardly anybody writes
FOREIGN = 9.0  # a letter that its writers do not use at all
IMPLAUSIBLE = 30.0  # private use, controls, what no typist can enter
SYMBOL = 2.0
DRAWN = 0.5  # lines, boxes and arrows, of which trees and tables are made
MARK = 0.0

_MARKS = frozenset("　。，、；：？！（）「」『』《》【】〈〉〔〕“”‘’—…·・•–ー￥％＋－／～％＃＆＝＊〜−―々")


class Language(StrEnum):
    """Languages written in double-byte encodings; the names are those of the data file."""

    SIMPLIFIED = "hans"
    TRADITIONAL = "hant"
    JAPANESE = "ja"
    KOREAN = "ko"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fall:
    """Ranks below `knee` are common; from there a character gets e times rarer every `step` ranks."""

    knee: int
    step: int


# Read off the counts: 93 % of written Chinese is among the first 1500 characters, 94 % of Korean in 400 syllables.
_FALLS = {
    Language.SIMPLIFIED: _Fall(knee=1500, step=750),
    Language.TRADITIONAL: _Fall(knee=1500, step=750),
    Language.JAPANESE: _Fall(knee=1000, step=500),
    Language.KOREAN: _Fall(knee=400, step=200),
}


def surprise(text: str, language: Language) -> float:
    """Return how surprising the non-ASCII characters of `text` are in `language`, in nats, added up; 0 or more."""
    ranks = _ranks(language)
    counts = Counter(text)
    return sum(_surprise(char, language, ranks) * n for char, n in counts.items() if not char.isascii())


def common(text: str, language: Language) -> int:
    """Return how many different letters of `text` are among the most written of `language` (kana always are)."""
    ranks = _ranks(language)
    knee = _FALLS[language].knee
    return sum(ranks.get(char, knee) < knee or "\u3041" <= char <= "\u30fe" for char in set(text))


def _surprise(char: str, language: Language, ranks: Mapping[str, int]) -> float:
    rank = ranks.get(char)
    if rank is not None:
        fall = _FALLS[language]
        return max(0.0, (rank - fall.knee) / fall.step)
    if char in _MARKS:
        return MARK
    if "\u3041" <= char <= "\u30fe":  # kana
        return 0.0 if language is Language.JAPANESE else FOREIGN / 2
    return UNLISTED if _at_home(char, language) else _beyond(char)


def _beyond(char: str) -> float:
    """Cost what is no letter of the language."""
    if "\uff01" <= char <= "\uff5e" or "\u2460" <= char <= "\u24ff" or "\u2160" <= char <= "\u2179":
        return 1.0  # full-width letters and digits, numbers in circles
    if "\u2500" <= char <= "\u25ff" or "\u2190" <= char <= "\u2193":
        return DRAWN
    if "\u2010" <= char <= "\u27bf" or "\xa0" <= char <= "\xbf" or char in "×÷〓〒":
        return SYMBOL
    if "\ue000" <= char <= "\uf8ff" or char >= "\U000e0000" or char < "\xa0":
        return IMPLAUSIBLE
    return FOREIGN


# The part of each national set whose rows hold its everyday characters: what is beyond is there for completeness.
_HOMES = {
    Language.SIMPLIFIED: ("gb2312", range(0xB0, 0xF8)),
    Language.TRADITIONAL: ("big5hkscs", range(0x87, 0xFF)),  # Hong Kong writes with its supplement
    Language.JAPANESE: ("euc_jp", range(0xB0, 0xF5)),
    Language.KOREAN: ("euc_kr", range(0xB0, 0xFE)),
}


def _at_home(char: str, language: Language) -> bool:
    if unicodedata.category(char) != "Lo":
        return False
    encoding, rows = _HOMES[language]
    try:
        data = char.encode(encoding)
    except UnicodeEncodeError:
        return False
    return len(data) == len(b"\xb0\xa1") and data[0] in rows


@cache
def _ranks(language: Language) -> Mapping[str, int]:
    lines = files(__package__).joinpath("data/common_characters.txt").read_text(encoding="utf-8").splitlines()
    characters = next(line.partition(" ")[2] for line in lines if line.startswith(f"{language} "))
    return {char: rank for rank, char in enumerate(characters)}
