"""The ledger's door: transactions, locks and the health check.

Reads are snapshots that never wait for a writer; writes are one transaction each, all or nothing. A `Ledger` may be
used from many threads; a transaction belongs to the thread that opened it. Never open a `write` inside a `write`: on
SQLite the inner one waits for the outer.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import sqlalchemy as sa
from sqlalchemy import exc

from kb.ledger.answers import Answers
from kb.ledger.collections import Collections
from kb.ledger.contradictions import Contradictions
from kb.ledger.descent import Descent
from kb.ledger.documents import Documents
from kb.ledger.embeddings import Embeddings
from kb.ledger.erasing import Erasing
from kb.ledger.erasure import Erasure
from kb.ledger.evaluations import Evaluations
from kb.ledger.evidence import Evidence
from kb.ledger.failures import Failures
from kb.ledger.faults import DOOMED, pool_fault, refuse_doomed
from kb.ledger.governed import Governed
from kb.ledger.keys import Keys
from kb.ledger.lineage import Lineage
from kb.ledger.looking import Looking
from kb.ledger.memories import Memories
from kb.ledger.meta import Meta
from kb.ledger.migrate import revision_of
from kb.ledger.outbox import Outbox
from kb.ledger.portable import Portable
from kb.ledger.reputation import Reputation
from kb.ledger.runs import Runs
from kb.ledger.slots import Slots
from kb.ledger.sources import Sources
from kb.ledger.sweeping import Sweeping
from kb.ledger.sweeps import Sweeps
from kb.ledger.tenants import Tenants
from kb.ledger.tombstones import Tombstones
from kb.ledger.upkeep import Upkeep
from kb.ledger.utility import Utilities
from kb.ledger.vitals import Vitals
from kb.telemetry import Attr, Span, span

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from sqlalchemy.engine import Engine

    from kb.ledger.faults import Place
    from kb.ledger.locks import Held, Locks


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """The ways into one database, and the engines to close in the end."""

    reads: Engine
    writes: Engine
    prompt: Engine  # writes that wait for no other writer
    owned: tuple[Engine, ...]


class LedgerTx:
    """One transaction: a repository for each kind of row, all on the same snapshot."""

    def __init__(self, connection: sa.Connection) -> None:
        self.memories = Memories(connection)
        self.documents = Documents(connection)
        self.embeddings = Embeddings(connection)
        self.outbox = Outbox(connection)
        self.sources = Sources(connection)
        self.runs = Runs(connection)
        self.failures = Failures(connection)
        self.meta = Meta(connection)
        self.collections = Collections(connection)
        self.tenants = Tenants(connection)
        self.answers = Answers(connection)
        self.evaluations = Evaluations(connection)
        self.lineage = Lineage(connection)
        self.evidence = Evidence(connection)
        self.utility = Utilities(connection)
        self.sweeps = Sweeps(connection)
        self.sweeping = Sweeping(connection)
        self.governed = Governed(connection)
        self.tombstones = Tombstones(connection)
        self.contradictions = Contradictions(connection)
        self.descent = Descent(connection)
        self.looking = Looking(connection)
        self.reputation = Reputation(connection)
        self.slots = Slots(connection)
        self.upkeep = Upkeep(connection)
        self.vitals = Vitals(connection)
        self.portable = Portable(connection)
        self.keys = Keys(connection)
        self.erasing = Erasing(connection)
        self.erasure = Erasure(connection)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerHealth:
    """What a check found."""

    dialect: str  # sqlite, postgresql
    server: str  # version of the database
    revision: str  # of the schema
    place: str  # path, or URL without secrets
    size: int  # bytes, of all the ledger's files
    problems: tuple[str, ...]  # what the database says is damaged; empty when sound


class Ledger:
    """The system of record. Made by `open_ledger`."""

    def __init__(self, *, engines: Engines, locks: Locks, place: Place, file: Path | None) -> None:
        self.engines = engines
        self.locks = locks
        self.place = place
        self._file = file
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return f"Ledger({self.place.shown})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.place.dialect

    @contextmanager
    def read(self) -> Iterator[LedgerTx]:
        """Open a read-only snapshot.

        Raises:
            LedgerUnavailable: the database cannot be reached.
        """
        with span(Span.LEDGER_READ, {Attr.DB_SYSTEM: self.dialect}), self._transaction(self.engines.reads) as tx:
            yield LedgerTx(tx)

    @contextmanager
    def write(self, *, is_waiting: bool = True) -> Iterator[LedgerTx]:
        """Open a transaction that commits at the end of the context and is undone by any exception.

        Args:
            is_waiting: another writer is waited for, 30 s at most; who answers a question waits hardly at all, 50 ms.

        Raises:
            LedgerUnavailable: the database cannot be reached or written, or another writer held it for too long.
            IntegrityError: a row breaks an invariant, or an error inside was passed over.
        """
        engine = self.engines.writes if is_waiting else self.engines.prompt
        with span(Span.LEDGER_WRITE, {Attr.DB_SYSTEM: self.dialect}), self._transaction(engine) as tx:
            yield LedgerTx(tx)
            refuse_doomed(tx)

    def lock(self, name: str, *, wait_seconds: float = 0.0) -> AbstractContextManager[Held]:
        """Hold a named lock that excludes every process and thread on this ledger; freed when its process dies.

        What the context gives tells whether the lock is still held: a database that restarts frees it.

        Args:
            name: what is locked, e.g. `ingest:default`.
            wait_seconds: how long to wait for another holder; 0: not at all.

        Raises:
            Locked: another holder has it; says who and since when, where known.
            LedgerUnavailable: the lock cannot be asked for.
        """
        return self.locks.hold(name, wait_seconds=wait_seconds)

    def check(self) -> LedgerHealth:
        """Return the ledger's health; reads every page of a SQLite file.

        Raises:
            LedgerUnavailable: it cannot be reached, or not be written.
        """
        with self._transaction(self.engines.writes) as connection:  # proves that a write could begin
            revision = revision_of(connection) or ""
        with self._transaction(self.engines.reads) as connection:  # may take long, and holds no writer up
            if self.dialect == "sqlite":
                server = str(connection.exec_driver_sql("SELECT sqlite_version()").scalar())
                size, problems = self._file_size(), _sqlite_problems(connection)
            else:
                server = str(connection.exec_driver_sql("SHOW server_version").scalar())
                size = int(connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one())
                problems = ()
        return LedgerHealth(
            dialect=self.dialect,
            server=server,
            revision=revision,
            place=self.place.shown,
            size=size,
            problems=problems,
        )

    def close(self) -> None:
        """Close every idle connection; closing twice is no error."""
        for engine in self.engines.owned:
            engine.dispose()

    @contextmanager
    def _transaction(self, engine: Engine) -> Iterator[sa.Connection]:
        self._leave_parent()
        try:
            connection = engine.connect()
        except exc.TimeoutError as error:
            raise pool_fault(error, self.place) from error
        with connection:
            connection.info.pop(DOOMED, None)
            with connection.begin():
                yield connection

    def _leave_parent(self) -> None:
        """In a forked child, drop the parent's connections without closing them: they still belong to it."""
        if os.getpid() != self._pid:
            self._pid = os.getpid()
            for engine in self.engines.owned:
                engine.dispose(close=False)

    def _file_size(self) -> int:
        if self._file is None:
            return 0
        parts = (self._file.with_name(self._file.name + ending) for ending in ("", "-wal"))
        return sum(part.stat().st_size for part in parts if part.exists())


def _sqlite_problems(connection: sa.Connection) -> tuple[str, ...]:
    pages = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA quick_check(5)")]
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(5)
    orphans = [f"{table}: row {row} refers to a missing {parent}" for table, row, parent, _ in broken]
    return tuple([page for page in pages if page != "ok"] + orphans)
