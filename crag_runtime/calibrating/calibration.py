"""How good relevances are against labels, and which thresholds follow: pure.

Known measures under their usual names: AUC is the share of (relevant, irrelevant) pairs in the right order, ties
counting half (Mann-Whitney); ECE is the expected calibration error over ten bins of equal width; scaling is Platt's
(1999), with his target smoothing, so that perfectly separated labels stay finite.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from crag_runtime.verdict import Thresholds
from kb.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.model import Json

BINS = 10
TARGET = 0.9  # precision above `upper`, and share of irrelevant ones below `lower`
FEW = 50  # labelled pairs below which thresholds are guesses
FEW_OF_ONE = 10  # of the rarer label
MIN_CASES = 5  # passages on one side of a threshold before its precision is believed
ROUNDS = 100  # Newton steps of Platt scaling
EPSILON = 1e-12
DIGITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Platt scaling of a relevance p: sigmoid(a · logit(p) + b)."""

    a: float
    b: float

    def __call__(self, relevance: float) -> float:
        """Return the scaled relevance."""
        return _sigmoid(self.a * logit(relevance) + self.b)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What labelled pairs say about an evaluator, for one type of question.

    Args:
        type: of question, or "all".
        n: labelled pairs that could be graded.
        relevant: share of them that is relevant.
        lower: threshold under which 9 of 10 are irrelevant.
        upper: threshold from which 9 of 10 are relevant.
        accuracy: at `middle`, fitted on the same pairs.
        middle: the threshold of the best accuracy.
        majority: accuracy of always saying the commoner label.
        auc: 0.5 is chance.
        ece: of the relevance as a probability; 0 is perfect.
        ece_scaled: after Platt scaling, on the same pairs.
        scaling: Platt's a and b.
        unsure: share of the pairs between the thresholds.
        warnings: for people.
    """

    type: str
    n: int
    relevant: float
    lower: float
    upper: float
    accuracy: float
    middle: float
    majority: float
    auc: float
    ece: float
    ece_scaled: float
    scaling: Scaling
    unsure: float
    warnings: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Json]:
        """Return the calibration as plain JSON; numbers of four digits."""
        plain = {k: round(v, DIGITS) if isinstance(v, float) else v for k, v in asdict(self).items()}
        scaling = {"a": round(self.scaling.a, DIGITS), "b": round(self.scaling.b, DIGITS)}
        return {**plain, "scaling": dict(scaling), "warnings": list(self.warnings)}


def calibrated(relevances: Sequence[float], labels: Sequence[bool], *, of: str = "all") -> Calibration:
    """Return measures and thresholds.

    Args:
        relevances: in [0, 1].
        labels: whether each is relevant; same length.
        of: type of question, for the report.

    Raises:
        InputError: no pairs, or all have one label; or a relevance is out of range.
    """
    _check(relevances, labels, of)
    thresholds, reasons = band(relevances, labels)
    middle = best_threshold(relevances, labels)
    scaling = platt(relevances, labels)
    return Calibration(
        type=of,
        n=len(labels),
        relevant=sum(labels) / len(labels),
        lower=thresholds.lower,
        upper=thresholds.upper,
        accuracy=accuracy(relevances, labels, middle),
        middle=middle,
        majority=majority(labels),
        auc=auc(relevances, labels),
        ece=ece(relevances, labels),
        ece_scaled=ece([scaling(r) for r in relevances], labels),
        scaling=scaling,
        unsure=sum(thresholds.lower <= r < thresholds.upper for r in relevances) / len(labels),
        warnings=(*_small(labels), *reasons),
    )


def auc(scores: Sequence[float], labels: Sequence[bool]) -> float:
    """Return the share of (positive, negative) pairs that the scores put in order; a tie counts half.

    Raises:
        InputError: all have one label.
    """
    positive = [s for s, label in zip(scores, labels, strict=True) if label]
    negative = sorted(s for s, label in zip(scores, labels, strict=True) if not label)
    if not positive or not negative:
        raise InputError("AUC needs relevant and irrelevant passages")
    twice = sum(bisect_left(negative, s) + bisect_right(negative, s) for s in positive)
    return twice / (2 * len(positive) * len(negative))


def ece(probabilities: Sequence[float], labels: Sequence[bool]) -> float:
    """Return the expected calibration error: over ten bins of equal width, |mean p - share of positives| by size."""
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for p, label in zip(probabilities, labels, strict=True):
        bins[min(BINS - 1, int(p * BINS))].append((p, label))
    gaps = (abs(math.fsum(p for p, _ in own) - sum(label for _, label in own)) for own in bins)
    return math.fsum(gaps) / len(labels) if labels else 0.0


def majority(labels: Sequence[bool]) -> float:
    """Return the accuracy of always saying the commoner label; 0 for no labels."""
    return max(sum(labels), len(labels) - sum(labels)) / len(labels) if labels else 0.0


def accuracy(relevances: Sequence[float], labels: Sequence[bool], threshold: float) -> float:
    """Return the share that is on its label's side of a threshold, which itself counts as relevant."""
    right = sum((r >= threshold) == label for r, label in zip(relevances, labels, strict=True))
    return right / len(labels) if labels else 0.0


