"""What is erased for good, in pieces and words: by which pieces it is known again, and who still says it. Pure.

A text is known again by more than itself: an edit beside it moves where passages are cut. So an erased passage leaves
a mark for each of its telling paragraphs and sentences, too; but never for what another memory, which stays, says as
well: such words are nobody's secret, and other documents must not be kept out for them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from kb.telling import marks, spelled, telling_sentences, tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kb.model import Json

ERASED = "erased"  # reason of a sweep's actions
WINDOW_ENDED = "restore_window_ended"  # likewise, of what gc takes away: nobody asked for that
LEAST = 2  # tokens of a text that is looked for as a whole: a single word may stand anywhere
FIRST = 5  # tokens by which a sentence is looked up


def pieces(text: str) -> tuple[str, ...]:
    """Return the pieces that an erased passage is known by: its `marks`, and its telling sentences.

    The order is fixed, so that a piece can be named by its place where its words must not stand.
    """
    return tuple(dict.fromkeys((*marks(text), *telling_sentences(text))))


class Words:
    """What erased passages say, to find who quotes them: every piece that they are known by.

    Case, width, white space and punctuation do not matter. A look-up costs the length of the text that is looked at,
    however much was erased.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._said: dict[tuple[str, ...], list[tuple[tuple[str, ...], str]]] = {}
        self._look_for(piece for text in texts for piece in pieces(text))

    def _look_for(self, wanted: Iterable[str]) -> None:
        for piece in dict.fromkeys(wanted):
            said = tuple(spelled(piece).split())
            if len(said) >= LEAST:
                self._said.setdefault(said[:FIRST], []).append((said, piece))
        self._sizes = sorted({len(first) for first in self._said})
        self._openings = {first[:LEAST] for first in self._said}

    def __or__(self, other: Words) -> Words:
        """Return what either says."""
        both = Words(())
        both._look_for((*self.looked_for(), *other.looked_for()))
        return both

    def looked_for(self) -> Iterator[str]:
        """Yield the pieces."""
        return (piece for said in self._said.values() for _, piece in said)

    def __bool__(self) -> bool:
        """Return whether there is anything to look for."""
        return bool(self._said)

    def quoted_in(self, text: str) -> bool:
        """Return whether a text holds any of the pieces."""
        return next(self._found_in(text), None) is not None

    def spoken_in(self, text: str) -> set[str]:
        """Return the pieces that a text holds."""
        return set(self._found_in(text))

    def _found_in(self, text: str) -> Iterator[str]:
        if not self._said:
            return
        own, openings = tokens(text), self._openings
        pairs = enumerate(pairwise(own))  # a text is at least as long as an opening, or holds nothing
        for place, pair in pairs:
            if pair in openings:
                yield from self._at(own, place)

    def _at(self, own: Sequence[str], place: int) -> Iterator[str]:
        for size in self._sizes:
            for said, piece in self._said.get(tuple(own[place : place + size]), ()):
                if tuple(own[place : place + len(said)]) == said:
                    yield piece


def without_others(text: str, spoken: str) -> list[int]:
    """Return the places of those pieces of an erased passage that nobody else says.

    Args:
        text: of the passage.
        spoken: what is said by memories that stay, from `spoken_by`.
    """
    return [place for place, piece in enumerate(pieces(text)) if not is_spoken(piece, spoken)]


def spoken_by(others: Iterable[str]) -> str:
    """Return what other memories say, as `without_others` and `is_spoken` look it up."""
    return "\x1f".join(f" {' '.join(tokens(other))} " for other in others)


def is_spoken(piece: str, spoken: str) -> bool:
    """Return whether a piece is said word for word, in one of the texts that `spoken_by` was given."""
    return bool(spoken) and f" {spelled(piece)} " in spoken


def strings(value: Json) -> Iterator[str]:
    """Yield every text in JSON, names of members too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from strings(part)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield key
            yield from strings(part)


def numbers_of(value: Json) -> Json:
    """Return JSON without its texts: what a report counted stays, what it quoted goes."""
    if isinstance(value, dict):
        kept = {key: numbers_of(part) for key, part in value.items() if not isinstance(part, str | list)}
        return {key: part for key, part in kept.items() if part != {}}
    return value if not isinstance(value, str | list) else None
