"""One turn of a thread at a time: in this process by a lock in memory, among processes by the ledger's."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from kb.errors import LedgerUnavailable, Locked
from kb.log import get_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractContextManager

    from crag_runtime.threads import Threads
    from kb.ledger import Ledger

SHARDS = 3  # hexadecimal digits: 4,096 lock names for all threads, so that lock files do not pile up
PATIENCE = 120.0  # seconds to wait for another process's turn
PAUSE = 0.05  # seconds between two looks


class Turns:
    """Whose turn it is. Belongs to one event loop.

    Args:
        threads: runs the ledger's calls.
        ledger: its locks exclude other processes.
        is_shared: whether threads are kept where another process may go on with them.
        patience: seconds to wait for another process.
    """

    def __init__(self, threads: Threads, ledger: Ledger, *, is_shared: bool, patience: float = PATIENCE) -> None:
        self._threads = threads
        self._ledger = ledger
        self._is_shared = is_shared
        self._patience = patience
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def of(self, key: str, *, is_known: bool) -> AsyncIterator[None]:
        """Hold a thread's turn inside the context.

        Args:
            key: hexadecimal digest that stands for the thread.
            is_known: whether anybody else can name the thread.

        Raises:
            Locked: another process has had the turn for too long.
        """
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(lock)
            if self._is_shared and is_known:
                await stack.enter_async_context(self._among_processes(f"turn:{key[:SHARDS]}"))
            yield

    @asynccontextmanager
    async def _among_processes(self, name: str) -> AsyncIterator[None]:
        held = await self._won(name)
        try:
            yield
        finally:
            if held is not None:
                await self._threads.call(held.__exit__, None, None, None)

    async def _won(self, name: str) -> AbstractContextManager[object] | None:
        """Return the lock once it is ours; None where the ledger cannot be asked, which delays no answer."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience
        while True:
            held = self._ledger.lock(name)
            entering = asyncio.ensure_future(self._threads.call(held.__enter__))
            try:
                await asyncio.shield(entering)
            except Locked:
                if loop.time() >= deadline:
                    raise
                await asyncio.sleep(PAUSE)
            except LedgerUnavailable as error:
                get_logger().warning("turn_not_locked", problem=str(error))
                return None
            except asyncio.CancelledError:
                entering.add_done_callback(partial(_let_go, held))
                raise
            else:
                return held


def _let_go(held: AbstractContextManager[object], entered: asyncio.Future[None]) -> None:
    """Free a lock that was won after nobody waited for it any more."""
    if not entered.cancelled() and entered.exception() is None:
        held.__exit__(None, None, None)
