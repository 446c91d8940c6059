"""Real `kb daemon` processes for tests, and a ledger full of notes that nobody vouched for and that have faded."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kb.clock import SystemClock
from kb.memories import Note, note_memory
from kb.model import Standing
from kb.settings import Settings
from kb.trust import DAY_MS
from tests.shell import KB, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kb.ledger import Ledger
    from kb.model import Memory

TENANT = "acme"
PATIENCE = 60.0
JOBS = ("sync", "decay", "promote", "recheck", "prune", "gc", "reconcile", "verify_index")


@dataclass
class Fleet:
    """Daemons on one ledger, with schedules of seconds; what is not named is off."""

    home: Path
    url: str | None
    settings: dict[str, str] = field(default_factory=dict)
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        keep = {k: v for k, v in os.environ.items() if not k.startswith("KB_")}
        own = {
            "KB_DATA_DIR": str(self.home / "kb"),
            "KB_JOBS__LEASE_SECONDS": "0.2",
            "KB_JOBS__HEARTBEAT_SECONDS": "0.3",
            "KB_GOVERN__MASS_COUNT": "1000000",
            "KB_GOVERN__BATCH": "4",
            "PYTHONPATH": str(ROOT),
            **{f"KB_JOBS__{job.upper()}": "off" for job in JOBS},
            **({"KB_LEDGER_URL": self.url} if self.url else {}),
        }
        return {**keep, **own, **self.settings}

    def start(self) -> subprocess.Popen[bytes]:
        number = len(self.running)
        with (self.home / f"daemon-{number}.log").open("wb") as log:
            process = subprocess.Popen(
                [*KB, "daemon"], cwd=self.home, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.running.append(process)
        return process

    def log(self, process: subprocess.Popen[bytes]) -> str:
        return (self.home / f"daemon-{self.running.index(process)}.log").read_text()


@contextmanager
def fleet(home: Path, url: str | None, **settings: str) -> Iterator[Fleet]:
    """Give a fleet whose processes end with the context."""
    own = Fleet(home=home, url=url, settings=settings)
    try:
        yield own
    finally:
        for process in own.running:
            if process.poll() is None:
                process.kill()
            process.wait()


def faded(number: int, *, first: int = 0, tenant: str = TENANT) -> list[Memory]:
    """Return notes of a hundred days ago, each of which prune retires."""
    then = SystemClock().now() - 100 * DAY_MS
    policies = Settings.model_construct(trust={}).policies
    return [
        note_memory(Note(text=f"Note {first + n} says something of its own.", tenant=tenant), policies, then)
        for n in range(number)
    ]


def seed(ledger: Ledger, memories: list[Memory]) -> None:
    with ledger.write() as tx:
        tx.memories.add(memories)


def until(claim: Callable[[], object], what: str, *, seconds: float = PATIENCE) -> None:
    """Return once the claim holds; what other processes do tells nobody."""
    deadline = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < deadline, f"it did not happen: {what}"
        time.sleep(0.02)


def retired(ledger: Ledger, tenant: str = TENANT) -> int:
    with ledger.read() as tx:
        return sum(c.count for c in tx.memories.counts(tenant) if c.standing is Standing.RETIRED)


def leader(ledger: Ledger, *, but: int = 0) -> int:
    """Return the pid of the daemon that says it leads, 0 when none does."""
    with ledger.read() as tx:
        return next((d.pid for d in tx.slots.daemons() if d.is_leader and d.pid != but), 0)


def each_was_applied_once(ledger: Ledger, memories: list[Memory]) -> None:
    """Check that the journal holds every memory's one change, and that nothing in it waits."""
    with ledger.read() as tx:
        sweeps = tx.sweeps.list(1_000_000)
        assert {s.status.value for s in sweeps} == {"done"}
        assert not any(tx.sweeps.waiting(s.id, 1) for s in sweeps)
        stored = tx.memories.get([m.id for m in memories])
        for memory in memories:
            journal = [j for j in tx.sweeps.of_memory(memory.id) if not j.skipped]
            kinds = [j.action.kind.value for j in journal]
            assert kinds[-1] == "retire", memory.id
            assert len(set(kinds)) == len(kinds) == len(list(tx.sweeps.changed_rows(memory.id)))
            assert stored[memory.id].rev == memory.rev + len(kinds)
