"""Which memories a document had at an instant, on both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kb.errors import InputError
from kb.model import DocumentId, MemoryId
from tests.ledger_samples import NOW, a_document, a_fingerprint

if TYPE_CHECKING:
    from kb.ledger import Ledger

D1, D2 = DocumentId("d1"), DocumentId("d2")
A, B, C = MemoryId("a"), MemoryId("b"), MemoryId("c")


@pytest.fixture
def history(ledger: Ledger) -> Ledger:
    """Of d1: a from NOW, b from NOW + 10, a again from NOW + 20 until NOW + 30. Of d2: c and b, since NOW + 5."""
    with ledger.write() as tx:
        tx.documents.put(a_document("d1", version=3, deleted_at=NOW + 30))
        tx.documents.put(a_document("d2", source="file://handbook/other.md"))
        for version, id_ in enumerate((A, B, A), 1):
            begin = NOW + 10 * (version - 1)
            tx.documents.add_version(D1, version, fingerprint=a_fingerprint("f"), memory_ids=[id_], at=begin)
            tx.documents.close_version(D1, version, begin + 10)
        tx.documents.add_version(D2, 1, fingerprint=a_fingerprint("f"), memory_ids=[C, B], at=NOW + 5)
    return ledger


def test_the_version_of_an_instant_tells_what_stood(history: Ledger) -> None:
    with history.read() as tx:
        seen = [tx.documents.stood_at({D1}, NOW + ms).get(D1) for ms in (-1, 0, 9, 10, 19, 20, 29, 30)]
        assert seen == [None, {A}, {A}, {B}, {B}, {A}, {A}, None]
        assert tx.documents.stood_at([D1, D2, D1], NOW + 12) == {D1: {B}, D2: {B, C}}
        assert tx.documents.stood_at([D1, D2, DocumentId("nobody")], NOW + 3) == {D1: {A}}
        assert tx.documents.stood_at([], NOW) == {}


def test_any_number_of_documents_may_be_asked_for(history: Ledger) -> None:
    many = [DocumentId(f"x{n}") for n in range(2_500)]
    with history.read() as tx:
        assert tx.documents.stood_at([*many, D2], NOW + 10**9) == {D2: {B, C}}
        with pytest.raises(InputError):
            tx.documents.stood_at([DocumentId("")], NOW)
