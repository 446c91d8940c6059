"""Many processes on one ledger, on both databases, and processes that are killed."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from kb.ledger import open_ledger
from tests.integration.ledger_worker import BATCH, batch
from tests.integration.ledger_workers import Workers
from tests.ledger_samples import a_memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.ledger import Ledger
    from tests.fixtures_ledger import PostgresServer

PROCESSES = 8
TRANSACTIONS = 12


@pytest.fixture(scope="module")
def forge() -> Iterator[Workers]:
    started = Workers()
    yield started
    started.close()


@pytest.fixture
def workers(forge: Workers) -> Iterator[Workers]:
    """The process that forks workers, with none running and nothing said yet."""
    yield forge
    forge.reset()


def together(workers: Workers, action: str, url: str | None, data_dir: Path, *, count: int) -> None:
    names = [f"w{n}" for n in range(PROCESSES)]
    for name in names:
        workers.start(action, url, data_dir, name=name, count=count)
    for name in names:
        workers.until("done", name)


def test_eight_processes_open_a_fresh_ledger_at_once(workers: Workers, tmp_path: Path) -> None:
    for turn in range(6):  # they meet at another point each time
        together(workers, "open", None, tmp_path / f"kb{turn}", count=0)
        workers.reset()


def test_eight_processes_open_a_fresh_postgresql_ledger_at_once(
    workers: Workers, postgres: PostgresServer, tmp_path: Path
) -> None:
    together(workers, "open", postgres.url(postgres.create()), tmp_path / "kb", count=0)


def test_eight_processes_write_and_read_without_error_or_loss(
    workers: Workers, ledger_url: str | None, tmp_path: Path
) -> None:
    together(workers, "share", ledger_url, tmp_path / "kb", count=TRANSACTIONS)
    with open_ledger(ledger_url, data_dir=tmp_path / "kb") as ledger:
        assert len(stored(ledger)) == PROCESSES * TRANSACTIONS * BATCH


def stored(ledger: Ledger) -> set[str]:
    """Return the ids of all memories, each of which must be marked once in the outbox."""
    with ledger.read() as tx:
        ids = [str(key) for key, _ in tx.memories.revisions("", 1_000_000)]
        assert sorted(key for _, key in tx.outbox.pending(1_000_000)) == sorted(ids)
        assert len(tx.memories.page("", 1_000_000)) == len(ids)  # every row can be read
    return set(ids)


def assert_whole(ledger: Ledger, acknowledged: dict[str, list[int]]) -> None:
    """Every acknowledged transaction is there, and every other one wholly or not at all."""
    ids = stored(ledger)
    found = {(key.split("-")[0], int(key.split("-")[1])) for key in ids}
    assert len(ids) == len(found) * BATCH
    for name, numbers in acknowledged.items():
        mine = sorted(number for owner, number in found if owner == name)
        assert mine == list(range(len(mine)))
        assert len(numbers) <= len(mine) <= len(numbers) + 1  # at most the one that was in flight


def kill_writers(workers: Workers, url: str | None, data_dir: Path, *, rounds: int, seed: int) -> None:
    """Let three writers at a time work, and kill each at a random moment; check after every round."""
    dice = random.Random(seed)
    acknowledged: dict[str, list[int]] = {}
    for turn in range(rounds):
        names = [f"r{turn}w{n}" for n in range(3)]
        pids = {name: workers.start("write", url, data_dir, name=name, count=1_000_000) for name in names}
        for name, pid in pids.items():
            workers.until("wrote", name, str(dice.randrange(8)))
            time.sleep(dice.random() * 0.01)  # to die anywhere inside a transaction
            workers.kill(pid)
            acknowledged[name] = workers.wrote(name)
        with open_ledger(url, data_dir=data_dir) as ledger:
            assert_whole(ledger, acknowledged)
            assert ledger.check().problems == ()


def test_killed_writers_leave_whole_transactions_only(workers: Workers, ledger_url: str | None, tmp_path: Path) -> None:
    kill_writers(workers, ledger_url, tmp_path / "kb", rounds=4, seed=7)


@pytest.mark.soak
def test_many_killed_writers_leave_whole_transactions_only(
    workers: Workers, ledger_url: str | None, tmp_path: Path
) -> None:
    kill_writers(workers, ledger_url, tmp_path / "kb", rounds=35, seed=1)


def test_a_process_killed_while_it_opens_a_fresh_ledger_leaves_it_openable(workers: Workers, tmp_path: Path) -> None:
    dice = random.Random(3)
    for turn in range(8):
        data_dir, name = tmp_path / f"kb{turn}", f"w{turn}"
        pid = workers.start("write", None, data_dir, name=name, count=1_000_000)
        time.sleep(dice.random() * 0.15)  # to die anywhere inside the migration
        workers.kill(pid)
        with open_ledger(None, data_dir=data_dir) as ledger, ledger.write() as tx:
            found = {key for key, _ in tx.memories.revisions("", 1_000_000)}
            assert {m.id for number in workers.wrote(name) for m in batch(name, number)} <= found
            tx.memories.add([a_memory(1)])
