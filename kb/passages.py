"""What a passage is embedded as (its path of titles, a blank line, the body), and how large its metadata is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kb.model import Json, Memory

SEPARATOR = " › "
PATH_WIDTH = 240  # a path this wide is at most about 64 tokens, so that headings never crowd out the body
_WIDE = 0x2E7F  # characters above are counted as four narrow ones, as tokenizers do


def embed_text(title: str, heading_path: tuple[str, ...], body: str) -> str:
    """Return what is embedded for a passage: `title › H1 › H2`, a blank line, the body.

    A title equal to the first heading stands once; a path too wide loses middle headings first, then its parts' ends.
    """
    path = short_path(title, heading_path)
    return f"{SEPARATOR.join(path)}\n\n{body}" if path else body


def short_path(title: str, heading_path: tuple[str, ...]) -> tuple[str, ...]:
    """Return title and headings as one path no wider than PATH_WIDTH."""
    path = [part for part in (title, *heading_path) if part]
    if len(path) > 1 and path[0].casefold() == path[1].casefold():
        path = path[1:]
    while len(path) > 2 and width(SEPARATOR.join(path)) > PATH_WIDTH:  # noqa: PLR2004 - outermost and innermost stay
        del path[len(path) // 2]
    if not path or width(SEPARATOR.join(path)) <= PATH_WIDTH:
        return tuple(path)
    share = PATH_WIDTH // len(path) - len(SEPARATOR)
    return tuple(_cut(part, share) for part in path)


def width(text: str) -> int:
    """Return how wide a text is, in narrow characters."""
    return sum(4 if ord(c) > _WIDE else 1 for c in text)


def embedded_as(memory: Memory) -> str:
    """Return the text that a stored memory's vector stands for."""
    return embed_text(memory.passage.title, memory.passage.heading_path, memory.text)


def metadata_bytes(metadata: Mapping[str, Json]) -> int:
    """Return the size of a memory's metadata as JSON in UTF-8."""
    return len(json.dumps(dict(metadata), ensure_ascii=False).encode())


def _cut(text: str, limit: int) -> str:
    total = 0
    for position, character in enumerate(text):
        total += width(character)
        if total > limit:
            return text[:position].rstrip()
    return text
