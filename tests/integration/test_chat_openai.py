"""The chat adapter over a server that misbehaves: what is on the wire, how often, and how it ends."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
import traceback
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from pydantic import SecretStr

from kb import telemetry
from kb.chat import Message, open_chat
from kb.chat.forms import Known
from kb.chat.openai import OpenAIChat
from kb.chat.wire import Endpoint
from kb.errors import ConfigError, Fault, ModelUnavailable
from kb.settings import ChatSettings, Settings
from kb.telemetry import Metric, Span
from tests.fakes.chat_server import ChatServer, Request, Say
from tests.fakes.collector import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

KEY = "sk-secret-0123"
PROMPT = [Message(role="system", content="Be brief."), Message(role="user", content="Is it so?")]
NOW = 1_900_000_000.0


class Sleeper:
    """Remembers how long it was told to sleep."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


def at(server: ChatServer, sleeper: Sleeper | None = None, **changes: Any) -> OpenAIChat:
    endpoint: dict[str, Any] = {"model": server.model, "base_url": server.url, "api_key": SecretStr(KEY), **changes}
    return OpenAIChat(Endpoint(**endpoint), sleep=sleeper or Sleeper(), clock=lambda: NOW, known=Known())


def run(chat: OpenAIChat, story: Callable[[], Coroutine[Any, Any, T]]) -> T:
    async def closed() -> T:
        try:
            return await story()
        finally:
            await chat.aclose()

    return asyncio.run(closed())


def failure_of(chat: OpenAIChat, on_token: Callable[[str], None] | None = None) -> ModelUnavailable:
    with pytest.raises(ModelUnavailable) as failure:
        run(chat, lambda: chat.complete(PROMPT, on_token))
    return failure.value


def test_the_request_is_plain_chat_completions_at_temperature_0(chat_server: ChatServer) -> None:
    chat = at(chat_server, max_tokens=77)
    run(chat, lambda: chat.complete(PROMPT))
    (request,) = chat_server.requests
    assert request.authorization == f"Bearer {KEY}"
    assert request.body == {
        "model": chat_server.model,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Is it so?"}],
        "temperature": 0.0,
        "max_tokens": 77,
        "stream": False,
    }


def test_a_model_named_like_a_hosted_one_is_still_asked_by_chat_completions(chat_server: ChatServer) -> None:
    chat = at(chat_server, model="gpt-5-pro")
    assert run(chat, lambda: chat.complete(PROMPT)).text == "It is so."


def test_a_stream_asks_for_its_usage(chat_server: ChatServer) -> None:
    chat = at(chat_server)
    reply = run(chat, lambda: chat.complete(PROMPT, [].append))
    assert chat_server.requests[0].body["stream_options"] == {"include_usage": True}
    assert (reply.spent.tokens_in, reply.spent.tokens_out) == (5, 3)


@pytest.mark.parametrize("on_token", [None, [].append], ids=["whole", "streamed"])
def test_an_endpoint_that_counts_no_tokens_costs_none(chat_server: ChatServer, on_token: Any) -> None:
    chat_server.script.append(Say(text="Yes.", has_usage=False))
    chat = at(chat_server)
    spent = run(chat, lambda: chat.complete(PROMPT, on_token)).spent
    assert (spent.calls, spent.tokens_in, spent.tokens_out) == (1, 0, 0)


def test_a_passing_fault_is_repeated_and_both_requests_are_counted(chat_server: ChatServer) -> None:
    chat_server.script.append(Say(status=503))
    chat = at(chat_server)
    assert run(chat, lambda: chat.complete(PROMPT)).spent.calls == 2 == len(chat_server.requests)


def test_repeats_are_bounded_and_ours_alone(chat_server: ChatServer) -> None:
    chat_server.respond = lambda _: Say(status=503)
    sleeper = Sleeper()
    failure = failure_of(at(chat_server, sleeper, retries=2))
    assert (failure.fault, failure.calls) == (Fault.SERVER, 3)
    assert len(chat_server.requests) == 3
    assert sleeper.slept == [0.5, 1.0]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_fault_that_does_not_pass_is_not_repeated(chat_server: ChatServer, status: int) -> None:
    chat_server.respond = lambda _: Say(status=status)
    assert failure_of(at(chat_server, retries=3)).calls == 1 == len(chat_server.requests)


def test_retry_after_is_honoured(chat_server: ChatServer) -> None:
    chat_server.script.append(Say(status=429, headers={"Retry-After": "7"}))
    sleeper = Sleeper()
    chat = at(chat_server, sleeper)
    assert run(chat, lambda: chat.complete(PROMPT)).spent.calls == 2
    assert sleeper.slept == [7.0]


