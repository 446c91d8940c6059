"""Where trusted evidence disagrees, and where independent evidence agrees, for one sub-question. Pure.

Two pieces conflict when they are of different documents, speak of the same subject and time, and give different values
of one kind. A value that the other piece gives as well is no conflict: in doubt there is none. What is said here is
structure, not truth: who is right is for dates, provenance and people.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from crag_runtime.evidence import Conflict, Label, Origin, Side
from crag_runtime.refining.bygone import ended, wants_now
from crag_runtime.refining.claims import Claim, ClaimKind, all_values, claims_of, fits, name_of, same_value
from crag_runtime.refining.subjects import Subject, are_same, subject_of
from kb.dates.almanac import DAY_MS
from kb.dates.mentions import DAWN, mentions
from kb.dates.periods import mismatched, overlaps
from kb.terms import Script, script_of, terms
from kb.words.polarity import are_opposed, polarity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crag_runtime.evidence import Evidence, Excerpt
    from kb.dates.period import Period, TimeIntent
    from kb.model import Instant

RATE_RATIO = 3.0  # a value with a rate ("a year") and one without are compared only if they are this close
ALIGNED = 0.5  # least share of terms that two sentences have in common when one denies what the other says
MAX_HAN_NAME = 12  # letters
_CLAUSE = re.compile(r"[，、；：。,;:]|\.\s")
_USABLE = (Label.RELEVANT, Label.AMBIGUOUS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Two pieces of evidence of different roots that give the same value for a sub-question."""

    sub: int
    ids: tuple[str, str]
    value: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Stated:
    """What one excerpt states: its one claim, what else it says, and what it speaks of."""

    excerpt: Excerpt
    claim: Claim
    others: tuple[Claim, ...]
    subject: Subject
    text: str


def conflicts(
    question_parts: Sequence[str], excerpts: Sequence[Excerpt], time: TimeIntent, today: Instant
) -> tuple[Conflict, ...]:
    """Return the conflicts among excerpts, by sub-question; the same whatever their order.

    Sides come newest first, undated ones last.

    Args:
        question_parts: the sub-questions.
        excerpts: what passed the gate, or was found, and was graded usable: every one is a side that must be heard.
        time: what the question wants of time; what speaks of another period than a named one is no side.
        today: the instant of asking.
    """
    found: list[Conflict] = []
    for sub, question in enumerate(question_parts):
        stated = _in_force(_stated(sub, question, excerpts, time, today), time, today)
        pairs = [(a, b) for a, b in combinations(stated, 2) if _conflict(question, a, b)]
        kinds = sorted({a.claim.kind for a, _ in pairs})
        found += [_conflict_of(sub, kind, [pair for pair in pairs if pair[0].claim.kind is kind]) for kind in kinds]
    return tuple(found)


def agreements(
    question_parts: Sequence[str], excerpts: Sequence[Excerpt], time: TimeIntent, today: Instant
) -> tuple[Agreement, ...]:
    """Return the pairs of excerpts of different known roots that give one value; ids and pairs in order of id.

    A pair that agrees is never in conflict. That something is the case (a yes, a no) is no value to agree on.
    """
    found = []
    for sub, question in enumerate(question_parts):
        for a, b in combinations(_stated(sub, question, excerpts, time, today), 2):
            if _agree(question, a, b):
                value = min((a.claim, b.claim), key=lambda c: (-len(c.unit), c.value))
                first, last = sorted((a.excerpt.evidence.id, b.excerpt.evidence.id))
                text = value.value if value.kind is not ClaimKind.NUMBER else f"{value.value} {value.unit}".strip()
                found.append(Agreement(sub=sub, ids=(first, last), value=text))
    return tuple(sorted(found, key=lambda agreement: (agreement.sub, agreement.ids)))


def _stated(sub: int, question: str, excerpts: Sequence[Excerpt], time: TimeIntent, today: Instant) -> list[_Stated]:
    own = [e for e in excerpts if e.sub == sub and e.label in _USABLE]
    stated = [s for e in own if (s := _statement(question, e, time, today)) is not None]
    return sorted(stated, key=lambda s: s.excerpt.evidence.id)


