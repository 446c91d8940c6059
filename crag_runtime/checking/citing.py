r"""Citation marks: `[n]` after what rests on evidence number n. Pure.

Models write them in many ways (`[1, 2]`, `【1】`, `［１］`, `[1-3]`, `[source 1]`, `【1†page】`); here all become
`[1][2]`.
What stands in code, or after a backslash, is no mark: `items[0]` and a quoted text's own `\[2\]` stay as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from kb.boundaries import sentences as cut

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from crag_runtime.evidence import Citation, Excerpt

LONGEST_MARK = 64  # characters; what is longer is text in brackets
WIDEST_RANGE = 10  # numbers that `[a-b]` may stand for
FENCE = 3  # backticks from which code runs over lines
_OPEN, _CLOSE = "[【［〔", "]】］〕"
_OPENS, _CLOSES = re.escape(_OPEN), re.escape(_CLOSE)
_WORD = r"(?:\^|(?:sources?|citations?|evidence|refs?|来源|引用|证据|资料)\s{0,2}[:：#]?\s{0,2})?"
_MARK = re.compile(
    rf"[{_OPENS}]\s{{0,2}}{_WORD}(\d{{1,3}}(?:\s{{0,2}}[,，、;；–-]\s{{0,2}}{_WORD}\d{{1,3}}){{0,9}})\s{{0,2}}"
    rf"(?:†[^{_CLOSES}\n]{{0,40}})?[{_CLOSES}]",
    re.IGNORECASE,
)
_NUMBERS = re.compile(r"(\d{1,3})(?:\s*[–-]\s*\D{0,10}?(\d{1,3}))?")
_ENDS_MARK = re.compile(rf"[{_CLOSES}\n]")
_PLAIN = re.compile(rf"[^`\n\\ {_OPENS}]+")
_CODE = re.compile(r"[^`\n]+")
_QUOTES = re.compile(r"“[^”\n]{0,1500}”|「[^」\n]{0,1500}」|«[^»\n]{0,1500}»")
_LEAD = re.compile(r"^\s*(?:>\s?|#{1,6}\s+|[-*+•]\s+|\d{1,2}(?:[.)]\s+|、\s*))*")
_GAP = re.compile(r" +(?=[ .,;:!?。，；：！？)）])")  # what a mark that is taken out leaves
_RULER = re.compile(r"^\s*\|?[\s:|-]*-[\s:|-]*$")


class Part(StrEnum):
    """What a piece of an answer is."""

    SENTENCE = "sentence"
    BLOCK = "block"  # fenced: quoted line by line
    FRAME = "frame"  # a table's header or ruler


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece of an answer without its marks, and the numbers it cites. A block cites what the line before it does."""

    text: str
    numbers: tuple[int, ...]
    part: Part = Part.SENTENCE


