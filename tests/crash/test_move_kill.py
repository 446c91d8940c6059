"""kill -9 in the middle of an export or an import: nothing looks whole that is not, and the next run ends it."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kb.ledger import open_ledger
from kb.memories import Note, note_memory
from kb.moving.importing import looked_through
from tests.crash import killing
from tests.moving import Rows, everything, export
from tests.stores import open_store, search

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
NOTES = 300


@dataclass(frozen=True, kw_only=True)
class Filled:
    """A store and its archive, and how long each way takes that nobody interrupts."""

    home: Path
    archive: Path
    rows: Rows
    seconds: dict[str, float]


def move(what: str, data_dir: Path, archive: Path, *, kill_after: float | None = None) -> tuple[bool, float]:
    """Move in a process of its own; return whether it ended by itself, and how long it took."""
    return killing.run("tests.crash.mover", what, str(data_dir), str(archive), kill_after=kill_after)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    home = tmp_path_factory.mktemp("filled")
    with open_store(home / "data") as memories:
        memories.add_note(Note(text="The toll is four coins.", tenant="default"))
        notes = [
            note_memory(Note(text=f"Note {n} about bridge {n % 7}.", tenant="default"), memories.policies, 1)
            for n in range(NOTES)
        ]
        memories.embed({m.embed_hash: m.text for m in notes})
        with memories.ledger.write() as tx:
            tx.memories.add(notes)
            tx.outbox.mark([m.id for m in notes], 1)
        export(memories, home / "archive.tar")
        rows = everything(memories.ledger)
    seconds = {
        "export": move("export", home / "data", home / "second.tar")[1],
        "import": move("import", home / "imported", home / "archive.tar")[1],
    }
    return Filled(home=home, archive=home / "archive.tar", rows=rows, seconds=seconds)


def killed_export(filled: Filled, home: Path, late: float, name: str) -> bool:
    home.mkdir()
    is_done, _ = move("export", filled.home / "data", home / name, kill_after=late)
    if (home / name).exists():
        assert sum(t.rows for t in looked_through(home / name).tables.values()) == total(filled.rows)
    else:
        move("export", filled.home / "data", home / name)
        assert looked_through(home / name)
    assert [p.name for p in home.iterdir()] == [name]  # of the killed one nothing is left
    return not is_done


def killed_import(filled: Filled, home: Path, late: float) -> bool:
    is_done, _ = move("import", home, filled.archive, kill_after=late)
    with open_ledger(None, data_dir=home) as ledger:
        left = everything(ledger)
    assert total(left) == 1 or left == filled.rows  # nothing but the half-lives of an empty ledger, or all
    if not is_done and not is_settled(home):
        move("import", home, filled.archive)
    with open_store(home) as new:
        assert everything(new.ledger) == filled.rows
        assert search(new, "toll").hits
    return not is_done


def is_settled(home: Path) -> bool:
    from kb.moving.arriving import mark_of

    with open_ledger(None, data_dir=home) as ledger, ledger.read() as tx:
        mark = mark_of(tx)
    return mark is not None and mark[1]


def total(rows: Rows) -> int:
    return sum(map(len, rows.values()))


def test_a_killed_export_leaves_nothing_that_looks_whole(filled: Filled, tmp_path: Path) -> None:
    for n, late in enumerate(moments(2, filled.seconds["export"])):
        killed_export(filled, tmp_path / str(n), late, ("archive", "archive.tar")[n % 2])


def test_a_killed_import_leaves_a_ledger_empty_or_whole(filled: Filled, tmp_path: Path) -> None:
    for n, late in enumerate(moments(3, filled.seconds["import"])):
        killed_import(filled, tmp_path / str(n), late)


def moments(times: int, seconds: float) -> Sequence[float]:
    numbers = random.Random(times)
    return [(n + numbers.random()) / times * seconds for n in range(times)]


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_forty_kills_each_way(filled: Filled, tmp_path: Path) -> None:
    for n, late in enumerate(moments(40, filled.seconds["export"])):
        killed_export(filled, tmp_path / f"e{n}", late, ("archive", "archive.tar")[n % 2])
        shutil.rmtree(tmp_path / f"e{n}")
    for n, late in enumerate(moments(40, filled.seconds["import"])):
        killed_import(filled, tmp_path / f"i{n}", late)
        shutil.rmtree(tmp_path / f"i{n}")
