"""From two search arms to one ranking: pure fusion of dense and BM25 candidates."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kb.model import MemoryId
    from kb.ports import Candidate

DENSE_WEIGHT = 0.7
TEXT_WEIGHT = 0.3
RRF_K = 60


class Mode(StrEnum):
    """Which arms a search uses."""

    HYBRID = "hybrid"
    DENSE = "dense"
    TEXT = "text"


class Fusion(StrEnum):
    """How two arms become one score."""

    MINMAX = "minmax"  # 0.7 dense + 0.3 BM25, each min-max normalised over its candidates
    RRF = "rrf"  # reciprocal rank fusion, k = 60 (Cormack, Clarke, Büttcher, SIGIR 2009)


def ranked(dense: Sequence[Candidate], text: Sequence[Candidate], fusion: Fusion) -> list[tuple[MemoryId, float]]:
    """Return (id, score) best first, score in [0, 1]; a row that an arm did not find has 0 there. Ties go by id.

    With one arm empty, the other alone decides, over the whole range.
    """
    if not text:
        parts = [(1.0, scaled(dense))]
    elif not dense:
        parts = [(1.0, scaled(text))]
    elif fusion is Fusion.RRF:
        parts = [(0.5, _reciprocal(dense)), (0.5, _reciprocal(text))]
    else:
        parts = [(DENSE_WEIGHT, scaled(dense)), (TEXT_WEIGHT, scaled(text))]
    scores: dict[MemoryId, float] = {}
    for weight, arm in parts:
        for id_, score in arm.items():
            scores[id_] = scores.get(id_, 0.0) + weight * score
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def scaled(arm: Sequence[Candidate]) -> Mapping[MemoryId, float]:
    """Return min-max normalised scores; candidates that all score the same get 1."""
    if not arm:
        return {}
    low, high = min(c.score for c in arm), max(c.score for c in arm)
    if high <= low:
        return {c.id: 1.0 for c in arm}
    return {c.id: (c.score - low) / (high - low) for c in arm}


def _reciprocal(arm: Sequence[Candidate]) -> Mapping[MemoryId, float]:
    best = 1 / (RRF_K + 1)
    return {c.id: (1 / (RRF_K + rank)) / best for rank, c in enumerate(arm, 1)}
