"""Named locks between processes, on both databases."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from kb.errors import Locked
from kb.ledger import open_ledger
from kb.ledger.locks import advisory_key, safe_name

if TYPE_CHECKING:
    from pathlib import Path

    from kb.ledger import Ledger

HOLDER = """
import sys
from pathlib import Path
from kb.ledger import open_ledger
with open_ledger(sys.argv[1] or None, data_dir=Path(sys.argv[2])) as ledger, ledger.lock(sys.argv[3]):
    print("held", flush=True)
    sys.stdin.readline()
"""


def holder(url: str | None, data_dir: Path, name: str = "ingest:acme") -> subprocess.Popen[str]:
    """Start a process that holds the lock until its stdin says a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, url or "", str(data_dir), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_lock_excludes_another_ledger_and_is_free_afterwards(
    ledger: Ledger, ledger_url: str | None, tmp_path: Path
) -> None:
    with open_ledger(ledger_url, data_dir=tmp_path / "kb") as other:
        with ledger.lock("ingest:acme"):
            with (
                pytest.raises(Locked, match=rf"'ingest:acme' \(pid {os.getpid()}.*, since 20"),
                other.lock("ingest:acme"),
            ):
                pass
            with other.lock("ingest:globex"):
                pass
        with other.lock("ingest:acme"):
            pass


def test_a_lock_excludes_its_own_process_too(ledger: Ledger) -> None:
    with ledger.lock("run"), pytest.raises(Locked), ledger.lock("run"):
        pass


def test_a_lock_is_freed_by_an_exception(ledger: Ledger) -> None:
    with pytest.raises(ZeroDivisionError), ledger.lock("run"):
        _ = 1 / 0
    with ledger.lock("run"):
        pass


def test_waiting_gets_the_lock_when_it_is_freed(ledger: Ledger) -> None:
    held, waited = threading.Event(), threading.Event()

    def first() -> None:
        with ledger.lock("run"):
            held.set()
            waited.wait(30)

    def second() -> bool:
        held.wait(30)
        with pytest.raises(Locked), ledger.lock("run", wait_seconds=0.1):
            pass
        waited.set()
        with ledger.lock("run", wait_seconds=30):
            return True

    with ThreadPoolExecutor(2) as pool:
        one, two = pool.submit(first), pool.submit(second)
        assert two.result()
        one.result()


def test_a_lock_dies_with_its_process(ledger: Ledger, ledger_url: str | None, tmp_path: Path) -> None:
    process = holder(ledger_url, tmp_path / "kb")
    with pytest.raises(Locked, match=f"pid {process.pid}"), ledger.lock("ingest:acme"):
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with ledger.lock("ingest:acme", wait_seconds=30):
        pass


def test_a_forked_child_does_not_keep_its_parents_lock(ledger: Ledger) -> None:
    come, go = os.pipe(), os.pipe()
    with ledger.lock("run"):
        child = os.fork()
        if child == 0:
            os.write(come[1], b"x")
            os.read(go[0], 1)
            os._exit(0)
        os.read(come[0], 1)
        with pytest.raises(Locked), ledger.lock("run"):
            pass  # the fork did not free it either
    with ledger.lock("run", wait_seconds=30):  # free though the child still lives
        os.write(go[1], b"x")
        assert os.waitpid(child, 0)[1] == 0
    for end in (*come, *go):
        os.close(end)


def test_a_lock_leaves_transactions_alone(ledger: Ledger) -> None:
    with ledger.lock("run"), ledger.write() as tx:
        tx.meta.set("k", 1)
    with ledger.read() as tx:
        assert tx.meta.get("k") == 1


@pytest.mark.parametrize("name", ["a/../b", ".", "..", "", "x" * 5_000, "文件", "a\0b", "\ud800", "a b:c"])
def test_any_name_makes_a_lock(ledger: Ledger, name: str) -> None:
    with ledger.lock(name), pytest.raises(Locked), ledger.lock(name):
        pass


def test_distinct_names_are_distinct_locks() -> None:
    names = ["a", "A", "a/b", "a%2Fb", "x" * 200, "x" * 201, ".", "..", "文", "a b", "a+b"]
    assert len({safe_name(n) for n in names}) == len(names)
    assert len({advisory_key(n) for n in names}) == len(names)
    assert all("/" not in safe_name(n) and len(safe_name(n)) < 200 for n in names)
