"""`kb memory trace`: where a memory came from, and all that was made from it."""

from __future__ import annotations

from typing import Annotated

import typer

from kb_cli import render
from kb_cli.session import AsJson, Tenant, opened, settings_of

Up = Annotated[bool, typer.Option("--up", help="Only where it came from.")]
Down = Annotated[bool, typer.Option("--down", help="Only what was made from it.")]


def trace_memory(
    id_: Annotated[str, typer.Argument(metavar="ID", help="A memory's or an answer's id.")],
    up: Up = False,
    down: Down = False,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Show where a memory came from, and the answers and notes that were made from it, all the way."""
    from governance.lineage import lines, traced
    from kb_cli.values import readable

    readable(id_)
    settings = settings_of(tenant=tenant)
    with opened(settings) as memories:
        trace = traced(memories, id_, settings.tenant, up=up or not down, down=down or not up)
    if as_json:
        render.emit_json(trace.as_json())
    else:
        render.say(*lines(trace))
