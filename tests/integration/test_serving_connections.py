"""Clients that send nothing, stall, or do not read: none holds a hand, memory or a file of the server for ever."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import closing

import pytest

from crag_runtime.events import Event
from serving import connection, middleware
from tests.durable import until
from tests.fakes.generator import FakeGenerator
from tests.served import OPENS, open_server, with_bridge
from tests.tracing import logged


async def endless(_request):
    """Stand in for the runtime's stream: more events than any connection's buffers hold, as fast as they are taken."""
    while True:
        yield Event(kind="token", token="The bridge opens at noon. " * 1_000)
        await asyncio.sleep(0)


def on_server(store, tmp_path, story, **options):
    async def run() -> None:
        async with open_server(store, tmp_path, **options) as served:
            await story(served)

    asyncio.run(run())


async def dialled(served, said: bytes = b"") -> socket.socket:
    """Return a connection with a small buffer, over which something has been said."""
    host, port = served.url.removeprefix("http://").split(":")
    served.server.servers[0].sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, (host, int(port)))
    await loop.sock_sendall(client, said)
    return client


def request(served, method: str, path: str, body: bytes = b"", *, key: str = "", length: int | None = None) -> bytes:
    """Return a request as bytes; `length` says more, or less, than there is."""
    shown = f"Authorization: Bearer {key}\r\n" if key else ""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: {served.url.removeprefix('http://')}\r\n{shown}"
        f"Content-Type: application/json\r\nContent-Length: {len(body) if length is None else length}\r\n\r\n"
    )
    return head.encode() + body


async def heard(client: socket.socket) -> bytes:
    """Return what comes until the server closes."""
    parts = []
    try:
        while part := await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 65_536), 30):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def question(**more: object) -> bytes:
    return json.dumps({"question": OPENS, **more}).encode()


def events(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_a_stream_nobody_reads_ends_at_its_deadline_with_one_quiet_line_and_its_connection(
    store, tmp_path, monkeypatch
):
    monkeypatch.setattr(middleware, "STREAM_GRACE", 0.3)

    async def story(served) -> None:
        served.runtime.stream = endless
        sent = request(served, "POST", "/v1/ask", question(stream=True), key=served.key())
        with closing(await dialled(served, sent)):
            await until(lambda: len(served.app.state.running) == 1)
            await until(lambda: len(served.app.state.running) == 0)
            await until(lambda: not served.server.server_state.connections)  # though the client has not hung up

    with logged() as stream:
        on_server(store, tmp_path, story, serve={"request_seconds": 0.5})
    told = events(stream.getvalue())
    assert [line.get("cut_off") for line in told if line["event"] == "request_served"] == ["TimedOut"]
    assert [line for line in told if line["level"] not in ("info", "debug")] == []
    assert "Traceback" not in stream.getvalue()


def test_a_client_that_reads_byte_by_byte_holds_one_hand_until_its_deadline_and_no_longer(store, tmp_path, monkeypatch):
    monkeypatch.setattr(middleware, "STREAM_GRACE", 0.3)

    async def story(served) -> None:
        served.runtime.stream = endless
        sent = request(served, "POST", "/v1/ask", question(stream=True), key=served.key())
        loop = asyncio.get_running_loop()
        with closing(await dialled(served, sent)) as client:
            await until(lambda: len(served.app.state.running) == 1)

            async def sip() -> None:
                while await loop.sock_recv(client, 1):  # noqa: ASYNC110 - it is slow on purpose
                    await asyncio.sleep(0.02)

            sipping = asyncio.create_task(sip())
            await until(lambda: len(served.app.state.running) == 0)
            await until(lambda: not served.server.server_state.connections)
            sipping.cancel()
            await asyncio.wait({sipping})

    on_server(store, tmp_path, story, serve={"request_seconds": 0.5})


@pytest.mark.parametrize("said", [b"", b"GET /healthz HTTP/1.1\r\nHost: 127.0", b"\x16\x03\x01"])
def test_who_sends_no_whole_head_is_given_up(store, tmp_path, monkeypatch, said):
    monkeypatch.setattr(connection, "HEAD_S", 0.2)

    async def story(served) -> None:
        with closing(await dialled(served, said)) as client:
            await heard(client)
            await until(lambda: not served.server.server_state.connections)

    on_server(store, tmp_path, story)


def test_a_second_head_must_come_whole_as_the_first_must_and_drops_of_it_gain_no_time(store, tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "HEAD_S", 0.4)

    async def story(served) -> None:
        loop = asyncio.get_running_loop()
        with closing(await dialled(served, request(served, "GET", "/healthz"))) as client:
            assert b"200 OK" in await loop.sock_recv(client, 65_536)
            drops = 0
            try:
                while True:
                    await loop.sock_sendall(client, b"G"[drops:] or b"x")
                    drops += 1
                    await asyncio.sleep(0.05)
            except (BrokenPipeError, ConnectionResetError):
                pass
            assert drops < 100
            await until(lambda: not served.server.server_state.connections)

    on_server(store, tmp_path, story)


def test_a_reply_that_nobody_takes_is_not_kept_for_ever(store, tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "READ_S", 0.3)

    async def story(served) -> None:
        with closing(await dialled(served, request(served, "GET", "/openapi.json"))):
            await until(lambda: served.server.server_state.total_requests == 1)
            await until(lambda: not served.server.server_state.connections)

    on_server(store, tmp_path, story)


def test_a_connection_that_is_used_again_and_again_outlives_every_patience(store, tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "HEAD_S", 0.3)
    monkeypatch.setattr(connection, "READ_S", 0.3)
    with_bridge(store)

    async def story(served) -> None:
        client = served.client(served.key())
        for _ in range(8):
            assert (await client.get("/v1/models")).status_code == 200
            assert (await client.post("/v1/ask", json={"question": OPENS})).status_code == 200
            await asyncio.sleep(0.1)
        assert served.server.server_state.total_requests == 16
        assert len(served.server.server_state.connections) == 1

    on_server(store, tmp_path, story)


def test_two_requests_in_one_breath_are_both_answered(store, tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "HEAD_S", 0.5)
    with_bridge(store)
    slow = FakeGenerator()

    async def story(served) -> None:
        slow.hold.clear()
        key = served.key()
        ask = request(served, "POST", "/v1/ask", question(), key=key)
        with closing(await dialled(served, ask + ask)) as client:
            await until(lambda: slow.calls == 1)
            await asyncio.sleep(0.8)  # longer than a head may take: these are there
            slow.hold.set()
            assert (await heard(client)).count(b"200 OK") == 2

    monkeypatch.setattr(connection, "READ_S", 0.5)
    on_server(store, tmp_path, story, generator=slow)


def test_who_shows_no_key_holds_no_hand_with_a_body_that_does_not_come(store, tmp_path):
    async def story(served) -> None:
        clients = [
            await dialled(served, request(served, "POST", path, b"{", length=900, key=key))
            for path in ("/v1/ask", "/v1/ingest", "/v1/memories", "/v1/chat/completions")
            for key in ("", "kb_0123456789abcdef_" + "x" * 43)
        ]
        for client in clients:
            with closing(client):
                assert b" 401 " in await asyncio.get_running_loop().sock_recv(client, 65_536)
        await until(lambda: len(served.app.state.running) == 0)

    on_server(store, tmp_path, story, serve={"concurrency": 8})


def test_who_asks_for_another_protocol_is_answered_in_this_one_and_advises_nobody(store, tmp_path):
    async def story(served) -> None:
        headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "x"}
        assert (await served.client().get("/healthz", headers=headers)).status_code == 200

    with logged() as stream:
        on_server(store, tmp_path, story)
    assert "pip" not in stream.getvalue()
    assert [line for line in events(stream.getvalue()) if line["level"] == "warning"] == []


def test_who_may_log_in_holds_few_hands_with_a_body_that_does_not_come(store, tmp_path):
    async def story(served) -> None:
        form = request(served, "POST", "/console/login", b"k", length=900).replace(b"/json", b"/x-www-form-urlencoded")
        clients = [await dialled(served, form) for _ in range(16)]
        await until(lambda: len(served.app.state.running) == 2)  # one of eight; the others are told to come again
        assert (await served.client(served.key()).get("/v1/models")).status_code == 200
        for client in clients:
            client.close()
        await until(lambda: len(served.app.state.running) == 0)

    on_server(store, tmp_path, story, serve={"concurrency": 16, "console": True})
