"""Locks between processes, freed by themselves when their process dies.

Beside a SQLite file: `flock` on a small file that names its holder. On PostgreSQL: an advisory lock on a connection of
its own. A process that is forked while a lock is held does not inherit it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import socket
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import exc

from kb.errors import LedgerUnavailable, Locked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from sqlalchemy.engine import Engine

    from kb.ports import Clock

POLL_SECONDS = 0.05
MAX_FILE_NAME = 120

_held: set[int] = set()  # file descriptors that keep a lock


class Held(Protocol):
    """A lock that was won. It can be lost while its holder works: a database restarts, somebody removes a file."""

    def is_held(self) -> bool:
        """Ask whether the lock still is this holder's; once False it stays so. From any thread; may take a moment.

        Who writes what another holder might write, too, asks before every batch.
        """
        ...


class Locks(Protocol):
    """Named locks that exclude every other holder, in this process and in others."""

    def hold(self, name: str, *, wait_seconds: float = 0.0) -> AbstractContextManager[Held]:
        """Hold the lock inside the context; wait for it at most `wait_seconds`.

        Raises:
            Locked: another holder has it; the message says who and since when, as far as known.
            LedgerUnavailable: the lock cannot be asked for.
        """
        ...


class FileLocks:
    """Locks as files in one directory."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock

    @contextmanager
    def hold(self, name: str, *, wait_seconds: float = 0.0) -> Iterator[Held]:
        """See `Locks.hold`."""
        path = self._directory / f"{safe_name(name)}.lock"
        handle = self._opened(name, path)
        held = _HeldFile(handle, path)
        try:
            if not won(functools.partial(_flocked, handle), wait_seconds):
                raise Locked(f"another run holds the lock {name!r}{_file_holder(handle)}")
            with _kept(handle):
                _sign(handle, {"pid": os.getpid(), "since": self._clock.now()})
                yield held
                _sign(handle, None)
        finally:
            held.let_go()
            os.close(handle)

    def _opened(self, name: str, path: Path) -> int:
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise LedgerUnavailable(
                f"the lock {name!r} in {self._directory} cannot be opened: {error.strerror}",
                hint="check the owner, the permissions and the free space of the data directory",
            ) from error


