"""Grading a golden set anew beside its baseline, and the report that comes of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from crag_runtime.calibrating.drift import (
    DIGITS,
    FEW,
    Baseline,
    drift,
    golden_hash,
    measures,
    pair_grades,
    unknown_share,
)
from crag_runtime.calibrating.grading import graded_pairs
from kb.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crag_runtime.calibrating.drift import Drift, Flip, Measures, PairGrade, Tolerance
    from crag_runtime.calibrating.grading import Bench, GradedPair
    from crag_runtime.calibrating.labelled import LabelledPair
    from crag_runtime.ports import EvaluatorIdentity
    from kb.model import Instant, Json


class DriftState(StrEnum):
    """How a check of a golden set ended."""

    CREATED = "created"  # there was no baseline: there is one now
    ACCEPTED = "accepted"  # what was graded now is the baseline from here on
    WITHIN = "within"  # tolerance
    DRIFTED = "drifted"  # beyond it
    UNGRADED = "ungraded"  # too few grades to tell


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReport:
    """What a golden set says of an evaluator.

    Args:
        state: how the check ended.
        graded: every pair, in the set's order, and `grades`: the same, as they are frozen.
        now: this run as a baseline; to be written where `is_frozen`.
        before: the baseline it was compared with, if any.
        drift: the comparison, if any.
        reasons: why it drifted, or could not be told.
        warnings: for people.
        new, gone: pairs that the baseline does not have, and those that only it has.
    """

    state: DriftState
    graded: tuple[GradedPair, ...]
    now: Baseline
    before: Baseline | None = None
    drift: Drift | None = None
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    new: int = 0
    gone: int = 0

    @property
    def is_frozen(self) -> bool:
        """Whether this run becomes the baseline."""
        return self.state in (DriftState.CREATED, DriftState.ACCEPTED)

    @property
    def unknown(self) -> tuple[GradedPair, ...]:
        """Pairs that could not be graded now."""
        return tuple(g for g in self.graded if g.relevance is None)

    def as_json(self) -> dict[str, Json]:
        """Return the report as plain JSON; numbers of four digits."""
        before, lines = self.before, {g.pair.key: g.pair.line for g in self.graded}
        flips = self.drift.flips if self.drift else ()
        return {
            "state": self.state.value,
            "reasons": list(self.reasons),
            "evaluator": _identity(self.now.evaluator),
            "measures": _measures(self.now.measures),
            "golden": {"hash": self.now.golden, "pairs": len(self.graded), "new": self.new, "gone": self.gone},
            "baseline": None
            if before is None
            else {
                "evaluator": _identity(before.evaluator),
                "measures": _measures(before.measures),
                "golden": before.golden,
                "asked_at": before.asked_at,
                "frozen_at": before.frozen_at,
                "evaluator_changed": before.evaluator != self.now.evaluator,
                "golden_changed": before.golden != self.now.golden,
            },
            "comparison": self.drift.as_json() if self.drift else None,
            "flips": [_flip(flip, lines) for flip in flips],
            "unknown": [{"line": g.pair.line, "question": g.pair.question, "problem": g.problem} for g in self.unknown],
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What is to be checked.

    Args:
        pairs: the golden set, of both labels.
        baseline: what it is compared with; None where there is none yet.
        tolerance: what is no drift yet.
        is_accepted: what is graded now becomes the baseline, whatever it is.
    """

    pairs: tuple[LabelledPair, ...]
    baseline: Baseline | None
    tolerance: Tolerance
    is_accepted: bool = False


