"""Laws of the blast radius, on random lineages against closures found by brute force."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governance.blast import LineageCycle, blast
from kb.errors import IntegrityError
from kb.history import Edge, EdgeKind

MOST = 14


def an_edge(parent: str, child: str, kind: EdgeKind = EdgeKind.DERIVED) -> Edge:
    return Edge(tenant="default", parent=parent, child=child, kind=kind)


@st.composite
def lineages(draw: st.DrawFn) -> tuple[list[str], list[Edge], set[str]]:
    """Draw ids in an order, steps that never go back in it (some of two kinds), and roots."""
    ids = [f"n{n:02d}" for n in draw(st.permutations(range(draw(st.integers(1, MOST)))))]
    pairs = [(a, b) for i, a in enumerate(ids) for b in ids[i + 1 :]]
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=3 * MOST)) if pairs else []
    edges = [an_edge(a, b, draw(st.sampled_from(EdgeKind))) for a, b in chosen]
    return ids, edges, set(draw(st.lists(st.sampled_from(ids), max_size=4)))


def closure(roots: set[str], edges: list[Edge]) -> set[str]:
    """Return what roots lead to, by repeating every step until nothing new comes."""
    found = set(roots)
    while more := {e.child for e in edges if e.parent in found} - found:
        found |= more
    return found


def nearest(roots: set[str], edges: list[Edge]) -> dict[str, int]:
    """Return the fewest steps to each id, by relaxing every step as often as there are ids."""
    far = dict.fromkeys(roots, 0)
    for _ in range(MOST + 1):
        for e in edges:
            if e.parent in far:
                far[e.child] = min(far.get(e.child, MOST * 2), far[e.parent] + 1)
    return far


@given(lineages())
def test_every_descendant_is_found_and_nothing_else(lineage: tuple[list[str], list[Edge], set[str]]) -> None:
    _, edges, roots = lineage
    found, expected = blast(roots, edges), closure(roots, edges)
    assert found.ids == expected, "recall and precision are 1"
    assert found.descendants == expected - roots


@given(lineages())
def test_the_reason_is_a_shortest_way_from_a_root(lineage: tuple[list[str], list[Edge], set[str]]) -> None:
    _, edges, roots = lineage
    found, steps = blast(roots, edges), {(e.parent, e.child) for e in edges}
    for id_, fewest in nearest(roots, edges).items():
        way = found.path(id_)
        assert way[0] in roots
        assert way[-1] == id_
        assert set(pairwise(way)) <= steps
        assert len(way) - 1 == found.distances[id_] == fewest


@given(lineages(), st.randoms(use_true_random=False))
def test_the_order_of_the_steps_does_not_matter(
    lineage: tuple[list[str], list[Edge], set[str]], numbers: object
) -> None:
    _, edges, roots = lineage
    mixed = list(edges)
    numbers.shuffle(mixed)  # type: ignore[attr-defined] # a Random
    once, again = blast(roots, edges), blast(sorted(roots, reverse=True), mixed)
    assert {i: once.path(i) for i in once.ids} == {i: again.path(i) for i in again.ids}


@given(lineages(), st.data())
def test_a_circle_is_refused_by_its_name_where_a_root_leads_to_it(
    lineage: tuple[list[str], list[Edge], set[str]], data: st.DataObject
) -> None:
    ids, edges, roots = lineage
    late = data.draw(st.integers(0, len(ids) - 1))
    early = data.draw(st.integers(0, late))
    back = an_edge(ids[late], ids[early])
    closes = ids[late] in closure({ids[early]}, edges)  # a step to itself closes one, too
    reaches = ids[late] in closure(roots, [*edges, back])
    if not (closes and reaches):
        blast(roots, [*edges, back])
        return
    with pytest.raises(LineageCycle) as refusal:
        blast(roots, [*edges, back])
    circle = refusal.value.cycle
    assert circle[0] == circle[-1]
    assert set(pairwise(circle)) <= {(e.parent, e.child) for e in [*edges, back]}
    assert all(id_ in str(refusal.value) for id_ in circle)
    assert isinstance(refusal.value, IntegrityError)


def test_a_lineage_of_a_hundred_thousand_steps_needs_no_recursion() -> None:
    edges = [an_edge(f"n{n}", f"n{n + 1}") for n in range(100_000)]
    assert blast({"n0"}, edges).distances["n100000"] == 100_000
