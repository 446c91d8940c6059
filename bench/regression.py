"""Logistic regression with L2 and signs, in numpy alone: accelerated projected gradient, the same on every run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crag_runtime.evaluators.coefficients import Regression

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

L2 = 0.01  # on weights of standardised features
STEPS = 4000
DIGITS = 5


def signs_of(features: Sequence[str]) -> Floats:
    """Return what sign each weight must have: what speaks against a passage may never raise it, nor what speaks for it
    lower it; 0 leaves the sign free.
    """  # noqa: D205 - one sentence
    against = ("_missing", "_mismatch")
    return np.array([0.0 if f == "length" else -1.0 if f.endswith(against) else 1.0 for f in features])


def fitted(x: Floats, labels: NDArray[np.bool_], weights: Floats, features: Sequence[str]) -> Regression:
    """Return the regression of least weighted log loss.

    Args:
        x: features, shape (n, f).
        labels: shape (n,).
        weights: of the rows, above 0.
        features: names of the columns; they decide the signs of the weights.
    """
    share = weights / weights.sum()
    mean = share @ x
    scale = np.sqrt(share @ (x - mean) ** 2)
    scale[scale < 1e-9] = 1.0
    z = (x - mean) / scale
    signs = signs_of(features)
    step = 1.0 / (0.25 * (float(np.linalg.norm((z * share[:, None]).T @ z, 2)) + 1.0) + L2)
    beta = ahead = np.zeros(x.shape[1])
    bias = bias_ahead = 0.0
    t = 1.0
    for _ in range(STEPS):
        error = share * (1.0 / (1.0 + np.exp(-(z @ ahead + bias_ahead))) - labels)
        new = ahead - step * (z.T @ error + L2 * ahead)
        new[signs * new < 0] = 0.0
        new_bias = bias_ahead - step * float(error.sum())
        t_new = (1.0 + np.sqrt(1.0 + 4.0 * t * t)) / 2.0
        ahead, bias_ahead = new + (t - 1.0) / t_new * (new - beta), new_bias + (t - 1.0) / t_new * (new_bias - bias)
        beta, bias, t = new, new_bias, t_new
    return Regression(
        features=tuple(features),
        mean=_rounded(mean),
        scale=_rounded(scale),
        weights=_rounded(beta),
        intercept=round(float(bias), DIGITS),
    )


def balanced(labels: Sequence[NDArray[np.bool_]], shares: Sequence[float]) -> Floats:
    """Return row weights so that each set weighs its share, and both labels of a set weigh alike."""
    parts = [
        np.where(own, 0.5 / max(1, own.sum()), 0.5 / max(1, (~own).sum())) * share
        for own, share in zip(labels, shares, strict=True)
    ]
    return np.concatenate(parts)


def _rounded(values: Floats) -> tuple[float, ...]:
    return tuple(round(float(v), DIGITS) for v in values)
