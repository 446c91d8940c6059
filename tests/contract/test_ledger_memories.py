"""Memories in the ledger, on both databases."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kb.errors import InputError, IntegrityError, StaleRevision
from kb.ledger.memories import TrustRow
from kb.model import DocumentId, Kind, Memory, MemoryId, Passage, SourceClass, Standing
from tests.ledger_samples import NOW, a_document, a_memory

if TYPE_CHECKING:
    from kb.ledger import Ledger


def added(ledger: Ledger, *memories: Memory) -> None:
    with ledger.write() as tx:
        tx.memories.add(memories)


def stored(ledger: Ledger) -> list[Memory]:
    with ledger.read() as tx:
        return tx.memories.page("", 1_000_000)


def test_a_memory_comes_back_as_it_went_in(ledger: Ledger) -> None:
    full, bare = a_memory(1), Memory(**{**FIELDS, "id": MemoryId("bare")})
    added(ledger, full, bare)
    with ledger.read() as tx:
        assert tx.memories.get([bare.id, full.id]) == {full.id: full, bare.id: bare}


FIELDS = {
    name: getattr(a_memory(), name) for name in ("tenant", "kind", "source_class", "source", "text", "trust")
}  # what a memory must have; everything else stays at its default


def test_get_takes_any_number_of_ids_and_leaves_out_the_unknown(ledger: Ledger) -> None:
    memories = [a_memory(i) for i in range(2_500)]
    added(ledger, *memories)
    ids = [m.id for m in reversed(memories)]
    with ledger.read() as tx:
        found = tx.memories.get([*ids, MemoryId("nobody"), ids[0]])
        assert tx.memories.get([]) == {}
    assert list(found.values()) == memories[::-1]


def test_an_id_that_is_taken_is_refused_and_nothing_of_the_batch_stays(ledger: Ledger) -> None:
    added(ledger, a_memory(1))
    with pytest.raises(IntegrityError, match="refused a row"):
        added(ledger, a_memory(2), a_memory(1), a_memory(3))
    assert stored(ledger) == [a_memory(1)]


def test_replacing_writes_the_whole_row_at_the_next_revision(ledger: Ledger) -> None:
    added(ledger, a_memory(1), a_memory(2))
    after = a_memory(
        1,
        rev=2,
        text="changed",
        standing=Standing.QUARANTINED,
        standing_reason="contradicted",
        passage=Passage(),
        metadata={},
        doc_id=None,
        updated_at=NOW + 5,
    )
    with ledger.write() as tx:
        tx.memories.replace([after])
    assert stored(ledger) == [after, a_memory(2)]


@pytest.mark.parametrize("rev", [1, 3, 0, -5])
def test_a_revision_that_does_not_follow_is_stale_and_nothing_is_written(ledger: Ledger, rev: int) -> None:
    added(ledger, a_memory(1), a_memory(2))
    with pytest.raises(StaleRevision, match="m00002"), ledger.write() as tx:
        tx.memories.replace([a_memory(1, rev=2), a_memory(2, rev=rev)])
    assert stored(ledger) == [a_memory(1), a_memory(2)]


def test_a_stale_replacement_that_is_passed_over_wrote_nothing_of_itself(ledger: Ledger) -> None:
    added(ledger, a_memory(1), a_memory(2))
    with ledger.write() as tx:
        with pytest.raises(StaleRevision):
            tx.memories.replace([a_memory(1, rev=2), a_memory(2, rev=7)])
        tx.memories.add([a_memory(3)])
    assert stored(ledger) == [a_memory(1), a_memory(2), a_memory(3)]


def test_replacing_a_memory_that_is_gone_is_stale(ledger: Ledger) -> None:
    with pytest.raises(StaleRevision, match="m00009 is no longer"), ledger.write() as tx:
        tx.memories.replace([a_memory(9, rev=2)])


def test_a_memory_never_changes_its_tenant(ledger: Ledger) -> None:
    added(ledger, a_memory(1))
    with pytest.raises(IntegrityError, match="another tenant"), ledger.write() as tx:
        tx.memories.replace([a_memory(1, rev=2, tenant="globex")])
    assert stored(ledger) == [a_memory(1)]


def test_a_memory_is_replaced_once_at_a_time(ledger: Ledger) -> None:
    added(ledger, a_memory(1))
    with pytest.raises(IntegrityError, match="twice"), ledger.write() as tx:
        tx.memories.replace([a_memory(1, rev=2), a_memory(1, rev=2)])


def test_thousands_are_replaced_in_one_transaction(ledger: Ledger) -> None:
    memories = [a_memory(i) for i in range(2_100)]
    added(ledger, *memories)
    after = [replace(m, rev=2, updated_at=NOW + 1) for m in reversed(memories)]
    with ledger.write() as tx:
        tx.memories.replace(after)
    assert stored(ledger) == after[::-1]


def test_removing_leaves_the_others(ledger: Ledger) -> None:
    added(ledger, *(a_memory(i) for i in range(5)))
    with ledger.write() as tx:
        assert tx.memories.remove([MemoryId("m00001"), MemoryId("m00003"), MemoryId("nobody")]) == 2
        assert tx.memories.remove([]) == 0
    assert [m.id for m in stored(ledger)] == ["m00000", "m00002", "m00004"]


def test_memories_of_a_document_stand_in_its_order(ledger: Ledger) -> None:
    order = [4, 0, 2, 3, 1]
    memories = [a_memory(i, passage=Passage(ordinal=place)) for i, place in enumerate(order)]
    old = a_memory(77, passage=Passage(ordinal=1), standing=Standing.SUPERSEDED)
    other = a_memory(99, doc_id=DocumentId("d2"))
    added(ledger, *memories, old, other)
    with ledger.read() as tx:
        active = tx.memories.of_document(DocumentId("d1"), (Standing.ACTIVE, Standing.STAGED))
        everything = tx.memories.of_document(DocumentId("d1"))
    assert [m.passage.ordinal for m in active] == [0, 1, 2, 3, 4]
    assert [m.id for m in everything] == ["m00001", "m00004", "m00077", "m00002", "m00003", "m00000"]


def test_trust_of_a_root_is_that_of_its_documents(ledger: Ledger) -> None:
    with ledger.write() as tx:
        for name, root in (("d1", "handbook"), ("d2", "handbook"), ("d3", "other")):
            tx.documents.put(a_document(name, root=root))
            tx.memories.add([a_memory(f"{name}-{n}", doc_id=DocumentId(name)) for n in range(2)])
        tx.memories.add([a_memory("d1-old", doc_id=DocumentId("d1"), standing=Standing.SUPERSEDED)])
        tx.memories.add([a_memory("note", doc_id=None)])
    with ledger.read() as tx:
        active = list(tx.memories.trust_columns("acme", (Standing.ACTIVE,), root="handbook"))
        assert sorted(row.id for row in active) == ["d1-0", "d1-1", "d2-0", "d2-1"]
        assert len(list(tx.memories.trust_columns("acme", root="handbook"))) == 5
        assert list(tx.memories.trust_columns("globex", root="handbook")) == []


def test_pages_tile_the_memories_in_id_order(ledger: Ledger) -> None:
    added(ledger, *(a_memory(i) for i in range(25)))
    seen: list[Memory] = []
    with ledger.read() as tx:
        while page := tx.memories.page(seen[-1].id if seen else "", 7):
            seen += page
    assert seen == [a_memory(i) for i in range(25)]


def test_a_page_is_narrowed_by_every_filter(ledger: Ledger) -> None:
    added(
        ledger,
        a_memory(1),
        a_memory(2, tenant="globex"),
        a_memory(3, standing=Standing.QUARANTINED),
        a_memory(4, kind=Kind.NOTE),
        a_memory(5, source="file://Handbook/intro.md"),
        a_memory(6, source="file://handbook/价格.md"),
        a_memory(7, source="file://handbook_/intro.md"),
        a_memory(8, source="file://handbook/%/intro.md"),
    )
    with ledger.read() as tx:

        def ids(**filters: object) -> list[int]:
            return [int(m.id[1:]) for m in tx.memories.page("", 100, **filters)]  # type: ignore[arg-type] # by name

        assert ids(tenant="globex") == [2]
        assert ids(standings=(Standing.QUARANTINED, Standing.RETIRED)) == [3]
        assert ids(kinds=(Kind.NOTE, Kind.WEB)) == [4]
        assert ids(source_prefix="file://handbook/") == [1, 2, 3, 4, 6, 8]  # case matters, and so does every sign
        assert ids(source_prefix="file://handbook/%") == [8]
        assert ids(source_prefix="file://handbook_") == [7]
        assert ids(source_prefix="file://handbook/价") == [6]
        assert ids(source_prefix="file://handbook/价格.md") == [6]
        assert ids(source_prefix="\U0010ffff") == []
        assert ids(tenant="acme", kinds=(Kind.DOCUMENT,), source_prefix="file://H") == [5]


def test_ids_are_ordered_by_code_point(ledger: Ledger) -> None:
    names = ["B", "a", "Z", "_", "0", "é", "z", "价", "\U0001f600", "｡"]
    added(ledger, *(a_memory(name) for name in names))
    assert [m.id for m in stored(ledger)] == sorted(names)


def test_every_memory_but_the_retired_belongs_in_the_index(ledger: Ledger) -> None:
    added(ledger, *(a_memory(i, standing=s, rev=10 + i) for i, s in enumerate(Standing)))
    expected = [(MemoryId(f"m{i:05d}"), 10 + i) for i, s in enumerate(Standing) if s is not Standing.RETIRED]
    with ledger.read() as tx:
        assert tx.memories.revisions("", 100) == expected
        assert tx.memories.revisions(expected[1][0], 1) == expected[2:3]
        assert tx.memories.indexed_count() == len(expected)


def test_counts_follow_tenant_standing_kind_class_and_root(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.documents.put(a_document("d1", root="handbook"))
        tx.memories.add([a_memory(i) for i in range(3)])
        tx.memories.add([a_memory(10, kind=Kind.NOTE, source_class=SourceClass.PERSON, doc_id=None)])
        tx.memories.add([a_memory(20, tenant="globex", standing=Standing.RETIRED, doc_id=None)])
    with ledger.read() as tx:
        mine, everyone = tx.memories.counts("acme"), tx.memories.counts(None)
    assert mine == [
        ("acme", Standing.ACTIVE, Kind.DOCUMENT, SourceClass.DOCUMENT, "handbook", 3),
        ("acme", Standing.ACTIVE, Kind.NOTE, SourceClass.PERSON, "", 1),
    ]
    assert everyone == [*mine, ("globex", Standing.RETIRED, Kind.DOCUMENT, SourceClass.DOCUMENT, "", 1)]


def test_trust_columns_are_what_a_forecast_needs(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.documents.put(a_document("d1", root="handbook"))
        tx.memories.add([a_memory(1), a_memory(2, doc_id=None), a_memory(3, standing=Standing.RETIRED)])
        tx.memories.add([a_memory(4, tenant="globex")])
    with ledger.read() as tx:
        rows = sorted(tx.memories.trust_columns("acme", (Standing.ACTIVE,)))
    t, source = a_memory().trust, a_memory().source
    rest = (source, SourceClass.DOCUMENT, t.confidence, t.anchor, t.birth, t.verified)
    assert rows == [TrustRow(MemoryId("m00001"), "handbook", *rest), TrustRow(MemoryId("m00002"), "", *rest)]


def test_many_trust_columns_stream(ledger: Ledger) -> None:
    added(ledger, *(a_memory(i) for i in range(4_500)))
    with ledger.read() as tx:
        assert len({row.id for row in tx.memories.trust_columns("acme")}) == 4_500
        first = next(tx.memories.trust_columns("acme"))  # abandoned half way
        assert tx.memories.get([first.id])
        kept = tx.memories.trust_columns("acme")
        next(kept)
    del kept  # after its transaction
    with ledger.read() as tx:
        assert tx.memories.get([first.id])


def test_staged_and_touched_memories_are_found(ledger: Ledger) -> None:
    added(ledger, a_memory(2, standing=Standing.STAGED), a_memory(1, standing=Standing.STAGED), a_memory(3))
    added(ledger, a_memory(4, updated_at=NOW + 10), a_memory(5, updated_at=NOW + 9))
    with ledger.read() as tx:
        assert tx.memories.staged() == ["m00001", "m00002"]
        assert tx.memories.touched_since(NOW + 10) == ["m00004"]
        assert tx.memories.touched_since(NOW + 9) == ["m00004", "m00005"]


def test_tenants_are_registered_by_their_first_row(ledger: Ledger) -> None:
    added(ledger, a_memory(1, tenant="租户"), a_memory(2, tenant="acme"))
    added(ledger, a_memory(3, tenant="acme"))
    with ledger.read() as tx:
        assert tx.tenants.list() == ["acme", "租户"]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("text", "nul \0", "text holds a NUL"),
        ("text", "half \ud83d", "text holds a lone surrogate"),
        ("tenant", "", "tenant is empty"),
        ("source", "x" * 2_001, "source is 2001 bytes"),
        ("updated_at", 2**63, "updated_at is 9223372036854775808"),
        ("metadata", {"a": [{"b\0": 1}]}, "metadata holds a NUL"),
        ("metadata", {"a": float("nan")}, "metadata is nan"),
        ("metadata", {1: "a"}, "keys must be text"),
        ("metadata", {"a": b"bytes"}, "metadata holds a bytes"),
        ("metadata", {"a": 1 << 20_000}, "integer of more than"),
    ],
)
def test_what_a_database_would_bend_is_refused_by_both(ledger: Ledger, field: str, value: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        added(ledger, a_memory(1, **{field: value}))
    assert stored(ledger) == []


def test_metadata_nested_without_end_is_refused(ledger: Ledger) -> None:
    deep: list[object] = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(InputError, match="nested deeper"):
        added(ledger, a_memory(1, metadata={"deep": deep}))


@pytest.mark.parametrize("confidence", [-0.1, 1.1, float("nan")])
def test_a_confidence_outside_its_range_is_refused(ledger: Ledger, confidence: float) -> None:
    with pytest.raises(InputError, match="confidence"):
        added(ledger, a_memory(1, trust=replace(a_memory().trust, confidence=confidence)))


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_name_that_cannot_exist_is_refused_when_it_is_looked_up(ledger: Ledger, name: str) -> None:
    with ledger.read() as tx:
        with pytest.raises(InputError):
            tx.memories.get([MemoryId(name)])
        with pytest.raises(InputError):
            tx.memories.page("", 10, tenant=name)
        with pytest.raises(InputError):
            tx.documents.by_source("acme", name)
