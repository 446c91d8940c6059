"""Fixtures: ledgers on both databases, the PostgreSQL one on a private server that this test session owns."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from kb.ledger import open_ledger
from kb.ledger.engine import LEDGER_FILE
from kb.ledger.migrations import HEAD, VERSION_TABLE
from kb.ledger.schema import METADATA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kb.ledger import Ledger

BINARIES = Path("/usr/lib/postgresql/15/bin")
START_SECONDS = 60
SETTINGS = {
    "fsync": "off",  # the tests end the server in order; durability is the server's own affair
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "max_connections": "200",
    "listen_addresses": "127.0.0.1",
    "shared_buffers": "32MB",
}


@dataclass(frozen=True, kw_only=True)
class PostgresServer:
    """A private server: trusting, on a loopback port and a unix socket."""

    directory: Path
    port: int
    numbers: count[int]

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def admin(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(host=str(self.directory), port=self.port, user="postgres", autocommit=True)

    def create(self, template: str = "template0") -> str:
        """Create a database from a template and return its name."""
        name = f"kb_{next(self.numbers)}"
        with self.admin() as connection:
            connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
            )
        return name

    def empty(self, name: str) -> None:
        """Cut every connection to a migrated database and delete its rows."""
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            for table in reversed(METADATA.sorted_tables):
                connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table.name)))
            connection.execute(sql.SQL("UPDATE {} SET version_num = %s").format(sql.Identifier(VERSION_TABLE)), [HEAD])

    def drop(self, name: str) -> None:
        with self.admin() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running private PostgreSQL 15, stopped at the end of the session, or when the session's process dies."""
    if not (BINARIES / "postgres").exists():
        pytest.fail("PostgreSQL 15 is needed by these tests: run `apt-get install postgresql`", pytrace=False)
    directory = Path(tempfile.mkdtemp(prefix="kb-pg-"))
    demote = _demotion()
    if os.getuid() == 0:
        account = pwd.getpwnam("postgres")
        os.chown(directory, account.pw_uid, account.pw_gid)
    data = directory / "data"
    subprocess.run(
        [*demote, BINARIES / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"],
        check=True,
        cwd=directory,
        stdout=subprocess.DEVNULL,
    )
    port = _free_port()
    options = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [*demote, BINARIES / "postgres", "-D", data, "-k", directory, "-p", str(port), *options],
            cwd=directory,
            stdout=log,
            stderr=log,
        )
    try:
        server = PostgresServer(directory=directory, port=port, numbers=count(1))
        _await(server, process)
        yield server
    finally:
        process.send_signal(signal.SIGQUIT)  # at once: its data are thrown away
        process.wait(START_SECONDS)
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def migrated(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Name of a database with the schema in it, to be emptied by who uses it, or copied."""
    name = postgres.create()
    open_ledger(postgres.url(name), data_dir=tmp_path_factory.mktemp("data")).close()
    return name


@pytest.fixture
def postgres_url(postgres: PostgresServer, migrated: str) -> Iterator[str]:
    """URL of an empty, migrated database; emptying one is quicker by far than creating one."""
    yield postgres.url(migrated)
    postgres.empty(migrated)


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite ledger with the schema in it, to be copied."""
    data_dir = tmp_path_factory.mktemp("kb")
    with open_ledger(None, data_dir=data_dir) as ledger, ledger.engines.writes.connect() as connection:
        connection.execution_options(kb_begin="").exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    return data_dir / LEDGER_FILE


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    """URL of an empty ledger on either database; None for SQLite in `tmp_path / "kb"`."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    (tmp_path / "kb").mkdir()
    shutil.copy(request.getfixturevalue("migrated_file"), tmp_path / "kb" / LEDGER_FILE)
    return None


@pytest.fixture
def ledger(ledger_url: str | None, tmp_path: Path) -> Iterator[Ledger]:
    """A fresh ledger, once on each database."""
    with open_ledger(ledger_url, data_dir=tmp_path / "kb") as opened:
        yield opened


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def one_ledger(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """One ledger of either kind for all examples of a law; each example undoes its transaction."""
    url = None
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.url(server.create(request.getfixturevalue("migrated")))
    with open_ledger(url, data_dir=tmp_path_factory.mktemp("kb")) as opened:
        yield opened


def _demotion() -> list[str]:
    """Run as `postgres` when we are root, which the server refuses to be; end with us in any case."""
    to = ["--reuid=postgres", "--regid=postgres", "--init-groups"] if os.getuid() == 0 else []
    return ["setpriv", *to, "--pdeathsig=QUIT", "--"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await(server: PostgresServer, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(psycopg.OperationalError):
            server.admin().close()
            return
        log = (server.directory / "log").read_text()
        assert process.poll() is None, f"PostgreSQL ended: {log}"
        assert time.monotonic() < deadline, f"PostgreSQL did not start: {log}"
        time.sleep(0.05)