def _in_force(stated: Sequence[_Stated], time: TimeIntent, today: Instant) -> list[_Stated]:
    """Leave out what is history, not a contradiction, to a question about the present.

    That is what speaks of a time that is over, while others speak of none, of one that goes on, or of a later one.
    """
    if not wants_now(time):
        return list(stated)
    ends = [_ended(s, today) for s in stated]
    latest = max((end for end in ends if end is not None), default=None)
    wanted = {None} if None in ends else {latest}
    return [s for s, end in zip(stated, ends, strict=True) if end in wanted]


def _ended(stated: _Stated, today: Instant) -> Instant | None:
    sentence = "" if stated.claim.kind is ClaimKind.DATE else stated.claim.quote
    return ended(stated.excerpt.evidence, today, sentence)


def _statement(question: str, excerpt: Excerpt, time: TimeIntent, today: Instant) -> _Stated | None:
    """Return what an excerpt states; None when it gives no value, several, or one of another time."""
    evidence, text = excerpt.evidence, "\n".join(excerpt.strips)
    claims = claims_of(question, text, excerpt.answer, today=today)
    if not claims or any(not same_value(claims[0], claim) for claim in claims[1:]):
        return None
    claim = claims[0]
    heading = "\n".join((evidence.title, *evidence.heading_path))
    if mismatched(time.periods, f"{claim.quote}\n{heading}", evidence.dated, today):
        return None
    value = "" if claim.kind is ClaimKind.NEGATION else text[claim.start : claim.end]
    return _Stated(
        excerpt=excerpt,
        claim=claim,
        others=all_values(question, text, today=today),
        subject=subject_of(question, claim.quote, value, f"{text}\n{heading}", _periods(claim, heading, today)),
        text=f"{heading}\n{text}",
    )


def _periods(claim: Claim, heading: str, today: Instant) -> tuple[Period, ...]:
    """Return the periods that the sentence names, or else its headings; none where the value is a date itself."""
    if claim.kind is ClaimKind.DATE:
        return ()
    for text in (claim.quote, heading):
        named = tuple(m.period for m in mentions(text, today) if not m.is_relative)
        if named:
            return named
    return ()


def _conflict(question: str, a: _Stated, b: _Stated) -> bool:
    if _is_same_document(a.excerpt.evidence, b.excerpt.evidence) or not fits(a.claim, b.claim):
        return False
    if not are_same(question, a.subject, b.subject):
        return False
    match a.claim.kind:
        case ClaimKind.NEGATION:
            return a.claim.value != b.claim.value and _deny(a.claim.quote, b.claim.quote)
        case ClaimKind.NAME:
            return _are_other_names(question, a, b)
        case _:
            return _differ(a.claim, b.claim) and not (_gives(a, b.claim) or _gives(b, a.claim))


def _differ(one: Claim, other: Claim) -> bool:
    if same_value(one, other) or (one.period and other.period and overlaps(one.period, other.period)):
        return False
    if one.quantity and other.quantity and one.quantity.rate != other.quantity.rate:
        low, high = sorted((abs(one.quantity.number), abs(other.quantity.number)))
        return high <= RATE_RATIO * low
    if one.quantity and other.quantity:
        return one.quantity.unit == other.quantity.unit
    return True


def _gives(stated: _Stated, claim: Claim) -> bool:
    return any(other.kind is claim.kind and same_value(other, claim) for other in stated.others)


def _are_other_names(question: str, a: _Stated, b: _Stated) -> bool:
    """Return whether two names differ, are written in one script, and neither piece has the other's as well."""
    one, other = a.claim.value, b.claim.value
    if script_of(one) is not script_of(other) or script_of(one) is Script.NONE or _may_be_same(one, other):
        return False
    if not (_is_name(a) and _is_name(b)):
        return False
    asked = set(name_of(question).split())
    if asked >= set(one.split()) or asked >= set(other.split()):
        return False
    return not (_has(b.text, one) or _has(a.text, other))


def _may_be_same(one: str, other: str) -> bool:
    """Return whether two names share two Han letters in a row, or most words, and no number tells them apart."""
    mine, theirs = one.replace(" ", ""), other.replace(" ", "")
    if script_of(one) is Script.CJK:
        return any(mine[i : i + 2] in theirs for i in range(len(mine) - 1) if not mine[i : i + 2].isascii())
    words, others = set(one.split()), set(other.split())
    if any(any(c.isdigit() for c in word) for word in words ^ others):
        return False
    return 2 * len(words & others) > min(len(words), len(others))


