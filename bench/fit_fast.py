"""Fits the fast evaluator's coefficients and writes them into the package.

    python -m bench.fit_fast [--pairs 600] [--out crag_runtime/evaluators/data]

Fitted on half of the articles of XQuAD and CMRC2018 and on TimeQA's training pages; which features to use is decided by
leaving out one of these families at a time, and calibration and thresholds come from the relevances of the families
that were left out. RGB, the other halves and TimeQA's test pages are not looked at. Only statistics are written.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.graded import cases
from bench.pairs import FIT, LICENCES, Pair, digest, fit_sets, half, sampled, xquad
from bench.rarity import KEPT_FROM, rarity
from bench.regression import balanced, fitted
from bench.vectors import Vectors
from crag_runtime.calibrating.calibration import accuracy, auc, band, platt
from crag_runtime.evaluators.features import cosine_of, features_of, query_of
from crag_runtime.evidence import QuestionType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from crag_runtime.evaluators.coefficients import Regression
    from crag_runtime.evaluators.features import Rarity

VERSION = "1"
SPACE = "multilingual-e5-small"
AGAINST = ("period_mismatch",)
EVERYTHING = (
    "coverage", "best_strip", "rarest", "pairs", "title_entity", "answer_type", "length",
    "number_missing", "entity_missing", "period_mismatch",
)  # fmt: skip
CANDIDATES = {
    "full": (
        ("cosine",),
        ("cosine", *AGAINST),
        ("cosine", "coverage", *AGAINST),
        ("cosine", "best_strip", *AGAINST),
        ("cosine", "best_strip", "entity_missing", *AGAINST),
        ("cosine", "best_strip", "answer_type", *AGAINST),
        ("cosine", "best_strip", "title_entity", *AGAINST),
        ("cosine", *EVERYTHING),
    ),
    "lexical": (
        ("coverage",),
        ("best_strip",),
        ("best_strip", *AGAINST),
        ("coverage", "best_strip", *AGAINST),
        ("coverage", "best_strip", "entity_missing", *AGAINST),
        EVERYTHING,
    ),
    "cosine": (("cosine",),),
    "cross": (("cosine",),),
}
CHOICE_SLACK = 0.005  # of AUC: a smaller set of features this near to the best is taken
PENALTIES = {"period_mismatch": 0.4, "entity_missing": 0.7}
TARGETS = {QuestionType.FACTUAL: 0.9, QuestionType.ANALYTICAL: 0.8, QuestionType.CREATIVE: 0.7}
MIN_BAND = 0.25  # calibration does not transfer: a band is never narrower than this


@dataclass(frozen=True, slots=True, kw_only=True)
class FitSet:
    """One set's features and labels, and the family that it is left out with."""

    name: str
    family: str
    rows: list[dict[str, float]]
    labels: NDArray[np.bool_]


def fit_set(name: str, pairs: Sequence[Pair], vectors: Vectors, words: Rarity) -> FitSet:
    """Return a set's features, computed as the evaluator computes them."""
    rows = []
    for case in cases(pairs, vectors):
        values = features_of(query_of(case.asked, words), case.evidence, words)
        rows.append({**values, "cosine": cosine_of(case.asked, case.evidence) or 0.0})
    family = name.split(maxsplit=1)[0].partition("-")[0]
    return FitSet(name=name, family=family, rows=rows, labels=np.array([p.relevant for p in pairs]))


