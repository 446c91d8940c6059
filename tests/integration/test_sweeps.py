"""Stories of sweeps on both databases: what is refused, what is skipped, what waits, and what is undone."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from governance.sweep import apply, mass_refusal, resume
from governance.undo import undo
from kb.errors import InputError, Locked, Refused, StalePlan, StaleRevision, UnknownSweep
from kb.history import EvidenceEvent, EvidenceKind
from kb.model import MemoryId, Standing
from kb.sweeps import Action, ActionKind, SweepId, SweepJob, SweepStatus, TombstoneKind
from kb.trust import after_evidence
from tests.stores import InProcessServer, open_store
from tests.swept import a_plan, index_rows, is_in_step, ledger_id, ledger_rows, plan_of, policy, stocked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.memories import Memories
    from kb.model import Memory

T = "default"


@pytest.fixture
def server() -> InProcessServer:
    return InProcessServer()


@pytest.fixture
def store(ledger_url: str | None, tmp_path: Path, server: InProcessServer) -> Iterator[Memories]:
    """A store on either database, its index in process."""
    with open_store(tmp_path / "kb", server=server, ledger_url=ledger_url) as memories:
        yield memories


def pins(of: list[Memory]) -> list[Action]:
    return [Action(memory_id=m.id, kind=ActionKind.PIN, reason="pinned", rev=m.rev) for m in of]


def unpinned(store: Memories, count: int, **changes: object) -> list[Memory]:
    """Return that many active memories that nobody has pinned or vouched for."""
    made = stocked(store, count=count)
    plain = [
        replace(
            m,
            pinned=False,
            contested=False,
            standing=Standing.ACTIVE,
            trust=replace(m.trust, verified=False, verified_at=None),
            rev=m.rev + 1,
        )
        for m in made
    ]
    with store.ledger.write() as tx:
        tx.memories.replace([replace(m, **changes) for m in plain])
        tx.outbox.mark([m.id for m in plain], 0)
    store.projector.drain()
    return [replace(m, **changes) for m in plain]


def get(store: Memories, id_: str) -> Memory:
    with store.ledger.read() as tx:
        return tx.memories.get([MemoryId(id_)])[MemoryId(id_)]


def told(store: Memories, memory: Memory) -> None:
    """Write evidence on a memory, as an answer's write-back does."""
    event = EvidenceEvent(
        memory_id=memory.id, tenant=T, kind=EvidenceKind.AGREEMENT, weight=1.0, witness="docs", at=store.clock.now()
    )
    with store.ledger.write() as tx:
        now = tx.memories.get([memory.id])[memory.id]
        assert tx.evidence.add([event])
        trust = after_evidence(now.trust, [1.0], store.clock.now(), 1e9)
        tx.memories.replace([replace(now, trust=trust, rev=now.rev + 1)])
        tx.outbox.mark([now.id], 0)


def story(store: Memories, sweep_id: SweepId) -> list[str]:
    with store.ledger.read() as tx:
        return [j.skipped for j in tx.sweeps.journal(sweep_id)]


def test_an_exact_plan_is_applied_whole_or_refused_naming_what_moved(store, server):
    of = unpinned(store, 6)
    plan = plan_of(pins(of), ledger=ledger_id(store))
    told(store, of[1])
    told(store, of[4])
    store.projector.drain()
    before = ledger_rows(store), index_rows(server)
    with pytest.raises(StalePlan) as refusal:
        apply(store, plan, policy=policy(), actor="cli", is_exact=True)
    assert refusal.value.moved == (of[1].id, of[4].id)
    assert of[1].id in str(refusal.value)
    for other, why in ((replace(plan, policy="else"), "policy"), (replace(plan, ledger="else"), "another ledger")):
        with pytest.raises(StalePlan, match=why):
            apply(store, other, policy=policy(), actor="cli", is_exact=True)
    assert (ledger_rows(store), index_rows(server)) == before
    with store.ledger.read() as tx:
        assert tx.sweeps.list(9) == []
    fresh = plan_of(pins([get(store, m.id) for m in of]), ledger=ledger_id(store))
    assert apply(store, fresh, policy=policy(), actor="cli", is_exact=True).counts == {"pin": 6}


