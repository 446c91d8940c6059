"""A file that was written anew holds nothing of what was deleted from it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kb.errors import DependencyError
from kb.sqlite_files import rewritten

if TYPE_CHECKING:
    from pathlib import Path

SECRET = b"marigold-otter-seven"


def bytes_of(path: Path) -> bytes:
    return b"".join(part.read_bytes() for part in path.parent.glob(f"{path.name}*"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file from which a row was deleted by a database that does not overwrite what it deletes."""
    path = tmp_path / "some.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA secure_delete=OFF")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (x)")
        connection.executemany("INSERT INTO t VALUES (?)", [(SECRET.decode() * 50,), ("kept",)])
        connection.execute("DELETE FROM t WHERE x <> 'kept'")
    return path


def test_no_byte_of_a_deleted_row_is_left(file: Path) -> None:
    assert SECRET in bytes_of(file)
    assert rewritten(file)
    assert SECRET not in bytes_of(file)
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT x FROM t").fetchall() == [("kept",)]


def test_idle_users_do_not_stand_in_the_way(file: Path) -> None:
    with closing(sqlite3.connect(file)) as idle:
        assert idle.execute("SELECT count(*) FROM t").fetchall() == [(1,)]
        assert rewritten(file)
        assert SECRET not in bytes_of(file)


def test_a_reader_that_does_not_let_go_is_said(file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM t").fetchall()
        with pytest.raises(DependencyError, match=r"others read from it|locked"):
            rewritten(file, wait_seconds=0.2)


def test_no_file_is_no_work_and_a_damaged_one_is_said(tmp_path: Path) -> None:
    assert not rewritten(tmp_path / "none.sqlite")
    (tmp_path / "bad.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(DependencyError, match="cannot be written anew"):
        rewritten(tmp_path / "bad.sqlite")
