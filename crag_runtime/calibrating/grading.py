"""Labelled pairs graded as the runtime would grade them, each by itself, so that one that fails harms no other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from crag_runtime.evidence import Asked, Evidence, Label, Origin
from kb.dates import periods
from kb.errors import EvaluatorUnavailable, ModelUnavailable
from kb.passages import embed_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crag_runtime.calibrating.labelled import LabelledPair
    from crag_runtime.ports import Evaluator
    from crag_runtime.threads import Threads
    from kb.errors import DependencyError
    from kb.model import Instant
    from kb.ports import Embedder, Vector

BATCH = 64  # texts embedded, and pairs graded, at a time
TENANT = "calibration"


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedPair:
    """A labelled pair and what an evaluator says of it.

    Args:
        pair: as labelled.
        relevance: in [0, 1]; None exactly when the evaluator could not grade the pair itself.
        label: by the evaluator's thresholds; UNKNOWN with None.
        problem: why it is unknown; "" else.
        error: what was raised, where something was.
    """

    pair: LabelledPair
    relevance: float | None
    label: Label
    problem: str = ""
    error: DependencyError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Who grades, and with what.

    Args:
        evaluator: as it is configured.
        embedder: embeds what an evaluator may look at; None leaves vectors out.
        threads: run the embedder.
    """

    evaluator: Evaluator
    embedder: Embedder | None
    threads: Threads


async def graded_pairs(
    bench: Bench, pairs: Sequence[LabelledPair], now: Instant, progress: Callable[[int, int], None]
) -> list[GradedPair]:
    """Return each pair with its grade, in the order given.

    Args:
        bench: who grades.
        pairs: of any labels.
        now: the instant of asking, which what is asked of "today" depends on.
        progress: called with how many pairs are done, and of how many.

    Raises:
        EmbedderUnavailable: the pairs cannot be embedded.
    """
    progress(0, len(pairs))
    graded: dict[int, GradedPair] = {}
    ordered = sorted(enumerate(pairs), key=lambda p: (p[1].question, p[1].type, p[0]))
    for _, group in groupby(ordered, key=lambda p: (p[1].question, p[1].type)):
        own = list(group)
        for start in range(0, len(own), BATCH):
            batch = own[start : start + BATCH]
            found = await _batch(bench, [pair for _, pair in batch], now)
            graded.update(zip((i for i, _ in batch), found, strict=True))
            progress(len(graded), len(pairs))
    return [graded[i] for i in range(len(pairs))]


async def _batch(bench: Bench, batch: Sequence[LabelledPair], now: Instant) -> list[GradedPair]:
    """Return the grades of pairs of one question."""
    question = batch[0].question
    vector, vectors = await bench.threads.call(_embedded, bench.embedder, question, batch)
    asked = Asked(
        question=question,
        type=batch[0].type,
        time=periods.time_intent(question, now),
        today=now,
        tenant=TENANT,
        vector=vector,
    )
    calls = (_graded(bench.evaluator, asked, pair, v) for pair, v in zip(batch, vectors, strict=True))
    return list(await asyncio.gather(*calls))


async def _graded(evaluator: Evaluator, asked: Asked, pair: LabelledPair, vector: Vector | None) -> GradedPair:
    try:
        grading = await evaluator.grade(asked, [_evidence(pair, vector)])
    except (EvaluatorUnavailable, ModelUnavailable) as error:
        return GradedPair(pair=pair, relevance=None, label=Label.UNKNOWN, problem=str(error), error=error)
    (grade,) = grading.grades
    if grading.degraded:  # somebody else graded, whose relevance says nothing of this evaluator
        return GradedPair(pair=pair, relevance=None, label=Label.UNKNOWN, problem=grading.degraded)
    if grade.relevance is None or grade.label is Label.UNKNOWN:
        return GradedPair(pair=pair, relevance=None, label=Label.UNKNOWN, problem=grade.reason or "no grade was given")
    return GradedPair(pair=pair, relevance=grade.relevance, label=grade.label)


def _embedded(
    embedder: Embedder | None, question: str, pairs: Sequence[LabelledPair]
) -> tuple[Vector | None, Sequence[Vector | None]]:
    if embedder is None:
        return None, [None] * len(pairs)
    vectors = embedder.passages([embed_text(pair.title, (), pair.passage) for pair in pairs])
    return embedder.queries([question])[0], list(vectors)


def _evidence(pair: LabelledPair, vector: Vector | None) -> Evidence:
    """Return a pair's passage as evidence; its id comes from all a grade may depend on, as grades are cached by it."""
    return Evidence(
        id=f"pair-{pair.passage_key}",
        origin=Origin.MEMORY,
        text=pair.passage,
        title=pair.title,
        dated=pair.dated,
        confidence=1.0,
        vector=vector,
    )
