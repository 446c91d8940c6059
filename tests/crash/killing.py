"""Runs a program that says `ready` and `done`, and kills it in between, where it is told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from tests.architecture.tree import ROOT


def run(module: str, *arguments: str, kill_after: float | None = None) -> tuple[bool, float]:
    """Run a module in a process of its own; return whether it ended by itself, and how long it took after `ready`."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    while (line := process.stdout.readline()).strip() != "ready":
        assert line, process.communicate(timeout=60)[1][-2000:]
    began = time.monotonic()
    if kill_after is not None:
        try:
            process.wait(timeout=kill_after)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode in {0, -signal.SIGKILL}, err[-2000:]
    return "done" in out, time.monotonic() - began


def say(word: str) -> None:
    """Tell who watches; for the programs themselves."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()
