"""Whether two passages say the same, or different things, of one subject. Pure, symmetric, without a question.

Sentences are compared where they are one sentence with other values: nearly the same words in the same order, no name
or word in the place of another, headings that fit, and no other time. Then one value that differs, and is given by one
passage alone, is a contradiction; equal values are agreement. In doubt it is neither: who must review a contradiction
that is none will not review the next one. Who is right is not decided here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, TypeAlias

from governance.comparing.measures import Gap, gap
from governance.comparing.sayings import SLOT, Passed, Said, Saying, Value, ValueKind, periods_of, said_by
from governance.comparing.words import DENIALS, LIGHT, are_denied, is_dated_event, is_versioned
from kb.dates.periods import overlaps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kb.dates.period import Period

ALIGNED = 0.7  # least share of content terms that two sentences have in common
WHOLE = 0.8  # the same, for sentences without values
LEAST_TERMS = 4  # content terms that aligned sentences share
WHOLE_TERMS = 5  # likewise, without values
RIVAL = 0.35  # share of content terms from which two sentences without a counterpart are rivals
RIVAL_TERMS = 2
FOREIGN = 0.5  # greatest share of the terms of title and heading that the other passage may lack
VALUE_CHARS = 60  # of a value as it is shown
_KINDS = tuple(ValueKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agree:
    """Both say the same.

    Args:
        value: what both say, verbatim from the first; "" where they agree in words alone.
        one_share: share of the first passage's claims that the second bears out, in (0, 1].
        other_share: likewise, the other way round.
    """

    value: str
    one_share: float
    other_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradict:
    """They say different things.

    Args:
        kind: of the value.
        one_value: what the first says, verbatim; of a negation what it says of it, `yes` or `no`.
        other_value: what the second says.
        is_judged: a model says so, not the rules: for people to look at, and never evidence.
    """

    kind: ValueKind
    one_value: str
    other_value: str
    is_judged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Neither:
    """Nothing can be told."""


Comparison: TypeAlias = "Agree | Contradict | Neither"


@dataclass(frozen=True, slots=True)
class _Pair:
    """What two aligned sentences come to: at most one of a contradiction, a doubt and an agreement."""

    contradiction: tuple[ValueKind, str, str] | None = None
    is_apart: bool = False  # one subject perhaps, but another name, word, time or value in doubt
    agreed: str | None = None


_NOTHING = _Pair()
_APART = _Pair(is_apart=True)


def compare(one: Passed, other: Passed) -> Comparison:
    """Return what two passages say of each other; `compare(b, a)` is the mirror image of `compare(a, b)`."""
    first, second = sorted((one, other), key=_order)
    found = _compared(said_by(first), said_by(second))
    return found if first is one else mirrored(found)


def disputed(one: Passed, other: Passed) -> tuple[str, str] | None:
    """Return the two sentences that contradict each other, that of the first passage first; None when none do."""
    first, second = sorted((one, other), key=_order)
    a, b = said_by(first), said_by(second)
    if not _fit(a, b):
        return None
    found = [
        (*pair.contradiction, x.sentence, y.sentence)
        for x, y in ((a.sayings[i], b.sayings[j]) for i, j in _aligned(a.sayings, b.sayings))
        if (pair := _pair(a, b, x, y)).contradiction
    ]
    if not found:
        return None
    *_, said, otherwise = min(found, key=lambda c: (_KINDS.index(c[0]), *c[1:]))
    return (said, otherwise) if first is one else (otherwise, said)


def are_close(one: Passed, other: Passed) -> bool:
    """Return whether two passages have sentences that are one but for a name, a word or a value in doubt."""
    first, second = map(said_by, sorted((one, other), key=_order))
    if not _fit(first, second):
        return False
    pairs = _aligned(first.sayings, second.sayings)
    if any(_pair(first, second, first.sayings[i], second.sayings[j]).is_apart for i, j in pairs):
        return True
    return any(
        len(a.content & b.content) >= LEAST_TERMS and _is_rival(a, b) for a in first.sayings for b in second.sayings
    )


def mirrored(comparison: Comparison) -> Comparison:
    """Return the same comparison, seen from the other passage."""
    match comparison:
        case Agree(value=value, one_share=one, other_share=other):
            return Agree(value=value, one_share=other, other_share=one)
        case Contradict(one_value=one_value, other_value=other_value):
            return replace(comparison, one_value=other_value, other_value=one_value)
        case Neither():
            return comparison


def _order(passage: Passed) -> tuple[str, str, tuple[str, ...], int]:
    return passage.text, passage.title, passage.heading_path, passage.valid_from


def _compared(one: Said, other: Said) -> Comparison:
    if not _fit(one, other):
        return Neither()
    pairs = [
        (a, b, _pair(one, other, one.sayings[a], other.sayings[b])) for a, b in _aligned(one.sayings, other.sayings)
    ]
    found = [p.contradiction for _, _, p in pairs if p.contradiction]
    if found:
        kind, said, otherwise = min(found, key=lambda c: (_KINDS.index(c[0]), *c[1:]))
        return Contradict(kind=kind, one_value=said[:VALUE_CHARS], other_value=otherwise[:VALUE_CHARS])
    agreed = [(a, b, p.agreed) for a, b, p in pairs if p.agreed is not None]
    if not agreed or any(p.is_apart for _, _, p in pairs) or _are_rivals(one, other, {(a, b) for a, b, _ in pairs}):
        return Neither()
    return Agree(
        value=max((value for _, _, value in agreed), key=lambda v: (len(v), v))[:VALUE_CHARS],
        one_share=len({a for a, _, _ in agreed}) / one.total,
        other_share=len({b for _, b, _ in agreed}) / other.total,
    )


def _fit(one: Said, other: Said) -> bool:
    """Return whether titles and headings may be of one subject, time and version; a passage without any fits all."""
    if one.versions != other.versions and one.versions and other.versions:
        return False
    if not _are_of_one_time(one.periods, other.periods):
        return False
    if not (one.labels and other.labels):
        return True
    mine, theirs = one.labels - other.around, other.labels - one.around
    is_foreign = len(mine) > FOREIGN * len(one.labels) or len(theirs) > FOREIGN * len(other.labels)
    return not (mine and theirs) and not is_foreign


def _are_of_one_time(one: Sequence[Period], other: Sequence[Period]) -> bool:
    return not (one and other) or any(overlaps(a, b) for a in one for b in other)


def _are_rivals(one: Said, other: Said, aligned: set[tuple[int, int]]) -> bool:
    """Return whether sentences without a counterpart are alike but for what they name: 'Ann won', 'Bea won'.

    Passages that agree in all but the one thing that matters do not agree.
    """
    mine = [i for i in range(len(one.sayings)) if i not in {i for i, _ in aligned}]
    theirs = [j for j in range(len(other.sayings)) if j not in {j for _, j in aligned}]
    return any(
        {(i - 1, j - 1), (i + 1, j + 1)} & aligned or _is_rival(one.sayings[i], other.sayings[j])
        for i in mine
        for j in theirs
    )


def _is_rival(a: Saying, b: Saying) -> bool:
    shared, union = len(a.content & b.content), len(a.content | b.content)
    return shared >= RIVAL_TERMS and shared >= RIVAL * union


def _aligned(one: Sequence[Saying], other: Sequence[Saying]) -> Iterator[tuple[int, int]]:
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            shared = len((a.content & b.content) - DENIALS)
            if shared >= LEAST_TERMS and shared >= ALIGNED * len((a.content | b.content) - DENIALS):
                yield i, j


def _pair(one: Said, other: Said, a: Saying, b: Saying) -> _Pair:
    """Return what two aligned sentences come to."""
    if _is_substituted(a, b) or _are_named_apart(a.names, b.names):
        return _APART
    matched = _matched(a.values, b.values)
    if matched is None:
        return _APART
    differing = [(x, y) for x, y in matched if gap(x, y) is not Gap.NONE]
    if not differing:
        return _without_difference(a, b, matched)
    if len(differing) > 1 or not _is_clear(a, b, *differing[0]):
        return _APART
    x, y = differing[0]
    alike = [v for v, w in matched if v is not x and not v.is_context]
    if _gives(other, x) or _gives(one, y) or not _is_of_kind((one, other), (a, b), (x, y), alike):
        return _APART
    return _Pair(contradiction=(x.kind, x.said.strip(), y.said.strip()))


def _is_clear(a: Saying, b: Saying, x: Value, y: Value) -> bool:
    return a.is_sure and b.is_sure and gap(x, y) is Gap.CLEAR and not are_denied(a.polarity, b.polarity)


def _is_substituted(a: Saying, b: Saying) -> bool:
    """Return whether a word stands in the place of another: team plan, solo plan."""
    for tag, i, j, k, m in SequenceMatcher(None, a.row, b.row, autojunk=False).get_opcodes():
        if tag != "replace":
            continue
        mine = {t for t in a.row[i:j] if t != SLOT} - b.content - LIGHT - DENIALS
        theirs = {t for t in b.row[k:m] if t != SLOT} - a.content - LIGHT - DENIALS
        if mine and theirs:
            return True
    return False


def _are_named_apart(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether each sentence names something that the other does not."""
    mine = [n for n in one if not any(n in o or o in n for o in other)]
    theirs = [n for n in other if not any(n in o or o in n for o in one)]
    return bool(mine and theirs)


