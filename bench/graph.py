"""What the runtime costs per question: the graph alone, and a whole `ask` against plain RAG on the same store.

    python -m bench.graph [--asks 200] [--rounds 40] [--out .kb/bench/graph.json]

Two measurements in one run. Overhead: every part is an instant fake (store, evaluator, generator, recorder), so that
what is left is planning nothing, the graph, its state and its threads; five passages graded, no checkpointer. Whole
ask: a real store of the sample on Milvus Lite with the local embedder and the reader, questions asked alternately by
plain RAG (embed, search without a gate, quote the best passage) and by the runtime; the grade cache is off.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_runtime.deps import Deps
from crag_runtime.evidence import Citation, Draft, Evidence, Grade, Label, Origin, Plan, Usage
from crag_runtime.graph import build_graph
from crag_runtime.policy import RuntimePolicy
from crag_runtime.ports import EvaluatorIdentity, Grading
from crag_runtime.recording.recorder import Recorded
from crag_runtime.result import AskRequest
from crag_runtime.routes import Limits
from crag_runtime.runtime import CragRuntime, Graphs
from crag_runtime.store import Retrieved
from crag_runtime.threads import Threads
from crag_runtime.wiring import build_runtime
from kb.clock import SystemClock
from kb.memories import open_memories
from kb.search import SearchRequest
from kb.settings import AskSettings, Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from kb.memories import Memories

TEXT = "The bridge carries forty tons. It was opened in 1932 and repainted last spring."
PASSAGES = 5
SAMPLE = Path(__file__).parents[1] / "sample"
QUESTIONS = (
    "How much does the Team plan cost a month in Q3 2026?",
    "How long is the audit log kept on the Business plan?",
    "What must one never do when the disk is full?",
    "团队版每月多少钱？",
    "Who is the chief executive of Halden Relay?",
)


class Instant:
    """Every part of the runtime at once, answering at once."""

    identity = EvaluatorIdentity(name="instant", model="none", version="1")
    name = "instant"

    def __init__(self) -> None:
        self.vectors = self.memories = self
        self.ledger = None
        self._evidence = {
            f"m{i}": Evidence(id=f"m{i}", origin=Origin.MEMORY, text=TEXT, root=f"r{i}", rev=1) for i in range(PASSAGES)
        }

    def of(self, questions: Sequence[str]) -> tuple[list[None], int]:
        return [None] * len(questions), 0

    def turns(self, *_: object, **__: object) -> list[object]:
        return []

    def retrieve(self, queries: Sequence[str], _lookup: object) -> Retrieved:
        found = tuple((id_, 0.9) for id_ in self._evidence)
        return Retrieved(passages=tuple(found for _ in queries), suppressed=(), embedded=0)

    def evidence(self, candidates: Mapping[str, float], *_: object, **__: object) -> dict[str, Evidence]:
        return {id_: self._evidence[id_] for id_ in candidates}

    def usable(self, candidates: Mapping[str, float], *_: object) -> dict[str, Evidence]:
        return self.evidence(candidates)

    def record(self, _learned: object) -> Recorded:
        return Recorded()

    async def plan(self, question: str, *_: object) -> tuple[Plan, Usage, str]:
        return Plan(question=question, sub_questions=(question,)), Usage(), ""

    async def grade(self, _asked: object, evidence: Sequence[Evidence]) -> Grading:
        grades = tuple(Grade(id=e.id, label=Label.RELEVANT, relevance=0.9) for e in evidence)
        return Grading(grades=grades, usage=Usage())

    async def generate(self, *_: object) -> Draft:
        quote = TEXT.split(". ", 1)[0] + "."
        return Draft(text=f"“{quote}” [1]", citations=(Citation(number=1, id="m0", quote=quote),), generator=self.name)


def instant_runtime(threads: Threads) -> CragRuntime:
    """Return a runtime in which only the graph does anything."""
    part: Any = Instant()
    policy = replace(RuntimePolicy(), k=PASSAGES)
    deps = Deps(
        policy=policy,
        store=part,
        recorder=part,
        threads=threads,
        clock=SystemClock(),
        planner=part,
        evaluator=part,
        rewriter=part,
        generator=part,
        quoting=part,
        cache=None,
        search=None,
        count_tokens=lambda text: len(text) // 4,
    )
    graph = build_graph(Limits(rewrites=1, searches=0, has_search=False))
    graphs = Graphs(answering=graph, gathering=graph)
    return CragRuntime(deps, graphs, checkpointer=None, durability="exit", is_lasting=False)


async def timed(work: Callable[[], Awaitable[object]], times: int) -> list[float]:
    """Return the wall milliseconds of each call, one after another."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        await work()
        taken.append((time.perf_counter() - began) * 1000)
    return taken


