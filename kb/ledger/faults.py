"""The one place where the databases' errors become ours. Secrets of the URL never reach a message."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import event, exc

from kb.errors import ConfigError, InputError, IntegrityError, KbError, LedgerUnavailable, StaleRevision

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine, ExceptionContext

DOOMED = "kb_doomed"  # marks a connection whose transaction met an error and must not commit

_DISK_FULL = "the disk is full: the ledger ({place}) cannot grow"
_BUSY = "another writer is busy: the ledger ({place}) is locked"
_FORBIDDEN = "the ledger ({place}) may not be opened for this: {detail}"
_FILE_HINT = "check the owner and the permissions of the file and of its folder"
_BUSY_HINT = "wait for the other run to end, then repeat; nothing was written"
_DISK_HINT = "free some space and repeat; nothing that was acknowledged is lost"
_REACH_HINT = "check that the database runs and that ledger_url is right; `kb doctor` tests it"
_CORRUPT_HINT = "restore the ledger from a backup, or move the file away and ingest again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a ledger is, fit to be shown: a file's path, or a URL without its secrets."""

    dialect: str  # sqlite, postgresql
    shown: str
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Place({self.shown})"

    def clean(self, message: str) -> str:
        """Return the first line of a vendor's message, secrets masked."""
        line = message.strip().split("\n", 1)[0]
        for secret in self.secrets:
            line = line.replace(secret, "***")
        return line


def fault_of(error: BaseException, place: Place, *, lost: bool = False) -> KbError | None:
    """Return our error for a database driver's, or None when it is not one that a caller could act on.

    Args:
        error: what the driver raised.
        place: where the ledger is.
        lost: the connection is gone.
    """
    if isinstance(error, UnicodeEncodeError):
        return InputError("a text holds a lone surrogate; it cannot be stored or looked up")
    if isinstance(error, OverflowError):
        return InputError("a number does not fit 64 bits; it cannot be stored or looked up")
    if isinstance(error, sqlite3.Error):
        return _sqlite_fault(error, place)
    if type(error).__module__.split(".", 1)[0] == "psycopg":
        return _postgres_fault(error, place, lost=lost)
    return None


def translate_errors(engine: Engine, place: Place) -> None:
    """Make every error of `engine` ours, and doom the transaction it happened in on either database alike."""

    @event.listens_for(engine, "handle_error")
    def translate(context: ExceptionContext) -> None:
        if context.is_pre_ping:
            return  # the pool asks whether a connection is alive, and replaces it
        if context.connection is not None and not context.connection.invalidated and not context.is_disconnect:
            context.connection.info[DOOMED] = True
        error = context.original_exception
        fault = fault_of(error, place, lost=context.is_disconnect)
        if fault is not None:
            raise fault from error


def pool_fault(error: exc.TimeoutError, place: Place) -> LedgerUnavailable:
    """Return our error for a pool with no free connection."""
    del error  # it names pool sizes only
    return LedgerUnavailable(
        f"every connection to the ledger ({place.shown}) is in use", hint="run fewer things at once, then repeat"
    )


def url_fault(error: exc.ArgumentError | ValueError) -> ConfigError:
    """Return our error for a URL that cannot be read; the URL, which may hold a password, is not repeated."""
    del error
    return ConfigError(
        "ledger_url is not a database URL",
        hint="it should read like postgresql://user@host/name; percent-encode special characters of the password",
    )