def _matched(one: Sequence[Value], other: Sequence[Value]) -> list[tuple[Value, Value]] | None:
    """Return the values of two sentences in pairs of one kind and unit; None where it is in doubt which are pairs.

    Dates that only one sentence has are left alone; whether they part the two is for `_is_of_kind`.
    """
    pairs: list[tuple[Value, Value]] = []
    for key in sorted({_key(v) for v in (*one, *other)}):
        mine, theirs = [v for v in one if _key(v) == key], [v for v in other if _key(v) == key]
        if len(mine) == len(theirs):
            pairs += zip(mine, theirs, strict=True)
        elif (mine and theirs) or key[0] is not ValueKind.DATE:
            return None
    return pairs


def _key(value: Value) -> tuple[ValueKind, str]:
    return value.kind, value.unit


def _without_difference(a: Saying, b: Saying, matched: Sequence[tuple[Value, Value]]) -> _Pair:
    if are_denied(a.polarity, b.polarity):
        is_same = (
            a.is_sure
            and b.is_sure
            and (a.content ^ b.content) <= DENIALS | LIGHT
            and _are_of_one_time(periods_of(a.values), periods_of(b.values))
        )
        said = ("no", "yes") if a.polarity.denied else ("yes", "no")
        return _Pair(contradiction=(ValueKind.NEGATION, *said)) if is_same else _APART
    values = [x.said.strip() for x, _ in matched if not x.is_context]
    if values:
        return _Pair(agreed=max(values, key=lambda v: (len(v), v)))
    shared, union = a.content & b.content, a.content | b.content
    if len(shared) >= WHOLE_TERMS and len(shared) >= WHOLE * len(union):
        return _Pair(agreed="")
    return _NOTHING


