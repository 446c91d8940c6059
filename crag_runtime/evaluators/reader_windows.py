"""Which parts of a passage the reader reads: a short one whole, else a few windows of sentences. Pure.

Few and small, for three reasons: time is per token; the reader was trained on, and is calibrated for, short passages;
and the best of many windows is biased upwards, each being one more chance to look relevant by accident.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb.words.strips import lexical_scores, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Span = tuple[int, int]
    Count = Callable[[Sequence[str]], list[int]]

WINDOWS = 2
WINDOW_TOKENS = 70
WHOLE_TOKENS = WINDOWS * WINDOW_TOKENS  # a passage up to here is read in one go


def windows(question: str, text: str, count: Count) -> list[Span]:
    """Return the windows to read, [start, end) in `text`, in order and apart; none for a blank text.

    A window is a strip and as many of its neighbours as fit: around the strips that share most with the question, or,
    where no strip shares a word with it (another language, other words), spread evenly.

    Args:
        question: sub-question.
        text: of the passage.
        count: tokens of texts, without special tokens.
    """
    strips = split(text)
    if not strips:
        return []
    tokens = count([text[start:end] for start, end in strips])
    if sum(tokens) <= WHOLE_TOKENS:
        return [(strips[0][0], strips[-1][1])]
    pieces = [piece for strip, n in zip(strips, tokens, strict=True) for piece in _cut(text, strip, n)]
    bodies = [text[start:end] for start, end in pieces]
    tokens = count(bodies)
    chosen: list[Span] = []
    for seed in _seeds(lexical_scores(question, bodies), tokens):
        if len(chosen) < WINDOWS and not any(first <= seed <= last for first, last in chosen):
            chosen.append(_grown(seed, tokens, chosen))
    return [(pieces[first][0], pieces[last][1]) for first, last in sorted(chosen)]


def _cut(text: str, strip: Span, tokens: int) -> Iterable[Span]:
    """Yield a strip in parts that fit a window, at blanks where there are any near; most strips are one part."""
    start, end = strip
    parts = -(-tokens // WINDOW_TOKENS)
    size = -(-(end - start) // parts)
    while end - start > size:
        blank = text.rfind(" ", start + size // 2, start + size)
        stop = start + size if blank < 0 else blank + 1
        yield start, stop
        start = stop
    yield start, end


def _seeds(scores: Sequence[float], tokens: Sequence[int]) -> list[int]:
    """Return the strips' indices, those first that a window should be around."""
    if any(scores):
        return sorted(range(len(scores)), key=lambda index: -scores[index])
    whole = sum(tokens)
    spread = [_at(tokens, whole * (2 * number + 1) // (2 * WINDOWS)) for number in range(WINDOWS)]
    return [*spread, *range(len(scores))]


def _at(tokens: Sequence[int], position: int) -> int:
    """Return the strip that holds the token at `position`."""
    passed = 0
    for index, n in enumerate(tokens):
        passed += n
        if passed > position:
            return index
    return len(tokens) - 1


def _grown(seed: int, tokens: Sequence[int], taken: Sequence[Span]) -> Span:
    """Return the first and last strip of the window around `seed`: after it, before it, in turn, while they fit."""
    first = last = seed
    room = WINDOW_TOKENS - tokens[seed]
    grows = True
    while grows:
        grows = False
        for neighbour in (last + 1, first - 1):
            free = 0 <= neighbour < len(tokens) and not any(a <= neighbour <= b for a, b in taken)
            if free and tokens[neighbour] <= room:
                room -= tokens[neighbour]
                first, last = min(first, neighbour), max(last, neighbour)
                grows = True
    return first, last
