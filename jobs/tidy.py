"""What `gc` tidies beside memories: caches, checkpoints and records that nobody will ask for again."""

from __future__ import annotations

import asyncio
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from kb.trust import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jobs.context import JobContext
    from jobs.report import Tally
    from kb.memories import Memories
    from kb.model import Instant
    from kb.settings import Settings

CHECKPOINT_DAYS = 30  # a question that waited longer for a person will not be answered any more
SPOOL_DAYS = 30  # write-backs that were put aside because they cannot be read
SLOT_DAYS = 90
RUN_DAYS = 400  # a year of ingests can be looked up by their ids
DAEMON_DAYS = 7


def tidy(context: JobContext, memories: Memories, tally: Tally) -> None:
    """Tidy up, each part on its own: one that cannot be tidied now waits for the next run."""
    now = context.clock.now()
    parts: dict[str, Callable[[], None]] = {
        "checkpoints": partial(_checkpoints, context, tally, now),
        "grade_cache": partial(_grade_cache, context, tally),
        "write_backs": partial(_write_backs, context, tally, now),
        "records": partial(_records, context, memories, tally, now),
        "vectors": partial(_vectors, context, memories, tally),
    }
    for name, part in parts.items():
        if context.is_stopped():
            tally.is_stopped = True
            return
        tally.attempt(name, part)


def _checkpoints(context: JobContext, tally: Tally, now: Instant) -> None:
    settings = context.settings
    if settings.ask.checkpointer == "none" or (settings.ask.checkpointer == "sqlite" and not _has_file(settings)):
        return
    before = now - CHECKPOINT_DAYS * DAY_MS
    tally.counts["checkpoints_dropped"] += asyncio.run(_drop_checkpoints(settings, before, is_dry=context.is_dry))


def _has_file(settings: Settings) -> bool:
    from crag_runtime.checkpoints import FILE  # noqa: PLC0415 - import what is used

    return (settings.data_dir / FILE).exists()


async def _drop_checkpoints(settings: Settings, before: Instant, *, is_dry: bool) -> int:
    """Drop the threads whose newest checkpoint is older than an instant; return how many."""
    from crag_runtime.checkpoints import open_checkpointer  # noqa: PLC0415 - a graph library of 2 s

    async with open_checkpointer(settings, needs_one=False) as saver:
        if saver is None:
            return 0
        newest: dict[str, Instant] = {}
        async for kept in saver.alist(None):
            thread = str(kept.config["configurable"]["thread_id"])
            at = round(datetime.fromisoformat(kept.checkpoint["ts"]).timestamp() * 1000)
            newest[thread] = max(at, newest.get(thread, at))
        old = [thread for thread, at in newest.items() if at < before]
        if not is_dry:
            for thread in old:
                await saver.adelete_thread(thread)
        return len(old)


def _grade_cache(context: JobContext, tally: Tally) -> None:
    """Drop expired grades from the file; Redis drops its own, and a cache in a process dies with it."""
    if context.settings.ask.grade_cache.strip() != "sqlite" or context.is_dry:
        return
    from crag_runtime.caches.sqlite import FILE, SqliteCache  # noqa: PLC0415 - import what is used

    ttl = context.settings.ask.grade_ttl_seconds
    cache = SqliteCache(context.settings.data_dir / FILE, ttl_seconds=ttl, clock=context.clock)
    try:
        tally.counts["grades_dropped"] += cache.tidy()
    finally:
        cache.close()


def _write_backs(context: JobContext, tally: Tally, now: Instant) -> None:
    """Drop write-backs that were put aside, or half written by a process that died."""
    from crag_runtime.recording.spool import ASIDE, FOLDER  # noqa: PLC0415 - import what is used

    folder = context.settings.data_dir / FOLDER
    aside, halves = folder.glob(f"*{ASIDE}"), folder.glob(".*.*")
    old = [path for path in (*aside, *halves) if _is_older(path, now - SPOOL_DAYS * DAY_MS)]
    for path in old:
        if not context.is_dry:
            path.unlink(missing_ok=True)
    tally.counts["write_backs_dropped"] += len(old)


def _is_older(path: Path, before: Instant) -> bool:
    try:
        return path.stat().st_mtime * 1000 < before
    except FileNotFoundError:
        return False


def _records(context: JobContext, memories: Memories, tally: Tally, now: Instant) -> None:
    if context.is_dry:
        return
    with memories.ledger.write() as tx:
        tally.counts["slots_forgotten"] += tx.upkeep.forget_slots(now - SLOT_DAYS * DAY_MS)
        tally.counts["daemons_forgotten"] += tx.upkeep.forget_daemons(now - DAEMON_DAYS * DAY_MS)
        tally.counts["runs_forgotten"] += tx.upkeep.forget_runs(now - RUN_DAYS * DAY_MS)


def _vectors(context: JobContext, memories: Memories, tally: Tally) -> None:
    from jobs.vectors import drop_unused, mend, unused  # noqa: PLC0415 - import what is used

    if context.is_dry:
        tally.counts["vectors_unused"] += unused(memories)
        return
    number = drop_unused(memories)
    if number is None:
        tally.notes.append("vectors that nothing needs stay until a run in which no source is being ingested")
    tally.counts["vectors_dropped"] += number or 0
    tally.counts["vectors_mended"] += mend(memories)
