"""While a document flips between versions, every search sees exactly one of them: never both, never neither."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from kb.clock import SystemClock
from kb.index.lite import LiteServer
from kb.index.milvus import open_server
from kb.settings import Settings
from tests.crash.flipper import version
from tests.fakes.embedder import HashingEmbedder
from tests.stores import open_store, search, sync, texts

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("flips", [12, pytest.param(150, marks=pytest.mark.soak)])
def test_a_search_sees_exactly_one_version_at_every_instant(tmp_path, flips):
    folder, data = tmp_path / "docs", tmp_path / "data"
    folder.mkdir()
    (folder / "toll.md").write_text(version(0))
    settings = Settings(data_dir=data, index_idle_seconds=20)
    server = open_server(settings)
    with open_store(data, server=server, embedder=HashingEmbedder(), clock=SystemClock()) as memories:  # type: ignore[arg-type]
        sync(memories, folder)
        command = [sys.executable, "-m", "tests.crash.flipper", str(data), str(folder), str(flips)]
        writer = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)
        seen: set[str] = set()
        searches = 0
        deadline = time.monotonic() + 250
        while writer.poll() is None and time.monotonic() < deadline:
            found = [t for t in texts(search(memories, "bridge toll coins for every cart", k=10)) if "coins" in t]
            assert len(found) == 1, found
            seen.add(found[0])
            searches += 1
        _, err = writer.communicate(timeout=60)
        assert writer.returncode == 0, err.decode()[-2000:]
    server.close()
    LiteServer(data / "index", 20).stop()
    assert len(seen) > 1
    assert searches > flips
