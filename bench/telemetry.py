"""What telemetry costs a question: off, and on with a collector that answers, is absent, hangs, or dies.

    python -m bench.telemetry [--rounds 40] [--out .kb/bench/telemetry.json]

Whole questions on a real store of the sample (Milvus Lite, local embedder, reader; no grade cache), asked in turn under
every mode of one process; what is reported is the median over the rounds of each mode's time by the time with telemetry
off in the same round, on the wall and in the process's own CPU time (which a busy machine disturbs less, and which
holds the exports of all modes). `shutdown_s` is how long the end took with what was left to send.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import statistics
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from bench.graph import QUESTIONS, ingest
from crag_runtime.result import AskRequest
from crag_runtime.wiring import build_runtime
from kb import telemetry
from kb.clock import SystemClock
from kb.memories import open_memories
from kb.settings import AskSettings, Settings
from kb.telemetry.state import STATE, State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crag_runtime.runtime import CragRuntime

Taken = dict[str, list[tuple[float, float]]]  # seconds by clock and by CPU, by mode
MODES = ("off", "prometheus", "collector", "absent", "black hole", "dying")


class _Answering(BaseHTTPRequestHandler):
    """A collector that takes everything in."""

    deadly = False

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        if self.deadly:
            raise ConnectionError("gone")
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing to say."""


class _Dying(_Answering):
    deadly = True


class _Quiet(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """It is told to fail."""


@contextmanager
def place(mode: str) -> Iterator[str | None]:
    """Give the endpoint of a mode."""
    if mode in ("collector", "dying"):
        server = _Quiet(("127.0.0.1", 0), _Answering if mode == "collector" else _Dying)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
    elif mode == "black hole":
        with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    elif mode == "absent":
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            yield f"http://127.0.0.1:{taken.getsockname()[1]}"
    else:
        yield None


@dataclass(frozen=True, kw_only=True)
class Mode:
    """A way of being switched on, kept aside while another is in use."""

    name: str
    state: State

    def use(self) -> None:
        """Make it this process's."""
        for field in ("tracer", "meter", "counters", "histograms", "ends", "scrape"):
            setattr(STATE, field, getattr(self.state, field))


def prepared(name: str, endpoint: str | None) -> Mode:
    """Switch a mode on, and keep it aside."""
    telemetry.configure(endpoint, prometheus=name == "prometheus")
    mode = Mode(name=name, state=replace(STATE))
    STATE.off()
    return mode


async def measured(runtime: CragRuntime, modes: list[Mode], rounds: int) -> Taken:
    """Return the seconds, by clock and by CPU, of each question under each mode; the order turns with every round."""
    taken: Taken = {mode.name: [] for mode in modes}
    for number in range(rounds):
        question = QUESTIONS[number % len(QUESTIONS)]
        turn = number % len(modes)
        for mode in [*modes[turn:], *modes[:turn]]:
            mode.use()
            began, worked = time.perf_counter(), time.process_time()
            await runtime.ask(AskRequest(question=question, tenant="default"))
            taken[mode.name].append((time.perf_counter() - began, time.process_time() - worked))
    STATE.off()
    return taken


def ratio(taken: list[tuple[float, float]], off: list[tuple[float, float]], which: int) -> float:
    """Return the median over the rounds of what a mode took by what it took with telemetry off."""
    return round(statistics.median(t[which] / o[which] for t, o in zip(taken, off, strict=True)), 3)


def ended(mode: Mode) -> float:
    """Return the seconds that switching a mode off took."""
    mode.use()
    began = time.perf_counter()
    telemetry.shutdown()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path(".kb/bench/telemetry.json"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        settings = Settings(data_dir=Path(home) / "data", ask=AskSettings(evaluator="reader", grade_cache="none"))
        memories = stack.enter_context(open_memories(settings, SystemClock()))
        ingest(memories, settings)
        modes = [prepared(name, stack.enter_context(place(name))) for name in MODES]

        async def story() -> Taken:
            async with build_runtime(settings, memories) as runtime:
                await measured(runtime, modes[:1], len(QUESTIONS))  # warm
                return await measured(runtime, modes, given.rounds)

        taken = asyncio.run(story())
        off = taken["off"]
        found = {
            mode.name: {
                "median_ms": round(statistics.median(wall for wall, _ in taken[mode.name]) * 1000, 1),
                "ratio": ratio(taken[mode.name], off, 0),
                "cpu_ratio": ratio(taken[mode.name], off, 1),
                "shutdown_s": round(ended(mode), 2),
            }
            for mode in modes
        }
    for name, v in found.items():
        ratios = f"x{v['ratio']:.3f}  cpu x{v['cpu_ratio']:.3f}"
        print(f"{name:12} {v['median_ms']:9.1f} ms  {ratios}  end {v['shutdown_s']:.2f} s")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps({"rounds": given.rounds, "modes": found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
