"""Two who write history at once, on both databases: nothing counts twice, nothing is lost, nobody waits for ever."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from kb.history import EdgeKind
from kb.model import MemoryId
from tests.history_samples import M1, an_answer, an_edge, an_event
from tests.ledger_samples import NOW

if TYPE_CHECKING:
    from collections.abc import Callable

    from kb.history import EvidenceEvent
    from kb.ledger import Ledger
    from kb.ledger.ledger import LedgerTx

ROUNDS = 15


class Undo(Exception):  # noqa: N818 - ends a transaction without a trace
    pass


def together(ledger: Ledger, *works: Callable[[LedgerTx], object]) -> list[object]:
    """Do each work in a transaction of its own thread, all begun at one moment; return what each gave."""
    start = threading.Barrier(len(works))

    def one(work: Callable[[LedgerTx], object]) -> object:
        start.wait(30)
        with ledger.write() as tx:
            return work(tx)

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(one, works))


def test_of_two_writers_exactly_one_brings_each_event(ledger: Ledger) -> None:
    for number in range(ROUNDS):
        events = [an_event(f"m{number}-{n}") for n in range(20)]
        mine, others = together(
            ledger,
            lambda tx, given=events: tx.evidence.add(given),
            lambda tx, given=events[::-1]: tx.evidence.add(given),
        )
        assert sorted(e.memory_id for e in (*mine, *others)) == sorted(e.memory_id for e in events)  # type: ignore[misc]
        with ledger.read() as tx:
            assert all(len(tx.evidence.of_memory(e.memory_id)) == 1 for e in events)


@pytest.mark.parametrize("commits", [True, False])
def test_an_event_counts_for_the_second_only_if_the_first_is_undone(ledger: Ledger, *, commits: bool) -> None:
    written, waiting = threading.Event(), threading.Event()

    def second() -> list[EvidenceEvent]:
        written.wait(30)
        waiting.set()
        with ledger.write() as tx:
            return tx.evidence.add([an_event()])

    with ThreadPoolExecutor(1) as pool, suppress(Undo):
        later = pool.submit(second)
        with ledger.write() as tx:
            assert tx.evidence.add([an_event()]) == [an_event()]
            written.set()
            waiting.wait(30)
            if not commits:
                raise Undo
    assert later.result() == ([] if commits else [an_event()])
    with ledger.read() as tx:
        assert tx.evidence.of_memory(M1) == [an_event()]


def test_use_counted_at_once_is_all_counted(ledger: Ledger) -> None:
    ids = [MemoryId(f"m{n:02d}") for n in range(12)]
    for number in range(ROUNDS):
        together(
            ledger,
            lambda tx, at=NOW + number: tx.utility.bump(retrieved=ids, cited=ids[:3], now=at),
            lambda tx: tx.utility.bump(retrieved=ids[::-1], relevant=ids[6:], now=NOW),
        )
    with ledger.read() as tx:
        found = tx.utility.get(ids)
    assert {u.retrieved for u in found.values()} == {2 * ROUNDS}
    assert sum(u.relevant for u in found.values()) == 6 * ROUNDS
    assert sum(u.cited for u in found.values()) == 3 * ROUNDS
    assert {u.last_at for u in found.values()} == {NOW + ROUNDS - 1}


def test_steps_kept_at_once_are_kept_once(ledger: Ledger) -> None:
    for number in range(ROUNDS):
        edges = [an_edge(f"m{number}-{n}", f"a{number}") for n in range(20)]
        together(
            ledger,
            lambda tx, given=edges: tx.lineage.add(given),
            lambda tx, given=edges[::-1]: tx.lineage.add([*given, an_edge("q", "k", EdgeKind.KEY)]),
        )
        with ledger.read() as tx:
            assert len(tx.lineage.parents(f"a{number}")) == 20


def test_an_answer_written_at_once_by_two_is_new_for_one(ledger: Ledger) -> None:
    for number in range(ROUNDS):
        answer = an_answer(f"a{number}")
        new = together(ledger, *[lambda tx, given=answer: tx.answers.add(given)] * 3)
        assert sorted(new) == [False, False, True]  # type: ignore[type-var]
        with ledger.read() as tx:
            assert tx.answers.get(answer.id, "acme") == answer