def test_a_plan_that_is_not_exact_skips_what_moved_and_does_the_rest(store):
    of = unpinned(store, 5)
    told(store, of[2])
    sweep = apply(store, plan_of(pins(of)), policy=policy(), actor="daemon", reason="nightly")
    assert story(store, sweep.id) == ["", "", "moved", "", ""]
    assert sweep.counts == {"pin": 4, "skipped": 1}
    with store.ledger.read() as tx:
        assert tx.sweeps.get(sweep.id) == sweep
    assert (sweep.actor, sweep.reason, sweep.status) == ("daemon", "nightly", SweepStatus.DONE)


def test_evidence_between_two_batches_is_not_lost(store):
    of = unpinned(store, 6)
    batches: list[int] = []

    def advance(done: int) -> None:
        batches.append(done)
        if len(batches) == 2:
            told(store, of[5])

    sweep = apply(store, plan_of(pins(of)), policy=policy(batch=2), actor="x", advance=advance)
    assert story(store, sweep.id) == ["", "", "", "", "", "moved"]
    assert sum(batches) == 6
    last = get(store, of[5].id)
    assert (last.pinned, last.rev) == (False, of[5].rev + 1)
    with store.ledger.read() as tx:
        assert len(tx.evidence.of_memory(last.id)) == 1


def test_writers_beside_a_sweep_lose_nothing_and_are_never_overwritten(store):
    of = unpinned(store, 40)
    began = threading.Event()

    def write() -> None:
        began.wait(30)
        for memory in of[::-1]:
            while True:  # as a write-back does: read again what somebody has changed meanwhile
                try:
                    told(store, memory)
                    break
                except StaleRevision:
                    continue

    writer = threading.Thread(target=write)
    writer.start()
    sweep = apply(store, plan_of(pins(of)), policy=policy(batch=3), actor="x", advance=lambda _: began.set())
    writer.join(60)
    assert not writer.is_alive()
    store.projector.drain()
    assert is_in_step(store)
    for memory, skipped in zip(of, story(store, sweep.id), strict=True):
        now = get(store, memory.id)
        assert now.rev == memory.rev + 1 + (not skipped)
        assert now.pinned is not bool(skipped)
        with store.ledger.read() as tx:
            assert len(tx.evidence.of_memory(memory.id)) == 1


def test_an_index_that_is_away_delays_what_can_be_found_not_what_is_decided(store, server):
    of = unpinned(store, 9)
    server.is_away = True
    actions = [
        Action(memory_id=m.id, kind=ActionKind.QUARANTINE, reason="rejected", rev=m.rev, detail={"said": "wrong"})
        for m in of
    ]
    sweep = apply(store, plan_of(actions), policy=policy(batch=2), actor="x")
    assert (sweep.status, sweep.counts) == (SweepStatus.DONE, {"quarantine": 9})
    assert {get(store, m.id).standing for m in of} == {Standing.QUARANTINED}
    undo(store, sweep.id, T, actor="x", policy=policy())
    assert {get(store, m.id).standing for m in of} == {Standing.ACTIVE}
    server.is_away = False
    store.projector.drain()
    assert is_in_step(store)


def test_many_are_retired_only_with_consent(store):
    of = unpinned(store, 20, doc_id=None)
    actions = [Action(memory_id=m.id, kind=ActionKind.RETIRE, reason="faded", rev=m.rev) for m in of[:3]]
    plan, rules = plan_of(actions, job=SweepJob.PRUNE, live=0), policy(mass_count=2, mass_share=0.1)
    with pytest.raises(Refused, match="3 of 20") as refusal:
        apply(store, plan, policy=rules, actor="x")
    assert "--allow-mass" in refusal.value.hint
    assert get(store, of[0].id).standing is Standing.ACTIVE
    assert apply(store, plan, policy=rules, actor="x", allow_mass=True).counts == {"retire": 3}


def test_what_a_cap_puts_off_counts_for_consent():
    of = [Action(memory_id=f"m{n}", kind=ActionKind.RETIRE, reason="faded", rev=1) for n in range(50)]
    plan, rules = plan_of(of, job=SweepJob.PRUNE), policy(mass_count=10, mass_share=0.1)
    assert mass_refusal(plan, rules, 500) == ""
    assert mass_refusal(plan, rules, 499)
    assert mass_refusal(replace(plan, left=1), rules, 500)
    assert mass_refusal(replace(plan, actions=plan.actions[:10]), rules, 1) == ""
    assert mass_refusal(replace(plan, job=SweepJob.DECAY, left=10**6), rules, 500) == ""


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"pinned": True}, "pinned"),
        ({"contested": True}, "contested"),
        ({"standing": Standing.SUPERSEDED}, "superseded"),
        ({"standing": Standing.RETIRED}, "already"),
        ({}, "last"),
    ],
)
def test_the_guards_of_pruning_are_asked_again(store, changes, why):
    of = unpinned(store, 2, **changes)
    action = Action(memory_id=of[1].id, kind=ActionKind.RETIRE, reason="faded", rev=of[1].rev)
    sweep = apply(store, plan_of([action]), policy=policy(), actor="x")
    assert story(store, sweep.id) == [why]
    assert get(store, of[1].id) == of[1]


