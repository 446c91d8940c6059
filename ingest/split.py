"""Cuts a block that is too long for one chunk: tables between rows, code between lines, text at its best boundaries.

A part keeps its exact span of the document; what is repeated for the reader (a table's header, a fence, one sentence of
overlap) stands in the part's prefix and suffix and never widens the span.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ingest.blocks import BlockKind
from kb.boundaries import cells, clauses, cluster_cut, items, lines, paragraphs, rows, sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ingest.blocks import Block
    from kb.boundaries import Span, Splitter

    Count = Callable[[str], int]

OVERLAP = 50  # tokens a repeated sentence may have
ENDLESS = 16  # characters a token; a longer piece is cut before anybody counts it
SMALLEST_ROOM = 8  # tokens; below it a part could not hold one character with certainty
_CHARACTERS_A_TOKEN = 4  # first guess of a hard cut
_TEXT_LEVELS = (paragraphs, items, sentences, lines, clauses)
_TABLE_LEVELS = (rows, cells, clauses)
_CODE_LEVELS = (rows,)
_SENTENCE = _TEXT_LEVELS.index(sentences)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A block, or a part of one, on its way into a chunk.

    Args:
        block: the block it belongs to.
        start: first character of the document it covers.
        end: one past the last.
        tokens: cl100k tokens of `text`.
        path: headings above it, outermost first; a heading's own path ends with itself.
        section: number of its section, counted through the document.
        gap: white space that joins it to what stands before it in a chunk.
        prefix: what is repeated before it (table header, fence, overlap).
        suffix: what closes it (fence).
    """

    block: Block
    start: int
    end: int
    tokens: int
    path: tuple[str, ...] = ()
    section: int = 0
    gap: str = "\n\n"
    prefix: str = ""
    suffix: str = ""

    @property
    def text(self) -> str:
        """What a reader sees of it at the start of a chunk."""
        core = self.block.text[self.start - self.block.start : self.end - self.block.start]
        return f"{self.prefix}{core}{self.suffix}"

    @property
    def is_heading(self) -> bool:
        """Whether it belongs to a heading."""
        return self.block.kind is BlockKind.HEADING


@dataclass(frozen=True, slots=True, kw_only=True)
class Rooms:
    """Tokens the parts of a block may have: the first one shares its chunk with the headings above it."""

    first: int
    others: int

    def less(self, cost: int) -> Rooms:
        """Return the rooms that are left when each part also holds `cost` tokens."""
        return Rooms(first=max(SMALLEST_ROOM, self.first - cost), others=max(SMALLEST_ROOM, self.others - cost))


def split(segment: Segment, rooms: Rooms, count: Count) -> list[Segment]:
    """Return the parts of a segment, in order; together they cover every character of it that is not white space.

    Args:
        segment: what is too long.
        rooms: tokens a part should have; a part may be a little over, since counts of pieces do not add up exactly.
        count: cl100k tokens of a text.
    """
    match segment.block.kind:
        case BlockKind.TABLE:
            parts = _split_table(segment, rooms, count)
        case BlockKind.CODE:
            parts = _split_code(segment, rooms, count)
        case _:
            parts = _split_text(segment, rooms, count)
    return [replace(p, tokens=count(p.text), gap=segment.gap if i == 0 else p.gap) for i, p in enumerate(parts)]


def fence(block: Block) -> tuple[str, str]:
    """Return the lines that a part of a code block is wrapped in; "" where the block has no fence.

    A fence that its author never closed is closed with the marks that opened it.
    """
    if block.closing or not block.opening:
        return block.opening, block.closing
    bare = block.opening.lstrip(" \t>")
    indent = block.opening[: len(block.opening) - len(bare)]
    return block.opening, indent + bare[: len(bare) - len(bare.lstrip(bare[:1]))]


def _split_table(segment: Segment, rooms: Rooms, count: Count) -> list[Segment]:
    block = segment.block
    header = "\n".join(block.text.split("\n")[: block.header_lines]) if block.header_lines else ""
    cost = count(header) + 1 if header else 0
    body = max(segment.start, block.start + len(header))
    if not header or cost > rooms.others // 2 or cost > rooms.first - SMALLEST_ROOM or body >= segment.end:
        return _bare(segment, _Cutter(block, _TABLE_LEVELS, rooms, count).cut(segment.start, segment.end))
    spans = _Cutter(block, _TABLE_LEVELS, rooms.less(cost), count).cut(body, segment.end)
    if segment.start < body:
        spans[0] = (segment.start, spans[0][1])
    return [
        replace(segment, start=s, end=e, prefix="" if s < body else f"{header}\n", suffix="", gap="\n")
        for s, e in spans
    ]


def _split_code(segment: Segment, rooms: Rooms, count: Count) -> list[Segment]:
    block = segment.block
    opening, closing = fence(block)
    cost = count(f"{opening}\n{closing}") + 1 if opening else 0
    source = block.text.rstrip()
    body = max(segment.start, block.start + (source.find("\n") + 1 or len(source)))
    body_end = min(segment.end, block.start + (source.rfind("\n") if block.closing else len(source)))
    if not opening or cost > rooms.others // 2 or cost > rooms.first - SMALLEST_ROOM or body >= body_end:
        return _bare(segment, _Cutter(block, _CODE_LEVELS, rooms, count).cut(segment.start, segment.end))
    spans = _Cutter(block, _CODE_LEVELS, rooms.less(cost), count).cut(body, body_end)
    if not spans:
        return [segment]
    spans[0] = (min(segment.start, spans[0][0]), spans[0][1])
    spans[-1] = (spans[-1][0], max(segment.end, spans[-1][1]))
    whole = bool(block.closing)
    return [
        replace(
            segment,
            start=s,
            end=e,
            prefix="" if s < body else f"{opening}\n",
            suffix="" if whole and e > body_end else f"\n{closing}",
            gap="\n",
        )
        for s, e in spans
    ]


