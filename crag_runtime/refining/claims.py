"""What value a text gives for a question: a quantity, a date, a version, a yes or no, a name. Pure.

Values come in one notation, so that those which are equal compare equal across formats and languages. A name is known
only where an evaluator points at it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from crag_runtime.checking.answering import Wanted, wanted_by
from kb.dates.flat_text import flat
from kb.dates.mentions import mentions
from kb.dates.notation import notation_of
from kb.terms import terms
from kb.words.polarity import polarity
from kb.words.quantities import Quantity, quantities_of
from kb.words.strips import lexical_scores, split
from kb.words.versions import versions_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kb.dates.period import Period
    from kb.model import Instant

MAX_NAME = 8  # terms of a name; longer spans are clauses
DAY_MS = 86_400_000
_ASKS_VERSION = re.compile(r"\bversions?\b|\breleases?\b|版本|\b(?:TLS|SSL|HTTP|API|SDK)\b", re.IGNORECASE)
_MARKS = re.compile(
    r"^[\s\"'“”‘’《》「」『』()\[\]（）.,;:!?，。；：！？、]+|[\s\"'“”‘’《》「」『』()\[\]（）.,;:!?，。；：！？、]+$"
)
_ARTICLES = frozenset({"a", "an", "the", "的"})


class ClaimKind(StrEnum):
    """What sort of value a claim gives."""

    NUMBER = "number"
    DATE = "date"
    VERSION = "version"
    NEGATION = "negation"  # yes or no
    NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A value that a text gives: characters [start, end) of it.

    Args:
        kind: of the value.
        value: in one notation: a number in base units, a day, month, year or range, `1.2`, yes or no, terms of a name.
        unit: `eur/month`, `byte`, the counted noun; of a version what it is a version of; "" when unknown.
        quote: the sentence.
        start, end: of the value in the text.
        quantity: of a number.
        period: of a date.
    """

    kind: ClaimKind
    value: str
    unit: str
    quote: str
    start: int
    end: int
    quantity: Quantity | None = None
    period: Period | None = None


def claims_of(question: str, text: str, answer_span: str = "", *, today: Instant) -> tuple[Claim, ...]:
    """Return the values that a text gives for a question, in order; () when it gives none that is known.

    With an answer span that is in the text, what the span says, in its likeliest place; else every value of the kind
    that the question asks for, in the sentences that share most with it. Values that the question names are none.

    Args:
        question: one sub-question.
        text: of one strip, or of several.
        answer_span: verbatim, from an evaluator that points; "" when there is none.
        today: what years of two digits and open periods are read against; relative dates are left out.
    """
    sentences = [(start, end) for start, end in split(text)]
    if not sentences:
        return ()
    scores = lexical_scores(question, [text[a:b] for a, b in sentences])
    found = [claim for span in sentences for claim in _values(question, text, span, today)]
    if answer_span and answer_span in text:
        at = _likeliest(text, answer_span, sentences, scores)
        pointed = _pointed(found, kind_wanted(question), at, at + len(answer_span))
        return pointed or _named(text, answer_span, at, sentences)
    top = max(scores)
    best = [text[a:b] for (a, b), score in zip(sentences, scores, strict=True) if top and score == top]
    kind = kind_wanted(question)
    if kind is ClaimKind.NEGATION:
        return tuple(_polar(text, span) for span, s in zip(sentences, scores, strict=True) if top and s == top)
    if kind is None:
        found = [c for c in found if c.kind is ClaimKind.NUMBER and c.unit]
    return tuple(c for c in found if c.quote in best and kind in (None, c.kind))


def all_values(question: str, text: str, *, today: Instant) -> tuple[Claim, ...]:
    """Return every quantity, date and version of a text that the question does not name."""
    return tuple(claim for span in split(text) for claim in _values(question, text, span, today))


def kind_wanted(question: str) -> ClaimKind | None:
    """Return the kind of value that a question asks for; None when it may be any."""
    match wanted_by(question):
        case Wanted.WHEN:
            return ClaimKind.DATE
        case Wanted.COUNT:
            return ClaimKind.NUMBER
        case Wanted.WHO | Wanted.WHERE:
            return ClaimKind.NAME
        case Wanted.POLAR:
            return ClaimKind.NEGATION
        case _:
            return ClaimKind.VERSION if _ASKS_VERSION.search(question) else None


