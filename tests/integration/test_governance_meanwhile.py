"""What happens between two looks of an erasure, a contradiction, an undo or a write-back: nothing is left behind."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest

from governance.erase import surveyed
from governance.planning import planned
from governance.reach import Wanted
from governance.selection import Selection
from governance.sweep import apply
from governance.undo import undo
from kb.errors import InputError, LedgerUnavailable, Refused, StaleRevision, UnknownMemory
from kb.history import EvidenceEvent, EvidenceKind
from kb.ledger.engine import target_of
from kb.ledger.faults import fault_of
from kb.ledger.upkeep import Vector as Cached
from kb.memories import Memories, Note
from kb.model import MemoryId, SourceClass, Standing
from kb.settings import Settings
from kb.sweeps import Action, ActionKind, Sweep, SweepId, SweepJob, SweepStatus
from kb.trust import DAY_MS
from tests.fakes.embedder import InterruptedEmbedder
from tests.forgetting import forget
from tests.governing import a_policy, fill, governed
from tests.invariants import broken
from tests.rolling import FILLER, guide, later, note, roll_back, says, stored, sync
from tests.stores import FakeClock, InProcessServer, open_store, write
from tests.swept import plan_of, policy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from governance.reach import Reach
    from jobs.erasure import Erased
    from kb.model import Memory
    from kb.ports import Index

pytestmark = pytest.mark.usefixtures("ledger_url")  # on either database

FORTY, NINETY, TWENTY = (f"The Anping bridge carries {n} tons on a dry day." for n in ("forty", "ninety", "twenty"))


def forgotten(
    store: Memories, folder: Path, *named: str, then: Callable[[], object] | None = None, **wanted: bool
) -> Erased:
    """Erase memories; something happens after a person has consented, before anything is done."""

    def consent(_: Reach) -> None:
        if then is not None:
            then()

    return forget(store, folder.parent, *named, consent=consent, **wanted)


def changed(store: Memories, memory: Memory, **changes: object) -> None:
    """Let somebody else change a memory."""
    with store.ledger.write() as tx:
        now = tx.memories.get([memory.id])[memory.id]
        tx.memories.replace([replace(now, rev=now.rev + 1, **changes)])  # type: ignore[arg-type] # as a test says
        tx.outbox.mark([memory.id], 0)


def test_what_changes_before_it_is_erased_goes_all_the_same(store: Memories, folder: Path) -> None:
    one, other = note(store, FORTY), note(store, NINETY)
    done = forgotten(store, folder, one.id, other.id, then=lambda: changed(store, other, pinned=True))
    assert done.is_complete
    assert stored(store, "") == []
    assert sum(s.counts.get("erase", 0) for s in done.sweeps) >= 2
    assert broken(store) == []


def test_what_is_left_of_a_cut_erasure_goes_with_the_next_command(store: Memories, folder: Path) -> None:
    one, other = note(store, FORTY), note(store, NINETY)
    assert forgotten(store, folder, one.id).is_complete
    assert forgotten(store, folder, one.id, other.id).is_complete
    assert stored(store, "") == []
    assert forgotten(store, folder, one.id, other.id).reach is None, "all of it was erased before"
    with pytest.raises(UnknownMemory):
        forgotten(store, folder, one.id, "never-there")


def retired_with_traces(store: Memories) -> Memory:
    """Return a note that was retired long ago, rejected, and taken up in another note."""
    memory = note(store, NINETY)
    note(store, "Lorries of ninety tons may pass.", memory.id)
    changed(store, memory, standing=Standing.RETIRED)
    with store.ledger.write() as tx:
        tx.evidence.add(
            [EvidenceEvent(memory_id=memory.id, tenant="default", kind=EvidenceKind.REJECTION, weight=0, witness="ada")]
        )
    later(store, 31)
    return memory


def collect(store: Memories) -> None:
    plan = planned(store, SweepJob.GC, policy(), store.clock.now())
    assert apply(store, plan, policy=policy(), actor="daemon").counts == {"erase": 1}


def traces(store: Memories, id_: MemoryId) -> dict[str, int]:
    with store.ledger.read() as tx:
        return {name: n for name, n in tx.erasing.counts([id_]).items() if n}


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_what_gc_has_left_of_a_memory_can_be_forgotten_too(store: Memories, folder: Path, when: str) -> None:
    memory = retired_with_traces(store)
    if when == "before":
        collect(store)
        assert traces(store, memory.id)
    done = forgotten(store, folder, memory.id, then=None if when == "before" else lambda: collect(store))
    assert (done.is_complete, traces(store, memory.id)) == (True, {})
    with store.ledger.read() as tx:
        assert tx.erasure.erased_among([memory.id]) == {memory.id}
        assert all(tx.sweeps.of_memory(memory.id) == [] for _ in range(1)), "the journal does not know its id"
    assert broken(store) == []


def test_a_copy_that_is_said_while_it_is_erased_goes_with_the_others(store: Memories, folder: Path) -> None:
    secret = note(store, NINETY)
    agents = Note(text=NINETY, tenant="default", by=SourceClass.AGENT)
    done = forgotten(store, folder, secret.id, then=lambda: store.add_note(agents), with_copies=True)
    assert done.is_complete
    assert stored(store, "ninety") == []


def test_a_copy_that_is_said_while_it_is_erased_is_told_of(store: Memories, folder: Path) -> None:
    secret = note(store, NINETY)
    agents = Note(text=NINETY, tenant="default", by=SourceClass.AGENT)
    done = forgotten(store, folder, secret.id, then=lambda: store.add_note(agents))
    assert done.reach is not None
    assert [c.id for c in done.reach.copies] == [m.id for m in stored(store, "ninety")]


def test_what_comes_back_under_an_erased_id_keeps_its_row_in_the_index(store: Memories, folder: Path) -> None:
    memory = retired_with_traces(store)
    collect(store)
    with store.ledger.write() as tx:  # an erasure that had not come to the index yet
        tx.erasure.begin(SweepId("e1"), "default")
        tx.sweeps.begin(Sweep(id=SweepId("e1"), tenant="default", job=SweepJob.ERASE), [_erasing(memory)])
        tx.sweeps.applied(SweepId("e1"), [(0, "gone", [])], at=store.clock.now())
        tx.sweeps.finish(SweepId("e1"), SweepStatus.DONE, store.clock.now(), counts={"skipped": 1})
    assert note(store, NINETY).id == memory.id, "nobody has barred its words"
    other = note(store, FORTY)
    assert forgotten(store, folder, other.id).is_complete
    assert says(store, "ninety tons on") == [memory.source]


def _erasing(memory: Memory) -> Action:
    return Action(memory_id=memory.id, kind=ActionKind.ERASE, reason="erased", rev=memory.rev)


def test_what_is_silenced_in_the_journal_does_not_look_applied(store: Memories) -> None:
    memory = note(store, NINETY)
    moved = Action(memory_id=memory.id, kind=ActionKind.PIN, reason="pinned", rev=memory.rev + 7, detail={"w": NINETY})
    sweep = apply(store, plan_of([moved]), policy=policy(), actor="x")
    with store.ledger.write() as tx:
        assert tx.erasing.silence("actions", [sweep.id, 0])
        (journaled,) = tx.sweeps.journal(sweep.id)
    assert (journaled.skipped, dict(journaled.action.detail)) == ("silenced", {})


def contest(one: Memory, other: Memory) -> list[Action]:
    pairs = ((one, other.id), (other, one.id))
    detail = {"kind": "quantity"}
    return [
        Action(
            memory_id=m.id, kind=ActionKind.CONTEST, reason="contradiction", rev=m.rev, detail={**detail, "other": o}
        )
        for m, o in pairs
    ]


def test_both_sides_are_contested_though_one_has_changed_meanwhile(store: Memories) -> None:
    one, other = sorted((note(store, FORTY), note(store, NINETY)), key=lambda m: m.id)
    changed(store, other, pinned=True)
    apply(store, plan_of(contest(one, other)), policy=policy(), actor="daemon")
    assert all(store.get(m.id, "default").contested for m in (one, other))
    assert broken(store) == []


def test_who_is_contested_twice_stays_so_when_one_of_them_is_undone(store: Memories) -> None:
    a, b, c = (note(store, text) for text in (FORTY, NINETY, TWENTY))
    first = apply(store, plan_of(contest(a, b)), policy=policy(), actor="daemon")
    b = store.get(b.id, "default")
    apply(store, plan_of(contest(b, c)), policy=policy(), actor="daemon")
    undo(store, first.id, "default", actor="ann", policy=policy())
    assert [store.get(m.id, "default").contested for m in (a, b, c)] == [False, True, True]
    assert broken(store) == []


class Server(InProcessServer):
    """Does something once, when rows are next written."""

    then: Callable[[], object] | None = None

    def open(self, name: str, dim: int) -> Index:
        then, self.then = self.then, None
        if then is not None:
            then()
        return super().open(name, dim)


def test_a_version_that_may_not_be_switched_in_leaves_nothing_staged(
    ledger_url: str | None, folder: Path, tmp_path: Path
) -> None:
    server = Server()
    with open_store(tmp_path / "kb", ledger_url=ledger_url, server=server) as store:
        write(folder, guide_md=guide())
        sync(store, folder)
        later(store)
        write(folder, guide_md=guide(load=NINETY))
        bad = note(store, f"{NINETY} {FILLER}")
        store.generations.forget(next(iter(server.collections)))
        server.then = lambda: roll_back(store, memories=(bad.id,))
        report = sync(store, folder)
        assert [f.code for f in report.failures] == ["store_failed"]
        assert not [m for m in stored(store, "") if m.standing is Standing.STAGED]
        assert len(says(store, "forty tons")) == 1
        assert broken(store) == []


def test_what_waits_in_quarantine_is_not_stored_at_all_when_it_is_erased_meanwhile(
    ledger_url: str | None, folder: Path, tmp_path: Path
) -> None:
    embedder = InterruptedEmbedder()
    with open_store(tmp_path / "kb", ledger_url=ledger_url, embedder=embedder) as store:
        write(folder, guide_md=guide())
        sync(store, folder)
        later(store)
        bad = note(store, f"{NINETY} {FILLER}")
        roll_back(store, memories=(bad.id,))
        write(folder, guide_md=guide(load=NINETY, more="It is lit by night."))
        embedder.then = lambda: forgotten(store, folder, bad.id)
        assert [f.code for f in sync(store, folder).failures] == ["store_failed"]
        assert stored(store, NINETY) == []
        sync(store, folder)
        assert stored(store, NINETY) == []
        assert broken(store) == []


def test_a_note_is_not_written_from_what_may_never_be_there(store: Memories) -> None:
    staged = governed("staged", policy=a_policy(), standing=Standing.STAGED)
    fill(store, [staged])
    with pytest.raises(InputError, match="there is no memory"):
        note(store, "It says so in the draft of the guide.", staged.id)


def test_a_note_of_erased_words_is_written_before_the_erasure_or_never(store: Memories, folder: Path) -> None:
    secret, entered, may_go = note(store, NINETY), threading.Event(), threading.Event()

    def write_slowly() -> None:
        with store.ledger.write() as tx:
            tx.tombstones.hold("default")
            entered.set()
            may_go.wait(60)

    holding = threading.Thread(target=write_slowly)
    erasing = threading.Thread(target=lambda: forgotten(store, folder, secret.id))
    holding.start()
    assert entered.wait(60)
    erasing.start()
    erasing.join(1.0)
    assert erasing.is_alive(), "it waits for who has looked tombstones up"
    may_go.set()
    holding.join(60)
    erasing.join(60)
    assert stored(store, "") == []
    with pytest.raises(Refused, match="erased"):
        note(store, NINETY)


def test_who_lost_to_another_writer_reads_again_and_repeats(tmp_path: Path) -> None:
    place = target_of("postgresql://user@host/kb", tmp_path).place
    for undone in (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
        fault = fault_of(undone("detail"), place)
        assert isinstance(fault, StaleRevision)
        assert "another writer was faster" in str(fault)
    assert isinstance(fault_of(psycopg.errors.LockNotAvailable("detail"), place), LedgerUnavailable)


class Robbed(Memories):
    """Loses a vector once, after it was made and before its note is written."""

    lost = ""

    def _add_note(self, memory: Memory, parents: Sequence[str], now: int, *, has_vector: bool) -> Memory:
        if not self.lost:
            self.lost = memory.id
            with self.ledger.write() as tx:
                tx.upkeep.drop_vectors([Cached(self.embedder.identity.model, memory.embed_hash)])
        return super()._add_note(memory, parents, now, has_vector=has_vector)


def test_words_whose_vector_is_erased_while_they_are_written_get_another(store: Memories, tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "kb")
    robbed = Robbed(
        ledger=store.ledger,
        generations=store.generations,
        embedder=store.embedder,
        settings=settings,
        clock=store.clock,
    )
    told = note(robbed, NINETY)
    assert robbed.lost == told.id
    assert says(store, "ninety") == [told.source]
    assert broken(store) == []


def test_a_survey_names_what_gc_took(store: Memories) -> None:
    memory = retired_with_traces(store)
    collect(store)
    wanted = Wanted(selection=Selection(memories=(memory.id,)))
    reach = surveyed(store, wanted, policy(), store.clock.now())
    assert (list(reach.collected), reach.members, reach.as_json()["collected"]) == ([memory.id], {}, [memory.id])
    with pytest.raises(UnknownMemory):
        surveyed(store, wanted, policy("guest"), store.clock.now())
    assert isinstance(store.clock, FakeClock)
    store.clock.advance(DAY_MS)


def test_a_vector_that_a_note_is_about_to_need_is_not_dropped(store: Memories) -> None:
    told = note(store, NINETY)
    with store.ledger.write() as tx:
        tx.memories.remove([told.id])
    named, entered = [Cached(store.embedder.identity.model, told.embed_hash)], threading.Event()
    dropped: list[int] = []

    def write_slowly() -> None:
        with store.ledger.write() as tx:
            assert tx.embeddings.missing(named[0].model, [told.embed_hash], is_holding=True) == []
            entered.set()
            is_tried.wait(60)
            dropping.join(0.5)
            tx.memories.add([told])

    def drop() -> None:
        is_tried.set()
        with store.ledger.write() as tx:
            dropped.append(tx.upkeep.drop_unneeded(named))

    is_tried = threading.Event()
    writing, dropping = threading.Thread(target=write_slowly), threading.Thread(target=drop)
    writing.start()
    assert entered.wait(60)
    dropping.start()
    writing.join(60)
    dropping.join(60)
    assert dropped == [0]
    with store.ledger.read() as tx:
        assert tx.embeddings.missing(named[0].model, [told.embed_hash]) == []
