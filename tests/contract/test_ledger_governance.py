"""Sweeps with their journal, tombstones, contradictions and slots, on both databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kb.errors import InputError, IntegrityError
from kb.history import EvidenceKind
from kb.ledger.slots import DaemonBeat, Slot, SlotStatus
from kb.model import DocumentId, MemoryId, Standing
from kb.sweeps import (
    Action,
    ActionKind,
    Contradiction,
    Image,
    ImageKind,
    Journaled,
    Sweep,
    SweepId,
    SweepJob,
    SweepStatus,
    TombstoneKind,
)
from tests.history_samples import an_event
from tests.ledger_samples import NOW, a_document, a_fingerprint, a_memory

if TYPE_CHECKING:
    from kb.ledger import Ledger

S1, S2 = SweepId("s1"), SweepId("s2")


def a_sweep(id_: str = "s1", **changes: Any) -> Sweep:
    sweep = Sweep(
        id=SweepId(id_),
        tenant="acme",
        job=SweepJob.PRUNE,
        actor="cli",
        reason="tidy 整理",
        policy="p",
        plan="h",
        at=NOW,
    )
    return replace(sweep, started_at=NOW, **changes)


def actions(count: int = 3) -> list[Action]:
    detail = {"effective": 0.125, "was": "active", "n": [1, None, True]}
    return [
        Action(memory_id=f"m{n:05d}", kind=ActionKind.RETIRE, reason="faded", rev=n, detail=detail)
        for n in range(count)
    ]


def an_image(n: int = 0, **changes: Any) -> Image:
    image = Image(kind=ImageKind.MEMORY, key=f"m{n:05d}", before={"rev": 1, "birth": -(2**63)}, after={"rev": 2})
    return replace(image, **changes)


def test_a_sweep_and_its_plan_are_journalled_before_anything_is_done(ledger: Ledger) -> None:
    with ledger.write() as tx:
        assert tx.sweeps.begin(a_sweep(), actions(2_300)) == 2_300
    with ledger.read() as tx:
        assert tx.sweeps.get(S1) == a_sweep()
        waiting = tx.sweeps.waiting(S1, 5_000)
        assert waiting == [Journaled(sweep_id=S1, seq=n, action=a) for n, a in enumerate(actions(2_300))]
        assert tx.sweeps.journal(S1, after=9, limit=2) == waiting[10:12]
        assert tx.sweeps.get(S2) is None


def test_an_action_is_applied_once(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.sweeps.begin(a_sweep(), actions())
        tx.sweeps.applied(S1, [(0, "", [an_image(0), an_image(9, before=None)]), (1, "moved", [])], NOW + 5)
    with pytest.raises(IntegrityError, match="before"), ledger.write() as tx:
        tx.sweeps.applied(S1, [(2, "", [an_image(2)]), (1, "", [])], NOW + 6)
    with ledger.read() as tx:
        assert [j.seq for j in tx.sweeps.waiting(S1, 9)] == [2]
        assert [(j.applied_at, j.skipped) for j in tx.sweeps.journal(S1)] == [
            (NOW + 5, ""),
            (NOW + 5, "moved"),
            (None, ""),
        ]
        assert tx.sweeps.images(S1, [0, 1, 2]) == {0: [an_image(0), an_image(9, before=None)]}
        assert tx.sweeps.tally(S1) == [(ActionKind.RETIRE, "", 1), (ActionKind.RETIRE, "moved", 1)]
        assert list(tx.sweeps.changed_rows("m00009")) == [(S1, 0)]


def test_images_of_one_row_come_in_the_order_of_its_changes(ledger: Ledger) -> None:
    first, second = an_image(0), an_image(0, before={"rev": 2}, after=None)
    with ledger.write() as tx:
        tx.sweeps.begin(a_sweep(), actions())
        tx.sweeps.begin(a_sweep("s2"), actions())
        tx.sweeps.applied(S1, [(2, "", [second])], NOW)
        tx.sweeps.applied(S1, [(0, "", [an_image(1), first])], NOW)
        tx.sweeps.applied(S2, [(0, "", [first])], NOW)
        assert tx.sweeps.images_of_row(S1, ImageKind.MEMORY, "m00000") == [first, second]
        assert tx.sweeps.images_of_row(S1, ImageKind.DOCUMENT, "m00000") == []


def test_what_waits_can_be_dropped(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.sweeps.begin(a_sweep(), actions())
        tx.sweeps.applied(S1, [(0, "", [])], NOW)
        assert tx.sweeps.cancel(S1, NOW + 1, "undone") == 2
        assert tx.sweeps.waiting(S1, 9) == []
        assert [j.skipped for j in tx.sweeps.journal(S1)] == ["", "undone", "undone"]


def test_a_sweep_ends_is_undone_and_stands_again(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.sweeps.begin(a_sweep(), [])
        tx.sweeps.finish(S1, SweepStatus.DONE, NOW + 7, counts={"retire": 2})
        done = a_sweep(status=SweepStatus.DONE, finished_at=NOW + 7, counts={"retire": 2})
        assert tx.sweeps.get(S1) == done
        tx.sweeps.mark_undone(S1, S2)
        assert tx.sweeps.get(S1) == replace(done, status=SweepStatus.UNDONE, undone_by=S2)
        tx.sweeps.mark_undone(S1, None)
        assert tx.sweeps.get(S1) == done
    for nobody in (lambda t: t.finish(S2, SweepStatus.DONE, NOW), lambda t: t.mark_undone(S2, None)):
        with pytest.raises(IntegrityError, match="no sweep"), ledger.write() as tx:
            nobody(tx.sweeps)


def test_sweeps_are_listed_the_latest_first(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.sweeps.begin(a_sweep("a"), [])
        tx.sweeps.begin(replace(a_sweep("b", job=SweepJob.DECAY), started_at=NOW + 1), [])
        tx.sweeps.begin(a_sweep("c", tenant="other"), [])
        tx.sweeps.finish(SweepId("a"), SweepStatus.DONE, NOW)
        listed = tx.sweeps.list
        assert [s.id for s in listed(9)] == ["b", "c", "a"]
        assert [s.id for s in listed(1)] == ["b"]
        assert [s.id for s in listed(9, tenant="acme", status=SweepStatus.RUNNING)] == ["b"]
        assert [s.id for s in listed(9, job=SweepJob.PRUNE, tenant="acme")] == ["a"]


def test_a_memorys_story_is_told_in_order_what_waits_last(ledger: Ledger) -> None:
    with ledger.write() as tx:
        for name, at in (("a", NOW + 9), ("b", None), ("c", NOW + 3)):
            tx.sweeps.begin(a_sweep(name), actions(1))
            if at is not None:
                tx.sweeps.applied(SweepId(name), [(0, "", [])], at)
        assert [j.sweep_id for j in tx.sweeps.of_memory(MemoryId("m00000"))] == ["c", "a", "b"]


@pytest.mark.parametrize("field", ["actor", "reason", "tenant"])
def test_a_sweep_that_one_database_would_bend_is_refused_by_both(ledger: Ledger, field: str) -> None:
    with pytest.raises(InputError), ledger.write() as tx:
        tx.sweeps.begin(a_sweep(**{field: "a\0b"}), [])
    with ledger.write() as tx:
        tx.sweeps.begin(a_sweep(), [])
    with pytest.raises(IntegrityError), ledger.write() as tx:
        tx.sweeps.begin(a_sweep(), [])


def bury(ledger: Ledger, *texts: str, sweep: SweepId = S1, is_erased: bool = False) -> int:
    with ledger.write() as tx:
        left = tx.tombstones.add(
            "acme", TombstoneKind.TEXT, texts, sweep_id=sweep, is_erased=is_erased, reason="rolled_back", at=NOW
        )
    return len(left)


def test_a_tombstone_is_found_by_its_text_without_regard_to_case_width_and_white_space(ledger: Ledger) -> None:
    with ledger.read() as tx:
        assert tx.tombstones.among("acme", TombstoneKind.TEXT, ["The toll"]) == {}  # no salt, no tombstone
    assert bury(ledger, "The toll is ４ coins.", "other") == 2
    with ledger.read() as tx:
        same = ["the  TOLL is 4\ncoins.", "The toll is 5 coins.", "THE TOLL is 4 coins."]
        assert set(tx.tombstones.among("acme", TombstoneKind.TEXT, same)) == {same[0], same[2]}
        assert tx.tombstones.among("acme", TombstoneKind.DOCUMENT, same) == {}
        assert tx.tombstones.among("other", TombstoneKind.TEXT, same) == {}


def test_a_tombstone_holds_nothing_of_the_text_and_two_ledgers_mark_it_differently(ledger: Ledger) -> None:
    bury(ledger, "word")
    with ledger.read() as tx:
        (left,) = tx.tombstones.of_sweep(S1)
        assert "word" not in repr(left)
        assert len(left.mark) == 64
        assert tx.tombstones.marked("acme", TombstoneKind.TEXT, left.mark) == left
        assert tx.tombstones.marked("acme", TombstoneKind.TEXT, "0" * 64) is None


def test_a_tombstone_passes_to_the_latest_sweep_and_what_was_erased_stays_erased(ledger: Ledger) -> None:
    assert bury(ledger, "a", "b") == 2
    assert bury(ledger, "a") == 0
    assert bury(ledger, "a", sweep=S2) == 1
    assert bury(ledger, "a", sweep=S2, is_erased=True) == 1
    assert bury(ledger, "a", sweep=S1) == 0
    with ledger.read() as tx:
        found = tx.tombstones.among("acme", TombstoneKind.TEXT, ["a", "b"])
    assert {text: (t.sweep_id, t.is_erased) for text, t in found.items()} == {"a": (S2, True), "b": (S1, False)}


def test_a_tombstone_is_taken_away_and_put_back_as_it_was(ledger: Ledger) -> None:
    bury(ledger, "a", "b")
    with ledger.write() as tx:
        before = tx.tombstones.of_sweep(S1)
        assert tx.tombstones.remove(before) == 2
        assert tx.tombstones.remove(before) == 0
        tx.tombstones.put(before[:1])
        tx.tombstones.put([replace(t, sweep_id=S2) for t in before])
        tx.tombstones.put(before)
        assert tx.tombstones.of_sweep(S1) == before


def a_contradiction(one: str = "m1", other: str = "m2", **changes: Any) -> Contradiction:
    values = Contradiction(tenant="acme", one=one, other=other, kind="number", one_value="4 枚", other_value="5 枚")
    return replace(values, found_at=NOW, **changes)


def test_a_contradiction_is_noticed_once_and_settled_once(ledger: Ledger) -> None:
    first, second = a_contradiction(), a_contradiction("m2", "m3")
    with ledger.write() as tx:
        assert tx.contradictions.add([second, first, replace(first, one_value="else")]) == [second, first]
        assert tx.contradictions.add([replace(first, found_at=NOW + 1)]) == []
        assert tx.contradictions.open("acme") == [first, second]
        assert tx.contradictions.open("other") == []
        assert tx.contradictions.settle([first], by="ann", at=NOW + 2) == 1
        settled = replace(first, settled_at=NOW + 2, settled_by="ann")
        assert tx.contradictions.of_memories(["m1", "m2"]) == [settled, second]
        assert tx.contradictions.of_memories(["m2"], is_open=True) == [second]
        assert tx.contradictions.of_memories(["m2"], is_open=False) == [settled]
        assert tx.contradictions.settle([first], by="", at=None) == 1
        assert tx.contradictions.open("acme", 1) == [first]


def test_contradictions_are_forgotten_one_by_one_or_with_a_memory(ledger: Ledger) -> None:
    of_date = a_contradiction(kind="date")
    with ledger.write() as tx:
        tx.contradictions.add([a_contradiction(), of_date, a_contradiction("m2", "m3"), a_contradiction("m8", "m9")])
        assert tx.contradictions.forget([of_date]) == 1
        assert tx.contradictions.forget([of_date]) == 0
        assert tx.contradictions.remove(["m2"]) == 2
        assert tx.contradictions.open("acme") == [a_contradiction("m8", "m9")]


def test_a_slot_is_taken_once_however_many_want_it(ledger: Ledger) -> None:
    def claim(n: int) -> bool:
        with ledger.write() as tx:
            return tx.slots.claim("prune", NOW, holder=f"d{n}", at=NOW + n)

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(claim, range(6))) == 1
    with ledger.write() as tx:
        taken = tx.slots.get("prune", NOW)
        assert taken is not None
        assert (taken.status, taken.attempts) == (SlotStatus.RUNNING, 1)
        assert tx.slots.claim("prune", NOW + 1, holder="d", at=NOW)
        assert tx.slots.claim("decay", NOW, holder="d", at=NOW)


def test_a_slot_that_failed_or_lost_its_holder_is_taken_again_until_it_is_done(ledger: Ledger) -> None:
    with ledger.write() as tx:
        assert tx.slots.retake("prune", NOW, holder="x", at=NOW) == 0  # never taken
        tx.slots.claim("prune", NOW, holder="a", at=NOW)
        assert tx.slots.retake("prune", NOW, holder="b", at=NOW + 1) == 2
        tx.slots.finish("prune", NOW, SlotStatus.FAILED, NOW + 2, report={"error": "leider"})
        assert [s.status for s in tx.slots.unfinished()] == [SlotStatus.FAILED]
        assert tx.slots.retake("prune", NOW, holder="c", at=NOW + 3) == 3
        tx.slots.finish("prune", NOW, SlotStatus.DONE, NOW + 4, report={"rows": 2})
        assert tx.slots.retake("prune", NOW, holder="d", at=NOW + 5) == 0
        assert tx.slots.unfinished() == []
        assert tx.slots.latest("prune", 5) == [
            Slot(
                job="prune",
                slot=NOW,
                status=SlotStatus.DONE,
                holder="c",
                attempts=3,
                started_at=NOW + 3,
                finished_at=NOW + 4,
                report={"rows": 2},
            )
        ]


def test_slots_are_listed_the_latest_first_and_old_ones_forgotten(ledger: Ledger) -> None:
    with ledger.write() as tx:
        for n in range(4):
            tx.slots.claim("decay", NOW + n, holder="a", at=NOW)
        for n in range(3):
            tx.slots.finish("decay", NOW + n, SlotStatus.DONE, NOW + n, report={})
        assert [s.slot - NOW for s in tx.slots.latest("decay", 2)] == [3, 2]
        assert [s.slot - NOW for s in tx.slots.latest("decay", status=SlotStatus.DONE)] == [2]
        assert tx.slots.forget_before(NOW + 2) == 2
        assert [s.slot - NOW for s in tx.slots.latest("decay", 9)] == [3, 2]


def test_a_daemons_last_heartbeat_is_the_one_that_is_kept(ledger: Ledger) -> None:
    beat = DaemonBeat(
        id="d1",
        host="h",
        pid=7,
        version="1",
        is_leader=False,
        state="waiting",
        started_at=NOW,
        heartbeat_at=NOW,
        report={"jobs": 3},
    )
    later = replace(beat, is_leader=True, state="leading", heartbeat_at=NOW + 5)
    with ledger.write() as tx:
        for said in (beat, replace(beat, id="d0", heartbeat_at=NOW + 1), later):
            tx.slots.beat(said)
        assert [d.id for d in tx.slots.daemons()] == ["d1", "d0"]
        assert tx.slots.daemons()[0] == later
        assert tx.slots.forget_daemons(NOW + 5) == 1
        assert tx.slots.daemons() == [later]


def test_rows_that_only_a_sweep_changes(ledger: Ledger) -> None:
    document, event = a_document(), an_event()
    with ledger.write() as tx:
        tx.memories.add([a_memory(1), a_memory(2, rev=4), a_memory(3, standing=Standing.QUARANTINED)])
        tx.documents.put(document)
        tx.documents.add_version(document.id, 1, fingerprint=a_fingerprint("d1"), memory_ids=(), at=NOW)
        tx.evidence.add([event])
    doc = DocumentId("d1")
    with ledger.write() as tx:
        rows = tx.sweeping
        assert rows.revisions(["m00002", "m00001", "nobody"], "acme", is_locking=True) == {"m00001": 1, "m00002": 4}
        assert rows.revisions(["m00001"], "other") == {}
        assert rows.has_other_live(doc, MemoryId("m00001"))
        tx.memories.replace([a_memory(2, rev=5, standing=Standing.RETIRED)])
        assert not rows.has_other_live(doc, MemoryId("m00001"))
        assert rows.superseded_at(doc, 1) == (None,)
        assert rows.supersede(doc, 1, NOW)
        assert rows.superseded_at(doc, 1) == (NOW,)
        assert rows.supersede(doc, 1, None)
        assert rows.superseded_at(doc, 2) is None
        assert not rows.supersede(doc, 2, NOW)
        assert rows.event(event.memory_id, event.kind, event.witness) == event
        assert rows.event(event.memory_id, EvidenceKind.CHECK, event.witness) is None
        assert rows.remove_event(event.memory_id, event.kind, event.witness)
        assert not rows.remove_event(event.memory_id, event.kind, event.witness)
        assert tx.evidence.add([event]) == [event]


@pytest.mark.parametrize("ids", [("a", "b", "c", "d"), ("d", "c", "b", "a"), ("b", "d", "a", "c")])
def test_what_sweeps_did_in_one_instant_comes_cause_before_effect_whatever_their_ids(
    ledger: Ledger, ids: tuple[str, ...]
) -> None:
    """A memory was verified, and that was undone; then a plan found it changed, and it was rejected: all at once."""
    jobs = (SweepJob.VERIFY, SweepJob.UNDO, SweepJob.PRUNE, SweepJob.REJECT)
    revs, skipped = (3, 4, 3, 5), ("", "", "moved", "")
    for id_, job, rev, why in zip(ids, jobs, revs, skipped, strict=True):
        action = Action(memory_id="m", kind=ActionKind.WEIGH, reason="r", rev=rev)
        with ledger.write() as tx:
            undoes = SweepId(ids[0]) if job is SweepJob.UNDO else None
            tx.sweeps.begin(a_sweep(id_, job=job, undoes=undoes), [action, replace(action, reason="then")])
            tx.sweeps.applied(SweepId(id_), [(1, why, []), (0, why, [])], NOW)
            tx.sweeps.finish(SweepId(id_), SweepStatus.DONE, NOW)
    with ledger.read() as tx:
        told = [(j.sweep_id, j.action.reason) for j in tx.sweeps.of_memory(MemoryId("m"))]
        listed = [s.id for s in tx.sweeps.list(9)]
    order = (ids[0], ids[2], ids[1], ids[3])
    assert told == [(id_, reason) for id_ in order for reason in ("r", "then")]
    assert listed.index(SweepId(ids[1])) < listed.index(SweepId(ids[0]))
