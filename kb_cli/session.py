"""What every command shares: options that mean the same everywhere, settings, and errors turned into exit codes."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kb.memories import Memories
    from kb.settings import Settings

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Tenant = Annotated[str | None, typer.Option("--tenant", help="Whose memories; default: the `tenant` setting.")]

DATA_DIR_VARIABLE = "KB_DATA_DIR"
STANDARD_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"  # where other programs of the machine send theirs


def settings_of(**flags: object) -> Settings:
    """Return the settings with a command's flags on top, telemetry and logs switched on as they say."""
    from kb import telemetry
    from kb.settings import load_settings

    settings = load_settings(**flags)
    telemetry.configure(settings.telemetry_endpoint or os.environ.get(STANDARD_ENDPOINT))
    return settings


@contextmanager
def opened(settings: Settings) -> Iterator[Memories]:
    """Open the store for one command."""
    from kb.clock import SystemClock
    from kb.memories import open_memories

    with open_memories(settings, SystemClock()) as memories:
        yield memories


def set_data_dir(path: str) -> None:
    """Let --data-dir win over the environment, for this process and those it starts."""
    os.environ[DATA_DIR_VARIABLE] = path
