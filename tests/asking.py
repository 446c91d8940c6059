"""A whole runtime for tests: a real store and graph, the other parts real, fake or scripted as a test says."""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.memory import InMemorySaver

from crag_runtime.deps import Deps
from crag_runtime.generators.extractive import ExtractiveGenerator
from crag_runtime.graph import build_graph
from crag_runtime.planning.planners import RulePlanner
from crag_runtime.planning.rewriters import RuleRewriter
from crag_runtime.policy import Budgets, RuntimePolicy
from crag_runtime.recording.recorder import Recorder
from crag_runtime.recording.spool import Spool
from crag_runtime.result import Answer, AskRequest
from crag_runtime.routes import limits_of
from crag_runtime.runtime import CragRuntime, Graphs
from crag_runtime.store import Store
from crag_runtime.threads import Threads
from kb.tokens import cl100k_count
from tests.fakes.evaluator import FakeEvaluator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from crag_runtime.evidence import Asked, Evidence
    from kb.memories import Memories


def by_words(relevances: Mapping[str, float], default: float = 0.05) -> Any:
    """Return a script for FakeEvaluator: the relevance of the first words that a passage's text contains."""

    def script(_asked: Asked, evidence: Evidence) -> float:
        return next((r for words, r in relevances.items() if words in evidence.text), default)

    return script


@asynccontextmanager
async def open_runtime(
    memories: Memories,
    data_dir: Path,
    *,
    budgets: Budgets | None = None,
    policy: RuntimePolicy | None = None,
    checkpointer: Any = None,
    durability: str = "exit",
    is_lasting: bool = False,
    **parts: Any,
) -> AsyncIterator[CragRuntime]:
    """Open a runtime over a store. `parts` replace those of Deps: evaluator, search, generator, planner, rewriter…"""
    threads = Threads()
    policy = replace(policy or RuntimePolicy(), **({} if budgets is None else {"budgets": budgets}))
    store = Store(memories)
    search = parts.get("search")
    quoting = ExtractiveGenerator(threads)
    given = {
        "policy": policy,
        "store": store,
        "recorder": Recorder(store, Spool(data_dir), search.name if search else ""),
        "threads": threads,
        "clock": memories.clock,
        "planner": RulePlanner(threads),
        "evaluator": FakeEvaluator(default=0.9),
        "rewriter": RuleRewriter(threads),
        "generator": quoting,
        "quoting": quoting,
        "cache": None,
        "search": None,
        "count_tokens": cl100k_count,
    }
    deps = Deps(**{**given, **parts})  # type: ignore[arg-type] # each checked by the tests that use it
    if checkpointer is None and deps.search is not None and deps.search.is_paid:
        checkpointer = InMemorySaver()
    graphs = _graphs(deps, checkpointer, waits=is_lasting)
    runtime = CragRuntime(deps, graphs, checkpointer=checkpointer, durability=durability, is_lasting=is_lasting)
    async with aclosing(threads), aclosing(runtime):
        yield runtime


def _graphs(deps: Deps, checkpointer: Any, *, waits: bool) -> Graphs:
    seconds = deps.policy.node_seconds
    limits = limits_of(deps.policy, has_search=deps.search is not None, waits=waits)
    return Graphs(
        answering=build_graph(limits, node_seconds=seconds, checkpointer=checkpointer),
        gathering=build_graph(replace(limits, writes=False, waits=False), node_seconds=seconds),
    )


async def ask(runtime: CragRuntime, question: str, **request: Any) -> Answer:
    """Ask in the default tenant; the question must not wait for a person."""
    answer = await runtime.ask(AskRequest(**{"question": question, "tenant": "default", **request}))
    assert isinstance(answer, Answer)
    return answer


def path_of(answer: Answer) -> list[str]:
    """Return the nodes of an answer's path."""
    return [str(step["node"]) for step in answer.path]
