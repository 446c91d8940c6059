"""The jobs' daemon in a thread of the server's process: its lease, slots and health are those of `kb daemon`."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from jobs.daemon import Daemon
from jobs.stopping import Stop
from kb.ledger import open_configured
from kb.log import get_logger
from kb.memories import open_memories

if TYPE_CHECKING:
    from kb.ports import Clock
    from kb.settings import Settings


class DaemonBeside:
    """Runs the daemon while its context is open.

    Args:
        settings: all of them.
        clock: the time.

    Raises:
        ConfigError: a schedule of `[jobs]` is none.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.ended = asyncio.Event()  # by itself: it should not have
        self.problem: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = Stop()
        with ExitStack() as stack:
            stack.callback(self._stop.close)
            ledger = stack.enter_context(open_configured(settings))
            self._daemon = Daemon(
                settings,
                ledger,
                clock=clock,
                open_memories=lambda: open_memories(settings, clock),
                stop=self._stop,
            )
            self._held = stack.pop_all()
        self._thread = threading.Thread(target=self._run, name="kb-daemon")

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        return self

    async def __aexit__(self, *_raised: object) -> None:
        self.stop()
        await asyncio.to_thread(self._thread.join)
        self._held.close()

    def stop(self) -> None:
        """Tell it to end, after the batches that run."""
        self._stop.set()

    def _run(self) -> None:
        try:
            self._daemon.serve()
        except Exception as error:  # noqa: BLE001 - raised again by who serves
            self.problem = error
            get_logger().error("daemon_failed", exc_info=error)
        if not self._stop.is_set() and self._loop is not None:
            self._loop.call_soon_threadsafe(self.ended.set)