def _split_text(segment: Segment, rooms: Rooms, count: Count) -> list[Segment]:
    cutter = _Cutter(segment.block, _TEXT_LEVELS, rooms, count)
    spans = cutter.cut(segment.start, segment.end)
    parts = _bare(segment, spans)
    return parts[:1] + [
        replace(part, prefix=_overlap(segment.block, before, part, count) if level <= _SENTENCE else "")
        for before, part, level in zip(parts, parts[1:], cutter.levels, strict=False)
    ]


def _bare(segment: Segment, spans: Sequence[Span]) -> list[Segment]:
    return [replace(segment, start=s, end=e, prefix="", suffix="") for s, e in spans]


def _overlap(block: Block, before: Segment, part: Segment, count: Count) -> str:
    """Return the last sentence of the part before, with the white space that joins it, if it is short enough."""
    low, high, offset = before.start, before.end, block.start
    window = max(low, high - OVERLAP * ENDLESS)
    start, _ = sentences(block.text, window - offset, high - offset)[-1]
    if start + offset <= window:  # all of the part, or longer than any overlap
        return ""
    sentence = block.text[start : high - offset]
    return sentence + block.text[high - offset : part.start - offset] if count(sentence) <= OVERLAP else ""


class _Cutter:
    """Fills parts with the largest pieces that fit, descending to finer ones only inside a piece that does not."""

    def __init__(self, block: Block, levels: Sequence[Splitter], rooms: Rooms, count: Count) -> None:
        self.levels: list[int] = []  # level of the boundary at which each part was closed
        self._text = block.text
        self._offset = block.start
        self._splitters = levels
        self._keeps_indent = block.kind in (BlockKind.CODE, BlockKind.TABLE)
        self._room = rooms.first
        self._rooms = rooms
        self._count = count
        self._spans: list[Span] = []
        self._start = self._end = 0
        self._used = 0

    def cut(self, start: int, end: int) -> list[Span]:
        """Return the spans of the parts, trimmed of white space, in characters of the document."""
        self._start = self._end = start - self._offset
        self._feed(self._start, end - self._offset, 0)
        self._close(0)
        return [(s + self._offset, e + self._offset) for s, e in self._spans]

    def _feed(self, start: int, end: int, level: int) -> None:
        if level == len(self._splitters):
            self._hard_cut(start, end)
            return
        pieces = self._splitters[level](self._text, start, end)
        if len(pieces) == 1 and level and self._splitters[level] is not sentences:
            self._feed(start, end, level + 1)  # nothing to choose here; a sentence must first try to fit whole
            return
        for s, e in pieces:
            tokens = self._measure(s, e)
            if self._used + tokens > self._room and self._used and self._closes(level, tokens):
                self._close(level)
            if self._used + tokens <= self._room:
                self._take(e, tokens)
            else:
                self._feed(s, e, level + 1)

    def _closes(self, level: int, tokens: int) -> bool:
        """Tell whether a piece that does not fit closes the part before it, rather than being divided to fill it."""
        coarse = self._splitters is _TEXT_LEVELS and level < _SENTENCE
        return not coarse or (tokens <= self._rooms.others and self._used >= self._room // 4)

    def _measure(self, start: int, end: int) -> int:
        if end - start > self._rooms.others * ENDLESS:
            return self._rooms.first + self._rooms.others + 1
        piece = self._text[start:end]
        core = piece.rstrip()
        return self._count(core) + ("\n" in piece[len(core) :])

    def _take(self, end: int, tokens: int) -> None:
        self._end = end
        self._used += tokens

    def _close(self, level: int) -> None:
        piece = self._text[self._start : self._end]
        left = len(piece) - len(piece.lstrip())
        if left < len(piece):
            if self._keeps_indent:
                left = piece.rfind("\n", 0, left) + 1
            self._spans.append((self._start + left, self._start + len(piece.rstrip())))
            self.levels.append(level)
            self._room = self._rooms.others
        self._start = self._end
        self._used = 0

    def _hard_cut(self, start: int, end: int) -> None:
        """Cut at white space, else between grapheme clusters; a piece this long stands alone."""
        if self._used:
            self._close(len(self._splitters))
        while start < end:
            size, tokens = self._fitting(start, end)
            if start + size < end:
                size = self._kindest(start, size)
                tokens = self._room
            self._take(start + size, tokens)
            start += size
            if start < end:
                self._close(len(self._splitters))

    def _fitting(self, start: int, end: int) -> tuple[int, int]:
        size = min(end - start, self._room * _CHARACTERS_A_TOKEN)
        tokens = self._count(self._text[start : start + size])
        while tokens > self._room and size > 1:
            size = max(1, min(size - 1, size * self._room // tokens))
            tokens = self._count(self._text[start : start + size])
        return size, tokens

    def _kindest(self, start: int, size: int) -> int:
        for position in range(start + size, start + size // 2, -1):
            if self._text[position].isspace() or self._text[position - 1].isspace():
                return position - start
        return cluster_cut(self._text, start, start + size) - start
