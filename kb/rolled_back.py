"""What was rolled back, in words and marks: how such a memory is told, and by which pieces its text is known again.

Pure. A text that comes again is seldom the same passage: an edit beside it moves where passages are cut. So a rolled
back passage leaves a mark for each of its telling paragraphs, too; within its own document even single sentences count.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from kb.boundaries import paragraphs, sentences
from kb.model import Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kb.model import Memory
    from kb.sweeps import SweepId, Tombstone

ROLLED_BACK = "rolled back"
DESCENDS = "descends from what was rolled back"
ROOT_CODE, DESCENT_CODE = "rolled_back", "descends_from_rolled_back"  # reasons of a sweep's actions
CODES = frozenset({ROOT_CODE, DESCENT_CODE})
TELLING_WORDS = 5  # a shorter paragraph, as `See below.`, may stand anywhere
TELLING_HAN = 8  # likewise, letters of a script without spaces
_WORD = re.compile(r"[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_HAN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_HEADING = re.compile(r"\s*#{1,6}\s")


def marks(text: str) -> tuple[str, ...]:
    """Return the pieces that a passage is known by when it comes again: the whole first, then its telling paragraphs.

    Headings are none: new words under an old heading are new.
    """
    parts = (text[a:b].strip() for a, b in paragraphs(text, 0, len(text)))
    return tuple(dict.fromkeys((text, *(p for p in parts if is_telling(p)))))


def sayings(text: str) -> frozenset[str]:
    """Return the telling sentences of a passage, each in one spelling."""
    parts = (text[a:b].strip() for p, q in paragraphs(text, 0, len(text)) for a, b in sentences(text, p, q))
    return frozenset(plain(p) for p in parts if is_telling(p))


def is_telling(piece: str) -> bool:
    """Return whether a piece says enough to be known again by it."""
    if _HEADING.match(piece):
        return False
    return len(_WORD.findall(piece)) >= TELLING_WORDS or len(_HAN.findall(piece)) >= TELLING_HAN


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
