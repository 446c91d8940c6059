"""What every command shares: options that mean the same everywhere, settings, and errors turned into exit codes."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kb.memories import Memories
    from kb.ports import Clock
    from kb.settings import Settings

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Tenant = Annotated[str | None, typer.Option("--tenant", help="Whose memories; default: the `tenant` setting.")]

DATA_DIR_VARIABLE = "KB_DATA_DIR"
_clock: list[Clock] = []  # at most one
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
    from kb.memories import open_memories

    with open_memories(settings, clock()) as memories:
        yield memories


def clock() -> Clock:
    """Return the clock of this process: the machine's, unless another was set."""
    from kb.clock import SystemClock

    return _clock[-1] if _clock else SystemClock()


def set_clock(given: Clock | None) -> None:
    """Let commands of this process tell the time by another clock, as simulations and tests do; None: the machine's."""
    _clock[:] = [] if given is None else [given]


def set_data_dir(path: str) -> None:
    """Let --data-dir win over the environment, for this process and those it starts."""
    os.environ[DATA_DIR_VARIABLE] = path
