"""Counts the tokens of joined segments exactly without reading them again.

cl100k splits a text into pieces before it merges bytes, and a piece ends after every run of line breaks. So a joint of
line breaks parts the count into those of the segments, and only the punctuation right before a joint can merge with it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ingest.split import Segment

_LONGEST_TAIL = 8  # characters of punctuation worth remembering


class Ruler:
    """A cl100k counter that remembers what joints cost; one for a document."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self.count = count
        self._joints: dict[tuple[str, str], int] = {}

    def tokens(self, segments: Sequence[Segment], text: str) -> int:
        """Return the cl100k tokens of `text`, which is the segments joined, each of them knowing its own."""
        total = segments[0].tokens
        for before, after in pairwise(segments):
            joint = self._joint(before.text, after.gap, after.text)
            if joint is None:
                return self.count(text)
            total += joint + after.tokens
        return total

    def _joint(self, before: str, gap: str, after: str) -> int | None:
        """Return how many tokens a joint adds; None where only counting the whole can tell."""
        if gap not in ("\n", "\n\n") or after[0].isspace():
            return None
        last = before[-1]
        if last.isalnum():
            return 1
        tail = _tail(before)
        if len(tail) > _LONGEST_TAIL or last.isspace():
            return None
        known = self._joints.get((tail, gap))
        if known is None:
            known = self._joints[tail, gap] = self.count(tail + gap) - self.count(tail)
        return known


def _tail(text: str) -> str:
    """Return the punctuation a text ends with, and the space before it, which belongs to the same piece."""
    start = len(text)
    low = max(0, start - _LONGEST_TAIL - 1)
    while start > low and not (text[start - 1].isalnum() or text[start - 1].isspace()):
        start -= 1
    return text[max(0, start - 1) :] if text[max(0, start - 1)] == " " else text[start:]
