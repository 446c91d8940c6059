"""A question never waits for a writer of the ledger, and never for a long outbox."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from kb.errors import LedgerUnavailable
from kb.index.projector import BATCH, Projector
from kb.ledger.schema import outbox
from kb.memories import Note
from tests.ledger_samples import NOW, a_memory
from tests.stores import FakeClock, open_store, search

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from kb.ledger import Ledger
    from kb.memories import Memories

BRIDGE = "The Anping bridge carries 40 tons on a dry day."
PATIENCE_S = 25  # less than a writer is waited for


class Holder:
    """Another writer, which keeps the ledger, or the outbox of one, until it is let go."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._held, self._over = threading.Event(), threading.Event()
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> None:
        self._run = self._pool.submit(self._hold)
        assert self._held.wait(PATIENCE_S)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._run.result()
        self._pool.shutdown()

    def _hold(self) -> None:
        with self._ledger.engines.writes.begin() as connection:
            connection.execute(sa.select(outbox).with_for_update()).all()
            self._held.set()
            assert self._over.wait(4 * PATIENCE_S)


def while_held(ledger: Ledger) -> AbstractContextManager[None]:
    return Holder(ledger)  # type: ignore[return-value] # its own __exit__ returns nothing


@pytest.fixture
def away(request: pytest.FixtureRequest, ledger_url: str | None, tmp_path: Path) -> Iterator[Memories]:
    """A store on either database, whose index has missed a change."""
    del request
    with open_store(tmp_path / "kb", ledger_url=ledger_url) as memories:
        memory, _ = memories.add_note(Note(text=BRIDGE, tenant="default"))
        search(memories, "Anping bridge")
        while memories.projector.drain().pending:
            pass
        with memories.ledger.write() as tx:
            tx.outbox.mark([memory.id], NOW)
        yield memories


def pending(memories: Memories) -> int:
    with memories.ledger.read() as tx:
        return tx.outbox.lag()[0]


def test_a_search_answers_while_a_writer_holds_the_ledger(away: Memories) -> None:
    with ThreadPoolExecutor(1) as pool:
        with while_held(away.ledger):
            found = pool.submit(search, away, "Anping bridge").result(PATIENCE_S)
            assert [h.memory.text for h in found.hits] == [BRIDGE]
            assert pending(away) == 1
        search(away, "Anping bridge")
    assert pending(away) == 0


def test_what_a_stale_hit_makes_a_search_catch_up_on_waits_for_no_writer(away: Memories) -> None:
    with ThreadPoolExecutor(1) as pool, while_held(away.ledger):
        drained = pool.submit(away.projector.catch_up, wait_seconds=1.0, is_needed=True).result(PATIENCE_S)
    assert (drained.applied, drained.pending) == (0, 1)
    assert drained.problem


def test_who_must_not_wait_is_told_that_the_ledger_is_held(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.outbox.mark([a_memory(1).id], NOW)

    def clear() -> None:
        with ledger.write(is_waiting=False) as tx:
            tx.outbox.clear([seq for seq, _ in tx.outbox.pending(1)])

    with ThreadPoolExecutor(1) as pool:
        with while_held(ledger), pytest.raises(LedgerUnavailable, match="locked"):
            pool.submit(clear).result(PATIENCE_S)
        pool.submit(clear).result(PATIENCE_S)
    with ledger.read() as tx:
        assert tx.outbox.lag()[0] == 0


def test_a_search_drains_one_batch_of_a_long_outbox_at_most(away: Memories) -> None:
    (memory,) = away.page("default")
    with away.ledger.write() as tx:
        for _ in range(2 * BATCH):
            tx.outbox.mark([memory.id], NOW)
    search(away, "Anping bridge")
    assert pending(away) == BATCH + 1


def test_a_drain_without_a_collection_reads_no_memory(ledger: Ledger) -> None:
    """It is asked after every batch of a sweep, and nothing will come of it."""
    with ledger.write() as tx:
        tx.memories.add([a_memory(n) for n in range(30)])
        tx.outbox.mark([a_memory(n).id for n in range(30)], NOW)
    asked: list[str] = []
    for engine in ledger.engines.owned:
        sa.event.listen(engine, "before_cursor_execute", lambda *given: asked.append(str(given[2])))
    drained = Projector(ledger, _NoCollection(), FakeClock()).drain()  # type: ignore[arg-type] # all that is asked
    assert (drained.applied, drained.pending) == (0, 30)
    assert [q for q in asked if "FROM memories" in q] == []


class _NoCollection:
    """Generations of a store that nothing was projected to yet."""

    def current(self, _: object) -> None:
        """Nothing."""
