"""Every sentence of the `Index` contract about writing and reading, held to every implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kb.errors import InputError, IntegrityError
from kb.model import MemoryId
from kb.ports import Criteria
from tests.index_samples import DIM, TENANT, row, unit, units

if TYPE_CHECKING:
    from collections.abc import Callable

    from kb.index.milvus import MilvusIndex
    from kb.ports import Candidate, Index

ALL = Criteria(tenant=TENANT, standings=())


def ids(candidates: list[Candidate]) -> list[str]:
    return [str(candidate.id) for candidate in candidates]


def test_an_empty_index_has_no_rows_and_finds_nothing(any_index: Index) -> None:
    assert any_index.count() == 0
    assert list(any_index.revisions()) == []
    assert any_index.dense(unit([1]), ALL, 5) == []
    assert any_index.sparse("text", ALL, 5) == []


def test_empty_inputs_are_no_error_and_change_nothing(any_index: Index) -> None:
    any_index.upsert([row("a")])
    any_index.upsert([])
    any_index.delete([])
    assert list(any_index.revisions()) == [("a", 1)]
    assert any_index.sparse("", ALL, 5) == []
    assert any_index.sparse("  \n ", ALL, 5) == []
    assert any_index.dense(unit([1]), ALL, 0) == []


def test_a_write_is_visible_to_the_next_search(any_index: Index) -> None:
    for n in range(20):
        any_index.upsert([row(f"m{n}", dense=unit([1, n]), terms=f"word{n}")])
        assert ids(any_index.dense(unit([1, n]), ALL, 1)) == [f"m{n}"]
        assert ids(any_index.sparse(f"word{n}", ALL, 5)) == [f"m{n}"]
        assert any_index.count() == n + 1


def test_writing_the_same_rows_again_changes_nothing(any_index: Index) -> None:
    rows = [row(f"m{n}", dense=unit([1, n]), terms=f"word{n} shared") for n in range(10)]
    any_index.upsert(rows)
    before = any_index.dense(unit([1, 3]), ALL, 10), any_index.sparse("shared word3", ALL, 10)
    any_index.upsert(rows)
    any_index.upsert(rows[:3])
    assert (any_index.dense(unit([1, 3]), ALL, 10), any_index.sparse("shared word3", ALL, 10)) == before
    assert any_index.count() == 10


def test_an_upsert_replaces_the_whole_row(any_index: Index) -> None:
    any_index.upsert([row("a", terms="old", dense=unit([1]), metadata={"x": 1, "y": 2}, doc_id="d1", rev=1)])
    any_index.upsert([row("a", terms="new", dense=unit([0, 1]), metadata={"y": 3}, doc_id="d2", rev=2, confidence=0.1)])
    assert list(any_index.revisions()) == [("a", 2)]
    assert any_index.sparse("old", ALL, 5) == []
    assert ids(any_index.sparse("new", ALL, 5)) == ["a"]
    assert any_index.dense(unit([0, 1]), ALL, 5)[0].score == pytest.approx(1, abs=1e-5)
    assert any_index.dense(unit([1]), Criteria(tenant=TENANT, metadata={"x": 1}), 5) == []
    assert any_index.dense(unit([1]), Criteria(tenant=TENANT, doc_ids=("d1",)), 5) == []
    assert ids(any_index.dense(unit([1]), Criteria(tenant=TENANT, metadata={"y": 3}, doc_ids=("d2",)), 5)) == ["a"]


def test_a_row_may_move_to_another_tenant(any_index: Index) -> None:
    any_index.upsert([row("a")])
    any_index.upsert([row("a", tenant="other")])
    assert any_index.dense(unit([1]), ALL, 5) == []
    assert ids(any_index.dense(unit([1]), Criteria(tenant="other"), 5)) == ["a"]
    assert any_index.count() == 1


def test_of_rows_with_one_id_in_a_call_the_last_wins(any_index: Index) -> None:
    any_index.upsert([row("a", rev=1, terms="one"), row("b"), row("a", rev=2, terms="two")])
    assert list(any_index.revisions()) == [("a", 2), ("b", 1)]
    assert ids(any_index.sparse("two", ALL, 5)) == ["a"]
    assert any_index.sparse("one", ALL, 5) == []


def test_a_call_may_carry_more_rows_than_a_request(any_index: Index) -> None:
    vectors = units(1, 2500)
    any_index.upsert([row(f"m{n:05}", dense=v) for n, v in enumerate(vectors)])
    assert any_index.count() == 2500
    any_index.delete([MemoryId(f"m{n:05}") for n in range(0, 2500, 2)])
    assert [id_ for id_, _ in any_index.revisions()] == [f"m{n:05}" for n in range(1, 2500, 2)]


def test_large_rows_are_taken_whole(any_index: Index) -> None:
    text = "语" * 21_845  # 65,535 bytes
    any_index.upsert([row(f"m{n}", text=text, terms="w " * 20_000, metadata={"k": "é" * 32_000}) for n in range(120)])
    assert any_index.count() == 120


def test_deleting_twice_or_what_is_not_there_is_no_error(any_index: Index) -> None:
    any_index.upsert([row("a"), row("b")])
    any_index.delete([MemoryId("a"), MemoryId("a"), MemoryId("never")])
    any_index.delete([MemoryId("a")])
    assert ids(any_index.dense(unit([1]), ALL, 5)) == ["b"]
    assert any_index.sparse("a", ALL, 5) == []
    assert list(any_index.revisions()) == [("b", 1)]
    any_index.upsert([row("a", rev=7)])
    assert list(any_index.revisions()) == [("a", 7), ("b", 1)]


def test_dense_results_are_exact_distinct_and_best_first(any_index: Index) -> None:
    vectors = units(2, 400)
    any_index.upsert([row(f"m{n:03}", dense=v) for n, v in enumerate(vectors)])
    for query in units(3, 10):
        found = any_index.dense(query, ALL, 25)
        cosines = vectors @ query
        assert ids(found) == [f"m{n:03}" for n in np.argsort(-cosines)[:25]]
        assert [c.score for c in found] == pytest.approx(sorted(cosines, reverse=True)[:25], abs=1e-5)


def test_cosine_scores_stay_in_range_and_ignore_the_query_length(any_index: Index) -> None:
    any_index.upsert([row("same", dense=unit([1, 2, 3])), row("opposite", dense=-unit([1, 2, 3]))])
    same, opposite = any_index.dense(unit([1, 2, 3]) * 7, ALL, 2)
    assert (same.id, opposite.id) == ("same", "opposite")
    assert 1 >= same.score == pytest.approx(1, abs=1e-5)
    assert -1 <= opposite.score == pytest.approx(-1, abs=1e-5)


def test_min_of_matches_and_k_rows_are_returned(any_index: Index) -> None:
    any_index.upsert([row(f"m{n}", dense=v, terms="shared") for n, v in enumerate(units(4, 30))])
    for k, n in ((1, 1), (29, 29), (30, 30), (31, 30), (16_384, 30)):
        assert len(set(ids(any_index.dense(unit([1]), ALL, k)))) == n
        assert len(set(ids(any_index.sparse("shared", ALL, k)))) == n


def test_bm25_prefers_rare_terms_and_more_of_them_and_shorter_rows(any_index: Index) -> None:
    any_index.upsert(
        [
            row("both", terms="common rare x x"),
            row("rare", terms="rare x x x"),
            row("twice", terms="rare rare x x"),
            row("long", terms="rare " + "x " * 30),
            *(row(f"c{n}", terms="common x x x") for n in range(20)),
        ]
    )
    assert ids(any_index.sparse("rare", ALL, 10))[::3] == ["twice", "long"]
    assert ids(any_index.sparse("common rare", ALL, 30))[:3] == ["twice", "both", "rare"]
    assert all(c.score > 0 for c in any_index.sparse("rare common", ALL, 30))


def test_rows_that_share_no_term_are_absent(any_index: Index) -> None:
    any_index.upsert([row("a", terms="alpha"), row("b", terms="beta"), row("none", terms="")])
    assert ids(any_index.sparse("alpha gamma", ALL, 10)) == ["a"]
    assert any_index.sparse("gamma", ALL, 10) == []


@pytest.mark.parametrize(
    "term",
    [
        "人工智能",
        "sku-2024-x5",
        "v2.3.1",
        "c++",
        "naïve",
        "user@example.com",
        "😀",
        "a/b\\c",
        '"quoted"',
        "ß",
        "x" * 128,
        "语" * 40,
    ],
)
def test_terms_are_found_whole_and_as_they_are(any_index: Index, term: str) -> None:
    any_index.upsert([row("a", terms=f"some {term} here"), row("b", terms=f"some {term}x here"), row("c", terms="ss")])
    assert ids(any_index.sparse(term, ALL, 5)) == ["a"]


def test_results_keep_their_filter_in_both_arms(any_index: Index) -> None:
    any_index.upsert([row(f"m{n}", dense=v, doc_id=f"d{n % 3}") for n, v in enumerate(units(5, 60))])
    criteria = Criteria(tenant=TENANT, doc_ids=("d1",))
    wanted = {f"m{n}" for n in range(1, 60, 3)}
    assert set(ids(any_index.dense(unit([1]), criteria, 60))) == wanted
    assert set(ids(any_index.sparse("text", criteria, 60))) == wanted


def test_revisions_are_complete_ordered_and_distinct_beyond_a_servers_page(
    new_index: Callable[[int], MilvusIndex],
) -> None:
    index, n = new_index(2), 17_011
    vector = np.array([1, 0], np.float32)
    numbers = np.random.default_rng(6).permutation(n)
    index.upsert([row(f"{i * 7919:x}", dense=vector, rev=int(i), text="", terms="") for i in numbers])
    found = list(index.revisions())
    assert found == sorted((f"{i * 7919:x}", i) for i in range(n))
    assert index.count() == n
    index.delete([id_ for id_, _ in found[5000:15_000]])
    assert list(index.revisions()) == found[:5000] + found[15_000:]


@pytest.mark.parametrize("k", [16_385, 10**9])
def test_more_results_than_a_server_returns_are_refused(any_index: Index, k: int) -> None:
    with pytest.raises(InputError):
        any_index.dense(unit([1]), ALL, k)
    with pytest.raises(InputError):
        any_index.sparse("text", ALL, k)


@pytest.mark.parametrize(
    "vector", [np.full(DIM, np.nan, np.float32), np.zeros(DIM, np.float32), np.ones(DIM + 1, np.float32)]
)
def test_a_query_vector_that_means_nothing_is_refused(any_index: Index, vector: np.ndarray) -> None:
    any_index.upsert([row("a")])
    with pytest.raises(InputError):
        any_index.dense(vector, ALL, 5)


def test_a_bad_row_stops_the_whole_call(any_index: Index) -> None:
    good = [row(f"m{n:04}") for n in range(1500)]
    with pytest.raises(IntegrityError, match="bad"):
        any_index.upsert([*good, row("bad", confidence=float("nan"))])
    assert any_index.count() == 0


def test_a_tenant_is_always_named(any_index: Index) -> None:
    with pytest.raises(InputError):
        any_index.dense(unit([1]), Criteria(tenant=""), 5)
    with pytest.raises(InputError):
        any_index.sparse("text", Criteria(tenant=""), 5)
