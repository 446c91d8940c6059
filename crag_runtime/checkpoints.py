"""Where unfinished questions are kept: nowhere, in a SQLite file, or in PostgreSQL.

State is plain JSON, and the serializer is strict: a checkpoint that somebody has tampered with can name no type to be
imported when it is read.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from contextlib import asynccontextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, assert_never

from kb.errors import ConfigError, LedgerUnavailable
from kb.log import get_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    from kb.settings import Settings

FILE = "checkpoints.sqlite"
POOL = 8  # connections
BUSY = 30  # seconds to wait for another writer of the file
PAUSE = 0.05  # seconds between two looks
MAX_WAITING = 256
SETUP = 0x6B62_6370  # advisory lock of who creates the tables
CALLS = ("setup", "aget_tuple", "aput", "aput_writes", "adelete_thread")  # all that the graph uses

_TRY_LOCK = "SELECT pg_try_advisory_lock(%s) AS won"
_UNLOCK = "SELECT pg_advisory_unlock(%s)"


@asynccontextmanager
async def open_checkpointer(settings: Settings, *, needs_one: bool) -> AsyncIterator[BaseCheckpointSaver[str] | None]:
    """Open the configured checkpointer and close it after.

    Args:
        settings: `ask.checkpointer` and `ask.checkpoint_url`.
        needs_one: whether a question may have to wait for a person; then one lives in this process at least.

    Raises:
        ConfigError: PostgreSQL without a URL.
        LedgerUnavailable: its database cannot be reached.
    """
    match settings.ask.checkpointer:
        case "none":
            yield _in_process() if needs_one else None
        case "sqlite":
            async with _sqlite(settings) as saver:
                yield saver
        case "postgres":
            async with _postgres(settings) as saver:
                yield saver
        case _:
            assert_never(settings.ask.checkpointer)


def _in_process() -> BaseCheckpointSaver[str]:
    from langgraph.checkpoint.memory import InMemorySaver  # noqa: PLC0415 - import what is used

    return InMemorySaver(serde=strict())


def strict() -> JsonPlusSerializer:
    """Return the serializer of checkpoints: it reads plain values and the graph library's own, nothing else."""
    from crag_runtime.plain_serializer import PlainSerializer  # noqa: PLC0415 - a graph library of 2 s

    return PlainSerializer()


@asynccontextmanager
async def _sqlite(settings: Settings) -> AsyncIterator[BaseCheckpointSaver[str]]:
    import aiosqlite  # noqa: PLC0415
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver  # noqa: PLC0415

    file = settings.data_dir / FILE
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite gives its log files the same mode
    except OSError as error:
        raise LedgerUnavailable(f"the checkpoints in {file} cannot be opened: {error.strerror}") from error
    typed = _with_typed_faults(AsyncSqliteSaver, aiosqlite.Error)
    async with aiosqlite.connect(file, timeout=BUSY) as connection:
        saver = typed(connection, serde=strict())
        await _once_free(saver.setup)
        yield saver


async def _once_free(set_up: Callable[[], Awaitable[None]]) -> None:
    """Set a file up; changing its journal does not wait for another process that does the same, so we do."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + BUSY
    while True:
        try:
            await set_up()
        except LedgerUnavailable as error:
            if "locked" not in str(error) or loop.time() > deadline:
                raise
            await asyncio.sleep(PAUSE)
        else:
            return


@asynccontextmanager
async def _postgres(settings: Settings) -> AsyncIterator[BaseCheckpointSaver[str]]:
    import psycopg  # noqa: PLC0415
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver  # noqa: PLC0415
    from psycopg.rows import dict_row  # noqa: PLC0415
    from psycopg_pool import AsyncConnectionPool, PoolTimeout  # noqa: PLC0415

    secret = settings.ask.checkpoint_url or settings.ledger_url
    if secret is None:
        raise ConfigError("ask.checkpointer is postgres, but neither ask.checkpoint_url nor ledger_url is set")
    url = secret.get_secret_value().replace("postgresql+psycopg://", "postgresql://", 1)
    try:
        psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:  # its words, and the pool's warnings, quote the URL
        raise ConfigError("ask.checkpoint_url is no valid PostgreSQL URL") from None
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool: Any = AsyncConnectionPool(
        url,
        min_size=1,
        max_size=POOL,
        kwargs=options,
        open=False,
        timeout=10,
        check=AsyncConnectionPool.check_connection,
    )
    try:
        try:
            await pool.open(wait=True, timeout=10)
            saver = _with_typed_faults(AsyncPostgresSaver, psycopg.Error, PoolTimeout)(pool, serde=strict())
            await _set_up_alone(pool, saver)
        except (PoolTimeout, psycopg.Error) as error:
            raise LedgerUnavailable(
                f"the checkpoints' database cannot be reached: {type(error).__name__}",
                hint="check ask.checkpoint_url, and that PostgreSQL accepts connections",
            ) from error
        yield saver
    finally:
        await pool.close()


async def _set_up_alone(pool: Any, saver: Any) -> None:  # noqa: ANN401 - the vendor's own
    """Create the tables under a lock: two who create them at once would fail.

    The lock is looked at, not waited for: the database creates an index only once nobody waits in a statement.
    """
    async with pool.connection() as connection:
        while not (await (await connection.execute(_TRY_LOCK, [SETUP])).fetchone())["won"]:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(PAUSE)
        try:
            await saver.setup()
        finally:
            await connection.execute(_UNLOCK, [SETUP])


def _with_typed_faults(kind: Callable[..., Any], *faults: type[Exception]) -> Callable[..., Any]:
    """Return a saver whose database's failures are our own words."""

    def typed(name: str) -> Callable[..., Awaitable[Any]]:
        call = getattr(kind, name)

        @wraps(call)
        async def called(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the vendor's own
            try:
                return await call(*args, **kwargs)
            except faults as error:
                raise LedgerUnavailable(f"the checkpoints' database failed: {type(error).__name__}: {error}") from error

        return called

    return type(kind.__name__, (kind,), {name: typed(name) for name in CALLS})  # type: ignore[arg-type] # a class


class Kept:
    """Keeps a question's checkpoints as long as somebody may go on with it, and no longer.

    Args:
        saver: where they are.
        is_lasting: whether they outlive this process.
        most: questions that may wait for a person in this process; the longest waiting gives way.
    """

    def __init__(self, saver: BaseCheckpointSaver[str], *, is_lasting: bool, most: int = MAX_WAITING) -> None:
        self._saver = saver
        self._is_lasting = is_lasting
        self._most = most
        self._waiting: OrderedDict[str, None] = OrderedDict()

    async def left(self, key: str, *, is_waiting: bool, is_broken: bool) -> None:
        """Keep or drop what a run has left.

        Args:
            key: of its checkpoints.
            is_waiting: whether it waits for a person.
            is_broken: whether it broke off, and who asked can name it to go on.
        """
        self._waiting.pop(key, None)
        if is_waiting and not self._is_lasting:
            self._waiting[key] = None
            if len(self._waiting) > self._most:
                await self._drop(self._waiting.popitem(last=False)[0])
        if not is_waiting and not (is_broken and self._is_lasting):
            await self._drop(key)

    async def _drop(self, key: str) -> None:
        try:
            await self._saver.adelete_thread(key)
        except LedgerUnavailable as error:
            get_logger().warning("checkpoint_not_dropped", problem=str(error))
