"""Opens a ledger: reads its URL, sets its database up the one way we use it, and brings its schema to head."""

from __future__ import annotations

import errno
import json
import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import NullPool

from kb.clock import SystemClock
from kb.errors import ConfigError, LedgerUnavailable
from kb.ledger.checks import json_text
from kb.ledger.faults import Place, translate_errors, url_fault
from kb.ledger.ledger import Engines, Ledger
from kb.ledger.locks import AdvisoryLocks, FileLocks
from kb.ledger.migrate import bring_to_head

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

    from kb.settings import Settings

LEDGER_FILE = "ledger.db"
BUSY_SECONDS = 30
PROMPT_SECONDS = 0.05  # how long who must not wait for a writer waits all the same
CONNECT_SECONDS = 10
READERS = 32  # connections a process may read with at once
POSTGRES_DRIVER = "postgresql+psycopg"

_SQLITE_SETUP = ("PRAGMA foreign_keys=ON", "PRAGMA synchronous=FULL", "PRAGMA journal_size_limit=67108864")
_SQLITE_READ_ONLY = "PRAGMA query_only=ON"
_POSTGRES_SETUP = f"SET lock_timeout = '{BUSY_SECONDS}s'"
_POSTGRES_PROMPT = f"SET LOCAL lock_timeout = '{round(PROMPT_SECONDS * 1000)}ms'"
_SECRET_QUERY = ("password", "sslpassword", "passfile")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Target:
    """What a ledger URL means."""

    url: URL
    place: Place
    file: Path | None  # SQLite's


def open_ledger(url: str | None, *, data_dir: Path) -> Ledger:
    """Open the ledger, creating or upgrading its schema when needed; safe from many processes at once.

    Args:
        url: SQLAlchemy URL (`postgresql://…`, `postgres://…`, `sqlite:///file`); None for SQLite in `data_dir`.
        data_dir: where everything local lives; created, private to the user, when absent.

    Raises:
        ConfigError: the URL is wrong, or the ledger belongs to a newer version of the program.
        LedgerUnavailable: it cannot be reached, opened or written.
        IntegrityError: the file is damaged.
    """
    target = target_of(url, data_dir)
    ledger = _sqlite_ledger(target, target.file) if target.file is not None else _postgres_ledger(target)
    with ExitStack() as undo:
        undo.callback(ledger.close)
        bring_to_head(ledger.engines.writes, ledger.locks)
        undo.pop_all()
    return ledger


def open_configured(settings: Settings) -> Ledger:
    """Open the ledger that the settings name; see `open_ledger`."""
    url = settings.ledger_url
    return open_ledger(None if url is None else url.get_secret_value(), data_dir=settings.data_dir)


def target_of(url: str | None, data_dir: Path) -> Target:
    """Return what a URL means, its secrets known so that they can be kept out of every message.

    Raises:
        ConfigError: it is no URL of a database that a ledger can live in.
    """
    if not url:
        return _sqlite_target(data_dir / LEDGER_FILE)
    if url.split("://", 1)[-1].split("?", 1)[0].count("@") > 1:
        raise url_fault(ValueError())  # a bare @ in the password would show part of it as the host
    try:
        parsed = make_url(url)
    except (exc.ArgumentError, ValueError) as error:
        raise url_fault(error) from None  # the cause may quote the URL
    match parsed.drivername:
        case "sqlite" | "sqlite+pysqlite":
            if not parsed.database or parsed.database == ":memory:" or parsed.query:
                raise ConfigError("ledger_url must name a SQLite file, without options: sqlite:///path/ledger.db")
            return _sqlite_target(Path(parsed.database))
        case "postgres" | "postgresql" | "postgresql+psycopg":
            return _postgres_target(parsed.set(drivername=POSTGRES_DRIVER))
    raise ConfigError(f"a ledger cannot live in {parsed.drivername!r}", hint="use postgresql:// or sqlite:///")


def _sqlite_target(file: Path) -> Target:
    full = file.expanduser().absolute()
    url = URL.create("sqlite+pysqlite", database=str(full))
    return Target(url=url, place=Place(dialect="sqlite", shown=str(full)), file=full)


