"""Opening a ledger: URLs, schema, versions, and what a refusal says."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from kb.errors import ConfigError, IntegrityError, LedgerUnavailable
from kb.ledger import open_ledger
from kb.ledger.engine import target_of
from kb.ledger.faults import fault_of
from kb.ledger.migrations import HEAD, REVISIONS, VERSION_TABLE
from kb.ledger.schema import METADATA
from tests.ledger_samples import a_memory

if TYPE_CHECKING:
    from pathlib import Path

    from kb.ledger import Ledger
    from tests.fixtures_ledger import PostgresServer


def test_the_migrated_schema_is_the_one_the_program_believes_in(ledger: Ledger) -> None:
    with ledger.engines.reads.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": VERSION_TABLE, "compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, METADATA) == []


def definitions(connection: sa.Connection) -> set[str]:
    """Return what Alembic's comparison does not look at: index conditions, collations, checks, deferrals."""
    if connection.dialect.name == "sqlite":
        query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
    else:
        query = """
            SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
            UNION SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
              WHERE connamespace = 'public'::regnamespace
            UNION SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' '
              || coalesce(collation_name, '') || coalesce(column_default, '')
              FROM information_schema.columns WHERE table_schema = 'public'"""
    found = connection.exec_driver_sql(query).scalars()
    return {" ".join(line.split()) for line in found if VERSION_TABLE not in line}


def test_the_migrated_schema_agrees_to_the_last_condition(
    ledger: Ledger, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if ledger.dialect == "sqlite":
        engine = sa.create_engine(f"sqlite:///{tmp_path / 'plain.db'}")
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        engine = sa.create_engine(server.url(server.create()).replace("postgresql", "postgresql+psycopg", 1))
    METADATA.create_all(engine)
    with engine.connect() as plain, ledger.engines.reads.connect() as migrated:
        assert sorted_columns(definitions(migrated)) == sorted_columns(definitions(plain))
    engine.dispose()


def sorted_columns(lines: set[str]) -> set[str]:
    """Return the definitions with the clauses of each table in one order; Alembic puts constraints elsewhere."""
    return {", ".join(sorted(line.replace(" )", "").split(", "))) for line in lines}


def test_the_revisions_listed_are_the_files(ledger: Ledger) -> None:
    config = Config()
    config.set_main_option("script_location", "kb.ledger:migrations")
    scripts = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert tuple(reversed(scripts)) == REVISIONS
    assert ledger.check().revision == HEAD


def test_opening_again_keeps_everything(ledger: Ledger, ledger_url: str | None, tmp_path: Path) -> None:
    with ledger.write() as tx:
        tx.memories.add([a_memory(1)])
    ledger.close()
    with open_ledger(ledger_url, data_dir=tmp_path / "kb") as again, again.read() as tx:
        assert tx.memories.page("", 10) == [a_memory(1)]


def test_a_ledger_of_a_newer_program_is_refused(ledger: Ledger, ledger_url: str | None, tmp_path: Path) -> None:
    with ledger.engines.writes.begin() as connection:
        connection.execute(sa.update(sa.table(VERSION_TABLE, sa.column("version_num"))).values(version_num="9999"))
    with pytest.raises(ConfigError, match=r"newer version \(9999\)") as refused:
        open_ledger(ledger_url, data_dir=tmp_path / "kb")
    assert "upgrade kb" in refused.value.hint


def test_a_check_says_where_and_how_the_ledger_is(ledger: Ledger) -> None:
    health = ledger.check()
    assert (health.dialect, health.revision, health.problems) == (ledger.dialect, HEAD, ())
    assert health.size > 10_000
    assert health.server[0].isdigit()
    assert health.place in repr(ledger)


def test_sqlite_files_are_private_and_set_for_durability(tmp_path: Path) -> None:
    with open_ledger(None, data_dir=tmp_path / "new" / "kb") as ledger:
        with ledger.write() as tx:
            tx.meta.set("k", 1)
        modes = {p.name: p.stat().st_mode & 0o777 for p in (tmp_path / "new" / "kb").rglob("*")}
        assert {name: mode for name, mode in modes.items() if mode & 0o077} == {}
        assert {"ledger.db", "ledger.db-wal", "locks"} <= modes.keys()
        for engine in (ledger.engines.reads, ledger.engines.writes):
            with engine.connect() as connection:
                pragmas = {
                    name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                    for name in ("journal_mode", "foreign_keys", "synchronous", "busy_timeout")
                }
            assert pragmas == {"journal_mode": "wal", "foreign_keys": 1, "synchronous": 2, "busy_timeout": 30_000}


def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(b"this is not a database, it only stands here" * 100)
    with pytest.raises(IntegrityError, match="damaged"):
        open_ledger(None, data_dir=tmp_path)


def test_a_damaged_page_is_reported_by_the_check(tmp_path: Path) -> None:
    with open_ledger(None, data_dir=tmp_path) as ledger, ledger.write() as tx:
        tx.memories.add([a_memory(i) for i in range(500)])
    with sqlite3.connect(tmp_path / "ledger.db") as plain:
        plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    plain.close()
    data = bytearray((tmp_path / "ledger.db").read_bytes())
    data[-4096 * 20 : -4096 * 10] = b"\xff" * (4096 * 10)
    (tmp_path / "ledger.db").write_bytes(data)
    with open_ledger(None, data_dir=tmp_path) as ledger:
        assert ledger.check().problems


def test_a_place_that_cannot_be_a_directory_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerUnavailable, match="cannot be opened"):
        open_ledger(None, data_dir=tmp_path / "file" / "kb")


