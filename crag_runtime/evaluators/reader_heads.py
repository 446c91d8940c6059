"""From hidden states to a relevance logit and the best answer span: pure arithmetic of the reader's two heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kb.ports import Vector

STARTS = 5  # best starts for which the best end is looked for
LONGEST_ANSWER = 30  # tokens


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Heads:
    """Weights of the heads, float32. `hidden` is the width of a state."""

    pooled: Vector  # (192, 2 · hidden)
    pooled_bias: Vector  # (192,)
    relevance: Vector  # (1, 192)
    relevance_bias: Vector  # (1,)
    span: Vector  # (2, hidden): start, end
    span_bias: Vector  # (2,)
    mix: Vector  # (2,): what the spans' evidence adds to relevance

    @classmethod
    def of(cls, arrays: Mapping[str, Vector]) -> Heads:
        """Return the heads among an adapter's arrays."""
        return cls(
            pooled=arrays["head.d1.w"],
            pooled_bias=arrays["head.d1.b"],
            relevance=arrays["head.d2.w"],
            relevance_bias=arrays["head.d2.b"],
            span=arrays["head.span.w"],
            span_bias=arrays["head.span.b"],
            mix=arrays["head.mix"],
        )


def relevance_logit(heads: Heads, states: Vector, spans: Vector, passage: slice) -> float:
    """Return the relevance logit of one input.

    Args:
        heads: weights.
        states: shape (tokens, hidden).
        spans: of `span_logits`.
        passage: tokens of the passage; not empty.
    """
    features = np.concatenate([states[0], states.mean(axis=0)])
    inner = np.tanh(heads.pooled @ features + heads.pooled_bias)
    topical = heads.relevance @ inner + heads.relevance_bias
    inside = spans[passage]
    top = inside.max(axis=0)
    evidence = top + np.log(np.exp(inside - top).sum(axis=0)) - spans[0]
    return float(topical[0] + evidence @ heads.mix)


def span_logits(heads: Heads, states: Vector) -> Vector:
    """Return each token's logits as start and as end of the answer, shape (tokens, 2)."""
    logits: Vector = states @ heads.span.T + heads.span_bias
    return logits


def best_span(spans: Vector, begin: int, end: int) -> tuple[int, int] | None:
    """Return the first and last token of the likeliest answer within tokens [begin, end); None when there are none."""
    if begin >= end:
        return None
    starts, ends = spans[begin:end, 0], spans[begin:end, 1]
    found: tuple[float, int, int] | None = None
    for first in np.argsort(-starts, kind="stable")[:STARTS].tolist():
        last = first + int(ends[first : first + LONGEST_ANSWER].argmax())
        value = float(starts[first] + ends[last])
        if found is None or value > found[0]:
            found = (value, first, last)
    assert found is not None
    return begin + found[1], begin + found[2]
