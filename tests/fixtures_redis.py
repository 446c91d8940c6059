"""Fixtures: a private Redis server that this test session owns, started only when a test asks for it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis

if TYPE_CHECKING:
    from collections.abc import Iterator

BINARY = "redis-server"
START_SECONDS = 60


class RedisServer:
    """A private server on a loopback port, without persistence; it can be stopped and started again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        options = ["--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no"]
        command = ["setpriv", "--pdeathsig=KILL", "--", BINARY, *options, "--dir", str(self.directory)]
        with (self.directory / "log").open("wb") as log:
            self._process = subprocess.Popen(command, cwd=self.directory, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            told = (self.directory / "log").read_text()
            assert self._process.poll() is None, f"Redis ended: {told}"
            assert time.monotonic() < deadline, f"Redis did not start: {told}"
            time.sleep(0.02)

    def pause(self) -> None:
        """Keep connections open and answer nothing, until `resume`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(START_SECONDS)
            self._process = None

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url)

    def _answers(self) -> bool:
        with contextlib.suppress(redis.ConnectionError), self.client() as client:
            return bool(client.ping())
        return False


@pytest.fixture(scope="session")
def redis_session() -> Iterator[RedisServer]:
    """A running private Redis, ended with the session, or when the session's process dies."""
    if shutil.which(BINARY) is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", BINARY], check=False, capture_output=True)
    if shutil.which(BINARY) is None:
        pytest.fail("Redis is needed by these tests: run `apt-get install redis-server`", pytrace=False)
    directory = Path(tempfile.mkdtemp(prefix="kb-redis-"))
    server = RedisServer(directory)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def redis_server(redis_session: RedisServer) -> RedisServer:
    """The running server, empty."""
    with redis_session.client() as client:
        client.flushall()
    return redis_session


@pytest.fixture
def own_redis(tmp_path: Path, redis_session: RedisServer) -> Iterator[RedisServer]:
    """A server of the test's own, not started yet, to be stopped and started at will."""
    server = RedisServer(tmp_path)
    yield server
    server.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
