"""Two texts beside each other: what they share, what only one says. Pure."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_TOKENS = 2_000  # longer texts are shown without their difference: it would take seconds
LONG = 700  # characters; more is folded away
AROUND = 120  # characters that stay on each side of a difference
GAP = " … "
_EAST = "㐀-鿿぀-ヿ가-힯"
_TOKEN = re.compile(rf"[{_EAST}]|[^\W{_EAST}]+|\s+|.", re.DOTALL)


class Piece(NamedTuple):
    """A piece of a text, and whether the other text lacks it."""

    text: str
    is_own: bool


def difference(one: str, other: str) -> tuple[list[Piece], list[Piece]]:
    """Return both texts in pieces; put together again they are the texts. Chinese is compared by character."""
    a, b = _TOKEN.findall(one), _TOKEN.findall(other)
    if len(a) > MAX_TOKENS or len(b) > MAX_TOKENS:
        return [Piece(one, is_own=False)], [Piece(other, is_own=False)]
    left: list[Piece] = []
    right: list[Piece] = []
    for tag, a0, a1, b0, b1 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        is_own = tag != "equal"
        for pieces, text in ((left, "".join(a[a0:a1])), (right, "".join(b[b0:b1]))):
            if text:
                pieces.append(Piece(text, is_own))
    return left, right


def folded(pieces: Sequence[Piece]) -> list[Piece] | None:
    """Return a long text as a reader first sees it: its differences and what stands around them; None when it is short.

    A text without differences keeps its beginning. Of many differences the first are kept.
    """
    if sum(len(p.text) for p in pieces) <= LONG:
        return None
    if not any(p.is_own for p in pieces):
        return [Piece("".join(p.text for p in pieces)[:LONG] + GAP.rstrip(), is_own=False)]
    shown: list[Piece] = []
    left = LONG
    for n, piece in enumerate(pieces):
        short = _cut(piece, has_before=n > 0, has_after=n < len(pieces) - 1)
        shown.append(short)
        left -= len(short.text)
        if left <= 0 and n < len(pieces) - 1:
            shown.append(Piece(GAP.rstrip(), is_own=False))
            break
    return shown


def _cut(piece: Piece, *, has_before: bool, has_after: bool) -> Piece:
    if piece.is_own:
        return piece if len(piece.text) <= LONG else Piece(piece.text[:LONG] + GAP.rstrip(), is_own=True)
    head = piece.text[:AROUND] if has_before else ""
    tail = piece.text[-AROUND:] if has_after else ""
    if len(piece.text) <= len(head) + len(tail) + len(GAP):
        return piece
    return Piece(f"{head}{GAP}{tail}", is_own=False)
