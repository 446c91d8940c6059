"""How sure a share or a change of a share is: pure.

Known measures under their usual names: Wilson's bound of a share (1927), McNemar's exact test of paired answers
(1947), and the interval of Bonett and Price (2012) for the difference of two paired shares.
"""

from __future__ import annotations

from math import comb, sqrt
from statistics import NormalDist

LEVEL = 0.95
_TWO_SIDED = NormalDist().inv_cdf((1 + LEVEL) / 2)
_ONE_SIDED = NormalDist().inv_cdf(LEVEL)


def wilson_lower(hits: int, n: int) -> float:
    """Return the bound that the true share exceeds with 95 % confidence (one-sided); 0 without a hit.

    Args:
        hits: 0 to n.
        n: how many were tried.
    """
    if hits == 0:
        return 0.0
    z2 = _ONE_SIDED**2
    share = hits / n
    margin = _ONE_SIDED * sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, (share + z2 / (2 * n) - margin) / (1 + z2 / n))


def mcnemar(lost: int, won: int) -> float:
    """Return the two-sided p that pairs changed in both directions alike; 1 where none changed.

    Args:
        lost: right before, wrong now.
        won: wrong before, right now.
    """
    n, fewer = lost + won, min(lost, won)
    tail = sum(comb(n, i) for i in range(fewer + 1))
    return min(1.0, 2 * tail / (1 << n))


def paired_change(lost: int, won: int, n: int) -> tuple[float, float, float]:
    """Return the change of a share over n pairs, and its 95 % interval, which holds it; all within -1 and 1.

    Raises:
        ValueError: n is not positive.
    """
    if n < 1:
        raise ValueError("there are no pairs")
    change = (won - lost) / n
    down, up = (lost + 1) / (n + 2), (won + 1) / (n + 2)
    middle = up - down
    margin = _TWO_SIDED * sqrt((up + down - middle**2) / (n + 2))
    return change, max(-1.0, min(middle - margin, change)), min(1.0, max(middle + margin, change))
