"""Structured logs to stderr: a stable past-tense event name, data in keys; JSON unless a person is watching."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(level: str = "warning") -> None:
    """Send logs of `level` and above to stderr. Called once, by an entry point."""
    person = sys.stderr.isatty()
    renderer = structlog.dev.ConsoleRenderer() if person else structlog.processors.JSONRenderer(ensure_ascii=False)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


def get_logger() -> FilteringBoundLogger:
    """Return the process's logger."""
    logger: FilteringBoundLogger = structlog.get_logger()
    return logger