def test_a_verified_memory_is_not_pruned_whatever_a_plan_says(store):
    of = unpinned(store, 4)
    verified = replace(of[1], trust=replace(of[1].trust, verified=True, verified_at=1), rev=of[1].rev + 1)
    with store.ledger.write() as tx:
        tx.memories.replace([verified])
    action = Action(memory_id=verified.id, kind=ActionKind.RETIRE, reason="faded", rev=verified.rev)
    assert story(store, apply(store, plan_of([action]), policy=policy(), actor="x").id) == ["verified"]


def test_a_plan_of_another_tenant_or_of_unknown_actions_is_refused(store):
    of = unpinned(store, 2)
    with pytest.raises(InputError, match="tenant"):
        apply(store, plan_of(pins(of)), policy=policy("other"), actor="x")
    with pytest.raises(InputError, match="undo"):
        apply(store, plan_of(pins(of), job=SweepJob.UNDO), policy=policy(), actor="x")
    with pytest.raises(InputError, match="tenant"):
        resume(store, "other", policy())
    foreign = plan_of(pins(of), tenant="other")
    assert story(store, apply(store, foreign, policy=policy("other"), actor="x").id) == ["gone", "gone"]
    assert not get(store, of[0].id).pinned


def test_two_sweeps_hold_down_one_text_until_both_are_undone(store):
    of = unpinned(store, 2, text="One and the same text.")
    sweeps = []
    for memory in of:
        action = Action(
            memory_id=memory.id,
            kind=ActionKind.QUARANTINE,
            reason="contradicted",
            rev=memory.rev,
            detail={"tombstone": True},
        )
        sweeps.append(apply(store, plan_of([action]), policy=policy(), actor="x").id)

    def is_buried() -> bool:
        with store.ledger.read() as tx:
            return bool(tx.tombstones.among(T, TombstoneKind.TEXT, ["one AND the same text."]))

    assert is_buried()
    with pytest.raises(StalePlan) as refusal:
        undo(store, sweeps[0], T, actor="x", policy=policy())
    assert sweeps[1] in refusal.value.hint
    undo(store, sweeps[1], T, actor="x", policy=policy())
    assert is_buried()
    undo(store, sweeps[0], T, actor="x", policy=policy())
    assert not is_buried()


def test_what_was_erased_cannot_be_undone(store):
    of = unpinned(store, 3)
    sweep = apply(store, plan_of(pins(of)), policy=policy(), actor="x")
    with store.ledger.write() as tx:
        erased = replace(sweep, id=SweepId("erased"), job=SweepJob.GC)
        tx.sweeps.begin(erased, [Action(memory_id="m", kind=ActionKind.ERASE, reason="restore_window_ended", rev=1)])
        tx.sweeps.applied(erased.id, [(0, "", [])], 1)
    with pytest.raises(Refused, match="erased 1 memories: that cannot be undone"):
        undo(store, SweepId("erased"), T, actor="x", policy=policy())
    with store.ledger.write() as tx:
        tx.memories.remove([of[2].id])
    with pytest.raises(StalePlan) as refusal:
        undo(store, sweep.id, T, actor="x", policy=policy())
    assert refusal.value.moved == (of[2].id,)
    assert get(store, of[0].id).pinned


def test_a_sweep_is_undone_once_and_by_its_own_tenant(store):
    sweep = apply(store, plan_of(pins(unpinned(store, 3))), policy=policy(), actor="x")
    for id_, tenant in ((sweep.id, "other"), (SweepId("nobody"), T)):
        with pytest.raises(UnknownSweep):
            undo(store, id_, tenant, actor="x", policy=policy(tenant))
    undoing = undo(store, sweep.id, T, actor="ann", policy=policy(), reason="a mistake")
    assert (undoing.undoes, undoing.job, undoing.actor) == (sweep.id, SweepJob.UNDO, "ann")
    with pytest.raises(Refused, match="undone before") as refusal:
        undo(store, sweep.id, T, actor="x", policy=policy())
    assert undoing.id in refusal.value.hint


