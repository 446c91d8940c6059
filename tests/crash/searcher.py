"""Searches one tenant: `python -m tests.crash.searcher DATA_DIR TENANT STOP_FILE`.

Goes on until STOP_FILE appears; makes a file of its own beside it once it is at work.
Prints how many searches were made and how many hits were seen. Ends with an error at the first hit of another tenant.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kb.clock import SystemClock
from kb.index.milvus import open_server
from kb.settings import Settings
from tests.fakes.embedder import HashingEmbedder
from tests.stores import open_store, search

QUESTIONS = ("line of document number", "part three says", "tenant secret", "something that no other line says")


def main(data_dir: str, tenant: str, stop_file: str) -> None:
    """Search until told to stop."""
    server = open_server(Settings(data_dir=Path(data_dir)))
    searches = hits = 0
    with open_store(Path(data_dir), server=server, embedder=HashingEmbedder(), clock=SystemClock()) as memories:
        while not Path(stop_file).exists():
            result = search(memories, QUESTIONS[searches % len(QUESTIONS)], tenant=tenant, k=10)
            found = [*(h.memory for h in result.hits), *(s.memory for s in result.suppressed)]
            strangers = [m.id for m in found if m.tenant != tenant or f"tenant {tenant}" not in m.text]
            if strangers:
                raise SystemExit(f"{tenant} saw {strangers}")
            searches += 1
            Path(f"{stop_file}.{os.getpid()}").touch()  # at work
            hits += len(found)
    server.close()
    sys.stdout.write(f"{searches} {hits}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
