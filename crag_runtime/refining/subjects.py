"""Whether two sentences speak of the same thing: by names, by what stands beside the nouns, by time. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.dates.periods import overlaps
from kb.terms import query_terms, terms
from kb.words.entities import entities, same
from kb.words.strips import question_terms, stop_terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.dates.period import Period

SHARED = 0.3  # least share of a question's terms that each side must have
LEVEL = 0.6  # least number of a question's terms on the one side, against the other
ALIKE, ALIKE_FROM = 0.7, 5  # least overlap, and number of terms, of two sentences that differ in their value only


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What one side of a comparison speaks of.

    Args:
        sentence: the terms of the sentence around the value, in order, the value's left out.
        around: terms of the sentence, its neighbours, title and headings.
        names: of the sentence, neither the question's nor the value's.
        periods: that the sentence names, or else its title and headings.
    """

    sentence: tuple[str, ...]
    around: frozenset[str]
    names: frozenset[str]
    periods: tuple[Period, ...]


def subject_of(question: str, quote: str, value: str, context: str, periods: tuple[Period, ...]) -> Subject:
    """Return the subject of a value.

    Args:
        question: one sub-question.
        quote: the sentence that gives the value.
        value: verbatim.
        context: the rest of the excerpt, its title and headings.
        periods: see `Subject`.
    """
    values = set(query_terms(value).split())
    known = {same(name) for name in (*entities(question), *entities(value))}
    asked = question.casefold()
    names = {same(name) for name in entities(quote.replace(value, " "))}
    return Subject(
        sentence=tuple(term for term in terms(quote).split() if term not in values),
        around=frozenset(query_terms(f"{quote}\n{context}").split()),
        names=frozenset(name for name in names - known if name not in asked),
        periods=periods,
    )


def are_same(question: str, one: Subject, other: Subject) -> bool:
    """Return whether two values are about one subject; in doubt they are not."""
    wanted = question_terms(question)
    mine, theirs = wanted & one.around, wanted & other.around
    if not (one.sentence and other.sentence):  # nothing but the value
        return False
    is_about = min(len(mine), len(theirs)) >= SHARED * len(wanted) > 0
    if not is_about and not _are_alike(one.sentence, other.sentence):
        return False
    if not is_level(mine, theirs):
        return False
    named = frozenset(query_terms(" ".join(entities(question))).split()) & wanted
    if named & (mine ^ theirs):
        return False
    return not (_are_apart(one, other) or _have_other_modifiers(wanted, one, other) or _are_of_other_times(one, other))


def is_level(mine: frozenset[str], theirs: frozenset[str]) -> bool:
    """Return whether two sides have about as much of a question: one that has half of it is about something else."""
    return min(len(mine), len(theirs)) >= LEVEL * max(len(mine), len(theirs))


def _are_alike(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two sentences are one sentence with another value."""
    mine, theirs = set(one), set(other)
    return min(len(mine), len(theirs)) >= ALIKE_FROM and len(mine & theirs) >= ALIKE * len(mine | theirs)


def _are_apart(one: Subject, other: Subject) -> bool:
    """Return whether each sentence names something and nothing that the other names."""
    return bool(one.names and other.names) and not any(a in b or b in a for a in one.names for b in other.names)


def _have_other_modifiers(wanted: frozenset[str], one: Subject, other: Subject) -> bool:
    """Return whether a noun of the question has another word before it on each side: team plan, solo plan."""
    for noun in wanted:
        mine, theirs = _before(noun, one.sentence, wanted), _before(noun, other.sentence, wanted)
        if mine and theirs and not mine & theirs:
            return True
    return False


def _before(noun: str, sentence: Sequence[str], wanted: frozenset[str]) -> set[str]:
    """Return the words right before a noun; what the question says itself makes no difference."""
    content = [term for term in sentence if term not in stop_terms()]
    found = {content[i - 1] for i, term in enumerate(content) if term == noun and i}
    return found if not found & wanted else set()


def _are_of_other_times(one: Subject, other: Subject) -> bool:
    if not (one.periods and other.periods):
        return False
    return not any(overlaps(a, b) for a in one.periods for b in other.periods)
