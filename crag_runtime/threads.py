"""The one bridge from the async graph to the synchronous core: a bounded pool of threads."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from kb.errors import KbError

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """Runs synchronous calls off the event loop. A cancelled wait leaves its thread to finish by itself."""

    def __init__(self, workers: int = 4) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="kb-runtime")

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return `function(*args, **kwargs)`, run in a thread that sees the caller's context variables.

        A call whose wait is cancelled before a thread was free for it is never made.

        Raises:
            KbError: the pool is closed.
        """
        context = copy_context()
        work = partial(context.run, partial(function, *args, **kwargs))
        try:
            future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        except RuntimeError as error:
            raise KbError("the runtime is closed") from error
        return await future

    async def aclose(self) -> None:
        """Close without holding up the event loop."""
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Let running calls finish; start no new one."""
        self._pool.shutdown(wait=True, cancel_futures=True)
