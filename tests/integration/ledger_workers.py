"""Starts ledger workers, listens to them and kills them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Workers:
    """A process that forks workers; imports are paid once for all of them."""

    def __init__(self) -> None:
        self.events: list[list[str]] = []
        self._running: dict[str, int] = {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.ledger_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            start_new_session=True,  # so that no worker outlives it
        )
        self.until("ready")

    def start(self, action: str, url: str | None, data_dir: Path, *, name: str, count: int) -> int:
        """Fork a worker and return its process id."""
        self._tell("\t".join([action, url or "", str(data_dir), name, str(count)]))
        self._running[name] = int(self.until("forked", name)[2])
        return self._running[name]

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
        end(pid)
        self._running = {name: other for name, other in self._running.items() if other != pid}
        self._tell("ping")
        while self._next() != ["pong"]:
            pass

    def wrote(self, name: str) -> list[int]:
        """Return the transactions a worker said it committed."""
        return [int(event[2]) for event in self.events if event[:2] == ["wrote", name]]

    def reset(self) -> None:
        """End what a test left running and forget what was said."""
        for pid in self._running.values():
            end(pid)
        self._tell("ping")
        while self._read() != ["pong"]:
            pass
        self._running.clear()
        self.events.clear()

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _next(self) -> list[str]:
        event = self._read()
        assert event[0] != "failed", " ".join(event)
        self.events.append(event)
        return event

    def _read(self) -> list[str]:
        assert self._process.stdout is not None
        event = self._process.stdout.readline().split()
        assert event, "the workers' process ended"
        if event[0] in {"done", "failed"}:
            self._running.pop(event[1], None)
        return event


def end(pid: int) -> None:
    """Kill a worker, if it still is one, and wait until it is gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    while is_alive(pid):
        time.sleep(0.001)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
