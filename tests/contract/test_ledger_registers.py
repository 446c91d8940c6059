"""Embedding cache, outbox, sources, runs, facts and collections, on both databases."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kb.errors import InputError, IntegrityError
from kb.ledger.collections import Collection, CollectionState
from kb.ledger.runs import Run, RunStatus
from kb.model import MemoryId, SourceClass, SourceRoot, Standing
from tests.ledger_samples import NOW, a_memory

if TYPE_CHECKING:
    from kb.ledger import Ledger
    from kb.model import Json
    from kb.ports import Vector


def vectors(*names: str, seed: int = 1) -> dict[str, Vector]:
    numbers = np.random.default_rng(seed)
    return {name: numbers.standard_normal(8).astype(np.float32) for name in names}


def same(left: dict[str, Vector], right: dict[str, Vector]) -> bool:
    return left.keys() == right.keys() and all(np.array_equal(left[k], right[k]) for k in left)


def test_a_vector_comes_back_bit_for_bit(ledger: Ledger) -> None:
    given = vectors("a", "b") | {"odd": np.array([0.0, -0.0, 1e-45, 3.4e38], dtype=np.float32)}
    with ledger.write() as tx:
        tx.embeddings.put("e5", given)
    with ledger.read() as tx:
        found = tx.embeddings.get("e5", ["b", "a", "odd", "nobody", "a"])
        assert tx.embeddings.get("other model", ["a"]) == {}
    assert {k: v.tobytes() for k, v in found.items()} == {k: v.tobytes() for k, v in given.items()}
    assert {v.dtype for v in found.values()} == {np.dtype(np.float32)}


def test_caching_again_changes_nothing_and_another_vector_replaces(ledger: Ledger) -> None:
    first, second = vectors("a", "b"), vectors("a", seed=2)
    for put in (first, first, second):
        with ledger.write() as tx:
            tx.embeddings.put("e5", put)
    with ledger.read() as tx:
        assert same(tx.embeddings.get("e5", ["a", "b"]), first | second)


def test_missing_names_what_is_not_cached_once_and_in_order(ledger: Ledger) -> None:
    names = [f"h{i:04d}" for i in range(2_300)]
    with ledger.write() as tx:
        tx.embeddings.put("e5", vectors(*names[::2]))
    with ledger.read() as tx:
        assert tx.embeddings.missing("e5", [*names, names[1]]) == names[1::2]
        assert tx.embeddings.missing("e6", names[:2]) == names[:2]
        assert len(tx.embeddings.get("e5", names)) == 1_150


def test_vectors_that_no_memory_needs_are_dropped(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.memories.add([a_memory(1, embed_hash="used"), a_memory(2, embed_hash="used")])
        tx.embeddings.put("e5", vectors("used", "idle"))
        tx.embeddings.put("e6", vectors("used", "idle", "idler"))
    with ledger.write() as tx:
        assert tx.embeddings.drop_unused("e5") == 1
        assert tx.embeddings.missing("e6", ["used", "idle", "idler"]) == []
        assert tx.embeddings.drop_unused() == 2
        assert set(tx.embeddings.get("e6", ["used", "idle", "idler"])) == {"used"}
        assert set(tx.embeddings.get("e5", ["used", "idle"])) == {"used"}


@pytest.mark.parametrize(
    "bad", [np.array([np.nan]), np.array([np.inf]), np.array([]), np.ones((2, 2)), np.array([1e39])]
)
def test_a_vector_that_is_no_row_of_finite_numbers_is_refused(ledger: Ledger, bad: Vector) -> None:
    with pytest.raises(InputError, match="finite"), ledger.write() as tx:
        tx.embeddings.put("e5", vectors("a") | {"bad": bad})
    with ledger.read() as tx:
        assert tx.embeddings.missing("e5", ["a"]) == ["a"]


def ids(*names: str) -> list[MemoryId]:
    return [MemoryId(name) for name in names]


def test_the_outbox_gives_back_what_was_marked_in_order(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.outbox.mark(ids("c", "a", "c"), NOW)
        tx.outbox.mark(ids("b", "a"), NOW + 5)
        tx.outbox.mark([], NOW)
    with ledger.read() as tx:
        pending = tx.outbox.pending(100)
        assert tx.outbox.pending(2) == pending[:2]
        assert tx.outbox.lag() == (4, NOW)
    assert [i for _, i in pending] == ["c", "a", "b", "a"]
    assert [seq for seq, _ in pending] == sorted({seq for seq, _ in pending})


def test_everything_that_belongs_in_the_index_can_be_marked(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.memories.add([a_memory(i, standing=standing) for i, standing in enumerate(Standing)])
        tx.outbox.mark_everything(NOW + 3)
    with ledger.read() as tx:
        belong = [key for key, _ in tx.memories.revisions("", 100)]
        assert [key for _, key in tx.outbox.pending(100)] == belong
        assert tx.outbox.lag() == (len(belong), NOW + 3)


def test_clearing_takes_only_what_was_applied(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.outbox.mark(ids("a", "b"), NOW)
    with ledger.read() as tx:
        applied = [seq for seq, _ in tx.outbox.pending(10)]
    with ledger.write() as tx:
        tx.outbox.mark(ids("a"), NOW + 9)  # changed again while it was applied
    with ledger.write() as tx:
        assert tx.outbox.clear(applied) == 2
        assert tx.outbox.clear(applied) == 0
        assert [i for _, i in tx.outbox.pending(10)] == ["a"]
        assert tx.outbox.lag() == (1, NOW + 9)


def test_a_cleared_number_is_never_given_out_again(ledger: Ledger) -> None:
    last = 0
    for _ in range(3):
        with ledger.write() as tx:
            tx.outbox.mark(ids("a"), NOW)
        with ledger.write() as tx:
            [(seq, _)] = tx.outbox.pending(10)
            assert seq > last
            tx.outbox.clear([seq])
            assert tx.outbox.lag() == (0, None)
        last = seq


def test_sources_are_registered_by_tenant_and_name(ledger: Ledger) -> None:
    options: dict[str, Json] = {"include": ["*.md"], "confidence": 0.8, "verified": None}
    root = SourceRoot(
        name="handbook",
        tenant="acme",
        location="./docs",
        source_class=SourceClass.CURATED,
        options=options,
        registered_at=NOW,
    )
    later = replace(root, location="./other", synced_at=NOW + 1, options={})
    other = replace(root, name="api")
    foreign = replace(root, tenant="globex")
    with ledger.write() as tx:
        for each in (root, other, foreign):
            tx.sources.put(each)
        assert tx.sources.get("acme", "handbook") == root
        tx.sources.put(later)
    with ledger.read() as tx:
        assert tx.sources.get("acme", "handbook") == later
        assert tx.sources.get("acme", "nothing") is None
        assert tx.sources.list("acme") == [other, later]
        assert tx.sources.list() == [other, later, foreign]


def test_a_run_is_recorded_from_its_start_to_its_end(ledger: Ledger) -> None:
    with ledger.write() as tx:
        started = tx.runs.start("r1", kind="ingest", tenant="acme", root="handbook", at=NOW)
        assert tx.runs.get("r1") == started == tx.runs.latest("ingest")
        assert tx.runs.heartbeat("r1", NOW + 5)
    report: dict[str, Json] = {"documents": {"added": 3}}
    with ledger.write() as tx:
        tx.runs.finish("r1", RunStatus.PARTIAL, NOW + 9, report=report)
        assert not tx.runs.heartbeat("r1", NOW + 10)
    with ledger.read() as tx:
        assert tx.runs.get("r1") == Run(
            id="r1",
            kind="ingest",
            tenant="acme",
            root="handbook",
            status=RunStatus.PARTIAL,
            started_at=NOW,
            heartbeat_at=NOW + 9,
            finished_at=NOW + 9,
            report=report,
        )


def test_a_run_id_is_taken_once_and_an_unknown_one_cannot_finish(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.runs.start("r1", kind="ingest", at=NOW)
    with pytest.raises(IntegrityError), ledger.write() as tx:
        tx.runs.start("r1", kind="ingest", at=NOW)
    with pytest.raises(IntegrityError, match="no run r2"), ledger.write() as tx:
        tx.runs.finish("r2", RunStatus.DONE, NOW, report={})


def test_runs_are_listed_last_first_and_narrowed(ledger: Ledger) -> None:
    with ledger.write() as tx:
        for number, (kind, root) in enumerate([("ingest", "a"), ("ingest", "b"), ("reindex", ""), ("ingest", "a")]):
            tx.runs.start(f"r{number}", kind=kind, tenant="acme", root=root, at=NOW + number)
    with ledger.read() as tx:
        assert [r.id for r in tx.runs.list(3)] == ["r3", "r2", "r1"]
        assert [r.id for r in tx.runs.list(9, kind="ingest", root="a")] == ["r3", "r0"]
        latest = tx.runs.latest("ingest", tenant="acme", root="b")
        assert latest is not None
        assert latest.id == "r1"
        assert tx.runs.latest("ingest", tenant="globex") is None


def test_runs_whose_heart_stopped_are_marked_interrupted(ledger: Ledger) -> None:
    with ledger.write() as tx:
        for number in range(4):
            tx.runs.start(f"r{number}", kind="ingest" if number < 3 else "sync", at=NOW + number)
        tx.runs.heartbeat("r0", NOW + 100)
        tx.runs.finish("r1", RunStatus.DONE, NOW + 2, report={})
        assert tx.runs.interrupt_stale(NOW + 50, NOW + 200, kind="ingest") == ["r2"]
        assert tx.runs.interrupt_stale(NOW + 50, NOW + 200) == ["r3"]
        assert tx.runs.interrupt_stale(NOW + 50, NOW + 200) == []
    with ledger.read() as tx:
        states = {r.id: (r.status, r.finished_at) for r in tx.runs.list(9)}
    assert states["r0"] == (RunStatus.RUNNING, None)
    assert states["r1"] == (RunStatus.DONE, NOW + 2)
    assert states["r2"] == states["r3"] == (RunStatus.INTERRUPTED, NOW + 200)


@pytest.mark.parametrize(
    "value", [None, 0, "文", [1, None, {"a": []}], {"big": 2**70, "float": 1e300, "e": "é\n"}, True]
)
def test_a_fact_comes_back_as_it_went_in(ledger: Ledger, value: Json) -> None:
    with ledger.write() as tx:
        assert tx.meta.get("k") is None
        assert tx.meta.get("k", "default") == "default"
        tx.meta.set("k", "before")
        tx.meta.set("k", value)
    with ledger.read() as tx:
        found = tx.meta.get("k", "default")
    assert (type(found), found) == (type(value), value)


def test_one_collection_is_current_and_a_switch_drops_the_one_before(ledger: Ledger) -> None:
    first = Collection(name="kb_1", model="e5", dim=384, generation=1, created_at=NOW)
    with ledger.write() as tx:
        assert tx.collections.current() is None
        assert tx.collections.next_generation() == 1
        tx.collections.put(first)
        assert tx.collections.current() is None
        tx.collections.make_current("kb_1")
        tx.collections.put(replace(first, name="kb_2", generation=tx.collections.next_generation()))
    with ledger.write() as tx:
        assert tx.collections.current() == replace(first, state=CollectionState.CURRENT)
        tx.collections.make_current("kb_2")
        tx.collections.make_current("kb_2")
        current = tx.collections.current()
        assert current is not None
        assert (current.name, current.generation) == ("kb_2", 2)
        assert [c.name for c in tx.collections.list((CollectionState.DROPPED,))] == ["kb_1"]
        assert tx.collections.forget("kb_1")
        assert not tx.collections.forget("kb_1")
        assert [c.name for c in tx.collections.list()] == ["kb_2"]
        assert tx.collections.get("kb_1") is None


def test_a_second_current_collection_and_an_unknown_one_are_refused(ledger: Ledger) -> None:
    one = Collection(name="kb_1", model="e5", dim=384, generation=1, state=CollectionState.CURRENT, created_at=NOW)
    with ledger.write() as tx:
        tx.collections.put(one)
    with pytest.raises(IntegrityError), ledger.write() as tx:
        tx.collections.put(replace(one, name="kb_2"))
    with pytest.raises(IntegrityError, match="no collection"), ledger.write() as tx:
        tx.collections.make_current("kb_3")
    with ledger.read() as tx:
        assert tx.collections.current() == one
