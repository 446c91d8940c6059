"""From relevance to labels, and from labels to one verdict: pure.

The set verdict is the rule of Corrective RAG (Yan et al., arXiv 2401.15884, section 4.3 and its reference code's
`process_flag`): any passage at or above `upper` → correct; all below `lower` → incorrect; else ambiguous. Both edges
are inclusive upwards: relevance = upper is relevant, relevance = lower is ambiguous.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crag_runtime.evidence import Label, Verdict
from kb.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crag_runtime.evidence import Grade


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Band of an evaluator for one type of question: 0 <= lower <= upper <= 1."""

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.lower <= self.upper <= 1.0:
            raise ConfigError(
                f"thresholds are {self.lower} and {self.upper}; they must rise within 0 and 1",
                hint="see [ask.thresholds] in kb.toml, and `kb eval calibrate`",
            )


def label_of(relevance: float | None, thresholds: Thresholds) -> Label:
    """Return the label of a relevance; UNKNOWN for None and NaN."""
    if relevance is None or relevance != relevance:  # noqa: PLR0124 - NaN
        return Label.UNKNOWN
    if relevance >= thresholds.upper:
        return Label.RELEVANT
    return Label.AMBIGUOUS if relevance >= thresholds.lower else Label.IRRELEVANT


def verdict_of(labels: Sequence[Label], roots: Sequence[str] = (), *, min_sources: int = 1) -> Verdict:
    """Return the verdict of one retrieval.

    A label that is unknown is no evidence either way: with nothing relevant and anything unknown, the set is unknown
    when nothing else is known, else ambiguous.

    Args:
        labels: of the passages; empty gives INCORRECT.
        roots: root source of each passage, same length; independent support is counted by root, never by passage.
        min_sources: distinct roots that must be relevant for CORRECT; fewer, but some, are AMBIGUOUS.
    """
    relevant = [i for i, label in enumerate(labels) if label is Label.RELEVANT]
    sources = {roots[i] for i in relevant} if roots else set(relevant[:min_sources])
    if relevant and len(sources) >= min_sources:
        return Verdict.CORRECT
    known = [label for label in labels if label is not Label.UNKNOWN]
    if labels and not known:
        return Verdict.UNKNOWN
    if relevant or Label.AMBIGUOUS in known or len(known) < len(labels):
        return Verdict.AMBIGUOUS
    return Verdict.INCORRECT


def combined(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict of a question from its sub-questions': correct or incorrect only if all are."""
    distinct = set(verdicts)
    if not distinct:
        return Verdict.INCORRECT
    if len(distinct) == 1:
        return distinct.pop()
    return Verdict.AMBIGUOUS


def best(grades: Iterable[Grade]) -> Grade | None:
    """Return the grade of the highest relevance; None when none is known. Ties go to the first."""
    known = [grade for grade in grades if grade.relevance is not None]
    return max(known, key=lambda grade: grade.relevance or 0.0, default=None)
