"""A runtime on an event loop of its own, for callers that are synchronous, or on any loop: LangChain's faces use it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self, TypeVar

from crag_runtime.wiring import build_runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

    from crag_runtime.runtime import CragRuntime
    from kb.memories import Memories
    from kb.settings import Settings

T = TypeVar("T")


class HostedRuntime:
    """Owns a thread with an event loop, and the runtime that lives there. Opened at first use; thread-safe."""

    def __init__(self, settings: Settings, memories: Memories | None = None) -> None:
        self._settings = settings
        self._memories = memories
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stack = AsyncExitStack()
        self._runtime: CragRuntime | None = None

    @property
    def tenant(self) -> str:
        """The tenant of callers that name none."""
        return self._settings.tenant

    @property
    def approve(self) -> str:
        """Who decides on paid searches: ask, always or never."""
        return self._settings.search.approve

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def run(self, work: Callable[[CragRuntime], Coroutine[object, object, T]]) -> T:
        """Return what `work` returns, from any thread but the runtime's own."""
        return self._submitted(work).result()

    async def arun(self, work: Callable[[CragRuntime], Coroutine[object, object, T]]) -> T:
        """Return what `work` returns, on any event loop, without blocking it."""
        future = await asyncio.to_thread(self._submitted, work)
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Close the runtime and end its thread; closing twice is no error."""
        with self._starting:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
            if loop is None or thread is None:
                return
            asyncio.run_coroutine_threadsafe(self._stack.aclose(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
            self._runtime = None

    def _submitted(self, work: Callable[[CragRuntime], Coroutine[object, object, T]]) -> Future[T]:
        loop = self._started()

        async def with_runtime() -> T:
            return await work(await self._opened())

        return asyncio.run_coroutine_threadsafe(with_runtime(), loop)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._opening = asyncio.Lock()
                self._thread = threading.Thread(target=self._loop.run_forever, name="kb-hosted", daemon=True)
                self._thread.start()
            return self._loop

    async def _opened(self) -> CragRuntime:
        async with self._opening:
            if self._runtime is None:
                opening = build_runtime(self._settings, self._memories)
                self._runtime = await self._stack.enter_async_context(opening)
            return self._runtime
