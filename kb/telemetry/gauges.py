"""Gauges: read now and then in a thread of their own, never by who asks or is asked for an answer."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kb.telemetry.state import STATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kb.telemetry.names import Metric

PATIENCE_S = 2.0  # that a collection waits for a reading under way; then it takes the last one
STALE = 3  # intervals after which a reading tells nothing any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One value of a gauge, by its labels."""

    metric: Metric
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


class Watch:
    """The last readings of one source. A collection that finds them old has them read anew, at most one at a time.

    Args:
        read: reads; may block for as long as its database lets it wait; raises nothing.
        every: seconds that a reading is good for.
        clock: tells seconds.
    """

    def __init__(
        self, read: Callable[[], Sequence[Reading]], every: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._every = every
        self._clock = clock
        self._lock = threading.Lock()
        self._reading: threading.Event | None = None
        self._last: Sequence[Reading] = ()
        self._at: float | None = None

    def readings(self) -> Sequence[Reading]:
        """Return the last readings; none when they are too old to be told."""
        with self._lock:
            is_due = self._at is None or self._clock() - self._at >= self._every
            if is_due and self._reading is None:
                self._reading = threading.Event()
                threading.Thread(target=self._refresh, args=(self._reading,), name="kb-gauges", daemon=True).start()
            under_way = self._reading
        if under_way is not None:
            under_way.wait(PATIENCE_S)
        with self._lock:
            is_stale = self._at is None or self._clock() - self._at > STALE * self._every + PATIENCE_S
            return () if is_stale else self._last

    def _refresh(self, done: threading.Event) -> None:
        try:
            found = self._read()
            with self._lock:
                self._last, self._at = found, self._clock()
        finally:
            with self._lock:
                self._reading = None
            done.set()

    def settle(self) -> None:
        """Wait for a reading under way, so that what it reads from may be closed."""
        with self._lock:
            under_way = self._reading
        if under_way is not None:
            under_way.wait()


@contextmanager
def watched(read: Callable[[], Sequence[Reading]], *, every_seconds: float) -> Iterator[None]:
    """Have the gauges read from `read` inside the context, at most once in so many seconds."""
    watch = Watch(read, every_seconds)
    STATE.watches.append(watch)
    try:
        yield
    finally:
        STATE.watches.remove(watch)
        watch.settle()


def current(metric: Metric) -> list[Reading]:
    """Return what is known of a gauge now."""
    return [reading for watch in STATE.watches for reading in watch.readings() if reading.metric is metric]
