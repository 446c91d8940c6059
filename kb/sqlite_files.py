"""SQLite files written anew, so that nothing of what was deleted from them is left in their bytes."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

from kb.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

WAIT_SECONDS = 30.0
PAUSE_SECONDS = 0.05


def rewritten(path: Path, *, before: Sequence[str] = (), wait_seconds: float = WAIT_SECONDS) -> bool:
    """Write a file anew, its log emptied; return whether there was one. Needs as much free space as it takes now.

    Args:
        path: of the file.
        before: statements to be executed first.
        wait_seconds: how long to wait for others who read or write it.

    Raises:
        DependencyError: others did not let go of it, it is damaged, or the disk is full.
    """
    if not path.exists():
        return False
    deadline = time.monotonic() + wait_seconds
    try:
        with closing(sqlite3.connect(path, timeout=wait_seconds, isolation_level=None)) as connection:
            for statement in (*before, "VACUUM"):
                connection.execute(statement)
            while _is_busy(connection):
                if time.monotonic() > deadline:
                    raise DependencyError(f"the log of {path.name} cannot be emptied: others read from it")
                time.sleep(PAUSE_SECONDS)
    except sqlite3.Error as error:
        raise DependencyError(f"{path.name} cannot be written anew: {error}") from error
    return True


def _is_busy(connection: sqlite3.Connection) -> bool:
    """Move the log into the file and empty it; return whether somebody still reads from it."""
    with closing(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")) as found:
        row = found.fetchone()
    return bool(row and row[0])
