"""Two processes write back at once, on either database: the same answer, finding, key or evidence is there once."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import psycopg
import pytest

from crag_runtime.recording.recorder import Recorded, Recorder
from crag_runtime.recording.spool import Spool
from crag_runtime.recording.written import answer_record
from crag_runtime.store import Store
from kb.history import EdgeKind, EvidenceKind
from kb.model import Kind, MemoryId
from tests.agents import remember
from tests.chatting import vouched
from tests.history_samples import an_evaluation
from tests.learned_samples import a_learned, agreeing, citing, disagreeing, found
from tests.stores import InProcessServer, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from crag_runtime.recording.learned import Learned
    from kb.memories import Memories

URL = "https://bridges.example/anping"
BRIDGE = "The Anping bridge carries 40 tons on a dry day."
ROUNDS = 4
MEETING_SECONDS = 60  # to hang is to fail


@pytest.fixture
def stores(ledger_url: str | None, tmp_path: Path) -> Iterator[tuple[Memories, Memories]]:
    """Two stores on one ledger and one index, as two processes have them: no connection is shared."""
    server = InProcessServer()
    with ExitStack() as stack:
        one, other = (
            stack.enter_context(open_store(tmp_path / "kb", server=server, ledger_url=ledger_url)) for _ in range(2)
        )
        yield one, other


class Meeting(Recorder):
    """Waits for the other recorder before it begins."""

    barrier: threading.Barrier

    def record(self, learned: Learned) -> Recorded:
        self.barrier.wait(MEETING_SECONDS)
        return super().record(learned)


def at_once(stores: tuple[Memories, Memories], tmp_path: Path, *learned: Learned) -> list[str]:
    """Write back in both stores at the same moment; return the problems."""
    barrier = threading.Barrier(2)
    recorders = [Meeting(Store(store), Spool(tmp_path / "spool"), "fake") for store in stores]
    for recorder in recorders:
        recorder.barrier = barrier
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(r.record, one) for r, one in zip(recorders, learned, strict=True)]
        return [p for future in running if (p := future.result().problem)]


def test_the_same_answer_written_twice_at_once_is_there_once(stores: tuple[Memories, Memories], tmp_path: Path) -> None:
    """As two processes do that make up for one file."""
    id_ = remember(stores[0], BRIDGE)
    for n in range(ROUNDS):
        graded = an_evaluation(id_, answer_id=f"a{n}", tenant="default")
        learned = a_learned(f"a{n}", n, citations=citing(id_), retrieved=(MemoryId(id_),), evaluations=(graded,))
        assert at_once(stores, tmp_path, learned, learned) == []
    with stores[0].ledger.read() as tx:
        assert [len(tx.evaluations.of_answer(f"a{n}")) for n in range(ROUNDS)] == [1] * ROUNDS
        (use,) = tx.utility.get([MemoryId(id_)]).values()
    assert (use.retrieved, use.cited) == (ROUNDS, ROUNDS)


def test_the_same_findings_in_any_order_are_added_once_and_nobody_waits_in_a_ring(
    stores: tuple[Memories, Memories], tmp_path: Path
) -> None:
    for n in range(ROUNDS):
        pages = tuple(found(f"{URL}/{n}/{page}", f"{BRIDGE} {page}") for page in range(6))
        one, other = a_learned(f"a{n}", n, findings=pages), a_learned(f"b{n}", n, findings=pages[::-1])
        assert at_once(stores, tmp_path, one, other) == []
    assert len(stores[0].page("default", kinds=(Kind.WEB,), limit=100)) == 6 * ROUNDS


def test_one_key_leads_to_one_answer_the_newest(stores: tuple[Memories, Memories], tmp_path: Path) -> None:
    for n in range(0, 4 * ROUNDS, 2):
        assert at_once(stores, tmp_path, a_learned(f"a{n}", n), a_learned(f"a{n + 1}", n + 1)) == []
        (key,) = stores[0].page("default", kinds=(Kind.ANSWER,))
        with stores[0].ledger.read() as tx:
            leads_to = [edge.parent for edge in tx.lineage.parents(key.id) if edge.kind is EdgeKind.KEY]
        assert leads_to == [f"a{n + 1}"]


def test_one_witness_counts_once_and_two_count_twice(stores: tuple[Memories, Memories], tmp_path: Path) -> None:
    store = stores[0]
    witnesses = [vouched(store, remember(store, BRIDGE, source=f"https://w{n}.example/a")).id for n in range(2)]
    for n in range(ROUNDS):
        hearer = remember(store, f"{BRIDGE} {n}", source="https://blog.example/b")
        before = store.get(MemoryId(hearer), "default").trust.confidence  # less with every round: it is contradicted
        now = store.clock.now()
        same = [a_learned(f"{end}{n}", now, agreements=(agreeing(hearer, witnesses[0]),)) for end in "ab"]
        assert at_once(stores, tmp_path, *same) == []
        once = store.get(MemoryId(hearer), "default")
        assert once.trust.confidence == pytest.approx((4 * before + 1) / 5)
        two = [
            a_learned(f"c{n}", now, conflicts=(disagreeing([hearer], [witnesses[0]]),)),
            a_learned(f"d{n}", now, agreements=(agreeing(hearer, witnesses[1]),)),
        ]
        assert at_once(stores, tmp_path, *two) == []
        with store.ledger.read() as tx:
            kinds = sorted(e.kind for e in tx.evidence.of_memory(MemoryId(hearer)))
        assert kinds == [EvidenceKind.AGREEMENT, EvidenceKind.AGREEMENT, EvidenceKind.CONTRADICTION]
        assert store.get(MemoryId(hearer), "default").rev == once.rev + 2


def test_an_answer_that_another_commits_in_the_midst_is_no_second_one(
    stores: tuple[Memories, Memories], tmp_path: Path, ledger_url: str | None
) -> None:
    """PostgreSQL lets both begin: who comes second waits for the first's end, and then writes nothing."""
    id_ = remember(stores[0], BRIDGE)
    graded = an_evaluation(id_, answer_id="a", tenant="default")
    learned = a_learned("a", 0, is_key=False, evaluations=(graded,), retrieved=(MemoryId(id_),))
    recorder = Recorder(Store(stores[1]), Spool(tmp_path / "spool"))
    with ThreadPoolExecutor(1) as pool:
        with stores[0].ledger.write() as tx:
            tx.answers.add(answer_record(learned, {}, 0))
            second = pool.submit(recorder.record, learned)
            if ledger_url is not None:
                await_a_waiter(ledger_url)
        recorded = second.result()
    assert (recorded.problem, recorded.summary) == ("", "already recorded")
    with stores[0].ledger.read() as tx:
        assert tx.evaluations.of_answer(learned.answer_id) == []
        assert tx.utility.get([MemoryId(id_)]) == {}


def await_a_waiter(url: str) -> None:
    """Wait until a connection waits for another's end."""
    with psycopg.connect(url, autocommit=True) as connection:
        while not connection.execute(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchone():
            time.sleep(0.01)