async def overhead(asks: int) -> dict[str, float]:
    """Measure the graph with instant parts."""
    threads = Threads()
    runtime = instant_runtime(threads)

    async def ask() -> object:
        return await runtime.ask(AskRequest(question="How many tons does the bridge carry?", tenant="bench"))

    await timed(ask, 20)
    taken = await timed(ask, asks)
    threads.close()
    return summary(taken)


def summary(taken: Sequence[float]) -> dict[str, float]:
    """Return median and 95th percentile in milliseconds."""
    ordered = sorted(taken)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    return {"p50_ms": round(statistics.median(ordered), 2), "p95_ms": round(p95, 2), "asks": len(ordered)}


@dataclass(frozen=True, slots=True)
class Plain:
    """Plain RAG: what most do. No gate, no grades, no check, no write-back."""

    memories: Memories

    def ask(self, question: str) -> str:
        result = self.memories.search(
            SearchRequest(question=question, tenant="default", k=PASSAGES, gate=None, explain=False)
        )
        return result.hits[0].memory.text if result.hits else ""


async def whole(rounds: int) -> dict[str, Any]:
    """Measure plain RAG and the runtime on one real store, alternately."""
    with tempfile.TemporaryDirectory(prefix="kb-bench-") as folder:
        settings = Settings(data_dir=Path(folder), ask=AskSettings(grade_cache="none"))
        with open_memories(settings, SystemClock()) as memories:
            ingest(memories, settings)
            plain = Plain(memories)
            async with build_runtime(settings, memories, is_warm=True) as runtime:
                taken: dict[str, list[float]] = {"plain": [], "ask": []}
                for n in range(rounds + 1):
                    question = f"{QUESTIONS[n % len(QUESTIONS)]}{' ' * (n // len(QUESTIONS))}"

                    async def by_plain(q: str = question) -> object:
                        return await runtime.deps.threads.call(plain.ask, q)

                    async def by_runtime(q: str = question) -> object:
                        return await runtime.ask(AskRequest(question=q, tenant="default"))

                    for name, work in (("plain", by_plain), ("ask", by_runtime)):
                        taken[name] += (await timed(work, 1)) if n else []
    shown = {name: summary(times) for name, times in taken.items()}
    ratio = statistics.median(a / p for a, p in zip(taken["ask"], taken["plain"], strict=True))
    return {**shown, "ratio_p50": round(ratio, 2)}


def ingest(memories: Memories, settings: Settings) -> None:
    """Fill the store with the sample."""
    from ingest.parse.worker import ParserWorker
    from ingest.pipeline import Sync
    from ingest.prior import Given
    from ingest.survey import SyncOptions
    from ingest.target import target_of
    from tests.stores import Silent

    options = SyncOptions(tenant="default", given=Given())
    target = target_of(SAMPLE, "sample", [])
    Sync(memories, target, options, settings, open_parser=ParserWorker, progress=Silent()).run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--asks", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path(".kb/bench/graph.json"))
    given = parser.parse_args()
    result = {"overhead": asyncio.run(overhead(given.asks)), "whole": asyncio.run(whole(given.rounds))}
    print(f"graph alone, instant parts, {PASSAGES} passages: {result['overhead']}")
    for name, value in result["whole"].items():
        print(f"whole ask, {name}: {value}")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