def _gives(said: Said, value: Value) -> bool:
    """Return whether a passage gives a value as well: then it tells of both."""
    return any(v.kind is value.kind and gap(v, value) is Gap.NONE for s in said.sayings for v in s.values)


def _is_of_kind(
    said: tuple[Said, Said], sayings: tuple[Saying, Saying], values: tuple[Value, Value], alike: Sequence[Value]
) -> bool:
    """Return whether one differing value makes a contradiction: of a thing that has one such value, at one time."""
    x, y = values
    match x.kind:
        case ValueKind.DATE:
            return not (x.is_context or y.is_context) and is_dated_event(*sayings, x, y, alike)
        case ValueKind.VERSION:
            return all(map(is_versioned, sayings))
        case _:
            return _are_of_time_alike(*said, *sayings)


def _are_of_time_alike(one: Said, other: Said, a: Saying, b: Saying) -> bool:
    """Return whether two sentences speak of one time: of none, of the same, or one of what holds since a day."""
    mine, theirs = periods_of(a.values) or list(one.periods), periods_of(b.values) or list(other.periods)
    if bool(mine) == bool(theirs):
        return _are_of_one_time(mine, theirs)
    return all(v.is_open for v in _dated((*a.values, *b.values))) and not (one.periods or other.periods)


def _dated(values: Iterable[Value]) -> list[Value]:
    return [v for v in values if v.kind is ValueKind.DATE]
