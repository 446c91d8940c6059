"""Cleans a ledger of the bytes of deleted rows: a SQLite file is written anew, PostgreSQL's tables are vacuumed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kb.errors import LedgerUnavailable
from kb.ledger.schema_governance import METADATA

if TYPE_CHECKING:
    import sqlalchemy as sa

    from kb.ledger import Ledger

WAIT_SECONDS = 30.0
PAUSE_SECONDS = 0.05
_BUSY = 0  # column of what a checkpoint returns


def scrub(ledger: Ledger, *, wait_seconds: float = WAIT_SECONDS) -> None:
    """Leave nothing of deleted rows in the ledger's files, as far as its database can do that.

    On SQLite the file is written anew and its log emptied: that takes as much free space as the ledger has now, and
    waits for readers. On PostgreSQL dead rows are given free; their bytes are gone from the files once the pages are
    written again, and from the write-ahead log, replicas and backups when those have moved on.

    Raises:
        LedgerUnavailable: it cannot be reached, others did not let go of it, or the disk is full.
    """
    if ledger.dialect == "sqlite":
        with ledger.engines.writes.connect() as connection:
            connection.execution_options(kb_begin="")
            connection.exec_driver_sql("VACUUM")
            _empty_log(connection, wait_seconds)
        return
    with ledger.engines.writes.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT")
        for table in METADATA.sorted_tables:
            connection.exec_driver_sql(f'VACUUM (ANALYZE) "{table.name}"')


def _empty_log(connection: sa.Connection, wait_seconds: float) -> None:
    deadline = time.monotonic() + wait_seconds
    while connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()[_BUSY]:
        if time.monotonic() > deadline:
            raise LedgerUnavailable(
                "the ledger's log cannot be emptied: others read from it", hint="repeat it when they have ended"
            )
        time.sleep(PAUSE_SECONDS)
