"""What `Criteria` promise, held to every implementation: exactly the rows they describe, in both arms."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kb.errors import InputError
from kb.model import FOREVER, Kind, Scope, Standing
from kb.ports import Criteria
from kb.trust import NEVER_BORN, GateClause
from tests.fakes.index import InProcessIndex, admits
from tests.index_samples import DIM, TENANT, row, unit, units

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kb.index.milvus import MilvusIndex
    from kb.ports import Index, IndexRow

MANY = 16_384


def found(index: Index, **criteria: Any) -> set[str]:
    """Return the ids that pass, which must be the same in both arms."""
    wanted = Criteria(**{"tenant": TENANT, **criteria})
    dense = [str(c.id) for c in index.dense(unit([1]), wanted, MANY)]
    sparse = [str(c.id) for c in index.sparse("text", wanted, MANY)]
    assert len(set(dense)) == len(dense)
    assert set(sparse) == set(dense)
    return set(dense)


def gate(above: float, born_after: int, *policies: int) -> tuple[GateClause, ...]:
    return (GateClause(policies=policies, above=above, born_after=born_after),)


def test_only_the_named_tenant_is_seen(any_index: Index) -> None:
    any_index.upsert([row(f"{t}{n}", tenant=t) for t in ("acme", "ACM", "acm", "a") for n in range(3)])
    assert found(any_index, tenant="acm") == {"acm0", "acm1", "acm2"}
    assert found(any_index, tenant="a") == {"a0", "a1", "a2"}
    assert found(any_index, tenant="nobody") == set()


def test_a_scope_part_is_seen_by_all_when_empty_and_by_its_owner_when_set(any_index: Index) -> None:
    parts = ("", "x", "y")
    scopes = {f"{a}.{u}.{c}": Scope(agent=a, user=u, conversation=c) for a, u, c in product(parts, parts, parts)}
    any_index.upsert([row(id_, scope=scope) for id_, scope in scopes.items()])
    for a, u, c in product(parts, parts, parts):
        seen = {f"{i}.{j}.{k}" for i in {"", a} for j in {"", u} for k in {"", c}}
        assert found(any_index, scope=Scope(agent=a, user=u, conversation=c)) == seen


def test_standings_narrow_and_none_named_means_all(any_index: Index) -> None:
    any_index.upsert([row(s.value, standing=s.number) for s in Standing if s is not Standing.STAGED])
    assert found(any_index) == {"active"}
    assert found(any_index, standings=(Standing.ACTIVE, Standing.SUPERSEDED)) == {"active", "superseded"}
    assert found(any_index, standings=()) == {"active", "quarantined", "superseded", "retired"}


def test_validity_includes_its_start_and_excludes_its_end(any_index: Index) -> None:
    any_index.upsert(
        [
            row("ever"),
            row("past", valid_from=10, valid_to=20),
            row("next", valid_from=20, valid_to=30),
            row("never", valid_from=20, valid_to=20),
        ]
    )
    assert found(any_index, valid_at=9) == {"ever"}
    assert found(any_index, valid_at=10) == {"ever", "past"}
    assert found(any_index, valid_at=20) == {"ever", "next"}
    assert found(any_index, valid_at=29) == {"ever", "next"}
    assert found(any_index, valid_at=30) == {"ever"}
    assert found(any_index, valid_at=FOREVER - 1) == {"ever"}
    assert found(any_index) == {"ever", "past", "next", "never"}


def test_the_gate_is_strict_in_both_numbers(any_index: Index) -> None:
    numbers = {"low": (0.7, 101), "old": (0.71, 100), "in": (float(np.nextafter(0.7, 1)), 101)}
    any_index.upsert([row(id_, confidence=c, birth=b) for id_, (c, b) in numbers.items()])
    assert found(any_index, gate=gate(0.7, 100)) == {"in"}
    assert found(any_index, gate=gate(0.7, 100), gated_out=True) == {"low", "old"}


def test_the_gate_is_exact_at_the_ends_of_the_number_range(any_index: Index) -> None:
    births = [NEVER_BORN, NEVER_BORN + 1, NEVER_BORN + 2, -1, 0, 1, FOREVER - 1, FOREVER]
    any_index.upsert([row(str(b), birth=b) for b in births])
    for cut in births:
        passing = {str(b) for b in births if b > cut}
        assert found(any_index, gate=gate(0, cut)) == passing
        assert found(any_index, gate=gate(0, cut), gated_out=True) == {str(b) for b in births} - passing


def test_each_clause_gates_its_own_policies_and_the_complement_is_exact(any_index: Index) -> None:
    grid = list(product((0.2, 0.7, 0.9), (50, 100, 150), (1, 2, 3, 9)))
    any_index.upsert([row(f"{c}/{b}/{p}", confidence=c, birth=b, policy=p) for c, b, p in grid])
    clauses = gate(0.5, 60, 1, 3) + gate(0.8, 120, 2)
    passing = {
        f"{c}/{b}/{p}" for c, b, p in grid if (p in (1, 3) and c > 0.5 and b > 60) or (p == 2 and c > 0.8 and b > 120)
    }
    assert found(any_index, gate=clauses) == passing
    assert found(any_index, gate=clauses, gated_out=True) == {f"{c}/{b}/{p}" for c, b, p in grid} - passing


def test_no_gate_passes_all_and_stops_none(any_index: Index) -> None:
    any_index.upsert([row("a"), row("b", confidence=0.0, birth=NEVER_BORN)])
    for none in (None, ()):
        assert found(any_index, gate=none) == {"a", "b"}
        assert found(any_index, gate=none, gated_out=True) == set()


def test_metadata_is_equal_in_kind_and_value(any_index: Index) -> None:
    values: dict[str, Any] = {
        "int": 1,
        "float": 1.5,
        "whole": 2.0,
        "true": True,
        "false": False,
        "text": "1",
        "word": "true",
        "empty": "",
        "zero": 0,
        "none": None,
        "list": [1],
        "big": 2**53 - 1,
        "negative": -7,
    }
    any_index.upsert(
        [row(name, metadata={"v": value}) for name, value in values.items()] + [row("absent", metadata={})]
    )
    expected: list[tuple[str | float, set[str]]] = [
        (1, {"int"}),
        (1.0, {"int"}),
        (1.5, {"float"}),
        (2, {"whole"}),
        (True, {"true"}),
        (False, {"false"}),
        ("1", {"text"}),
        ("true", {"word"}),
        ("", {"empty"}),
        (0, {"zero"}),
        (2**53 - 1, {"big"}),
        (-7, {"negative"}),
        ("absent", set()),
    ]
    for value, names in expected:
        assert found(any_index, metadata={"v": value}) == names, value
    assert found(any_index, metadata={"w": 1}) == set()


def test_every_field_narrows(any_index: Index) -> None:
    any_index.upsert(
        [
            row("a", kind="note", source="file://r/a", doc_id="d1", metadata={"x": 1, "y": "q"}),
            row("b", kind="web", source="file://r/b", doc_id="d1", metadata={"x": 1, "y": "r"}),
            row("c", kind="note", source="file://r/b", doc_id="d2", metadata={"x": 2, "y": "r"}),
        ]
    )
    assert found(any_index, kinds=(Kind.NOTE,)) == {"a", "c"}
    assert found(any_index, kinds=(Kind.NOTE, Kind.WEB)) == {"a", "b", "c"}
    assert found(any_index, sources=("file://r/b",)) == {"b", "c"}
    assert found(any_index, sources=("file://r/b", "file://r/a")) == {"a", "b", "c"}
    assert found(any_index, doc_ids=("d1", "d3")) == {"a", "b"}
    assert found(any_index, metadata={"x": 1, "y": "r"}) == {"b"}
    assert found(any_index, kinds=(Kind.NOTE,), sources=("file://r/b",), doc_ids=("d2",)) == {"c"}
    assert found(any_index, kinds=(Kind.WEB,), doc_ids=("d2",)) == set()


@pytest.mark.parametrize("key", ["", "a b", 'a"]', "1a", "a.b", "é", "a" * 65, "a\n"])
def test_a_metadata_key_that_is_no_plain_word_is_refused(any_index: Index, key: str) -> None:
    with pytest.raises(InputError):
        any_index.dense(unit([1]), Criteria(tenant=TENANT, metadata={key: 1}), 5)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**63, -(2**64), "a\nb", "\r", "\0", "\ud800"])
def test_a_value_that_no_filter_can_hold_is_refused(any_index: Index, value: str | float) -> None:
    with pytest.raises(InputError):
        any_index.sparse("text", Criteria(tenant=TENANT, metadata={"k": value}), 5)


def sample(seed: int, n: int, dim: int) -> list[IndexRow]:
    rng = np.random.default_rng(seed)
    return [
        row(
            f"m{i:05}",
            dense=vector,
            terms="text " + " ".join(f"w{w}" for w in rng.integers(0, 50, 5)),
            confidence=float(rng.random()),
            birth=int(rng.integers(-1000, 1000)),
            policy=int(rng.integers(1, 7)),
            standing=int(rng.integers(0, 3)),
            valid_from=int(rng.integers(0, 50)),
            valid_to=int(rng.integers(50, 100)),
            scope=Scope(agent=str(rng.choice(["", "x"]))),
        )
        for i, vector in enumerate(units(seed, n, dim))
    ]


def criteria(rng: np.random.Generator) -> Criteria:
    share = float(rng.choice([0.001, 0.01, 0.3, 0.9]))
    clauses = (
        GateClause(policies=(1, 2, 3), above=1 - share, born_after=int(rng.integers(-1000, 0))),
        GateClause(policies=(4, 5), above=1 - share, born_after=int(rng.integers(-1000, 500))),
    )
    return Criteria(
        tenant=TENANT,
        scope=Scope(agent=str(rng.choice(["", "x", "y"]))),
        standings=(Standing.ACTIVE, Standing.SUPERSEDED)[: int(rng.integers(0, 3))],
        gate=clauses if rng.random() < 0.8 else gate(1 - share, -2000),
        gated_out=bool(rng.random() < 0.2),
        valid_at=int(rng.integers(0, 100)) if rng.random() < 0.5 else None,
    )


def assert_same(real: Index, oracle: InProcessIndex, rows: Sequence[IndexRow], rng: np.random.Generator) -> None:
    wanted, k = criteria(rng), int(rng.choice([1, 10, 100]))
    admitted = {r.id for r in rows if admits(wanted, r)}
    query = units(int(rng.integers(1 << 30)), 1, rows[0].dense.size)[0]
    got, exact = real.dense(query, wanted, k), oracle.dense(query, wanted, k)
    assert len(got) == min(k, len(admitted))
    assert {c.id for c in got} <= admitted
    assert [c.id for c in got] == [c.id for c in exact]  # no recall is lost, however few pass
    terms = " ".join(f"w{w}" for w in rng.integers(0, 50, 3))
    assert {c.id for c in real.sparse(terms, wanted, MANY)} == {c.id for c in oracle.sparse(terms, wanted, MANY)}


def test_the_gated_search_is_exact_also_when_one_in_a_thousand_passes(new_index: Callable[[int], MilvusIndex]) -> None:
    rows, oracle, real = sample(7, 3000, DIM), InProcessIndex(DIM), new_index(DIM)
    oracle.upsert(rows)
    real.upsert(rows)
    rng = np.random.default_rng(8)
    for _ in range(60):
        assert_same(real, oracle, rows, rng)


@pytest.mark.soak
def test_the_gated_search_stays_exact_through_rewrites(new_index: Callable[[int], MilvusIndex]) -> None:
    rows, oracle, real = sample(9, 5000, 64), InProcessIndex(64), new_index(64)
    rng = np.random.default_rng(10)
    for generation in range(10):
        changed = sample(int(rng.integers(1 << 30)), 5000, 64)
        rows = [new if rng.random() < 0.3 or not generation else old for old, new in zip(rows, changed, strict=True)]
        oracle.upsert(rows)
        real.upsert(rows)
        for _ in range(20):
            assert_same(real, oracle, rows, rng)
