"""How the chat adapter finds out what form of structure an endpoint takes, and that nothing of it leaks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

import pytest
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import BaseModel, Field

from kb.chat import Message
from kb.chat.forms import Form, Known
from kb.chat.openai import OpenAIChat
from kb.chat.wire import Endpoint
from kb.errors import Fault, ModelUnavailable
from tests.fakes.chat_server import ChatServer, Say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kb.chat.forms import Manners

PROMPT = [Message(role="system", content="Grade."), Message(role="user", content="A passage.")]
VALUE = {"label": "yes", "score": 0.5}


class Opinion(BaseModel):
    """An opinion."""

    label: Literal["yes", "no"]
    score: float = Field(ge=0, le=1)
    note: str = Field(default="", max_length=40)


class Stage:
    """A chat at a scripted server, and what it has learnt."""

    def __init__(self, server: ChatServer) -> None:
        self.server = server
        self.known = Known()
        server.respond = lambda _: VALUE

    @property
    def manners(self) -> Manners:
        return self.known.of(self.server.url, self.server.model)

    def ask(self, times: int = 1, **changes: Any) -> list[Any]:
        """Return the value or the error of each of so many calls, one after another."""

        async def story() -> list[Any]:
            endpoint: dict[str, Any] = {"model": self.server.model, "base_url": self.server.url, **changes}
            chat = OpenAIChat(Endpoint(**endpoint), sleep=asyncio.sleep, known=self.known)
            outcomes: list[Any] = []
            for _ in range(times):
                try:
                    outcomes.append(await chat.structured(PROMPT, Opinion))
                except ModelUnavailable as error:
                    outcomes.append(error)
            await chat.aclose()
            return outcomes

        return asyncio.run(story())

    @property
    def forms(self) -> list[str]:
        return [request.form for request in self.server.requests]


@pytest.fixture
def stage(chat_server: ChatServer) -> Iterator[Stage]:
    return Stage(chat_server)


def test_a_strict_schema_comes_first_and_stays(stage: Stage) -> None:
    outcomes = stage.ask(2)
    assert [outcome.value.label for outcome in outcomes] == ["yes", "yes"]
    assert stage.forms == ["schema", "schema"]
    wanted = stage.server.requests[0].body["response_format"]["json_schema"]
    assert wanted["strict"] is True
    assert wanted["schema"]["additionalProperties"] is False
    assert wanted["schema"]["required"] == ["label", "score", "note"]
    assert not {"default", "title", "maxLength"} & set(str(wanted["schema"]).replace("'", " ").split())


@pytest.mark.parametrize("status", [400, 422, 501])
def test_a_refused_schema_gives_way_to_a_tool_call_once(stage: Stage, status: int) -> None:
    stage.server.refuses = {"schema": status}
    outcomes = stage.ask(3, retries=0)
    assert [outcome.spent.calls for outcome in outcomes] == [2, 1, 1]
    assert stage.forms == ["schema", "tool", "tool", "tool"]
    assert stage.server.requests[1].body["tool_choice"]["function"]["name"] == "Opinion"


def test_a_schema_that_breaks_the_server_gives_way_too(stage: Stage) -> None:
    stage.server.refuses = {"schema": 500}
    assert [outcome.spent.calls for outcome in stage.ask(2, retries=0)] == [2, 1]


def test_forms_that_are_silently_ignored_give_way_to_words(stage: Stage) -> None:
    stage.server.ignores = {"schema", "tool"}
    outcomes = stage.ask(2)
    assert [outcome.spent.calls for outcome in outcomes] == [3, 1]
    assert stage.forms == ["schema", "tool", "words", "words"]
    assert "valid under this JSON schema" in stage.server.requests[2].by_role("system")
    assert stage.server.requests[2].by_role("system").startswith("Grade.")


def test_words_are_read_from_within_prose(stage: Stage) -> None:
    stage.server.refuses = {"schema": 400, "tool": 400}
    stage.server.respond = lambda _: 'Sure!\n```json\n{"label": "no", "score": "0.25"}\n```\nHope that helps {:-)'
    (outcome,) = stage.ask()
    assert outcome.value == Opinion(label="no", score=0.25)


def test_when_every_form_fails_it_is_malformed_and_the_next_call_begins_anew(stage: Stage) -> None:
    stage.server.respond = lambda _: "I would rather not say."
    first, second = stage.ask(2)
    assert (first.fault, first.calls, second.calls) == (Fault.MALFORMED, 3, 3)
    assert stage.manners.form is Form.SCHEMA
    assert not stage.manners.is_settled


def test_a_value_out_of_bounds_is_malformed_but_proves_the_form(stage: Stage) -> None:
    stage.server.script.append({"label": "yes", "score": 1.1, "note": ""})  # a grammar holds names, not bounds
    first, second = stage.ask(2)
    assert (first.fault, first.calls) == (Fault.MALFORMED, 1)
    assert second.spent.calls == 1
    assert stage.forms == ["schema", "schema"]


def test_a_settled_form_is_not_left_for_one_bad_reply(stage: Stage) -> None:
    stage.ask()
    stage.server.script.append(Say(text="Well, that depends."))
    (bad,) = stage.ask()
    assert (bad.fault, bad.calls) == (Fault.MALFORMED, 1)
    assert stage.ask()[0].spent.calls == 1
    assert set(stage.forms) == {"schema"}


@pytest.mark.parametrize(
    "say",
    [
        Say(text='{"label": "yes", "score": 0.5', finish="length"),
        Say(text='{"label": "yes", "score": 0.5, "note": ""}', finish="length"),
        Say(text="", refusal="I will not."),
        Say(text="null"),
        Say(text="[]"),
        Say(text='{"label": "yes", "score": NaN}'),
        Say(body=b'{"choices": []}'),
    ],
    ids=lambda s: s.text or s.refusal or str(s.body),
)
@pytest.mark.parametrize("form", list(Form), ids=lambda f: f.name)
def test_what_is_no_whole_value_is_malformed_in_every_form(stage: Stage, form: Form, say: Say) -> None:
    stage.manners.form, stage.manners.is_settled = form, True
    stage.server.script.append(say)
    (outcome,) = stage.ask()
    assert outcome.fault is Fault.MALFORMED
    assert outcome.calls == 1


@pytest.mark.parametrize("fault", [Say(status=401), Say(status=404), Say(status=429, code="insufficient_quota")])
def test_what_is_not_the_forms_fault_tries_no_other_form(stage: Stage, fault: Say) -> None:
    stage.server.script.append(fault)
    assert stage.ask()[0].calls == 1
    assert stage.forms == ["schema"]


def test_calls_that_begin_together_find_the_form_out_once(stage: Stage) -> None:
    stage.server.refuses = {"schema": 400}

    async def story() -> int:
        endpoint = Endpoint(model=stage.server.model, base_url=stage.server.url)
        chat = OpenAIChat(endpoint, known=stage.known)
        replies = await asyncio.gather(*(chat.structured(PROMPT, Opinion) for _ in range(8)))
        await chat.aclose()
        return sum(reply.spent.calls for reply in replies)

    assert asyncio.run(story()) == 9 == len(stage.server.requests)
    assert stage.forms.count("schema") == 1


def test_the_form_is_remembered_for_the_process_by_endpoint_and_model(chat_server: ChatServer) -> None:
    chat_server.respond = lambda _: VALUE
    chat_server.refuses = {"schema": 400}

    async def once(model: str) -> int:
        chat = OpenAIChat(Endpoint(model=model, base_url=chat_server.url))
        reply = await chat.structured(PROMPT, Opinion)
        await chat.aclose()
        return reply.spent.calls

    assert [asyncio.run(once(m)) for m in (chat_server.model, chat_server.model, f"{chat_server.model}-b")] == [2, 1, 2]


@pytest.mark.parametrize("ask", ["structured", "complete", "streamed"])
def test_nothing_leaks_into_a_graphs_stream_of_messages(chat_server: ChatServer, ask: str) -> None:
    chat = OpenAIChat(Endpoint(model=chat_server.model, base_url=chat_server.url), known=Known())
    chat_server.respond = lambda request: VALUE if request.form else "It is so."

    async def node(state: MessagesState) -> dict[str, Any]:
        if ask == "structured":
            await chat.structured(PROMPT, Opinion)
        else:
            await chat.complete(PROMPT, [].append if ask == "streamed" else None)
        return {}

    graph = StateGraph(MessagesState).add_node("grade", node).add_edge(START, "grade").add_edge("grade", END).compile()

    async def story() -> list[Any]:
        parts = [part async for part in graph.astream({"messages": []}, stream_mode="messages")]
        await chat.aclose()
        return parts

    assert asyncio.run(story()) == []
    assert [bool(r.body.get("stream")) for r in chat_server.requests] == [ask == "streamed"]
