"""The review queue as people read it: its headline and its list agree."""

from __future__ import annotations

import pytest

from governance.queue import ReviewItem, Waits
from kb_cli import review
from tests.governing import a_policy, governed

POLICY = a_policy()
ONE, OTHER, THIRD = (governed(name, policy=POLICY) for name in ("one", "other", "third"))
PAIRS = ((ONE, OTHER), (OTHER, ONE), (ONE, THIRD), (THIRD, ONE))


def contested() -> list[ReviewItem]:
    """Return what waits when one memory contradicts two others."""
    return [
        ReviewItem(memory=m, why=Waits.CONTESTED, since=1, said="differs", other_id=other.id, kind="number", value="4")
        for m, other in PAIRS
    ]


@pytest.mark.parametrize(("listed", "number"), [(4, 2), (3, 2), (2, 1), (1, 1)])
def test_the_headline_counts_what_stands_below_it(listed: int, number: int) -> None:
    due = ReviewItem(memory=THIRD, why=Waits.DUE, since=1, said="its verification has run out")
    head, *rest = review._lines("default", [*contested()[:listed], due], is_more=False)
    assert head == f"tenant default: {number} contested, 1 due"
    assert sum(line.startswith("contested since") for line in rest) == number
    assert sum(line.startswith("due since") for line in rest) == 1
