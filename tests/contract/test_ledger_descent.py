"""What a rollback reads from the ledger, on both databases."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kb.history import EdgeKind
from kb.model import DocumentId, Kind, MemoryId, Standing
from tests.history_samples import A1, A2, M1, M2, M3, an_answer, an_edge
from tests.ledger_samples import NOW, a_document, a_fingerprint, a_memory

if TYPE_CHECKING:
    from kb.ledger import Ledger

MANY = 1_100  # more than one IN list holds


def test_steps_lead_on_by_lineage_and_by_citation_and_never_to_another_tenant(ledger: Ledger) -> None:
    handed_over = replace(an_answer(), id=A2)
    with ledger.write() as tx:
        tx.answers.add(an_answer())
        tx.answers.add(handed_over)
        tx.lineage.add([an_edge(M1, A1), an_edge(A1, M3, kind=EdgeKind.KEY), an_edge(M1, "x", tenant="globex")])
    cited = {c.memory_id for c in an_answer().citations}
    with ledger.read() as tx:
        steps = {(e.parent, e.child) for e in tx.descent.steps_from("acme", [M1])}
        assert (M1, A1) in steps
        assert M1 not in cited or (M1, A2) in steps, "an answer without lineage rests on what it cites"
        assert not {child for _, child in steps} & {"x"}
        assert tx.descent.foreign_children("acme", [M1]) == 1
        assert {e.child for e in tx.descent.descended("acme", [M1])} >= {A1, M3}
        assert {e.parent for e in tx.descent.steps_to("acme", [A1])} >= {M1, *cited}
        assert [a.id for a in tx.descent.answers("acme", [A1, M1])] == [A1]
        assert tx.descent.answers("globex", [A1]) == []


def test_a_circle_in_the_lineage_ends(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.lineage.add([an_edge(M1, M2), an_edge(M2, M1)])
    with ledger.read() as tx:
        assert len(tx.descent.descended("acme", [M1])) == 2


def test_a_long_line_and_a_wide_one_are_followed_to_the_end(ledger: Ledger) -> None:
    wide = [an_edge(M1, f"w{n}") for n in range(MANY)]
    deep = [an_edge(f"w{n}", f"d{n}") for n in range(MANY)]
    with ledger.write() as tx:
        tx.lineage.add([*wide, *deep])
    with ledger.read() as tx:
        assert len(tx.descent.descended("acme", [M1])) == 2 * MANY


def test_memories_are_told_by_source_document_and_time_of_the_tenant_alone(ledger: Ledger) -> None:
    note = a_memory("note", kind=Kind.NOTE, doc_id=None, source="note://person", created_at=NOW + 5, updated_at=NOW + 5)
    old = a_memory("old", kind=Kind.NOTE, doc_id=None, source="note://person", updated_at=NOW + 9)
    gone = a_memory("gone", standing=Standing.RETIRED, source="file://handbook/introduction.md")
    with ledger.write() as tx:
        tx.memories.add([a_memory(1), note, old, gone, a_memory("alien", tenant="globex")])
    with ledger.read() as tx:
        descent = tx.descent
        assert [m.id for m in descent.at_source("acme", "file://handbook/intro")] == ["gone", "m00001"]
        assert [m.id for m in descent.of_documents("acme", ["d1"])] == ["gone", "m00001"]
        assert [m.id for m in descent.written_since("acme", NOW + 5, [Kind.NOTE])] == ["note"]
        members = descent.members("acme", ["m00001", "alien", "nobody"])
        assert list(members) == ["m00001"]
        (member,) = members.values()
        whole = tx.memories.get([MemoryId("m00001")])[MemoryId("m00001")]
        assert all(
            getattr(member, n) == getattr(whole, n) for n in ("id", "kind", "standing", "doc_id", "source", "rev")
        )
        assert member.verified == whole.trust.verified


def test_documents_are_told_by_run_time_source_and_deletion(ledger: Ledger) -> None:
    gone = a_document("d2", deleted_at=NOW + 7)
    with ledger.write() as tx:
        for document in (a_document("d1"), gone, a_document("d3", tenant="globex")):
            tx.documents.put(document)
            for number, run in ((1, "r1"), (2, "r2")):
                made = a_fingerprint(f"{document.id}-{number}")
                own = (MemoryId("m00001"),)
                tx.documents.add_version(
                    document.id, number, fingerprint=made, memory_ids=own, at=NOW + number, run_id=run
                )
    with ledger.read() as tx:
        descent = tx.descent
        assert descent.documents_of_run("acme", "r2") == ["d1", "d2"]
        assert descent.documents_since("acme", NOW + 2) == ["d1", "d2"]
        assert descent.documents_since("acme", NOW + 3) == []
        assert [d.id for d in descent.documents_at("acme", "file://handbook/d")] == ["d1", "d2"]
        assert [d.id for d in descent.deleted_since("acme", NOW + 7)] == ["d2"]
        assert list(descent.documents("acme", ["d1", "d3"])) == ["d1"]
        versions = descent.versions(["d1", "d2"])
        assert versions[DocumentId("d1")] == tx.documents.versions(DocumentId("d1"))
        assert [v.version for v in versions[DocumentId("d2")]] == [1, 2]


def test_findings_are_told_by_the_search_that_found_them(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.memories.add([a_memory(1), a_memory(2)])
        tx.lineage.add([an_edge("search://fake/tons", "m00001", kind=EdgeKind.FOUND)])
    with ledger.read() as tx:
        assert [m.id for m in tx.descent.found_by("acme", "search://fake/")] == ["m00001"]
        assert tx.descent.found_by("acme", "search://other/") == []
