"""The SQLite ledger against a full disk, a file that may not be written, and a writer that does not let go."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from itertools import count
from typing import TYPE_CHECKING

import pytest

from kb.errors import LedgerUnavailable
from kb.ledger import open_ledger
from kb.ledger.faults import Place, fault_of
from tests.integration.test_ledger_processes import stored
from tests.ledger_samples import NOW, a_memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.ledger import Ledger


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small tmpfs is not permitted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def write_without_end(ledger: Ledger, name: str, acknowledged: list[str]) -> None:
    for number in count():
        memories = [a_memory(f"{name}-{number}-{i}", text=os.urandom(4_000).hex()) for i in range(5)]
        with ledger.write() as tx:
            tx.memories.add(memories)
            tx.outbox.mark([m.id for m in memories], NOW)
        acknowledged += [m.id for m in memories]


def fill(ledger: Ledger, name: str) -> list[str]:
    """Write until the disk is full; return the ids of the transactions that were acknowledged."""
    acknowledged: list[str] = []
    with pytest.raises(LedgerUnavailable, match=r"disk.* full") as full:
        write_without_end(ledger, name, acknowledged)
    assert "nothing that was acknowledged is lost" in full.value.hint
    return acknowledged


def grow(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=16m", disk], check=True)


def test_a_full_disk_is_said_loses_nothing_acknowledged_and_heals(small_disk: Path) -> None:
    with open_ledger(None, data_dir=small_disk / "kb") as ledger:
        acknowledged = fill(ledger, "first")
        assert acknowledged
        assert stored(ledger) == set(acknowledged)  # reading goes on meanwhile
        acknowledged += fill(ledger, "second")  # it stays clear, whatever small write still fits
        with ledger.lock("run"):
            pass
        grow(small_disk)
        with ledger.write() as tx:
            tx.memories.add([a_memory("after")])
            tx.outbox.mark([a_memory("after").id], NOW)
        assert stored(ledger) == {*acknowledged, "after"}
        assert ledger.check().problems == ()
    with open_ledger(None, data_dir=small_disk / "kb") as again:
        assert stored(again) == {*acknowledged, "after"}


def test_a_ledger_left_on_a_full_disk_opens_again_after_space_returns(small_disk: Path) -> None:
    with open_ledger(None, data_dir=small_disk / "kb") as ledger:
        acknowledged = fill(ledger, "w")
    grow(small_disk)
    with open_ledger(None, data_dir=small_disk / "kb") as again:
        assert stored(again) == set(acknowledged)


def fill_with_a_file(file: Path) -> None:
    with file.open("wb", buffering=0) as filler:
        while True:
            filler.write(b"x" * 65_536)


def test_a_fresh_ledger_on_a_full_disk_is_refused_clearly_and_works_later(small_disk: Path) -> None:
    with pytest.raises(OSError, match="space"):
        fill_with_a_file(small_disk / "filler")
    with pytest.raises(LedgerUnavailable, match=r"full|space"):
        open_ledger(None, data_dir=small_disk / "kb")
    (small_disk / "filler").unlink()
    with open_ledger(None, data_dir=small_disk / "kb") as ledger:
        assert stored(ledger) == set()


def test_a_read_only_disk_is_said(small_disk: Path) -> None:
    with open_ledger(None, data_dir=small_disk / "kb") as ledger, ledger.write() as tx:
        tx.memories.add([a_memory(1)])
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(LedgerUnavailable) as refused:
        open_ledger(None, data_dir=small_disk / "kb")
    assert str(small_disk) in str(refused.value)


def test_a_writer_that_does_not_let_go_is_said(tmp_path: Path) -> None:
    file = tmp_path / "plain.db"
    first, second = (sqlite3.connect(file, timeout=0, isolation_level=None) for _ in range(2))
    first.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError) as busy:
        second.execute("BEGIN IMMEDIATE")
    fault = fault_of(busy.value, Place(dialect="sqlite", shown=str(file)))
    assert isinstance(fault, LedgerUnavailable)
    assert "another writer is busy" in str(fault)
    assert "repeat" in fault.hint
    first.close()
    second.close()


COUNTED = """
import sys
from pathlib import Path
from kb.ledger import open_ledger
with open_ledger(None, data_dir=Path(sys.argv[1])) as ledger:
    with ledger.read() as tx:
        print(len(tx.memories.page("", 100)))
"""


def test_a_ledger_that_a_process_opens_again_loses_nothing_when_others_come_and_go(tmp_path):
    """Closing the file by another way than SQLite's frees the process's locks, and the next visitor takes the log."""

    def seen_by_another() -> int:
        done = subprocess.run(
            [sys.executable, "-c", COUNTED, str(tmp_path)], check=True, capture_output=True, text=True
        )
        return int(done.stdout)

    with open_ledger(None, data_dir=tmp_path) as ledger:
        with ledger.write() as tx:
            tx.memories.add([a_memory("one")])
        with open_ledger(None, data_dir=tmp_path) as again, again.read() as tx:
            assert tx.memories.page("", 100)
        seen_by_another()
        with ledger.write() as tx:
            tx.memories.add([a_memory("two")])
        assert seen_by_another() == 2
