"""Long texts cut where a sentence ends: pure."""

from __future__ import annotations

from kb.boundaries import cluster_cut, sentences

LEAST_SHARE = 0.25  # of the room; a first sentence that ends earlier than this would throw too much away


def shortened(text: str, *, chars: int, octets: int | None = None) -> str:
    """Return the longest start of `text` that ends with a sentence and fits; all of it when it fits whole.

    Where no sentence ends in the last three quarters of the room, the cut is between words, else between characters
    as a reader sees them.

    Args:
        text: without lone surrogates.
        chars: room in characters.
        octets: room in bytes of UTF-8; None for no such limit.
    """
    room = min(len(text), chars)
    if octets is not None:
        room = min(room, len(text.encode()[:octets].decode(errors="ignore")))
    if room == len(text):
        return text
    ends = [end for _, end in sentences(text, 0, len(text)) if len(text[:end].rstrip()) <= room]
    if ends and ends[-1] >= room * LEAST_SHARE:
        return text[: ends[-1]].rstrip()
    words = text[: room + 1].rsplit(maxsplit=1)
    if len(words) > 1 and len(words[0]) >= room * LEAST_SHARE:
        return words[0]
    return text[: cluster_cut(text, 0, room)].rstrip()
