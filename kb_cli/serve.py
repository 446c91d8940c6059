"""`kb serve`: HTTP, MCP and the console over the same store."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from kb_cli import render
from kb_cli.acting import refuse_agents
from kb_cli.session import AsJson, clock, loaded, log_by_default, switch_on

Host = Annotated[str | None, typer.Option("--host", help="Address to listen on; default: the `serve.host` setting.")]
Port = Annotated[int | None, typer.Option("--port", min=0, max=65_535, help="Its port; 0 for any free one.")]
WithDaemon = Annotated[bool, typer.Option("--with-daemon", help="Run the jobs, too, as `kb daemon` does.")]
Open = Annotated[bool, typer.Option("--open", help="Ask for no key; only on loopback.")]
Docs = Annotated[
    bool, typer.Option("--docs", help="Let the interface be browsed at /docs; its scripts come from elsewhere.")
]


def serve(
    context: typer.Context,
    host: Host = None,
    port: Port = None,
    with_daemon: WithDaemon = False,
    open_: Open = False,
    docs: Docs = False,
    as_json: AsJson = False,
) -> None:
    """Serve HTTP until SIGTERM or Ctrl-C; then let running requests end and exit 0. A second signal ends at once.

    /healthz answers at once, /readyz once the models are loaded. `kb key create` makes the keys that callers show.
    """
    if with_daemon:
        refuse_agents("run the jobs", "they prune, erase and vouch", "leave --with-daemon out")
    if open_:
        refuse_agents("serve without keys", "every caller would be a person", "`kb mcp` serves an agent")
    log_by_default(context)
    given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    settings = loaded(serve=given or None)
    switch_on(settings, prometheus=True)
    from serving.run import Manner
    from serving.run import serve as run

    def listening(url: str) -> None:
        render.tell(f"serving at {url}" + (", open to everybody on this machine" if open_ else ""))

    def ready(url: str) -> None:
        if as_json:
            render.emit_json({"event": "ready", "url": url, "pid": os.getpid()})

    run(
        settings,
        clock(),
        Manner(is_open=open_, has_daemon=with_daemon, has_docs=docs, listening=listening, ready=ready),
    )