def best_threshold(relevances: Sequence[float], labels: Sequence[bool]) -> float:
    """Return the lowest threshold of the best accuracy, half way between its neighbours."""
    cases = sorted(zip(relevances, labels, strict=True))
    right = sum(labels)  # with the threshold below all
    best, at = right, 0
    for i, (_, label) in enumerate(cases, start=1):
        right += -1 if label else 1
        is_edge = i == len(cases) or cases[i][0] > cases[i - 1][0]
        if is_edge and right > best:
            best, at = right, i
    return _between(cases, at)


def band(relevances: Sequence[float], labels: Sequence[bool], target: float = TARGET) -> tuple[Thresholds, list[str]]:
    """Return the narrowest band outside which `target` of the labels are right, and why it had to fall back.

    `upper` is the lowest relevance from which up at least `target` are relevant; `lower` the highest below which at
    least `target` are irrelevant; either side needs MIN_CASES passages (or all of its label, if fewer). Where
    the target is out of reach, `upper` is just above the highest irrelevant and `lower` the lowest relevant passage:
    then nothing known is decided wrongly, and more is left ambiguous. A `lower` above `upper` (good data) closes the
    band at the threshold of the best accuracy, or else half way between the two.
    """
    cases = sorted(zip(relevances, labels, strict=True))
    need_up = min(MIN_CASES, sum(labels))
    need_down = min(MIN_CASES, len(labels) - sum(labels))
    up, down = _upper(cases, target, need_up), _lower(cases, target, need_down)
    reasons = []
    if up is None:
        reasons.append(f"no upper threshold reaches a precision of {target}; it is above every irrelevant passage")
        up = min(1.0, math.nextafter(max(r for r, label in cases if not label), 2.0))
    if down is None:
        reasons.append(f"no lower threshold has {target} irrelevant below it; it is the lowest relevant passage")
        down = min(r for r, label in cases if label)
    if down > up:
        middle = best_threshold(relevances, labels)
        down = up = middle if up <= middle <= down else (down + up) / 2
    return Thresholds(lower=down, upper=up), reasons


def platt(relevances: Sequence[float], labels: Sequence[bool]) -> Scaling:
    """Return Platt's scaling of the relevances' logits, by Newton's method with his smoothed targets."""
    xs = [logit(r) for r in relevances]
    n_pos, n_neg = sum(labels), len(labels) - sum(labels)
    ts = [(n_pos + 1) / (n_pos + 2) if label else 1 / (n_neg + 2) for label in labels]
    a, b = 0.0, math.log((n_pos + 1) / (n_neg + 1))
    loss = _loss(xs, ts, a, b)
    for _ in range(ROUNDS):
        step_a, step_b = _newton(xs, ts, a, b)
        size = 1.0
        while size > EPSILON and _loss(xs, ts, a + size * step_a, b + size * step_b) > loss:
            size /= 2
        a, b = a + size * step_a, b + size * step_b
        now = _loss(xs, ts, a, b)
        if loss - now < EPSILON * max(1.0, abs(loss)):
            break
        loss = now
    return Scaling(a=a, b=b)


