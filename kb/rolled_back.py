"""What was rolled back, in words and marks: how such a memory is told, and by which pieces its text is known again.

Pure. A text that comes again is seldom the same passage: an edit beside it moves where passages are cut. So a rolled
back passage leaves a mark for each of its telling paragraphs, too; within its own document even single sentences count.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kb.boundaries import paragraphs, sentences
from kb.model import Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kb.model import Memory
    from kb.sweeps import SweepId, Tombstone

ROLLED_BACK = "rolled back"
DESCENDS = "descends from what was rolled back"
ROOT_CODE, DESCENT_CODE = "rolled_back", "descends_from_rolled_back"  # reasons of a sweep's actions
CODES = frozenset({ROOT_CODE, DESCENT_CODE})
TELLING_WORDS = 5  # a shorter paragraph, as `See below.`, may stand anywhere
TELLING_HAN = 8  # likewise, letters of a script without spaces
TELLING_CELLS = 3  # likewise, words and such letters of a row of a table
BESIDE = 3  # short parts that are looked at on either side of a paragraph
_WORD = re.compile(r"[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_HAN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_HEADING = re.compile(r"\s*#{1,6}\s")
_RULE = re.compile(r"\|[\s:|-]+")


def marks(text: str) -> tuple[str, ...]:
    """Return the pieces that a passage is known by when it comes again, each once: the whole comes first.

    The others are its telling paragraphs, each alone and with what is too short to tell directly before or after it.
    A heading alone is none: new words under an old heading are new. But where many paragraphs are alike, as in a form
    that is filled in for everybody, it is the heading, or a short line, that says whom one is about.
    """
    own = list(bodies(text))
    parts = (*(body.text for body in own), *(part for body in own for part in body.set_apart()))
    return tuple(dict.fromkeys((text, *filter(is_telling, parts))))


def sayings(text: str) -> frozenset[str]:
    """Return the telling sentences of a passage, each in one spelling."""
    return frozenset(map(plain, telling_sentences(text)))


def telling_sentences(text: str) -> tuple[str, ...]:
    """Return the sentences, and rows of tables, that are known again by themselves, in order, each once."""
    parts = (part.strip() for body in bodies(text) for part in _sayings(body.text))
    return tuple(dict.fromkeys(part for part in parts if is_telling(part)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A telling paragraph of a passage.

    Args:
        text: of the paragraph.
        before: what stands directly before it and is too short to tell, such as headings; the nearest is the last.
        after: likewise, what follows it; the nearest is the first.
    """

    text: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def set_apart(self) -> Iterator[str]:
        """Yield the paragraph with what may set it apart from others: near as much as far, and on either side."""
        for number in range(1, min(len(self.before), BESIDE) + 1):
            yield "\n\n".join((*self.before[-number:], self.text))
        for number in range(1, min(len(self.after), BESIDE) + 1):
            yield "\n\n".join((self.text, *self.after[:number]))


def bodies(text: str) -> list[Body]:
    """Return the telling paragraphs of a passage, in order."""
    found: list[Body] = []
    short: tuple[str, ...] = ()
    for part in _parts(text):
        if _HEADING.match(part) or not is_telling(part):
            short = (*short, part)
            continue
        if found:
            found[-1] = replace(found[-1], after=short)
        found.append(Body(text=part, before=short))
        short = ()
    if found:
        found[-1] = replace(found[-1], after=short)
    return found


def _parts(text: str) -> Iterator[str]:
    """Yield the headings and paragraphs of a passage; a heading needs no blank line after it."""
    for start, end in paragraphs(text, 0, len(text)):
        piece = text[start:end].strip()
        while _HEADING.match(piece):
            heading, _, piece = (part.strip() for part in piece.partition("\n"))
            yield heading
        if piece:
            yield piece


def _sayings(body: str) -> Iterable[str]:
    """Return the sentences of a paragraph, or the rows of a table but its header, which says nothing of anybody."""
    lines = body.splitlines()
    if all(line.startswith("|") for line in lines):
        ruled = [_RULE.fullmatch(line) is not None for line in (*lines, "")]
        return [line for line, here, below in zip(lines, ruled, ruled[1:], strict=False) if not (here or below)]
    return [body[a:b] for a, b in sentences(body, 0, len(body))]


def is_telling(piece: str) -> bool:
    """Return whether a piece says enough to be known again by it; a row of a table needs less than a sentence."""
    words, han = len(_WORD.findall(piece)), len(_HAN.findall(piece))
    if piece.startswith("|"):
        return words + han >= TELLING_CELLS
    return words >= TELLING_WORDS or han >= TELLING_HAN


def plain(text: str) -> str:
    """Return a text without regard to case, width and white space, as tombstones know it."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def is_rolled_back(memory: Memory) -> bool:
    """Return whether a memory is quarantined because it, or what it was made from, was rolled back.

    Nothing but a person, or the undoing of the sweep, lets such a memory be retrieved again: no evidence promotes it.
    """
    return memory.standing is Standing.QUARANTINED and memory.standing_reason.startswith((ROLLED_BACK, DESCENDS))


def said_of(what: str, sweep_id: SweepId) -> str:
    """Return the standing reason of a memory that a sweep rolled back; `what` is ROLLED_BACK or DESCENDS."""
    return f"{what} by sweep {sweep_id}"


def descending(reason: str) -> str:
    """Return the standing reason of what descends from a memory that was rolled back for `reason`."""
    return reason if reason.startswith(DESCENDS) else f"{DESCENDS}{reason.removeprefix(ROLLED_BACK)}"


def why_barred(tombstone: Tombstone) -> str:
    """Return why something does not come back, and what would let it."""
    sweep = tombstone.sweep_id
    if tombstone.is_erased:
        return f"erased by sweep {sweep}: it is not stored again"
    if tombstone.reason in CODES:
        return f"{said_of(ROLLED_BACK, sweep)}; `kb govern undo {sweep}` or `kb memory restore ID` lets it back"
    return f"kept out by sweep {sweep} ({tombstone.reason or 'no reason given'}); `kb govern undo {sweep}` lets it back"


def gravest(found: Sequence[Tombstone]) -> Tombstone | None:
    """Return the tombstone that decides where several apply: what was erased before what was rolled back."""
    return min(found, key=lambda t: (not t.is_erased, t.at, t.sweep_id), default=None)


def repeated(text: str, said: Iterable[frozenset[str]]) -> bool:
    """Return whether a text says again what any of these passages (by their `sayings`) had said."""
    own = sayings(text)
    return any(own & other for other in said)