async def checked(check: Check, bench: Bench, now: Instant, progress: Callable[[int, int], None]) -> DriftReport:
    """Return how the evaluator grades a golden set beside how it did.

    Args:
        check: what.
        bench: who grades; anew, so its evaluator should not remember.
        now: the instant of asking of a first baseline; a later run asks as of the first one's.
        progress: called with how many pairs are done, and of how many.

    Raises:
        InputError: the golden set cannot be one, or the baseline is that of another one.
        EmbedderUnavailable: the pairs cannot be embedded.
    """
    golden = golden_hash(check.pairs)
    _check_known(check)
    asked_at = check.baseline.asked_at if check.baseline else now
    graded = await graded_pairs(bench, check.pairs, asked_at, progress)
    grades = pair_grades(graded)
    run = Baseline(
        golden=golden,
        asked_at=asked_at,
        frozen_at=now,
        evaluator=bench.evaluator.identity,
        measures=measures(grades),
        pairs=grades,
    )
    return report_of(check, run, graded)


def report_of(check: Check, run: Baseline, graded: Sequence[GradedPair]) -> DriftReport:
    """Return the report of a run: pure.

    Args:
        check: what was checked.
        run: its grades, as a baseline.
        graded: the same with their problems.
    """
    before = check.baseline
    found = drift(before, run.pairs, check.tolerance) if before else None
    state, reasons = _ended(check, run, found)
    known, own = {g.key for g in before.pairs} if before else set(), {g.key for g in run.pairs}
    return DriftReport(
        state=state,
        graded=tuple(graded),
        now=run,
        before=before,
        drift=found,
        reasons=reasons,
        warnings=tuple(_warnings(before, run, found)),
        new=len(own - known) if before else 0,
        gone=len(known - own),
    )


def _ended(check: Check, run: Baseline, found: Drift | None) -> tuple[DriftState, tuple[str, ...]]:
    """Return how a check ended, and why; too few grades are never frozen."""
    missing, limit = unknown_share(run.pairs), check.tolerance.unknown
    beyond = found.reasons if found else ()
    if missing > limit:
        return DriftState.UNGRADED, (f"{missing:.3f} of the pairs could not be graded, {limit:.3f} is tolerated",)
    if check.baseline is None:
        return DriftState.CREATED, ()
    if check.is_accepted:
        return DriftState.ACCEPTED, beyond
    if found is None:
        return DriftState.UNGRADED, ("no pair has a grade both now and in the baseline",)
    return (DriftState.DRIFTED if beyond else DriftState.WITHIN), beyond


def _check_known(check: Check) -> None:
    """Fail where too much of the golden set is not in the baseline, before anything is paid for."""
    if check.baseline is None or check.is_accepted:
        return
    known = {g.key for g in check.baseline.pairs}
    new = sum(pair.key not in known for pair in check.pairs)
    if new > check.tolerance.unknown * len(check.pairs):
        raise InputError(
            f"the baseline does not have {new} of the {len(check.pairs)} pairs: it is that of another golden set",
            hint="freeze the changed set with --accept, or name its baseline with --baseline",
        )


def _warnings(before: Baseline | None, run: Baseline, found: Drift | None) -> list[str]:
    said = []
    if before and before.evaluator != run.evaluator:
        said.append("the evaluator is another one than the baseline's")
    if before and before.golden != run.golden:
        said.append("the golden set is not what it was; only the pairs that both have are compared")
    if found and found.compared < FEW:
        said.append(f"only {found.compared} pairs are compared; {FEW} or more tell drift from chance")
    return said


def _flip(flip: Flip, lines: dict[str, int]) -> dict[str, Json]:
    return {
        "line": lines[flip.now.key],
        "question": flip.now.question,
        "relevant": flip.now.relevant,
        "before": _grade(flip.before),
        "now": _grade(flip.now),
    }


def _grade(grade: PairGrade) -> dict[str, Json]:
    relevance = None if grade.relevance is None else round(grade.relevance, DIGITS)
    return {"verdict": grade.verdict.value, "relevance": relevance}


def _identity(identity: EvaluatorIdentity) -> dict[str, Json]:
    return {"name": identity.name, "model": identity.model, "version": identity.version}


def _measures(of: Measures) -> dict[str, Json]:
    return {key: round(value, DIGITS) if isinstance(value, float) else value for key, value in asdict(of).items()}