def _postgres_target(url: URL) -> Target:
    hidden = [value for key in _SECRET_QUERY for value in url.normalized_query.get(key, ())]
    secrets = tuple(sorted({s for s in (url.password, *hidden) if s}, key=len, reverse=True))
    shown = url.set(query={}).render_as_string(hide_password=True).replace(POSTGRES_DRIVER, "postgresql", 1)
    return Target(url=url, place=Place(dialect="postgresql", shown=shown, secrets=secrets), file=None)


def _sqlite_ledger(target: Target, file: Path) -> Ledger:
    _create_private(file)
    reads = _sqlite_engine(target, read_only=True)
    writes = _sqlite_engine(target, read_only=False)
    prompt = _sqlite_engine(target, read_only=False, is_prompt=True)
    clock = SystemClock()
    engines = Engines(
        reads=reads,
        writes=writes.execution_options(kb_begin="BEGIN IMMEDIATE"),
        prompt=prompt.execution_options(kb_begin="BEGIN IMMEDIATE"),
        owned=(reads, writes, prompt),
    )
    return Ledger(engines=engines, locks=FileLocks(file.parent / "locks", clock), place=target.place, file=file)


def _create_private(file: Path) -> None:
    """Make the file where there is none, its mode that of its log files, too.

    One that is there is not even opened: closing it would free every lock that SQLite holds on it in this process, and
    the next process to end would throw the log away as nobody's, with all that is written to it from then on.
    """
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        if not os.access(file, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise LedgerUnavailable(
            f"the ledger ({file}) cannot be opened: {error.strerror}",
            hint="check the owner, the permissions and the free space of the data directory",
        ) from error


def _sqlite_engine(target: Target, *, read_only: bool, is_prompt: bool = False) -> Engine:
    # One writer a process: its threads queue fairly here instead of polling SQLite's lock against each other.
    queue = {"pool_size": READERS if read_only else 1, "max_overflow": 0, "pool_timeout": BUSY_SECONDS}
    pool: dict[str, Any] = {"poolclass": NullPool} if is_prompt else queue
    timeout = PROMPT_SECONDS if is_prompt else BUSY_SECONDS
    engine = sa.create_engine(
        target.url,
        json_serializer=json_text,
        json_deserializer=json.loads,
        connect_args={"timeout": timeout, "isolation_level": None},  # we begin, not the driver
        **pool,
    )
    translate_errors(engine, target.place)

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: object) -> None:  # noqa: ANN401 - the driver's
        for pragma in (*_SQLITE_SETUP, *((_SQLITE_READ_ONLY,) if read_only else ())):
            connection.execute(pragma)

    @event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        statement = connection.get_execution_options().get("kb_begin", "BEGIN")
        if statement:
            connection.exec_driver_sql(statement)

    return engine


def _postgres_ledger(target: Target) -> Ledger:
    pooled = _postgres_engine(
        target, pool_size=5, max_overflow=READERS - 5, pool_timeout=BUSY_SECONDS, pool_pre_ping=True
    )
    single = _postgres_engine(target, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    engines = Engines(
        reads=pooled.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True),
        writes=pooled.execution_options(isolation_level="READ COMMITTED"),
        prompt=pooled.execution_options(isolation_level="READ COMMITTED", kb_prompt=True),
        owned=(pooled, single),
    )
    return Ledger(engines=engines, locks=AdvisoryLocks(single), place=target.place, file=None)


def _postgres_engine(target: Target, **options: Any) -> Engine:  # noqa: ANN401 - SQLAlchemy's
    defaults = {
        "application_name": "kb",
        "connect_timeout": CONNECT_SECONDS,
        "keepalives_idle": 30,  # a lock whose holder's machine vanished is freed within a minute
        "keepalives_interval": 10,
        "keepalives_count": 3,
    }
    engine = sa.create_engine(
        target.url,
        json_serializer=json_text,
        json_deserializer=json.loads,
        connect_args={key: value for key, value in defaults.items() if key not in target.url.query},
        **options,
    )
    translate_errors(engine, target.place)

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: object) -> None:  # noqa: ANN401 - the driver's
        connection.execute(_POSTGRES_SETUP)
        connection.commit()

    @event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        if connection.get_execution_options().get("kb_prompt"):
            connection.exec_driver_sql(_POSTGRES_PROMPT)

    return engine
