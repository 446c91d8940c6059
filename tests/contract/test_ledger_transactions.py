"""Transactions: all or nothing, snapshots, threads, and what happens when something inside goes wrong."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kb import telemetry
from kb.errors import IntegrityError, LedgerUnavailable, StaleRevision
from kb.ledger import open_ledger
from kb.model import MemoryId
from tests.ledger_samples import NOW, a_document, a_memory

if TYPE_CHECKING:
    from pathlib import Path

    from kb.ledger import Ledger
    from tests.fixtures_ledger import PostgresServer


def ids(ledger: Ledger) -> list[str]:
    with ledger.read() as tx:
        return [m.id for m in tx.memories.page("", 1_000_000)]


class Halt(Exception):  # noqa: N818 - stops a transaction from inside
    pass


def write_and_halt(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.documents.put(a_document())
        tx.memories.add([a_memory(1)])
        tx.outbox.mark([MemoryId("m00001")], NOW)
        raise Halt


def test_an_exception_undoes_everything_of_the_transaction(ledger: Ledger) -> None:
    with pytest.raises(Halt):
        write_and_halt(ledger)
    with ledger.read() as tx:
        assert tx.documents.get(a_document().id) is None
        assert tx.memories.page("", 10) == []
        assert tx.outbox.lag() == (0, None)
        assert tx.tenants.list() == []


def write_and_pass_over(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.memories.add([a_memory(2)])
        with pytest.raises(IntegrityError, match="refused a row"):
            tx.memories.add([a_memory(1)])


def test_an_error_that_is_passed_over_cannot_be_committed(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.memories.add([a_memory(1)])
    with pytest.raises(IntegrityError, match="passed over"):
        write_and_pass_over(ledger)
    assert ids(ledger) == ["m00001"]
    with ledger.write() as tx:
        tx.memories.add([a_memory(3)])  # the ledger itself is as sound as before
    assert ids(ledger) == ["m00001", "m00003"]


def test_a_read_is_one_snapshot_that_never_waits_for_a_writer(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.memories.add([a_memory(1)])
    with ledger.read() as reader:
        assert [m.id for m in reader.memories.page("", 10)] == ["m00001"]
        with ledger.write() as writer:
            writer.memories.add([a_memory(2)])
            assert len(reader.memories.page("", 10)) == 1
            assert len(writer.memories.page("", 10)) == 2
        assert len(reader.memories.page("", 10)) == 1
    assert ids(ledger) == ["m00001", "m00002"]


def test_a_read_cannot_write(ledger: Ledger) -> None:
    with pytest.raises(LedgerUnavailable), ledger.read() as tx:
        tx.memories.add([a_memory(1)])
    assert ids(ledger) == []


def test_what_one_process_commits_another_ledger_reads(ledger: Ledger, ledger_url: str | None, tmp_path: Path) -> None:
    with ledger.write() as tx:
        tx.memories.add([a_memory(1)])
    with open_ledger(ledger_url, data_dir=tmp_path / "kb") as other:
        assert ids(other) == ["m00001"]


def test_threads_lose_no_update(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.memories.add([a_memory(1)])

    def bump() -> int:
        retries = 0
        while True:
            with ledger.read() as tx:
                seen = tx.memories.get([MemoryId("m00001")])[MemoryId("m00001")]
            try:
                with ledger.write() as tx:
                    tx.memories.replace([replace(seen, rev=seen.rev + 1)])
            except StaleRevision:
                retries += 1
            else:
                return retries

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: bump(), range(40)))
    with ledger.read() as tx:
        assert tx.memories.get([MemoryId("m00001")])[MemoryId("m00001")].rev == 41


def test_threads_read_while_others_write(ledger: Ledger) -> None:
    def write(number: int) -> None:
        with ledger.write() as tx:
            tx.memories.add([a_memory(number * 2), a_memory(number * 2 + 1)])

    def read(_: int) -> bool:
        return len(ids(ledger)) % 2 == 0

    with ThreadPoolExecutor(12) as pool:
        writes = [pool.submit(write, n) for n in range(30)]
        reads = [pool.submit(read, n) for n in range(60)]
        assert all(r.result() for r in reads)
        for each in writes:
            each.result()
    assert len(ids(ledger)) == 60


def test_writers_that_touch_the_same_rows_in_other_orders_both_succeed(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.memories.add([a_memory(i) for i in range(50)])
    barrier = threading.Barrier(2)

    def swing(forward: bool) -> int:  # noqa: FBT001 - one of two ways
        done = 0
        barrier.wait()
        for _ in range(10):
            try:
                with ledger.write() as tx:
                    found = sorted(tx.memories.get([a_memory(i).id for i in range(50)]).items(), reverse=not forward)
                    tx.memories.replace([replace(m, rev=m.rev + 1) for _, m in found])
                    done += 1
            except StaleRevision:
                continue
        return done

    with ThreadPoolExecutor(2) as pool:
        done = sum(pool.map(swing, [True, False]))
    with ledger.read() as tx:
        assert {m.rev for m in tx.memories.page("", 100)} == {1 + done}
    assert done >= 10


def test_a_forked_child_uses_connections_of_its_own(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.memories.add([a_memory(1)])
    child = os.fork()
    if child == 0:
        try:
            with ledger.write() as tx:
                tx.memories.add([a_memory(2)])
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    with ledger.write() as tx:
        tx.memories.add([a_memory(3)])
    assert ids(ledger) == ["m00001", "m00002", "m00003"]


def write_and_be_cut_off(ledger: Ledger, postgres: PostgresServer, database: str) -> None:
    with ledger.write() as tx:
        tx.memories.add([a_memory(2)])
        with postgres.admin() as admin:
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [database])
        tx.memories.add([a_memory(3)])


def test_a_lost_connection_is_said_and_the_next_transaction_works(
    postgres: PostgresServer, postgres_url: str, tmp_path: Path
) -> None:
    with open_ledger(postgres_url, data_dir=tmp_path) as ledger:
        with ledger.write() as tx:
            tx.memories.add([a_memory(1)])
        with pytest.raises(LedgerUnavailable) as lost:
            write_and_be_cut_off(ledger, postgres, postgres_url.rsplit("/", 1)[1])
        assert "postgresql://postgres@127.0.0.1" in str(lost.value)
        assert ids(ledger) == ["m00001"]
        with ledger.write() as tx:
            tx.memories.add([a_memory(4)])
        assert ids(ledger) == ["m00001", "m00004"]


def test_transactions_are_spanned_by_name(ledger: Ledger) -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    telemetry.adopt(traces=provider)
    try:
        ids(ledger)  # a heartbeat's look at the ledger is no trace of its own
        with telemetry.span(telemetry.Span.SEARCH):
            with ledger.write() as tx:
                tx.memories.add([a_memory(1)])
            ids(ledger)
    finally:
        telemetry.shutdown()
    assert [(s.name, dict(s.attributes or {})) for s in spans.get_finished_spans()][:-1] == [
        ("kb.ledger.write", {"db.system.name": ledger.dialect}),
        ("kb.ledger.read", {"db.system.name": ledger.dialect}),
    ]
