"""Where the other faces hang: MCP at /mcp, the review console at /console; each an application of its own.

Both are handed how to reach the server's parts, not the parts: they are made before these are there. The console is of
a lane that knows nothing of serving: it takes what it needs by shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from serving.principal import known

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.applications import Starlette

    from kb.settings import Settings
    from serving.service import Service

    Getter = Callable[[], Service]

MCP, CONSOLE = "/mcp", "/console"


def made(settings: Settings, service: Getter) -> dict[str, Starlette]:
    """Return the faces that the settings ask for and that are installed, by their paths. Imports them: seconds."""
    faces: dict[str, Starlette] = {}
    if settings.serve.mcp:
        from serving.mcp import mcp_app  # noqa: PLC0415 - its library takes a second

        faces[MCP] = mcp_app(service)
    if settings.serve.console:
        from governance.console import console_app  # noqa: PLC0415 - likewise

        faces[CONSOLE] = console_app(service, known=known)
    return faces