# The word after SQLITE_ in the error's name, our error, its message and what to do
_SQLITE_SAYS: dict[str, tuple[type[KbError], str, str]] = {
    "CONSTRAINT": (IntegrityError, "the ledger refused a row: {detail}", ""),
    "FULL": (LedgerUnavailable, _DISK_FULL, _DISK_HINT),
    "BUSY": (LedgerUnavailable, _BUSY, _BUSY_HINT),
    "LOCKED": (LedgerUnavailable, _BUSY, _BUSY_HINT),
    "PROTOCOL": (LedgerUnavailable, _BUSY, _BUSY_HINT),
    "READONLY": (LedgerUnavailable, _FORBIDDEN, _FILE_HINT),
    "CANTOPEN": (LedgerUnavailable, _FORBIDDEN, _FILE_HINT),
    "PERM": (LedgerUnavailable, _FORBIDDEN, _FILE_HINT),
    "IOERR": (
        LedgerUnavailable,
        "the disk under the ledger ({place}) failed or is full: {detail} ({name})",
        _DISK_HINT,
    ),
    "CORRUPT": (IntegrityError, "the ledger ({place}) is damaged: {detail}", _CORRUPT_HINT),
    "NOTADB": (IntegrityError, "the ledger ({place}) is damaged: {detail}", _CORRUPT_HINT),
    "TOOBIG": (InputError, "a value is too large for the ledger: {detail}", ""),
}


def _sqlite_fault(error: sqlite3.Error, place: Place) -> KbError | None:
    name = getattr(error, "sqlite_errorname", None) or ""
    detail = place.clean(str(error))
    said = _SQLITE_SAYS.get(name.split("_")[1] if "_" in name else "")
    if said is not None:
        kind, message, hint = said
        return kind(message.format(place=place.shown, detail=detail, name=name), hint=hint)
    if isinstance(error, sqlite3.OperationalError):
        return LedgerUnavailable(f"the ledger ({place.shown}) failed: {detail}")
    return None


# SQLSTATE, or its class of two characters, and what it means to the reader
_POSTGRES_SAYS = {
    "53100": (_DISK_FULL, _DISK_HINT),
    "55P03": (_BUSY, _BUSY_HINT),
    "28": ("the ledger ({place}) refused the login: {detail}", "check user and password in ledger_url"),
    "3D": ("the ledger ({place}) does not exist: {detail}", "create the database, then repeat"),
    "42501": ("the ledger ({place}) forbids this: {detail}", "grant this user the rights to the database"),
    "25006": ("the ledger ({place}) is read-only here: {detail}", "point ledger_url at the primary server"),
    "53300": ("the ledger ({place}) takes no more connections", "run fewer processes, or raise max_connections"),
}


_UNDONE = "40"  # class of SQLSTATE: the database took the transaction back so that others could go on


# A refused connection has no SQLSTATE, only the server's words; in another language the general message stands
_POSTGRES_WORDS = (
    (re.compile(r"database .* does not exist"), "3D"),
    (re.compile(r"role .* does not exist|authentication failed|no password supplied"), "28"),
    (re.compile(r"too many (clients|connections)|connection slots are reserved"), "53300"),
)


def _postgres_state(error: BaseException, detail: str) -> str:
    state: str | None = getattr(error, "sqlstate", None)
    return state or next((code for pattern, code in _POSTGRES_WORDS if pattern.search(detail)), "")


def _postgres_fault(error: BaseException, place: Place, *, lost: bool) -> KbError | None:
    detail = place.clean(str(error))
    state = _postgres_state(error, detail)
    if state.startswith(_UNDONE):  # a deadlock, or a snapshot that was overtaken: who reads again and repeats, succeeds
        return StaleRevision(f"another writer was faster: the ledger ({place.shown}) undid this transaction")
    said = _POSTGRES_SAYS.get(state) or _POSTGRES_SAYS.get(state[:2])
    if said is not None:
        return LedgerUnavailable(said[0].format(place=place.shown, detail=detail), hint=said[1])
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "IntegrityError" in kinds:
        return IntegrityError(f"the ledger refused a row: {detail}")
    if "DataError" in kinds:
        return InputError(f"the ledger cannot hold a value: {detail}")
    if lost or kinds & {"OperationalError", "InterfaceError", "InternalError"}:
        return LedgerUnavailable(f"the ledger ({place.shown}) cannot be reached: {detail}", hint=_REACH_HINT)
    return None


def refuse_doomed(connection: sa.Connection) -> None:
    """Stop a commit after an error that the caller swallowed: on PostgreSQL it is impossible, so on SQLite it is too.

    Raises:
        IntegrityError: an error happened in this transaction.
    """
    if connection.info.get(DOOMED):
        raise IntegrityError("an error inside this transaction was passed over; nothing was written")
