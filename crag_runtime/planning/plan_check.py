"""Whether a model's plan asks what the question asks: nothing lost, nothing made up, nothing leaked. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from crag_runtime.language import is_chinese
from crag_runtime.planning.question_parts import MAX_PARTS
from crag_runtime.planning.rewrite import adds, keeps, one_line
from kb.dates.periods import time_intent
from kb.terms import query_terms, terms
from kb.words.entities import entities, same
from kb.words.strips import stop_terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_runtime.evidence import Plan, Turn
    from kb.model import Instant

MAX_LENGTH = 500  # characters of a sub-question


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a model made of a question."""

    question: str
    sub_questions: tuple[str, ...]


def checked(proposal: Proposal, question: str, turns: Sequence[Turn], ruled: Plan, today: Instant) -> tuple[Plan, str]:
    """Return the plan with what the model proposes, or the rules' plan and why it must stand.

    Args:
        proposal: untrusted.
        question: as asked.
        turns: what a follow-up may take names and periods from.
        ruled: the rules' plan of the same question.
        today: for periods.
    """
    whole = one_line(proposal.question) or ruled.question
    parts = _parts(proposal, ruled)
    refusal = _whole_refused(whole, question, turns, ruled, today) or _parts_refused(parts, whole, today)
    if not refusal and (words := _leaked(" ".join(parts), f"{question} {whole}", turns)):
        refusal = f"took over {words}"
    if refusal:
        return ruled, refusal
    carried = _carried(whole, question) or (ruled.carried if whole != one_line(question) else "")
    plan = replace(ruled, question=whole, sub_questions=parts, time=time_intent(whole, today), carried=carried)
    return plan, ""


def _parts(proposal: Proposal, ruled: Plan) -> tuple[str, ...]:
    """Return the sub-questions, distinct, at most three: the rest is joined to the last."""
    distinct = list({same(part): one_line(part) for part in reversed(proposal.sub_questions) if part.strip()}.values())[
        ::-1
    ]
    if len(distinct) > MAX_PARTS:
        glue = "" if is_chinese(ruled.question) else " "
        distinct[MAX_PARTS - 1 :] = [glue.join(distinct[MAX_PARTS - 1 :])]
    return tuple(distinct)


def _whole_refused(whole: str, question: str, turns: Sequence[Turn], ruled: Plan, today: Instant) -> str:
    if len(whole) > MAX_LENGTH + len(question):
        return "is too long"
    if ruled.carried and same(whole) == same(question):
        return "is not self-contained"
    if lost := keeps(question, whole, today=today):
        return f"lost {lost}"
    is_alone = not ruled.carried and bool(entities(question))
    source = question if is_alone or not turns else " ".join((question, *(f"{t.question} {t.answer}" for t in turns)))
    if new := _new_names(whole, f"{source} {ruled.question}"):
        return f"took over {new}" if turns else f"made up {new}"
    if words := _leaked(whole, f"{question} {ruled.question}", turns) if is_alone else "":
        return f"took over {words}"
    made_up = adds(f"{source} {ruled.question}", whole, today=today)
    return f"made up {made_up}" if made_up else ""


def _parts_refused(parts: Sequence[str], whole: str, today: Instant) -> str:
    if not parts:
        return "has no sub-question"
    if any(len(part) > MAX_LENGTH for part in parts):
        return "has a sub-question that is too long"
    if lost := keeps(whole, "\n".join(parts), today=today):
        return f"lost {lost}"
    for part in parts:
        if is_chinese(part) != is_chinese(whole):
            return "changed the language"
        if new := _new_names(part, whole) or adds(whole, part, today=today):
            return f"made up {new}"
    return ""


def _leaked(text: str, question: str, turns: Sequence[Turn]) -> str:
    """Return words that a text has of an earlier answer, and not of this question: a search would tell them."""
    answered = {term for turn in turns for term in terms(turn.answer).split()}
    own = {*terms(question).split(), *stop_terms()}
    return ", ".join(term for term in query_terms(text).split() if term in answered - own)


def _new_names(text: str, source: str) -> str:
    """Return names that the source does not have; a capital at the very start may be only a sentence's."""
    known = same(source)
    return ", ".join(name for name in entities(text) if same(name) not in known and not text.startswith(name))


def _carried(whole: str, question: str) -> str:
    """Return the names that the whole question has and the asked one has not."""
    asked = same(question)
    return ", ".join(name for name in entities(whole) if same(name) not in asked)
