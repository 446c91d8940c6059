"""The embedded Milvus: starts, finds, stops the one Milvus Lite server of a directory. `supervisor` does the owning."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kb.clock import SystemClock
from kb.errors import DependencyError, IndexUnavailable, KbError
from kb.index import supervisor
from kb.sqlite_files import rewritten

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kb.model import Instant
    from kb.ports import Clock
    from kb.settings import Settings

START_SECONDS = 30.0
STOP_SECONDS = supervisor.STOP_SECONDS + 5.0
HELLO_SECONDS = 2.0
RELAUNCH_SECONDS = 1.0  # how long to wait for somebody else's start before trying again ourselves
LOG_TAIL = 2000
SERVER_HINT = "set KB_INDEX_URI to a Milvus server"
FORGOTTEN = "DELETE FROM token_doc_count WHERE doc_count <= 0"  # hashes of words that no row holds any more
PASSED_ON = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ", "OMP_NUM_THREADS")  # no secrets outlive their process


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """What a running server's supervisor announces."""

    pid: int  # of the supervisor
    server_pid: int
    uri: str
    started_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteStatus:
    """How the server of a directory is."""

    running: bool
    pid: int | None = None  # of the supervisor
    server_pid: int | None = None
    uri: str | None = None
    uptime_seconds: float | None = None
    clients: int | None = None  # processes attached; None where the kernel does not tell
    disk_bytes: int = 0  # of the database


