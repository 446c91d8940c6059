"""What another writer does between two steps of governance: nothing is overwritten, undone twice, or let through."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from governance.decide import LEADS_NOWHERE
from governance.plan import plan_of_json
from governance.rollback import carried_out, surveyed
from governance.running import Run, run_to_end
from governance.selection import Selection
from governance.sweep import apply
from governance.undo import undo
from ingest.store import Store
from kb.errors import FailureCode, InputError, Refused, StalePlan, StaleRevision
from kb.index.projector import Projector
from kb.memories import Note, note_memory
from kb.model import SourceClass, Standing
from kb.notes import written
from kb.passages import embedded_as
from kb.sweeps import Action, ActionKind, Contradiction, SweepJob, SweepStatus
from kb.trust import DAY_MS
from tests.fakes.embedder import InterruptedEmbedder
from tests.governing import a_key, a_policy, all_of, fill, governed
from tests.invariants import broken
from tests.rolling import LOAD, POISON, guide, later, note, poison, roll_back, says, stored, sync, take_back
from tests.stores import T0, FakeClock, open_store, write
from tests.swept import ledger_id, ledger_rows, plan_of, policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from kb.memories import Memories
    from kb.model import Document, Memory
    from kb.sweeps import Sweep


@pytest.fixture
def embedder() -> InterruptedEmbedder:
    return InterruptedEmbedder()


@pytest.fixture
def store(ledger_url: str | None, tmp_path: Path, embedder: InterruptedEmbedder) -> Iterator[Memories]:
    """A store on either database, its index in process."""
    with open_store(tmp_path / "kb", embedder=embedder, ledger_url=ledger_url) as memories:
        yield memories


def only_document(store: Memories) -> Document:
    with store.ledger.read() as tx:
        (document,) = tx.documents.of_root("default", "docs", include_deleted=True)
    return document


def test_a_sync_never_writes_what_it_had_read_over_a_document_that_was_rolled_back(
    store: Memories, folder: Path
) -> None:
    poison(store, folder)
    read = only_document(store)
    roll_back(store, document=read.id)
    before = ledger_rows(store)
    ours = Store(store, "default", "docs", "run")
    ours.touch(replace(read, mtime_ns=read.mtime_ns + 1, updated_at=store.clock.now()))
    with pytest.raises(StaleRevision, match="meanwhile"):
        ours.rename(replace(read, source=f"{read.source}.old"), store.clock.now())
    with pytest.raises(StaleRevision, match="meanwhile"):
        ours.remove(read, store.clock.now())
    assert ledger_rows(store) == before


def test_a_version_that_was_made_from_one_that_is_rolled_back_meanwhile_waits_for_the_next_sync(
    store: Memories, folder: Path, embedder: InterruptedEmbedder
) -> None:
    batch = poison(store, folder)
    later(store)
    write(folder, guide_md=guide(load=POISON, more="The ferry below leaves at noon every single day."))
    embedder.then = lambda: roll_back(store, batch=batch)
    report = sync(store, folder)
    assert [f.code for f in report.failures] == [FailureCode.STORE_FAILED.value]
    assert only_document(store).version == 1
    assert len(says(store, LOAD)) == 1
    later(store)
    sync(store, folder)
    assert not says(store, POISON)
    active = [m for m in stored(store, "") if m.standing is Standing.ACTIVE]
    assert {m.id for m in active} <= set(only_document(store).memory_ids), "nothing lives that its document left"


def pinned_by(store: Memories, of: Sequence[Memory]) -> list[Action]:
    return [Action(memory_id=m.id, kind=ActionKind.PIN, reason="pinned", rev=m.rev) for m in of]


def test_who_was_thought_dead_neither_applies_nor_finishes_a_sweep_that_was_undone(store: Memories) -> None:
    of = [note(store, f"The Anping bridge has {n} lamps.") for n in range(5)]
    rules, left = policy(batch=2), iter([False, True])
    cut = apply(store, plan_of(pinned_by(store, of)), policy=rules, actor="x", is_stopped=lambda: next(left))
    assert cut.status is SweepStatus.RUNNING
    undoing = undo(store, cut.id, "default", actor="ann", policy=rules)
    found = run_to_end(Run(memories=store, policy=rules), cut)
    assert (found.status, found.undone_by) == (SweepStatus.UNDONE, undoing.id)
    with store.ledger.read() as tx:
        assert tx.sweeps.get(cut.id) == found
    assert not any(m.pinned for m in all_of(store, "default").values())


def test_a_key_that_leads_on_by_now_is_not_retired(store: Memories) -> None:
    rules = a_policy()
    cited = governed("cited", policy=rules, age=1.0)
    lost = governed("lost", policy=rules, age=1.0, standing=Standing.RETIRED)
    (key, steps), (idle, others) = a_key("key", [cited], policy=rules), a_key("idle", [lost], policy=rules)
    fill(store, [cited, lost, key, idle], [*steps, *others])
    actions = [Action(memory_id=k.id, kind=ActionKind.RETIRE, reason=LEADS_NOWHERE, rev=k.rev) for k in (key, idle)]
    sweep = apply(store, replace(plan_of(actions), policy=rules.hash), policy=rules, actor="x")
    with store.ledger.read() as tx:
        assert [j.skipped for j in tx.sweeps.journal(sweep.id)] == ["leads_on", ""]


def test_gc_asks_again_whether_the_restore_window_has_ended(store: Memories) -> None:
    rules = a_policy(restore=30.0)
    old, new = (governed(n, policy=rules, age=a, standing=Standing.RETIRED) for n, a in (("old", 31), ("new", 29)))
    fill(store, [old, new])
    reason = "restore_window_ended"
    actions = [Action(memory_id=m.id, kind=ActionKind.ERASE, reason=reason, rev=m.rev) for m in (old, new)]
    apply(store, plan_of(actions, job=SweepJob.GC, policy=rules.hash), policy=rules, actor="x")
    assert set(all_of(store, "default")) == {new.id}
    assert isinstance(store.clock, FakeClock)
    store.clock.advance(DAY_MS)
    apply(store, plan_of(actions[1:], job=SweepJob.GC, policy=rules.hash), policy=rules, actor="x")
    assert all_of(store, "default") == {}


@pytest.mark.parametrize(
    ("job", "kind", "reason", "why"),
    [
        (SweepJob.DECAY, ActionKind.VERIFY, "verified", "decay holds: verify"),
        (SweepJob.DECAY, ActionKind.RETIRE, "faded", "decay holds: retire"),
        (SweepJob.PROMOTE, ActionKind.RESTORE, "restored", "promote holds: restore"),
        (SweepJob.GC, ActionKind.ERASE, "erased", "gc holds: erased"),
        (SweepJob.ERASE, ActionKind.ERASE, "erased", "erase holds: erase"),
        (SweepJob.ROLLBACK, ActionKind.QUARANTINE, "rolled_back", "rollback holds: quarantine"),
    ],
)
def test_a_plan_in_a_file_does_nothing_that_its_job_never_does(
    job: SweepJob, kind: ActionKind, reason: str, why: str
) -> None:
    plan = plan_of([Action(memory_id="m", kind=kind, reason=reason, rev=1)], job=job)
    with pytest.raises(InputError, match=why):
        plan_of_json(plan.as_json())


def test_how_many_live_is_counted_and_not_believed_of_a_plan_in_a_file(store: Memories) -> None:
    rules = a_policy(mass_count=1, mass_share=0.5)
    of = [governed(f"n{n}", policy=rules, age=100.0, confidence=0.1) for n in range(3)]
    fill(store, of)
    actions = [Action(memory_id=m.id, kind=ActionKind.RETIRE, reason="faded", rev=m.rev) for m in of]
    plan = plan_of(actions, job=SweepJob.PRUNE, policy=rules.hash, ledger=ledger_id(store), live=10**6)
    with pytest.raises(Refused, match="3 of 3"):
        apply(store, plan, policy=rules, actor="x", is_exact=True)


def test_a_contradiction_that_a_rollback_ended_is_open_again_when_its_side_is_restored(store: Memories) -> None:
    good = note(store, "The Anping bridge carries forty tons on a dry day.")
    bad = note(store, "The Anping bridge carries ninety tons on a dry day.")
    one, other = sorted((good, bad), key=lambda m: m.id)
    with store.ledger.write() as tx:
        tx.contradictions.add(
            [Contradiction(tenant="default", one=one.id, other=other.id, kind="quantity", found_at=T0)]
        )
        tx.memories.replace([replace(m, contested=True, rev=m.rev + 1) for m in (good, bad)])
    roll_back(store, memories=(bad.id,))
    rolled = store.get(bad.id, "default")
    restoring = Action(memory_id=bad.id, kind=ActionKind.RESTORE, reason="restored", rev=rolled.rev)
    apply(store, plan_of([restoring], job=SweepJob.RESTORE), policy=policy(), actor="ann")
    sides = [(store.get(a.id, "default"), b.id) for a, b in ((one, other), (other, one))]
    contests = [
        Action(
            memory_id=m.id,
            kind=ActionKind.CONTEST,
            reason="contradiction",
            rev=m.rev,
            detail={"other": b, "kind": "quantity"},
        )
        for m, b in sides
    ]
    apply(store, plan_of(contests), policy=policy(), actor="daemon")
    assert all(store.get(m.id, "default").contested for m in (good, bad))
    with store.ledger.read() as tx:
        assert len(tx.contradictions.open("default")) == 1


def test_a_note_that_is_being_written_from_what_is_rolled_back_meanwhile_never_speaks(store: Memories) -> None:
    bad = note(store, "The Anping bridge carries ninety tons on a dry day.")
    meant = Note(text="Lorries of ninety tons may pass the bridge.", tenant="default", by=SourceClass.PERSON)
    made = note_memory(meant, store.policies, T0)
    store.embed({made.embed_hash: embedded_as(made)})
    rolling = threading.Thread(target=lambda: roll_back(store, memories=(bad.id,)))
    with store.ledger.write() as tx:
        written(tx, made, [bad.id], T0)
        rolling.start()
        rolling.join(1.0)  # it waits for this note, or it would pass it by
    rolling.join(60)
    assert not rolling.is_alive()
    assert store.get(bad.id, "default").standing is Standing.QUARANTINED
    assert store.get(made.id, "default").standing is Standing.QUARANTINED


class InterruptedProjector(Projector):
    """Something happens before rows are written ahead of their switch."""

    then: Callable[[], object] | None = None

    def project_staged(self, memories: Sequence[Memory]) -> bool:
        then, self.then = self.then, None
        if then is not None:
            then()
        return super().project_staged(memories)


def test_a_passage_that_a_sync_has_staged_is_revived_with_its_document(store: Memories, folder: Path) -> None:
    batch = poison(store, folder)
    later(store)
    write(folder, guide_md=guide())
    projector = InterruptedProjector(store.ledger, store.generations, store.clock)
    done: list[Sweep] = []
    store.projector, projector.then = projector, lambda: done.extend(roll_back(store, batch=batch))
    assert [f.code for f in sync(store, folder).failures] == [FailureCode.STORE_FAILED.value]
    assert (len(says(store, LOAD)), says(store, POISON), broken(store)) == (1, [], [])
    take_back(store, *done)
    assert (says(store, LOAD), len(says(store, POISON)), broken(store)) == ([], 1, [])
    later(store)
    assert not sync(store, folder).failures
    assert (len(says(store, LOAD)), says(store, POISON), broken(store)) == (1, [], [])


def test_a_passage_that_was_changed_before_it_is_revived_comes_back_with_its_document(
    store: Memories, folder: Path
) -> None:
    batch = poison(store, folder)
    (good,) = stored(store, LOAD)
    wanted = Selection(batch=batch)
    radius = surveyed(store, wanted, policy(), store.clock.now())
    with store.ledger.write() as tx:
        tx.memories.replace([replace(good, rev=good.rev + 1, metadata={"seen": True})])
    carried_out(store, wanted, radius, policy=policy(), actor="ann")
    assert (len(says(store, LOAD)), says(store, POISON), broken(store)) == (1, [], [])


def test_what_a_newer_version_has_dropped_is_not_revived_without_its_document(store: Memories, folder: Path) -> None:
    batch = poison(store, folder)
    wanted = Selection(batch=batch)
    radius = surveyed(store, wanted, policy(), store.clock.now())
    later(store)
    write(folder, guide_md="# Guide\n\nThe Anping bridge is closed to lorries until the spring after next.\n")
    assert not sync(store, folder).failures
    carried_out(store, wanted, radius, policy=policy(), actor="ann")
    assert (says(store, LOAD), says(store, POISON), broken(store)) == ([], [], [])


def test_an_undo_leaves_passages_with_a_document_that_somebody_changed_meanwhile(store: Memories, folder: Path) -> None:
    (done,) = roll_back(store, batch=poison(store, folder))

    def changed() -> bool:
        read = only_document(store)
        with store.ledger.write() as tx:
            tx.documents.put(replace(read, fingerprint=replace(read.fingerprint, metadata="other")))
        return False

    undo(store, done.id, "default", actor="ann", policy=policy(), is_stopped=changed)
    assert (len(says(store, LOAD)), says(store, POISON), broken(store)) == (1, [], [])
    with pytest.raises(StalePlan):
        undo(store, done.id, "default", actor="ann", policy=policy())