def same_value(one: Claim, other: Claim) -> bool:
    """Return whether two claims of one kind give the same value, as exactly as both say it."""
    if one.quantity and other.quantity:
        return fits(one, other) and one.quantity.agrees(other.quantity)
    if one.kind is ClaimKind.NAME:
        mine, theirs = set(one.value.split()), set(other.value.split())
        return mine <= theirs or theirs <= mine  # a surname and the whole name
    return one.value == other.value


def fits(one: Claim, other: Claim) -> bool:
    """Return whether the values of two claims can be compared: one kind, one unit as far as both say it."""
    if one.kind is not other.kind:
        return False
    (unit, _, rate), (unit2, _, rate2) = one.unit.partition("/"), other.unit.partition("/")
    return (unit == unit2 or not unit or not unit2) and (rate == rate2 or not rate or not rate2)


def _values(question: str, text: str, span: tuple[int, int], today: Instant) -> Iterator[Claim]:
    start, end = span
    quote = text[start:end]
    taken: list[tuple[int, int]] = []
    for claim in (*_dates(quote, today), *_versions(quote, question), *_numbers(quote)):
        if any(claim.start < b and a < claim.end for a, b in taken):
            continue
        taken.append((claim.start, claim.end))
        if not _is_asked(quote[claim.start : claim.end], question):
            yield _moved(claim, start, quote)


def _pointed(found: Sequence[Claim], kind: ClaimKind | None, start: int, end: int) -> tuple[Claim, ...]:
    """Return the values that a span says: of the kind asked for, or, where any will do, what most of the span is."""
    if kind is None:
        return tuple(c for c in found if 2 * (min(end, c.end) - max(start, c.start)) > end - start)[:1]
    return tuple(c for c in found if c.kind is kind and c.start < end and start < c.end)


def _moved(claim: Claim, by: int, quote: str) -> Claim:
    return Claim(
        kind=claim.kind,
        value=claim.value,
        unit=claim.unit,
        quote=quote,
        start=claim.start + by,
        end=claim.end + by,
        quantity=claim.quantity,
        period=claim.period,
    )


def _is_asked(words: str, question: str) -> bool:
    return re.search(rf"(?<!\d){re.escape(flat(words).strip())}(?!\d)", flat(question), re.IGNORECASE) is not None


def _dates(quote: str, today: Instant) -> Iterator[Claim]:
    for mention in mentions(quote, today):
        if not mention.is_relative:
            yield Claim(
                kind=ClaimKind.DATE,
                value=notation_of(mention.period),
                unit="",
                quote="",
                start=mention.at,
                end=mention.until,
                period=mention.period,
            )


def _versions(quote: str, question: str) -> Iterator[Claim]:
    for version in versions_of(quote):
        if version.is_sure or (version.name and _ASKS_VERSION.search(question)):
            yield Claim(
                kind=ClaimKind.VERSION,
                value=version.number,
                unit=version.name,
                quote="",
                start=version.start,
                end=version.end,
            )


def _numbers(quote: str) -> Iterator[Claim]:
    for q in quantities_of(quote):
        unit = f"{q.unit}/{q.rate}" if q.rate else q.unit
        value = f"{q.number:.12g}"
        yield Claim(kind=ClaimKind.NUMBER, value=value, unit=unit, quote="", start=q.start, end=q.end, quantity=q)


def _polar(text: str, span: tuple[int, int]) -> Claim:
    start, end = span
    quote = text[start:end]
    value = "no" if polarity(quote).denied else "yes"
    return Claim(kind=ClaimKind.NEGATION, value=value, unit="", quote=quote, start=start, end=end)


def _likeliest(text: str, answer: str, sentences: Sequence[tuple[int, int]], scores: Sequence[float]) -> int:
    """Return where the answer stands in the sentence that shares most with the question."""
    places = [m.start() for m in re.finditer(re.escape(answer), text)]

    def score(at: int) -> float:
        return max((s for (a, b), s in zip(sentences, scores, strict=True) if a <= at < b), default=0.0)

    return max(places, key=score)


def _named(text: str, answer: str, at: int, sentences: Sequence[tuple[int, int]]) -> tuple[Claim, ...]:
    value = name_of(answer)
    if not value or len(value.split()) > MAX_NAME:
        return ()
    a, b = next(((a, b) for a, b in sentences if a <= at < b), sentences[0])
    start, end = at, at + len(answer)
    return (Claim(kind=ClaimKind.NAME, value=value, unit="", quote=text[a:b], start=start, end=end),)


def name_of(words: str) -> str:
    """Return what two spellings of a name share: its terms without articles."""
    return " ".join(term for term in terms(_MARKS.sub("", words)).split() if term not in _ARTICLES)