class Marks:
    """Brings the marks of a text into one form while it streams; the result does not depend on how it is cut.

    Known numbers are counted anew in the order of their first use, so that a reader sees [1], [2]...; a mark of which
    nothing is known is left out together with the blanks before it.

    Args:
        known: numbers that may be cited; None for all, each keeping its number.
    """

    def __init__(self, known: Container[int] | None) -> None:
        self._known = known
        self._held = ""
        self._fence = ""  # the backticks that opened the code we are in
        self.used: dict[int, int] = {}  # number as written → number as given out, in order of first use
        self.spans: list[tuple[int, int, tuple[int, ...]]] = []  # marks in the text given out
        self._length = 0

    def feed(self, piece: str) -> str:
        """Take the next piece; return what is certain by now."""
        self._held += piece
        return self._advance(is_last=False)

    def close(self) -> str:
        """Return the rest."""
        return self._advance(is_last=True)

    def number(self, written: int) -> int:
        """Return the number that stands for `written` from now on."""
        return written if self._known is None else self.used.setdefault(written, len(self.used) + 1)

    def _advance(self, *, is_last: bool) -> str:
        out: list[str] = []
        position = 0
        while position < len(self._held):
            end = self._step(position, out, is_last=is_last)
            if end == position:
                break
            position = end
        self._held = self._held[position:]
        return "".join(out)

    def _step(self, position: int, out: list[str], *, is_last: bool) -> int:
        """Take one token of what is held; return where it ends, or `position` when more is needed."""
        letter = self._held[position]
        if letter == "`":
            return self._ticks(position, out, is_last=is_last)
        if letter == "\n":
            self._fence = self._fence if len(self._fence) >= FENCE else ""
            return self._plain(position, position + 1, out)
        if self._fence:
            return self._plain(position, _end(_CODE, self._held, position), out)
        if letter == "\\":
            return self._escape(position, out, is_last=is_last)
        if letter == " " or letter in _OPEN:
            return self._bracket(position, out, is_last=is_last)
        return self._plain(position, _end(_PLAIN, self._held, position), out)

    def _escape(self, position: int, out: list[str], *, is_last: bool) -> int:
        """Take a backslash, and the bracket or backtick that it makes plain."""
        following = self._held[position + 1 : position + 2]
        if not following and not is_last:
            return position
        return self._plain(position, position + 1 + (following in {"`", "\\", *_OPEN, *_CLOSE}), out)

    def _plain(self, start: int, end: int, out: list[str]) -> int:
        out.append(self._held[start:end])
        self._length += len(out[-1])
        return end

    def _ticks(self, position: int, out: list[str], *, is_last: bool) -> int:
        end = position
        while end < len(self._held) and self._held[end] == "`":
            end += 1
        if end == len(self._held) and not is_last:
            return position
        run = self._held[position:end]
        if not self._fence:
            self._fence = run
        elif len(run) == len(self._fence) or len(run) > len(self._fence) >= FENCE:
            self._fence = ""
        return self._plain(position, end, out)

    def _bracket(self, position: int, out: list[str], *, is_last: bool) -> int:
        at = position
        while at < len(self._held) and self._held[at] == " ":
            at += 1
        if at == len(self._held):
            return self._plain(position, at, out) if is_last else position
        if self._held[at] not in _OPEN:
            return self._plain(position, at, out)
        found = _MARK.match(self._held, at, at + LONGEST_MARK)
        if found is None:
            is_open = len(self._held) - at < LONGEST_MARK and not _ENDS_MARK.search(self._held, at + 1)
            if is_open and not is_last:
                return position
            return self._plain(position, at + 1, out)
        numbers = self._numbers(found.group(1))
        if numbers:
            mark = "".join(f"[{number}]" for number in numbers)
            self.spans.append((self._length + at - position, self._length + at - position + len(mark), numbers))
            out.append(self._held[position:at] + mark)
            self._length += len(out[-1])
        return found.end()

    def _numbers(self, written: str) -> tuple[int, ...]:
        known = (n for n in _written(written) if self._known is None or n in self._known)
        return tuple(dict.fromkeys(self.number(n) for n in known))


def normalised(text: str, known: Container[int] | None = None) -> str:
    """Return the text with its marks in one form; see `Marks`."""
    marks = Marks(known)
    return marks.feed(text) + marks.close()


