"""Brings a ledger's schema to the version of this program, once, however many processes open it together."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import sqlalchemy as sa

from kb.errors import ConfigError, LedgerUnavailable
from kb.ledger.locks import won
from kb.ledger.migrations import HEAD, REVISIONS, VERSION_TABLE

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy.engine import Engine

    from kb.ledger.locks import Locks

LOCK = "migrate"
LOCK_SECONDS = 120.0
SWITCH_SECONDS = 30.0

_VERSION = sa.text(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608 - a constant


def bring_to_head(engine: Engine, locks: Locks) -> None:
    """Create or upgrade the schema; an up-to-date ledger costs one query and takes no lock.

    Args:
        engine: whose transactions may write.
        locks: where the migration lock lives.

    Raises:
        ConfigError: the ledger belongs to a newer program, or its database cannot hold every text.
        LedgerUnavailable: it cannot be reached or written.
        Locked: another process has been migrating for two minutes.
    """
    if stored_revision(engine) == HEAD:
        return
    with locks.hold(LOCK, wait_seconds=LOCK_SECONDS):
        _prepare(engine)
        with engine.begin() as connection:
            if revision_of(connection) != HEAD:
                _upgrade(connection)


def stored_revision(engine: Engine) -> str | None:
    """Return the ledger's revision, None for a fresh database.

    Raises:
        ConfigError: this program does not know the revision.
    """
    with engine.connect() as connection:
        return revision_of(connection)


def revision_of(connection: sa.Connection) -> str | None:
    """Return the revision seen by this connection, None for a fresh database.

    Raises:
        ConfigError: this program does not know the revision.
    """
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    found: str | None = connection.execute(_VERSION).scalar()
    if found is not None and found not in REVISIONS:
        raise ConfigError(
            f"the ledger is of a newer version ({found}) than this program knows ({HEAD})",
            hint="upgrade kb on this machine, or point KB_DATA_DIR or ledger_url at another ledger",
        )
    return found


def step_to(connection: sa.Connection, revision: str) -> None:
    """Step the schema back or forward to a revision, within the transaction of `connection`.

    Tables and columns that the revision does not know are lost with their rows.
    """
    if revision_of(connection) == revision:
        return
    from alembic import command  # noqa: PLC0415 - needed only when the schema changes

    back = REVISIONS.index(revision) < REVISIONS.index(revision_of(connection) or revision)
    (command.downgrade if back else command.upgrade)(_config(connection), revision)


def _prepare(engine: Engine) -> None:
    """Set what belongs to the database as a whole and cannot be set inside a transaction."""
    with engine.connect().execution_options(kb_begin="") as connection:
        if engine.dialect.name == "sqlite":
            if not won(partial(_has_write_ahead_log, connection), SWITCH_SECONDS):
                raise LedgerUnavailable("another process keeps the new ledger busy", hint="repeat in a moment")
            return
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar()
        if encoding != "UTF8":
            raise ConfigError(
                f"the ledger's database is encoded in {encoding}; it must be UTF8",
                hint="create it with `createdb --encoding=UTF8 --template=template0 NAME`",
            )


def _has_write_ahead_log(connection: sa.Connection) -> bool:
    """Switch the write-ahead log on; False while another process reads, since SQLite waits for nobody here."""
    try:
        mode = connection.exec_driver_sql("PRAGMA journal_mode=WAL").scalar()
    except LedgerUnavailable as error:
        if str(getattr(error.__cause__, "sqlite_errorname", "")).startswith("SQLITE_BUSY"):
            return False
        raise
    if mode != "wal":
        raise LedgerUnavailable(
            "this file system cannot hold a shared ledger (no write-ahead log)",
            hint="keep the data directory on a local disk, or set ledger_url to a PostgreSQL database",
        )
    return True


def _upgrade(connection: sa.Connection) -> None:
    from alembic import command  # noqa: PLC0415 - needed only when the schema changes

    command.upgrade(_config(connection), "head")


def _config(connection: sa.Connection) -> Config:
    from alembic.config import Config  # noqa: PLC0415 - needed only when the schema changes

    config = Config()
    config.set_main_option("script_location", "kb.ledger:migrations")
    config.attributes["connection"] = connection
    return config