def test_a_retry_after_beyond_the_calls_time_fails_at_once_and_is_told(chat_server: ChatServer) -> None:
    chat_server.script.append(Say(status=429, headers={"Retry-After": "300"}))
    sleeper = Sleeper()
    failure = failure_of(at(chat_server, sleeper))
    assert (failure.fault, failure.retry_after, failure.calls) == (Fault.RATE_LIMITED, 300.0, 1)
    assert sleeper.slept == []


@pytest.mark.parametrize("on_token", [None, [].append], ids=["whole", "streamed"])
def test_a_server_that_hangs_is_a_timeout(chat_server: ChatServer, on_token: Any) -> None:
    chat_server.script.append(Say(hangs=True))
    failure = failure_of(at(chat_server, timeout_s=0.3, retries=3), on_token)
    assert (failure.fault, failure.calls) == (Fault.TIMEOUT, 1)


def test_a_stream_broken_after_its_first_pieces_is_cut_off_and_not_repeated(chat_server: ChatServer) -> None:
    chat_server.script.append(Say(text="It is certainly so.", cut_after=2))
    pieces: list[str] = []
    failure = failure_of(at(chat_server), pieces.append)
    assert (failure.fault, failure.calls) == (Fault.CUT_OFF, 1)
    assert pieces == ["It ", "is "]


def test_a_stream_broken_before_its_first_piece_is_repeated(chat_server: ChatServer) -> None:
    chat_server.script.append(Say(text="It is certainly so.", cut_after=0))
    chat = at(chat_server)
    pieces: list[str] = []
    assert run(chat, lambda: chat.complete(PROMPT, pieces.append)).spent.calls == 2
    assert "".join(pieces) == "It is so."


def test_a_stream_that_stops_in_good_order_without_an_end_is_cut_off(chat_server: ChatServer) -> None:
    chat_server.script.append(Say(text="It is certainly so.", ends_early=True))
    assert failure_of(at(chat_server), [].append).fault is Fault.CUT_OFF


def test_a_reply_broken_within_its_body_is_unreachable_after_the_repeats(chat_server: ChatServer) -> None:
    chat_server.respond = lambda _: Say(text="It is certainly so.", cut_after=1)
    failure = failure_of(at(chat_server))
    assert (failure.fault, failure.calls) == (Fault.UNREACHABLE, 2)


def test_nobody_listening_is_unreachable(chat_server: ChatServer) -> None:
    failure = failure_of(at(chat_server, base_url="http://127.0.0.1:1/v1"))
    assert failure.fault is Fault.UNREACHABLE


def test_an_address_that_is_none_is_rejected_without_repeats(chat_server: ChatServer) -> None:
    failure = failure_of(at(chat_server, base_url="htp:/nowhere"))
    assert (failure.fault, failure.calls) == (Fault.REJECTED, 1)


NO_PROTOCOL = [
    b"{oops",
    b"<html>",
    b"{}",
    b'{"choices": null}',
    b'{"choices": []}',
    b"[]",
    b'"x"',
    b"",
    b'{"error": "x"}',
]


@pytest.mark.parametrize("on_token", [None, [].append], ids=["whole", "streamed"])
@pytest.mark.parametrize("body", NO_PROTOCOL)
def test_a_body_that_is_not_of_the_protocol_is_malformed(chat_server: ChatServer, body: bytes, on_token: Any) -> None:
    chat_server.respond = lambda _: Say(body=body)
    assert failure_of(at(chat_server), on_token).fault is Fault.MALFORMED


def test_an_error_within_a_stream_is_the_servers(chat_server: ChatServer) -> None:
    event = b'data: {"error": {"message": "out of memory"}}\n\n'
    chat_server.respond = lambda _: Say(body=event, headers={"Content-Type": "text/event-stream"})
    failure = failure_of(at(chat_server), [].append)
    assert failure.fault is Fault.SERVER
    assert "out of memory" in str(failure)


@pytest.mark.parametrize("name", ["temperature", "stream_options"])
def test_an_optional_parameter_that_is_refused_is_left_out_from_then_on(chat_server: ChatServer, name: str) -> None:
    def picky(request: Request) -> Say:
        is_there = name in request.body
        return Say(status=400, param=name, message=f"Unsupported: {name}") if is_there else Say(text="Yes.")

    chat_server.respond = picky
    chat = at(chat_server)

    async def story() -> list[int]:
        return [(await chat.complete(PROMPT, [].append)).spent.calls for _ in range(2)]

    assert run(chat, story) == [2, 1]


def test_no_more_calls_at_a_time_than_allowed(chat_server: ChatServer) -> None:
    together = threading.Barrier(3)
    chat_server.respond = lambda _: f"number {together.wait()}"
    chat = at(chat_server, max_concurrency=3)

    async def story() -> None:
        await asyncio.gather(*(chat.complete(PROMPT) for _ in range(15)))

    run(chat, story)
    assert chat_server.most_at_once == 3


