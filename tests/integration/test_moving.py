"""A store as an archive and back: what travels, what stays, what is refused, and what a crash leaves."""

from __future__ import annotations

import shutil
import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kb.errors import ConfigError, InputError, Refused
from kb.index.projector import LOCK as PROJECTOR
from kb.ledger import open_ledger
from kb.ledger.migrations import HEAD
from kb.ledger.portable import CARRIED, EMBEDDINGS, KEYS, LEFT_OUT, shape_at_head
from kb.ledger.schema_serving import METADATA
from kb.memories import Note
from kb.moving.exporting import Wanted, exported
from kb.moving.importing import imported, looked_through, refuse_too_large, take_in
from kb.moving.manifest import Manifest
from kb.moving.reading import reading
from kb.moving.writing import writing
from kb.rebuild import reconcile
from kb.settings import Settings
from tests.fakes.embedder import HashingEmbedder
from tests.ledger_samples import a_memory
from tests.moving import WHOLE, everything, export, filled, rewritten, settings_of
from tests.stores import InProcessServer, open_store, search

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.memories import Memories


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory to be copied: ingesting takes a parser of its own."""
    home = tmp_path_factory.mktemp("kept")
    with open_store(home / "full") as memories:
        filled(memories, home / "docs")
    return home / "full"


@pytest.fixture
def full(kept: Path, tmp_path: Path) -> Iterator[Memories]:
    shutil.copytree(kept, tmp_path / "full")
    with open_store(tmp_path / "full") as memories:
        search(memories, "bridge")  # its index is in this process, and made anew
        yield memories


def test_every_table_travels_or_is_named_with_the_reason_why_not() -> None:
    assert set(METADATA.tables) == {*CARRIED, *LEFT_OUT}
    assert set(CARRIED) & set(LEFT_OUT) == set()
    assert all(len(why) > 10 for why in LEFT_OUT.values())


@pytest.mark.parametrize("name", ["archive", "archive.tar"])
def test_what_is_exported_is_imported_row_for_row_and_its_index_agrees(
    full: Memories, tmp_path: Path, name: str
) -> None:
    manifest = export(full, tmp_path / name)
    before = everything(full.ledger)
    assert {t: len(rows) for t, rows in before.items()} == {t: f.rows for t, f in manifest.tables.items()}
    assert looked_through(tmp_path / name) == manifest
    with open_store(tmp_path / "new") as new:
        done = imported(new, settings_of(new, tmp_path / name), tmp_path / name)
        assert everything(new.ledger) == before
        assert (done.settled.embedded, done.settled.repaired, done.was_begun) == (0, 0, False)
        assert reconcile(new).ids == ()
        for question in ("how many tons", "the toll", "桥"):
            assert search(new, question) == search(full, question)


def test_the_same_rows_give_the_same_bytes(full: Memories, tmp_path: Path) -> None:
    for name in ("one", "two"):
        export(full, tmp_path / name)
    assert {p.name: p.read_bytes() for p in (tmp_path / "one").iterdir()} == {
        p.name: p.read_bytes() for p in (tmp_path / "two").iterdir()
    }


def written_meanwhile(store: Memories, tmp_path: Path) -> None:
    """Export while somebody writes: the archive is of one instant, and the writer waits for nothing."""
    before, notes = everything(store.ledger), []

    def meanwhile(table: str, _rows: int) -> None:
        notes.append(table)
        store.add_note(Note(text=f"Written while {table} was exported.", tenant="default"))

    exported(store, settings_of(store, tmp_path / "x"), tmp_path / "a", WHOLE, progress=meanwhile)
    assert len(notes) == len(CARRIED)
    with reading(tmp_path / "a") as archive:
        found = {table: [row for _, row in archive.rows(table)] for table in archive.manifest.tables}
    assert found == before
    assert len(everything(store.ledger)["memories"]) == len(before["memories"]) + len(notes)


def test_an_export_is_one_instant_and_holds_nobody_up(full: Memories, tmp_path: Path) -> None:
    written_meanwhile(full, tmp_path)


def test_so_is_that_of_either_database(ledger_url: str | None, tmp_path: Path) -> None:
    with open_store(tmp_path / "kb", ledger_url=ledger_url) as store:
        for n in range(3):
            store.add_note(Note(text=f"Toll number {n}.", tenant="default"))
        written_meanwhile(store, tmp_path)


def test_without_vectors_every_text_is_embedded_again_and_keys_stay(full: Memories, tmp_path: Path) -> None:
    manifest = export(full, tmp_path / "a", Wanted())
    assert {EMBEDDINGS, KEYS} <= set(manifest.left_out)
    with open_store(tmp_path / "new") as new:
        done = imported(new, settings_of(new, tmp_path / "a"), tmp_path / "a")
        assert done.settled.embedded > 0
        assert any("no vectors" in notice for notice in done.notices)
        assert search(new, "how many tons") == search(full, "how many tons")


def test_vectors_of_another_space_are_not_taken(full: Memories, tmp_path: Path) -> None:
    export(full, tmp_path / "a")
    with open_store(tmp_path / "new", embedder=HashingEmbedder(model="another", dim=32)) as new:
        done = imported(new, settings_of(new, tmp_path / "a"), tmp_path / "a")
        assert {row["model"] for row in everything(new.ledger)[EMBEDDINGS]} == {"another"}
        assert done.settled.embedded == len(everything(new.ledger)[EMBEDDINGS])
        assert any("not of the embedder here" in notice for notice in done.notices)


def test_an_export_of_one_tenant_holds_nothing_of_another(full: Memories, tmp_path: Path) -> None:
    export(full, tmp_path / "a", Wanted(tenant="acme", with_embeddings=True))
    with reading(tmp_path / "a") as archive:
        rows = {table: [row for _, row in archive.rows(table)] for table in archive.manifest.tables}
    assert [m["text"] for m in rows["memories"]] == ["A note of acme about the toll."]
    assert [t["name"] for t in rows["tenants"]] == ["acme"]
    assert len(rows[EMBEDDINGS]) == 1
    assert {row["tenant"] for of in rows.values() for row in of if "tenant" in row} == {"acme"}
    assert not rows["documents"]
    assert not rows["versions"]
    with open_store(tmp_path / "new") as new:
        imported(new, settings_of(new, tmp_path / "a"), tmp_path / "a")
        assert [h.memory.text for h in search(new, "toll", tenant="acme").hits] == ["A note of acme about the toll."]
    with pytest.raises(InputError, match="no tenant nobody"):
        export(full, tmp_path / "b", Wanted(tenant="nobody"))
    assert not (tmp_path / "b").exists()


def test_a_ledger_that_holds_something_is_left_alone(full: Memories, tmp_path: Path) -> None:
    export(full, tmp_path / "a")
    with open_store(tmp_path / "new") as new:
        new.add_note(Note(text="I was here first.", tenant="default"))
        before = everything(new.ledger)
        with pytest.raises(Refused, match=r"not empty: it has .*memories"):
            imported(new, settings_of(new, tmp_path / "a"), tmp_path / "a")
        assert everything(new.ledger) == before


def test_an_import_whose_index_was_away_goes_on_where_it_was(full: Memories, tmp_path: Path) -> None:
    export(full, tmp_path / "a")
    server = InProcessServer()
    with open_store(tmp_path / "new", server=server) as new:
        server.is_away = True
        with pytest.raises(Exception, match="away"):
            imported(new, settings_of(new, tmp_path / "a"), tmp_path / "a")
        assert everything(new.ledger) == everything(full.ledger)
        server.is_away = False
        done = imported(new, settings_of(new, tmp_path / "a"), tmp_path / "a")
        assert (done.was_begun, done.settled.repaired) == (True, 0)
        assert search(new, "how many tons") == search(full, "how many tons")
        with pytest.raises(Refused, match="not empty"):
            imported(new, settings_of(new, tmp_path / "a"), tmp_path / "a")


def test_trust_under_other_settings_is_told_and_births_follow_the_half_life(full: Memories, tmp_path: Path) -> None:
    export(full, tmp_path / "a")
    changed = {"trust": {"document": {"half_life_days": 10}}, "gate": 0.6}
    with open_store(tmp_path / "new", **changed) as new:
        done = imported(new, Settings(data_dir=tmp_path / "new", **changed), tmp_path / "a")
        assert set(done.notices) == {
            "the gate was 0.7, here it is 0.6: see kb.toml",
            "the half-life of document was 30, here it is 10: see kb.toml",
        }
        old, born = everything(full.ledger)["memories"], everything(new.ledger)["memories"]
    assert all((a["birth"] < b["birth"]) == (a["source_class"] == "document") for a, b in zip(old, born, strict=True))


def test_an_archive_of_an_older_schema_is_brought_up_to_date(
    full: Memories, ledger_url: str | None, tmp_path: Path
) -> None:
    export(full, tmp_path / "a", Wanted(with_embeddings=True))
    rewritten(tmp_path / "a", lambda said: said.update(schema_revision="0003"))
    with open_store(tmp_path / "kb", ledger_url=ledger_url) as new:
        imported(new, settings_of(new, tmp_path / "a"), tmp_path / "a")
        assert everything(new.ledger) == everything(full.ledger)
        assert new.ledger.check().problems == ()
    rewritten(tmp_path / "a", lambda said: said.update(schema_revision="9999"))
    with pytest.raises(ConfigError, match="newer version"):
        looked_through(tmp_path / "a")


def test_nothing_is_overwritten_and_nothing_is_left_of_what_failed(full: Memories, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    (tmp_path / "taken.tar").touch()
    for name in ("taken", "taken.tar", "missing/archive"):
        with pytest.raises(InputError):
            export(full, tmp_path / name)

    def fail(_table: str, _rows: int) -> None:
        raise OSError(28, "No space left on device")

    for name in ("b", "b.tar"):
        with pytest.raises(Exception, match="cannot be written: No space left"):
            exported(full, settings_of(full, tmp_path / "x"), tmp_path / name, WHOLE, progress=fail)
    assert {p.name for p in tmp_path.iterdir()} == {"full", "taken", "taken.tar"}


def test_what_a_killed_export_left_is_cleared_away_and_nothing_else_is(full: Memories, tmp_path: Path) -> None:
    """A name may hold what means something in a pattern."""
    for left in (".a[1]*.partial-x", ".a1.tar.partial-y", ".a[1]other.partial-z"):
        (tmp_path / left).mkdir()
    export(full, tmp_path / "a[1]*")
    assert {p.name for p in tmp_path.iterdir() if p.name.startswith(".")} == {
        ".a1.tar.partial-y", ".a[1]other.partial-z",
    }  # fmt: skip


def test_an_archive_that_the_disk_cannot_hold_is_refused_before_anything_is_written(
    full: Memories, tmp_path: Path
) -> None:
    manifest = export(full, tmp_path / "a")
    tables = {name: replace(file, unpacked=10**15) for name, file in manifest.tables.items()}
    larger, target = replace(manifest, tables=tables), tmp_path / "not" / "there"
    refuse_too_large(manifest, Settings(data_dir=target))
    with pytest.raises(Refused, match="GB free"):
        refuse_too_large(larger, Settings(data_dir=target))
    refuse_too_large(larger, Settings(data_dir=target, ledger_url="postgresql://elsewhere/kb"))
    assert not target.parent.exists()


def peak(rows: int, folder: Path) -> int:
    """Return the most bytes that an export and an import of so many memories held at once."""
    folder.mkdir()
    with open_ledger(None, data_dir=folder / "one") as one, open_ledger(None, data_dir=folder / "two") as two:
        with one.write() as tx:
            tx.memories.add([a_memory(n, text=f"{n} " * 4000) for n in range(rows)])
        tracemalloc.start()
        with writing(folder / "a") as archive, one.read() as tx:
            file = archive.add("memories", shape_at_head("memories"), tx.portable.rows("memories"))
            said = {"schema": HEAD, "product": "1", "created_at": "", "tenant": None, "space": None, "trust": {}}
            archive.seal(Manifest(**said, tables={"memories": file}))
        looked_through(folder / "a")
        with reading(folder / "a") as archive_:
            take_in(two, archive_, None, 0)
        held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return held


def test_memory_does_not_grow_with_the_number_of_rows(tmp_path: Path) -> None:
    few, many = peak(800, tmp_path / "few"), peak(2400, tmp_path / "many")
    assert many < 1.3 * few


def test_two_imports_exclude_each_other_and_a_drainer_is_not_needed(full: Memories, tmp_path: Path) -> None:
    from kb.errors import Locked
    from kb.moving.arriving import LOCK

    export(full, tmp_path / "a")
    with open_store(tmp_path / "new") as new, open_ledger(None, data_dir=tmp_path / "new") as other:
        with other.lock(LOCK), pytest.raises(Locked):
            imported(new, settings_of(new, tmp_path / "a"), tmp_path / "a")
        assert PROJECTOR != LOCK
        assert imported(new, settings_of(new, tmp_path / "a"), tmp_path / "a").settled.memories > 0
