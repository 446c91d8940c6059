"""A full disk: a clear error, nothing acknowledged lost, and recovery when space returns."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from kb.clock import SystemClock
from kb.errors import DependencyError
from kb.index.lite import LiteServer
from kb.index.milvus import open_server
from kb.ledger import open_ledger
from kb.ledger.migrations import HEAD
from kb.ledger.portable import shape_at_head
from kb.model import Standing
from kb.moving.importing import take_in
from kb.moving.manifest import Manifest
from kb.moving.reading import reading
from kb.moving.writing import writing
from kb.settings import Settings
from tests.fakes.embedder import HashingEmbedder
from tests.ledger_samples import a_memory
from tests.stores import open_store, search, sync

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def small_disk(tmp_path: Path):
    """A 12 MB file system, and a function that makes it large."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("mounting a small file system needs a privileged user")
    yield disk, lambda: subprocess.run(["mount", "-o", "remount,size=400m", str(disk)], check=True)
    subprocess.run(["umount", "-l", str(disk)], check=True)


def write_documents(folder: Path, count: int) -> None:
    folder.mkdir()
    for d in range(count):
        lines = "\n\n".join(
            f"## Part {p}\n\n" + " ".join(f"Sentence {k} of part {p} of paper {d} is its own." for k in range(40))
            for p in range(10)
        )
        (folder / f"{d:03d}.md").write_text(f"# Paper {d}\n\n{lines}\n")


def test_a_full_disk_loses_nothing_acknowledged_and_heals(tmp_path, small_disk):
    disk, enlarge = small_disk
    write_documents(tmp_path / "docs", 120)
    settings = Settings(data_dir=disk / "data", index_timeout=3, index_idle_seconds=20)
    server = open_server(settings)
    with open_store(disk / "data", server=server, embedder=HashingEmbedder(), clock=SystemClock()) as memories:
        with pytest.raises(DependencyError) as full:
            sync(memories, tmp_path / "docs")
        assert any(word in str(full.value).lower() for word in ("disk", "full", "space"))
        acknowledged = {m.id for m in memories.page("default", limit=100_000)}
        assert acknowledged
        enlarge()
        report = sync(memories, tmp_path / "docs")
        assert report.failures == []
        assert report.pending == 0
        active = {m.id for m in memories.page("default", limit=100_000, standings=(Standing.ACTIVE,))}
        assert acknowledged <= active
        assert report.documents["unchanged"] + report.documents["added"] == 120
        assert {h.memory.id for h in search(memories, "sentence of paper", k=1000).hits} <= active
        with memories.ledger.read() as tx:
            current = memories.generations.current(tx)
            revisions = dict(tx.memories.revisions("", 1_000_000))
        assert current is not None
        assert dict(memories.generations.index(current, 0).revisions()) == revisions
    server.close()
    LiteServer(disk / "data" / "index", 20).stop()


def test_an_import_that_fills_the_disk_leaves_the_ledger_empty_and_can_be_repeated(tmp_path, small_disk):
    disk, enlarge = small_disk
    text = "The toll of the bridge is four coins. " * 200
    with open_ledger(None, data_dir=tmp_path / "full") as ledger, ledger.write() as tx:
        tx.memories.add([a_memory(n, text=f"{n} {text}") for n in range(2500)])
    with (
        open_ledger(None, data_dir=tmp_path / "full") as ledger,
        writing(tmp_path / "a.tar") as archive,
        ledger.read() as tx,
    ):
        file = archive.add("memories", shape_at_head("memories"), tx.portable.rows("memories"))
        said = {"schema": HEAD, "product": "1", "created_at": "", "tenant": None, "space": None, "trust": {}}
        archive.seal(Manifest(**said, tables={"memories": file}))
    with open_ledger(None, data_dir=disk / "new") as ledger, reading(tmp_path / "a.tar") as archive:
        with pytest.raises(DependencyError, match="disk is full"):
            take_in(ledger, archive, None, 0)
        with ledger.read() as tx:
            assert tx.portable.count("memories") == 0
        enlarge()
        take_in(ledger, archive, None, 0)
        with ledger.read() as tx:
            assert tx.portable.count("memories") == 2500
        assert ledger.check().problems == ()
