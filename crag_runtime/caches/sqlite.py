"""Grades kept in a file of their own, shared by this machine's processes; a damaged file is replaced by a new one."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from crag_runtime.caches.names import entry_name, memory_name, packed, unpacked
from kb.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from crag_runtime.ports import GradeKey
    from kb.ports import Clock

    T = TypeVar("T")

FILE = "grades.sqlite"
MAX_ENTRIES = 200_000
WAIT_SECONDS = 1.0  # for another process's write; a grade is cheaper than a longer wait
TIDY_EVERY = 64  # writes
_SLACK = 0.9  # of the limit is left after making room, so that it is made rarely
_BATCH = 500  # parameters of one statement; SQLite allows 999 and more
_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS grades (
    name TEXT PRIMARY KEY, memory TEXT NOT NULL, value BLOB NOT NULL, expires INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS grades_of_memory ON grades (memory);
CREATE INDEX IF NOT EXISTS grades_by_expiry ON grades (expires);
"""
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_FOREIGN = ("no such table", "no such column", "has no column", "values were supplied", "cannot be indexed")


class SqliteCache:
    """Implements `crag_runtime.ports.GradeCache`. One connection, one lock.

    Args:
        path: of the file; made when it is first used.
        ttl_seconds: how long an entry is kept; positive.
        clock: the time.
        limit: entries at most.
    """

    def __init__(self, path: Path, *, ttl_seconds: float, clock: Clock, limit: int = MAX_ENTRIES) -> None:
        self._path = path
        self._ttl = round(ttl_seconds * 1000)
        self._clock = clock
        self._limit = limit
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._writes = 0

    def get(self, keys: Sequence[GradeKey]) -> dict[GradeKey, str]:
        """Return what is there and not expired."""
        by_name = {entry_name(key): key for key in keys}
        rows: list[tuple[str, bytes]] = self._tried(lambda c: _read(c, list(by_name), self._clock.now()), [])
        return {by_name[name]: unpacked(value) for name, value in rows}

    def put(self, entries: Mapping[GradeKey, str]) -> None:
        """Keep entries for the time to live; those that expire first make room."""
        expires = self._clock.now() + self._ttl
        rows = [
            (entry_name(key), memory_name(key.tenant, key.memory_id), packed(value), expires)
            for key, value in entries.items()
        ]
        if rows:
            self._tried(lambda c: self._write(c, rows), None)

    def purge(self, tenant: str, memory_ids: Sequence[str]) -> int:
        """Forget these memories; return how many entries went."""
        names = [memory_name(tenant, id_) for id_ in set(memory_ids)]
        return self._tried(lambda c: _delete(c, names), 0)

    def tidy(self) -> int:
        """Drop what has expired, and what is over the limit; return how many entries went."""
        if not self._path.exists():
            return 0
        return self._tried(self._tidied, 0)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._let_go()

    def _tidied(self, connection: sqlite3.Connection) -> int:
        before = connection.total_changes
        with connection:
            _tidy(connection, self._clock.now(), self._limit)
        return connection.total_changes - before

    def _write(self, connection: sqlite3.Connection, rows: list[tuple[str, str, bytes, int]]) -> None:
        with connection:
            connection.executemany("INSERT OR REPLACE INTO grades VALUES (?, ?, ?, ?)", rows)
            if self._writes % TIDY_EVERY == 0 or len(rows) > TIDY_EVERY:
                _tidy(connection, self._clock.now(), self._limit)
        self._writes += 1

    def _tried(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """Do the work, once more on a new file if this one is damaged; `otherwise` when it cannot be done."""
        with self._lock:
            for _ in range(2):
                try:
                    if self._connection is None:
                        self._connection = _opened(self._path)
                    return work(self._connection)
                except (sqlite3.Error, OSError) as error:
                    if not self._recovered(error):
                        get_logger().warning("grade_cache_failed", reason=str(error))
                        return otherwise
        return otherwise

    def _recovered(self, error: Exception) -> bool:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest says more than we need
        if code not in _DAMAGED and not any(words in str(error) for words in _FOREIGN):
            return False
        self._let_go()
        get_logger().warning("grade_cache_replaced", reason=str(error))
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                self._path.with_name(self._path.name + suffix).unlink()
        return True

    def _let_go(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None


def _opened(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=WAIT_SECONDS, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=OFF")  # what a power cut takes is graded again
        with closing(connection.execute("PRAGMA user_version")) as found:
            version = found.fetchone()[0]
        if version not in (0, _VERSION):
            connection.executescript("DROP TABLE IF EXISTS grades")
        connection.executescript(_SCHEMA)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _read(connection: sqlite3.Connection, names: list[str], now: int) -> list[tuple[str, bytes]]:
    rows: list[tuple[str, bytes]] = []
    for at in range(0, len(names), _BATCH):
        batch = names[at : at + _BATCH]
        marks = ",".join("?" * len(batch))
        query = f"SELECT name, value FROM grades WHERE expires > ? AND name IN ({marks})"  # noqa: S608 - only marks
        rows += connection.execute(query, [now, *batch])
    return rows


def _delete(connection: sqlite3.Connection, memories: list[str]) -> int:
    with connection:
        return sum(connection.execute("DELETE FROM grades WHERE memory = ?", [m]).rowcount for m in memories)


def _tidy(connection: sqlite3.Connection, now: int, limit: int) -> None:
    connection.execute("DELETE FROM grades WHERE expires <= ?", [now])
    total: int = connection.execute("SELECT count(*) FROM grades").fetchone()[0]
    if total > limit:
        oldest = "SELECT name FROM grades ORDER BY expires LIMIT ?"
        surplus = total - int(limit * _SLACK)
        connection.execute(f"DELETE FROM grades WHERE name IN ({oldest})", [surplus])  # noqa: S608 - our own text
