"""The cascade: a local evaluator decides the clear cases, a chat model only what lies in the band between."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from crag_runtime.evidence import Label, Usage
from crag_runtime.ports import EvaluatorIdentity, Grading
from kb.errors import EvaluatorUnavailable, ModelUnavailable
from kb.telemetry import Metric, count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crag_runtime.evidence import Asked, Evidence, Grade
    from crag_runtime.ports import Evaluator

NAME = "cascade"
LEAN = 0.5  # relevance from which an evaluator that is unsure leans to relevant
UNCLEAR = frozenset({Label.AMBIGUOUS, Label.UNKNOWN})


class Cascade:
    """Asks `second` about what `first` leaves ambiguous or unknown, and about nothing else.

    A grade keeps the name of who gave it, and its reason says how it got there. Where `second` fails, or leaves a
    passage unknown, the grade of `first` stands; the grading then says that it is degraded. If `first` cannot grade at
    all, `second` grades everything, and the grading says so; with both away, the error of `second` is raised.

    Args:
        first: instant and free: reader or fast.
        second: slow or paid: llm.
    """

    def __init__(self, first: Evaluator, second: Evaluator) -> None:
        self._first, self._second = first, second

    @property
    def identity(self) -> EvaluatorIdentity:
        """Both evaluators' names, models and versions."""
        one, two = self._first.identity, self._second.identity
        return EvaluatorIdentity(
            name=NAME,
            model=f"{one.name} {one.model} > {two.name} {two.model}",
            version=f"{one.version} > {two.version}",
        )

    async def grade(self, asked: Asked, evidence: Sequence[Evidence]) -> Grading:
        """Grade every passage, the clear ones without the second evaluator."""
        if not evidence:
            return Grading(grades=(), usage=Usage())
        try:
            first = await self._first.grade(asked, evidence)
        except (EvaluatorUnavailable, ModelUnavailable) as error:
            return await self._second_alone(asked, evidence, error)
        unclear = [e for e, grade in zip(evidence, first.grades, strict=True) if grade.label in UNCLEAR]
        if not unclear:
            return first
        count(Metric.CASCADE_SENT, len(unclear))
        try:
            second = await self._second.grade(asked, unclear)
        except (EvaluatorUnavailable, ModelUnavailable) as error:
            return self._first_alone(first, error)
        return self._merged(first, second)

    async def _second_alone(self, asked: Asked, evidence: Sequence[Evidence], error: Exception) -> Grading:
        count(Metric.CASCADE_SENT, len(evidence))
        second = await self._second.grade(asked, evidence)
        why = f"{self._first.identity.name} could not grade: {error}"
        return replace(second, degraded=_joined(why, second.degraded))

    def _first_alone(self, first: Grading, error: Exception) -> Grading:
        name = self._second.identity.name
        note = f"unclear to {self._first.identity.name}, and {name} could not grade it"
        kept = tuple(_noted(g, note) if g.label in UNCLEAR else g for g in first.grades)
        usage = first.usage + _spent(error)
        return Grading(grades=kept, usage=usage, degraded=_joined(first.degraded, f"{name} could not grade: {error}"))

    def _merged(self, first: Grading, second: Grading) -> Grading:
        given = {grade.id: grade for grade in second.grades}
        settled, same = agreement(first.grades, second.grades)
        count(Metric.CASCADE_SETTLED, settled)
        count(Metric.CASCADE_AGREED, same)
        kept = tuple(self._chosen(grade, given) for grade in first.grades)
        unknown = sum(g.label is Label.UNKNOWN for g in second.grades)
        note = f"{self._second.identity.name} could not grade {unknown} of {len(given)} passages" if unknown else ""
        degraded = _joined(first.degraded, second.degraded, note)
        return Grading(grades=kept, usage=first.usage + second.usage, degraded=degraded)

    def _chosen(self, grade: Grade, given: Mapping[str, Grade]) -> Grade:
        """Return the second's grade where it has one; windows and span that only the first read stay with it."""
        other = given.get(grade.id)
        if grade.label not in UNCLEAR or other is None:
            return grade
        if other.label is Label.UNKNOWN:
            return _noted(grade, f"{self._second.identity.name} could not grade it: {other.reason}")
        noted = _noted(other, f"{grade.label} to {self._first.identity.name}")
        is_usable = other.label is not Label.IRRELEVANT
        return replace(
            noted, strips=other.strips or grade.strips, answer=other.answer or (grade.answer if is_usable else "")
        )


def agreement(first: Sequence[Grade], second: Sequence[Grade]) -> tuple[int, int]:
    """Return how many passages the second settled, and on how many of them the first had leaned the same way.

    To lean is a relevance of LEAN or more, for relevant, or below it. What either could not grade counts nowhere.
    """
    leaning = {g.id: g.relevance >= LEAN for g in first if g.relevance is not None}
    clear = (Label.RELEVANT, Label.IRRELEVANT)
    settled = [g for g in second if g.label in clear and g.id in leaning]
    return len(settled), sum(leaning[g.id] == (g.label is Label.RELEVANT) for g in settled)


def _noted(grade: Grade, note: str) -> Grade:
    return replace(grade, reason=f"{grade.reason} ({note})" if grade.reason else note)


def _joined(*reasons: str) -> str:
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason))


def _spent(error: Exception) -> Usage:
    """Return what a chat model's failure cost nevertheless."""
    if isinstance(error, ModelUnavailable):
        return Usage(llm_calls=error.calls, tokens_in=error.tokens_in, tokens_out=error.tokens_out)
    return Usage()
