"""An event loop that measures how long its own callbacks hold it."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class MeasuredLoop(asyncio.SelectorEventLoop):
    """Times every callback: `worst_cpu` is what the loop's own thread computed, `worst_wall` what its clock says.

    On a busy machine the wall clock counts other processes and waits for the interpreter's lock too; a sleep or a
    blocking call shows in it alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.worst_cpu = self.worst_wall = 0.0  # seconds
        self.worst = ""

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.Handle:
        return super().call_soon(self._timed, callback, *args, context=context)

    def forget(self) -> None:
        """Measure anew."""
        self.worst_cpu = self.worst_wall = 0.0

    def _timed(self, callback: Callable[..., Any], *args: Any) -> None:
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            callback(*args)
        finally:
            wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
            self.worst_wall = max(self.worst_wall, wall)
            if cpu > self.worst_cpu:
                self.worst_cpu, self.worst = cpu, repr(getattr(callback, "__self__", callback))[:300]


def run_measured(main: Coroutine[Any, Any, Any]) -> None:
    """Run on a measured loop, with all that other tests have left put out of the garbage collector's sight."""
    gc.collect()
    gc.freeze()
    try:
        with asyncio.Runner(loop_factory=MeasuredLoop) as runner:
            runner.run(main)
    finally:
        gc.unfreeze()
