"""Runs `kb` command lines one after another in one process, so that tests pay for its imports once.

Reads a JSON object a line: arguments, environment, stdin, at; writes one: code, out, err. `at` is what the process's
clock shows (epoch milliseconds; null: the machine's), so that a story of months takes seconds. Only this machine can be
reached: a connection to anywhere else is refused inside the process. With `--warm` what every command would load anew,
and let go of, is loaded once.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import sys
from dataclasses import dataclass
from typing import Any

from kb_cli.main import main
from kb_cli.session import set_clock

_connect = socket.socket.connect


@dataclass(frozen=True)
class StoppedClock:
    """Shows one instant."""

    instant: int

    def now(self) -> int:
        return self.instant


def _local_only(self: socket.socket, address: Any) -> None:
    is_local = self.family == socket.AF_UNIX or address[0] in ("127.0.0.1", "::1", "localhost")
    assert is_local, f"network: {address}"
    _connect(self, address)


def run(asked: dict[str, Any]) -> dict[str, Any]:
    out, err, kept = io.StringIO(), io.StringIO(), dict(os.environ)
    os.environ.update(asked["environment"])
    set_clock(None if asked["at"] is None else StoppedClock(asked["at"]))
    sys.argv = ["kb", *asked["arguments"]]
    sys.stdin = io.TextIOWrapper(io.BytesIO(asked["stdin"].encode("utf-8", "surrogateescape")))
    code: Any = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            code = stop.code
    os.environ.clear()
    os.environ.update(kept)
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


def warm() -> object:
    """Return the default embedder with its tokenizer, which commands share as long as somebody holds it."""
    from kb.embedders.local import LocalEmbedder
    from kb.settings import load_settings

    embedder = LocalEmbedder.open(load_settings().cache_dir)
    embedder.count_tokens(["warm"])
    return embedder


if __name__ == "__main__":
    held = warm() if sys.argv[1:] == ["--warm"] else None
    socket.socket.connect = _local_only  # type: ignore[assignment,method-assign]
    for line in iter(sys.__stdin__.readline, ""):  # type: ignore[union-attr]
        sys.__stdout__.write(json.dumps(run(json.loads(line))) + "\n")  # type: ignore[union-attr]
        sys.__stdout__.flush()  # type: ignore[union-attr]
