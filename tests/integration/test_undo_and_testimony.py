"""Who has gone speaks no more: no undo and no old plan brings back what it had said, or had contested."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from governance.corroborate import plan_promote
from governance.review import decide
from governance.sweep import apply
from governance.undo import undo
from kb.errors import Refused
from kb.memories import Note
from kb.model import SourceClass, Standing
from kb.sweeps import SweepJob
from tests.disputing import FIFTY, FORTY, events_of, keep, now_of, open_contradictions, promote, recheck, said
from tests.erasing import BY
from tests.forgetting import forget
from tests.integration.test_withdrawal import FORGED, HONEST, WAITS
from tests.invariants import broken
from tests.rolling import later, note, roll_back, take_back
from tests.swept import policy

if TYPE_CHECKING:
    from pathlib import Path

    from kb.memories import Memories
    from kb.model import Memory
    from kb.sweeps import Sweep

pytestmark = pytest.mark.usefixtures("ledger_url")  # on either database


NINETY = "The Anping bridge carries ninety tons on a dry day."


def put_away(store: Memories, memory: Memory, how: str) -> Sweep:
    """Roll a memory back or reject it; return the sweep that did."""
    if how == "rollback":
        (sweep,) = roll_back(store, memories=(memory.id,))
        return sweep
    done = decide(store, [memory.id], SweepJob.REJECT, policy=policy(), actor=BY, reason="forged").sweep
    assert done is not None
    return done


def let_go(store: Memories, tmp_path: Path, memory: Memory, how: str) -> None:
    """Let a memory go in one of three ways."""
    if how == "erase":
        forget(store, tmp_path, memory)
    else:
        put_away(store, memory, how)


def assert_unheard(store: Memories) -> None:
    """Nothing of what the forged page said counts, and its hearer waits as if it had never spoken."""
    assert [e for e in events_of(store, WAITS) if e[2] == "a"] == []
    assert now_of(store, WAITS)[0].standing is Standing.QUARANTINED


@pytest.mark.parametrize("how", ["rollback", "reject", "erase"])
def test_a_promotion_that_was_undone_does_not_come_back_once_its_witness_has_gone(
    store: Memories, tmp_path: Path, how: str
) -> None:
    keep(store, WAITS, FORGED, HONEST)
    sweep = promote(store)
    assert now_of(store, WAITS)[0].standing is Standing.ACTIVE
    later(store)
    back = undo(store, sweep.id, "default", actor="ann", policy=policy())
    assert now_of(store, WAITS)[0].standing is Standing.QUARANTINED
    later(store)
    let_go(store, tmp_path, FORGED, how)
    later(store)
    with suppress(Refused):  # all of it, or the words that are gone only: the law leaves either open
        undo(store, back.id, "default", actor="ann", policy=policy())
    assert_unheard(store)


def test_an_undone_rollback_does_not_bring_back_what_its_erased_witness_had_said(
    store: Memories, tmp_path: Path
) -> None:
    keep(store, WAITS, FORGED, HONEST)
    promote(store)
    later(store)
    rolled_back = put_away(store, FORGED, "rollback")
    later(store)
    forget(store, tmp_path, FORGED)
    later(store)
    with suppress(Refused):  # as above
        undo(store, rolled_back.id, "default", actor="ann", policy=policy())
    assert_unheard(store)


@pytest.mark.parametrize("how", ["rollback", "reject", "erase"])
def test_a_plan_that_was_made_before_its_witness_went_lets_that_one_speak_no_more(
    store: Memories, tmp_path: Path, how: str
) -> None:
    keep(store, WAITS, FORGED, HONEST)
    plan = plan_promote(store, policy(), store.clock.now())
    let_go(store, tmp_path, FORGED, how)
    later(store, 0.01)  # the plan is not too old to be applied
    with suppress(Refused):  # as above
        apply(store, plan, policy=policy(), actor="daemon")
    assert_unheard(store)


@pytest.mark.parametrize("how", ["rollback", "reject"])
def test_who_comes_back_is_contested_no_more_if_its_rival_was_erased_meanwhile(
    store: Memories, tmp_path: Path, how: str
) -> None:
    one, two = said("one", FORTY), said("two", FIFTY)
    keep(store, one, two)
    recheck(store)
    assert open_contradictions(store)
    later(store)
    sweep = put_away(store, one, how)
    later(store)
    forget(store, tmp_path, two)
    later(store)
    take_back(store, sweep)
    (now,) = now_of(store, one)
    assert not now.contested
    assert [b for b in broken(store) if "contested" in b] == []


def test_what_was_said_while_a_rollback_was_undone_stays_and_nothing_that_comes_after(store: Memories) -> None:
    (bad, _) = store.add_note(Note(text=NINETY, tenant="default", by=SourceClass.AGENT))
    (sweep,) = roll_back(store, memories=(bad.id,))
    back = undo(store, sweep.id, "default", actor="ann", policy=policy())
    later(store)
    witness = note(store, NINETY)
    later(store)
    take_back(store, back)
    assert store.get(bad.id, "default").standing is Standing.QUARANTINED
    assert store.get(witness.id, "default").standing is Standing.ACTIVE
    later(store)
    assert note(store, f"{NINETY} So it says.").standing is Standing.QUARANTINED
    assert broken(store) == []
