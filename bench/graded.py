"""Pairs as an evaluator sees them: a question with its vector and time, a passage with its title and vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crag_runtime.evidence import Asked, Evidence, Origin, QuestionType
from kb.dates.periods import time_intent
from kb.passages import embed_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.pairs import Pair
    from bench.vectors import Vectors

TODAY = 1_796_000_000_000  # 2026-11-30: what relative periods are resolved against, so that every run is alike


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """One pair, ready to be graded."""

    asked: Asked
    evidence: Evidence
    relevant: bool


def cases(pairs: Sequence[Pair], vectors: Vectors) -> list[Case]:
    """Return the pairs with their vectors, embedded as the product embeds them."""
    passages = vectors.passages([embed_text(p.title, (), p.passage) for p in pairs])
    questions = vectors.queries([p.question for p in pairs])
    return [
        Case(
            asked=Asked(
                question=p.question,
                type=QuestionType.FACTUAL,
                time=time_intent(p.question, TODAY),
                today=TODAY,
                tenant="bench",
                vector=question,
            ),
            evidence=Evidence(
                id=f"p{n}", origin=Origin.MEMORY, text=p.passage, title=p.title, confidence=1.0, vector=passage
            ),
            relevant=p.relevant,
        )
        for n, (p, question, passage) in enumerate(zip(pairs, questions, passages, strict=True))
    ]
