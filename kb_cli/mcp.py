"""`kb mcp`: the tools of the runtime for one local agent, over standard input and output."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from kb_cli.session import Tenant, clock, settings_of

Name = Annotated[str, typer.Option("--name", help="Who the agent is; stands in the journal and with its notes.")]


def mcp(name: Name = "agent", tenant: Tenant = None) -> None:
    """Serve MCP over stdio: an agent's tools to ask, search, remember and trace. It can verify nothing."""
    from kb.errors import InputError
    from kb.keys import NAME_BYTES
    from kb_cli.values import readable
    from serving.mcp import stdio

    readable(name)
    if not name.strip() or len(name.encode()) > NAME_BYTES:
        raise InputError(f"the agent needs a name of at most {NAME_BYTES} bytes", hint="--name")
    asyncio.run(stdio(settings_of(tenant=tenant), clock(), name))
