"""Whoever calls decides neither how many series there are, nor what stands in a span, a label or a line of the log."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from kb import telemetry
from kb.keys import KeyScope
from tests.fakes.collector import Collector
from tests.served import OPENS, open_server, with_bridge
from tests.tracing import logged

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from kb.memories import Memories
    from tests.served import Served

HOSTILE = "zebra"  # in everything that a caller may choose
KNOWN = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "_OTHER"}
MANY = 3
LABELLED = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


async def called(client: httpx.AsyncClient, number: int) -> None:
    """Make one request of every kind, each with names that no other has."""
    odd = f"{HOSTILE}{number}"
    chat = {"model": odd, "messages": [{"role": "user", "content": odd}]}
    calls: list[tuple[str, str, dict[str, Any]]] = [
        (f"X{odd}".upper(), "/v1/ask", {}),
        ("GET", f"/{odd}/{odd}", {}),
        ("GET", f"/console/{odd}", {}),
        ("GET", f"/mcp/{odd}", {}),
        ("GET", f"/v1/memories/{odd}", {}),
        ("POST", f"/v1/memories/{odd}/{odd}", {"json": {}}),
        ("GET", "/v1/models", {"headers": {"host": f"{odd}.example"}}),
        ("GET", f"/v1/models/{odd}", {"headers": {"user-agent": odd, "x-request-id": "r" + "0" * 8}}),
        ("POST", "/v1/chat/completions", {"json": chat}),
        ("POST", "/v1/search", {"json": {"question": odd, "mode": odd, "tenant": odd}}),
    ]
    for method, path, options in calls:
        assert (await client.request(method, path, **options)).status_code < 500


async def used(client: httpx.AsyncClient) -> None:
    """Store, ask, search and judge, with words that are nobody's but the user's."""
    text = f"The {HOSTILE} crossing has forty stripes."
    made = await client.post("/v1/memories", json={"text": text})
    assert made.status_code == 201, made.text
    answer = (await client.post("/v1/ask", json={"question": f"How many stripes has the {HOSTILE} crossing?"})).json()
    await client.post("/v1/ask", json={"question": OPENS})
    assert (await client.post("/v1/search", json={"question": f"{HOSTILE} stripes"})).json()["hits"]
    judged = {"good": True, "by": HOSTILE}
    said = await client.post(f"/v1/answers/{answer['answer_id']}/feedback", json=judged)
    verified = await client.post(f"/v1/memories/{made.json()['id']}/verify", json={"reason": f"the {HOSTILE} is known"})
    assert (said.status_code, verified.status_code) == (200, 200), (said.text, verified.text)


def test_no_caller_makes_series_and_no_word_of_a_user_is_in_what_operators_see(store: Memories, tmp_path: Path) -> None:
    with_bridge(store)

    async def story(served: Served) -> str:
        client = served.client(served.key(*KeyScope))
        await used(client)
        for number in range(MANY):
            await called(client, number)
        return (await client.get("/metrics")).text

    async def serving() -> str:
        async with open_server(store, tmp_path, serve={"mcp": True, "console": True}) as served:
            return await story(served)

    with logged("debug") as written, Collector() as collector:
        telemetry.configure(collector.endpoint, prometheus=True)
        try:
            page = asyncio.run(serving())
        finally:
            telemetry.shutdown()
    lines = [line for line in page.splitlines() if line.startswith("kb_http_requests_total{")]
    labels = [dict(LABELLED.findall(line)) for line in lines]
    assert {label["method"] for label in labels} <= KNOWN
    assert "_OTHER" in {label["method"] for label in labels}
    assert "unmatched" in {label["route"] for label in labels}
    assert HOSTILE not in page.lower()
    assert collector.spans
    assert HOSTILE not in " ".join(map(str, collector.spans)).lower()
    told = [line for line in written.getvalue().splitlines() if '"event": "request_served"' not in line]  # has its path
    assert HOSTILE not in "\n".join(told).lower()
    assert "stripes" not in written.getvalue()
