"""No reason recommends an undo that was done: what came before it waits for a person, and is told how it comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from governance.explain import explain
from governance.queue import review_queue
from governance.review import decide
from governance.undo import undo
from kb.model import SourceClass, Standing
from kb.objects import memory_object
from kb.sweeps import SweepJob
from tests.erasing import BY
from tests.rolling import POISON, later, note, roll_back
from tests.swept import policy

if TYPE_CHECKING:
    from kb.memories import Memories
    from kb.model import Memory
    from kb.sweeps import Sweep

pytestmark = pytest.mark.usefixtures("ledger_url")  # on either database


def put_away(store: Memories, bad: Memory, how: str) -> Sweep:
    if how == "rollback":
        return roll_back(store, memories=(bad.id,))[0]
    sweep = decide(store, [bad.id], SweepJob.REJECT, policy=policy(), actor=BY, reason="forged").sweep
    assert sweep is not None
    return sweep


def told(store: Memories, memory: Memory) -> set[str]:
    """Return the ways back that are shown of a memory, wherever it is: what to undo, or to restore."""
    stored = store.get(memory.id, "default")
    queue = [item.said for item in review_queue(store, "default", store.clock.now()) if item.memory.id == memory.id]
    shown = [*explain(store, memory.id, policy(), store.clock.now()).why, *queue]
    shown.append(str(memory_object(store, stored)["standing_reason"]))
    return {part for said in shown for part in said.split("`") if part.startswith("kb ")}


@pytest.mark.parametrize("how", ["rollback", "reject"])
def test_what_waits_for_a_sweep_that_was_undone_is_told_to_be_restored(store: Memories, how: str) -> None:
    sweep = put_away(store, note(store, POISON, by=SourceClass.AGENT), how)
    later(store)
    waits = note(store, POISON)
    assert waits.standing is Standing.QUARANTINED
    advised = f"kb govern undo {sweep.id}"
    assert advised in told(store, waits)
    back = undo(store, sweep.id, "default", actor="ann", policy=policy())
    assert told(store, waits) == {"kb memory restore ID"}
    undo(store, back.id, "default", actor="ann", policy=policy())
    assert advised in told(store, waits), "the sweep stands again"
    undo(store, sweep.id, "default", actor="ann", policy=policy())
    decide(store, [waits.id], SweepJob.RESTORE, policy=policy(), actor=BY)
    assert store.get(waits.id, "default").standing is Standing.ACTIVE
