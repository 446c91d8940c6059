"""Looks and reputations on both databases: in order of change, from a place on, with lines that may run in a circle."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kb.history import Edge, EdgeKind, EvidenceEvent, EvidenceKind
from kb.ledger.looking import START, Place
from kb.model import FOREVER, Kind, MemoryId, Scope, SourceClass, Standing
from kb.reputation import Record
from kb.sweeps import Action, ActionKind, Sweep, SweepId, SweepJob
from tests.ledger_samples import NOW, a_document, a_memory

if TYPE_CHECKING:
    from kb.ledger import Ledger
    from kb.model import Memory


def kept(ledger: Ledger, *memories: Memory) -> None:
    with ledger.write() as tx:
        tx.memories.add(list(memories))


def test_changed_memories_come_in_order_of_change_from_a_place_on(ledger: Ledger) -> None:
    kept(
        ledger,
        a_memory(1, updated_at=NOW + 5),
        a_memory(2, updated_at=NOW),
        a_memory(3, updated_at=NOW),
        a_memory(4, updated_at=NOW, standing=Standing.QUARANTINED),
        a_memory(5, updated_at=NOW, kind=Kind.ANSWER, source_class=SourceClass.ANSWER),
        a_memory(6, updated_at=NOW, tenant="other"),
    )
    with ledger.read() as tx:
        assert [m.id for m in tx.looking.changed("acme", START, 10)] == ["m00002", "m00003", "m00001"]
        assert [m.id for m in tx.looking.changed("acme", START, 2)] == ["m00002", "m00003"]
        assert [m.id for m in tx.looking.changed("acme", Place(NOW, "m00002"), 10)] == ["m00003", "m00001"]
        assert tx.looking.changed("acme", Place(NOW + 5, "m00001"), 10) == []


def test_due_memories_are_verified_active_and_past_their_hold(ledger: Ledger) -> None:
    sample = a_memory(1)
    held = replace(sample.trust, anchor=NOW + 1000, birth=NOW)
    kept(
        ledger,
        sample,
        a_memory(2, trust=held),
        a_memory(3, trust=replace(sample.trust, verified=False)),
        a_memory(4, standing=Standing.RETIRED),
    )
    with ledger.read() as tx:
        assert [m.id for m in tx.looking.due("acme", NOW + 1, 10)] == ["m00001"]
        assert [m.id for m in tx.looking.due("acme", NOW + 1001, 10)] == ["m00001", "m00002"]
        assert [m.id for m in tx.looking.due("acme", NOW + 1001, 10, Place(NOW, "m00001"))] == ["m00002"]
        assert tx.looking.due("acme", NOW, 10) == []


def test_a_line_is_all_that_a_memory_was_made_from_even_in_a_circle(ledger: Ledger) -> None:
    steps = (("a", "b"), ("b", "c"), ("x", "c"), ("c", "d"), ("e", "f"), ("f", "e"), ("root://r", "b"))
    with ledger.write() as tx:
        tx.lineage.add([Edge(tenant="acme", parent=p, child=c, kind=EdgeKind.DERIVED, at=NOW) for p, c in steps])
    with ledger.read() as tx:
        assert tx.looking.lines(map(MemoryId, "cdae")) == {
            "c": {"a", "b", "x", "root://r"},
            "d": {"a", "b", "c", "x", "root://r"},
            "e": {"f"},
        }


def test_the_last_look_is_the_last_action_with_its_reason(ledger: Ledger) -> None:
    kept(ledger, a_memory(1), a_memory(2))
    for n, at in ((1, NOW), (2, NOW + 7)):
        sweep = Sweep(id=SweepId(f"s{n}"), tenant="acme", job=SweepJob.RECHECK)
        actions = [Action(memory_id="m00001", kind=ActionKind.LOOK, reason="checked", rev=1) for _ in range(2)]
        with ledger.write() as tx:
            tx.sweeps.begin(sweep, actions)
            tx.sweeps.applied(sweep.id, [(0, "", ())], at=at)
    with ledger.read() as tx:
        ids = [MemoryId("m00001"), MemoryId("m00002")]
        assert tx.looking.last_looked(ids, "checked") == {"m00001": NOW + 7}
        assert tx.looking.last_looked(ids, "agreed") == {}


def test_a_source_is_known_by_its_pieces_that_were_refused_or_borne_out(ledger: Ledger) -> None:
    page = {"kind": Kind.WEB, "source_class": SourceClass.WEB, "doc_id": None, "scope": Scope()}
    kept(
        ledger,
        *(a_memory(n, doc_id="d1") for n in (1, 2)),
        a_memory(3, doc_id="d2"),
        a_memory(4, source="https://www.city.example/a", **page),
        a_memory(5, source="https://news.city.example/b", **page),
        a_memory(6, source="https://port.example/c", **page),
        a_memory(7, doc_id="d3", standing=Standing.QUARANTINED, standing_reason="rolled back by sweep 1"),
        a_memory(8, doc_id="d4", standing=Standing.QUARANTINED, standing_reason="descends from what was rolled back"),
    )
    said = (
        (1, EvidenceKind.REJECTION, 0.0),
        (2, EvidenceKind.CONTRADICTION, -1.0),
        (3, EvidenceKind.VERIFICATION, 0.0),
        (4, EvidenceKind.CHECK, -2.0),
        (5, EvidenceKind.CHECK, 2.0),
        (6, EvidenceKind.FEEDBACK, -0.5),
    )
    with ledger.write() as tx:
        for doc in ("d1", "d2", "d3", "d4"):
            tx.documents.put(a_document(doc))
        tx.evidence.add(
            [
                EvidenceEvent(memory_id=a_memory(n).id, tenant="acme", kind=kind, weight=weight, witness="w", at=NOW)
                for n, kind, weight in said
            ]
        )
    with ledger.read() as tx:
        assert tx.reputation.of_root("acme", "handbook") == Record(good=1, bad=2)
        assert tx.reputation.of_root("acme", "nowhere") == Record()
        assert tx.reputation.of_hosts("acme", ["city.example", "port.example"]) == {
            "city.example": Record(good=1, bad=1),
            "port.example": Record(),
        }
        assert tx.reputation.of_hosts("acme", []) == {}
        assert tx.reputation.of_author(a_memory(9, kind=Kind.NOTE, source_class=SourceClass.AGENT)) == Record()


def test_what_waits_and_was_cited_comes_most_cited_first_from_a_place_on(ledger: Ledger) -> None:
    waits = {"standing": Standing.QUARANTINED, "kind": Kind.WEB, "valid_to": FOREVER}
    kept(
        ledger,
        *(a_memory(n, **waits) for n in (1, 2, 3, 4)),
        a_memory(5, **{**waits, "kind": Kind.DOCUMENT}),
        a_memory(6, **{**waits, "standing": Standing.ACTIVE}),
        a_memory(7, tenant="other", **waits),
        a_memory(8, **{**waits, "valid_to": NOW}),
    )
    with ledger.write() as tx:
        for n, times in ((1, 1), (2, 3), (3, 1), (5, 9), (6, 9), (7, 9), (8, 9)):
            for _ in range(times):
                tx.utility.bump(cited=[a_memory(n).id], now=NOW)
        tx.utility.bump(retrieved=[a_memory(4).id], now=NOW)
    with ledger.read() as tx:
        found = tx.looking.used("acme", 10)
        assert [(m.id, cited) for m, cited in found] == [("m00002", 3), ("m00001", 1), ("m00003", 1)]
        assert [m.id for m, _ in tx.looking.used("acme", 10, Place(1, "m00001"))] == ["m00003"]
        assert len(tx.looking.used("acme", 1)) == 1


def test_what_a_search_found_together_is_found_by_the_search_alone(ledger: Ledger) -> None:
    ids = [a_memory(n).id for n in range(4)]
    steps = (
        ("search://s/one", ids[0], EdgeKind.FOUND),
        ("search://s/one", ids[1], EdgeKind.FOUND),
        ("search://s/two", ids[1], EdgeKind.FOUND),
        ("search://s/two", ids[2], EdgeKind.FOUND),
        ("search://s/one", ids[3], EdgeKind.DERIVED),
    )
    with ledger.write() as tx:
        tx.lineage.add([Edge(tenant="acme", parent=p, child=c, kind=k, at=NOW) for p, c, k in steps])
    with ledger.read() as tx:
        assert tx.looking.found_with(ids) == {
            ids[0]: frozenset(ids[:2]),
            ids[1]: frozenset(ids[:3]),
            ids[2]: frozenset(ids[1:3]),
        }
        assert tx.looking.found_with([]) == {}
