"""What HTTP costs over the call in process, and how the server bears 64 asks at a time.

    python -m bench.serve [--asks 300] [--seconds 60] [--concurrency 64] [--out .kb/bench/serve.json]

The server is a process of its own: real HTTP, keys in a real ledger, limits, request ids, only errors logged; behind
it the runtime of `bench.graph`, in which only the graph does anything. First asks one after another, alternately in
process and over HTTP: the ratio of their medians. Then so many clients that ask without pause: errors, throughput,
latency, and the server's memory in the beginning (after a tenth of the time) and at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from bench.graph import instant_runtime, summary
from crag_runtime.result import AskRequest
from crag_runtime.threads import Threads
from kb.keys import Holder, KeyScope, minted
from kb.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

QUESTION = "How many tons does the bridge carry?"
PAGE = os.sysconf("SC_PAGE_SIZE")
SAMPLES = 20  # of the server's memory


def child(folder: Path, concurrency: int) -> None:
    """Serve the instant runtime; print URL and key once it is ready."""
    from kb import log
    from kb.clock import SystemClock
    from serving.run import Manner, serve
    from tests.stores import open_store

    log.configure("error")
    given: Any = {"port": 0, "mcp": False, "console": False, "rate_per_minute": 1e9, "burst": 1_000_000}
    settings = Settings(data_dir=folder, serve={**given, "concurrency": concurrency + 8})
    clock: Any = SystemClock()
    with open_store(folder, clock=clock) as memories:
        key, text = minted("bench", "bench", [KeyScope.QUERY], Holder.PERSON, clock.now())
        with memories.ledger.write() as tx:
            tx.keys.add(key)

        @asynccontextmanager
        async def opening() -> AsyncIterator[Any]:
            threads = Threads()
            yield memories, instant_runtime(threads)
            await threads.aclose()

        def ready(url: str) -> None:
            print(json.dumps({"url": url, "key": text}), flush=True)

        serve(settings, clock, Manner(opening=opening, ready=ready))


@contextmanager
def server(concurrency: int) -> Iterator[tuple[str, str, int]]:
    """Run the server; give its URL, a key and its process id."""
    with tempfile.TemporaryDirectory(prefix="kb-bench-") as folder:
        command = [sys.executable, "-m", "bench.serve", "--child", folder, "--concurrency", str(concurrency)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            try:
                yield ready["url"], ready["key"], process.pid
            finally:
                process.terminate()
                process.wait(60)


def resident(pid: int) -> float:
    """Return a process's resident memory in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return round(pages * PAGE / 1e6, 1)


async def overhead(client: httpx.AsyncClient, asks: int) -> dict[str, Any]:
    """Ask alternately in process and over HTTP, one after another."""
    threads = Threads()
    runtime = instant_runtime(threads)
    taken: dict[str, list[float]] = {"in process": [], "http": []}

    async def called() -> None:
        await runtime.ask(AskRequest(question=QUESTION, tenant="bench"))

    async def posted() -> None:
        (await client.post("/v1/ask", json={"question": QUESTION})).raise_for_status()

    for turn in range(asks + 20):
        for name, work in (("in process", called), ("http", posted)):
            began = time.perf_counter()
            await work()
            if turn >= 20:
                taken[name].append((time.perf_counter() - began) * 1000)
    threads.close()
    medians = {name: statistics.median(each) for name, each in taken.items()}
    added = round(medians["http"] - medians["in process"], 2)
    ratio = round(medians["http"] / medians["in process"], 2)
    return {**{name: summary(each) for name, each in taken.items()}, "added_ms": added, "ratio_p50": ratio}


async def load(client: httpx.AsyncClient, pid: int, *, seconds: float, concurrency: int) -> dict[str, Any]:
    """Ask from so many clients without pause."""
    taken: list[float] = []
    ends: Counter[str] = Counter()
    until = time.perf_counter() + seconds
    memory: list[float] = []

    async def ask_on() -> None:
        while time.perf_counter() < until:
            began = time.perf_counter()
            try:
                reply = await client.post("/v1/ask", json={"question": QUESTION})
                end = str(reply.status_code)
            except httpx.HTTPError as error:
                end = type(error).__name__
            ends[end] += 1
            taken.append((time.perf_counter() - began) * 1000)

    async def watch() -> None:
        while time.perf_counter() < until:
            await asyncio.sleep(seconds / SAMPLES)
            memory.append(resident(pid))

    began = time.perf_counter()
    await asyncio.gather(watch(), *(ask_on() for _ in range(concurrency)))
    lasted = time.perf_counter() - began
    settled = memory[SAMPLES // 10]
    return {
        "concurrency": concurrency,
        "seconds": round(lasted, 1),
        **summary(taken),
        "per_second": round(len(taken) / lasted, 1),
        "errors": sum(n for end, n in ends.items() if end != "200"),
        "ends": dict(ends),
        "memory_mb": memory,
        "memory_growth": round(memory[-1] / settled, 3),
    }


async def measured(given: argparse.Namespace) -> dict[str, Any]:
    """Measure both."""
    with server(given.concurrency) as (url, key, pid):
        limits = httpx.Limits(max_connections=given.concurrency, max_keepalive_connections=given.concurrency)
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=60) as client:
            return {
                "overhead": await overhead(client, given.asks),
                "load": await load(client, pid, seconds=given.seconds, concurrency=given.concurrency),
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--asks", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path(".kb/bench/serve.json"))
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        child(given.child, given.concurrency)
        return
    result = asyncio.run(measured(given))
    for name, value in result["overhead"].items():
        print(f"one after another, {name}: {value}")
    for name, value in result["load"].items():
        print(f"load, {name}: {value}")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
