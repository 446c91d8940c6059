"""What the jobs do, on whole stores: every tenant, each part on its own, nothing in a dry run, the index mended."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from crag_runtime.caches.sqlite import FILE, SqliteCache
from crag_runtime.checkpoints import open_checkpointer
from crag_runtime.ports import GradeKey
from jobs.context import JobContext
from jobs.names import JobName
from jobs.registry import run
from jobs.report import Tally
from jobs.turn import Outcome
from jobs.vectors import GRACE
from kb.errors import ExitCode
from kb.ledger.engine import LEDGER_FILE
from kb.ledger.upkeep import Vector
from kb.memories import Note
from kb.model import SourceClass, Standing
from kb.settings import Settings
from kb.trust import DAY_MS
from tests.stores import GUIDE, FakeClock, InProcessServer, open_store, sync

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.memories import Memories


def context_of(memories: Memories, home: Path, **changes: object) -> JobContext:
    @contextmanager
    def opened() -> Iterator[Memories]:
        yield memories

    settings = changes.pop("settings", None) or Settings(data_dir=home / "data")
    given = {"settings": settings, "open_memories": opened, "clock": memories.clock, **changes}
    return JobContext(**given)  # type: ignore[arg-type]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def server() -> InProcessServer:
    return InProcessServer()


@pytest.fixture
def memories(tmp_path: Path, clock: FakeClock, server: InProcessServer) -> Iterator[Memories]:
    with open_store(tmp_path / "data", clock=clock, server=server) as store:
        yield store


def note(memories: Memories, text: str, tenant: str = "acme", by: SourceClass = SourceClass.PERSON) -> str:
    return memories.add_note(Note(text=text, tenant=tenant, by=by))[0].id


def dump(home: Path) -> list[str]:
    """Return every row of the ledger."""
    with closing(sqlite3.connect(home / "data" / LEDGER_FILE)) as connection:
        return list(connection.iterdump())


def standing(memories: Memories, tenant: str) -> list[Standing]:
    return [m.standing for m in memories.page(tenant)]


def test_prune_is_made_for_every_tenant_and_one_that_is_refused_keeps_no_other_from_it(
    memories: Memories, clock: FakeClock, tmp_path: Path
) -> None:
    for n in range(12):
        note(memories, f"Note {n} of many.", "big")
    note(memories, "The only one.", "small")
    clock.advance(100 * DAY_MS)
    tally = run(JobName.PRUNE, context_of(memories, tmp_path))
    assert (tally.outcome, tally.exit_code) == (Outcome.REFUSED, ExitCode.PARTIAL)
    assert [t.where for t in tally.troubles] == ["big"]
    assert "--allow-mass" in tally.troubles[0].error.hint
    assert standing(memories, "small") == [Standing.RETIRED]
    assert set(standing(memories, "big")) == {Standing.ACTIVE}
    consented = run(JobName.PRUNE, context_of(memories, tmp_path, allow_mass=True))
    assert (consented.outcome, consented.counts["retire"]) == (Outcome.DONE, 12)
    assert set(standing(memories, "big")) == {Standing.RETIRED}


def test_when_every_tenant_is_refused_the_exit_code_says_so(
    memories: Memories, clock: FakeClock, tmp_path: Path
) -> None:
    for n in range(12):
        note(memories, f"Note {n} of many.")
    clock.advance(100 * DAY_MS)
    assert run(JobName.PRUNE, context_of(memories, tmp_path)).exit_code is ExitCode.REFUSED


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(
    memories: Memories, clock: FakeClock, tmp_path: Path
) -> None:
    id_ = note(memories, "It fades.")
    clock.advance(100 * DAY_MS)
    before = dump(tmp_path)
    for job in JobName:
        tally = run(job, context_of(memories, tmp_path, is_dry=True))
        assert not tally.troubles, job
        assert tally.as_json()["dry_run"] is True
        assert tally.sweep_ids == []
        if job is JobName.PRUNE:
            assert tally.actions == [{"memory_id": id_, "action": "retire", "reason": "faded", "tenant": "acme"}]
    assert dump(tmp_path) == before


def test_a_second_run_finds_nothing_to_do(memories: Memories, clock: FakeClock, tmp_path: Path) -> None:
    note(memories, "It fades.")
    clock.advance(100 * DAY_MS)
    for job in (JobName.DECAY, JobName.PROMOTE, JobName.RECHECK, JobName.PRUNE):
        run(job, context_of(memories, tmp_path))
    for job in (JobName.DECAY, JobName.PROMOTE, JobName.RECHECK, JobName.PRUNE):
        again = run(job, context_of(memories, tmp_path))
        assert (again.outcome, again.actions, again.sweep_ids) == (Outcome.DONE, [], []), job


def test_a_job_that_is_told_to_stop_leaves_the_rest_to_the_next(
    memories: Memories, clock: FakeClock, tmp_path: Path
) -> None:
    for n in range(5):
        note(memories, f"Note {n}.")
    clock.advance(100 * DAY_MS)
    asked: list[int] = []
    settings = Settings(data_dir=tmp_path / "data", govern={"batch": 2})  # type: ignore[arg-type]

    def is_stopped() -> bool:
        asked.append(1)
        return standing(memories, "acme").count(Standing.RETIRED) >= 2

    tally = run(JobName.PRUNE, context_of(memories, tmp_path, settings=settings, is_stopped=is_stopped))
    assert (tally.outcome, tally.exit_code) == (Outcome.STOPPED, ExitCode.INTERRUPTED)
    assert standing(memories, "acme").count(Standing.RETIRED) == 2
    rest = run(JobName.DECAY, context_of(memories, tmp_path, settings=settings))
    assert rest.outcome is Outcome.DONE
    assert tally.sweep_ids[0] in rest.sweep_ids, "any job first goes on with what was interrupted"
    assert standing(memories, "acme") == [Standing.RETIRED] * 5


def test_sync_ingests_every_tenants_sources_again_and_one_that_is_gone_keeps_no_other_from_it(
    memories: Memories, tmp_path: Path
) -> None:
    for tenant in ("acme", "globex"):
        (tmp_path / tenant).mkdir()
        (tmp_path / tenant / "guide.md").write_text(GUIDE)
        sync(memories, tmp_path / tenant, tenant=tenant)
    (tmp_path / "globex" / "more.md").write_text("# More\n\nThe bridge has two towers.\n")
    (tmp_path / "acme" / "guide.md").unlink()
    (tmp_path / "acme").rmdir()
    configured = tmp_path / "configured"
    configured.mkdir()
    (configured / "own.md").write_text("# Own\n\nOf the configured tenant alone.\n")
    settings = Settings(data_dir=tmp_path / "data", sources=[{"path": configured}])  # type: ignore[list-item]
    tally = run(JobName.SYNC, context_of(memories, tmp_path, settings=settings))
    assert [t.where for t in tally.troubles] == ["acme/acme"]
    assert (tally.counts["documents_added"], tally.counts["documents_unchanged"]) == (2, 1)
    assert tally.exit_code is ExitCode.PARTIAL
    assert [m.source for m in memories.page("default")] == ["file://configured/own.md"]
    assert not any("own.md" in m.source for t in ("acme", "globex") for m in memories.page(t))


def test_a_sync_that_is_told_to_stop_keeps_what_it_has_stored_and_goes_on_later(
    memories: Memories, folder: Path, tmp_path: Path
) -> None:
    (folder / "a.md").write_text(GUIDE)
    sync(memories, folder)
    for n in range(70):  # more than one group of documents
        (folder / f"d{n}.md").write_text(f"# Document {n}\n\nIt says something of its own, {n}.\n")

    def is_stopped() -> bool:
        return len(memories.page("default", limit=100)) > 60

    tally = run(JobName.SYNC, context_of(memories, tmp_path, is_stopped=is_stopped))
    assert tally.outcome is Outcome.STOPPED
    with memories.ledger.read() as tx:
        assert sorted(r.status.value for r in tx.runs.list(9)) == ["done", "interrupted"]
    assert run(JobName.SYNC, context_of(memories, tmp_path)).outcome is Outcome.DONE
    with memories.ledger.read() as tx:
        assert sum(c.count for c in tx.memories.counts("default")) == 71


def test_reconcile_repairs_and_says_what_it_found(memories: Memories, server: InProcessServer, tmp_path: Path) -> None:
    lost = note(memories, "The bridge opens at noon.")
    memories.projector.drain()
    (index,) = server.collections.values()
    index.delete([lost])  # type: ignore[list-item]
    dry = run(JobName.RECONCILE, context_of(memories, tmp_path, is_dry=True))
    assert (dry.counts["missing"], dry.counts["repaired"]) == (1, 0)
    done = run(JobName.RECONCILE, context_of(memories, tmp_path))
    assert (done.counts["missing"], done.counts["repaired"]) == (1, 1)
    assert run(JobName.RECONCILE, context_of(memories, tmp_path)).counts["missing"] == 0


def test_verify_index_finds_each_memory_by_itself_and_mends_what_it_does_not_find(
    memories: Memories, server: InProcessServer, clock: FakeClock, tmp_path: Path
) -> None:
    ids = [note(memories, f"Bridge {n} opens at {n} o'clock for ship {n}.", by=SourceClass.AGENT) for n in range(9)]
    note(memories, "!!!")
    clock.advance(200 * DAY_MS)
    whole = run(JobName.VERIFY_INDEX, context_of(memories, tmp_path))
    assert (whole.outcome, whole.counts["checked"], whole.counts["lost"]) == (Outcome.DONE, 10, 0)
    (index,) = server.collections.values()
    index.delete([ids[3]])  # type: ignore[list-item]
    with memories.ledger.write() as tx:
        tx.upkeep.drop_vectors(_vectors(memories, ids[5]))
    found = run(JobName.VERIFY_INDEX, context_of(memories, tmp_path))
    assert (found.counts["lost"], found.counts["repaired"], found.outcome) == (2, 2, Outcome.DONE)
    assert run(JobName.VERIFY_INDEX, context_of(memories, tmp_path)).counts["lost"] == 0


def _vectors(memories: Memories, id_: str) -> list[Vector]:
    with memories.ledger.read() as tx:
        memory = tx.memories.get([id_])[id_]  # type: ignore[index,list-item]
    return [Vector(memories.embedder.identity.model, memory.embed_hash)]


def test_verify_index_says_when_nothing_helps(memories: Memories, server: InProcessServer, tmp_path: Path) -> None:
    note(memories, "The bridge opens at noon.")
    (index,) = server.collections.values()
    index.dense = lambda *_: []  # type: ignore[method-assign]
    tally = run(JobName.VERIFY_INDEX, context_of(memories, tmp_path))
    assert tally.outcome is Outcome.FAILED
    assert "kb reindex" in tally.troubles[0].error.hint


def test_gc_drops_a_vector_only_when_two_runs_found_it_unused_and_mends_what_lacks_one(
    memories: Memories, clock: FakeClock, tmp_path: Path
) -> None:
    kept = note(memories, "It stays.")
    memories.embed({"f" * 64: "nobody needs this"})
    model = memories.embedder.identity.model
    context = context_of(memories, tmp_path)

    def is_there() -> bool:
        with memories.ledger.read() as tx:
            return not tx.embeddings.missing(model, ["f" * 64])

    run(JobName.GC, context)
    assert is_there(), "it may be about to be used"
    clock.advance(GRACE - 1)
    run(JobName.GC, context)
    assert is_there()
    with memories.ledger.write() as tx:
        tx.runs.start("r1", kind="ingest", tenant="acme", root="docs", at=clock.now())
    clock.advance(2)
    with memories.ledger.lock("ingest-acme-docs"):
        assert "being ingested" in run(JobName.GC, context).notes[0]
    assert is_there(), "a source is being ingested"
    with memories.ledger.write() as tx:
        tx.upkeep.drop_vectors(_vectors(memories, kept))
    done = run(JobName.GC, context)  # the run of the source is dead: its lock is free
    assert not is_there()
    assert (done.counts["vectors_dropped"], done.counts["vectors_mended"]) == (1, 1)


def test_gc_forgets_what_nobody_will_ask_for(memories: Memories, clock: FakeClock, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "write-backs"
    folder.mkdir()
    for name in ("a.json", "b.unreadable", ".c.4711", "d.unreadable"):
        (folder / name).write_text("{}")
        age = 40 * DAY_MS if name != "d.unreadable" else DAY_MS
        os.utime(folder / name, (0, (clock.now() - age) / 1000))
    with memories.ledger.write() as tx:
        tx.runs.start("old", kind="ingest", at=0)
        tx.runs.finish("old", tx.runs.get("old").status.DONE, 1, report={})  # type: ignore[union-attr]
    tally = run(JobName.GC, context_of(memories, tmp_path))
    assert sorted(p.name for p in folder.iterdir()) == ["a.json", "d.unreadable"]
    assert (tally.counts["write_backs_dropped"], tally.counts["runs_forgotten"]) == (2, 1)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_gc_drops_questions_that_waited_too_long_and_grades_that_expired(
    memories: Memories, clock: FakeClock, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = str(request.getfixturevalue("postgres_url")) if kind == "postgres" else None
    ask = {"checkpointer": kind, "grade_cache": "sqlite", **({"checkpoint_url": url} if url else {})}
    settings = Settings(data_dir=tmp_path / "data", ask=ask)  # type: ignore[arg-type]
    asyncio.run(_ask_and_leave(settings, {"old": clock.now() - 31 * DAY_MS, "new": clock.now() - 29 * DAY_MS}))
    cache = SqliteCache(tmp_path / "data" / FILE, ttl_seconds=60, clock=clock)
    cache.put({GradeKey(tenant="acme", question="q", memory_id=f"m{n}", rev=1, evaluator="fast"): "x" for n in "ab"})
    cache.close()
    clock.advance(61_000)
    context = context_of(memories, tmp_path, settings=settings)
    assert run(JobName.GC, replace(context, is_dry=True)).counts["checkpoints_dropped"] == 1
    tally = run(JobName.GC, context)
    assert (tally.outcome, tally.counts["checkpoints_dropped"], tally.counts["grades_dropped"]) == (Outcome.DONE, 1, 2)
    assert run(JobName.GC, context).counts["checkpoints_dropped"] == 0
    assert asyncio.run(_left(settings)) == {"new"}


async def _ask_and_leave(settings: Settings, threads: dict[str, int]) -> None:
    async with open_checkpointer(settings, needs_one=False) as saver:
        assert saver is not None
        for thread, at in threads.items():
            kept = {**empty_checkpoint(), "ts": datetime.fromtimestamp(at / 1000, UTC).isoformat()}
            await saver.aput({"configurable": {"thread_id": thread, "checkpoint_ns": ""}}, kept, {}, {})  # type: ignore[arg-type]


async def _left(settings: Settings) -> set[str]:
    async with open_checkpointer(settings, needs_one=False) as saver:
        assert saver is not None
        return {kept.config["configurable"]["thread_id"] async for kept in saver.alist(None)}


def test_a_part_that_breaks_keeps_no_other_from_its_work() -> None:
    tally = Tally(job=JobName.GC)
    done: list[str] = []

    def broken() -> None:
        raise ZeroDivisionError

    tally.attempt("one", broken)
    tally.attempt("other", lambda: done.append("other"))
    assert done == ["other"]
    assert (tally.outcome, tally.exit_code) == (Outcome.FAILED, ExitCode.PARTIAL)
    assert "ZeroDivisionError" in str(tally.troubles[0].error)
