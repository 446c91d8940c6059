"""From a span of tokens to an answer that people can read: whole words, no white space or stray marks around. Pure."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

_STRAY = " \t\r\n\u3000\u00a0,.;:!?，。；：！？、"
_OPENING, _CLOSING = '(（[「『《“"', ')）]」』》”"'
_SPACELESS = ("CJK", "HIRAGANA", "KATAKANA", "IDEOGRAPHIC", "THAI", "LAO", "KHMER", "MYANMAR")  # words have no blanks
_INSIDE = frozenset("'’.,-:/")  # within a number or a code: 30,000 · 2.4.1 · A-17


def tidied(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the answer's span, [start, end) in `text`: from whole words, never beyond the text; empty if nothing is.

    Args:
        text: of the passage.
        start: first character the reader chose.
        end: one behind the last.
    """
    start, end = max(0, start), min(len(text), end)
    while start < end and (text[start] in _STRAY or text[start] in _CLOSING):
        start += 1
    while start < end and (text[end - 1] in _STRAY or _is_unopened(text, start, end)):
        end -= 1
    if start >= end:
        return start, start
    while start > 0 and _belong_together(text, start):
        start -= 1
    while end < len(text) and _belong_together(text, end):
        end += 1
    return start, end


def _is_unopened(text: str, start: int, end: int) -> bool:
    """Return whether the last character is an opening mark, or closes one that is not in the span."""
    last = text[end - 1]
    if last in _OPENING and last not in _CLOSING:
        return True
    if last not in _CLOSING:
        return False
    opening = _OPENING[_CLOSING.index(last)]
    inside = text[start : end - 1]
    return inside.count(opening) % 2 == 0 if opening == last else opening not in inside


def _belong_together(text: str, at: int) -> bool:
    """Return whether a cut before `text[at]` would go through a word, a number or a letter and its marks."""
    before, after = text[at - 1], text[at]
    if unicodedata.combining(after) or "\ufe00" <= after <= "\ufe0f" or "\u200d" in (before, after):
        return True
    if _is_spaced(before) and _is_spaced(after):
        return True
    around = text[max(0, at - 2) : at + 2]
    return any(
        a.isdigit() and b in _INSIDE and c.isdigit() for (a, b), c in zip(pairwise(around), around[2:], strict=False)
    )


def _is_spaced(letter: str) -> bool:
    """Return whether a letter is of a script that puts blanks between words."""
    if not letter.isalnum():
        return bool(unicodedata.combining(letter))
    return letter.isascii() or not unicodedata.name(letter, "").startswith(_SPACELESS)
