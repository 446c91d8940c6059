"""What a document goes back to, version by version."""

from __future__ import annotations

from dataclasses import replace

from governance.restoration import Back, going_back
from kb.ledger.documents import DocumentVersion
from kb.model import DocumentId, MemoryId
from tests.ledger_samples import NOW, a_document, a_fingerprint


def a_version(number: int, *ids: str, content: str = "") -> DocumentVersion:
    return DocumentVersion(
        doc_id=DocumentId("d1"),
        version=number,
        fingerprint=a_fingerprint(content or f"v{number}"),
        memory_ids=tuple(map(MemoryId, ids)),
        created_at=NOW + number,
        superseded_at=None,
        run_id=f"run-{number}",
    )


def back(*versions: DocumentVersion, blast: str = "", deleted: bool = False, **options: object) -> Back:
    last = versions[-1]
    document = replace(
        a_document("d1"),
        version=last.version,
        memory_ids=last.memory_ids,
        deleted_at=NOW if deleted else None,
    )
    return going_back(document, versions, set(blast.split()), **options)  # type: ignore[arg-type] # as named


GOOD, BAD = a_version(1, "a", "b"), a_version(2, "a", "x")


def test_a_version_of_bad_words_gives_way_to_the_one_before_it() -> None:
    found = back(GOOD, BAD, blast="x")
    assert (found.version, found.held, found.dropped) == (1, ("a", "b"), ("x",))
    assert found.hashes == ("content-v2", "raw-v2")


def test_a_document_of_nothing_but_bad_versions_counts_as_deleted() -> None:
    found = back(GOOD, BAD, blast="a b x")
    assert (found.version, found.held, found.is_changed) == (None, (), True)


def test_one_bad_passage_among_good_new_ones_leaves_the_version_standing() -> None:
    found = back(GOOD, a_version(2, "a", "x", "y"), blast="x")
    assert (found.version, found.is_changed, found.hashes) == (2, False, ())


def test_a_good_version_on_top_of_a_bad_one_stands_and_the_bad_one_stays_out() -> None:
    found = back(GOOD, BAD, a_version(3, "a", "x", "z"), blast="x")
    assert (found.version, found.is_changed) == (3, False)
    assert found.hashes == ("content-v2", "raw-v2")


def test_a_named_version_that_only_took_words_away_is_rolled_back_too() -> None:
    found = back(GOOD, a_version(2, "a"), named={2})
    assert (found.version, found.held) == (1, ("a", "b"))


def test_bad_versions_in_a_row_are_passed_over_together() -> None:
    found = back(GOOD, BAD, a_version(3, "a", "y"), blast="x y")
    assert found.version == 1
    assert found.hashes == ("content-v2", "content-v3", "raw-v2", "raw-v3")


def test_content_that_a_good_version_has_too_is_not_kept_out() -> None:
    again = replace(a_version(3, "x2"), fingerprint=GOOD.fingerprint)
    assert back(GOOD, BAD, again, blast="x", named={2, 3}).hashes == ("content-v2", "raw-v2")


def test_a_version_that_an_earlier_rollback_put_out_is_no_way_back() -> None:
    assert back(BAD, GOOD, a_version(3, "y"), blast="y", barred={"content-v1"}).version == 2
    assert back(BAD, a_version(3, "y"), blast="y", barred={"content-v2"}).version is None


def test_a_deletion_is_taken_back_only_where_it_was_named() -> None:
    assert not back(GOOD, deleted=True).is_changed
    found = back(GOOD, deleted=True, is_deletion_back=True)
    assert (found.version, found.held, found.is_changed) == (1, ("a", "b"), True)
