"""Takes erased memories out of everything that the runtime keeps beside the ledger: grades, threads, write-backs.

It is done by ids: whatever the runtime keeps of a memory names it. All of it can be repeated. What lives in another
process's memory is out of reach: it goes with that process, or when it expires.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crag_runtime.caches import open_cache
from crag_runtime.caches.sqlite import FILE as GRADES
from crag_runtime.caches.sqlite import SqliteCache
from crag_runtime.checkpoints import FILE as CHECKPOINTS
from crag_runtime.checkpoints import open_checkpointer
from crag_runtime.ports import GradeKey
from crag_runtime.recording.spool import Spool
from kb.errors import DependencyError, KbError
from kb.sqlite_files import rewritten

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterator, Sequence

    from langgraph.checkpoint.base import BaseCheckpointSaver

    from crag_runtime.ports import GradeCache
    from kb.ports import Clock
    from kb.settings import Settings

ROUNDS = 5  # looks at what others keep meanwhile
_WORD = re.compile(r"[\w-]+")
_TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")  # PostgreSQL's


@dataclass(slots=True, kw_only=True)
class Forgotten:
    """What went, and what could not be reached."""

    grades: int = 0
    threads: int = 0
    write_backs: int = 0
    problems: list[str] = field(default_factory=list)


def forget(
    settings: Settings,
    clock: Clock,
    ids: Collection[str],
    *,
    graded: Collection[str] = (),
    tenants: Sequence[str],
    caches: Sequence[GradeCache] = (),
) -> Forgotten:
    """Take out all that names any of these memories or answers; must not be called from an event loop.

    Args:
        settings: where things are kept.
        clock: the time.
        ids: of memories and answers.
        graded: other memories, of which only the grades go.
        tenants: whose questions may have met them.
        caches: grade caches that are open in this process, beside those that the settings name.
    """
    done = Forgotten()
    doomed = {*ids, *graded}
    for cache in caches:
        _grades(cache, doomed, tenants, done)
    for cache in _caches(settings, clock):
        try:
            _grades(cache, doomed, tenants, done)
        finally:
            cache.close()
    for kept in _kept(settings):
        try:
            done.threads += asyncio.run(_threads(kept, frozenset(ids)))
        except KbError as error:
            done.problems.append(f"checkpoints: {error}")
    _write_backs(settings, ids, done)
    return done


def clean(settings: Settings) -> list[str]:
    """Leave nothing of what went in the files and tables it was in; return what could not be cleaned."""
    problems = []
    for name in (GRADES, CHECKPOINTS):
        try:
            rewritten(settings.data_dir / name)
        except DependencyError as error:
            problems.append(str(error))
    if settings.ask.checkpointer == "postgres":
        try:
            asyncio.run(_vacuum(settings))
        except KbError as error:
            problems.append(f"checkpoints: {error}")
    return problems


def _caches(settings: Settings, clock: Clock) -> Iterator[GradeCache]:
    """Yield the cache of the settings, and a file that earlier settings left; one in a process dies with it."""
    chosen = settings.ask.grade_cache.strip()
    if chosen not in ("none", "memory", "sqlite"):
        cache = open_cache(settings, clock)
        assert cache is not None
        yield cache
    path = settings.data_dir / GRADES
    if path.exists():
        yield SqliteCache(path, ttl_seconds=settings.ask.grade_ttl_seconds, clock=clock)


def _grades(cache: GradeCache, ids: Collection[str], tenants: Sequence[str], done: Forgotten) -> None:
    """Purge a cache; one that is away acts as an empty one, so an entry of our own tells whether it was reached."""
    for tenant in tenants:
        probe = GradeKey(
            tenant=tenant, question="", memory_id=f"erasure-{uuid.uuid4().hex}", rev=0, evaluator="erasure"
        )
        cache.put({probe: ""})
        gone = cache.purge(tenant, [*ids, probe.memory_id])
        if not gone:
            done.problems.append("the grade cache cannot be reached")
            return
        done.grades += gone - 1


def _kept(settings: Settings) -> Iterator[Settings]:
    """Yield settings for each place where threads are kept: the one that is set, and a file that was left."""
    if settings.ask.checkpointer == "postgres":
        yield settings
    if (settings.data_dir / CHECKPOINTS).exists():
        ask = settings.ask.model_copy(update={"checkpointer": "sqlite"})
        yield settings.model_copy(update={"ask": ask})


async def _threads(settings: Settings, ids: frozenset[str]) -> int:
    """Drop the threads that name any of the ids, in any of their checkpoints; return how many."""
    async with open_checkpointer(settings, needs_one=False) as saver:
        if saver is None:
            return 0
        found = {thread async for thread in _naming(saver, ids)}
        for thread in sorted(found):
            await saver.adelete_thread(thread)
        return len(found)


async def _naming(saver: BaseCheckpointSaver[str], ids: frozenset[str]) -> AsyncIterator[str]:
    async for kept in saver.alist(None):
        if any(not ids.isdisjoint(_WORD.findall(text)) for text in _texts([kept.checkpoint, kept.pending_writes])):
            yield str(kept.config["configurable"]["thread_id"])


def _texts(value: Any) -> Iterator[str]:  # noqa: ANN401 - a state's values and the graph library's own
    """Yield all texts in a value; of one that is no plain JSON, how it prints."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _texts(key)
            yield from _texts(part)
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from _texts(part)
    elif value is not None and not isinstance(value, int | float):
        yield repr(value)


async def _vacuum(settings: Settings) -> None:
    async with open_checkpointer(settings, needs_one=False) as saver:
        pool: Any = getattr(saver, "conn", None)
        async with pool.connection() as connection:
            for table in _TABLES:
                await connection.execute(f"VACUUM {table}")


def _write_backs(settings: Settings, ids: Collection[str], done: Forgotten) -> None:
    spool = Spool(settings.data_dir)
    for _ in range(ROUNDS):
        names = spool.mentioning(ids)
        done.write_backs += sum(spool.drop(name) for name in names)
        if not names:
            return
    done.problems.append(f"write-backs that speak of it stay: {json.dumps(spool.mentioning(ids))}")
