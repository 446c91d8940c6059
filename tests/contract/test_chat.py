"""What every chat model must hold, the fake included."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pytest
from pydantic import BaseModel, Field, SecretStr

from kb.chat import Message
from kb.chat.forms import Known
from kb.chat.openai import OpenAIChat
from kb.chat.wire import Endpoint
from kb.errors import Fault, ModelUnavailable
from tests.fakes.chat import FakeChat
from tests.fakes.chat_server import ChatServer, Say

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from kb.chat import Chat

PROMPT = [Message(role="system", content="Be brief."), Message(role="user", content="Is the sea blue? 海是蓝色的吗？")]
REPLY = "Yes, mostly.\n是的，大多数时候。 😀"


class Shade(BaseModel):
    """A shade."""

    name: Literal["blue", "green"]
    depth: float = Field(ge=0, le=1)
    note: str = ""


Scripted = str | dict[str, Any] | Fault


@dataclass(frozen=True)
class Case:
    """A chat model that says `script`, and how to look at what it was asked."""

    open: Callable[[Sequence[Scripted]], Chat]
    prompts: Callable[[], list[str]]
    streamed: Callable[[], list[bool]]


FAULTY = {
    Fault.SERVER: Say(status=503),
    Fault.RATE_LIMITED: Say(status=429),
    Fault.UNAUTHORISED: Say(status=401),
    Fault.REJECTED: Say(status=404),
    Fault.MALFORMED: Say(text=""),
    Fault.CUT_OFF: Say(text="Yes, mo", finish="length"),
}


@pytest.fixture(params=["fake", "openai"])
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    if request.param == "fake":
        made: list[FakeChat] = []

        def fake(script: Sequence[Scripted]) -> Chat:
            made.append(FakeChat(*script))
            return made[-1]

        yield Case(
            fake, lambda: [p for c in made for p in c.prompts], lambda: [a.is_streamed for c in made for a in c.asked]
        )
        return
    with ChatServer() as server:

        def real(script: Sequence[Scripted]) -> Chat:
            server.script.extend(FAULTY[s] if isinstance(s, Fault) else s for s in script)
            endpoint = Endpoint(model=server.model, base_url=server.url, api_key=SecretStr("k"), retries=0)
            return OpenAIChat(endpoint, known=Known())

        yield Case(real, lambda: server.prompts, lambda: [bool(r.body.get("stream")) for r in server.requests])


def run(chat: Chat, story: Callable[[Chat], Coroutine[Any, Any, None]]) -> None:
    async def closed() -> None:
        try:
            await story(chat)
        finally:
            await chat.aclose()

    asyncio.run(closed())


def test_a_reply_is_the_text_and_its_cost(case: Case) -> None:
    async def story(chat: Chat) -> None:
        reply = await chat.complete(PROMPT)
        assert reply.text == REPLY
        assert reply.spent.calls == 1
        assert reply.spent.tokens_in > 0
        assert reply.spent.tokens_out > 0
        assert "海是蓝色的吗" in case.prompts()[0]

    run(case.open([REPLY]), story)


def test_streamed_pieces_join_to_the_text(case: Case) -> None:
    async def story(chat: Chat) -> None:
        pieces: list[str] = []
        reply = await chat.complete(PROMPT, pieces.append)
        assert reply.text == "".join(pieces) == REPLY
        assert len(pieces) > 1
        assert case.streamed() == [True]
        assert reply.spent.calls == 1
        assert reply.spent.tokens_out > 0

    run(case.open([REPLY]), story)


def test_structure_is_a_value_and_its_cost(case: Case) -> None:
    async def story(chat: Chat) -> None:
        structured = await chat.structured(PROMPT, Shade)
        assert structured.value == Shade(name="blue", depth=0.5, note="蓝")
        assert structured.spent.calls == 1
        assert structured.spent.tokens_out > 0
        assert case.streamed() == [False]

    run(case.open([{"name": "blue", "depth": 0.5, "note": "蓝"}]), story)


@pytest.mark.parametrize(
    "wrong", [{"name": "red", "depth": 0.5}, {"name": "blue", "depth": 7}, {"name": "blue"}, {}], ids=str
)
def test_a_value_that_does_not_fit_is_malformed_and_never_a_value(case: Case, wrong: dict[str, Any]) -> None:
    async def story(chat: Chat) -> None:
        with pytest.raises(ModelUnavailable) as failure:
            await chat.structured(PROMPT, Shade)
        assert failure.value.fault is Fault.MALFORMED
        assert failure.value.calls >= 1

    run(case.open([wrong, wrong, wrong]), story)


@pytest.mark.parametrize("fault", FAULTY, ids=lambda f: f.value)
def test_a_failure_says_its_fault_and_its_cost(case: Case, fault: Fault) -> None:
    async def story(chat: Chat) -> None:
        with pytest.raises(ModelUnavailable) as failure:
            await chat.complete(PROMPT)
        assert failure.value.fault is fault
        assert failure.value.calls == 1
        assert (await chat.complete(PROMPT)).text == REPLY  # and the next call is another matter

    run(case.open([fault, REPLY]), story)


def test_an_empty_reply_is_a_fault_streamed_or_not(case: Case) -> None:
    async def story(chat: Chat) -> None:
        for on_token in (None, [].append):
            with pytest.raises(ModelUnavailable) as failure:
                await chat.complete(PROMPT, on_token)
            assert failure.value.fault is Fault.MALFORMED

    run(case.open([" \n", " \n"]), story)


def test_calls_beside_one_another_do_not_mix(case: Case) -> None:
    async def story(chat: Chat) -> None:
        replies = await asyncio.gather(*(chat.complete(PROMPT) for _ in range(12)))
        assert sorted(reply.text for reply in replies) == sorted(f"reply {n}" for n in range(12))
        assert all(reply.spent.calls == 1 for reply in replies)

    run(case.open([f"reply {n}" for n in range(12)]), story)


def test_text_that_no_encoding_holds_is_sent_all_the_same(case: Case) -> None:
    async def story(chat: Chat) -> None:
        assert (await chat.complete([Message(role="user", content="a\ud800b\0c")])).text == REPLY

    run(case.open([REPLY]), story)


def test_an_error_of_the_listener_is_the_callers_own(case: Case) -> None:
    def listen(_: str) -> None:
        raise ValueError("the listener's")

    async def story(chat: Chat) -> None:
        with pytest.raises(ValueError, match="the listener's"):
            await chat.complete(PROMPT, listen)
        assert (await chat.complete(PROMPT)).text == REPLY

    run(case.open([REPLY, REPLY]), story)
