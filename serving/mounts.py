"""Where the other faces hang: MCP at /mcp, the review console at /console; each an application of its own.

Both are handed how to reach the server's parts, not the parts: they are made before these are there. The console is of
a lane that knows nothing of serving: it takes what it needs by shape.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol

from serving.principal import known

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.applications import Starlette

    from kb.keys import Principal
    from kb.memories import Memories
    from kb.settings import Settings
    from serving.service import Service

    Getter = Callable[[], Service]

MCP, CONSOLE = "/mcp", "/console"


class McpFace(Protocol):
    """`serving.mcp.mcp_app`. Its lifespan is entered once the parts are there, and left before they go."""

    def __call__(self, service: Getter) -> Starlette:
        """Return the face."""


class ConsoleFace(Protocol):
    """`governance.console.console_app`."""

    def __call__(self, service: Getter, *, known: Callable[[Memories, str], Principal | None]) -> Starlette:
        """Return the face.

        Args:
            service: returns the server's parts: settings, memories, threads, clock and is_open.
            known: returns whom a key's text stands for, None when it opens nothing; it reads the ledger.
        """


def made(settings: Settings, service: Getter) -> dict[str, Starlette]:
    """Return the faces that the settings ask for and that are installed, by their paths. Imports them: seconds."""
    faces: dict[str, Starlette] = {}
    mcp: McpFace | None = _exported("serving.mcp", "mcp_app") if settings.serve.mcp else None
    if mcp is not None:
        faces[MCP] = mcp(service)
    console: ConsoleFace | None = _exported("governance.console", "console_app") if settings.serve.console else None
    if console is not None:
        faces[CONSOLE] = console(service, known=known)
    return faces


def _exported(module: str, name: str):  # type: ignore[no-untyped-def] # noqa: ANN202 - each caller says which it takes
    if importlib.util.find_spec(module) is None:
        return None
    return getattr(importlib.import_module(module), name, None)
