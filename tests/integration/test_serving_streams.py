"""Streams over HTTP: every event, kept alive, ended with whoever reads them; OpenAI's chunks only of checked words."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest

from kb.keys import Holder
from serving.streams import timed
from tests.durable import until
from tests.fakes.generator import FakeGenerator
from tests.fakes.search import FakeSearch
from tests.served import NOON, OPENS, events_of, open_server, with_bridge
from tests.tracing import logged

CHAT = {"model": "kb", "messages": [{"role": "user", "content": OPENS}]}
FIGURE = "The bridge opens at 25 o'clock. [1]"  # is in no evidence: the check lets it not pass


def on_server(store, tmp_path, story, **options):
    async def run() -> None:
        async with open_server(store, tmp_path, **options) as served:
            await story(served)

    asyncio.run(run())


@pytest.mark.parametrize("how", ["accept", "body"])
def test_a_stream_has_steps_tokens_and_the_same_answer_as_json(store, tmp_path, how):
    with_bridge(store)

    async def story(served) -> None:
        client = served.client(served.key())
        asked, headers = {"question": OPENS}, {}
        if how == "accept":
            headers = {"Accept": "text/event-stream"}
        else:
            asked["stream"] = True
        plain = (await client.post("/v1/ask", json={"question": OPENS})).json()
        reply = await client.post("/v1/ask", json=asked, headers=headers)
        assert reply.headers["Content-Type"].startswith("text/event-stream")
        events = [(name, json.loads(data)) for name, data in events_of(reply.text)]
        assert {name for name, _ in events} == {"step", "token", "answer"}
        assert all(data["event"] == name for name, data in events)
        last = events[-1][1]
        assert "".join(d["token"] for n, d in events if n == "token") == last["answer"]
        assert (last["answer"], last["outcome"]) == (plain["answer"], "answered")
        assert set(last) == {"event", *plain}

    on_server(store, tmp_path, story)


def test_a_stream_is_kept_alive_and_ends_by_its_deadline():
    closed = []

    async def slow():
        try:
            for number in range(3):
                await asyncio.sleep(0.05)
                yield number
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    async def story() -> None:
        deadline = asyncio.get_running_loop().time() + 0.5
        heard = []

        async def hear() -> None:
            async for event in timed(slow(), deadline, silence=0.01):
                heard.append(event)  # noqa: PERF401 - what came before the end counts

        with pytest.raises(TimeoutError):
            await hear()
        assert [event for event in heard if event is not None] == [0, 1, 2]
        assert None in heard
        assert closed == [True]

    asyncio.run(story())


@pytest.mark.parametrize("body", [{"question": OPENS}, {"question": OPENS, "stream": True}])
def test_a_question_ends_with_the_client_that_asked_it(store, tmp_path, body):
    with_bridge(store)
    slow = FakeGenerator()

    async def story(served) -> None:
        slow.hold.clear()
        client = served.client(served.key())
        asking = asyncio.create_task(client.post("/v1/ask", json=body))
        await until(lambda: slow.calls == 1)
        assert len(served.runtime._runs) == 1
        asking.cancel()
        await asyncio.wait({asking})
        await until(lambda: len(served.runtime._runs) == 0)
        await until(lambda: len(served.app.state.running) == 0)

    with logged() as stream:
        on_server(store, tmp_path, story, generator=slow)
    assert "request_served" in stream.getvalue()
    assert "Traceback" not in stream.getvalue()  # that somebody hangs up is nothing to be woken for


def test_who_reads_slowly_holds_up_nobody_else_and_is_cut_off_in_the_end(store, tmp_path):
    with_bridge(store)
    long = "The bridge opens at noon for tall ships. " * 40_000  # more than the connection's buffers hold

    async def story(served) -> None:
        key = served.key()
        host, port = served.url.removeprefix("http://").split(":")
        body = json.dumps({"question": OPENS, "stream": True}).encode()
        head = (
            f"POST /v1/ask HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        stalled = socket.socket()
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stalled.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(stalled, (host, int(port)))
        await loop.sock_sendall(stalled, head.encode() + body)
        await until(lambda: len(served.app.state.running) == 1)
        others = [await served.client(key).get("/v1/models") for _ in range(20)]
        assert {reply.status_code for reply in others} == {200}
        await until(lambda: len(served.app.state.running) == 0)  # its time is up, though it has read nothing
        stalled.close()

    generator = FakeGenerator(f"{long} [1]", pieces=65_536)
    on_server(store, tmp_path, story, generator=generator, serve={"request_seconds": 5.0})


def test_openai_chunks_hold_nothing_that_was_taken_back(store, tmp_path):
    with_bridge(store)

    async def story(served) -> None:
        client = served.client(served.key())
        own = await client.post("/v1/ask", json={"question": OPENS, "stream": True})
        assert "event: void" in own.text  # our own clients are told to take it back
        asked = {**CHAT, "stream": True, "stream_options": {"include_usage": True}, "temperature": 0}
        reply = await client.post("/v1/chat/completions", json=asked)
        *chunks, done = [data for _, data in events_of(reply.text)]
        assert done == "[DONE]"
        read = [json.loads(chunk) for chunk in chunks]
        text = "".join(c["choices"][0]["delta"].get("content", "") for c in read if c["choices"])
        last = read[-1]
        assert "25" not in text
        assert (last["kb"]["answer"], last["kb"]["ignored"]) == (text, ["temperature"])
        assert (last["choices"], last["usage"]["total_tokens"]) == ([], 0)
        assert [c["choices"][0]["finish_reason"] for c in read[:-1]] == [None] * (len(read) - 2) + ["stop"]
        assert not any("kb" in chunk for chunk in read[:-1])

    on_server(store, tmp_path, story, generator=FakeGenerator(FIGURE))


def test_what_waits_for_a_person_is_accepted_and_decided_on_later(store, tmp_path):
    from langgraph.checkpoint.memory import InMemorySaver

    from tests.durable import COLOUR, FOUND

    with_bridge(store)
    parts = {"search": FakeSearch([FOUND], is_paid=True), "checkpointer": InMemorySaver(), "is_lasting": True}

    async def story(served) -> None:
        client = served.client(served.key())
        waiting = await client.post("/v1/ask", json={"question": COLOUR, "thread": "t", "approve": "ask"})
        assert (waiting.status_code, waiting.json()["outcome"]) == (202, "waiting")
        stranger = served.client(served.key(tenant="other"))
        body = {"thread": "t", "decision": "approve", "answer_id": waiting.json()["answer_id"]}
        assert (await stranger.post("/v1/ask/resume", json=body)).status_code == 422
        assert (await client.post("/v1/ask/resume", json={"thread": "t", "decision": "perhaps"})).status_code == 422
        assert (await client.post("/v1/ask/resume", json={"thread": "t", "query": "x"})).status_code == 422
        done = await client.post("/v1/ask/resume", json=body)
        assert (done.status_code, done.json()["outcome"]) == (200, "answered")
        chat = {"model": "kb", "messages": [{"role": "user", "content": COLOUR}]}
        unattended = (await client.post("/v1/chat/completions", json=chat)).json()
        assert unattended["kb"]["outcome"] == "refused"  # nobody is there to approve: it does not wait
        asked = (await client.post("/v1/chat/completions", json={**chat, "kb": {"approve": "ask"}})).json()
        assert asked["kb"]["outcome"] == "waiting"
        assert "waits for a person" in asked["choices"][0]["message"]["content"]

    on_server(store, tmp_path, story, ask={"checkpointer": "sqlite"}, **parts)


def test_an_agent_approves_no_search_for_a_person(store, tmp_path):
    from langgraph.checkpoint.memory import InMemorySaver

    from tests.durable import COLOUR, FOUND

    with_bridge(store)
    search = FakeSearch([FOUND], is_paid=True)
    parts = {"search": search, "checkpointer": InMemorySaver(), "is_lasting": True}

    async def story(served) -> None:
        agent = served.client(served.key(holder=Holder.AGENT))
        chat = {"model": "kb", "messages": [{"role": "user", "content": COLOUR}], "kb": {"approve": "always"}}
        given = {"question": COLOUR, "thread": "t"}
        assert (await agent.post("/v1/ask", json={**given, "approve": "always"})).status_code == 403
        assert (await agent.post("/v1/chat/completions", json=chat)).status_code == 403
        waiting = await agent.post("/v1/ask", json={**given, "approve": "ask"})
        assert waiting.status_code == 202
        named = {"thread": "t", "answer_id": waiting.json()["answer_id"]}
        for decision in ({"decision": "approve"}, {"decision": "edit", "query": "colours"}):
            assert (await agent.post("/v1/ask/resume", json={**named, **decision})).status_code == 403
        assert search.queries == []
        declined = await agent.post("/v1/ask/resume", json={**named, "decision": "decline"})
        assert (declined.status_code, search.queries) == (200, [])

    on_server(store, tmp_path, story, ask={"checkpointer": "sqlite"}, **parts)


def test_a_user_of_a_key_has_a_thread_that_no_other_key_shares(store, tmp_path):
    with_bridge(store)
    asked = []

    async def story(served) -> None:
        stream = served.runtime.stream

        def noted(request):
            asked.append(request)
            return stream(request)

        served.runtime.stream = noted
        one, other = served.client(served.key()), served.client(served.key())
        for client in (one, other):
            assert (await client.post("/v1/chat/completions", json={**CHAT, "user": "eve"})).status_code == 200
        named = {**CHAT, "user": "eve", "kb_thread": "case", "kb": {"conversation": "c", "sources": ["file://x"]}}
        assert (await one.post("/v1/chat/completions", json=named)).status_code == 200

    on_server(store, tmp_path, story)
    first, second, third = asked
    assert first.thread != second.thread
    assert first.thread.endswith(":eve")
    assert (third.thread, third.scope.conversation, third.sources) == ("case", "c", ("file://x",))


def test_what_the_system_says_is_no_evidence(store, tmp_path):
    async def story(served) -> None:
        client = served.client(served.key())
        messages = [{"role": "system", "content": NOON}, {"role": "user", "content": OPENS}]
        reply = await client.post("/v1/chat/completions", json={"model": "kb", "messages": messages})
        assert reply.json()["kb"]["outcome"] == "refused"

    on_server(store, tmp_path, story)
