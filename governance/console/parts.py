"""What the console works with, by shape: it is mounted in a server that it knows nothing else of."""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from kb.keys import Principal
    from kb.memories import Memories
    from kb.ports import Clock
    from kb.settings import Settings

    Getter = Callable[[], "Parts"]
    Known = Callable[[Memories, str], Principal | None]

P = ParamSpec("P")
T = TypeVar("T")


class Caller(Protocol):
    """Runs synchronous work off the event loop."""

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what the function returns."""


class Parts(Protocol):
    """The parts of a server."""

    @property
    def settings(self) -> Settings:
        """Of the server."""

    @property
    def memories(self) -> Memories:
        """The open store."""

    @property
    def threads(self) -> Caller:
        """The way to synchronous work."""

    @property
    def clock(self) -> Clock:
        """The clock of the store."""

    @property
    def is_open(self) -> bool:
        """Whether no key is asked for."""
