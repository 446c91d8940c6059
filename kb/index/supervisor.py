"""Owns the Milvus Lite server of one directory: one exclusive lock, one server process, one `endpoint` file.

Started on demand by `kb.index.lite`, detached from whoever started it. It ends, and the server with it, when no process
has held the `clients` lock for the idle time, when the server dies or stops answering, and on SIGTERM or SIGINT.
Imports the standard library only, so that a start costs some 20 ms.

Files in the directory:

    lock       flock held exclusively by supervisor and server together: freed by the kernel when both are gone,
               so there are never two servers on one database. Contains the supervisor's pid.
    clients    flock held shared by every process that uses the server; the kernel frees it when a process dies.
    endpoint   JSON {pid, server_pid, uri, started_at}; there exactly while the server answers, unless killed.
    server.log what supervisor and server say, bounded.
    kb.db      the database.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if sys.platform != "win32":  # importable there, so that the reason why nothing starts can be told
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable

READY, FAILED, OWNED = 0, 1, 75  # exit codes of the launching process

DATABASE: Final = "kb.db"
LOG_BYTES = 256 * 1024
START_SECONDS = 30.0
STOP_SECONDS = 5.0
LOCK_SECONDS = 0.1  # how long to wait for the lock: a client's look at it is over sooner
PLAIN_PATH = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-")
SOCKET_PATH_BYTES = 100  # sun_path holds 108 on Linux and 104 elsewhere
HTTP2_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"  # preface, empty SETTINGS
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Orders:
    """What the supervisor was told.

    Args:
        directory: where the database lives.
        binary: the Milvus Lite server.
        idle: seconds without clients after which the server stops.
        wedged: seconds without an answer after which the server counts as dead.
    """

    directory: Path
    binary: Path
    idle: float
    wedged: float


def answers(path: str, timeout: float) -> bool:
    """Return whether a gRPC server at the socket `path` says hello within `timeout` seconds; a stopped one does not."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(timeout)
        try:
            probe.connect(path)
            probe.sendall(HTTP2_HELLO)
            return bool(probe.recv(9))
        except OSError:
            return False