class AdvisoryLocks:
    """Locks of a PostgreSQL database, each on a connection of its own (never through a transaction-pooling proxy)."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine  # no pool, autocommit

    @contextmanager
    def hold(self, name: str, *, wait_seconds: float = 0.0) -> Iterator[Held]:
        """See `Locks.hold`."""
        key = advisory_key(name)
        with self._engine.connect() as connection:
            who = f"kb pid {os.getpid()} on {socket.gethostname()}"[:63]
            connection.execute(_INTRODUCE, {"who": who})
            if not won(lambda: bool(connection.execute(_TRY_LOCK, {"key": key}).scalar()), wait_seconds):
                raise Locked(f"another run holds the lock {name!r}{_advisory_holder(connection, key)}")
            held = _HeldSession(connection, key)
            try:
                with _kept(connection.connection.driver_connection.fileno()):  # type: ignore[union-attr] # psycopg's
                    yield held
            finally:
                held.let_go()  # the connection is this thread's alone again
            with contextlib.suppress(LedgerUnavailable, exc.SQLAlchemyError):  # closing frees it in any case
                connection.execute(_UNLOCK, {"key": key})


class _HeldFile:
    """A lock on a file. Who removes the file lets a second holder in, so it must still be the one at its path."""

    def __init__(self, handle: int, path: Path) -> None:
        self._handle = handle
        self._path = path
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._is_held = True

    def is_held(self) -> bool:
        """See `Held.is_held`."""
        with self._mutex:
            self._is_held = self._is_held and os.getpid() == self._pid and self._is_in_place()
            return self._is_held

    def let_go(self) -> None:
        """Answer False from now on: the handle's number may soon be another file's."""
        with self._mutex:
            self._is_held = False

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._handle), self._path.stat())
        except OSError:
            return False


class _HeldSession:
    """A lock of a database session. The session's own server process is asked: another's answer proves nothing."""

    def __init__(self, connection: sa.Connection, key: int) -> None:
        self._connection = connection
        self._key = key
        self._pid = os.getpid()
        self._mutex = threading.Lock()  # the connection serves one thread at a time
        self._is_held = True

    def is_held(self) -> bool:
        """See `Held.is_held`."""
        if os.getpid() != self._pid:
            return False
        with self._mutex:
            self._is_held = self._is_held and self._is_granted()
            return self._is_held

    def let_go(self) -> None:
        """Answer False from now on, once nobody is asking any more."""
        with self._mutex:
            self._is_held = False

    def _is_granted(self) -> bool:
        try:
            return bool(self._connection.execute(_GRANTED, {"key": self._key}).scalar())
        except (LedgerUnavailable, exc.SQLAlchemyError):
            return False


def safe_name(name: str) -> str:
    """Return a file name for a lock: readable when short, distinct for distinct names."""
    quoted = quote(name, safe="", errors="surrogatepass")
    if len(quoted) <= MAX_FILE_NAME:
        return quoted
    return f"{quoted[:80]}-{hashlib.sha256(quoted.encode()).hexdigest()[:32]}"


def advisory_key(name: str) -> int:
    """Return the 64-bit number that stands for a lock's name."""
    digest = hashlib.sha256(f"kb.ledger lock {name}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def won(attempt: Callable[[], bool], wait_seconds: float) -> bool:
    """Return whether `attempt` succeeded within the time; it is tried at least once."""
    deadline = time.monotonic() + wait_seconds
    while not attempt():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _flocked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise LedgerUnavailable(
            f"this file system has no locks: {error.strerror}", hint="keep the data directory on a local disk"
        ) from error
    return True


def _sign(handle: int, holder: dict[str, int] | None) -> None:
    with contextlib.suppress(OSError):  # on a full disk the lock still holds; it only stays anonymous
        os.ftruncate(handle, 0)
        if holder is not None:
            os.pwrite(handle, json.dumps(holder).encode(), 0)


def _file_holder(handle: int) -> str:
    try:
        holder = json.loads(os.pread(handle, 4096, 0))
        return _said(f"pid {holder['pid']}", holder["since"] / 1000)
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _said(who: str, since: float) -> str:
    return f" ({who}, since {datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M:%S} UTC)"


_INTRODUCE = sa.text("SELECT set_config('application_name', :who, false)")
_TRY_LOCK = sa.text("SELECT pg_try_advisory_lock(:key)")
_UNLOCK = sa.text("SELECT pg_advisory_unlock(:key)")
_GRANTED = sa.text(
    "SELECT count(*) > 0 FROM pg_locks"
    " WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND pid = pg_backend_pid()"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND ((classid::bigint << 32) | objid::bigint) = :key"
)
_HOLDER = sa.text(
    "SELECT a.application_name, extract(epoch FROM a.query_start) FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
    " WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1"
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND ((l.classid::bigint << 32) | l.objid::bigint) = :key"
)


def _advisory_holder(connection: sa.Connection, key: int) -> str:
    row = connection.execute(_HOLDER, {"key": key}).first()
    if row is None or row[0] is None or row[1] is None:  # gone meanwhile, or another user's session
        return ""
    return _said(str(row[0]).removeprefix("kb "), float(row[1]))


@contextmanager
def _kept(handle: int) -> Iterator[None]:
    _watch_forks()
    _held.add(handle)
    try:
        yield
    finally:
        _held.discard(handle)


@functools.cache
def _watch_forks() -> None:
    os.register_at_fork(after_in_child=_let_go)


def _let_go() -> None:
    """Close the parent's locks in a forked child: a worker that outlives its parent must not keep them."""
    for handle in _held:
        with contextlib.suppress(OSError):
            os.close(handle)
    _held.clear()
