"""The application: its routes, what stands before them, and the life of the store and runtime behind them."""

from __future__ import annotations

import asyncio
import importlib
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from fastapi import FastAPI

from kb.errors import KbError
from serving import failures, mounts
from serving.description import described
from serving.limits import opened_buckets
from serving.middleware import layered
from serving.routes import ask, chat, governance, health, ingest, memories, search
from serving.service import Service, Traffic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from crag_runtime.runtime import CragRuntime
    from kb.memories import Memories
    from kb.ports import Clock
    from kb.settings import Settings

    Opening = Callable[[], AbstractAsyncContextManager[tuple[Memories, CragRuntime]]]

WARMING = "warm 预热"  # words that are cut by rules, and words that need a dictionary
HEAVY = ("crag_runtime.checkpoints", "crag_runtime.graph", "crag_runtime.runtime", "crag_runtime.objects", "kb.search")


def create_app(
    settings: Settings,
    *,
    clock: Clock | None = None,
    is_open: bool = False,
    opening: Opening | None = None,
    has_docs: bool = False,
) -> FastAPI:
    """Return the application; it opens and closes what is behind it in its lifespan.

    Its state holds `service` (None until it is there), `traffic`, `running`, `ready`
    (an event) and `owner`: the task that opens the parts,
    and fails when they cannot be opened.

    Args:
        settings: of the server, the store and the runtime.
        clock: the time; None: the machine's.
        is_open: no key is asked for; only on loopback.
        opening: opens the store and the runtime, on the server's loop; None: as the settings say.
        has_docs: whether the description of the interface is browsable at /docs; its scripts come from elsewhere.
    """
    app = FastAPI(
        openapi_url="/openapi.json",
        docs_url="/docs" if has_docs else None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # ours says it, in our words, once
        lifespan=partial(_life, settings, opening or partial(open_parts, settings, clock), is_open),
    )
    buckets = opened_buckets(settings.serve)
    traffic = Traffic()
    state = app.state
    state.settings, state.traffic, state.buckets, state.service, state.looks = settings, traffic, buckets, None, {}
    state.ready = asyncio.Event()
    state.running = layered(app, settings.serve, traffic, is_open=is_open, buckets=buckets)
    failures.install(app)
    for module in (health, ask, search, chat, memories, ingest, governance):
        app.include_router(module.router)
    app.openapi = partial(described, app)  # type: ignore[method-assign] # as the framework's own manual does
    return app


@asynccontextmanager
async def open_parts(settings: Settings, clock: Clock | None) -> AsyncIterator[tuple[Memories, CragRuntime]]:
    """Open the store and a warm runtime as the settings say, without holding up the loop; close them after.

    Raises:
        KbError: something that is needed cannot be reached, or a setting is wrong.
    """
    from crag_runtime.wiring import build_runtime  # noqa: PLC0415 - only where no other parts are given
    from kb.clock import SystemClock  # noqa: PLC0415
    from kb.memories import open_memories  # noqa: PLC0415
    from kb.tokens import cl100k_count  # noqa: PLC0415

    await asyncio.to_thread(_loaded)
    from kb.search import SearchRequest  # noqa: PLC0415 - loaded by now

    async with AsyncExitStack() as stack:
        store = open_memories(settings, clock or SystemClock())
        memories = await asyncio.to_thread(store.__enter__)
        stack.push_async_callback(asyncio.to_thread, store.__exit__, None, None, None)
        await asyncio.to_thread(memories.search, SearchRequest(question=WARMING, tenant=settings.tenant, k=1))
        await asyncio.to_thread(cl100k_count, WARMING)
        building = build_runtime(settings, memories, clock=clock, threads=settings.serve.threads, is_warm=True)
        yield memories, await stack.enter_async_context(building)


@asynccontextmanager
async def _life(settings: Settings, opening: Opening, is_open: bool, app: FastAPI) -> AsyncIterator[None]:  # noqa: FBT001 - of a partial
    """Begin to open what is behind the app, and let it answer probes meanwhile; close everything in the end.

    One task opens and closes, for what is entered in a task must be left in it.
    """
    leaving = asyncio.Event()
    owner = app.state.owner = asyncio.create_task(_owned(app, settings, opening, leaving, is_open=is_open))
    try:
        yield
    finally:
        leaving.set()
        await asyncio.wait({owner})
        await app.state.buckets.aclose()
        if not owner.cancelled():
            owner.exception()  # seen: whoever serves the app has been told


async def _owned(app: FastAPI, settings: Settings, opening: Opening, leaving: asyncio.Event, *, is_open: bool) -> None:
    from crag_runtime.threads import Threads  # noqa: PLC0415 - beside its only use
    from kb.vitals import watching  # noqa: PLC0415

    faces = await asyncio.to_thread(mounts.made, settings, partial(_service_of, app))
    async with AsyncExitStack() as stack:
        memories, runtime = await stack.enter_async_context(opening())
        threads = Threads(settings.serve.threads)
        stack.push_async_callback(threads.aclose)
        stack.enter_context(watching(memories.ledger, settings, memories.clock))
        app.state.service = Service(
            settings=settings,
            memories=memories,
            runtime=runtime,
            threads=threads,
            is_open=is_open,
            traffic=app.state.traffic,
        )
        for path, face in faces.items():
            await stack.enter_async_context(face.router.lifespan_context(face))
            app.mount(path, face)
        app.state.traffic.is_ready = True
        app.state.ready.set()
        await leaving.wait()
        app.state.traffic.is_ready = False


def _service_of(app: FastAPI) -> Service:
    """Return the parts of a server.

    Raises:
        KbError: they are not there yet, or not any more.
    """
    found: Service | None = app.state.service
    if found is None:
        raise KbError("the server is starting")
    return found


def _loaded() -> None:
    """Load the libraries that take seconds, in a thread: between their parts the loop goes on."""
    for module in HEAVY:
        importlib.import_module(module)
