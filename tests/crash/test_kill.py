"""kill -9 at random points of ingest, update, delete and reindex, of the writer and of the index server.

After a rerun the state must equal that of a run that nobody interrupted, in the ledger and in the index.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kb.clock import SystemClock
from kb.errors import ExitCode
from kb.index.lite import LiteServer
from kb.index.milvus import open_server
from kb.model import Standing
from kb.settings import Settings
from tests.fakes.embedder import HashingEmbedder
from tests.stores import open_store

ROOT = Path(__file__).parents[2]
STAGES = ("ingest", "update", "delete", "reindex")


def paragraph(seed: str, n: int) -> str:
    return " ".join(f"Line {k} of {seed} number {n} says something that no other line says." for k in range(14))


def write_stage(folder: Path, stage: str) -> None:
    """Bring the folder to the state that a stage ingests; stages build on each other."""
    folder.mkdir(exist_ok=True)
    if stage == "ingest":
        for d in range(12):
            body = "\n\n".join(f"## Part {n}\n\n{paragraph(f'document {d}', n)}" for n in range(6))
            (folder / f"d{d:02d}.md").write_text(f"# Document {d}\n\n{body}\n")
    elif stage == "update":
        for d in range(0, 12, 2):
            path = folder / f"d{d:02d}.md"
            text = path.read_text().replace("Line 3", "Line three (revised)").replace("## Part 5", "## Part five")
            path.write_text(text)
        (folder / "d01.md").rename(folder / "renamed.md")
    elif stage == "delete":
        for d in (3, 5, 7):
            (folder / f"d{d:02d}.md").unlink()


def run(data: Path, folder: Path, action: str, *, kill_after: float | None = None, victim: str = "writer") -> bool:
    """Run an action in a process of its own; return whether it ended by itself."""
    command = [sys.executable, "-m", "tests.crash.worker", str(data), str(folder), action]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    if kill_after is not None:
        try:
            process.wait(timeout=kill_after)
        except subprocess.TimeoutExpired:
            if victim == "writer":
                os.kill(process.pid, signal.SIGKILL)
            else:
                kill_server(data)
    out, err = process.communicate(timeout=120)
    unreachable = {int(ExitCode.DEPENDENCY)} if victim == "server" else set()  # said clearly, and healed by a rerun
    if process.returncode not in {0, -signal.SIGKILL, *unreachable}:
        pytest.fail(f"{action} ended with {process.returncode}: {err.decode()[-2000:]}")
    return out.strip().endswith(b"done")


def kill_server(data: Path) -> None:
    announced = data / "index" / "endpoint"
    try:
        pid = json.loads(announced.read_text())["server_pid"]
        os.kill(pid, signal.SIGKILL)
    except (FileNotFoundError, ValueError, ProcessLookupError):
        return  # between two servers: nothing to kill at this instant


def state(data: Path) -> dict[str, object]:
    """Return what must be equal: documents, memories by standing, the index row by row, and nothing pending."""
    settings = Settings(data_dir=data, index_idle_seconds=20)
    server = open_server(settings)
    with open_store(data, server=server, embedder=HashingEmbedder(), clock=SystemClock()) as memories:  # type: ignore[arg-type]
        memories.projector.drain()
        with memories.ledger.read() as tx:
            documents = tx.documents.of_root("default", "docs", include_deleted=True)
            rows = tx.memories.page("", 10_000)
            pending, _ = tx.outbox.lag()
            staged = tx.memories.staged()
            current = memories.generations.current(tx)
            revisions = dict(tx.memories.revisions("", 100_000))
        assert current is not None
        index = dict(memories.generations.index(current, 0).revisions())
    server.close()
    assert pending == 0
    assert staged == []
    assert index == revisions
    live = {d.id: d for d in documents}
    return {
        "documents": sorted((d.source, d.deleted_at is None, d.fingerprint, d.memory_ids) for d in documents),
        "active": sorted(
            (m.id, m.text, m.source, m.passage.ordinal, live[m.doc_id].source)  # type: ignore[index]
            for m in rows
            if m.standing is Standing.ACTIVE
        ),
        "superseded": sorted(m.id for m in rows if m.standing is Standing.SUPERSEDED),
    }


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """Return the state after each stage of a run that nobody interrupts, and how long a stage takes."""
    home = tmp_path_factory.mktemp("uninterrupted")
    states: dict[str, dict[str, object]] = {}
    for stage in STAGES:
        write_stage(home / "docs", stage)
        began = time.monotonic()
        assert run(home / "data", home / "docs", "reindex" if stage == "reindex" else "sync")
        seconds = time.monotonic() - began
        states[stage] = {"state": state(home / "data"), "seconds": seconds}
    LiteServer(home / "data" / "index", 20).stop()
    return states


def interrupted_story(home: Path, expected: dict[str, dict[str, object]], rng: random.Random, kills: int) -> int:
    """Go through all stages; at each, kill writer or server at random instants, then finish and compare.

    Returns how many kills hit a writer, or a server whose writer was at work.
    """
    hits = 0
    for stage in STAGES:
        write_stage(home / "docs", stage)
        action = "reindex" if stage == "reindex" else "sync"
        seconds = float(expected[stage]["seconds"])  # type: ignore[arg-type]
        for _ in range(kills):
            victim = rng.choice(("writer", "writer", "server"))
            late = rng.uniform(0.35, 1.0) * seconds  # before that, Python is still importing
            ended = run(home / "data", home / "docs", action, kill_after=late, victim=victim)
            hits += victim == "server" or not ended
        assert run(home / "data", home / "docs", action)
        assert state(home / "data") == expected[stage]["state"], stage
    LiteServer(home / "data" / "index", 20).stop()
    return hits


def test_a_killed_run_is_finished_by_the_next_one(tmp_path, expected):
    interrupted_story(tmp_path, expected, random.Random(1), kills=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_sixty_kills_leave_no_trace(tmp_path, expected):
    hits = rounds = 0
    while hits < 60:
        home = tmp_path / str(rounds)
        home.mkdir()
        hits += interrupted_story(home, expected, random.Random(100 + rounds), kills=4)
        rounds += 1
        shutil.rmtree(home)
    sys.stderr.write(f"{hits} kills in {rounds} rounds\n")
