"""Many writers on one ledger: whatever they do at once, nothing is lost, done twice, left behind, or let through."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kb.memories import Note
from kb.sweeps import SweepStatus
from tests.crash.governor import opened_world
from tests.invariants import broken
from tests.rolling import sync
from tests.stores import write
from tests.stress import BRIDGES, ROOTS, World, settled, worked

if TYPE_CHECKING:
    from tests.fixtures_ledger import PostgresServer

ROOT = Path(__file__).parents[2]


def checked(world: World) -> None:
    """Let everything come to rest, and look at all of it."""
    settled(world)
    assert world.troubles == []
    with world.opened() as memories:
        assert broken(memories) == [], world.told


@pytest.mark.parametrize("seed", [1])
def test_writers_side_by_side_leave_a_ledger_in_order(ledger_url: str | None, tmp_path: Path, seed: int) -> None:
    world = World(home=tmp_path, url=ledger_url)
    worked(world, seed=seed, workers=4, steps=9)
    checked(world)
    assert sum(world.done.values()) == 36


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 106))
def test_many_writers_for_a_long_time(ledger_url: str | None, tmp_path: Path, seed: int) -> None:
    world = World(home=tmp_path, url=ledger_url)
    worked(world, seed=seed, workers=7, steps=90)
    checked(world)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_processes_that_are_killed_now_and_then(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = ""
    if database == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.url(server.create(request.getfixturevalue("migrated")))
    with opened_world(tmp_path, url) as world:
        with world.opened() as memories:
            for root in ROOTS:
                write(
                    world.folder(root), **{f"{b}_md": f"# Guide\n\nThe {b} bridge carries 40 tons.\n" for b in BRIDGES}
                )
                sync(memories, world.folder(root))
            memories.add_note(Note(text="The Anping bridge carries ninety tons.", tenant="default"))
        world.troubles += _killed_now_and_then(tmp_path, url)
        checked(world)
        with world.opened() as memories, memories.ledger.read() as tx:
            assert tx.sweeps.list(1, status=SweepStatus.RUNNING) == []


def _killed_now_and_then(home: Path, url: str) -> list[str]:
    """Run processes until 24 have ended, every third of them killed at a random moment; return their troubles."""
    numbers, begun = random.Random(9), 0
    troubles: list[str] = []
    running: list[tuple[subprocess.Popen[str], float | None]] = []
    while begun < 24 or running:
        while begun < 24 and len(running) < 4:
            late = time.monotonic() + numbers.uniform(4, 25) if begun % 3 == 2 else None
            arguments = [sys.executable, "-m", "tests.crash.governor", str(home), url, str(500 + begun), "40"]
            running.append((subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True), late))
            begun += 1
        process, late = running.pop(0)
        try:
            out, _ = process.communicate(timeout=None if late is None else max(0.1, late - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            continue
        assert process.returncode == 0
        troubles += json.loads(out.splitlines()[-2])
    return troubles
