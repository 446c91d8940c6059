"""A shell for tests: `kb` with a data directory of its own, its command lines in one lasting process or in new ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[1]
# Ctrl-C reaches `kb` even where whoever runs the tests ignores it, as a shell's background jobs do.
HEARING = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
KB = [sys.executable, "-c", HEARING + "from kb_cli.main import main; main()"]
LOOP = [sys.executable, str(ROOT / "tests" / "e2e" / "kb_loop.py")]


@dataclass(frozen=True)
class Done:
    """What a command line came to."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The JSON objects on stdout."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass
class Shell:
    """Runs `kb` in `home`. A context: the process and the store's server end with it.

    In the lasting process it is the instant `at` (epoch milliseconds), until that is set to another; None: now. A warm
    one holds the embedder's tokenizer, which saves a second of every command that embeds.
    """

    home: Path
    cache: Path
    settings: dict[str, str] = field(default_factory=dict)
    at: int | None = None
    is_warm: bool = False

    def __enter__(self) -> Self:
        self._loop = subprocess.Popen(
            [*LOOP, *(["--warm"] if self.is_warm else [])],
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.run("store", "stop")
        self._loop.communicate(timeout=60)

    @property
    def environment(self) -> dict[str, str]:
        keep = {k: v for k, v in os.environ.items() if not k.startswith("KB_")}
        own = {"KB_DATA_DIR": str(self.home / "data"), "KB_CACHE_DIR": str(self.cache), "PYTHONPATH": str(ROOT)}
        return {**keep, **own, **self.settings}

    def run(self, *arguments: str, stdin: str = "", **environment: str) -> Done:
        """Run a command line in the lasting process."""
        assert self._loop.stdin is not None
        assert self._loop.stdout is not None
        asked = {"arguments": arguments, "environment": environment, "stdin": stdin, "at": self.at}
        self._loop.stdin.write(json.dumps(asked) + "\n")
        self._loop.stdin.flush()
        return Done(**json.loads(self._loop.stdout.readline()))

    def json(self, *arguments: str, code: int = 0, **environment: str) -> Any:
        """Return the one object that a command line prints with --json."""
        done = self.run(*arguments, "--json", **environment)
        assert done.code == code, done.err or done.out
        (shown,) = done.lines
        return shown

    def started(self, *arguments: str) -> subprocess.Popen[str]:
        """Return a new process with its output piped."""
        return subprocess.Popen(
            [*KB, *arguments],
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
