"""Questions being worked on, each in a task of its own: it ends with who reads it, or with the runtime."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from langchain_core.runnables.config import var_child_runnable_config
from langgraph.runtime import RunControl

from kb.errors import KbError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

T = TypeVar("T")

GRACE = 5.0  # seconds that a question may go on with its current step when the runtime closes


class Closed(KbError):  # noqa: N818 - reads as the condition it states
    """The runtime is closed."""


class Runs:
    """Owns the tasks of running questions. Belongs to one event loop."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[None], RunControl] = {}
        self._is_closed = False

    def __len__(self) -> int:
        """Return how many are running."""
        return len(self._running)

    async def events(self, work: Callable[[Callable[[T], None], RunControl], Awaitable[None]]) -> AsyncGenerator[T]:
        """Yield what `work` gives to its first argument until it ends; a reader who leaves ends it.

        Args:
            work: given where to put what it makes, and the control by which it is asked to stop after its current step.

        Raises:
            Closed: the runtime is closed, or was before the work had ended.
        """
        if self._is_closed:
            raise Closed
        made: asyncio.Queue[T | None] = asyncio.Queue()
        control = RunControl()
        task = asyncio.create_task(self._worked(work, made.put_nowait, control))
        self._running[task] = control

        def ended(_task: asyncio.Task[None]) -> None:  # whoever reads may be cancelled again while it waits for this
            self._running.pop(task, None)
            if not task.cancelled():
                task.exception()  # seen: who left does not want to hear of it
            made.put_nowait(None)

        task.add_done_callback(ended)
        try:
            while (item := await made.get()) is not None:
                yield item
            await task
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def aclose(self, grace: float = GRACE) -> None:
        """Ask what runs to stop after its current step, wait `grace` seconds for it, and cut off the rest."""
        self._is_closed = True
        running = set(self._running)
        for control in self._running.values():
            control.request_drain("the runtime closes")
        if running:
            _, late = await asyncio.wait(running, timeout=grace)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    async def _worked(
        self,
        work: Callable[[Callable[[T], None], RunControl], Awaitable[None]],
        emit: Callable[[T], None],
        control: RunControl,
    ) -> None:
        var_child_runnable_config.set(None)  # else a caller's own graph would take this one for a part of it
        try:
            await work(emit, control)
        except asyncio.CancelledError:
            if self._is_closed:  # it is we who cut it off, not who reads it
                raise Closed from None
            raise
