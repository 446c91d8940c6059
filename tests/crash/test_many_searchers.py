"""Eight processes search while one ingests: no error, no hit of another tenant, no lost row."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from kb.clock import SystemClock
from kb.index.lite import LiteServer
from kb.index.milvus import open_server
from kb.model import Standing
from kb.settings import Settings
from tests.fakes.embedder import HashingEmbedder
from tests.stores import open_store, search, sync

ROOT = Path(__file__).parents[2]
TENANTS = ("north", "south")


def write_documents(folder: Path, tenant: str, count: int, edition: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for d in range(count):
        lines = " ".join(
            f"Line {k} of document number {d} of tenant {tenant}, edition {edition}, says something." for k in range(20)
        )
        (folder / f"{d:02d}.md").write_text(f"# Document {d} of tenant {tenant}\n\n{lines}\n")


def at_work(stop: Path, searchers: list[subprocess.Popen[str]]) -> None:
    """Wait until every searcher has searched once, or one has ended."""
    deadline = time.monotonic() + 120
    while len(list(stop.parent.glob(f"{stop.name}.*"))) < len(searchers):
        ended = [p for p in searchers if p.poll() is not None]
        assert not ended, ended[0].communicate()[1][-2000:]
        assert time.monotonic() < deadline, "the searchers did not start"
        time.sleep(0.05)


@pytest.mark.parametrize(("documents", "editions"), [(10, 3), pytest.param(60, 10, marks=pytest.mark.soak)])
def test_eight_searchers_and_one_writer(tmp_path, documents, editions):
    data, stop = tmp_path / "data", tmp_path / "stop"
    server = open_server(Settings(data_dir=data, index_idle_seconds=20))
    with open_store(data, server=server, embedder=HashingEmbedder(), clock=SystemClock()) as memories:
        for tenant in TENANTS:
            write_documents(tmp_path / tenant, tenant, documents, 0)
            sync(memories, tmp_path / tenant, tenant=tenant)
        searchers = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.crash.searcher", str(data), TENANTS[n % 2], str(stop)],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for n in range(8)
        ]
        at_work(stop, searchers)
        for edition in range(1, editions + 1):
            for tenant in TENANTS:
                write_documents(tmp_path / tenant, tenant, documents, edition)
                report = sync(memories, tmp_path / tenant, tenant=tenant, checksum=True)
                assert report.documents["changed"] == documents
        stop.touch()
        for process in searchers:
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err[-2000:]
            searches, hits = map(int, out.split())
            assert searches > 0
            assert hits > 0
        for tenant in TENANTS:
            found = search(memories, "document number", tenant=tenant, k=1000).hits
            active = memories.page(tenant, limit=1000, standings=(Standing.ACTIVE,))
            assert {h.memory.id for h in found} == {m.id for m in active}
            assert len(active) >= documents
            assert all(f"edition {editions}" in m.text for m in active)
    server.close()
    LiteServer(data / "index", 20).stop()