def cited_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers that a text cites, each where it first stands."""
    return tuple(dict.fromkeys(number for _, _, numbers in _marked(text)[1] for number in numbers))


def cited_ids(text: str, citations: Iterable[Citation]) -> tuple[str, ...]:
    """Return the ids that a text cites, each where it first stands; numbers without a citation are passed over."""
    ids = {citation.number: citation.id for citation in citations}
    return tuple(dict.fromkeys(ids[number] for number in cited_numbers(text) if number in ids))


def numbering(excerpts: Sequence[Excerpt]) -> dict[str, int]:
    """Return the number of each evidence of a task, from 1, in the order of the excerpts."""
    ids = dict.fromkeys(excerpt.evidence.id for excerpt in excerpts)
    return {known: number for number, known in enumerate(ids, start=1)}


def unmarked(text: str) -> str:
    """Return foreign text in which nothing counts as a mark: its brackets get a backslash before them."""
    plain, spans = _marked(text)
    if plain != text:  # a mark in another form: every bracket is made safe
        return re.sub(f"(?<!\\\\)([{_OPENS}{_CLOSES}])", r"\\\1", text)
    for start, end, _ in reversed(spans):
        text = text[:start] + re.sub(r"([\[\]])", r"\\\1", text[start:end]) + text[end:]
    return text


def pieces(text: str) -> list[Piece]:
    """Return an answer's sentences, fenced blocks and table rows, in order.

    A mark after a full stop belongs to the sentence before it.
    """
    found: list[Piece] = []
    block: list[str] = []
    fence = ""
    text, spans = _marked(text)
    position = 0
    lines = text.split("\n")
    for ordinal, line in enumerate(lines):
        ticks = _fence_of(line)
        if fence:
            is_end = len(ticks) >= len(fence) and not line.strip().strip("`")
            block += [] if is_end else [line]
            if is_end or ordinal == len(lines) - 1:
                found.append(Piece(text="\n".join(block), numbers=_before(found), part=Part.BLOCK))
                fence, block = "", []
        elif ticks:
            fence, named = ticks, line.strip().strip("`").strip()
            block = [named] if len(named.split()) > 1 else []  # one word names a language; more would say something
        elif line.strip():
            following = lines[ordinal + 1] if ordinal + 1 < len(lines) else ""
            found += _of_line(line, [(a - position, b - position, n) for a, b, n in spans], following)
        position += len(line) + 1
    return found


def _before(found: Sequence[Piece]) -> tuple[int, ...]:
    return found[-1].numbers if found else ()


def _fence_of(line: str) -> str:
    stripped = line.lstrip()
    ticks = stripped[: len(stripped) - len(stripped.lstrip("`"))]
    return ticks if len(ticks) >= FENCE and "`" not in stripped[len(ticks) :] else ""


def _of_line(line: str, spans: Iterable[tuple[int, int, tuple[int, ...]]], following: str) -> Iterator[Piece]:
    marks = [(a, b, n) for a, b, n in spans if a >= 0 and b <= len(line)]
    is_row = line.strip().startswith("|")
    if is_row and (_RULER.match(line) or _RULER.match(following)):
        yield Piece(text=line.strip(), numbers=(), part=Part.FRAME)
        return
    masked = _QUOTES.sub(_masked, line)
    for a, b, _ in marks:
        masked = masked[:a] + " " * (b - a) + masked[b:]
    begin = _end(_LEAD, line, 0)
    for start, end in [(begin, len(line))] if is_row else cut(masked, begin, len(line)):
        own = [(a, b, n) for a, b, n in marks if start <= a < end]
        bare = line[start:end]
        for a, b, _ in reversed(own):
            bare = bare[: a - start] + " " + bare[b - start :]
        if bare.strip():
            yield Piece(
                text=_GAP.sub("", bare).strip(), numbers=tuple(dict.fromkeys(n for _, _, ns in own for n in ns))
            )


def _masked(quote: re.Match[str]) -> str:
    """Hide a quotation's inner stops; one at its very end still ends the sentence it stands in."""
    found = quote.group()
    inner = found[1:-1]
    last = inner[-1:] if inner[-1:] in set("。！？!?.") else "x" * bool(inner)
    return found[0] + "X" * (len(inner) - 1) + last + found[-1]


def _marked(text: str) -> tuple[str, list[tuple[int, int, tuple[int, ...]]]]:
    marks = Marks(None)
    return marks.feed(text) + marks.close(), marks.spans


def _written(numbers: str) -> Iterator[int]:
    for first, last in _NUMBERS.findall(numbers):
        start, end = int(first), int(last or first)
        yield from range(start, end + 1) if start <= end < start + WIDEST_RANGE else (start, end)


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.match(text, start)
    return found.end() if found else start + 1
