"""An agent's word, over HTTP and MCP: it carries nothing over the gate, and nothing that is vouched for under it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crag_runtime.recording.feedback import give_feedback
from kb.keys import Holder, KeyScope
from kb.model import MemoryId, Standing
from kb.trust import DAY_MS, effective
from tests.agents import remember
from tests.chatting import vouched
from tests.integration.test_feedback import asked
from tests.integration.test_mcp import called, client_of, on_server, refused
from tests.rolling import roll_back

if TYPE_CHECKING:
    from pathlib import Path

    from crag_runtime.result import Answer
    from kb.memories import Memories

BRIDGE = "The Anping bridge carries 40 tons on a dry day."
WORDINGS = [f"How many tons does the Anping bridge carry{tail}?" for tail in ("", " today", " at all")]
WRITER = (KeyScope.QUERY, KeyScope.WRITE)
AGENTS = ("scout", "scribe")


def confidence(store: Memories, id_: str) -> float:
    memory = store.get(MemoryId(id_), "default")
    return effective(memory.trust, store.clock.now(), store.policies[memory.source_class].half_life)


def said_over_http(store: Memories, tmp_path: Path, answers: list[Answer], *, good: bool) -> None:
    """Let several agents, each under many names, say of many answers what they like."""

    async def story(served) -> None:
        for name in AGENTS:
            client = served.client(served.key(*WRITER, name=name, holder=Holder.AGENT))
            for answer in answers:
                path = f"/v1/answers/{answer.answer_id}/feedback"
                assert (await client.post(path, json={"good": good, "by": "somebody else"})).status_code == 403
                assert (await client.post(path, json={"good": good})).status_code == 200

    on_server(store, tmp_path, story)


def said_over_mcp(store: Memories, tmp_path: Path, answers: list[Answer], *, good: bool) -> None:
    async def story(served) -> None:
        for name in AGENTS:
            async with client_of(served, served.key(*WRITER, name=name)) as client:
                for answer in answers:
                    await called(client, "kb_feedback", answer_id=answer.answer_id, good=good)

    on_server(store, tmp_path, story)


@pytest.mark.parametrize("say", [said_over_http, said_over_mcp])
def test_agents_put_nothing_that_is_verified_under_the_gate(store: Memories, tmp_path: Path, say) -> None:
    id_ = vouched(store, remember(store, BRIDGE)).id
    answers = asked(store, tmp_path, *WORDINGS)
    before = store.get(id_, "default")
    say(store, tmp_path, answers, good=False)
    assert store.get(id_, "default") == before
    assert give_feedback(store, answers[0].answer_id, "default", is_good=False, by="ada").events


@pytest.mark.parametrize("say", [said_over_http, said_over_mcp])
def test_agents_bring_back_nothing_that_has_faded(store: Memories, tmp_path: Path, say) -> None:
    id_ = remember(store, BRIDGE)
    answers = asked(store, tmp_path, *WORDINGS)
    store.clock.instant += 7 * DAY_MS
    before = confidence(store, id_)
    assert before < store.gate
    say(store, tmp_path, answers, good=True)
    assert confidence(store, id_) == before


def test_all_agents_are_one_witness_however_many_questions_and_names_they_have(store, tmp_path) -> None:
    id_ = remember(store, BRIDGE, confidence=0.95)
    answers = asked(store, tmp_path, *WORDINGS)
    said_over_http(store, tmp_path, answers, good=False)
    said_over_mcp(store, tmp_path, answers, good=False)
    assert confidence(store, id_) == pytest.approx(4 * 0.95 / 4.5)
    with store.ledger.read() as tx:
        (event,) = tx.evidence.of_memory(MemoryId(id_))
    assert AGENTS[0] in event.reason, "a person can see who it was"
    said_over_mcp(store, tmp_path, answers, good=True)
    assert confidence(store, id_) == pytest.approx((4 * 0.95 + 0.5) / 5), "their other word counts once as well"


def test_an_agent_is_told_what_its_word_does_not_move(store: Memories, tmp_path: Path) -> None:
    id_ = vouched(store, remember(store, BRIDGE)).id
    (answer,) = asked(store, tmp_path, WORDINGS[0])

    async def story(served) -> None:
        async with client_of(served, served.key(*WRITER)) as client:
            given = await called(client, "kb_feedback", answer_id=answer.answer_id, good=False)
            assert (given["events"], given["unmoved"]) == ([], [id_])

    on_server(store, tmp_path, story)


def test_an_agent_takes_nothing_verified_out_by_saying_what_it_came_from(store: Memories, tmp_path: Path) -> None:
    async def story(served) -> None:
        async with client_of(served, served.key(*WRITER)) as client:
            noted = await called(client, "kb_remember", text=BRIDGE)
            bad = await called(client, "kb_remember", text="The keeper of the bridge is a heron.")
            vouched(store, noted["id"])
            roll_back(store, memories=(bad["id"],))
            again = await called(client, "kb_remember", text=BRIDGE, derived_from=[bad["id"]])
            assert (again["id"], again["standing"], again["verified"]) == (noted["id"], "active", True)
            trace = (await called(client, "kb_trace", id=noted["id"]))["trace"]
            assert [step["id"] for step in trace["up"] if step["type"] == "memory"] == [bad["id"]]
            other = await called(client, "kb_remember", text="So it seems.", derived_from=[bad["id"]])
            assert "rolled back" in other["standing_reason"]

    on_server(store, tmp_path, story)


def test_an_argument_that_a_tool_does_not_have_is_refused(store: Memories, tmp_path: Path) -> None:
    async def story(served) -> None:
        async with client_of(served, served.key(*WRITER)) as client:
            said = await refused(client, "kb_remember", text=BRIDGE, derivedFrom=["m"], tenant="theirs")
            assert "derivedFrom" in said
            assert all(t.input_schema["additionalProperties"] is False for t in (await client.list_tools()).tools)
        assert store.page("default", standings=(Standing.QUARANTINED,)) == []

    on_server(store, tmp_path, story)


def test_no_agent_is_understood_by_what_another_has_asked(store: Memories, tmp_path: Path) -> None:
    async def story(served) -> None:
        for name in AGENTS:
            key = served.key(*WRITER, name=name, holder=Holder.AGENT)
            async with client_of(served, key) as client:
                await called(client, "kb_query", question=WORDINGS[0], thread="1")
        with store.ledger.read() as tx:
            assert {a.scope.agent for a in tx.answers.page("default")} == set(AGENTS)

    on_server(store, tmp_path, story)
