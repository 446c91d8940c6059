"""A process that forks workers on a ledger, each of which says what it did, one line an event.

Started, told what to do, and killed worker by worker, by tests (`tests.integration.ledger_workers`). One line on stdin
forks one worker: action, URL or nothing, data directory, name and count, separated by tabs. `ping` is answered `pong`.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import alembic.command  # noqa: F401 - loaded before any fork, so that workers meet in the migration itself
import psycopg  # noqa: F401
import sqlalchemy.dialects.postgresql.psycopg  # noqa: F401

from kb.ledger import open_ledger
from tests.ledger_samples import NOW, a_memory

if TYPE_CHECKING:
    from kb.ledger import Ledger
    from kb.model import Memory

BATCH = 4


def batch(name: str, number: int) -> list[Memory]:
    """Return the memories that one transaction adds, all or none."""
    return [a_memory(f"{name}-{number:06d}-{i}", text=f"{name} {number} {i} " * 40) for i in range(BATCH)]


def say(*words: object) -> None:
    """Write one line in one piece, so that lines of many workers never mix."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def write(ledger: Ledger, name: str, number: int) -> None:
    memories = batch(name, number)
    with ledger.write() as tx:
        tx.memories.add(memories)
        tx.outbox.mark([m.id for m in memories], NOW + number)
    say("wrote", name, number)


def read(ledger: Ledger, name: str, number: int) -> None:
    with ledger.read() as tx:
        mine = tx.memories.get([m.id for m in batch(name, number)])
        everything = tx.memories.revisions("", 1_000_000)
        marked = tx.outbox.lag().count
    assert len(mine) == BATCH
    assert len(everything) == marked, "a snapshot shows a transaction in halves"


def work(action: str, url: str, data_dir: str, name: str, count: str) -> None:
    with open_ledger(url or None, data_dir=Path(data_dir)) as ledger:
        say("opened", name)
        parent = os.getppid()
        for number in range(int(count)):
            if os.getppid() != parent:
                return  # the tests are gone
            write(ledger, name, number)
            if action == "share":
                read(ledger, name, number)
    say("done", name)


def fork(order: list[str]) -> None:
    child = os.fork()
    if child:
        say("forked", order[3], child)
        return
    try:
        work(*order)
        os._exit(0)
    finally:
        say("failed", order[3], " | ".join(traceback.format_exc().splitlines()))
        os._exit(1)


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps the workers
    say("ready")
    for line in sys.stdin:
        order = line.rstrip("\n").split("\t")
        if order == ["ping"]:
            say("pong")
        else:
            fork(order)


if __name__ == "__main__":
    main()
