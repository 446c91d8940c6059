"""Two witnesses are two only if neither is an echo of the other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_runtime.evidence import Evidence, Origin
from kb.independence import independent, root_of
from kb.model import Kind, Memory, MemoryId, Scope, SourceClass
from kb.trust import trusted

TRUST = trusted(0.9, 0, 1.0)
NAMES = [f"m{n}" for n in range(8)]
A = Evidence(id="a", origin=Origin.MEMORY, text="", root="docs", doc_id="d1")
B = Evidence(id="b", origin=Origin.MEMORY, text="", root="example.org", doc_id="d2")


def memory(
    kind: Kind, source: str, source_class: SourceClass = SourceClass.DOCUMENT, scope: Scope | None = None
) -> Memory:
    made = {"id": MemoryId("m"), "tenant": "t", "text": "x", "trust": TRUST, "scope": scope or Scope()}
    return Memory(kind=kind, source=source, source_class=source_class, **made)


def note(source: str = "note://agent", **scope: str) -> str:
    return root_of(memory(Kind.NOTE, source, SourceClass.AGENT, Scope(**scope)))


def test_roots_are_who_speaks():
    assert root_of(memory(Kind.DOCUMENT, "file://docs/a/b.md")) == "docs"
    assert root_of(memory(Kind.DOCUMENT, "file://docs/a/b.md"), "handbook") == "handbook"
    assert root_of(memory(Kind.WEB, "https://www.news.example.co.uk/x", SourceClass.WEB)) == "example.co.uk"
    assert root_of(memory(Kind.ANSWER, "answer://key", SourceClass.ANSWER)) == ""


def test_who_may_read_a_note_says_nothing_of_who_wrote_it_so_that_notes_of_one_kind_are_one_witness():
    assert len({note(agent="x", conversation="1"), note(agent="y"), note(user="x"), note()}) == 1
    person = root_of(memory(Kind.NOTE, "note://person", SourceClass.PERSON))
    assert person != note()


def test_a_note_that_credits_a_page_is_no_second_witness_of_that_page():
    assert note("https://www.example.org/x", agent="x") == root_of(
        memory(Kind.WEB, "https://example.org/y", SourceClass.WEB)
    )


def test_different_roots_without_common_lineage_are_independent():
    assert independent(A, B, {})
    assert independent(A, B, {"a": frozenset({"p"}), "b": frozenset({"q"})})


@pytest.mark.parametrize(
    ("one", "other", "ancestors"),
    [
        (A, replace(B, root="docs"), {}),
        (A, replace(B, root=""), {}),
        (A, replace(B, doc_id="d1"), {}),
        (A, replace(B, id="a"), {}),
        (A, replace(B, source_class=SourceClass.ANSWER), {}),
        (A, B, {"b": frozenset({"a"})}),
        (A, B, {"a": frozenset({"x", "b"})}),
        (A, B, {"a": frozenset({"x"}), "b": frozenset({"x", "y"})}),
    ],
    ids=[
        "one root",
        "no root",
        "one document",
        "itself",
        "an answer",
        "derived",
        "derived the other way",
        "one ancestor",
    ],
)
def test_an_echo_is_never_independent(one, other, ancestors):
    assert not independent(one, other, ancestors)
    assert not independent(other, one, ancestors)


def test_having_been_found_by_the_same_search_is_no_lineage():
    search = frozenset({"search://tavily/bridge"})
    assert independent(A, B, {"a": search, "b": search})


@st.composite
def families(draw) -> tuple[list[Evidence], dict[str, frozenset[str]]]:
    """Random lineages without cycles: each memory comes from some of those before it."""
    ancestors: dict[str, frozenset[str]] = {}
    for position, name in enumerate(NAMES):
        parents = draw(st.sets(st.sampled_from(NAMES[:position]), max_size=2)) if position else set()
        ancestors[name] = frozenset(parents).union(*(ancestors[p] for p in parents))
    roots = draw(st.lists(st.sampled_from(["", "p", "q", "r"]), min_size=len(NAMES), max_size=len(NAMES)))
    made = [Evidence(id=n, origin=Origin.MEMORY, text="", root=r) for n, r in zip(NAMES, roots, strict=True)]
    return made, ancestors


@given(families())
def test_on_any_lineage_independence_is_symmetric_and_excludes_every_echo(family):
    evidence, ancestors = family
    for one in evidence:
        assert not independent(one, one, ancestors)
        for other in evidence:
            found = independent(one, other, ancestors)
            assert found == independent(other, one, ancestors)
            lines = [ancestors[e.id] | {e.id} for e in (one, other)]
            assert found == (one.root != other.root and "" not in (one.root, other.root) and not lines[0] & lines[1])


@given(families(), st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_more_lineage_never_makes_more_witnesses(family, child, parent):
    evidence, ancestors = family
    more = {**ancestors, child: ancestors[child] | {parent}}
    for one in evidence:
        for other in evidence:
            assert independent(one, other, ancestors) or not independent(one, other, more)
