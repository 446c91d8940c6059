"""One process's work, to be killed from outside: `python -m tests.crash.worker DATA_DIR FOLDER ACTION`.

Real ledger, real Milvus Lite, real parser worker; the embedder is the deterministic fake, slowed down a little so that
a kill finds it at work. Prints `done` when the action has been acknowledged.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kb.clock import SystemClock
from kb.errors import KbError
from kb.index.milvus import open_server
from kb.rebuild import reconcile, reindex
from kb.settings import Settings
from tests.fakes.embedder import HashingEmbedder
from tests.stores import open_store, sync

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.ports import Vector


class SlowEmbedder(HashingEmbedder):
    """Takes a moment for each passage."""

    def passages(self, texts: Sequence[str]) -> Vector:
        time.sleep(0.001 * len(texts))
        return super().passages(texts)


def main(data_dir: str, folder: str, action: str) -> None:
    """Do one action on a store."""
    settings = Settings(data_dir=Path(data_dir), index_idle_seconds=20)
    server = open_server(settings)
    with open_store(Path(data_dir), server=server, embedder=SlowEmbedder(), clock=SystemClock()) as memories:  # type: ignore[arg-type]
        if action == "sync":
            sync(memories, Path(folder), allow_mass_delete=True, settings=settings)
        elif action == "reindex":
            reindex(memories, re_embed=False)
        elif action == "reconcile":
            reconcile(memories)
        memories.projector.drain()
    server.close()
    sys.stdout.write("done\n")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KbError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.exit(int(error.exit_code))
