"""Documents, their versions, and what could not be ingested, on both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kb.errors import InputError, IntegrityError
from kb.ledger.documents import DocumentVersion
from kb.model import Document, DocumentId, Failure, MemoryId
from tests.ledger_samples import NOW, a_document, a_fingerprint

if TYPE_CHECKING:
    from kb.ledger import Ledger

FAILURE = Failure(
    tenant="acme",
    root="handbook",
    source="file://handbook/scan.pdf",
    raw="r1",
    pipeline="p1",
    code="no_text",
    message="no text in 3 pages",
    hint="run OCR",
    failed_at=NOW,
)


def put(ledger: Ledger, *documents: Document) -> None:
    with ledger.write() as tx:
        for document in documents:
            tx.documents.put(document)


def test_a_document_comes_back_as_it_went_in(ledger: Ledger) -> None:
    document = a_document("d1")
    put(ledger, document)
    with ledger.read() as tx:
        assert tx.documents.get(document.id) == document
        assert tx.documents.by_source("acme", document.source) == document
        assert tx.documents.get(DocumentId("nobody")) is None
        assert tx.documents.by_source("acme", "file://handbook/other.md") is None
        assert tx.documents.by_source("globex", document.source) is None


def test_putting_again_updates(ledger: Ledger) -> None:
    put(ledger, a_document("d1"))
    changed = a_document("d1", version=2, fingerprint=a_fingerprint("new"), size=9, updated_at=NOW + 1)
    put(ledger, changed)
    with ledger.read() as tx:
        assert tx.documents.of_root("acme", "handbook") == [changed]


def test_two_live_documents_never_share_a_source(ledger: Ledger) -> None:
    put(ledger, a_document("d1"))
    with pytest.raises(IntegrityError):
        put(ledger, a_document("d2", source=a_document("d1").source))
    put(ledger, a_document("d3", source=a_document("d1").source, tenant="globex"))
    put(ledger, a_document("d1", deleted_at=NOW), a_document("d2", source=a_document("d1").source))
    with ledger.read() as tx:
        found = tx.documents.by_source("acme", a_document("d1").source)
        assert found is not None
        assert found.id == "d2"


def test_a_document_never_changes_its_tenant(ledger: Ledger) -> None:
    put(ledger, a_document("d1"))
    with pytest.raises(IntegrityError, match="another tenant"):
        put(ledger, a_document("d1", tenant="globex"))
    with ledger.read() as tx:
        assert tx.documents.get(DocumentId("d1")) == a_document("d1")


def test_a_roots_documents_stand_in_order_of_their_sources(ledger: Ledger) -> None:
    gone = a_document("d0", deleted_at=NOW)
    put(ledger, a_document("d2"), a_document("d1"), gone, a_document("d3", root="other"))
    put(ledger, a_document("d4", tenant="globex"))
    with ledger.read() as tx:
        assert tx.documents.of_root("acme", "handbook") == [a_document("d1"), a_document("d2")]
        everything = tx.documents.of_root("acme", "handbook", include_deleted=True)
        assert everything == [gone, a_document("d1"), a_document("d2")]
        assert tx.documents.of_root("acme", "nothing") == []


def test_births_are_counted_where_they_happened_whatever_came_after(ledger: Ledger) -> None:
    here, there = a_document("d1").source, "file://handbook/there.md"
    put(ledger, a_document("d1"))
    put(ledger, a_document("d1", source=there))  # moved
    put(ledger, a_document("d2", source=here))  # a new one in its place
    put(ledger, a_document("d2", source=here, deleted_at=NOW))
    with ledger.read() as tx:
        assert tx.documents.born_at("acme", here) == 2
        assert tx.documents.born_at("acme", there) == 0
        assert tx.documents.born_at("globex", here) == 0


def test_live_documents_are_found_by_their_bytes(ledger: Ledger) -> None:
    same = a_fingerprint("d1")
    put(ledger, a_document("d1"), a_document("d2", fingerprint=same), a_document("d3"))
    put(ledger, a_document("d4", fingerprint=same, root="other"))
    put(ledger, a_document("d5", fingerprint=same, deleted_at=NOW))
    with ledger.read() as tx:
        assert [d.id for d in tx.documents.with_raw_hash("acme", "handbook", same.raw)] == ["d1", "d2"]


def test_versions_tell_a_documents_history(ledger: Ledger) -> None:
    ids = (MemoryId("m1"), MemoryId("m2"))
    with ledger.write() as tx:
        tx.documents.add_version(
            DocumentId("d1"), 1, fingerprint=a_fingerprint("v1"), memory_ids=ids, at=NOW, run_id="r1"
        )
        tx.documents.put(a_document("d1"))  # only the commit asks for the document
    with ledger.write() as tx:
        assert tx.documents.close_version(DocumentId("d1"), 1, NOW + 5)
        assert not tx.documents.close_version(DocumentId("d1"), 1, NOW + 6)
        tx.documents.add_version(DocumentId("d1"), 2, fingerprint=a_fingerprint("v2"), memory_ids=(), at=NOW + 5)
    first = DocumentVersion(
        doc_id=DocumentId("d1"),
        version=1,
        fingerprint=a_fingerprint("v1"),
        memory_ids=ids,
        created_at=NOW,
        superseded_at=NOW + 5,
        run_id="r1",
    )
    with ledger.read() as tx:
        found = tx.documents.versions(DocumentId("d1"))
    assert found[0] == first
    assert [(v.version, v.superseded_at, v.run_id) for v in found] == [(1, NOW + 5, "r1"), (2, None, "")]


def test_a_version_needs_its_document_when_the_transaction_commits(ledger: Ledger) -> None:
    with pytest.raises(IntegrityError), ledger.write() as tx:
        tx.documents.add_version(DocumentId("d1"), 1, fingerprint=a_fingerprint("v1"), memory_ids=(), at=NOW)
    with ledger.read() as tx:
        assert tx.documents.versions(DocumentId("d1")) == []


def test_a_version_is_recorded_once(ledger: Ledger) -> None:
    put(ledger, a_document("d1"))
    for _ in range(2):
        with ledger.write() as tx:
            if not tx.documents.versions(DocumentId("d1")):
                tx.documents.add_version(DocumentId("d1"), 1, fingerprint=a_fingerprint("v"), memory_ids=(), at=NOW)
    with pytest.raises(IntegrityError), ledger.write() as tx:
        tx.documents.add_version(DocumentId("d1"), 1, fingerprint=a_fingerprint("v"), memory_ids=(), at=NOW)


def failed(ledger: Ledger, **changes: object) -> Failure:
    with ledger.write() as tx:
        return tx.failures.record(Failure(**{**as_fields(FAILURE), **changes}))  # type: ignore[arg-type] # by name


def as_fields(failure: Failure) -> dict[str, object]:
    return {name: getattr(failure, name) for name in Failure.__slots__}


def test_the_same_failure_again_is_one_more_attempt(ledger: Ledger) -> None:
    assert failed(ledger) == FAILURE
    assert failed(ledger, failed_at=NOW + 1).attempts == 2
    assert failed(ledger, failed_at=NOW + 2, message="other words").attempts == 3
    with ledger.read() as tx:
        kept = tx.failures.get("acme", FAILURE.source)
    assert kept is not None
    assert (kept.attempts, kept.failed_at, kept.message) == (3, NOW + 2, "other words")


@pytest.mark.parametrize("change", [{"raw": "r2"}, {"pipeline": "p2"}])
def test_changed_bytes_or_pipeline_start_a_new_count(ledger: Ledger, change: dict[str, str]) -> None:
    failed(ledger)
    failed(ledger)
    assert failed(ledger, **change).attempts == 1


def test_failures_are_listed_by_root_and_cleared_by_source(ledger: Ledger) -> None:
    failed(ledger)
    failed(ledger, source="file://handbook/a.pdf")
    failed(ledger, source="file://other/a.pdf", root="other")
    failed(ledger, tenant="globex")
    with ledger.write() as tx:
        assert [f.source for f in tx.failures.of_root("acme", "handbook")] == ["file://handbook/a.pdf", FAILURE.source]
        assert tx.failures.clear("acme", FAILURE.source)
        assert not tx.failures.clear("acme", FAILURE.source)
        assert [f.source for f in tx.failures.of_root("acme", "handbook")] == ["file://handbook/a.pdf"]
        assert tx.failures.get("globex", FAILURE.source) is not None
        assert (tx.failures.count("acme"), tx.failures.count("globex"), tx.failures.count("nobody")) == (2, 1, 0)


def test_a_failure_is_kept_even_when_its_message_quotes_garbage(ledger: Ledger) -> None:
    assert failed(ledger, message="bad \0 byte \udc80", hint="\0").message == "bad \ufffd byte ?"
    with pytest.raises(InputError, match="source holds"):
        failed(ledger, source="file://handbook/\udc80")
