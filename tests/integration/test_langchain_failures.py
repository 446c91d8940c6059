"""When something fails, an agent goes on and is told so; when a guard refuses, the run ends."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from crag_runtime.context_block import block_of
from crag_runtime.hosted import HostedRuntime
from crag_runtime.result import AskRequest
from kb.errors import (
    ConfigError,
    EmbedderChanged,
    EvaluatorUnavailable,
    IndexUnavailable,
    InputError,
    LedgerUnavailable,
)
from kb.model import Scope
from kb.settings import Settings
from tests.agents import BRIDGE, QUESTION, agent_of, asked, blocks, gathered, hosting, remember, text_in
from tests.asking import open_runtime
from tests.fakes.embedder import HashingEmbedder
from tests.fakes.evaluator import FakeEvaluator
from tests.stores import InProcessServer, open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from crag_runtime.runtime import CragRuntime
    from kb.memories import Memories

THREAD: Any = {"configurable": {"thread_id": "1"}}


def invoked(agent: Any, way: str) -> Any:
    return agent.invoke(asked(QUESTION)) if way == "invoke" else asyncio.run(agent.ainvoke(asked(QUESTION)))


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize("part", ["index", "embedder", "evaluator"])
def test_an_outage_is_said_and_nothing_is_guessed(tmp_path: Path, part: str, way: str) -> None:
    server, embedder, evaluator = InProcessServer(), HashingEmbedder(), FakeEvaluator(default=0.9)
    with open_store(tmp_path / "data", server=server, embedder=embedder) as store:
        remember(store, BRIDGE)
        server.is_away = part == "index"
        embedder.unavailable = part == "embedder"
        evaluator.error = EvaluatorUnavailable("away") if part == "evaluator" else None
        with hosting(store, tmp_path / "data", evaluator=evaluator) as host:
            agent, model = agent_of(host, "I could not look it up.")
            result = invoked(agent, way)
            server.is_away = False
    assert result["messages"][-1].content == "I could not look it up."
    assert "unavailable at the moment" in blocks(model.prompts[0])[0]
    assert "forty" not in text_in(model.prompts)


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_runtime_that_cannot_be_opened_is_tried_again(store: Memories, tmp_path: Path, way: str) -> None:
    remember(store, BRIDGE)
    errors: list[Exception] = [LedgerUnavailable("the disk is full")]

    @asynccontextmanager
    async def opened() -> AsyncIterator[CragRuntime]:
        if errors:
            raise errors.pop()
        async with open_runtime(store, tmp_path / "data") as runtime:
            yield runtime

    with HostedRuntime(Settings(data_dir=tmp_path / "data"), open_runtime=opened) as host:
        agent, model = agent_of(host)
        invoked(agent, way)
        invoked(agent, way)
    assert "unavailable at the moment" in blocks(model.prompts[0])[0]
    assert BRIDGE in blocks(model.prompts[1])[0]


def test_a_turn_that_met_an_outage_is_gathered_for_by_the_next_run(tmp_path: Path) -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    server = InProcessServer()
    with open_store(tmp_path / "data", server=server) as store:
        remember(store, BRIDGE)
        with hosting(store, tmp_path / "data") as host:
            agent, model = agent_of(host, checkpointer=InMemorySaver())
            server.is_away = True
            agent.invoke(asked(QUESTION), THREAD)
            server.is_away = False
            agent.invoke({"messages": []}, THREAD)
    assert "unavailable at the moment" in blocks(model.prompts[0])[0]
    assert BRIDGE in blocks(model.prompts[1])[0]


def test_an_agent_survives_an_unforeseen_error_of_one_run(store: Memories, tmp_path: Path) -> None:
    remember(store, BRIDGE)
    evaluator = FakeEvaluator(default=0.9)
    with hosting(store, tmp_path / "data", evaluator=evaluator) as host:
        agent, model = agent_of(host)
        evaluator.error = ZeroDivisionError("a defect")
        with pytest.raises(ZeroDivisionError):
            agent.invoke(asked(QUESTION))
        evaluator.error = None
        agent.invoke(asked(QUESTION))
    assert [BRIDGE in text for text in blocks(model.prompts[0])] == [True]


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_an_index_of_another_embedder_ends_the_run(tmp_path: Path, way: str) -> None:
    server = InProcessServer()
    with open_store(tmp_path / "data", server=server) as store:
        remember(store, BRIDGE)
    other = HashingEmbedder(model="other")
    with open_store(tmp_path / "data", server=server, embedder=other) as store, hosting(store, tmp_path) as host:
        agent, model = agent_of(host)
        with pytest.raises(EmbedderChanged):
            invoked(agent, way)
    assert model.prompts == []


def test_a_run_without_a_tenant_ends(store: Memories, tmp_path: Path) -> None:
    with hosting(store, tmp_path / "data") as host:
        agent, _ = agent_of(host, scope_of=lambda _runtime: ("", Scope()))
        with pytest.raises(InputError, match="tenant is empty"):
            agent.invoke(asked(QUESTION))


def test_a_missing_setting_ends_the_run(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", search={"provider": "tavily"})  # type: ignore[arg-type]
    with open_store(tmp_path / "data") as store, HostedRuntime(settings, store) as host:
        agent, _ = agent_of(host)
        with pytest.raises(ConfigError):
            agent.invoke(asked(QUESTION))


def test_a_closed_host_ends_the_run(store: Memories, tmp_path: Path) -> None:
    with hosting(store, tmp_path / "data") as host:
        agent, _ = agent_of(host)
    with pytest.raises(InputError, match="closed"):
        agent.invoke(asked(QUESTION))
    assert gathered(store) == []


def test_a_write_back_that_fails_takes_no_evidence_away(store: Memories, tmp_path: Path) -> None:
    from crag_runtime.recording.recorder import Recorder
    from crag_runtime.recording.spool import Spool
    from crag_runtime.store import Store

    remember(store, BRIDGE)

    class Broken(Recorder):
        def record(self, learned: Any) -> Any:
            raise IndexUnavailable(learned.question)

    with hosting(store, tmp_path / "data", recorder=Broken(Store(store), Spool(tmp_path), "")) as host:
        agent, model = agent_of(host)
        agent.invoke(asked(QUESTION))
    assert BRIDGE in blocks(model.prompts[0])[0]


def test_a_block_never_takes_an_outage_for_nothing_found(tmp_path: Path) -> None:
    server = InProcessServer()

    async def gather(runtime: CragRuntime) -> str:
        return block_of(await runtime.gather(AskRequest(question=QUESTION, tenant="default")))

    with open_store(tmp_path / "data", server=server) as store, hosting(store, tmp_path) as host:
        remember(store, BRIDGE)
        server.is_away = True
        block = host.run(gather)
    assert "unavailable at the moment" in block
    assert "no trusted evidence" not in block