class LiteServer:
    """The Milvus Lite server of `directory`, shared by all processes that name it. Safe for threads.

    While attached (from `endpoint` to `close`, or the process's death) the server stays up; it ends `idle_seconds`
    after the last process left. The process that starts the server decides `idle_seconds` and `wedged_seconds`, the
    seconds without an answer after which a server counts as dead.
    """

    def __init__(
        self, directory: Path, idle_seconds: float, *, wedged_seconds: float = 10.0, clock: Clock | None = None
    ) -> None:
        self._directory = directory.resolve()
        self._idle = idle_seconds
        self._wedged = wedged_seconds
        self._clock = clock or SystemClock()
        self._mutex = threading.Lock()
        self._attached: int | None = None
        self._announced: tuple[str, tuple[int, int]] | None = None  # URI and identity of its endpoint file

    def endpoint(self) -> str:
        """Return the `unix:` URI of a server that answers, started if there was none.

        Raises:
            IndexUnavailable: it cannot be started here, or did not come up in time; the message has its log's end.
        """
        binary = server_binary()
        deadline = time.monotonic() + START_SECONDS + self._wedged
        with self._mutex:
            self._make_directory()
            self._attach(deadline)
            relaunch_at = 0.0
            while time.monotonic() < deadline:
                announced = self._announcement()
                if announced is not None and supervisor.answers(_socket(announced), HELLO_SECONDS):
                    self._announced = (announced.uri, self._identity())
                    return announced.uri
                if time.monotonic() >= relaunch_at:
                    self._launch(binary)
                    relaunch_at = time.monotonic() + RELAUNCH_SECONDS
                else:
                    time.sleep(0.02)
            raise IndexUnavailable(
                f"the Milvus Lite server in {self._directory} does not answer", hint="`kb store stop`, then try again"
            )

    def is_current(self, uri: str) -> bool:
        """Return whether `uri`, once returned by `endpoint`, is still announced: a look at one file, no connection."""
        announced = self._announced
        return announced is not None and announced == (uri, self._identity())

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Write inside the context, once nothing is under way that a dead process has sent.

        The server may carry that out after what is sent later: a row that was deleted meanwhile would be back. So each
        write leaves a mark that outlives its process, and who finds one stops the server, which ends all it is at.

        Raises:
            IndexUnavailable: the server does not stop, or the mark cannot be left.
        """
        self._make_directory()
        if dead := self._cut_short():
            self.stop()
            for mark in dead:
                mark.unlink(missing_ok=True)
        handle, mark = self._marked()
        is_over = False
        try:
            yield
            is_over = True
        except KbError:  # the server has said so, is gone, or has had the request for a long time
            is_over = True
            raise
        finally:
            if is_over:
                mark.unlink(missing_ok=True)
            os.close(handle)

    def close(self) -> None:
        """Stop using the server; it may end when nobody else uses it."""
        with self._mutex:
            if self._attached is not None:
                os.close(self._attached)
                self._attached = None

    def stop(self) -> bool:
        """Stop the server, whoever uses it, and stop using it. Returns whether one was running.

        Raises:
            IndexUnavailable: it could not be stopped.
        """
        self.close()
        if not self._is_owned():
            return False
        deadline = time.monotonic() + STOP_SECONDS
        self._signal(signal.SIGTERM)
        killed = False
        while self._is_owned():
            if time.monotonic() > deadline:
                if killed:
                    raise IndexUnavailable(f"the Milvus Lite server in {self._directory} does not stop")
                self._signal(signal.SIGKILL)
                killed, deadline = True, time.monotonic() + STOP_SECONDS
            time.sleep(0.02)
        return True

    def rewrite(self) -> None:
        """Stop the server and write its file anew, so that no byte of a deleted row is left in it; empty its log.

        Who uses it meanwhile waits: while the lock is ours, nobody can start a server. The next use starts one.

        Raises:
            IndexUnavailable: it does not stop, or the file cannot be written.
        """
        database = self._directory / supervisor.DATABASE
        if not database.exists():
            return
        deadline = time.monotonic() + START_SECONDS
        lock = os.open(self._directory / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            self.stop()
            while not _locked(lock, fcntl.LOCK_EX):  # somebody was quicker to start another
                if time.monotonic() > deadline:
                    raise IndexUnavailable(f"the Milvus Lite server in {self._directory} is in use all the time")
                self.stop()
            rewritten(database, before=[FORGOTTEN])
            with contextlib.suppress(FileNotFoundError):
                os.truncate(self._directory / "server.log", 0)
        except DependencyError as error:
            raise IndexUnavailable(str(error)) from error
        finally:
            os.close(lock)

    def status(self) -> LiteStatus:
        """Return how the server is, without starting it or attaching to it."""
        disk = sum(f.stat().st_size for f in self._directory.glob(f"{supervisor.DATABASE}*") if f.is_file())
        announced = self._announcement()
        if announced is None or not supervisor.answers(_socket(announced), HELLO_SECONDS):
            return LiteStatus(running=False, disk_bytes=disk)
        return LiteStatus(
            running=True,
            pid=announced.pid,
            server_pid=announced.server_pid,
            uri=announced.uri,
            uptime_seconds=max(0, self._clock.now() - announced.started_at) / 1000,
            clients=_lock_holders(self._directory / "clients"),
            disk_bytes=disk,
        )

    def _make_directory(self) -> None:
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._directory.chmod(0o700)  # the server asks for no password: the directory keeps others out
        except OSError as error:
            raise IndexUnavailable(f"the index directory cannot be used: {error}") from error

    def _marked(self) -> tuple[int, Path]:
        """Leave the mark of a write, locked from the moment that it can be seen."""
        mark = self._directory / f"writing-{uuid.uuid4().hex}"
        draft = mark.with_suffix(".draft")
        try:
            handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            _locked(handle, fcntl.LOCK_EX)
            draft.rename(mark)
        except OSError as error:
            raise IndexUnavailable(f"the index directory cannot be used: {error}") from error
        return handle, mark

    def _cut_short(self) -> list[Path]:
        """Return the marks of writes whose process died before it had an answer."""
        found = []
        for mark in self._directory.glob("writing-" + "[0-9a-f]" * 32):
            with contextlib.suppress(FileNotFoundError):
                handle = os.open(mark, os.O_RDWR)
                try:
                    if _locked(handle, fcntl.LOCK_SH):
                        found.append(mark)
                finally:
                    os.close(handle)
        return found

    def _attach(self, deadline: float) -> None:
        """Hold the clients lock; waits while a supervisor that found nobody is ending its server."""
        if self._attached is None:
            self._attached = os.open(self._directory / "clients", os.O_CREAT | os.O_RDWR, 0o600)
        while not _locked(self._attached, fcntl.LOCK_SH):
            if time.monotonic() > deadline:
                raise IndexUnavailable(f"the Milvus Lite server in {self._directory} does not end")
            time.sleep(0.02)
        os.utime(self._attached)  # tells the supervisor that the idle time starts anew

    def _launch(self, binary: Path) -> None:
        """Start a supervisor, which gives way when there is one; ends what an earlier one left behind."""
        command = [sys.executable, "-I", "-S", supervisor.__file__, str(self._directory), "--binary", str(binary)]
        try:
            done = subprocess.run(  # noqa: S603 - our own program, no shell
                [*command, "--idle", str(self._idle), "--wedged", str(self._wedged)],
                env={name: os.environ[name] for name in PASSED_ON if name in os.environ},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=START_SECONDS + supervisor.START_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise IndexUnavailable(f"Milvus Lite cannot be started: {error}", hint=SERVER_HINT) from error
        if done.returncode == supervisor.OWNED:
            self._end_orphan()
        elif done.returncode != supervisor.READY:
            reason = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
            raise IndexUnavailable(
                f"Milvus Lite did not start: {reason}\n{self._log_tail()}".rstrip(),
                hint=f"see {self._directory / 'server.log'}, or {SERVER_HINT}",
            )

    def _end_orphan(self) -> None:
        """Kill a server whose supervisor is dead, where the kernel does not: it holds the lock, and serves nobody."""
        announced = self._announcement()
        if announced is not None and not _command(announced.pid):
            _kill_server(announced)

    def _signal(self, number: int) -> None:
        """Send a signal to the supervisor, and with SIGKILL to the server too; never to a stranger that has its pid."""
        with contextlib.suppress(OSError, ValueError):
            pid = int((self._directory / "lock").read_text())
            if str(self._directory) in _command(pid):
                os.kill(pid, number)
        self._end_orphan()
        announced = self._announcement()
        if number == signal.SIGKILL and announced is not None:
            _kill_server(announced)

    def _is_owned(self) -> bool:
        try:
            lock = os.open(self._directory / "lock", os.O_RDWR)
        except (FileNotFoundError, NotADirectoryError):
            return False
        try:
            return not _locked(lock, fcntl.LOCK_SH)
        finally:
            os.close(lock)

    def _announcement(self) -> Endpoint | None:
        try:
            return Endpoint(**json.loads((self._directory / "endpoint").read_text()))
        except (OSError, ValueError, TypeError):  # not there, or not ours: as good as none
            return None

    def _identity(self) -> tuple[int, int]:
        try:
            stat = (self._directory / "endpoint").stat()
        except OSError:
            return (0, 0)
        return (stat.st_ino, stat.st_mtime_ns)

    def _log_tail(self) -> str:
        try:
            return (self._directory / "server.log").read_text(errors="replace")[-LOG_TAIL:].strip()
        except OSError:
            return ""


def lite_server(settings: Settings) -> LiteServer:
    """Return the Milvus Lite server of the settings' data directory; nothing is started yet."""
    return LiteServer(settings.data_dir / "index", settings.index_idle_seconds)


