"""Texts with full-width letters, odd dashes and odd blanks made plain, one character for one: places stay. Pure."""

from __future__ import annotations

_PLAIN: dict[int, int] = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_PLAIN |= dict.fromkeys(map(ord, "–—―‐‑‒−－"), ord("-")) | dict.fromkeys(map(ord, "～〜∼"), ord("~"))
_PLAIN |= dict.fromkeys(map(ord, "\u00a0\u2002\u2003\u2009\u202f\u3000"), ord(" ")) | dict.fromkeys(
    map(ord, "’‘ʼ"), ord("'")
)


def flat(text: str) -> str:
    """Return a text of the same length in which one thing is written one way."""
    return text if text.isascii() else text.translate(_PLAIN)
