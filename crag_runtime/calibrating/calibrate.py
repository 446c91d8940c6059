"""Grading labelled pairs with an evaluator as the runtime would, and the report that comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from crag_runtime.calibrating.calibration import FEW, calibrated
from crag_runtime.dates import periods
from crag_runtime.evidence import Asked, Evidence, Origin
from kb.errors import InputError
from kb.passages import embed_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from crag_runtime.calibrating.calibration import Calibration
    from crag_runtime.calibrating.labelled import LabelledPair
    from crag_runtime.ports import Evaluator, EvaluatorIdentity
    from crag_runtime.threads import Threads
    from kb.model import Instant, Json
    from kb.ports import Embedder, Vector

BATCH = 64  # texts embedded at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationReport:
    """What labelled pairs say about an evaluator.

    Args:
        evaluator: who graded.
        overall: of all pairs together.
        types: of each type of question that has pairs of both labels.
        unknown: pairs that the evaluator could not grade itself; they count nowhere else.
        warnings: for people.
    """

    evaluator: EvaluatorIdentity
    overall: Calibration
    types: tuple[Calibration, ...]
    unknown: int = 0
    warnings: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Json]:
        """Return the report as plain JSON."""
        identity = self.evaluator
        return {
            "evaluator": {"name": identity.name, "model": identity.model, "version": identity.version},
            "overall": self.overall.as_json(),
            "types": {c.type: c.as_json() for c in self.types},
            "unknown": self.unknown,
            "warnings": list(self.warnings),
        }


def toml_lines(report: CalibrationReport) -> str:
    """Return the lines for kb.toml that put the report's thresholds to use."""
    tables = (
        f"[ask.thresholds.{c.type}]\nlower = {round(c.lower, 4)}\nupper = {round(c.upper, 4)}\n" for c in report.types
    )
    return "\n".join(tables)


async def calibrate(
    evaluator: Evaluator,
    embedder: Embedder | None,
    pairs: Sequence[LabelledPair],
    threads: Threads,
    now: Instant,
    progress: Callable[[int, int], None],
) -> CalibrationReport:
    """Return how the evaluator grades the pairs, and the thresholds that follow.

    Args:
        evaluator: graded with as it is; its own thresholds do not matter.
        embedder: embeds what an evaluator may look at; None leaves vectors out.
        pairs: of both labels.
        threads: run the embedder.
        now: the instant of asking.
        progress: called with how many pairs are done, and of how many.

    Raises:
        InputError: no pairs, all of one label, or none that could be graded.
        EvaluatorUnavailable, ModelUnavailable, EmbedderUnavailable: as from the parts.
    """
    _check(pairs)
    progress(0, len(pairs))
    known: list[tuple[LabelledPair, float]] = []
    done = 0
    ordered = sorted(enumerate(pairs), key=lambda p: (p[1].question, p[1].type, p[0]))
    for _, group in groupby(ordered, key=lambda p: (p[1].question, p[1].type)):
        own = list(group)
        for start in range(0, len(own), BATCH):
            batch = own[start : start + BATCH]
            known += await _graded(evaluator, embedder, batch, threads, now)
            done += len(batch)
            progress(done, len(pairs))
    return _report(evaluator.identity, known, len(pairs) - len(known))


async def _graded(
    evaluator: Evaluator,
    embedder: Embedder | None,
    batch: Sequence[tuple[int, LabelledPair]],
    threads: Threads,
    now: Instant,
) -> list[tuple[LabelledPair, float]]:
    """Return those of one question's pairs that got a relevance, with it."""
    question, kind = batch[0][1].question, batch[0][1].type
    vector, vectors = await threads.call(_embedded, embedder, question, [pair for _, pair in batch])
    asked = Asked(
        question=question,
        type=kind,
        time=periods.time_intent(question, now),
        today=now,
        tenant="calibration",
        vector=vector,
    )
    evidence = [_evidence(i, pair, v) for (i, pair), v in zip(batch, vectors, strict=True)]
    grading = await evaluator.grade(asked, evidence)
    if grading.degraded:  # somebody else graded, whose relevances say nothing of this evaluator
        return []
    graded = zip(batch, grading.grades, strict=True)
    return [(pair, grade.relevance) for (_, pair), grade in graded if grade.relevance is not None]


def _embedded(
    embedder: Embedder | None, question: str, pairs: Sequence[LabelledPair]
) -> tuple[Vector | None, Sequence[Vector | None]]:
    if embedder is None:
        return None, [None] * len(pairs)
    vectors = embedder.passages([embed_text(pair.title, (), pair.passage) for pair in pairs])
    return embedder.queries([question])[0], list(vectors)


def _evidence(number: int, pair: LabelledPair, vector: Vector | None) -> Evidence:
    return Evidence(
        id=f"pair-{number}",
        origin=Origin.MEMORY,
        text=pair.passage,
        title=pair.title,
        dated=pair.dated,
        confidence=1.0,
        vector=vector,
    )


def _report(
    identity: EvaluatorIdentity, known: Sequence[tuple[LabelledPair, float]], unknown: int
) -> CalibrationReport:
    if not known:
        raise InputError(f"none of the {unknown} pairs could be graded")
    warnings = [f"{unknown} pairs could not be graded and are left out"] if unknown else []
    types = []
    for kind in sorted({pair.type for pair, _ in known}):
        own = [(pair, r) for pair, r in known if pair.type is kind]
        if len({pair.relevant for pair, _ in own}) == 1:
            warnings.append(f"all {len(own)} pairs of type {kind} have one label; it keeps its thresholds")
        else:
            types.append(_calibrated(own, kind))
    overall = _calibrated(known, "all")
    if overall.n >= FEW and overall.accuracy <= overall.majority:
        warnings.append("no threshold is better than always saying the commoner label")
    return CalibrationReport(
        evaluator=identity, overall=overall, types=tuple(types), unknown=unknown, warnings=tuple(warnings)
    )


def _calibrated(known: Iterable[tuple[LabelledPair, float]], of: str) -> Calibration:
    own = list(known)
    return calibrated([r for _, r in own], [pair.relevant for pair, _ in own], of=of)


def _check(pairs: Sequence[LabelledPair]) -> None:
    """Fail before anything is embedded or paid for."""
    if not pairs:
        raise InputError("there are no labelled pairs")
    if len({pair.relevant for pair in pairs}) == 1:
        kind = "relevant" if pairs[0].relevant else "irrelevant"
        raise InputError(f"all {len(pairs)} labelled pairs are {kind}", hint="label pairs of both kinds")
