"""Structured logs to stderr: a stable past-tense event name, data in keys; JSON unless a person is watching.

Every line says in which span it was written, if in any, and which request it belongs to; nothing that goes under a
secret's name, or looks like one, gets out.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import structlog

from kb.telemetry import ids
from kb.telemetry.redaction import clean

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from contextlib import AbstractContextManager

    from structlog.typing import FilteringBoundLogger, Processor

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
REQUEST_ID = "request_id"


def configure(level: str = "warning") -> None:
    """Send logs of `level` and above to stderr, those of libraries too. Called once, by an entry point."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _placed,
    ]
    person = sys.stderr.isatty()
    ends: list[Processor] = [structlog.processors.format_exc_info, _without_secrets, _rendering(is_person=person)]
    structlog.configure(
        processors=[*shared, *ends],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    _take_in_libraries(shared, ends)


def get_logger() -> FilteringBoundLogger:
    """Return the process's logger."""
    logger: FilteringBoundLogger = structlog.get_logger()
    return logger


def request(id_: str) -> AbstractContextManager[object]:
    """Return a context in which every line says which request it belongs to."""
    return structlog.contextvars.bound_contextvars(**{REQUEST_ID: id_})


class _Libraries(logging.StreamHandler[Any]):
    """Writes what libraries log; known by its class, so that it is there once."""


def _take_in_libraries(shared: list[Processor], ends: list[Processor]) -> None:
    """Let what libraries log, from warnings up, come out as ours does: it may name a key or a password as well."""
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ends],
    )
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if isinstance(handler, _Libraries)]:
        root.removeHandler(old)
    handler = _Libraries(sys.stderr)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(formatter)
    root.addHandler(handler)


def _rendering(*, is_person: bool) -> Processor:
    if is_person:
        return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)  # others show variables
    return structlog.processors.JSONRenderer(ensure_ascii=False)


def _placed(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the span that the line was written in."""
    place = ids()
    if place is not None:
        event["trace_id"], event["span_id"] = place
    return event


def _without_secrets(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Hide what must not be read, exceptions' own words included."""
    return clean(event)