def cross_pairs(limit: int) -> Iterator[Pair]:
    """Yield XQuAD's questions of one language with passages of the other: the right one and another of its article."""
    both = {"en": xquad("en"), "zh": xquad("zh")}
    for asked, found in (("en", "zh"), ("zh", "en")):
        pairs = []
        aligned = [(q, p) for q, p in zip(both[asked], both[found], strict=True) if half(q.title) == FIT]
        for question, reading in aligned:
            others = sorted({p.passage for _, p in aligned if p.title == reading.title} - {reading.passage})
            for passage, relevant in (
                (reading.passage, True),
                (others[digest(question.question) % len(others)], False),
            ):
                title = reading.title if found == "en" else ""
                pairs.append(Pair(question=question.question, passage=passage, relevant=relevant, title=title))
        yield from sampled(pairs, limit // 2)


def regression_of(sets: Sequence[FitSet], features: Sequence[str]) -> Regression:
    """Return a regression in which families, their sets, and both labels weigh alike."""
    members = Counter(s.family for s in sets)
    x = np.array([[row[f] for f in features] for s in sets for row in s.rows])
    weights = balanced([s.labels for s in sets], [1 / members[s.family] for s in sets])
    return fitted(x, np.concatenate([s.labels for s in sets]), weights, features)


def left_out(sets: Sequence[FitSet], features: Sequence[str]) -> dict[str, list[float]]:
    """Return each set's relevances by a regression on the other families; with one family, by a regression on it."""
    families = {s.family for s in sets}
    found: dict[str, list[float]] = {}
    for family in sorted(families):
        others = [s for s in sets if s.family != family] or list(sets)
        regression = regression_of(others, features)
        found |= {s.name: [regression.probability(row) for row in s.rows] for s in sets if s.family == family}
    return found


def mean_auc(sets: Sequence[FitSet], relevances: dict[str, list[float]]) -> float:
    """Return the mean over families of the mean AUC of their sets."""
    return _by_family(sets, {s.name: auc(relevances[s.name], s.labels.tolist()) for s in sets})


def mean_accuracy(sets: Sequence[FitSet], relevances: dict[str, list[float]]) -> float:
    """Return likewise the mean accuracy at 0.5."""
    return _by_family(sets, {s.name: accuracy(relevances[s.name], s.labels.tolist(), 0.5) for s in sets})


def _by_family(sets: Sequence[FitSet], values: dict[str, float]) -> float:
    families = sorted({s.family for s in sets})
    return fmean(fmean(values[s.name] for s in sets if s.family == family) for family in families)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How a set of features did on left-out families."""

    features: tuple[str, ...]
    auc: float
    accuracy: float


def trials_of(sets: Sequence[FitSet], candidates: Sequence[tuple[str, ...]]) -> list[Trial]:
    """Return how every candidate does on left-out families."""
    trials = []
    for features in candidates:
        relevances = left_out(sets, features)
        found = mean_auc(sets, relevances), mean_accuracy(sets, relevances)
        trials.append(Trial(features=features, auc=round(found[0], 4), accuracy=round(found[1], 4)))
    return trials


def chosen(trials: Sequence[Trial]) -> tuple[str, ...]:
    """Return the features of the best AUC, or the fewest of those about as good."""
    best = max(t.auc for t in trials)
    return min((t for t in trials if t.auc >= best - CHOICE_SLACK), key=lambda t: (len(t.features), -t.auc)).features


def calibrated_model(sets: Sequence[FitSet], features: Sequence[str]) -> tuple[Regression, list[float], list[bool]]:
    """Return the regression on all sets, scaled by what left-out families say, and their scaled relevances."""
    relevances = left_out(sets, features)
    flat = [r for s in sets for r in relevances[s.name]]
    labels = [bool(label) for s in sets for label in s.labels]
    scaling = platt(flat, labels)
    model = replace(regression_of(sets, features), a=round(scaling.a, 5), b=round(scaling.b, 5))
    rows = [row for s in sets for row in s.rows]
    return model, [_penalised(scaling(r), row) for r, row in zip(flat, rows, strict=True)], labels


def _penalised(relevance: float, row: dict[str, float]) -> float:
    for name, left in PENALTIES.items():
        relevance *= 1.0 - (1.0 - left) * row[name]
    return relevance


def frozen_middle(sets: Sequence[FitSet], model: Regression, *, is_alone: bool) -> float:
    """Return the threshold at which labels, sets and families, weighing alike, are most often on their side.

    Args:
        sets: that the model was fitted on.
        model: what is measured.
        is_alone: without the penalties.
    """
    rows = [row for s in sets for row in s.rows]
    relevances = [model.probability(row) if is_alone else _penalised(model.probability(row), row) for row in rows]
    labels = np.concatenate([s.labels for s in sets])
    members = Counter(s.family for s in sets)
    weights = balanced([s.labels for s in sets], [1 / members[s.family] for s in sets])
    values = np.array(relevances)
    grid = [n / 100 for n in range(1, 100)]
    return max(grid, key=lambda t: (float(weights[(values >= t) == labels].sum()), -abs(t - 0.5)))


def bands_from(relevances: Sequence[float], labels: Sequence[bool]) -> tuple[dict[str, Any], list[str]]:
    """Return thresholds by type: `upper` by the type's precision, `lower` by 9 of 10 irrelevant below it."""
    found, notes = {}, []
    lower = band(relevances, labels)[0].lower
    for kind, target in TARGETS.items():
        own, reasons = band(relevances, labels, target)
        upper = max(own.upper, lower + MIN_BAND)
        found[kind.value] = {"lower": round(lower, 2), "upper": round(min(upper, 0.95), 2)}
        notes += [f"{kind}: {reason}" for reason in reasons]
    return found, notes


def as_data(model: Regression) -> dict[str, Any]:
    """Return a regression as the JSON that `coefficients.py` reads."""
    return {
        "features": list(model.features),
        "mean": list(model.mean),
        "scale": list(model.scale),
        "weights": list(model.weights),
        "intercept": model.intercept,
        "calibration": {"a": model.a, "b": model.b},
    }


def fit(limit: int) -> dict[str, Any]:
    """Return the whole of fast.json."""
    vectors, words = Vectors(), rarity()
    sets = [fit_set(name, pairs, vectors, words) for name, pairs in fit_sets(limit).items()]
    cross = [fit_set("cross-lingual", list(cross_pairs(limit)), vectors, words)]
    models, trials, thresholds = {}, {}, {}
    for name, candidates in CANDIDATES.items():
        own = cross if name == "cross" else sets
        tried = trials_of(own, candidates)
        trials[name] = [asdict(t) for t in tried]
        features = chosen(tried)
        model, relevances, labels = calibrated_model(own, features)
        models[name] = as_data(model)
        thresholds[name] = frozen_middle(own, model, is_alone=name == "cosine")
        if name == "full":
            bands, notes = bands_from(relevances, labels)
    mark = digest(json.dumps([models, PENALTIES, words.unknown, sorted(words.table.items())]))
    return {
        "version": f"{VERSION}.{mark:016x}"[:10],
        "vector_space": SPACE,
        "models": models,
        "penalties": PENALTIES,
        "bands": bands,
        "fitted": {
            "how": "python -m bench.fit_fast: logistic regression, L2 0.01, signs held; families, sets and labels "
            "weigh alike; features, Platt scaling and thresholds by leaving one family out",
            "data": [
                {"name": s.name, "pairs": len(s.rows), "relevant": int(s.labels.sum()), "family": s.family}
                for s in [*sets, *cross]
            ],
            "licences": {name: LICENCES[name] for name in ("XQuAD", "CMRC2018", "TimeQA")},
            "left_out_families": trials,
            "middle": thresholds,
            "notes": notes,
        },
    }


def words_data() -> dict[str, Any]:
    """Return the whole of rarity.json."""
    words = rarity()
    return {
        "version": VERSION,
        "how": f"natural log of 1/share of passages that hold the term, rounded; below {KEPT_FROM} terms are left out",
        "from": "passages of the fit halves of XQuAD and CMRC2018 (CC BY-SA 4.0) and of TimeQA's training pages "
        "(BSD-3-Clause); for Chinese also word frequencies of jieba 0.42.1 (MIT)",
        "unknown": words.unknown,
        "terms": dict(words.table),
    }


def main() -> None:
    """Fit, write both files and print what was found."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--pairs", type=int, default=600, help="of each set")
    arguments.add_argument("--out", type=Path, default=Path("crag_runtime/evaluators/data"))
    options = arguments.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    result = fit(options.pairs)
    (options.out / "fast.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    words = json.dumps(words_data(), ensure_ascii=False, separators=(",", ":")) + "\n"
    (options.out / "rarity.json").write_text(words, encoding="utf-8")
    for name, trials in result["fitted"]["left_out_families"].items():
        for trial in trials:
            print(f"{name:8} AUC {trial['auc']:.3f}  accuracy {trial['accuracy']:.3f}  {' '.join(trial['features'])}")
    print(json.dumps({k: result[k] for k in ("models", "bands")}, indent=1))
    print(json.dumps(result["fitted"]["middle"]), result["fitted"]["notes"])


if __name__ == "__main__":
    main()
