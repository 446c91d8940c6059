"""Two texts beside each other: what they share, what only one says. Pure."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import NamedTuple

MAX_TOKENS = 2_000  # longer texts are shown without their difference: it would take seconds
_TOKEN = re.compile(r"[㐀-鿿぀-ヿ가-힯]|\w+|\s+|.", re.DOTALL)


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
