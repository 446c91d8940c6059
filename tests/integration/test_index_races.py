"""Rows leave the index while the ledger changes beneath: whoever was interrupted, it ends as the ledger says."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from governance.actor import Actor
from jobs import erasure
from jobs.context import JobContext
from jobs.names import JobName
from jobs.report import Tally
from jobs.vectors import mend
from kb.errors import FailureCode, Locked
from kb.index import projector
from kb.index.projector import Projector
from kb.ledger.upkeep import Vector
from kb.model import Standing
from kb.rebuild import Difference, difference, ledger_revisions, reindex
from kb.settings import Settings
from kb.sweeps import Action, ActionKind, Sweep, SweepId, SweepJob, SweepStatus
from tests.fakes.embedder import InterruptedEmbedder
from tests.forgetting import Meanwhile, forget
from tests.rolling import POISON, guide, later, note, says, stored, sync
from tests.stores import InProcessServer, open_store, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from kb.memories import Memories
    from kb.model import Memory

FORTY, NINETY = (f"The Beihai bridge carries {n} tons on a dry day." for n in ("forty", "ninety"))
BY = Actor(name="ada")


class Killed(BaseException):
    """The process ends here: nothing catches it."""


class PausingServer(InProcessServer):
    """An index whose next write, of one kind, is done only after something else has happened."""

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[str, Callable[[], object]] = {}
        self.after: dict[str, Callable[[], object]] = {}

    def open(self, name: str, dim: int) -> Any:
        return _Pausing(self, super().open(name, dim))


class _Pausing:
    def __init__(self, server: PausingServer, index: Any) -> None:
        self._server = server
        self._index = index

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            self._server.before.pop(method, lambda: None)()
            done = getattr(self._index, method)(*args)
            self._server.after.pop(method, lambda: None)()
            return done

        return call


class InterruptedProjector(Projector):
    """Waits, when told, before rows are written ahead of their switch."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.is_staged, self.may_go = threading.Event(), threading.Event()

    def project_staged(self, memories: Sequence[Memory]) -> bool:
        self.is_staged.set()
        assert self.may_go.wait(60)
        return super().project_staged(memories)


@pytest.fixture
def server() -> PausingServer:
    return PausingServer()


@pytest.fixture
def store(ledger_url: str | None, tmp_path: Path, server: PausingServer) -> Iterator[Memories]:
    """A store on either database, its index in process."""
    with open_store(tmp_path / "kb", server=server, ledger_url=ledger_url) as memories:
        yield memories


@pytest.fixture
def other(store: Memories, ledger_url: str | None, tmp_path: Path, server: PausingServer) -> Iterator[Memories]:
    """Another process's door to the same store."""
    with open_store(tmp_path / "kb", server=server, ledger_url=ledger_url, clock=store.clock) as memories:  # type: ignore[arg-type]
        yield memories


def differs(store: Memories) -> Difference:
    """Return in what index and ledger differ after one drain."""
    assert store.projector.drain().pending == 0
    with store.ledger.read() as tx:
        current = store.generations.current(tx)
    assert current is not None
    return difference(ledger_revisions(store), store.generations.index(current, 0).revisions())


def changed(store: Memories, memory: Memory, **changes: Any) -> None:
    with store.ledger.write() as tx:
        now = tx.memories.get([memory.id])[memory.id]
        tx.memories.replace([replace(now, rev=now.rev + 1, **changes)])
        tx.outbox.mark([memory.id], 0)


def lose_the_lock(store: Memories, home: Path) -> None:
    """Let the projector's lock be lost while somebody works under it, as when a database restarts."""
    if store.ledger.dialect == "sqlite":
        (home / "kb" / "locks" / "projector.lock").unlink()
        return
    end = (
        "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database d ON d.oid = database"
        " WHERE locktype = 'advisory' AND d.datname = current_database()"
    )
    with store.ledger.engines.reads.connect() as connection:
        connection.exec_driver_sql(end)


def retired_and_drained(other: Memories, memory: Memory) -> None:
    changed(other, memory, standing=Standing.RETIRED)
    assert other.projector.drain().pending == 0


def test_who_lost_the_lock_while_it_wrote_leaves_nothing_that_was_deleted_meanwhile(
    store: Memories, other: Memories, server: PausingServer, tmp_path: Path
) -> None:
    memory = note(store, FORTY)
    changed(store, memory, pinned=True)

    def meanwhile() -> None:
        lose_the_lock(store, tmp_path)
        retired_and_drained(other, memory)

    server.before["upsert"] = meanwhile
    store.projector.drain()
    assert not server.before
    assert differs(store) == Difference()


def test_a_reindex_that_lost_the_lock_does_not_switch(
    store: Memories, other: Memories, server: PausingServer, tmp_path: Path
) -> None:
    memory = note(store, FORTY)

    def meanwhile() -> None:
        lose_the_lock(store, tmp_path)
        retired_and_drained(other, memory)

    server.after["upsert"] = meanwhile
    with pytest.raises(Locked, match="lost"):
        reindex(store, re_embed=False)
    assert differs(store) == Difference()
    assert reindex(store, re_embed=False).memories == 0
    assert differs(store) == Difference()


