"""Which of several excerpts an answer should rest on: relevance, subject, kind of value, time. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_runtime.evidence import Label
from crag_runtime.refining.bygone import ended, wants_now
from kb.dates.periods import time_intent
from kb.terms import Script, script_of
from kb.words.entities import entities, same
from kb.words.quantities import quantities_of
from kb.words.strips import lexical_scores
from kb.words.wanted_units import units_wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_runtime.evidence import Excerpt
    from kb.model import Instant

OFF_SUBJECT = 0.5  # what is left of the relevance when an excerpt has none of the question's words or names
OTHER_KIND = 0.6  # likewise when it has no value of the unit asked for
PAST = 0.75  # likewise when it speaks of a time that is over and the question of none
OTHER_SCRIPT = 0.9  # likewise when it is written in another script than the question
LONG_PAST = 0.6  # likewise when another excerpt speaks of a later time, over as well


def preferred(question: str, own: Sequence[Excerpt], today: Instant) -> list[Excerpt]:
    """Return a sub-question's excerpts, the one that an answer should rest on first.

    Relevant ones come before ambiguous ones. Among them counts the relevance, lowered by what speaks against each.

    Args:
        question: one sub-question.
        own: its excerpts.
        today: the instant of asking.
    """
    about, dated = _subjects(question, own), _times(question, own, today)
    wanted = units_wanted(question)

    def rank(n: int) -> tuple[bool, float, int]:
        excerpt = own[n]
        value = excerpt.relevance * (OFF_SUBJECT + (1 - OFF_SUBJECT) * about[n]) * dated[n]
        said = excerpt.answer or "\n".join(excerpt.strips)
        if (
            wanted.families
            and not any(wanted.fits(q) for q in quantities_of(said))
            and not wanted.are_in(_text(excerpt))
        ):
            value *= OTHER_KIND
        if _is_foreign(question, excerpt):
            value *= OTHER_SCRIPT
        return excerpt.label is not Label.RELEVANT, -value, n

    return [own[n] for n in sorted(range(len(own)), key=rank)]


def _subjects(question: str, own: Sequence[Excerpt]) -> list[float]:
    """Return for each excerpt how much of the question's words, and of its names, it has, in [0, 1]."""
    texts = [_text(excerpt) for excerpt in own]
    scores = lexical_scores(question, texts)
    top = max(scores)
    names = [same(name) for name in entities(question)]
    shares = []
    for text, score in zip(texts, scores, strict=True):
        plain = same(text)
        named = sum(name in plain for name in names) / len(names) if names else 1.0
        shares.append((score / top if top else 1.0) * named)
    return shares


def _is_foreign(question: str, excerpt: Excerpt) -> bool:
    mine, theirs = script_of(question), script_of("\n".join(excerpt.strips))
    return Script.NONE not in {mine, theirs} and mine is not theirs


def _text(excerpt: Excerpt) -> str:
    evidence = excerpt.evidence
    return "\n".join((evidence.title, *evidence.heading_path, *excerpt.strips))


def _times(question: str, own: Sequence[Excerpt], today: Instant) -> list[float]:
    """Return a factor for each excerpt: below 1 for what is over when the question is about the present."""
    if not wants_now(time_intent(question, today)):
        return [1.0] * len(own)
    ends = [ended(e.evidence, today) for e in own]
    latest = max((end for end in ends if end is not None), default=None)
    return [1.0 if end is None else PAST if end == latest else LONG_PAST for end in ends]
