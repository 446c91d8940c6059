"""What every command shares: options that mean the same everywhere, settings, and errors turned into exit codes."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kb.ledger import Ledger
    from kb.memories import Memories
    from kb.ports import Clock
    from kb.settings import Settings

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Tenant = Annotated[str | None, typer.Option("--tenant", help="Whose memories; default: the `tenant` setting.")]

DATA_DIR_VARIABLE = "KB_DATA_DIR"
PARENT_VARIABLE = "TRACEPARENT"  # the trace that a pipeline runs this command in
_clock: list[Clock] = []  # at most one
_command: list[str] = []  # likewise
_spans: list[ExitStack] = []  # likewise
STANDARD_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"  # where other programs of the machine send theirs


def settings_of(**flags: object) -> Settings:
    """Return the settings with a command's flags on top, telemetry switched on as they say, the command its trace."""
    settings = loaded(**flags)
    switch_on(settings)
    _begin()
    return settings


def loaded(**flags: object) -> Settings:
    """Return the settings with a command's flags on top."""
    from kb.settings import load_settings

    return load_settings(**flags)


def switch_on(settings: Settings, *, prometheus: bool = False) -> None:
    """Switch telemetry on as the settings say; a command that lasts does this alone, lest its trace never ends.

    Args:
        settings: all of them.
        prometheus: whether the command shows its metrics on a page.
    """
    from kb import telemetry

    endpoint = settings.telemetry_endpoint or os.environ.get(STANDARD_ENDPOINT)
    telemetry.configure(endpoint, prometheus=prometheus, capture_content=settings.telemetry.capture_content)


def _begin() -> None:
    """Begin the command's span, inside the trace that the caller's environment names, if it does."""
    from kb.telemetry import Attr, Span, continued, is_traced, span

    if is_traced() and not _spans:
        stack = ExitStack()
        stack.enter_context(continued({"traceparent": os.environ.get(PARENT_VARIABLE, "")}))
        stack.enter_context(span(Span.COMMAND, {Attr.COMMAND: _command[-1] if _command else None}))
        _spans.append(stack)


def end(*raised: Any) -> None:  # noqa: ANN401 - what a context manager is given
    """End the command's span, if it has one; given an exception, it has failed."""
    while _spans:
        _spans.pop().__exit__(*(raised or (None, None, None)))


def set_command(name: str | None) -> None:
    """Name the command that runs."""
    _command[:] = [] if name is None else [name]


@contextmanager
def opened(settings: Settings, *, is_following: bool = True) -> Iterator[Memories]:
    """Open the store for one command; births follow changed half-lives, unless it only judges a policy."""
    from kb.memories import open_memories

    with open_memories(settings, clock(), is_following=is_following) as memories:
        yield memories


def ledger_of(settings: Settings) -> Ledger:
    """Return the ledger alone, open; a context that closes it."""
    from kb.ledger import open_configured

    return open_configured(settings)


def log_by_default(context: typer.Context) -> None:
    """Let the log tell what happens, unless somebody chose a level: for what lasts, and for what must leave a line."""
    from kb import log

    source = context.find_root().get_parameter_source("log_level")
    if source is None or source.name.startswith("DEFAULT"):
        log.configure("info")


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
