"""Identities come from content: equal everywhere, different wherever the claim differs."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from kb.ids import ID_LENGTH, canonical_source, digest, document_id, embed_hash, note_id, passage_id, raw_digest

parts = st.lists(st.text(), min_size=1, max_size=4)


def test_ids_are_the_same_on_every_machine_and_in_every_release() -> None:
    doc = document_id("default", "file://docs/a.md")
    assert doc == "b6a152e4a4b605c1d905e751091868b8"
    assert passage_id(doc, ("H1", "H2"), "text") == "2edc744b71f13ce306c7cdc89a8ad98f"
    assert note_id("default", "note://cli/me", "text") == "9b912ba3f6cc5933fa5c847d9d3c65ff"
    assert embed_hash("text").startswith("2e8395be7cf7c0b9")
    assert raw_digest(b"").startswith("e3b0c44298fc1c14")


@given(parts, parts)
def test_digests_of_different_parts_differ(one: list[str], other: list[str]) -> None:
    assert (digest(*one) == digest(*other)) == (one == other)


def test_where_a_part_ends_matters() -> None:
    assert digest("ab", "c") != digest("a", "bc") != digest("abc")


def test_text_that_no_encoding_can_write_still_has_an_id() -> None:
    assert len(digest("\ud800")) == 64


def test_a_document_is_its_tenant_and_first_place() -> None:
    ids = {document_id("a", "file://d/x"), document_id("b", "file://d/x"), document_id("a", "file://d/y")}
    assert len(ids) == 3
    assert document_id("a", "file://d/x") == document_id("a", "file://d/x", birth=0)
    assert document_id("a", "file://d/x", birth=1) not in ids


def test_a_passage_is_its_document_path_text_and_occurrence() -> None:
    doc, other = document_id("a", "file://d/x"), document_id("a", "file://d/y")
    ids = {
        passage_id(doc, ("H1", "H2"), "text"),
        passage_id(doc, ("H1H2",), "text"),
        passage_id(doc, ("H1",), "text"),
        passage_id(doc, ("H1", "H2"), "text", occurrence=1),
        passage_id(doc, ("H1", "H2"), "Text"),
        passage_id(other, ("H1", "H2"), "text"),
    }
    assert len(ids) == 6
    assert all(len(i) == ID_LENGTH and set(i) <= set("0123456789abcdef") for i in ids)


def test_the_same_note_twice_is_one_memory() -> None:
    assert note_id("a", "note://cli/me", "text") == note_id("a", "note://cli/me", "text")
    assert note_id("a", "note://cli/me", "text") != note_id("b", "note://cli/me", "text")


def test_kinds_of_id_never_collide() -> None:
    assert len({digest("x"), embed_hash("x"), note_id("x", "", ""), document_id("x", "")}) == 4


def test_a_source_has_one_spelling() -> None:
    decomposed = unicodedata.normalize("NFD", "résumé/产品.md")
    assert canonical_source("file", "docs", decomposed) == "file://docs/résumé/产品.md"
    assert canonical_source("file", "docs", "a\\b.md") == "file://docs/a/b.md"
