"""The runtime's own thread: any caller, any loop, many at once; opened once, closed whole."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.checkpoint.memory import InMemorySaver

from crag_runtime.hosted import HostedRuntime
from crag_runtime.result import AskRequest
from kb.errors import InputError
from kb.settings import Settings
from tests.agents import BRIDGE, QUESTION, agent_of, asked, blocks, hosting, remember
from tests.asking import open_runtime
from tests.fakes.evaluator import FakeEvaluator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from crag_runtime.runtime import CragRuntime
    from kb.memories import Memories

LONG = 60.0  # seconds after which a test has hung


class HeldEvaluator(FakeEvaluator):
    """Grades once another thread lets it."""

    def __init__(self) -> None:
        super().__init__(default=0.9)
        self.is_asked, self.may_go, self.is_broken_off = threading.Event(), threading.Event(), threading.Event()

    async def grade(self, asked: Any, evidence: Any) -> Any:
        self.is_asked.set()
        try:
            await asyncio.to_thread(self.may_go.wait, LONG)
        except asyncio.CancelledError:
            self.is_broken_off.set()
            self.may_go.set()
            raise
        return await super().grade(asked, evidence)


class Lifetimes:
    """Opens runtimes and remembers what was opened and closed, in which task and thread."""

    def __init__(self, memories: Memories, data_dir: Path, **parts: Any) -> None:
        self.memories, self.data_dir, self.parts = memories, data_dir, parts
        self.opened: list[Any] = []
        self.closed: list[Any] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[CragRuntime]:
        async with open_runtime(self.memories, self.data_dir, **self.parts) as runtime:
            self.opened.append((asyncio.current_task(), threading.current_thread().name))
            yield runtime
            self.closed.append((asyncio.current_task(), threading.current_thread().name))

    def host(self) -> HostedRuntime:
        return HostedRuntime(Settings(data_dir=self.data_dir), open_runtime=self.open)


def own_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith(("kb-hosted", "kb-runtime"))]


async def gather(runtime: CragRuntime) -> Any:
    return await runtime.gather(AskRequest(question=QUESTION, tenant="default"))


def test_opened_at_first_use_once_and_closed_where_it_was_opened(store: Memories, tmp_path: Path) -> None:
    lifetimes = Lifetimes(store, tmp_path)
    with lifetimes.host() as host:
        assert lifetimes.opened == []
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(host.run, [gather] * 8))
        assert len(lifetimes.opened) == 1
        assert lifetimes.closed == []
    assert lifetimes.closed == lifetimes.opened
    host.close()  # again
    assert own_threads() == []


def test_a_host_that_was_never_used_starts_no_thread(store: Memories, tmp_path: Path) -> None:
    with Lifetimes(store, tmp_path).host():
        assert own_threads() == []


def test_an_agent_is_used_from_several_threads_at_once(store: Memories, tmp_path: Path) -> None:
    for tenant in ("one", "two"):
        remember(store, f"The Anping bridge of tenant {tenant} carries forty tons.", tenant=tenant)
    with hosting(store, tmp_path) as host, ThreadPoolExecutor(8) as pool:
        agents = {tenant: agent_of(host, tenant=tenant) for tenant in ("one", "two")}
        list(pool.map(lambda n: agents[("one", "two")[n % 2]][0].invoke(asked(QUESTION)), range(16)))
    for tenant, (_, model) in agents.items():
        assert len(model.prompts) == 8
        assert {text.count(f"of tenant {tenant}") for p in model.prompts for text in blocks(p)} == {1}
        assert {text.count("of tenant") for p in model.prompts for text in blocks(p)} == {1}


def test_invoke_works_inside_a_running_event_loop(store: Memories, tmp_path: Path) -> None:
    remember(store, BRIDGE)
    with hosting(store, tmp_path) as host:
        agent, model = agent_of(host)

        async def notebook() -> None:
            agent.invoke(asked(QUESTION))
            await agent.ainvoke(asked(QUESTION))

        asyncio.run(notebook())
    assert [BRIDGE in text for p in model.prompts for text in blocks(p)] == [True, True]


def test_an_agent_is_used_from_one_loop_after_another(store: Memories, tmp_path: Path) -> None:
    remember(store, BRIDGE)
    with hosting(store, tmp_path) as host:
        agent, model = agent_of(host)
        for _ in range(2):
            asyncio.run(agent.ainvoke(asked(QUESTION)))
    assert [BRIDGE in text for p in model.prompts for text in blocks(p)] == [True, True]


def test_the_event_loop_goes_on_while_evidence_is_gathered(store: Memories, tmp_path: Path) -> None:
    remember(store, BRIDGE)
    evaluator = HeldEvaluator()
    with hosting(store, tmp_path, evaluator=evaluator) as host:
        agent, model = agent_of(host)

        async def both() -> None:
            run = asyncio.create_task(agent.ainvoke(asked(QUESTION)))
            assert await asyncio.to_thread(evaluator.is_asked.wait, LONG)  # the loop serves this meanwhile
            assert not run.done()
            evaluator.may_go.set()
            await asyncio.wait_for(run, LONG)

        asyncio.run(both())
    assert len(model.prompts) == 1


def test_a_run_that_is_cancelled_ends_the_gathering(store: Memories, tmp_path: Path) -> None:
    remember(store, BRIDGE)
    evaluator = HeldEvaluator()
    with hosting(store, tmp_path, evaluator=evaluator) as host:
        agent, _ = agent_of(host)

        async def broken_off() -> None:
            run = asyncio.create_task(agent.ainvoke(asked(QUESTION)))
            assert await asyncio.to_thread(evaluator.is_asked.wait, LONG)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            assert await asyncio.to_thread(evaluator.is_broken_off.wait, LONG)

        asyncio.run(broken_off())
    assert own_threads() == []


def test_closing_lets_a_running_call_finish_and_starts_no_other(store: Memories, tmp_path: Path) -> None:
    remember(store, BRIDGE)
    evaluator = HeldEvaluator()
    lifetimes = Lifetimes(store, tmp_path, evaluator=evaluator)
    host = lifetimes.host()
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(host.run, gather)
        assert evaluator.is_asked.wait(LONG)
        closing = pool.submit(host.close)
        assert refused(host)
        assert lifetimes.closed == []
        evaluator.may_go.set()
        assert running.result(LONG).excerpts
        closing.result(LONG)
    assert len(lifetimes.closed) == 1
    assert own_threads() == []


def refused(host: HostedRuntime) -> bool:
    """Call until the host refuses: closing has begun then."""
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        try:
            host.run(nothing)
        except InputError:
            return True
    return False


async def nothing(_runtime: CragRuntime) -> None:
    """Do nothing."""


def test_work_runs_outside_of_the_callers_own_graph(store: Memories, tmp_path: Path) -> None:
    async def configured(_runtime: CragRuntime) -> Any:
        return var_child_runnable_config.get()

    with hosting(store, tmp_path) as host:
        within = RunnableLambda(lambda _: (var_child_runnable_config.get() is not None, host.run(configured)))
        assert within.invoke("x") == (True, None)


def test_closing_works_on_an_event_loop_too(store: Memories, tmp_path: Path) -> None:
    remember(store, BRIDGE)

    async def story() -> Any:
        async with Lifetimes(store, tmp_path).host() as host:
            return await host.arun(gather)

    assert asyncio.run(story()).excerpts
    assert own_threads() == []


def test_an_error_in_closing_reaches_who_closes_and_the_thread_ends(store: Memories, tmp_path: Path) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[CragRuntime]:
        async with open_runtime(store, tmp_path) as runtime:
            yield runtime
        raise InputError("closing failed")

    host = HostedRuntime(Settings(data_dir=tmp_path), open_runtime=opened)
    host.run(gather)
    with pytest.raises(InputError, match="closing failed"):
        host.close()
    assert own_threads() == []


def test_waiting_for_the_host_on_its_own_loop_is_refused_not_a_deadlock(store: Memories, tmp_path: Path) -> None:
    with hosting(store, tmp_path) as host:

        async def nested(_runtime: CragRuntime) -> None:
            host.run(gather)

        with pytest.raises(RuntimeError, match="own loop"):
            host.run(nested)


class Watcher(BaseCallbackHandler):
    """Hears what runs as a part of the agent."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def on_chain_start(self, *_given: Any, **kwargs: Any) -> None:
        self.names.add(str(kwargs.get("name")))


