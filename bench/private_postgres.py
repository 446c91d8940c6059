"""A private PostgreSQL for benchmarks, with the server's own durability, on a loopback port; gone when they end."""

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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

START_SECONDS = 60
SETTINGS = {"listen_addresses": "127.0.0.1", "shared_buffers": "256MB", "max_wal_size": "4GB"}


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running server that trusts whoever comes."""

    port: int
    pid: int

    @property
    def url(self) -> str:
        """Of its one database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def cpu_seconds(self) -> float:
        """Return what its living processes have used so far."""
        used = 0.0
        for process in psutil.Process(self.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                used += times.user + times.system
        return used


def binaries() -> Path | None:
    """Return where the server's programs are; None when they are not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return found[-1].parent if found else None


@contextmanager
def private_server() -> Iterator[Server]:
    """Start a server of its own, and stop it at the end."""
    programs = binaries()
    assert programs is not None, "PostgreSQL is not installed (on Debian: apt-get install postgresql)"
    directory = Path(tempfile.mkdtemp(prefix="kb-bench-pg-"))
    to: list[str] = []
    if os.getuid() == 0:  # the server refuses to be root
        account = pwd.getpwnam("postgres")
        os.chown(directory, account.pw_uid, account.pw_gid)
        to = ["--reuid=postgres", "--regid=postgres", "--init-groups"]
    demote = ["setpriv", *to, "--pdeathsig=QUIT", "--"]
    data, port = directory / "data", _free_port()
    subprocess.run(
        [*demote, programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"],
        check=True,
        cwd=directory,
        stdout=subprocess.DEVNULL,
    )
    options = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [*demote, programs / "postgres", "-D", data, "-k", directory, "-p", str(port), *options],
            cwd=directory,
            stdout=log,
            stderr=log,
        )
    try:
        server = Server(port=port, pid=process.pid)
        _await(server)
        yield server
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(START_SECONDS)
        shutil.rmtree(directory, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await(server: Server) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(server.url).close()
            return
        assert time.monotonic() < deadline, "PostgreSQL did not start"
        time.sleep(0.05)
