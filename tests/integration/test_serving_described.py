"""The described interface under whatever fits it, and whatever does not: never a 5xx, never a secret, never a crash."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.generation import GenerationMode

from kb.keys import KeyScope
from tests.served import open_server, with_bridge
from tests.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JSON = "application/json"
OURS = [
    ("POST", "/v1/ask"),
    ("POST", "/v1/ask/resume"),
    ("POST", "/v1/search"),
    ("POST", "/v1/chat/completions"),
    ("GET", "/v1/models/{model}"),
]
EXAMPLES = 12  # of each path and kind


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A server on a loop in a thread: its URL and a key that may everything."""
    folder: Path = tmp_path_factory.mktemp("described")
    ready: list[tuple[str, str]] = []
    begun, leaving = threading.Event(), threading.Event()

    async def serving() -> None:
        with open_store(folder / "data") as store:
            async with open_server(with_bridge(store), folder / "data") as served:
                ready.append((served.url, served.key(*KeyScope)))
                begun.set()
                await asyncio.to_thread(leaving.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serving()))
    thread.start()
    assert begun.wait(120)
    yield ready[0]
    leaving.set()
    thread.join()


@pytest.fixture(scope="module")
def schema(live: tuple[str, str]) -> Any:
    return schemathesis.openapi.from_url(f"{live[0]}/openapi.json")


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize(("method", "path"), OURS)
def test_whatever_is_sent_to_a_described_path_gets_a_described_reply(live, schema, method, path, mode):
    operation = schema[path][method]
    check_of = schemathesis.checks.CHECKS.get_one
    checks = [check_of(name) for name in ("not_a_server_error", "status_code_conformance", "content_type_conformance")]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    def holds(case: Any) -> None:
        response = case.call(headers={"Authorization": f"Bearer {live[1]}"}, timeout=60)
        assert response.status_code < 500, response.text
        case.validate_response(response, checks=checks)

    holds()


def test_whatever_headers_and_bodies_come_the_server_answers_and_lives_on(live):
    url, key = live
    chance = random.Random(5)
    secret = key.split("_", 2)[2]

    def noise(most: int) -> bytes:
        return chance.randbytes(chance.randrange(most))

    def header() -> bytes:
        return bytes(b for b in noise(60) if b not in b"\r\n\x00").strip()

    with httpx.Client(base_url=url, timeout=60) as client:
        for turn in range(150):
            good = {"Authorization": f"Bearer {key}"} if turn % 2 else {"Authorization": header()}
            odd = {
                "X-Request-ID": header(),
                "traceparent": header(),
                "Accept": header(),
                "Content-Type": "application/json",
            }
            body = json.dumps(
                {"question": noise(50).decode("latin-1"), "k": chance.choice([1, -1, 1e400, None, [], {}])}
            )
            content = body.encode() if turn % 3 else noise(400)
            path = chance.choice(["/v1/search", "/v1/ask", "/v1/chat/completions", "/v1/models/%00%ff", "/%2e%2e/x"])
            try:
                reply = client.post(path, content=content, headers={**odd, **good})
            except httpx.LocalProtocolError:
                continue  # the client itself does not send it
            assert reply.status_code < 500, (path, content, reply.text)
            assert secret not in reply.text
        assert client.get("/healthz").status_code == 200
