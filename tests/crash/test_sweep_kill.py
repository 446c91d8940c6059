"""kill -9 at random points of a sweep: resumed, it ends as one that nobody interrupted, and nothing is done twice."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kb.index.lite import LiteServer
from kb.index.milvus import open_server
from kb.settings import Settings
from kb.sweeps import ImageKind, SweepStatus
from tests.stores import T0, open_store
from tests.swept import is_in_step, ledger_rows, stocked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kb.memories import Memories

ROOT = Path(__file__).parents[2]
MEMORIES = 180  # some get a second action: about 200 actions, 26 batches
HOUR = 3_600_000


@dataclass(kw_only=True)
class Place:
    """A store whose tenants are swept one after the other, each the same but for its name."""

    data: Path
    url: str
    seconds: float = 0.0  # an uninterrupted sweep takes, once it is ready
    expected: Any = None
    tenants: int = 0
    numbers: random.Random = field(default_factory=lambda: random.Random(7))

    @contextmanager
    def opened(self) -> Iterator[Memories]:
        server = open_server(Settings(data_dir=self.data, index_idle_seconds=30))
        with open_store(self.data, server=server, ledger_url=self.url or None) as memories:
            yield memories
        server.close()

    def stocked(self) -> str:
        self.tenants += 1
        tenant = f"t{self.tenants:03d}"
        with self.opened() as memories:
            stocked(memories, count=MEMORIES, seed=11, tenant=tenant)
        return tenant

    def run(self, tenant: str, now: int, *, kill_after: float | None = None) -> bool:
        """Sweep in a process of its own; return whether it was killed at work."""
        command = [sys.executable, "-m", "tests.crash.sweeper", str(self.data), self.url, tenant, str(now)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        first = process.stdout.readline()
        began = time.monotonic()
        if kill_after is not None:
            try:
                process.wait(timeout=kill_after)
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
        out, err = process.communicate(timeout=120)
        if process.returncode not in {0, -signal.SIGKILL} or first != b"ready\n":
            pytest.fail(f"the sweeper ended with {process.returncode}: {err.decode()[-2000:]}")
        self.seconds = self.seconds or time.monotonic() - began
        return out != b"done\n"

    def state(self, tenant: str) -> dict[str, Any]:
        """Return all that must be equal, the tenant's name and the sweep's id taken out."""
        with self.opened() as memories:
            memories.projector.drain()
            assert is_in_step(memories)
            rows = ledger_rows(memories, tenant)
            with memories.ledger.read() as tx:
                (sweep,) = tx.sweeps.list(9, tenant=tenant)
                story = tx.sweeps.journal(sweep.id)
                images = tx.sweeps.images(sweep.id, range(len(story)))
                revs = {m.id: m.rev for m in tx.memories.page("", 10**6, tenant=tenant)}
        assert sweep.status is SweepStatus.DONE
        assert sum(sweep.counts.values()) == len(story)
        assert_one_chain_a_row(story, images, revs)
        return {
            "rows": plain(rows, tenant, sweep.id),
            "journal": plain([(j.seq, j.action, j.applied_at is None, j.skipped) for j in story], tenant, sweep.id),
            "images": plain([(seq, own) for seq, own in sorted(images.items())], tenant, sweep.id),
            "revs": plain(revs, tenant, sweep.id),
            "counts": sweep.counts,
        }

    def story(self, tenant: str, kills: int) -> int:
        """Sweep a tenant, killed up to so many times, and compare; return how many kills found it at work."""
        hits = 0
        for n in range(kills):
            late = self.numbers.uniform(0.0, self.seconds / (n + 1))
            hits += self.run(tenant, T0 + n * HOUR, kill_after=late)
        assert not self.run(tenant, T0 + kills * HOUR)
        assert self.state(tenant) == self.expected
        return hits


def plain(value: object, tenant: str, sweep_id: str) -> str:
    """Return a value's text without what may differ: names of tenant and sweep, and when a row was written."""
    text = repr(value).replace(tenant, "TENANT").replace(sweep_id, "SWEEP")
    return re.sub(r"('updated_at': |'at': |, )(18000\d{8})(?=[,})])", r"\1WHEN", text)


def assert_one_chain_a_row(story: list[Any], images: dict[int, list[Any]], revs: dict[str, int]) -> None:
    """Each memory was changed once by each image, in the order of the plan, and by nobody else."""
    chain: dict[str, int] = {}
    for seq in sorted(images):
        assert not story[seq].skipped
        for image in images[seq]:
            if image.kind is ImageKind.MEMORY:
                was = chain.get(image.key, image.before["rev"])
                assert image.before["rev"] == was
                chain[image.key] = image.after["rev"]
                assert image.after["rev"] == was + 1
    assert {id_: revs[id_] for id_ in chain} == chain


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def place(request, tmp_path_factory) -> Iterator[Place]:
    """A store on either database, and how a sweep ends there that nobody interrupts."""
    url = ""
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres")
        url = server.url(server.create(request.getfixturevalue("migrated")))
    made = Place(data=tmp_path_factory.mktemp("store"), url=url)
    first = made.stocked()
    assert not made.run(first, T0)
    made.expected = made.state(first)
    yield made
    LiteServer(made.data / "index", 30).stop()


def test_a_killed_sweep_ends_as_if_nobody_had_killed_it(place):
    tenant = place.stocked()
    assert place.story(tenant, kills=2) >= 1
    with place.opened() as memories, memories.ledger.write() as tx:  # and one row that differs would be noticed
        memory = tx.memories.page("", 1, tenant=tenant)[0]
        tx.memories.replace([replace(memory, pinned=not memory.pinned, rev=memory.rev + 1)])
        tx.outbox.mark([memory.id], T0)
    with pytest.raises(AssertionError):
        assert place.state(tenant) == place.expected


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_forty_kills_leave_no_trace(place):
    hits = rounds = 0
    while hits < 40:
        hits += place.story(place.stocked(), kills=4)
        rounds += 1
    sys.stderr.write(f"{hits} kills in {rounds} sweeps\n")
