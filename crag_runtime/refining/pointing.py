"""From where an evaluator points to what may lead an answer: the value of the thing that is asked about. Pure.

A small reader points at a value of the right kind in the right place, but not always at the right thing's: in "12 euros
for Starter and 59 euros for Team" at either, in a table's row at all cells, beside a negation at what is forbidden.
What is said here only ever narrows, moves or widens a span inside the text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crag_runtime.refining.cells import cell_of, is_row, likeliest_row, rows_of
from kb.dates.mentions import mentions
from kb.terms import terms
from kb.words.entities import entities
from kb.words.polarity import are_opposed, polarity
from kb.words.quantities import quantities_of
from kb.words.strips import lexical_scores, split
from kb.words.wanted_units import units_wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.model import Instant
    from kb.words.quantities import Quantity
    from kb.words.wanted_units import Units

    Span = tuple[int, int]

_LED = re.compile(r"\b(?:for|on|with|under|in|at|by|to|of)\s+(?:the\s+|an?\s+)?$", re.IGNORECASE)
_LISTED = re.compile(r"\s*(?:plans?\s*)?(?:,|、|/|&|\band\b|\bor\b|和|与|及|或)\s*(?:the\s+)?", re.IGNORECASE)
_CODE = re.compile(r"`([^`\n]+)`")
_SIDE_BY_SIDE = 0.5  # least share of the pointed sentence's score that another must have


def pointed(question: str, strips: Sequence[str], answer: str, *, today: Instant) -> str:
    """Return the span that leads, verbatim in one of the strips; a whole sentence or row where nothing less is sure.

    Args:
        question: one sub-question.
        strips: of one excerpt.
        answer: where an evaluator points, verbatim; "" when it does not.
        today: what years of two digits are read against.
    """
    pieces = [strip[a:b] for strip in strips for a, b in split(strip)]
    at = _holder(question, pieces, answer)
    if at is None:
        return answer
    heads = rows_of(pieces)
    if is_row(pieces[at]):
        return _in_table(question, pieces, heads, at, answer)
    at = _about(question, pieces, at)
    if is_row(pieces[at]):
        return _in_table(question, pieces, heads, at, "")
    sentence = pieces[at]
    span = answer if answer in sentence else sentence
    return _with_negation(sentence, _whole_of(sentence, _own_value(question, sentence, span), today))


def _holder(question: str, pieces: Sequence[str], answer: str) -> int | None:
    """Return the strip that a span is in, the likeliest of several; None when it is in none."""
    first = answer.strip().split("\n")[0].strip()
    holding = [n for n, piece in enumerate(pieces) if first and (answer in piece or (first in piece and is_row(piece)))]
    if not holding:
        return None
    scores = lexical_scores(question, pieces)
    return max(holding, key=lambda n: (scores[n], -n))


def _in_table(question: str, pieces: Sequence[str], heads: dict[int, str], at: int, answer: str) -> str:
    head = heads.get(at)
    rows = [n for n in heads if head is None or heads[n] == head]
    if not rows:
        return answer
    chosen = rows[likeliest_row(question, [pieces[n] for n in rows], rows.index(at) if at in rows else 0)]
    return cell_of(question, heads[chosen], pieces[chosen], answer if chosen == at else "")


def _about(question: str, pieces: Sequence[str], at: int) -> int:
    """Return the sentence with a value of the unit asked for that speaks of more of what the question names."""
    wanted = units_wanted(question)
    named = _names(question)
    if not named or not (wanted.families or wanted.nouns):
        return at
    scores = lexical_scores(question, pieces)
    heads = rows_of(pieces)

    def standing(n: int) -> tuple[int, bool]:
        said = f"{heads.get(n, '')} {pieces[n]}"
        return sum(_has(said, name) for name in named), _gives(question, pieces[n], wanted, heads.get(n, ""))

    own = standing(at)
    rivals = [n for n in range(len(pieces)) if scores[n] >= _SIDE_BY_SIDE * scores[at] and standing(n)[1]]
    best = max(rivals, key=lambda n: (standing(n)[0], scores[n]), default=at)
    return best if standing(best)[0] > own[0] or (not own[1] and standing(best)[0] == own[0] > 0) else at


def _gives(question: str, piece: str, wanted: Units, head: str) -> bool:
    asked = {q.number for q in quantities_of(question)}
    if head:
        return wanted.are_in(f"{head} {piece}")
    return any(wanted.fits(q) and q.number not in asked for q in quantities_of(piece))


def _own_value(question: str, sentence: str, span: str) -> str:
    """Return the value that a sentence gives to the thing that the question names, where it gives several."""
    start = sentence.find(span)
    end = start + len(span)
    values = _rival_values(question, sentence, start, end)
    if len(values) <= 1:
        return span
    own = [value for name in _names(question) for value in _given_to(sentence, name, values)]
    if not own:
        return span
    inside = [v for v in values if v.start < end and start < v.end]
    if len(inside) == 1 and inside[0] in own:
        return span
    chosen = next((value for value in own if value in inside), own[0])
    return sentence[chosen.start : chosen.end]


def _rival_values(question: str, sentence: str, start: int, end: int) -> list[Quantity]:
    """Return the values of a sentence that are of one unit: the one asked for, or else the pointed value's."""
    wanted = units_wanted(question)
    asked = {q.number for q in quantities_of(question)}
    found = [q for q in quantities_of(sentence) if q.number not in asked and q.unit]
    fitting = [q for q in found if wanted.fits(q)] if wanted.families or wanted.nouns else []
    if fitting:
        return fitting
    inside = {q.unit for q in found if q.start < end and start < q.end}
    return [q for q in found if q.unit in inside]


