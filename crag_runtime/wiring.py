"""Wires the runtime by hand, once: settings in, a runtime out, everything closed at the end."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crag_runtime.deps import Deps
from crag_runtime.policy import applied, policy_of
from crag_runtime.remedies import Remedy
from crag_runtime.routes import limits_of
from crag_runtime.spending import BudgetedChat, Spending
from crag_runtime.threads import Threads
from kb.tokens import cl100k_count

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crag_runtime.runtime import CragRuntime
    from kb.chat import Chat
    from kb.memories import Memories
    from kb.ports import Clock
    from kb.settings import Settings


@asynccontextmanager
async def build_runtime(
    settings: Settings,
    memories: Memories | None = None,
    *,
    clock: Clock | None = None,
    threads: int = 4,
    is_warm: bool = False,
) -> AsyncIterator[CragRuntime]:
    """Open a runtime as the settings say, and close it after.

    Args:
        settings: `load_settings()` reads them from flags, environment and kb.toml.
        memories: an open store to use; None opens the configured one.
        clock: the time; None for the system's.
        threads: threads that serve the synchronous core.
        is_warm: load the models now: seconds that would else hold up the first question, and all beside it.

    Raises:
        ConfigError: a setting is missing for what was chosen.
    """
    from kb.clock import SystemClock  # noqa: PLC0415 - only the default needs it
    from kb.memories import open_memories  # noqa: PLC0415

    async with AsyncExitStack() as stack:
        store = memories or stack.enter_context(open_memories(settings, clock or SystemClock()))
        pool = Threads(threads)
        stack.push_async_callback(pool.aclose)  # what still runs there needs the store
        yield await _wired(settings, store, pool, stack, is_warm=is_warm)


async def _wired(
    settings: Settings, memories: Memories, pool: Threads, stack: AsyncExitStack, *, is_warm: bool
) -> CragRuntime:
    from crag_runtime.checkpoints import open_checkpointer  # noqa: PLC0415 - a graph library of 2 s
    from crag_runtime.graph import build_graph  # noqa: PLC0415
    from crag_runtime.runtime import CragRuntime as Runtime  # noqa: PLC0415
    from crag_runtime.runtime import Graphs  # noqa: PLC0415

    settings = applied(settings)
    if is_warm:  # seconds in which a server's loop must answer others
        deps = await pool.call(_deps, settings, memories, pool, stack, is_warm=True)
    else:
        deps = _deps(settings, memories, pool, stack, is_warm=False)
    policy = deps.policy
    is_lasting = settings.ask.checkpointer != "none"
    limits = limits_of(policy, has_search=deps.search is not None, waits=is_lasting)
    needs_one = deps.search is not None and deps.search.is_paid
    checkpointer = await stack.enter_async_context(open_checkpointer(settings, needs_one=needs_one))
    runtime = Runtime(
        deps,
        Graphs(
            answering=build_graph(limits, node_seconds=policy.node_seconds, checkpointer=checkpointer),
            gathering=build_graph(replace(limits, writes=False, waits=False), node_seconds=policy.node_seconds),
        ),
        checkpointer=checkpointer,
        durability=settings.ask.durability,
        is_lasting=is_lasting,
    )
    stack.push_async_callback(runtime.aclose)
    return runtime


def _deps(settings: Settings, memories: Memories, pool: Threads, stack: AsyncExitStack, *, is_warm: bool) -> Deps:
    from crag_runtime.recording.recorder import Recorder  # noqa: PLC0415 - import what is used
    from crag_runtime.recording.spool import Spool  # noqa: PLC0415
    from crag_runtime.searchers import open_search  # noqa: PLC0415
    from crag_runtime.store import Store  # noqa: PLC0415
    from kb.chat import open_chat  # noqa: PLC0415

    policy = policy_of(settings)
    spending = Spending(policy.budgets.llm_calls, policy.budgets.tokens)
    opened = open_chat(settings)
    chat = None if opened is None else BudgetedChat(opened, spending)
    if chat is not None:
        stack.push_async_callback(chat.aclose)
    search = open_search(settings, pool) if Remedy.WEB in policy.remedies else None
    store = Store(memories)
    if is_warm:
        store.vectors.of(["warm"])
    return Deps(
        policy=policy,
        store=store,
        recorder=Recorder(store, Spool(settings.data_dir), search.name if search else ""),
        threads=pool,
        clock=memories.clock,
        search=search,
        count_tokens=cl100k_count,
        spending=spending,
        notices=(memories.embedder_notice,) if memories.embedder_notice else (),
        **_writers(chat, pool),
        **_graders(settings, memories, chat, pool, stack, is_warm=is_warm),
    )


def _writers(chat: Chat | None, pool: Threads) -> dict[str, Any]:
    """Return who plans, rewrites and answers: the chat model, or rules and quotation."""
    from crag_runtime.generators.extractive import ExtractiveGenerator  # noqa: PLC0415 - import what is used
    from crag_runtime.generators.llm import LlmGenerator  # noqa: PLC0415
    from crag_runtime.planning.planners import LlmPlanner, RulePlanner  # noqa: PLC0415
    from crag_runtime.planning.rewriters import LlmRewriter, RuleRewriter  # noqa: PLC0415

    quoting = ExtractiveGenerator(pool)
    return {
        "planner": LlmPlanner(chat, pool) if chat else RulePlanner(pool),
        "rewriter": LlmRewriter(chat, pool) if chat else RuleRewriter(pool),
        "generator": LlmGenerator(chat, pool) if chat else quoting,
        "quoting": quoting,
    }


def _graders(
    settings: Settings,
    memories: Memories,
    chat: Chat | None,
    pool: Threads,
    stack: AsyncExitStack,
    *,
    is_warm: bool,
) -> dict[str, Any]:
    """Return who grades, and where grades are remembered."""
    from crag_runtime.caches import open_cache  # noqa: PLC0415 - import what is used
    from crag_runtime.evaluators import open_evaluator  # noqa: PLC0415

    cache = open_cache(settings, memories.clock)
    if cache is not None:
        stack.callback(cache.close)
    evaluator = open_evaluator(
        settings,
        chat=chat,
        cache=cache,
        threads=pool,
        clock=memories.clock,
        vector_space=memories.embedder.identity.model,
        is_warm=is_warm,
    )
    return {"cache": cache, "evaluator": evaluator}
