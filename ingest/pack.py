"""Packs segments into chunks: blocks of a section are merged up to the target, headings travel with what follows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ingest.blocks import BlockKind
from ingest.split import ENDLESS, SMALLEST_ROOM, Rooms, Segment, fence, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ingest.blocks import ParsedDocument

    Count = Callable[[str], int]

FLUSH_AT = 80  # tokens a chunk must have to be closed by a heading
_EVEN = 1.15  # parts may be this much over an even share, so that boundaries can be chosen
SMALL = 40  # tokens below which the rest of a section joins the chunk before it


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Segments that form one chunk, and the tokens they are thought to have (exact counts come later)."""

    segments: tuple[Segment, ...]
    tokens: int


def segments_of(document: ParsedDocument, count: Count, maximum: int) -> list[Segment]:
    """Return the document's blocks as segments with their heading path, section, joining white space and tokens.

    Args:
        document: what was parsed.
        count: cl100k tokens of a text.
        maximum: hard limit of a chunk; a block that surely exceeds it is not counted.
    """
    segments: list[Segment] = []
    stack: list[tuple[int, str]] = []
    path: tuple[str, ...] = ()
    section = end = 0
    for block in document.blocks:
        core = block.text.strip()
        if not core:
            continue
        if block.kind is BlockKind.HEADING:
            section += 1
            stack = [entry for entry in stack if entry[0] < block.level]
            stack.append((block.level, block.title))
            path = tuple(title for _, title in stack if title)
        left = block.text.index(core)
        if block.kind is BlockKind.CODE:  # its indentation means something
            left = block.text.rfind("\n", 0, left) + 1
        start = block.start + left
        gap = _joint(document.text[end:start])
        end = block.start + len(block.text.rstrip())
        suffix = f"\n{fence(block)[1]}" if block.opening and not block.closing else ""
        text = block.text[left : end - block.start] + suffix
        tokens = count(text) if len(text) <= maximum * ENDLESS else maximum + 1
        segments.append(
            Segment(
                block=block, start=start, end=end, tokens=tokens, path=path, section=section, gap=gap, suffix=suffix
            )
        )
    return segments


def pack(segments: Iterable[Segment], *, target: int, maximum: int, count: Count) -> list[Group]:
    """Return the segments as groups, in order.

    Args:
        segments: in order of the document.
        target: tokens up to which blocks are merged, and that parts of a split block have.
        maximum: tokens up to which one block stays whole; at least `target`.
        count: cl100k tokens of a text.
    """
    packer = _Packer(target, maximum, count)
    for segment in segments:
        packer.add(segment)
    return packer.finish()


def repacked(segments: Sequence[Segment], tokens: int, *, share: float, count: Count) -> list[Group]:
    """Return a chunk of `tokens` that is too long as several of at most about `share` of it, evenly filled."""
    limit = max(1, int(tokens * share))
    parts = math.ceil(tokens / limit)
    target = min(limit, math.ceil(tokens / parts * _EVEN))
    return pack([_without_overlap(s, count) for s in segments], target=target, maximum=limit, count=count)


def joined(segments: Sequence[Segment]) -> str:
    """Return the text of a chunk."""
    first, *others = segments
    return first.text + "".join(f"{s.gap}{s.text}" for s in others)


def common_path(segments: Sequence[Segment]) -> tuple[str, ...]:
    """Return the headings above everything in a chunk; headings count only where a chunk has nothing else."""
    paths = [s.path for s in segments if not s.is_heading] or [s.path for s in segments]
    shared = paths[0]
    for path in paths[1:]:
        agree = 0
        while agree < min(len(shared), len(path)) and shared[agree] == path[agree]:
            agree += 1
        shared = shared[:agree]
    return shared


def _without_overlap(segment: Segment, count: Count) -> Segment:
    """Return a part of a text block without the repeated sentence: the first thing to go where room is short."""
    if segment.block.kind is not BlockKind.TEXT or not segment.prefix:
        return segment
    plain = replace(segment, prefix="")
    return replace(plain, tokens=count(plain.text))


