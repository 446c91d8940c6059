"""Starts ledger workers, listens to them and kills them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Workers:
    """A process that forks workers; imports are paid once for all of them."""

    def __init__(self) -> None:
        self.events: list[list[str]] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.ledger_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self.until("ready")

    def start(self, action: str, url: str | None, data_dir: Path, *, name: str, count: int) -> int:
        """Fork a worker and return its process id."""
        self._tell("\t".join([action, url or "", str(data_dir), name, str(count)]))
        return int(self.until("forked", name)[2])

    def until(self, *words: str) -> list[str]:
        """Read events to the next one that begins with `words`, or find it among those read, and return it."""
        for event in self.events:
            if event[: len(words)] == list(words):
                return event
        while True:
            event = self._next()
            if event[: len(words)] == list(words):
                return event

    def kill(self, pid: int) -> None:
        """Kill a worker with signal 9, and read everything that it said."""
        os.kill(pid, signal.SIGKILL)
        while is_alive(pid):
            time.sleep(0.001)
        self._tell("ping")
        while self._next() != ["pong"]:
            pass

    def wrote(self, name: str) -> list[int]:
        """Return the transactions a worker said it committed."""
        return [int(event[2]) for event in self.events if event[:2] == ["wrote", name]]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _next(self) -> list[str]:
        assert self._process.stdout is not None
        event = self._process.stdout.readline().split()
        assert event, "the workers' process ended"
        assert event[0] != "failed", " ".join(event)
        self.events.append(event)
        return event


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