def test_a_sqlite_url_names_a_file(tmp_path: Path) -> None:
    with open_ledger(f"sqlite:///{tmp_path}/other.db", data_dir=tmp_path / "kb") as ledger:
        assert ledger.check().place == f"{tmp_path}/other.db"
    assert not (tmp_path / "kb").exists()


@pytest.mark.parametrize(
    "url",
    [
        "mysql://host/db",
        "sqlite://",
        "sqlite:///:memory:",
        "nonsense",
        "postgresql+asyncpg://h/d",
        "postgresql://h:x/d",
    ],
)
def test_a_url_that_no_ledger_can_live_at_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        open_ledger(url, data_dir=tmp_path)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_spelling_of_postgresql_is_one(scheme: str, tmp_path: Path) -> None:
    target = target_of(f"{scheme}://user@host:5433/kb?sslmode=require", tmp_path)
    assert target.url.drivername == "postgresql+psycopg"
    assert target.place.shown == "postgresql://user@host:5433/kb"


SECRET = "s3cr3t-wörd"  # noqa: S105 - the one to look for


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://user:{SECRET}@127.0.0.1:1/kb",
        f"postgresql://user@127.0.0.1:1/kb?password={SECRET}",
        f"postgresql://user:{SECRET}@127.0.0.1:x/kb",
        f"postgresql://user:x@{SECRET}@127.0.0.1:1/kb",
        f"mysql://user:{SECRET}@127.0.0.1/kb",
        f"{SECRET}",
    ],
)
def test_a_password_never_shows(url: str, tmp_path: Path) -> None:
    with pytest.raises((ConfigError, LedgerUnavailable)) as refused:
        open_ledger(url, data_dir=tmp_path)
    shown = f"{refused.value!r} {refused.value} {refused.value.hint}"
    assert SECRET not in shown
    assert "s3cr3t" not in shown


def test_a_password_shows_in_no_repr(postgres_url: str, tmp_path: Path) -> None:
    with_password = postgres_url.replace("postgres@", f"postgres:{SECRET}@")
    with open_ledger(with_password, data_dir=tmp_path) as ledger:
        shown = f"{ledger!r} {ledger.check()} {ledger.place!r} {ledger.engines!r}"
    assert SECRET not in shown
    assert "127.0.0.1" in shown


def test_a_vendors_message_that_quotes_a_password_is_masked(tmp_path: Path) -> None:
    place = target_of(f"postgresql://user:{SECRET}@host/kb", tmp_path).place
    fault = fault_of(psycopg.OperationalError(f"no such thing: {SECRET}\nsecond line"), place)
    assert isinstance(fault, LedgerUnavailable)
    assert SECRET not in str(fault)
    assert "second line" not in str(fault)


def test_a_server_that_is_not_there_is_unavailable_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable, match=r"postgresql://user@127\.0\.0\.1:1/kb.* cannot be reached") as refused:
        open_ledger("postgresql://user@127.0.0.1:1/kb", data_dir=tmp_path)
    assert "ledger_url" in refused.value.hint


def test_a_database_that_is_not_there_is_said(postgres: PostgresServer, tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable, match="does not exist") as refused:
        open_ledger(postgres.url("nowhere"), data_dir=tmp_path)
    assert "create the database" in refused.value.hint


def test_a_database_that_cannot_hold_every_text_is_refused(postgres: PostgresServer, tmp_path: Path) -> None:
    with postgres.admin() as admin:
        admin.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(ConfigError, match="LATIN1"):
        open_ledger(postgres.url("latin"), data_dir=tmp_path)
    postgres.drop("latin")


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (psycopg.errors.DiskFull, "disk is full"),
        (psycopg.errors.LockNotAvailable, "another writer is busy"),
        (psycopg.errors.InvalidPassword, "refused the login"),
        (psycopg.errors.TooManyConnections, "no more connections"),
        (psycopg.errors.AdminShutdown, "cannot be reached"),
        (psycopg.errors.InsufficientPrivilege, "forbids"),
    ],
)
def test_every_way_postgresql_fails_is_said_in_our_words(
    state: type[psycopg.Error], message: str, tmp_path: Path
) -> None:
    fault = fault_of(state("detail"), target_of("postgresql://user@host/kb", tmp_path).place)
    assert isinstance(fault, LedgerUnavailable)
    assert message in str(fault)
    assert fault.hint