def test_a_cancelled_call_frees_its_turn(chat_server: ChatServer) -> None:
    arrived = threading.Event()

    def hang(_: Request) -> Say:
        arrived.set()
        return Say(hangs=True)

    chat_server.respond = hang
    chat = at(chat_server, max_concurrency=1)

    async def story() -> str:
        task = asyncio.create_task(chat.complete(PROMPT))
        await asyncio.to_thread(arrived.wait)
        chat_server.respond = None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return (await chat.complete(PROMPT)).text

    assert run(chat, story) == "It is so."


def test_one_chat_serves_one_event_loop_after_another(chat_server: ChatServer) -> None:
    chat = at(chat_server)
    assert [run(chat, lambda: chat.complete(PROMPT)).text for _ in range(3)] == ["It is so."] * 3


def test_the_event_loop_is_not_held_up(chat_server: ChatServer) -> None:
    chat = at(chat_server)

    async def story() -> int:
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                await asyncio.sleep(0)
                beats += 1

        heart = asyncio.create_task(beat())
        await chat.complete(PROMPT)
        heart.cancel()
        return beats

    assert run(chat, story) > 20


def test_the_key_stands_in_no_message_repr_or_log(chat_server: ChatServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    chat_server.key = "another"
    chat = at(chat_server)
    shown = [repr(chat), str(vars(chat)), "".join(traceback.format_exception(failure_of(chat)))]
    chat_server.key = ""
    chat_server.script.append(Say(status=400, message=f"no such key: {KEY}"))
    shown.append("".join(traceback.format_exception(failure_of(chat))))
    assert not [text for text in [*shown, caplog.text] if KEY in text]


def test_an_endpoint_without_keys_works_without_one(chat_server: ChatServer) -> None:
    chat = at(chat_server, api_key=None)
    assert run(chat, lambda: chat.complete(PROMPT)).text == "It is so."


def test_without_a_model_there_is_no_chat() -> None:
    assert open_chat(Settings()) is None


def test_the_hosted_endpoint_needs_a_key() -> None:
    with pytest.raises(ConfigError, match="KB_CHAT__API_KEY"):
        open_chat(Settings(chat=ChatSettings(model="any")))


def test_settings_fall_back_to_the_embedders_endpoint_and_key(chat_server: ChatServer) -> None:
    settings = Settings(
        chat=ChatSettings(model=chat_server.model), openai_base_url=chat_server.url, openai_api_key=SecretStr(KEY)
    )
    chat = open_chat(settings)
    assert isinstance(chat, OpenAIChat)
    assert run(chat, lambda: chat.complete(PROMPT)).text == "It is so."
    assert chat_server.requests[0].authorization == f"Bearer {KEY}"


def test_a_key_is_never_sent_to_an_endpoint_it_was_not_given_for(chat_server: ChatServer) -> None:
    chat_server.key = None
    settings = Settings(
        chat=ChatSettings(model=chat_server.model, base_url=chat_server.url),
        openai_base_url="http://127.0.0.1:1/v1",
        openai_api_key=SecretStr(KEY),
    )
    chat = open_chat(settings)
    assert isinstance(chat, OpenAIChat)
    run(chat, lambda: chat.complete(PROMPT))
    assert KEY not in str(chat_server.requests[0].authorization)


def test_nothing_is_left_open(chat_server: ChatServer) -> None:
    chat = at(chat_server)
    run(chat, partial(chat.complete, PROMPT, [].append))
    del chat
    gc.collect()  # a connection left open would warn here, and a warning is an error


def test_a_call_that_waits_for_its_turn_does_not_use_up_its_time(chat_server: ChatServer) -> None:
    chat_server.respond = lambda _: (time.sleep(0.15), "Yes.")[1]
    chat = at(chat_server, max_concurrency=1, timeout_s=1.2)

    async def story() -> int:
        return len(await asyncio.gather(*(chat.complete(PROMPT) for _ in range(10))))

    assert run(chat, story) == 10


def test_calls_and_tokens_are_counted_and_no_text_leaves(chat_server: ChatServer) -> None:
    with Collector() as collector:
        telemetry.configure(collector.endpoint)
        try:
            chat = at(chat_server)
            run(chat, partial(chat.complete, PROMPT))
        finally:
            telemetry.shutdown()
        assert Span.CHAT in {s.name for s in collector.spans}
        assert {Metric.CHAT_CALLS, Metric.CHAT_TOKENS} <= collector.metrics
        assert "Is it so" not in " ".join(map(str, collector.spans))
