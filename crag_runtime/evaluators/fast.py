"""The fast evaluator: is a passage about what is asked? Milliseconds, no model, from stored vectors and words.

It judges topical relevance only. Among passages on the question's topic it cannot tell which one holds the answer;
that needs the reader or a chat model. Another period, or another name, than the question's lowers the relevance.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from crag_runtime.evaluators.coefficients import coefficients
from crag_runtime.evaluators.features import cosine_of, features_of, is_cross_script, query_of
from crag_runtime.evidence import Grade, Label, Usage
from crag_runtime.ports import EvaluatorIdentity, Grading
from crag_runtime.verdict import label_of
from kb.dates.periods import ANOTHER_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_runtime.evaluators.features import Query
    from crag_runtime.evidence import Asked, Evidence
    from crag_runtime.policy import Bands
    from crag_runtime.threads import Threads

NAME = "fast"
SHOWN = 0.5  # of a name's weight missing, from which the reason says so


def own_bands() -> Bands:
    """Return the thresholds that the shipped coefficients were calibrated to.

    Raises:
        EvaluatorUnavailable: the coefficients cannot be read.
    """
    return dict(coefficients().bands)


class FastEvaluator:
    """Grades by a calibrated logistic regression over `crag_runtime.evaluators.features`.

    Three sets of coefficients: cosine and words; cosine alone, where question and passage are in different scripts;
    words alone, where a vector is missing or is of another space, which the reason then says.

    Args:
        bands: thresholds by type of question.
        threads: where the work is done; without them it is done in place, a passage at a time.
        vector_space: model of the vectors that questions and evidence carry.
    """

    def __init__(
        self, bands: Bands, threads: Threads | None = None, *, vector_space: str = "multilingual-e5-small"
    ) -> None:
        self._bands = bands
        self._threads = threads
        self._known = coefficients()
        self._is_known_space = vector_space == self._known.vector_space
        edges = ",".join(f"{b.lower:g}-{b.upper:g}" for _, b in sorted(bands.items()))
        model = "regression" if self._is_known_space else "regression, words only"
        self._identity = EvaluatorIdentity(name=NAME, model=model, version=f"{self._known.version} {edges}")

    @property
    def identity(self) -> EvaluatorIdentity:
        """Name, coefficients and thresholds."""
        return self._identity

    async def grade(self, asked: Asked, evidence: Sequence[Evidence]) -> Grading:
        """Grade every passage; costs nothing."""
        if not evidence:
            return Grading(grades=(), usage=Usage())
        if self._threads is not None:
            grades = await self._threads.call(self._graded, asked, evidence)
        else:
            query, grades = self._query(asked), []
            for one in evidence:
                grades.append(self._grade(query, asked, one))
                await asyncio.sleep(0)  # others may run between two passages
        return Grading(grades=tuple(grades), usage=Usage())

    def _graded(self, asked: Asked, evidence: Sequence[Evidence]) -> list[Grade]:
        query = self._query(asked)
        return [self._grade(query, asked, one) for one in evidence]

    def _query(self, asked: Asked) -> Query:
        return query_of(asked, self._known.rarity)

    def _grade(self, query: Query, asked: Asked, evidence: Evidence) -> Grade:
        if not evidence.text.strip():
            return self._as_grade(evidence, None, Label.UNKNOWN, "the passage has no text")
        values = features_of(query, evidence, self._known.rarity)
        cosine = cosine_of(asked, evidence) if self._is_known_space else None
        relevance, basis = self._relevance(query, evidence, values, cosine)
        label = label_of(relevance, self._bands[asked.type])
        against = _against(values)
        if values["period_mismatch"]:
            timely, _ = self._relevance(query, evidence, {**values, "period_mismatch": 0.0}, cosine)
            against = [_untimely(query, would_fit=(timely or 0.0) >= self._bands[asked.type].lower), *against]
        return self._as_grade(evidence, relevance, label, "; ".join([basis, *against]))

    def _relevance(
        self, query: Query, evidence: Evidence, values: dict[str, float], cosine: float | None
    ) -> tuple[float | None, str]:
        """Return the relevance and what it rests on; None where neither words nor vectors can tell anything."""
        known = self._known
        is_cross, is_wordless = is_cross_script(query, evidence), not query.weights
        if cosine is None:
            why = _why_no_cosine(is_known_space=self._is_known_space)
            if is_cross or is_wordless:
                return None, f"{_why_no_words(is_cross=is_cross)}, and {why}"
            return known.relevance(values, known.lexical), f"{_words(values)}; by words alone, as {why}"
        if is_cross:
            values |= {"cosine": cosine, "entity_missing": 0.0, "number_missing": 0.0}  # names are spelt otherwise
            return known.relevance(values, known.cross), f"cosine {cosine:.2f}, alone: {_why_no_words(is_cross=True)}"
        values |= {"cosine": cosine}
        if is_wordless:
            return known.relevance(values, known.cosine), f"cosine {cosine:.2f}, alone: {_why_no_words(is_cross=False)}"
        return known.relevance(values, known.full), f"cosine {cosine:.2f}, {_words(values)}"

    def _as_grade(self, evidence: Evidence, relevance: float | None, label: Label, reason: str) -> Grade:
        return Grade(
            id=evidence.id,
            label=label,
            relevance=relevance,
            reason=reason,
            evaluator=NAME,
            model=self._identity.model,
            version=self._identity.version,
        )


def _words(values: dict[str, float]) -> str:
    return f"{values['coverage']:.0%} of the question's words"


def _why_no_cosine(*, is_known_space: bool) -> str:
    if is_known_space:
        return "there is no vector to compare"
    return "no coefficients are known for these vectors"


def _why_no_words(*, is_cross: bool) -> str:
    return "it is in another script than the question" if is_cross else "the question has no telling word"


def _untimely(query: Query, *, would_fit: bool) -> str:
    """Return that a passage is of another period; only of one that fits but for that may a refusal say the same."""
    if not would_fit:
        return "its period is another one too"
    return f"{ANOTHER_TIME} {', '.join(p.label for p in query.periods)}"


def _against(values: dict[str, float]) -> list[str]:
    """Return what else speaks against the passage, for the reason."""
    found = []
    if values["entity_missing"] >= SHOWN:
        found.append("names of the question are missing")
    if values["number_missing"] >= SHOWN:
        found.append("numbers of the question are missing")
    return found
