"""A runtime on an event loop of its own, for callers that are synchronous, or on any loop: LangChain's faces use it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from langchain_core.runnables.config import var_child_runnable_config

from crag_runtime.wiring import build_runtime
from kb.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future
    from contextlib import AbstractAsyncContextManager
    from typing import Any

    from crag_runtime.runtime import CragRuntime
    from kb.memories import Memories
    from kb.settings import Settings

    Opening = Callable[[], AbstractAsyncContextManager[CragRuntime]]

T = TypeVar("T")


class HostedRuntime:
    """Owns a thread with an event loop, and the runtime that lives there. Opened at first use; thread-safe.

    A context manager, with `async` too; or `close` it. An opening that failed is tried again by the next call.

    Args:
        settings: of the runtime and of the store.
        memories: an open store to use; None opens the configured one.
        open_runtime: opens a runtime made of the caller's own parts, and closes it after; entered and left in one
            task, on the host's loop. None: as the settings say.
    """

    def __init__(
        self, settings: Settings, memories: Memories | None = None, *, open_runtime: Opening | None = None
    ) -> None:
        self._tenant = settings.tenant
        self._open = open_runtime or partial(build_runtime, settings, memories)
        self._lock = threading.Lock()
        self._residence: _Residence | None = None
        self._is_closed = False

    @property
    def tenant(self) -> str:
        """The tenant of callers that name none."""
        return self._tenant

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.aclose()

    def run(self, work: Callable[[CragRuntime], Coroutine[Any, Any, T]]) -> T:
        """Return what `work` returns, from any thread but the runtime's own; the work ends when the wait is broken off.

        Raises:
            InputError: the host is closed.
            KbError: the runtime cannot be opened, or the work failed.
        """
        future = self._submitted(work)
        try:
            return future.result()
        finally:
            future.cancel()

    async def arun(self, work: Callable[[CragRuntime], Coroutine[Any, Any, T]]) -> T:
        """Return what `work` returns, on any event loop, without blocking it; see `run`."""
        return await asyncio.wrap_future(self._submitted(work))

    def close(self) -> None:
        """Let running calls finish, close the runtime and end its thread; closing twice is no error."""
        with self._lock:
            self._is_closed = True
            residence, self._residence = self._residence, None
        if residence is not None:
            residence.leave()

    async def aclose(self) -> None:
        """Close without blocking the event loop; see `close`."""
        await asyncio.to_thread(self.close)

    def _submitted(self, work: Callable[[CragRuntime], Coroutine[Any, Any, T]]) -> Future[T]:
        with self._lock:
            if self._is_closed:
                raise InputError("the host of the runtime is closed")
            if self._residence is None:
                self._residence = _Residence(self._open)
            return self._residence.submitted(work)


class _Residence:
    """The thread, its loop, and the one task that opens and closes the runtime there."""

    def __init__(self, open_runtime: Opening) -> None:
        self._open = open_runtime
        self._loop = asyncio.new_event_loop()
        self._running: set[Future[Any]] = set()
        self._owner: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[CragRuntime] | None = None
        self._leaving = asyncio.Event()
        self._thread = threading.Thread(target=self._live, name="kb-hosted", daemon=True)
        self._thread.start()

    def submitted(self, work: Callable[[CragRuntime], Coroutine[Any, Any, T]]) -> Future[T]:
        """Start work on the loop. One caller at a time."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("work on the runtime's own loop cannot wait for it: await the runtime itself")
        future = asyncio.run_coroutine_threadsafe(self._working(work), self._loop)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future

    def leave(self) -> None:
        """Wait for running work, close the runtime, end the thread."""
        concurrent.futures.wait(tuple(self._running))
        try:
            asyncio.run_coroutine_threadsafe(self._closed(), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _live(self) -> None:
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(_ended(asyncio.all_tasks(self._loop)))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()

    async def _working(self, work: Callable[[CragRuntime], Coroutine[Any, Any, T]]) -> T:
        var_child_runnable_config.set(None)  # else the runtime's graph would run as a part of the caller's own graph
        return await work(await self._runtime())

    async def _runtime(self) -> CragRuntime:
        """Return the runtime, opened by the first that asks; the others wait."""
        if self._owner is None or self._owner.done() or self._opened is None:
            self._opened = self._loop.create_future()
            self._owner = self._loop.create_task(self._owned(self._opened), context=Context())
        owner, opened = self._owner, self._opened
        waited: set[asyncio.Future[Any]] = {owner, opened}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if not opened.done():
            owner.result()  # raises why it could not be opened
        return opened.result()

    async def _owned(self, opened: asyncio.Future[CragRuntime]) -> None:
        async with self._open() as runtime:
            opened.set_result(runtime)
            await self._leaving.wait()

    async def _closed(self) -> None:
        self._leaving.set()
        if self._owner is not None and self._opened is not None and self._opened.done():
            await self._owner
        elif self._owner is not None:  # an opening that nobody waits for any more: how it ends is nobody's concern
            await _ended({self._owner})


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    """Wait for what was cancelled to unwind."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
