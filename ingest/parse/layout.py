"""Rebuilds paragraphs from a page's lines: pure decisions over where each line stands and how large its type is."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise

from ingest.parse.plaintext import numbered_heading

LARGE_TYPE = 1.15  # times the body's size, from which short lines are headings
HEADING_LENGTH = 120
MAX_HEADING_SHARE = 0.2  # of a document's lines; above it the type is decoration
MARK_LENGTH = 3  # of a footnote mark or an exponent
PAGE_WORDS = 12  # letters around a page number
RUNNING_PAGES = 4  # fewest pages from which repeated lines are running heads

_HAN = r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\u3000-\u303f]"
_HAN_END = re.compile(rf"{_HAN}\s*$")
_HAN_START = re.compile(rf"\s*{_HAN}")
_HYPHEN = re.compile(r"(?<=[^\W\d_])[-\u00ad\u2010\ufffe\x02]\s*$")
_SOFT = re.compile("[\ufffe\x02\u00ad]")
_BULLET = re.compile(r"\s*(?:[•·▪◦●○■□–—*‣]|\(?\d{1,3}[.)、]|[-]|[（(][一二三四五六七八九十\d]+[)）])\s*\S")
_SENTENCE_END = re.compile(r"[.!?。！？:：;；]['\"”’)）]?\s*$")
_SPACES = re.compile(r"[ \t\xa0]+")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a page; coordinates in points, origin at the lower left, of its first character's box."""

    text: str
    top: float = 0.0
    bottom: float = 0.0
    left: float = 0.0

    @property
    def size(self) -> float:
        """Height of its type in points."""
        return round(abs(self.top - self.bottom), 1)

    @property
    def folded(self) -> str:
        """Its text as outline titles are compared: without white space, case folded."""
        return "".join(self.text.split()).casefold()

    @property
    def key(self) -> str:
        """What stays the same of a running head from page to page; of a page number its form."""
        text = " ".join(self.text.split())
        return _DIGITS.sub("#", text) if sum(map(str.isalpha, text)) <= PAGE_WORDS else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """A rebuilt paragraph, or with a level above 0 a heading."""

    text: str
    level: int = 0


def running_lines(pages: list[list[Line]]) -> frozenset[str]:
    """Return the keys of lines that stand first or last on more than half of the pages (of four or more)."""
    full = [lines for lines in pages if lines]
    if len(full) < RUNNING_PAGES:
        return frozenset()
    edges = Counter(key for lines in full for key in {line.key for line in (*lines[:2], *lines[-2:])})
    return frozenset(key for key, seen in edges.items() if seen > len(full) / 2)


def with_titles_whole(lines: list[Line], titles: dict[str, int]) -> list[Line]:
    """Return a page's lines with every outline title that runs over two or three of them as one line."""
    whole: list[Line] = []
    at = 0
    while at < len(lines):
        run = next((n for n in (3, 2) if "".join(line.folded for line in lines[at : at + n]) in titles), 1)
        text = joined([line.text for line in lines[at : at + run]]) if run > 1 else lines[at].text
        whole.append(replace(lines[at], text=text))
        at += run
    return whole


def heading_sizes(pages: list[list[Line]]) -> dict[float, int]:
    """Return the type sizes that mark headings and their levels, largest first; empty when none stand out."""
    weights: Counter[float] = Counter()
    for line in (line for lines in pages for line in lines):
        weights[line.size] += len(line.text)
    if not weights:
        return {}
    body = weights.most_common(1)[0][0]
    large = sorted((size for size in weights if size > body * LARGE_TYPE), reverse=True)
    lines = [line for page in pages for line in page]
    chosen = [line for line in lines if line.size in large and len(line.text) <= HEADING_LENGTH]
    if not body or len(chosen) > max(MAX_HEADING_SHARE * len(lines), 3):
        return {}
    return {size: min(rank, 4) for rank, size in enumerate(large, 1)}


def laid_out(lines: list[Line], *, titles: dict[str, int], sizes: dict[float, int]) -> list[Paragraph]:
    """Return a page's paragraphs and headings in order.

    Args:
        lines: of one page, in reading order.
        titles: outline titles of this page without white space, case folded, and their levels.
        sizes: type sizes of headings and their levels; used where the document has no outline.
    """
    gap = _usual_gap(lines)
    width = max((len(line.text) for line in lines), default=0)
    paragraphs: list[Paragraph] = []
    body: list[str] = []
    previous: Line | None = None
    for line in lines:
        level = _level(line, titles, sizes)
        if level or (previous is not None and _starts_paragraph(previous, line, gap=gap, width=width)):
            _close(paragraphs, body)
        if level:
            _add_heading(paragraphs, line, level, follows=previous)
        else:
            body.append(line.text)
        previous = line
    _close(paragraphs, body)
    return paragraphs


def joined(lines: list[str]) -> str:
    """Join lines into running text: hyphenated words made whole, no space between Chinese characters."""
    text = ""
    for line in lines:
        if not text:
            text = line
        elif _HYPHEN.search(text) and line[:1].islower():
            text = _HYPHEN.sub("", text) + line
        elif _HAN_END.search(text) and _HAN_START.match(line):
            text = text.rstrip() + line.lstrip()
        else:
            text = f"{text.rstrip()} {line.lstrip()}"
    return _SPACES.sub(" ", _SOFT.sub("", text))


def _close(paragraphs: list[Paragraph], body: list[str]) -> None:
    if body:
        paragraphs.append(Paragraph(text=joined(body)))
        body.clear()


def _add_heading(paragraphs: list[Paragraph], line: Line, level: int, *, follows: Line | None) -> None:
    last = paragraphs[-1] if paragraphs else None
    together = last is not None and last.level == level and follows is not None and follows.size == line.size
    if together and last is not None and len(last.text) + len(line.text) <= HEADING_LENGTH and _adjacent(follows, line):
        paragraphs[-1] = Paragraph(text=joined([last.text, line.text]), level=level)
    else:
        paragraphs.append(Paragraph(text=line.text, level=level))


def _adjacent(above: Line | None, below: Line) -> bool:
    return above is not None and 0 < above.bottom - below.bottom < 1.6 * max(below.size, 1)


def _level(line: Line, titles: dict[str, int], sizes: dict[float, int]) -> int:
    if line.folded in titles:
        return titles[line.folded]
    if line.size in sizes and len(line.text) <= HEADING_LENGTH and any(char.isalpha() for char in line.text):
        return sizes[line.size]
    level = numbered_heading(line.text)
    return level if level and not line.text[0].isascii() else 0


def _usual_gap(lines: list[Line]) -> float:
    """Return the line spacing: the lower quartile, since what lies between paragraphs is wider."""
    gaps = sorted(above.bottom - below.bottom for above, below in pairwise(lines))
    spacings = [gap for gap in gaps if gap > 0.7 * lines[0].size]
    return spacings[len(spacings) // 4] if spacings else 0.0


def _starts_paragraph(previous: Line, line: Line, *, gap: float, width: int) -> bool:
    distance = previous.bottom - line.bottom
    if gap and (distance > 1.4 * gap or distance < -gap):
        return True
    if _BULLET.match(line.text):
        return True
    marks = min(len(previous.text), len(line.text)) <= MARK_LENGTH
    if not marks and abs(previous.size - line.size) > 0.2 * max(previous.size, 1):
        return True
    short = len(previous.text) < 0.7 * width
    return short and bool(_SENTENCE_END.search(previous.text))
