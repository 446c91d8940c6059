"""An export, an import and each kind of move is one trace: what was counted is told, and no text of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kb import telemetry
from kb.errors import Refused
from kb.ledger import open_ledger
from kb.memories import Note
from kb.moving.copying import copied
from kb.moving.exporting import Wanted, exported
from kb.moving.importing import imported
from kb.moving.relocating import moved
from kb.telemetry import Span
from tests.fakes.embedder import HashingEmbedder
from tests.moving import settings_of
from tests.stores import InProcessServer, open_store
from tests.tracing import collecting, lines, named, said

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.memories import Memories
    from tests.fakes.collector import Collector

TEXT = "The vault of the mint opens with seven turns."


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Memories]:
    with open_store(tmp_path / "data") as memories:
        for n in range(3):
            memories.add_note(Note(text=f"{TEXT} {n}", tenant="default"))
        yield memories


def one_trace(collector: Collector, name: Span) -> set[tuple[str, ...]]:
    """Return the lines of the run's only trace, in which nothing of what is stored may stand."""
    (run,) = named(collector, name)
    (trace,) = {s.trace_id for s in collector.spans}  # type: ignore[attr-defined] # as the protocol brought them
    assert run.trace_id == trace
    assert "vault" not in " ".join(map(str, collector.spans))
    return set(lines(collector, trace))


def test_an_export_is_one_trace(store: Memories, tmp_path: Path) -> None:
    with collecting() as collector:
        done = exported(store, settings_of(store, tmp_path / "a"), tmp_path / "a.tar", Wanted(tenant="default"))
    assert (Span.EXPORT, Span.LEDGER_READ) in one_trace(collector, Span.EXPORT)
    told = said(named(collector, Span.EXPORT)[0])
    tables = done.manifest.tables.values()
    assert told == {
        "kb.tenant": "default", "kb.rows": sum(t.rows for t in tables), "kb.bytes": sum(t.size for t in tables),
    }  # fmt: skip


def test_an_import_is_one_trace_with_its_index_inside(store: Memories, tmp_path: Path) -> None:
    rows = sum(
        t.rows for t in exported(store, settings_of(store, tmp_path), tmp_path / "a", Wanted()).manifest.tables.values()
    )
    with open_store(tmp_path / "new", embedder=HashingEmbedder(model="another", dim=32)) as new:
        with collecting() as collector:
            imported(new, settings_of(new, tmp_path / "a"), tmp_path / "a")
        found = one_trace(collector, Span.IMPORT)
        for inside in (
            (Span.LEDGER_WRITE,),
            (Span.INDEX_REINDEX, Span.LEDGER_WRITE),
            (Span.INDEX_RECONCILE, Span.LEDGER_READ),
        ):
            assert (Span.IMPORT, *inside) in found, sorted(found)
        told = said(named(collector, Span.IMPORT)[0])
        assert (told["kb.rows"], told["kb.texts"], told["kb.resumed"]) == (rows, 3, False)
        assert told["kb.bytes"] > 0
        with collecting() as again, pytest.raises(Refused):
            imported(new, settings_of(new, tmp_path / "a"), tmp_path / "a")
    assert said(named(again, Span.IMPORT)[0]) == {"error.type": "Refused"}


def test_an_index_and_a_ledger_that_move_are_one_trace_each(store: Memories, tmp_path: Path) -> None:
    with collecting() as collector:
        done = moved(store, InProcessServer())  # type: ignore[arg-type]
    assert (Span.MOVE_INDEX, Span.LEDGER_READ) in one_trace(collector, Span.MOVE_INDEX)
    told = said(named(collector, Span.MOVE_INDEX)[0])
    assert (told["db.system.name"], told["db.collection.name"]) == (telemetry.MILVUS, done.collection)
    assert (told["kb.rows"], told["kb.left"]) == (3, 0)
    with open_ledger(None, data_dir=tmp_path / "there") as target:
        for resumed in (False, True):
            with collecting() as collector:
                rows = copied(store.ledger, target, 0).rows
            assert (Span.MOVE_LEDGER, Span.LEDGER_READ) in one_trace(collector, Span.MOVE_LEDGER)
            told = said(named(collector, Span.MOVE_LEDGER)[0])
            assert told == {"kb.rows": sum(rows.values()), "kb.resumed": resumed}