def _joint(blank: str) -> str:
    """Return the white space between two blocks without its surplus blank lines."""
    breaks = blank.count("\n")
    return blank if not breaks else "\n" * min(2, breaks) + blank[blank.rfind("\n") + 1 :]


class _Packer:
    def __init__(self, target: int, maximum: int, count: Count) -> None:
        self._target = target
        self._maximum = maximum
        self._count = count
        self._groups: list[Group] = []
        self._current: list[Segment] = []
        self._used = 0
        self._pending: list[Segment] = []  # headings that wait for what follows
        self._waiting = 0

    def add(self, segment: Segment) -> None:
        if segment.is_heading:
            self._add_heading(segment)
        else:
            self._add_content(segment)

    def finish(self) -> list[Group]:
        """Headings at the end join what stands before them, since nothing follows."""
        if self._pending:
            if not self._current and self._groups and self._groups[-1].tokens + self._waiting <= self._maximum:
                last = self._groups.pop()
                self._current, self._used = list(last.segments), last.tokens
            self._release()
        self._flush()
        return self._groups

    def _add_heading(self, segment: Segment) -> None:
        if self._used >= FLUSH_AT or self._joins_back():
            self._flush()
        if self._waiting + segment.tokens > self._target:
            self._release()
        if segment.tokens > self._target:
            *parts, segment = split(segment, Rooms(first=self._target, others=self._target), self._count)
            self._groups += [Group(segments=(part,), tokens=part.tokens) for part in parts]
        self._pending.append(segment)
        self._waiting += segment.tokens + 1

    def _add_content(self, segment: Segment) -> None:
        tokens = self._waiting + segment.tokens
        if self._used + tokens > self._target:
            self._flush()
            if tokens > self._maximum:
                self._add_parts(segment)
                return
        self._current += [*self._pending, segment]
        self._used += tokens + 1
        self._pending, self._waiting = [], 0

    def _add_parts(self, segment: Segment) -> None:
        first = self._target - self._waiting
        if first < self._target // 4:
            first = self._maximum - self._waiting
        if first < SMALLEST_ROOM:
            self._release()
            first = self._target
        parts = split(segment, Rooms(first=first, others=self._target), self._count)
        for part in parts:
            self._flush()
            self._current = [*self._pending, part]
            self._used = self._waiting + part.tokens + 1  # one for the joint to what follows
            self._pending, self._waiting = [], 0

    def _release(self) -> None:
        """A run of headings that has grown too long, or ends the document, is text like any other."""
        if self._used + self._waiting > self._maximum:
            self._flush()
        self._current += self._pending
        self._used += self._waiting
        self._pending, self._waiting = [], 0
        self._flush()

    def _joins_back(self) -> bool:
        """Tell whether what was gathered is a small rest of the section whose last chunk has room for it."""
        if not self._groups or not self._current or self._used >= SMALL:
            return False
        last = self._groups[-1]
        return (
            last.segments[-1].section == self._current[0].section == self._current[-1].section
            and last.tokens + self._used <= self._maximum
        )

    def _flush(self) -> None:
        if not self._current:
            return
        group = Group(segments=tuple(self._current), tokens=self._used)
        if self._joins_back():
            last = self._groups.pop()
            group = Group(segments=_merged(last.segments, group.segments, self._count), tokens=last.tokens + self._used)
        self._groups.append(group)
        self._current, self._used = [], 0


def _merged(before: tuple[Segment, ...], after: tuple[Segment, ...], count: Count) -> tuple[Segment, ...]:
    """Join two runs of segments; two parts of one block become one again, without what was repeated."""
    last, first = before[-1], after[0]
    if last.block is not first.block:
        return (*before, *after)
    whole = replace(last, end=first.end, suffix=first.suffix)
    return (*before[:-1], replace(whole, tokens=count(whole.text)), *after[1:])
