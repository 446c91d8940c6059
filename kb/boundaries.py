"""Where running text may be cut: paragraphs, list items, sentences of both scripts, lines, clauses, grapheme clusters.

Every function takes a span of a text and returns the spans it consists of, in order, without gaps; white space after a
piece belongs to the piece.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

import regex  # type: ignore[import-untyped]  # it ships no types; only for grapheme clusters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Splitter: TypeAlias = "Callable[[str, int, int], list[Span]]"

Span: TypeAlias = "tuple[int, int]"

_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
_ITEM = re.compile(
    r"\n(?=[ \t]*(?:[-*+•·]|\d{1,4}[.)、]|[(（][0-9一二三四五六七八九十]{1,4}[)）]|[一二三四五六七八九十]{1,3}、)\s?\S)"
)
_LINE = re.compile(r"\n\s*")
_ROW = re.compile(r"\n")
_CELL = re.compile(r"(?<!\\)\|\s*")
_CLAUSE = re.compile(r"[，、：；]\s*|[,;:][\"'”’)\]]*\s+|\s[—–-]{1,2}\s+")
_PAIRED = "”’」』）)】》〉]}»›"  # closing marks that cannot open
_STRAIGHT = "\"'*_`~"  # marks that open and close alike
_STOP = re.compile(
    r"(?P<wide>[。！？；…｡!?]*[。！？；…｡][。！？；…｡!?]*)|(?P<narrow>[.!?]+(?=["
    + re.escape(_PAIRED + _STRAIGHT)
    + r"]*(?:\s|$)))"
    r"|(?P<mixed>(?<=[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])[!?]+)"
)
_LAST_WORD = re.compile(r"(?:^|[\s(\[\"'“‘*_])([^\s(\[\"'“‘*_]{1,12})$")
_NUMBERING = re.compile(r"(?:^|\n)[ \t]*\d{1,4}$")
_ABBREVIATIONS = frozenset(
    """mr mrs ms dr prof st sr jr vs fig figs no nos vol ed eds pp cf al e.g i.e viz approx est dept u.s u.k a.m p.m
    sec ch eq jan feb mar apr jun jul aug sep sept oct nov dec""".split()  # noqa: SIM905 - a list literal takes a screen
)
_CLUSTER = regex.compile(r"\X")
_LOOK_AHEAD = 64  # characters read past a cut to see whether it falls inside a cluster


def paragraphs(text: str, start: int, end: int) -> list[Span]:
    """Return the paragraphs of `text[start:end]`: what blank lines part."""
    return _spans(start, end, (m.end() for m in _PARAGRAPH.finditer(text, start, end)))


def items(text: str, start: int, end: int) -> list[Span]:
    """Return the list items of `text[start:end]`: what begins on a line with a bullet or a number."""
    return _spans(start, end, (m.end() for m in _ITEM.finditer(text, start, end)))


def lines(text: str, start: int, end: int) -> list[Span]:
    """Return the lines of `text[start:end]`; indentation belongs to the line before, since prose does not need it."""
    return _spans(start, end, (m.end() for m in _LINE.finditer(text, start, end)))


def rows(text: str, start: int, end: int) -> list[Span]:
    """Return the lines of `text[start:end]` with their own indentation, as code and tables need."""
    return _spans(start, end, (m.end() for m in _ROW.finditer(text, start, end)))


def cells(text: str, start: int, end: int) -> list[Span]:
    """Return the cells of a table row."""
    return _spans(start, end, (m.end() for m in _CELL.finditer(text, start, end)))


def clauses(text: str, start: int, end: int) -> list[Span]:
    """Return the clauses of `text[start:end]`: what commas, colons and dashes part."""
    return _spans(start, end, (m.end() for m in _CLAUSE.finditer(text, start, end)))


def sentences(text: str, start: int, end: int) -> list[Span]:
    """Return the sentences of `text[start:end]`; closing quotes and brackets stay with their sentence.

    Chinese ends (。！？；…) count wherever they stand; Latin ones (. ! ?) need white space after them, no lower-case
    letter next, and no abbreviation, initial or list number before them. Blank lines and list items end a sentence too.
    """
    ends = [m.end() for pattern in (_PARAGRAPH, _ITEM) for m in pattern.finditer(text, start, end)]
    ends += _sentence_ends(text, start, end)
    return _spans(start, end, sorted(ends))


def cluster_cut(text: str, start: int, cut: int) -> int:
    """Return the last position in (start, cut] that is not inside a grapheme cluster, if `start` is the start of one.

    A cluster that fills the whole span (a letter under hundreds of marks) is cut at `cut`: the limit wins.
    """
    best = start
    for cluster in _CLUSTER.finditer(text, start, min(len(text), cut + _LOOK_AHEAD)):
        if cluster.end() > cut:
            break
        best = cluster.end()
    return best if best > start else cut


def _sentence_ends(text: str, start: int, end: int) -> Iterator[int]:
    begin = start
    for stop in _STOP.finditer(text, start, end):
        if stop.start() < begin:
            continue
        close = _closed(text, begin, stop.end(), end)
        after = _past_blank(text, close, end)
        if stop.lastgroup == "narrow" and not _ends_latin(text, begin, stop.start(), stop.group(), after, end):
            continue
        if stop.group().endswith("…") and after < end and text[after].islower():
            continue
        yield after
        begin = after


def _ends_latin(text: str, begin: int, position: int, mark: str, after: int, end: int) -> bool:
    if after < end and text[after].islower():
        return False
    if mark != ".":
        return True
    before = text[max(begin, position - 16) : position]
    if _NUMBERING.search(text[max(0, position - 16) : position]):
        return False
    word = _LAST_WORD.search(before)
    if word is None:
        return True
    last = word.group(1)
    return last.lower() not in _ABBREVIATIONS and not (len(last) == 1 and last.isupper() and last.isascii())


def _closed(text: str, begin: int, position: int, end: int) -> int:
    """Return where a sentence's closing marks end; a straight mark closes only what the sentence opened."""
    while position < end:
        mark = text[position]
        if mark in _STRAIGHT:
            run = position
            while run < end and text[run] == mark:
                run += 1
            spaced = run == end or text[run].isspace()
            if not spaced and text.count(text[position:run], begin, position) % 2 == 0:
                return position
            position = run
        elif mark in _PAIRED:
            position += 1
        else:
            return position
    return position


def _past_blank(text: str, position: int, end: int) -> int:
    while position < end and text[position].isspace():
        position += 1
    return position


def _spans(start: int, end: int, ends: Iterable[int]) -> list[Span]:
    spans = []
    for position in ends:
        if start < position < end:
            spans.append((start, position))
            start = position
    if start < end:
        spans.append((start, end))
    return spans
