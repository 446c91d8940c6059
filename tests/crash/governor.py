"""One process of many that govern one ledger, to be killed from outside.

`python -m tests.crash.governor HOME URL SEED STEPS`: the URL is empty for SQLite.

Real ledger, real Milvus Lite, one calendar for all processes. Prints `ready`, then a line of troubles, and `done`.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kb import log
from kb.index.milvus import open_server
from tests.crash.killing import say
from tests.stores import T0
from tests.stress import Worker, World

if TYPE_CHECKING:
    from collections.abc import Iterator


class FileClock:
    """A calendar in a file that every process turns on."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def now(self) -> int:
        return self._turned(1)

    def advance(self, milliseconds: int) -> None:
        self._turned(milliseconds)

    def _turned(self, by: int) -> int:
        handle = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            instant = int(os.pread(handle, 32, 0) or T0) + by
            os.pwrite(handle, str(instant).encode(), 0)
            return instant
        finally:
            os.close(handle)


@contextmanager
def opened_world(home: Path, url: str) -> Iterator[World]:
    """Open the world that all processes share."""
    world = World(home=home, url=url or None, clock=FileClock(home / "clock"))
    server = open_server(world.settings.model_copy(update={"index_idle_seconds": 60}))
    world.server = server
    try:
        yield world
    finally:
        server.close()


def main(home: str, url: str, seed: str, steps: str) -> None:
    """Work, as the seed says."""
    log.configure("error")
    with opened_world(Path(home), url) as world:
        say("ready")
        Worker(world, int(seed), int(steps)).run()
        say(json.dumps(world.troubles))
        say("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