def test_a_copy_that_is_erased_between_its_staging_and_its_writing_ahead_is_in_no_index(
    store: Memories, other: Memories, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, guide_md=guide())
    sync(store, folder)
    later(store)
    secret = note(other, POISON)
    write(folder, guide_md=guide(load=POISON))
    sync(store, folder, tenant="second")  # it says the same, and keeps its vector
    store.projector = InterruptedProjector(store.ledger, store.generations, store.clock)
    syncing = threading.Thread(target=lambda: sync(store, folder))

    def stage() -> None:
        syncing.start()
        assert store.projector.is_staged.wait(60)  # type: ignore[attr-defined] # the one above

    meanwhile = Meanwhile(other, stage)
    monkeypatch.setattr(other.ledger, "lock", meanwhile)
    done = forget(other, folder.parent, secret, consent=meanwhile.consent, with_copies=True)
    store.projector.may_go.set()
    syncing.join(60)
    assert done.is_complete
    assert not syncing.is_alive()
    assert stored(store, POISON) == []
    assert differs(store) == Difference()


class DyingProjector(Projector):
    """Its process dies before rows are written ahead of their switch."""

    def project_staged(self, memories: Sequence[Memory]) -> bool:
        raise Killed(len(memories))


def test_what_was_erased_after_a_sync_had_read_it_is_not_even_staged(
    store: Memories, other: Memories, folder: Path
) -> None:
    write(folder, guide_md=guide())
    sync(store, folder)
    later(store)
    secret = note(other, POISON)
    embedder = InterruptedEmbedder()
    store.embedder = embedder
    embedder.then = lambda: forget(other, folder.parent, secret, with_copies=True)
    store.projector = DyingProjector(store.ledger, store.generations, store.clock)
    write(folder, guide_md=guide(load=POISON))
    report = sync(store, folder)
    assert [f.code for f in report.failures] == [FailureCode.STORE_FAILED.value]
    assert stored(store, POISON) == []


def test_what_comes_back_while_an_erased_id_leaves_the_index_is_not_lost(
    store: Memories, other: Memories, server: PausingServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projector, "WAIT_S", 0.05)
    memory = note(store, FORTY)
    with store.ledger.write() as tx:  # gc took it; an erasure of its traces has not come to the index yet
        tx.memories.remove([memory.id])
        tx.outbox.mark([memory.id], 0)
        action = Action(memory_id=memory.id, kind=ActionKind.ERASE, reason="erased", rev=0)
        tx.erasure.begin(SweepId("e1"), "default")
        tx.sweeps.begin(Sweep(id=SweepId("e1"), tenant="default", job=SweepJob.ERASE), [action])
        tx.sweeps.applied(SweepId("e1"), [(0, "gone", [])], at=store.clock.now())
        tx.sweeps.finish(SweepId("e1"), SweepStatus.DONE, store.clock.now(), counts={"skipped": 1})
    store.projector.drain()

    def die() -> None:
        raise Killed

    server.before["delete"] = lambda: note(other, FORTY)
    server.after["delete"] = die
    settings = Settings(data_dir=folder.parent / "kb")
    context = JobContext(settings=settings, open_memories=lambda: nullcontext(store), clock=store.clock)
    with pytest.raises(Killed):
        erasure.finish(context, store, Tally(job=JobName.GC))
    assert differs(store) == Difference()
    erasure.finish(context, store, Tally(job=JobName.GC))
    assert differs(store) == Difference()
    assert says(store, FORTY) == [memory.source]


def test_what_has_lost_its_vector_is_not_found_as_it_was_before(store: Memories) -> None:
    memory = note(store, FORTY)
    with store.ledger.write() as tx:
        tx.upkeep.drop_vectors([Vector(store.embedder.identity.model, memory.embed_hash)])
    changed(store, memory, standing=Standing.QUARANTINED, standing_reason="rejected")
    assert differs(store) == Difference(missing=(memory.id,))
    assert mend(store) == 1
    assert differs(store) == Difference()


def test_a_page_that_was_read_before_an_erasure_is_written_without_what_was_erased(
    store: Memories, folder: Path
) -> None:
    stays, goes = note(store, "The bridge stays."), note(store, POISON)
    page = [store.get(m.id, "default") for m in (stays, goes)]
    forget(store, folder.parent, goes, with_copies=True)
    with store.ledger.read() as tx:
        current = store.generations.current(tx)
    assert current is not None
    index = store.generations.index(current, 0)
    assert projector.upsert_memories(store.ledger, index, current.model, page) == []
    assert differs(store) == Difference()


def test_one_drain_fills_an_index_that_was_lost(store: Memories, other: Memories, server: PausingServer) -> None:
    for text in (FORTY, NINETY):
        note(store, text)
    server.collections.clear()
    changed(other, note(store, FORTY), pinned=True)
    assert differs(other) == Difference()
