"""The fast evaluator's coefficients: logistic regressions as data, read from `data/fast.json` and `data/rarity.json`.

Pure but for the one read. What is fitted, on what, and how well it does elsewhere stands in the file itself, which
`bench/fit_fast.py` writes.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_runtime.evaluators.features import Rarity
from crag_runtime.evidence import QuestionType
from crag_runtime.verdict import Thresholds
from kb.errors import EvaluatorUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crag_runtime.policy import Bands

DATA = Path(__file__).parent / "data"
REINSTALL = "the installation is damaged; install kb again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """A calibrated logistic regression: p = sigmoid(a · (intercept + Σ w·(x - mean)/scale) + b).

    Args:
        features: names, in the order of the numbers.
        mean: of each.
        scale: of each, above 0.
        weights: of each; that of a feature which speaks against a passage is never above 0.
        intercept: of the sum.
        a: of the calibration, above 0.
        b: of the calibration.
    """

    features: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    intercept: float
    a: float = 1.0
    b: float = 0.0

    def probability(self, values: Mapping[str, float]) -> float:
        """Return the relevance of a passage with these features, in [0, 1]."""
        parts = zip(self.features, self.mean, self.scale, self.weights, strict=True)
        raw = self.intercept + sum(w * (values[name] - mean) / scale for name, mean, scale, w in parts)
        return sigmoid(self.a * raw + self.b)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """All that the fast evaluator knows.

    Args:
        version: changes whenever a grade could.
        vector_space: model of the the vectors that the coefficients were fitted on.
        full: cosine and words.
        cross: cosine alone, fitted across languages: for a question in another script than the passage.
        cosine: cosine alone: what the others are measured against.
        lexical: words alone: for a passage without a vector.
        penalties: by feature that speaks against a passage: what is left of the relevance when the feature is 1.
        bands: thresholds by type of question.
        rarity: of words.
    """

    version: str
    vector_space: str
    full: Regression
    cross: Regression
    cosine: Regression
    lexical: Regression
    penalties: Mapping[str, float]
    bands: Bands
    rarity: Rarity

    def relevance(self, values: Mapping[str, float], regression: Regression) -> float:
        """Return the relevance by one of the regressions, less what speaks against the passage."""
        probability = regression.probability(values)
        for name, left in self.penalties.items():
            probability *= 1.0 - (1.0 - left) * values[name]
        return probability


@cache
def coefficients() -> Coefficients:
    """Return the shipped coefficients, read once.

    Raises:
        EvaluatorUnavailable: a file is missing or damaged.
    """
    try:
        fast = json.loads((DATA / "fast.json").read_text(encoding="utf-8"))
        words = json.loads((DATA / "rarity.json").read_text(encoding="utf-8"))
        return restored(fast, words)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EvaluatorUnavailable(
            f"the fast evaluator's coefficients cannot be read: {error}", hint=REINSTALL
        ) from error


def restored(fast: Mapping[str, Any], words: Mapping[str, Any]) -> Coefficients:
    """Return coefficients from their two files' JSON.

    Raises:
        KeyError, TypeError, ValueError: the JSON is of another shape.
    """
    return Coefficients(
        version=str(fast["version"]),
        vector_space=str(fast["vector_space"]),
        full=_regression(fast["models"]["full"]),
        cross=_regression(fast["models"]["cross"]),
        cosine=_regression(fast["models"]["cosine"]),
        lexical=_regression(fast["models"]["lexical"]),
        penalties={str(k): float(v) for k, v in fast["penalties"].items()},
        bands={QuestionType(k): Thresholds(lower=v["lower"], upper=v["upper"]) for k, v in fast["bands"].items()},
        rarity=Rarity(table=words["terms"], unknown=float(words["unknown"])),
    )


def sigmoid(x: float) -> float:
    """Return 1 / (1 + e^-x) without overflow."""
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    return math.exp(x) / (1.0 + math.exp(x))


def _regression(data: Mapping[str, Any]) -> Regression:
    made = Regression(
        features=tuple(data["features"]),
        mean=tuple(map(float, data["mean"])),
        scale=tuple(map(float, data["scale"])),
        weights=tuple(map(float, data["weights"])),
        intercept=float(data["intercept"]),
        a=float(data["calibration"]["a"]),
        b=float(data["calibration"]["b"]),
    )
    if not len(made.features) == len(made.mean) == len(made.scale) == len(made.weights):
        raise ValueError("a regression's lists differ in length")
    return made
