"""Rank of a passage among those retrieved: fused score times a freshness prior. Pure.

    rank = score · (f + (1 − f)·2^(−age/H))        f = 0.5, or 0.7 when verified

Age counts from the anchor: the last evidence, or the end of a hold. The prior settles near ties; it never settles a
conflict, and no passage is dropped by it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kb.model import Instant, Trust

FLOOR = 0.5
VERIFIED_FLOOR = 0.7


def freshness(trust: Trust, now: Instant, half_life: float) -> float:
    """Return the prior in [floor, 1]: 1 until the anchor, half-way to the floor one half-life later.

    Args:
        trust: of the memory.
        now: the instant of the question.
        half_life: in milliseconds.
    """
    floor = VERIFIED_FLOOR if trust.verified else FLOOR
    age = max(0, now - trust.anchor)
    return floor + (1 - floor) * math.exp2(-age / half_life)


def best_of_each(scored: Iterable[tuple[str, float]], quota: int) -> list[tuple[str, float]]:
    """Return the `quota` best ids, each once with its best score; ties go by id."""
    best: dict[str, float] = {}
    for id_, score in scored:
        best[id_] = max(score, best.get(id_, score))
    return sorted(best.items(), key=lambda item: (-item[1], item[0]))[:quota]