def owned(directory: Path) -> int | None:
    """Return the file descriptor of the directory's lock, or None when another supervisor, or its server, has it."""
    lock = os.open(directory / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(lock)
                return None
            time.sleep(0.02)
        else:
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
            return lock


def clear(directory: Path) -> None:
    """Remove what a killed supervisor left: its endpoint, its sockets and its private socket directory."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):  # whatever stands there
        stale = Path(json.loads((directory / "endpoint").read_text())["uri"].removeprefix("unix:")).parent
        if stale != directory and stale.name.startswith("kb-index-"):
            shutil.rmtree(stale, ignore_errors=True)
    (directory / "endpoint").unlink(missing_ok=True)
    for leftover in (*directory.glob("*.sock"), *directory.glob("endpoint.*")):
        leftover.unlink(missing_ok=True)


def socket_path(directory: Path) -> Path:
    """Return a path for a new socket, never used before: clients cache connections by it.

    It stands in a private directory of its own when `directory` is too deep for a socket, or has characters that a
    `unix:` URI cannot carry.
    """
    name = f"m{time.time_ns():x}.sock"
    path = str(directory / name)
    if len(path) <= SOCKET_PATH_BYTES and PLAIN_PATH.issuperset(path):
        return Path(path)
    base = tempfile.gettempdir()
    if len(base) > SOCKET_PATH_BYTES // 2 or not PLAIN_PATH.issuperset(base):
        base = "/tmp"  # noqa: S108 - mkdtemp makes a private 0700 directory in it
    return Path(tempfile.mkdtemp(prefix="kb-index-", dir=base)) / name


def _dies_with_parent() -> Callable[[], None] | None:
    """Return what a child runs before it becomes the server so that the kernel kills it with us (Linux only)."""
    if not sys.platform.startswith("linux"):
        return None
    libc, parent = ctypes.CDLL(None, use_errno=True), os.getpid()

    def prepare() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # we died in between: the signal will never come
            os._exit(1)

    return prepare


class Supervisor:
    """Runs one server; see the module's docstring for the files."""

    def __init__(self, orders: Orders, lock: int) -> None:
        self._orders = orders
        self._lock = lock
        self._stopping = False
        self._clients = os.open(orders.directory / "clients", os.O_CREAT | os.O_RDWR, 0o600)
        self._log = os.open(orders.directory / "server.log", os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_TRUNC, 0o600)
        self._socket = socket_path(orders.directory)
        self._woken, wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # handled at all, so that it wakes us
        os.set_inheritable(lock, True)
        self._server = self._spawned()
        os.set_inheritable(lock, False)

    def start(self) -> str:
        """Wait until the server answers and announce it. Returns why not, or an empty text."""
        deadline = time.monotonic() + START_SECONDS
        while not answers(str(self._socket), 1.0):
            if self._server.poll() is not None:
                return f"the server ended with {self._server.returncode} while starting"
            if self._stopping or time.monotonic() > deadline:
                return f"the server did not answer within {START_SECONDS:g} s"
            time.sleep(0.01)
        self._announce()
        return ""

    def run(self) -> None:
        """Watch the server until it should end, or has ended."""
        tick = max(0.05, min(1.0, self._orders.idle / 4))
        idle_since = answered_at = time.monotonic()
        last_use = os.fstat(self._clients).st_mtime_ns
        while not self._stopping and self._server.poll() is None:
            self._sleep(tick)
            now = time.monotonic()
            use = os.fstat(self._clients).st_mtime_ns
            if use != last_use or not self._unused():
                idle_since, last_use = now, use
            elif now - idle_since >= self._orders.idle:
                if self._unused(keep=True):  # from here on newcomers wait until we are gone
                    return
                idle_since = now
            if answers(str(self._socket), min(2.0, self._orders.wedged / 2)):
                answered_at = time.monotonic()
            elif time.monotonic() - answered_at > self._orders.wedged:
                self._say(f"the server did not answer for {self._orders.wedged:g} s and is killed")
                self._server.kill()
            self._bound_log()

    def stop(self) -> None:
        """End the server and take back what announced it."""
        (self._orders.directory / "endpoint").unlink(missing_ok=True)
        if self._server.poll() is None:
            self._server.terminate()
            try:
                self._server.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
        self._socket.unlink(missing_ok=True)
        if self._socket.parent != self._orders.directory:
            shutil.rmtree(self._socket.parent, ignore_errors=True)

    def adopt_output(self) -> None:
        """Send our own output to the log and let go of the terminal and pipes we were started with."""
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(self._log, 1)
        os.dup2(self._log, 2)
        os.close(null)

    def _spawned(self) -> subprocess.Popen[bytes]:
        libraries = str(self._orders.binary.parent)
        return subprocess.Popen(  # noqa: S603 - our own binary, no shell
            [str(self._orders.binary), DATABASE, f"unix:{self._socket}", "ERROR"],
            cwd=self._orders.directory,
            env={
                "HOME": str(self._orders.directory),  # it crashes without one
                **os.environ,
                "LD_LIBRARY_PATH": libraries,
                "DYLD_LIBRARY_PATH": libraries,
                "GLOG_logtostderr": "1",  # else lines of every search go to files in TMPDIR, without a bound
                "GLOG_minloglevel": "1",
            },
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=(self._lock,),
            preexec_fn=_dies_with_parent(),  # noqa: PLW1509 - this process has one thread
        )

    def _on_signal(self, *_: object) -> None:
        self._stopping = True

    def _sleep(self, seconds: float) -> None:
        """Sleep, but wake at once when told to stop or when the server ends."""
        select.select([self._woken], [], [], seconds)
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 4096)

    def _unused(self, *, keep: bool = False) -> bool:
        """Return whether no process holds the clients lock; with `keep`, hold it against newcomers from now on."""
        try:
            fcntl.flock(self._clients, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if not keep:
            fcntl.flock(self._clients, fcntl.LOCK_UN)
        return True

    def _announce(self) -> None:
        endpoint = self._orders.directory / "endpoint"
        draft = endpoint.with_name(f"endpoint.{os.getpid()}")
        content = {
            "pid": os.getpid(),
            "server_pid": self._server.pid,
            "uri": f"unix:{self._socket}",
            "started_at": time.time_ns() // 1_000_000,
        }
        draft.write_text(json.dumps(content))
        draft.rename(endpoint)

    def _say(self, line: str) -> None:
        os.write(self._log, f"supervisor: {line}\n".encode())

    def _bound_log(self) -> None:
        if os.fstat(self._log).st_size > LOG_BYTES:
            os.ftruncate(self._log, 0)
            self._say("older lines were dropped")


def supervise(orders: Orders, ready: int) -> None:
    """Run a server for `orders` to its end; tells the pipe `ready` how the start went: exit code, then reason."""
    lock = owned(orders.directory)
    if lock is None:
        os.write(ready, bytes([OWNED]))
        return
    clear(orders.directory)
    try:
        supervisor = Supervisor(orders, lock)
    except OSError as error:  # no space, no permission, not a program
        os.write(ready, bytes([FAILED]) + str(error).encode())
        return
    try:
        failure = supervisor.start()
        os.write(ready, bytes([FAILED if failure else READY]) + failure.encode())
        os.close(ready)
        supervisor.adopt_output()
        if not failure:
            supervisor.run()
    finally:
        supervisor.stop()


def main(arguments: list[str]) -> int:
    """Start a supervisor in the background and return once it is known how the start went."""
    parser = argparse.ArgumentParser(prog="kb.index.supervisor", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--idle", type=float, default=300.0)
    parser.add_argument("--wedged", type=float, default=10.0)
    given = parser.parse_args(arguments)
    directory = given.directory.resolve()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)
    receive, ready = os.pipe()
    if os.fork() == 0:  # the child has no parent to reap it and no terminal to lose
        os.close(receive)
        os.setsid()
        os.umask(0o077)
        supervise(Orders(directory, given.binary, given.idle, given.wedged), ready)
        return READY
    os.close(ready)
    with os.fdopen(receive, "rb") as pipe:
        answer = pipe.read()
    if not answer:
        sys.stderr.write("the supervisor died while starting\n")
        return FAILED
    sys.stderr.write(answer[1:].decode())
    return answer[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
