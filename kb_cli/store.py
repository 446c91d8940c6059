"""`kb store`: where the store is kept: the embedded index server, and moving to another one."""

from __future__ import annotations

import typer

from kb_cli import render
from kb_cli.session import AsJson, settings_of

app = typer.Typer(help="Where the store is kept: the embedded index server, or another.", no_args_is_help=True)


@app.command("status")
def status(as_json: AsJson = False) -> None:
    """Say whether the Milvus Lite server runs, for whom, and how large its file is."""
    from dataclasses import asdict

    from kb.addresses import without_secret
    from kb.index.lite import lite_server

    settings = settings_of()
    if settings.index_uri:
        shown = {"running": None, "uri": without_secret(settings.index_uri), "owned": False}
    else:
        shown = {**asdict(lite_server(settings).status()), "owned": True}
    if as_json:
        render.emit_json(shown)
    else:
        render.say(*(f"{key:18}{value}" for key, value in shown.items()))


@app.command("stop")
def stop(as_json: AsJson = False) -> None:
    """Stop the Milvus Lite server; the next command that needs it starts it again."""
    from kb.addresses import without_secret
    from kb.errors import ConfigError
    from kb.index.lite import lite_server

    settings = settings_of()
    if settings.index_uri:
        raise ConfigError("the index is not ours to stop", hint=f"it runs at {without_secret(settings.index_uri)}")
    stopped = lite_server(settings).stop()
    if as_json:
        render.emit_json({"stopped": stopped})
    else:
        render.say("stopped" if stopped else "it was not running")