def _is_name(stated: _Stated) -> bool:
    """Return whether a value is written like a name, in a passage that surely answers.

    Only an evaluator that points knows names, and it points at something wherever it is asked.
    """
    said = _said(stated)
    if stated.excerpt.label is not Label.RELEVANT or _CLAUSE.search(said):
        return False
    if script_of(said) is Script.CJK and len(said) > MAX_HAN_NAME:
        return False
    return any(c.isupper() or c.isdigit() for c in said) or not any(c.islower() for c in said)


def _has(text: str, name: str) -> bool:
    return set(name.split()) <= set(terms(text).split())


def _deny(one: str, other: str) -> bool:
    mine, theirs = set(terms(one).split()), set(terms(other).split())
    share = len(mine & theirs) / max(1, min(len(mine), len(theirs)))
    return share >= ALIGNED and are_opposed(polarity(one), polarity(other))


def _agree(question: str, a: _Stated, b: _Stated) -> bool:
    one, other = a.excerpt.evidence, b.excerpt.evidence
    if not (one.root and other.root) or one.root == other.root or _is_same_document(one, other):
        return False
    kinds = {a.claim.kind, b.claim.kind}
    if len(kinds) > 1 or ClaimKind.NEGATION in kinds or not fits(a.claim, b.claim):
        return False
    return same_value(a.claim, b.claim) and are_same(question, a.subject, b.subject)


def _is_same_document(one: Evidence, other: Evidence) -> bool:
    """Return whether both are of one document, in whatever version."""
    if one.doc_id and one.doc_id == other.doc_id:
        return True
    return one.id == other.id or bool(one.source and one.source == other.source)


def _conflict_of(sub: int, kind: ClaimKind, pairs: Sequence[tuple[_Stated, _Stated]]) -> Conflict:
    stated = {id(s): s for pair in pairs for s in pair}
    sides = sorted((_side(group) for group in _groups(list(stated.values()))), key=_newest_first)
    return Conflict(sub=sub, kind=kind.value, sides=tuple(sides))


def _newest_first(side: Side) -> tuple[bool, int, str, tuple[str, ...]]:
    return side.dated is None, -(side.dated or 0), side.value, side.ids


def _groups(stated: Sequence[_Stated]) -> Iterator[list[_Stated]]:
    """Yield those that give the same value together."""
    groups: list[list[_Stated]] = []
    for one in sorted(stated, key=lambda s: s.excerpt.evidence.id):
        for group in groups:
            if all(same_value(member.claim, one.claim) for member in group):
                group.append(one)
                break
        else:
            groups.append([one])
    yield from groups


def _side(group: Sequence[_Stated]) -> Side:
    """Return a side; quote, source and date are its most trusted, then newest, evidence's."""
    best = max(group, key=lambda s: _weight(s.excerpt.evidence))
    evidence = best.excerpt.evidence
    return Side(
        value=_said(best),
        ids=tuple(sorted(s.excerpt.evidence.id for s in group)),
        quote=best.claim.quote,
        source=evidence.url or evidence.source,
        dated=_dated(best),
    )


def _dated(stated: _Stated) -> Instant | None:
    """Return when the time begins that a side speaks of, or else the day that its document states.

    A memory without a stated date is dated by when it was stored, which is a moment and no day: it says nothing here.
    """
    named = [p.start for p in stated.subject.periods if p.start > DAWN]
    if named:
        return min(named)
    evidence = stated.excerpt.evidence
    if evidence.dated is None or (evidence.origin is Origin.MEMORY and evidence.dated % DAY_MS):
        return None
    return evidence.dated


def _said(stated: _Stated) -> str:
    text = "\n".join(stated.excerpt.strips)
    is_polar = stated.claim.kind is ClaimKind.NEGATION
    return stated.claim.value if is_polar else text[stated.claim.start : stated.claim.end]


def _weight(evidence: Evidence) -> tuple[bool, float, int, str]:
    return evidence.verified, evidence.confidence, evidence.dated or 0, evidence.id
