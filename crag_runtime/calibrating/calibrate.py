"""Grading labelled pairs with an evaluator as the runtime would, and the report that comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crag_runtime.calibrating.calibration import FEW, calibrated
from crag_runtime.calibrating.grading import graded_pairs
from kb.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from crag_runtime.calibrating.calibration import Calibration
    from crag_runtime.calibrating.grading import Bench
    from crag_runtime.calibrating.labelled import LabelledPair
    from crag_runtime.ports import EvaluatorIdentity
    from kb.model import Instant, Json


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
    bench: Bench, pairs: Sequence[LabelledPair], now: Instant, progress: Callable[[int, int], None]
) -> CalibrationReport:
    """Return how the evaluator grades the pairs, and the thresholds that follow.

    Args:
        bench: who grades; its own thresholds do not matter.
        pairs: of both labels.
        now: the instant of asking.
        progress: called with how many pairs are done, and of how many.

    Raises:
        InputError: no pairs, all of one label, or none that could be graded.
        EvaluatorUnavailable, ModelUnavailable, EmbedderUnavailable: as from the parts.
    """
    _check(pairs)
    graded = await graded_pairs(bench, pairs, now, progress)
    known = [(g.pair, g.relevance) for g in graded if g.relevance is not None]
    errors = [g.error for g in graded if g.error is not None]
    if not known and errors:
        raise errors[0]
    return _report(bench.evaluator.identity, known, len(pairs) - len(known))


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
