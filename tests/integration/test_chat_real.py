"""The chat adapter against a real OpenAI-compatible server with a real model. What the model says proves nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

import pytest
from pydantic import BaseModel

from kb.chat import Message
from kb.chat.forms import Form, Known
from kb.chat.openai import OpenAIChat
from kb.chat.wire import Endpoint
from kb.errors import Fault, ModelUnavailable
from tests.real_chat import MODEL

if TYPE_CHECKING:
    from tests.real_chat import RealChatServer

SEA = [Message(role="user", content="Write three sentences about the sea.")]
LONG = [Message(role="user", content="Count from one to five hundred, in words.")]


class Colour(BaseModel):
    """A colour of the sea."""

    name: Literal["blue", "green"]
    is_dark: bool


def at(server: RealChatServer, known: Known | None = None, **changes: Any) -> OpenAIChat:
    endpoint: dict[str, Any] = {"model": MODEL, "base_url": server.url, "max_tokens": 80, "timeout_s": 60.0, **changes}
    return OpenAIChat(Endpoint(**endpoint), known=known or Known())


def test_a_reply_comes_with_the_servers_count_of_tokens(real_chat: RealChatServer) -> None:
    async def story() -> None:
        chat = at(real_chat)
        reply = await chat.complete(SEA)
        assert reply.text.strip()
        assert reply.spent.calls == 1
        assert reply.spent.tokens_in > 10
        assert 0 < reply.spent.tokens_out <= 80
        await chat.aclose()

    asyncio.run(story())


def test_streamed_pieces_join_to_the_reply_and_are_paid_for(real_chat: RealChatServer) -> None:
    async def story() -> None:
        chat = at(real_chat)
        pieces: list[str] = []
        reply = await chat.complete(SEA, pieces.append)
        assert len(pieces) > 5
        assert "".join(pieces) == reply.text
        assert reply.spent.tokens_in > 0
        assert reply.spent.tokens_out > 0
        await chat.aclose()

    asyncio.run(story())


def test_a_strict_schema_is_kept_at_the_first_attempt(real_chat: RealChatServer) -> None:
    async def story() -> None:
        known = Known()
        chat = at(real_chat, known)
        structured = await chat.structured(SEA, Colour)
        assert structured.value.name in {"blue", "green"}
        assert structured.value.is_dark in {True, False}
        assert structured.spent.calls == 1
        assert known.of(real_chat.url, MODEL).form is Form.SCHEMA
        await chat.aclose()

    asyncio.run(story())


def test_a_reply_over_its_limit_is_cut_off(real_chat: RealChatServer) -> None:
    async def story() -> None:
        chat = at(real_chat, max_tokens=4)
        with pytest.raises(ModelUnavailable) as failure:
            await chat.complete(SEA)
        assert failure.value.fault is Fault.CUT_OFF
        assert failure.value.tokens_out == 4
        await chat.aclose()

    asyncio.run(story())


def test_too_little_time_is_a_timeout_and_leaves_the_server_usable(real_chat: RealChatServer) -> None:
    async def story() -> None:
        hasty = at(real_chat, timeout_s=0.05, max_tokens=1500)
        for on_token in (None, [].append):
            with pytest.raises(ModelUnavailable) as failure:
                await hasty.complete(LONG, on_token)
            assert failure.value.fault is Fault.TIMEOUT
        await hasty.aclose()
        chat = at(real_chat)
        assert (await chat.complete(SEA)).text
        await chat.aclose()

    asyncio.run(story())


def test_a_server_killed_within_its_answer_is_a_fault_and_no_hang(mortal_chat: RealChatServer) -> None:
    async def story() -> None:
        chat = at(mortal_chat, max_tokens=1500)
        pieces: list[str] = []

        def listen(piece: str) -> None:
            pieces.append(piece)
            if len(pieces) == 3:
                mortal_chat.kill()

        with pytest.raises(ModelUnavailable) as failure:
            await chat.complete(LONG, listen)
        assert failure.value.fault is Fault.CUT_OFF
        assert len(pieces) < 100
        with pytest.raises(ModelUnavailable) as failure:
            await chat.complete(LONG)
        assert failure.value.fault is Fault.UNREACHABLE
        assert failure.value.calls == 2  # it was asked twice
        await chat.aclose()

    asyncio.run(story())
