"""Identities come from content: equal everywhere, different wherever the claim differs."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from kb.ids import ID_LENGTH, canonical_source, digest, document_id, embed_hash, note_id, passage_id, raw_digest
from kb.model import MemoryId, Scope, SourceClass

parts = st.lists(st.text(), min_size=1, max_size=4)


def a_note_id(
    *,
    tenant: str = "default",
    source: str = "note://cli/me",
    text: str = "text",
    by: SourceClass = SourceClass.PERSON,
    scope: Scope = Scope(),  # noqa: B008 - frozen
) -> MemoryId:
    return note_id(tenant, source, text, by=by, scope=scope)


def test_ids_are_the_same_on_every_machine_and_in_every_release() -> None:
    doc = document_id("default", "file://docs/a.md")
    assert doc == "b6a152e4a4b605c1d905e751091868b8"
    assert passage_id(doc, ("H1", "H2"), "text") == "2edc744b71f13ce306c7cdc89a8ad98f"
    assert a_note_id() == "4c8f3805501549114c318ddf2157a1bb"
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
    assert a_note_id() == a_note_id()


def test_a_note_is_its_tenant_author_source_scope_and_text() -> None:
    scopes = [Scope(agent="x"), Scope(user="x"), Scope(conversation="x"), Scope(user="x", agent="y")]
    ids = {
        a_note_id(),
        a_note_id(tenant="acme"),
        a_note_id(by=SourceClass.AGENT),
        a_note_id(source="note://cli/you"),
        a_note_id(text="Text"),
        *(a_note_id(scope=scope) for scope in scopes),
    }
    assert len(ids) == 9


def test_kinds_of_id_never_collide() -> None:
    note = a_note_id(tenant="x", source="", text="")
    assert len({digest("x"), embed_hash("x"), note, document_id("x", "")}) == 4


def test_a_source_has_one_spelling() -> None:
    decomposed = unicodedata.normalize("NFD", "résumé/产品.md")
    assert canonical_source("file", "docs", decomposed) == "file://docs/résumé/产品.md"
    assert canonical_source("file", "docs", "a\\b.md") == "file://docs/a/b.md"
