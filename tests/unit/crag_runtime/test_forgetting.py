"""An erasure writes anew what the runtime keeps in files, whatever its database leaves of deleted rows."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from crag_runtime.caches.sqlite import FILE as GRADES
from crag_runtime.checkpoints import FILE as CHECKPOINTS
from crag_runtime.forgetting import clean
from kb.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

WORDS = "marigold-otter-seven"


@pytest.mark.parametrize("name", [GRADES, CHECKPOINTS])
def test_no_byte_of_a_deleted_row_outlives_the_cleaning(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in ("PRAGMA secure_delete = OFF", "PRAGMA journal_mode = WAL", "CREATE TABLE kept (said TEXT)"):
            connection.execute(statement)
        connection.executemany("INSERT INTO kept VALUES (?)", [(f"{n} {WORDS}",) for n in range(200)])
        connection.execute("DELETE FROM kept")
    assert WORDS.encode() in path.read_bytes(), "the database leaves what it deletes"
    assert clean(Settings(data_dir=tmp_path)) == []
    assert not [p.name for p in tmp_path.iterdir() if WORDS.encode() in p.read_bytes()]


def test_where_nothing_is_kept_there_is_nothing_to_clean(tmp_path: Path) -> None:
    assert clean(Settings(data_dir=tmp_path)) == []
    assert list(tmp_path.iterdir()) == []
