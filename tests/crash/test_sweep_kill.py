"""kill -9 at random points of a sweep: resumed, it ends as one that nobody interrupted, and nothing is done twice."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
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
MEMORIES = 180  # some get a second action: about 200 actions
BATCHES = 25  # at least
HOUR = 3_600_000


@dataclass(kw_only=True)
class Place:
    """A store whose tenants are swept one after the other, each the same but for its name."""

    data: Path
    url: str
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

    def run(self, tenant: str, now: int, *, batches: int | None = None) -> bool:
        """Sweep in a process of its own, killed somewhere in the batch after so many; return whether it was."""
        command = [sys.executable, "-m", "tests.crash.sweeper", str(self.data), self.url, tenant, str(now)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        assert process.stdout is not None
        said, took = [process.stdout.readline()], 0.05
        while said[-1] not in {b"", b"done\n"}:
            if batches is not None and len(said) > batches:
                self.kill(process, took)
                break
            began = time.monotonic()
            said.append(process.stdout.readline())
            took = time.monotonic() - began
        rest, err = process.communicate(timeout=120)
        is_done = b"done\n" in (*said, rest[-5:])
        if process.returncode != (0 if batches is None else -signal.SIGKILL) or is_done is not (batches is None):
            pytest.fail(f"the sweeper ended with {process.returncode} after {said}: {err.decode()[-2000:]}")
        return not is_done

    def kill(self, process: subprocess.Popen[bytes], took: float) -> None:
        """Kill at a random instant of about one more batch: in its transaction, in the index, or between."""
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=self.numbers.uniform(0.0, min(took, 0.2)))
        os.kill(process.pid, signal.SIGKILL)

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
        """Sweep a tenant, killed so many times on the way, and compare; return how many kills found it at work."""
        hits = 0
        for n in range(kills):
            hits += self.run(tenant, T0 + n * HOUR, batches=self.numbers.randrange(BATCHES // kills - 2))
        self.run(tenant, T0 + kills * HOUR)
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
    made.run(first, T0)
    made.expected = made.state(first)
    yield made
    LiteServer(made.data / "index", 30).stop()


def test_a_killed_sweep_ends_as_if_nobody_had_killed_it(place):
    tenant = place.stocked()
    assert place.story(tenant, kills=2) == 2
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