def server_binary() -> Path:
    """Return the Milvus Lite server's path. Located, never imported: its package needs setuptools of old.

    Raises:
        IndexUnavailable: there is none for this platform, or it is not installed.
    """
    if sys.platform == "win32":
        raise IndexUnavailable("Milvus Lite does not run on Windows", hint=SERVER_HINT)
    spec = importlib.util.find_spec("milvus_lite")
    for location in spec.submodule_search_locations or () if spec else ():
        binary = Path(location) / "lib" / "milvus"
        if binary.is_file():
            return binary
    raise IndexUnavailable(
        "Milvus Lite (milvus-lite 2.5.1, with its server) is not installed", hint=f"install it, or {SERVER_HINT}"
    )


def _kill_server(announced: Endpoint) -> None:
    if announced.uri in _command(announced.server_pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(announced.server_pid, signal.SIGKILL)


def _socket(announced: Endpoint) -> str:
    return announced.uri.removeprefix("unix:")


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _command(pid: int) -> str:
    """Return a process's command line; empty when there is no such process (a zombie's is empty too)."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="surrogateescape")
    except OSError:
        if Path("/proc/self").exists():
            return ""
    shown = subprocess.run(  # noqa: S603 - a number, no shell
        ["/bin/ps", "-p", str(pid), "-o", "command="], capture_output=True, text=True, check=False
    )
    return shown.stdout


def _lock_holders(path: Path) -> int | None:
    """Return how many processes hold a flock on `path`, from Linux's table of locks; None elsewhere."""
    try:
        inode = str(path.stat().st_ino)
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    fields = [line.split() for line in lines if "FLOCK" in line]
    return len({f[-4] for f in fields if f[-3].rsplit(":", 1)[-1] == inode and "->" not in f})