def logit(p: float) -> float:
    """Return log(p / (1 - p)), with p kept off 0 and 1."""
    kept = min(1 - 1e-6, max(1e-6, p))
    return math.log(kept / (1 - kept))


def _newton(xs: Sequence[float], ts: Sequence[float], a: float, b: float) -> tuple[float, float]:
    """Return the Newton step of the log loss in a and b; a touch of ridge keeps it solvable for equal xs."""
    ps = [_sigmoid(a * x + b) for x in xs]
    grad_a = math.fsum((p - t) * x for p, t, x in zip(ps, ts, xs, strict=True))
    grad_b = math.fsum(p - t for p, t in zip(ps, ts, strict=True))
    ws = [p * (1 - p) for p in ps]
    haa = math.fsum(w * x * x for w, x in zip(ws, xs, strict=True)) + 1e-9
    hab = math.fsum(w * x for w, x in zip(ws, xs, strict=True))
    hbb = math.fsum(ws) + 1e-9
    det = haa * hbb - hab * hab
    if det <= 0:
        return -grad_a, -grad_b
    return -(hbb * grad_a - hab * grad_b) / det, -(haa * grad_b - hab * grad_a) / det


def _loss(xs: Sequence[float], ts: Sequence[float], a: float, b: float) -> float:
    def one(z: float, t: float) -> float:
        return max(z, 0.0) - z * t + math.log1p(math.exp(-abs(z)))

    return math.fsum(one(a * x + b, t) for x, t in zip(xs, ts, strict=True))


def _upper(cases: Sequence[tuple[float, bool]], target: float, need: int) -> float | None:
    found, positives = None, 0
    for i in range(len(cases) - 1, -1, -1):
        positives += cases[i][1]
        count = len(cases) - i
        is_edge = i == 0 or cases[i - 1][0] < cases[i][0]
        if is_edge and count >= need and positives >= target * count:
            found = i
    return None if found is None else _between(cases, found)


def _lower(cases: Sequence[tuple[float, bool]], target: float, need: int) -> float | None:
    found, negatives = None, 0
    for i, (relevance, label) in enumerate(cases, start=1):
        negatives += not label
        is_edge = i == len(cases) or cases[i][0] > relevance
        if is_edge and i >= need and negatives >= target * i:
            found = i
    return None if found is None else _between(cases, found)


def _between(cases: Sequence[tuple[float, bool]], at: int) -> float:
    """Return a threshold with `at` cases below it: half way to the next where that is a number apart from both."""
    if at == 0:
        return 0.0
    if at == len(cases):
        return min(1.0, math.nextafter(cases[-1][0], 2.0))
    below, above = cases[at - 1][0], cases[at][0]
    middle = _clean((below + above) / 2)
    return middle if below < middle <= above else above


def _clean(value: float) -> float:
    return round(value, DIGITS)


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


def _check(relevances: Sequence[float], labels: Sequence[bool], of: str) -> None:
    if len(relevances) != len(labels):
        raise InputError(f"{len(relevances)} relevances but {len(labels)} labels")
    if not labels:
        raise InputError("there are no labelled pairs", hint="one JSON object a line: question, passage, relevant")
    if len(set(map(bool, labels))) == 1:
        kind = "relevant" if labels[0] else "irrelevant"
        raise InputError(f"all {len(labels)} labelled pairs of type {of} are {kind}", hint="label pairs of both kinds")
    if any(not 0.0 <= r <= 1.0 for r in relevances):
        raise InputError("a relevance is not within 0 and 1")


def _small(labels: Sequence[bool]) -> list[str]:
    rarer = min(sum(labels), len(labels) - sum(labels))
    found = []
    if len(labels) < FEW:
        found.append(f"only {len(labels)} labelled pairs; {FEW} or more make thresholds that last")
    if rarer < FEW_OF_ONE:
        found.append(f"only {rarer} pairs of the rarer label; {FEW_OF_ONE} or more of each are needed")
    return found
