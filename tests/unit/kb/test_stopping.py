"""Why a memory in quarantine is there: what still waits, and what a person has decided about already."""

from __future__ import annotations

import pytest

from kb.model import Standing
from kb.rolled_back import DESCENDS, ROLLED_BACK, descending, said_of, why_barred
from kb.stopping import Stopped, why_quarantined
from kb.sweeps import SweepId, Tombstone, TombstoneKind
from tests.governing import a_policy, governed

SWEEP = SweepId("s1")


def stone(reason: str, *, is_erased: bool = False) -> Tombstone:
    kind = TombstoneKind.TEXT
    return Tombstone(tenant="default", kind=kind, mark="00", is_erased=is_erased, sweep_id=SWEEP, reason=reason, at=1)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", Stopped.QUARANTINED),
        ("poison", Stopped.QUARANTINED),
        ("waits for corroboration or verification", Stopped.QUARANTINED),
        ("contradicted: confidence 0.20, 2 more events against it than for it", Stopped.QUARANTINED),
        ("rejected", Stopped.REJECTED),
        ("rejected by ann", Stopped.REJECTED),
        ("rejected by ann: rolled back by everybody else", Stopped.REJECTED),
        (said_of(ROLLED_BACK, SWEEP), Stopped.ROLLED_BACK),
        (said_of(DESCENDS, SWEEP), Stopped.ROLLED_BACK),
        (descending(said_of(ROLLED_BACK, SWEEP)), Stopped.ROLLED_BACK),
        (why_barred(stone("rolled_back")), Stopped.ROLLED_BACK),
        (why_barred(stone("rejected")), Stopped.KEPT_OUT),
        (why_barred(stone("")), Stopped.KEPT_OUT),
        (why_barred(stone("", is_erased=True)), Stopped.KEPT_OUT),
    ],
)
def test_what_a_person_took_out_does_not_count_as_waiting(said: str, why: Stopped) -> None:
    memory = governed("m", policy=a_policy(), standing=Standing.QUARANTINED, standing_reason=said)
    assert why_quarantined(memory) is why
