"""Whether an evaluator still grades a golden set as it did when that was frozen: pure.

A pair is a retrieval of one passage, and its verdict that of the runtime. It is right when the verdict is correct for
a relevant passage, or is another one for an irrelevant passage. A pair without a grade, then or now, is compared with
nothing and counts as no flip.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import fsum
from typing import TYPE_CHECKING

from crag_runtime.calibrating.calibration import auc, ece
from crag_runtime.calibrating.significance import mcnemar, paired_change
from crag_runtime.evidence import Verdict
from crag_runtime.ports import EvaluatorIdentity  # noqa: TC001 - the codec reads this annotation at run time
from crag_runtime.verdict import verdict_of
from kb.errors import InputError
from kb.ids import digest
from kb.model import Instant  # noqa: TC001 - likewise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_runtime.calibrating.grading import GradedPair
    from crag_runtime.calibrating.labelled import LabelledPair
    from kb.model import Json

DIGITS = 4
FEW = 50  # compared pairs below which one flip weighs much


@dataclass(frozen=True, slots=True, kw_only=True)
class PairGrade:
    """How one pair was graded.

    Args:
        key: of the pair.
        question: for people.
        relevant: the label.
        relevance: None exactly when the verdict is unknown.
        verdict: of a retrieval of this passage alone.
    """

    key: str
    question: str
    relevant: bool
    relevance: float | None
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """How good the grades of a set are; unknown ones count nowhere.

    Args:
        n: graded pairs.
        accuracy: share that is right; None without any.
        auc: None where all have one label.
        ece: of the relevance as a probability; None without any.
    """

    n: int
    accuracy: float | None
    auc: float | None
    ece: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A golden set's grades as they were frozen.

    Args:
        golden: hash of the golden set, its labels included.
        asked_at: the instant of asking; later runs ask as of it, so that the calendar is no drift.
        frozen_at: when.
        evaluator: who graded; its version holds that of prompt, criteria, coefficients and thresholds.
        measures: of the pairs.
        pairs: in the golden set's order.
    """

    golden: str
    asked_at: Instant
    frozen_at: Instant
    evaluator: EvaluatorIdentity
    measures: Measures
    pairs: tuple[PairGrade, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """What is no drift yet; each is the largest value that passes, in [0, 1].

    Args:
        flipped: share of the compared pairs with another verdict.
        drop: loss of accuracy.
        moved: mean change of the relevance, either way.
        unknown: share of the golden set that may lack a grade, or a baseline.
    """

    flipped: float = 0.05
    drop: float = 0.03
    moved: float = 0.05
    unknown: float = 0.1

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0.0 <= value <= 1.0:
                raise InputError(f"the tolerance of {name} is {value}; it must be within 0 and 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A pair whose verdict is another one."""

    before: PairGrade
    now: PairGrade


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What became of a baseline.

    Args:
        compared: pairs with a grade then and now.
        flips: of them, those of another verdict.
        flipped: their share.
        moved: mean absolute change of the relevance.
        lost, won: compared pairs that were right and are wrong, and the other way round.
        change: of the accuracy over the compared pairs.
        low, high: its 95 % interval.
        p: exact, that pairs were lost and won alike (McNemar).
        reasons: what is beyond tolerance; none: no drift.
    """

    compared: int
    flips: tuple[Flip, ...]
    flipped: float
    moved: float
    lost: int
    won: int
    change: float
    low: float
    high: float
    p: float
    reasons: tuple[str, ...]

    def as_json(self) -> dict[str, Json]:
        """Return the comparison as plain JSON without its flips; numbers of four digits."""
        return {
            "compared": self.compared,
            "flipped": round(self.flipped, DIGITS),
            "moved": round(self.moved, DIGITS),
            "lost": self.lost,
            "won": self.won,
            "accuracy_change": round(self.change, DIGITS),
            "interval": [round(self.low, DIGITS), round(self.high, DIGITS)],
            "p": round(self.p, DIGITS),
        }


def golden_hash(pairs: Sequence[LabelledPair]) -> str:
    """Return the hash of a golden set: of its pairs and labels, whatever their order.

    Raises:
        InputError: the set is empty, has one label only, or names a pair twice.
    """
    if len({pair.relevant for pair in pairs}) < 2:  # noqa: PLR2004 - both labels
        raise InputError(f"the {len(pairs)} pairs of the golden set are not of both labels")
    first: dict[str, LabelledPair] = {}
    for pair in pairs:
        if (known := first.setdefault(pair.key, pair)) is not pair:
            raise InputError(f"lines {known.line} and {pair.line} of the golden set are one pair", hint="keep one")
    return digest("golden", *sorted(f"{pair.key} {pair.relevant}" for pair in pairs))


def pair_grades(graded: Sequence[GradedPair]) -> tuple[PairGrade, ...]:
    """Return what is frozen of grades."""
    return tuple(
        PairGrade(
            key=g.pair.key,
            question=g.pair.question,
            relevant=g.pair.relevant,
            relevance=g.relevance,
            verdict=verdict_of((g.label,)),
        )
        for g in graded
    )


def measures(grades: Sequence[PairGrade]) -> Measures:
    """Return how good grades are."""
    known = [(g.relevance, g.relevant, _is_right(g, relevant=g.relevant)) for g in grades if g.relevance is not None]
    relevances, labels = [r for r, _, _ in known], [label for _, label, _ in known]
    return Measures(
        n=len(known),
        accuracy=sum(right for _, _, right in known) / len(known) if known else None,
        auc=auc(relevances, labels) if len(set(labels)) == 2 else None,  # noqa: PLR2004 - both labels
        ece=ece(relevances, labels) if known else None,
    )


def unknown_share(grades: Sequence[PairGrade]) -> float:
    """Return the share of pairs without a grade; 0 for none at all."""
    return sum(g.relevance is None for g in grades) / len(grades) if grades else 0.0


def drift(baseline: Baseline, grades: Sequence[PairGrade], tolerance: Tolerance) -> Drift | None:
    """Return what became of the baseline; None where not one pair can be compared.

    Both sides are judged by the labels of today, so that a corrected label is no drift.
    """
    frozen = {g.key: g for g in baseline.pairs if g.relevance is not None}
    both = [(frozen[g.key], g) for g in grades if g.relevance is not None and g.key in frozen]
    if not both:
        return None
    right = [(_is_right(old, relevant=new.relevant), _is_right(new, relevant=new.relevant)) for old, new in both]
    lost, won = right.count((True, False)), right.count((False, True))
    change, low, high = paired_change(lost, won, len(both))
    flips = tuple(Flip(before=old, now=new) for old, new in both if old.verdict is not new.verdict)
    flipped = len(flips) / len(both)
    moved = fsum(abs((old.relevance or 0.0) - (new.relevance or 0.0)) for old, new in both) / len(both)
    beyond = (
        (flipped, tolerance.flipped, "of the verdicts flipped"),
        (-change, tolerance.drop, "of accuracy lost"),
        (moved, tolerance.moved, "of mean change of the relevance"),
    )
    return Drift(
        compared=len(both),
        flips=flips,
        flipped=flipped,
        moved=moved,
        lost=lost,
        won=won,
        change=change,
        low=low,
        high=high,
        p=mcnemar(lost, won),
        reasons=tuple(f"{value:.3f} {what}, {most:.3f} is tolerated" for value, most, what in beyond if value > most),
    )


def _is_right(grade: PairGrade, *, relevant: bool) -> bool:
    return (grade.verdict is Verdict.CORRECT) == relevant