@pytest.mark.parametrize("is_async", [False, True])
def test_the_runtime_is_no_part_of_the_agents_own_graph(store: Memories, tmp_path: Path, is_async: bool) -> None:  # noqa: FBT001
    """Neither its steps nor its state reach the agent's streams, callbacks or checkpoints."""
    remember(store, BRIDGE)
    saver = InMemorySaver()
    watcher = Watcher()
    config: Any = {"configurable": {"thread_id": "1"}, "callbacks": [watcher]}
    with hosting(store, tmp_path) as host:
        agent, _ = agent_of(host, checkpointer=saver)
        kwargs: Any = {"stream_mode": ["updates", "messages", "tasks"], "subgraphs": True}

        async def collected() -> list[Any]:
            return [part async for part in agent.astream(asked(QUESTION), config, **kwargs)]

        parts = asyncio.run(collected()) if is_async else list(agent.stream(asked(QUESTION), config, **kwargs))
    assert {namespace for namespace, _, _ in parts} == {()}
    assert "model" in watcher.names
    assert watcher.names & {"crag", "retrieve", "judge"} == set()
    assert {name for _, mode, data in parts if mode == "updates" for name in data} == {
        "CRAGMiddleware.before_agent",
        "model",
    }
    assert {c.config["configurable"]["checkpoint_ns"] for c in saver.list(config)} == {""}


FORGETFUL = """
import sys
from pathlib import Path
from crag_runtime.hosted import HostedRuntime
from crag_runtime.retriever import KbRetriever
from kb.settings import Settings

host = HostedRuntime(Settings(data_dir=Path(sys.argv[1]), index_idle_seconds=1))
print(len(KbRetriever(host=host).invoke("Is anybody there?")))
"""


def test_a_script_that_forgets_to_close_ends_by_itself(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORGETFUL, str(tmp_path)], capture_output=True, text=True, timeout=LONG * 2, check=False
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    assert "Traceback" not in done.stderr
