"""Grades kept in this process: bounded, the least recently used go first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crag_runtime.ports import GradeKey
    from kb.model import Instant
    from kb.ports import Clock

MAX_ENTRIES = 20_000  # of about a kilobyte


class InProcessCache:
    """Implements `crag_runtime.ports.GradeCache`.

    Args:
        ttl_seconds: how long an entry is kept; positive.
        clock: the time.
        limit: entries at most.
    """

    def __init__(self, *, ttl_seconds: float, clock: Clock, limit: int = MAX_ENTRIES) -> None:
        self._ttl = round(ttl_seconds * 1000)
        self._clock = clock
        self._limit = limit
        self._lock = threading.Lock()
        self._entries: OrderedDict[GradeKey, tuple[str, Instant]] = OrderedDict()
        self._of_memory: dict[tuple[str, str], set[GradeKey]] = {}

    def get(self, keys: Sequence[GradeKey]) -> dict[GradeKey, str]:
        """Return what is there and not expired."""
        now = self._clock.now()
        found: dict[GradeKey, str] = {}
        with self._lock:
            for key in keys:
                entry = self._entries.get(key)
                if entry is None:
                    continue
                value, expires = entry
                if expires <= now:
                    self._forget(key)
                else:
                    self._entries.move_to_end(key)
                    found[key] = value
        return found

    def put(self, entries: Mapping[GradeKey, str]) -> None:
        """Keep entries for the time to live; what was used longest ago makes room."""
        expires = self._clock.now() + self._ttl
        with self._lock:
            for key, value in entries.items():
                self._entries[key] = (value, expires)
                self._entries.move_to_end(key)
                self._of_memory.setdefault((key.tenant, key.memory_id), set()).add(key)
            while len(self._entries) > self._limit:
                self._forget(next(iter(self._entries)))

    def purge(self, tenant: str, memory_ids: Sequence[str]) -> int:
        """Forget these memories; return how many entries went."""
        with self._lock:
            doomed = [key for id_ in set(memory_ids) for key in self._of_memory.get((tenant, id_), ())]
            for key in doomed:
                self._forget(key)
        return len(doomed)

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._of_memory.clear()

    def _forget(self, key: GradeKey) -> None:
        del self._entries[key]
        place = (key.tenant, key.memory_id)
        keys = self._of_memory[place]
        keys.discard(key)
        if not keys:
            del self._of_memory[place]
