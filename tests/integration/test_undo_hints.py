"""A refused undo names what is really in the way, and nothing else; missing consent says how much is at stake."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from governance.explain import told_in_order
from governance.sweep import apply
from governance.undo import undo
from kb.errors import MassRetire, StalePlan
from kb.history import EvidenceEvent, EvidenceKind
from kb.model import MemoryId, SourceClass
from kb.sweeps import Action, ActionKind, Journaled, SweepId, SweepJob
from tests.disputing import keep, now_of, said
from tests.swept import plan_of, policy

if TYPE_CHECKING:
    from typing import Any

    from kb.memories import Memories
    from kb.sweeps import Sweep

NOTE = said("n", "The Harbour Bridge carries a load of 40 tons on dry days.", by=SourceClass.PERSON)


@pytest.fixture
def held(store: Memories) -> Memories:
    keep(store, NOTE)
    return store


def swept(store: Memories, kind: ActionKind, **detail: Any) -> Sweep:
    """Do one thing to the note, a moment later."""
    store.clock.advance(1000)  # type: ignore[attr-defined] # a clock of the tests
    rev = now_of(store, NOTE)[0].rev
    job = {ActionKind.SHOW: SweepJob.DECAY, ActionKind.RETIRE: SweepJob.PRUNE}.get(kind, SweepJob.PIN)
    action = Action(memory_id=NOTE.id, kind=kind, reason="test", rev=rev, detail=detail)
    return apply(store, plan_of([action], job=job), policy=policy(), actor="x")


def changed(store: Memories) -> None:
    """Let something that is no sweep change the note."""
    (before,) = now_of(store, NOTE)
    with store.ledger.write() as tx:
        trust = replace(before.trust, anchor=before.trust.anchor + 5)
        tx.memories.replace([replace(before, trust=trust, rev=before.rev + 1)])


def refusal(store: Memories, sweep: Sweep) -> StalePlan:
    with pytest.raises(StalePlan) as refused:
        undo(store, sweep.id, "default", actor="x", policy=policy())
    return refused.value


def test_a_sweep_that_changed_the_row_is_named_and_the_decay_after_it_is_not(held: Memories) -> None:
    pinned = swept(held, ActionKind.PIN)
    shown = [swept(held, ActionKind.SHOW, confidence=c) for c in (0.7, 0.6)]
    retired = swept(held, ActionKind.QUARANTINE, said="x")
    shown.append(swept(held, ActionKind.SHOW, confidence=0.5))
    hint = refusal(held, pinned).hint
    assert hint == f"later sweeps changed them too; undo those first: {retired.id}"
    assert not any(s.id in hint for s in shown)


def test_decay_that_came_after_decay_is_in_its_way(held: Memories) -> None:
    first, second = (swept(held, ActionKind.SHOW, confidence=c) for c in (0.7, 0.6))
    assert refusal(held, first).hint.endswith(f"undo those first: {second.id}")


def test_what_no_sweep_changed_is_said_and_no_decay_is_blamed(held: Memories) -> None:
    pinned = swept(held, ActionKind.PIN)
    shown = swept(held, ActionKind.SHOW, confidence=0.6)
    changed(held)
    hint = refusal(held, pinned).hint
    assert "by no sweep" in hint
    assert shown.id not in hint
    assert "undo those first" not in hint


def test_both_are_said_where_both_came(held: Memories) -> None:
    pinned = swept(held, ActionKind.PIN)
    unpinned = swept(held, ActionKind.UNPIN)
    changed(held)
    hint = refusal(held, pinned).hint
    assert f"undo those first: {unpinned.id}; " in hint
    assert "by no sweep" in hint


def test_what_was_done_and_undone_since_is_in_nobody_s_way(held: Memories) -> None:
    pinned = swept(held, ActionKind.PIN)
    retired = swept(held, ActionKind.QUARANTINE, said="x")
    undone = undo(held, retired.id, "default", actor="x", policy=policy())
    changed(held)
    hint = refusal(held, pinned).hint
    assert retired.id not in hint
    assert undone.id not in hint


def test_missing_consent_tells_how_much_would_be_retired(held: Memories) -> None:
    rev = now_of(held, NOTE)[0].rev
    action = Action(memory_id=NOTE.id, kind=ActionKind.RETIRE, reason="faded", rev=rev)
    plan = replace(plan_of([action], job=SweepJob.PRUNE, live=1), left=2)
    with pytest.raises(MassRetire) as refused:
        apply(held, plan, policy=policy(mass_count=0, mass_share=0.1), actor="x")
    assert (refused.value.retired, refused.value.live, refused.value.exit_code) == (3, 1, 5)


def test_decisions_of_one_instant_are_told_in_the_order_they_were_taken() -> None:
    """A memory was rejected, verified and rejected again, all in one instant."""
    kinds = (EvidenceKind.REJECTION, EvidenceKind.VERIFICATION, EvidenceKind.REJECTION)
    sweeps = ("c", "b", "a")
    decisions = [
        Journaled(
            sweep_id=SweepId(id_),
            seq=0,
            action=Action(memory_id="m", kind=ActionKind.VERIFY, reason="r", rev=n),
            applied_at=1,
        )
        for n, id_ in enumerate(sweeps)
    ]
    events = [
        EvidenceEvent(
            memory_id=MemoryId("m"), tenant="t", kind=kind, weight=0.0, witness=f"ann · {id_}", at=1
        )
        for kind, id_ in zip(kinds, sweeps, strict=True)
    ]  # fmt: skip
    by_key = sorted(events, key=lambda e: (e.kind, e.witness))
    assert by_key != events
    assert told_in_order(by_key, decisions) == events
