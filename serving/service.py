"""What every endpoint works with: settings, the open store, the runtime, and threads for the synchronous core."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crag_runtime.runtime import CragRuntime
    from crag_runtime.threads import Threads
    from kb.memories import Memories
    from kb.ports import Clock
    from kb.settings import Settings


@dataclass(slots=True)
class Traffic:
    """How the server stands; changed by its lifespan only.

    Args:
        is_ready: the runtime is open and its models are loaded.
        is_draining: it has been told to end: running requests end, new ones get 503.
    """

    is_ready: bool = False
    is_draining: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The parts of a server; made in `serving.app`'s lifespan, found at `request.app.state.service`.

    Args:
        settings: of the server.
        memories: the open store, of every tenant.
        runtime: belongs to the server's event loop.
        threads: the way to synchronous work: `await service.threads.call(function, *arguments)`.
        is_open: no key is asked for: everybody is a person of the default tenant who may do everything. Loopback only.
        traffic: how the server stands.
    """

    settings: Settings
    memories: Memories
    runtime: CragRuntime
    threads: Threads
    is_open: bool = False
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def clock(self) -> Clock:
        """The clock of the store."""
        return self.memories.clock
