"""`kb init`: a commented kb.toml to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kb_cli import render
from kb_cli.session import AsJson


def init(
    path: Annotated[Path, typer.Argument(help="File to write.")] = Path("kb.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a kb.toml that shows every setting with its default, commented out."""
    from kb.errors import Refused
    from kb.sample_settings import commented_toml

    if path.exists() and not force:
        raise Refused(f"{path} exists", hint="--force overwrites it")
    path.write_text(commented_toml(), encoding="utf-8")
    if as_json:
        render.emit_json({"written": str(path)})
    else:
        render.say(f"wrote {path}: every setting with its default; uncomment what you change")
