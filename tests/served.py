"""A server for tests, on the test's own loop and a free port: real HTTP, a real store and graph, the models fake."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from kb.keys import Holder, KeyScope, minted
from kb.settings import Settings
from serving.app import create_app
from serving.run import Server, listening, url_of
from tests.asking import open_runtime
from tests.durable import graded, remember
from tests.fakes.evaluator import FakeEvaluator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from fastapi import FastAPI

    from crag_runtime.runtime import CragRuntime
    from kb.memories import Memories

OPENS = "When does the bridge open?"
NOON = "The bridge opens at noon for tall ships."
PLENTY = {"burst": 100_000, "rate_per_minute": 1e9, "mcp": False, "console": False}


@dataclass
class Served:
    """A running server.

    Args:
        url: of it.
        app: the application.
        memories: its store.
        runtime: its runtime.
        server: what listens.
    """

    url: str
    app: FastAPI
    memories: Memories
    runtime: CragRuntime
    server: Server
    clients: list[httpx.AsyncClient] = field(default_factory=list)

    def key(
        self,
        *scopes: KeyScope,
        name: str = "ada",
        tenant: str = "default",
        holder: Holder = Holder.PERSON,
        **more: Any,
    ) -> str:
        """Make a key, of the scope query unless others are given, and return its text."""
        return key_in(self.memories, scopes or (KeyScope.QUERY,), name=name, tenant=tenant, holder=holder, **more)

    def client(self, key: str | None = None, **options: Any) -> httpx.AsyncClient:
        """Return a client that shows a key; it is closed with the server."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        client = httpx.AsyncClient(base_url=self.url, headers=headers, timeout=60, **options)
        self.clients.append(client)
        return client


def key_in(
    memories: Memories, scopes: Iterable[KeyScope], *, name: str, tenant: str, holder: Holder, **more: Any
) -> str:
    """Make a key in a store and return its text."""
    key, text = minted(name, tenant, scopes, holder, memories.clock.now(), **more)
    with memories.ledger.write() as tx:
        tx.keys.add(key)
    return text


@asynccontextmanager
async def open_server(
    memories: Memories,
    data_dir: Path,
    *,
    serve: dict[str, Any] | None = None,
    is_open: bool = False,
    is_waited_for: bool = True,
    ask: dict[str, Any] | None = None,
    **parts: Any,
) -> AsyncIterator[Served]:
    """Serve a store on a free port. `parts` are those of `open_runtime`."""
    given: Any = {"serve": {**PLENTY, **(serve or {})}, **({"ask": ask} if ask else {})}
    settings = Settings(data_dir=data_dir, **given)
    runtimes: list[CragRuntime] = []

    @asynccontextmanager
    async def opening() -> AsyncIterator[tuple[Memories, CragRuntime]]:
        async with open_runtime(memories, data_dir, **{"evaluator": FakeEvaluator(graded), **parts}) as runtime:
            runtimes.append(runtime)
            yield memories, runtime

    app = create_app(settings, is_open=is_open, opening=opening)
    with listening("127.0.0.1", 0) as place:
        server = Server(app)
        serving = asyncio.create_task(server.serve(sockets=[place]))
        await server.listens.wait()
        if is_waited_for:
            await app.state.ready.wait()
        runtime: Any = runtimes[-1] if runtimes else None
        served = Served(url_of(place), app, memories, runtime, server)
        try:
            yield served
        finally:
            for client in served.clients:
                await client.aclose()
            server.should_exit = True
            await serving


def with_bridge(memories: Memories, *tenants: str) -> Memories:
    """Put what OPENS asks for into tenants, and return the store."""
    for tenant in tenants or ("default",):
        remember(memories, NOON, tenant=tenant)
    return memories


def events_of(text: str) -> list[tuple[str, str]]:
    """Return the events of a stream as their names and data."""
    blocks = [block for block in text.split("\n\n") if block.strip() and not block.startswith(":")]
    found = []
    for block in blocks:
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        found.append((fields.get("event", ""), fields["data"]))
    return found