def test_an_undo_that_was_interrupted_goes_on_with_the_next_run(store):
    of = unpinned(store, 6)
    sweep = apply(store, plan_of(pins(of)), policy=policy(), actor="x")
    left = iter([False, True])
    rules = policy(batch=2)
    stopped = undo(store, sweep.id, T, actor="x", policy=rules, is_stopped=lambda: next(left))
    assert stopped.status is SweepStatus.RUNNING
    assert [get(store, m.id).pinned for m in of] == [True] * 4 + [False] * 2
    finished = undo(store, sweep.id, T, actor="x", policy=rules)
    assert (finished.id, finished.status) == (stopped.id, SweepStatus.DONE)
    assert not any(get(store, m.id).pinned for m in of)
    with store.ledger.read() as tx:
        known = tx.sweeps.get(sweep.id)
    assert known is not None
    assert (known.status, known.undone_by) == (SweepStatus.UNDONE, finished.id)


def test_a_new_sweep_first_finishes_the_one_that_was_interrupted(store):
    of = unpinned(store, 6)
    left = iter([False, True])
    stopped = apply(store, plan_of(pins(of)), policy=policy(batch=2), actor="x", is_stopped=lambda: next(left))
    assert (stopped.status, stopped.counts) == (SweepStatus.RUNNING, {"pin": 2})
    apply(store, plan_of([]), policy=policy(), actor="x")
    assert all(get(store, m.id).pinned for m in of)
    assert resume(store, T, policy()) == []


def test_a_row_that_stands_as_before_already_is_in_nobodys_way(store):
    of = unpinned(store, 4)
    sweep = apply(store, plan_of(pins(of)), policy=policy(), actor="x")
    back = get(store, of[0].id)
    unpin = Action(memory_id=back.id, kind=ActionKind.UNPIN, reason="unpinned", rev=back.rev)
    apply(store, plan_of([unpin]), policy=policy(), actor="ann")
    undoing = undo(store, sweep.id, T, actor="x", policy=policy())
    assert undoing.counts == {"pin": 3, "skipped": 1}
    assert not any(get(store, m.id).pinned for m in of)


def test_two_sweeps_of_one_tenant_never_run_at_once(store):
    of, seen, began = unpinned(store, 4), [], threading.Event()

    def advance(_: int) -> None:
        began.set()
        with pytest.raises(Locked, match="govern:default"), store.ledger.lock("govern:default"):
            pass
        seen.append([get(store, m.id).pinned for m in of[:2]])

    def unpin() -> None:
        began.wait(30)
        now = [get(store, m.id) for m in of[:2]]
        actions = [Action(memory_id=m.id, kind=ActionKind.UNPIN, reason="unpinned", rev=m.rev) for m in now]
        apply(store, plan_of(actions), policy=policy(), actor="y")

    beside = threading.Thread(target=unpin)
    beside.start()
    apply(store, plan_of(pins(of)), policy=policy(batch=2), actor="x", advance=advance)
    beside.join(60)
    assert not beside.is_alive()
    assert all(pinned == [True, True] for pinned in seen)
    assert [get(store, m.id).pinned for m in of] == [False, False, True, True]


def test_a_sweep_and_its_undo_on_the_real_index(tmp_path, milvus):
    with open_store(tmp_path / "data", server=milvus) as store:
        made = stocked(store, count=120, seed=4)
        assert is_in_step(store)
        with store.ledger.read() as tx:
            current = store.generations.current(tx)
        assert current is not None
        index = store.generations.index(current, 0)

        def rows() -> dict[str, object]:
            found = index._query('id != ""', ["*"], 1_000)  # type: ignore[attr-defined]
            return {row["id"]: {k: v for k, v in row.items() if k != "rev"} for row in found}

        before = ledger_rows(store), rows()
        sweep = apply(store, a_plan(made, seed=4), policy=policy(batch=25), actor="x")
        assert is_in_step(store)
        assert rows() != before[1]
        undo(store, sweep.id, T, actor="x", policy=policy(batch=25))
        assert is_in_step(store)
        assert ledger_rows(store) == before[0]
        assert {id_: str(row) for id_, row in rows().items()} == {id_: str(row) for id_, row in before[1].items()}
        milvus.drop(current.name)
