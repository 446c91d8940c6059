"""Where unfinished questions are kept: nowhere, in a SQLite file, or in PostgreSQL.

State is plain JSON, and the serializer is strict: a checkpoint that somebody has tampered with can name no type to be
imported when it is read.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, assert_never

from kb.errors import ConfigError, LedgerUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    from kb.settings import Settings

FILE = "checkpoints.sqlite"
POOL = 8


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

    return InMemorySaver(serde=_strict())


def _strict() -> JsonPlusSerializer:
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer as Serializer  # noqa: PLC0415

    return Serializer(allowed_msgpack_modules=None)


@asynccontextmanager
async def _sqlite(settings: Settings) -> AsyncIterator[BaseCheckpointSaver[str]]:
    import aiosqlite  # noqa: PLC0415
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver  # noqa: PLC0415

    settings.data_dir.mkdir(parents=True, exist_ok=True)
    async with aiosqlite.connect(settings.data_dir / FILE, timeout=30) as connection:
        saver = AsyncSqliteSaver(connection, serde=_strict())
        await saver.setup()
        yield saver


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
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool: Any = AsyncConnectionPool(url, min_size=1, max_size=POOL, kwargs=options, open=False, timeout=10)
    try:
        await pool.open(wait=True, timeout=10)
        saver = AsyncPostgresSaver(pool, serde=_strict())
        await saver.setup()
    except (PoolTimeout, psycopg.Error) as error:
        await pool.close()
        raise LedgerUnavailable(f"the checkpoints' database cannot be reached: {type(error).__name__}") from error
    try:
        yield saver
    finally:
        await pool.close()
