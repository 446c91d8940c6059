"""Ingests one version of a document after another: `python -m tests.crash.flipper DATA_DIR FOLDER TIMES`."""

from __future__ import annotations

import sys
from pathlib import Path

from kb.clock import SystemClock
from kb.index.milvus import open_server
from kb.settings import Settings
from tests.fakes.embedder import HashingEmbedder
from tests.stores import open_store, sync


def version(n: int) -> str:
    filler = " ".join(f"Filler sentence {k} stays as it is." for k in range(10))
    return (
        f"# Toll\n\nThe bridge toll is {n} coins for every cart. {filler}\n\n## Other\n\nFerries are free. {filler}\n"
    )


def flip(data: str, folder: str, times: str) -> None:
    """Ingest one version after another."""
    settings = Settings(data_dir=Path(data))
    server = open_server(settings)
    with open_store(Path(data), server=server, embedder=HashingEmbedder(), clock=SystemClock()) as memories:  # type: ignore[arg-type]
        for n in range(1, int(times) + 1):
            (Path(folder) / "toll.md").write_text(version(n % 5))
            sync(memories, Path(folder), checksum=True)
    server.close()


if __name__ == "__main__":
    flip(*sys.argv[1:])
