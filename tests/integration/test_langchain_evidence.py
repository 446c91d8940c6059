"""What an agent with the middleware is shown: the turn's evidence, for this turn, and never as its own memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from crag_runtime.evidence import Finding
from crag_runtime.policy import RuntimePolicy
from tests.agents import BRIDGE, PAINT, QUESTION, agent_of, asked, blocks, echo, gathered, hosting, remember, text_in
from tests.asking import by_words
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.scripted_model import calling
from tests.fakes.search import FakeSearch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from crag_runtime.hosted import HostedRuntime
    from kb.memories import Memories

THREAD: Any = {"configurable": {"thread_id": "1"}}
WAYS = ["invoke", "ainvoke", "astream"]


def run(agent: Any, given: Any, way: str = "invoke", **kwargs: Any) -> dict[str, Any]:
    if way == "invoke":
        return agent.invoke(given, **kwargs)
    if way == "ainvoke":
        return asyncio.run(agent.ainvoke(given, **kwargs))
    return asyncio.run(streamed(agent, given, **kwargs))


async def streamed(agent: Any, given: Any, **kwargs: Any) -> dict[str, Any]:
    last: dict[str, Any] = {}
    async for state in agent.astream(given, stream_mode="values", **kwargs):
        last = {key: value for key, value in state.items() if not key.startswith("kb_")}
    return last


@pytest.fixture
def host(store: Memories, tmp_path: Path) -> Iterator[HostedRuntime]:
    remember(store, BRIDGE)
    with hosting(store, tmp_path / "data") as hosted:
        yield hosted


@pytest.mark.parametrize("way", WAYS)
def test_every_model_call_of_a_turn_sees_the_block_just_before_the_human_message(
    host: HostedRuntime, store: Memories, way: str
) -> None:
    agent, model = agent_of(host, calling("echo", words="x"), "Forty tons.")
    result = run(agent, asked(QUESTION), way)
    assert len(model.prompts) == 2
    for prompt in model.prompts:
        assert [m.type for m in prompt][:3] == ["system", "human", "human"]
        assert [BRIDGE in str(m.content) for m in prompt][:3] == [False, True, False]
        assert len(blocks(prompt)) == 1
        assert prompt[2].content == QUESTION
    assert list(result) == ["messages"]
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "ai"]


def test_stored_messages_are_the_same_as_without_the_middleware(host: HostedRuntime) -> None:
    agent, _ = agent_of(host, calling("echo", words="x"), "Forty tons.", checkpointer=InMemorySaver())
    agent.invoke(asked(QUESTION), THREAD)
    stored = agent.get_state(THREAD).values["messages"]
    assert [(m.type, m.content) for m in stored] == [
        ("human", QUESTION), ("ai", ""), ("tool", "x"), ("ai", "Forty tons."),
    ]  # fmt: skip


def test_the_block_of_an_earlier_turn_is_gone_on_the_next(store: Memories, tmp_path: Path) -> None:
    remember(store, BRIDGE)
    remember(store, PAINT)

    def graded(asked_: Any, evidence: Any) -> float:
        return 0.9 if ("tons" in asked_.question) == ("tons" in evidence.text) else 0.05

    with hosting(store, tmp_path / "data", evaluator=FakeEvaluator(graded)) as host:
        agent, model = agent_of(host, checkpointer=InMemorySaver())
        agent.invoke(asked(QUESTION), THREAD)
        agent.invoke(asked("What colour is the Anping bridge?"), THREAD)
    first, second = model.prompts
    assert BRIDGE in blocks(first)[0]
    assert [m.type for m in second] == ["system", "human", "ai", "human", "human"]
    assert len(blocks(second)) == 1
    assert PAINT in blocks(second)[0]
    assert BRIDGE not in text_in([second])


@pytest.mark.parametrize("way", WAYS)
def test_evidence_is_gathered_once_per_human_turn(host: HostedRuntime, store: Memories, way: str) -> None:
    steps = [calling("echo", words=str(n)) for n in range(3)]
    agent, model = agent_of(host, *steps, "Forty.", "Green.", checkpointer=InMemorySaver())
    run(agent, asked(QUESTION), way, config=THREAD)
    assert (len(model.prompts), len(gathered(store))) == (4, 1)
    run(agent, asked("And its colour?"), way, config=THREAD)
    assert len(gathered(store)) == 2


def test_a_tool_result_that_comes_from_outside_is_no_new_turn(host: HostedRuntime, store: Memories) -> None:
    agent, model = agent_of(host, "Wait.", "Forty tons.", checkpointer=InMemorySaver())
    agent.invoke(asked(QUESTION), THREAD)
    late = [calling("elsewhere", words="x"), ToolMessage("a late result", tool_call_id="call-elsewhere")]
    agent.invoke({"messages": late}, THREAD)
    assert len(gathered(store)) == 1
    assert [BRIDGE in text for text in blocks(model.prompts[1])] == [True]
    assert model.prompts[1][-1].type == "tool"


def test_without_a_checkpointer_the_question_is_the_human_one_when_a_tool_spoke_last(
    host: HostedRuntime, store: Memories
) -> None:
    agent, model = agent_of(host, "Forty tons.")
    history = [
        HumanMessage(QUESTION),
        calling("echo", words="x"),
        ToolMessage("words of a tool", tool_call_id="call-echo"),
    ]
    agent.invoke({"messages": history})
    assert gathered(store) == [QUESTION]
    assert [BRIDGE in text for text in blocks(model.prompts[0])] == [True]


def test_a_human_message_that_was_edited_is_gathered_for_again(host: HostedRuntime, store: Memories) -> None:
    agent, _ = agent_of(host, checkpointer=InMemorySaver())
    agent.invoke({"messages": [HumanMessage(QUESTION, id="m")]}, THREAD)
    agent.invoke({"messages": [HumanMessage("What colour is it?", id="m")]}, THREAD)
    assert len(gathered(store)) == 2


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_resuming_after_an_interrupt_does_not_gather_again(store: Memories, tmp_path: Path, way: str) -> None:
    @tool
    def confirm(words: str) -> str:
        """Ask a person."""
        return str(interrupt(words))

    remember(store, BRIDGE)
    saver = InMemorySaver()
    with hosting(store, tmp_path / "data") as host:
        agent, _ = agent_of(host, calling("confirm", words="?"), tools=[confirm], checkpointer=saver)
        run(agent, asked(QUESTION), way, config=THREAD)
    with hosting(store, tmp_path / "data") as host:  # another process would have another host
        agent, model = agent_of(host, "Forty tons.", tools=[confirm], checkpointer=saver)
        result = run(agent, Command(resume="yes"), way, config=THREAD)
    assert result["messages"][-1].content == "Forty tons."
    assert len(gathered(store)) == 1
    assert [BRIDGE in text for text in blocks(model.prompts[0])] == [True]


def test_the_words_of_a_message_made_of_blocks_are_the_question(host: HostedRuntime, store: Memories) -> None:
    agent, model = agent_of(host)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    agent.invoke(asked([{"type": "text", "text": "How many tons"}, image, {"type": "text", "text": "does it carry?"}]))
    assert len(blocks(model.prompts[0])) == 1
    assert len(gathered(store)) == 1


@pytest.mark.parametrize("content", ["", " \n ", [{"type": "image_url", "image_url": {"url": "data:,"}}], []])
def test_a_message_without_words_gathers_nothing_and_drops_the_last_block(
    host: HostedRuntime, store: Memories, content: Any
) -> None:
    agent, model = agent_of(host, calling("echo", words="x"), checkpointer=InMemorySaver())
    agent.invoke(asked(QUESTION), THREAD)
    agent.invoke(asked(content), THREAD)
    assert len(gathered(store)) == 1
    assert blocks(model.prompts[-1]) == []


def test_a_conversation_without_a_human_is_left_alone(host: HostedRuntime, store: Memories) -> None:
    agent, model = agent_of(host)
    agent.invoke({"messages": [AIMessage("Hello.")]})
    assert (blocks(model.prompts[0]), len(gathered(store))) == ([], 0)


def test_a_follow_up_in_a_thread_is_understood_by_the_question_before_it(host: HostedRuntime, store: Memories) -> None:
    agent, model = agent_of(host, checkpointer=InMemorySaver())
    agent.invoke(asked(QUESTION), THREAD)
    store.clock.advance(60_000)  # type: ignore[attr-defined] # a fake one
    agent.invoke(asked("And when is it painted?"), THREAD)
    assert "understood as" not in blocks(model.prompts[0])[0]
    assert "Anping" in blocks(model.prompts[1])[0].split("understood as", 1)[1].splitlines()[0]


def test_a_very_long_message_is_asked_by_its_beginning(host: HostedRuntime) -> None:
    agent, model = agent_of(host)
    agent.invoke(asked(QUESTION + " pad" * 5_000))
    assert len(blocks(model.prompts[0])) == 1


def test_evidence_without_much_relevance_is_shown_as_weak(store: Memories, tmp_path: Path) -> None:
    remember(store, BRIDGE)
    with hosting(store, tmp_path / "data", evaluator=FakeEvaluator(default=0.5)) as host:
        agent, model = agent_of(host)
        agent.invoke(asked(QUESTION))
    assert "may not answer" in blocks(model.prompts[0])[0]


def test_a_passage_used_for_two_parts_of_a_question_is_shown_once(store: Memories, tmp_path: Path) -> None:
    id_ = remember(store, f"{BRIDGE} {PAINT}")
    with hosting(store, tmp_path / "data") as host:
        agent, model = agent_of(host)
        agent.invoke(asked("How many tons does the Anping bridge carry, and when is the Anping bridge painted?"))
    (block,) = blocks(model.prompts[0])
    assert block.count(f'id="{id_}"') == 1


def test_nothing_of_a_rejected_passage_is_in_any_prompt(store: Memories, tmp_path: Path) -> None:
    remember(store, BRIDGE, title="Loads of bridges")
    with hosting(store, tmp_path / "data", evaluator=FakeEvaluator(by_words({}))) as host:
        agent, model = agent_of(host, calling("echo", words="x"), tools=[echo])
        agent.invoke(asked("Who founded the harbour?"))
    shown = text_in(model.prompts)
    assert "no trusted evidence" in shown
    assert "forty" not in shown
    assert "Loads" not in shown


def test_of_what_the_gate_stopped_only_the_number_is_shown(store: Memories, tmp_path: Path) -> None:
    id_ = remember(store, BRIDGE, title="Loads of bridges", confidence=0.7)
    with hosting(store, tmp_path / "data") as host:
        agent, model = agent_of(host)
        agent.invoke(asked(QUESTION))
    shown = text_in(model.prompts)
    assert "1 passage matches but is not trusted enough" in shown
    assert all(words not in shown for words in ("forty", "Loads", id_))


def test_what_is_internal_and_what_is_from_the_web_is_labelled(store: Memories, tmp_path: Path) -> None:
    remember(store, PAINT)
    page = Finding(url="https://bridges.example/anping", title="Anping", text=BRIDGE)
    search = FakeSearch([page], is_paid=False)

    def graded(asked_: Any, evidence: Any) -> float:
        return 0.9 if ("tons" in asked_.question) == ("tons" in evidence.text) else 0.05

    with hosting(
        store, tmp_path / "data", evaluator=FakeEvaluator(graded), search=search, policy=RuntimePolicy(approve="always")
    ) as host:
        agent, model = agent_of(host)
        agent.invoke(asked("How many tons does the Anping bridge carry, and when is the Anping bridge painted?"))
    (block,) = blocks(model.prompts[0])
    assert 'origin="web" source="https://bridges.example/anping"' in block
    assert 'origin="memory"' in block
    assert search.calls == 1