def _given_to(sentence: str, name: str, values: Sequence[Quantity]) -> list[Quantity]:
    """Return the values that stand with a name: before it where a preposition leads it, else after it."""
    rivals = _places(sentence, [re.sub(r"\s\d.*$", "", other) for other in entities(sentence)])
    for start, end in _places(sentence, [name]):
        first = _run_start(sentence, start, rivals)
        before = max((b for a, b in rivals if b <= first), default=0)
        after = min(
            (a for a, b in rivals if a >= end and not _LISTED.fullmatch(sentence[end:a])), default=len(sentence)
        )
        led = [v for v in values if before <= v.start and v.end <= first]
        if led and _LED.search(sentence[:first]):
            return led[-1:]
        following = [v for v in values if end <= v.start < after]
        if following:
            return following
    return []


def _run_start(sentence: str, start: int, names: Sequence[Span]) -> int:
    """Return where the list of names begins that a name stands in."""
    for a, b in sorted(names, reverse=True):
        if b <= start and _LISTED.fullmatch(sentence[b:start]):
            start = a
    return start


def _places(sentence: str, names: Sequence[str]) -> list[Span]:
    return sorted({m.span() for name in names if name for m in re.finditer(_whole(name), sentence, re.IGNORECASE)})


def _whole(name: str) -> str:
    edge = r"(?<!\w)", r"(?!\w)"
    return f"{edge[0]}{re.escape(name)}{edge[1]}" if name.isascii() else re.escape(name)


def _whole_of(sentence: str, span: str, today: Instant) -> str:
    """Return the whole date, range of dates or piece of code that a span is a part of."""
    start = sentence.find(span)
    end = start + len(span)
    dates = [(m.at, m.until) for m in mentions(sentence, today) if not m.is_relative]
    code = [m.span(1) for m in _CODE.finditer(sentence)]
    around = [(a, b) for a, b in (*dates, *code) if a <= start and end <= b and b - a > end - start]
    return sentence[around[0][0] : around[0][1]].strip() if span and around else span


def _with_negation(sentence: str, span: str) -> str:
    """Return the whole sentence where the span alone would say the opposite of it."""
    if span and span != sentence and are_opposed(polarity(span), polarity(sentence)):
        return sentence
    return span


def _names(question: str) -> list[str]:
    return [name for name in entities(question) if terms(name)]


def _has(text: str, name: str) -> bool:
    return re.search(_whole(name), text, re.IGNORECASE) is not None
