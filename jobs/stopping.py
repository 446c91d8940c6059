"""Tells a daemon to end: from a signal, from any thread, and so that who waits wakes at once."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Set once. Unlike the library's event it has no lock, so a signal's handler may set it while it is waited for."""

    def __init__(self) -> None:
        self._is_set = False
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)

    def set(self) -> None:
        """Tell everybody to end."""
        self._is_set = True
        with contextlib.suppress(OSError):  # full: who waits is awake already
            os.write(self._writing, b".")

    def is_set(self) -> bool:
        """Return whether it is time to end."""
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Wait at most so long to be told; return whether it is time to end. Steps of the clock do not matter."""
        if not self._is_set:
            select.select([self._reading], [], [], max(0.0, seconds))
        return self._is_set

    def close(self) -> None:
        """Free what it holds."""
        os.close(self._reading)
        os.close(self._writing)


@contextmanager
def ended_by_signals() -> Iterator[Stop]:
    """Give a stop that SIGTERM and SIGINT set, inside the context; of the main thread."""
    stop = Stop()

    def told(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, told) for number in ENDING}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        stop.close()
