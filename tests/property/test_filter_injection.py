"""No text of a caller can widen a search: it is refused, or it finds exactly what Python's own reading of it finds."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from kb.errors import InputError
from kb.index import filters
from kb.model import MemoryId, Scope
from kb.ports import Criteria
from tests.fakes.index import admits
from tests.index_samples import row, unit

if TYPE_CHECKING:
    from kb.index.milvus import MilvusIndex
    from kb.ports import IndexRow

ATTACKS = [
    '" or id != "',
    '" or 1 == 1 or "" == "',
    "x' or tenant != 'y",
    '\\" or id != \\"',
    "\\",
    '\\"',
    '\\\\" or id != "',
    "n",  # what Milvus Lite makes of an escaped line break
    "\n",
    "\t",
    "\b",
    "b",
    "\x01",
    "u0001",
    '\n" or id != "',
    "{tenant}",
    "%",
    "_",
    "like",
    "null",
    "true",
    "1",
    '"] or id != metadata["',
    "] or id in [",
    "/* */",
    "--",
    "语\u2028😀\u202e",
    "\x85\xa0\ufeff",
    "ａ＂ ｏｒ",
    "a" * 300,
]
texts = st.one_of(
    st.sampled_from(ATTACKS),
    st.text(max_size=12),
    st.text(alphabet="\"\\' \n\r\t\b01nrtbux[]()=or{}%", max_size=16),
    st.lists(st.sampled_from(ATTACKS), min_size=2, max_size=3).map("".join),
    st.text(alphabet=st.characters(categories=["Cs", "Cc"]), min_size=1, max_size=3),  # half characters, controls
)
values = st.one_of(texts, st.integers(), st.floats(), st.booleans())
keys = st.one_of(st.sampled_from(["k", "v", "k_1", 'k"] == metadata["k', "k.v", "", "k]", "$meta"]), texts)
scopes = st.builds(Scope, agent=st.just("") | texts, user=st.just("") | texts, conversation=st.just(""))
everything = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])

_numbers = count()


def a_few() -> list[IndexRow]:
    """Return rows of two tenants that any widened filter would show."""
    return [
        row("one", tenant="victim", metadata={"k": "v"}),
        row("two", tenant="victim", scope=Scope(agent="x", user="y"), source="s", doc_id="d", kind="note"),
        row("three", tenant="n", metadata={"k": 1, "v": "n"}, source="n", doc_id="n"),
        row("four", tenant="b", metadata={"k": True, "v": "b"}, scope=Scope(agent="b")),
    ]


@pytest.fixture(scope="module")
def filled(shared_index: MilvusIndex) -> MilvusIndex:
    shared_index.upsert(a_few())
    return shared_index


def is_storable(text: str) -> bool:
    return filters.UNSPEAKABLE.search(text) is None and len(text.encode()) <= 256


def assert_harmless(index: MilvusIndex, rows: list[IndexRow], criteria: Criteria) -> None:
    wanted = {r.id for r in rows if admits(criteria, r)}
    try:
        dense = {c.id for c in index.dense(unit([1]), criteria, 100)}
        sparse = {c.id for c in index.sparse("text", criteria, 100)}
    except InputError:
        return
    assert dense == wanted
    assert sparse == wanted


@everything
@given(tenant=texts, scope=scopes, source=texts, doc_id=texts, kind=texts, which=st.sets(st.integers(0, 3)))
@example(tenant="\n", scope=Scope(), source="", doc_id="", kind="", which=set())
@example(tenant='" or id != "', scope=Scope(agent='" or id != "'), source="", doc_id="", kind="", which={0})
def test_texts_in_columns_never_widen_a_search(
    filled: MilvusIndex, tenant: str, scope: Scope, source: str, doc_id: str, kind: str, which: set[int]
) -> None:
    narrowed: list[dict[str, Any]] = [{"sources": (source,)}, {"doc_ids": (doc_id, "n")}, {"kinds": (kind,)}, {}]
    chosen = {key: value for n in which for key, value in narrowed[n].items()}
    for name in (tenant, "victim", "n"):
        assert_harmless(filled, a_few(), Criteria(tenant=name, scope=scope, standings=(), **chosen))


@everything
@given(key=keys, value=values)
@example(key="k", value='v" or id != "')
@example(key="v", value="\n")
@example(key="k", value=1)
@example(key="k", value=True)
def test_metadata_keys_and_values_never_widen_a_search(filled: MilvusIndex, key: str, value: str | float) -> None:
    for tenant in ("victim", "n", "b"):
        assert_harmless(filled, a_few(), Criteria(tenant=tenant, scope=Scope(agent="b"), metadata={key: value}))


@everything
@given(text=texts)
def test_a_text_that_can_be_stored_finds_its_own_row_and_no_other(filled: MilvusIndex, text: str) -> None:
    assume(text and is_storable(text))
    id_ = f"own{next(_numbers)}"
    own = row(id_, tenant=text, scope=Scope(agent=text, user=text), source=text, doc_id=text[:30], metadata={"k": text})
    filled.upsert([own])
    try:
        criteria = Criteria(
            tenant=text,
            scope=Scope(agent=text, user=text),
            sources=(text, "other"),
            doc_ids=(text[:30],),
            metadata={"k": text},
        )
        assert [c.id for c in filled.dense(unit([1]), criteria, 10)] == [id_]
        assert_harmless(filled, [*a_few(), own], Criteria(tenant=text, standings=(), scope=Scope(agent=text)))
    finally:
        filled.delete([own.id])


@everything
@given(ids=st.lists(texts, min_size=1, max_size=3))
def test_ids_to_delete_delete_nothing_else(filled: MilvusIndex, ids: list[str]) -> None:
    try:
        filled.delete([MemoryId(id_) for id_ in ids])
    except InputError:
        return
    assert filled.count() == len(a_few())
