"""Turns telemetry on and off for this process."""

from __future__ import annotations

import atexit
import os
import threading
import time
from typing import TYPE_CHECKING

from kb.telemetry.state import STATE

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

SHUTDOWN_S = 2.5  # a request under way ends after 2 s; what is left then is let go
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_YES = frozenset({"true", "1", "span_only", "span_and_event"})
PLAIN = "text/plain; version=0.0.4; charset=utf-8"


def configure(endpoint: str | None, *, prometheus: bool = False, capture_content: bool = False) -> None:
    """Turn on for this process what is asked for, else leave it off. What is on already stays as it is.

    Args:
        endpoint: OTLP/HTTP base URL that traces and metrics are sent to; None or "": nowhere.
        prometheus: whether `prometheus_text` shall have something to tell.
        capture_content: whether questions, passages and answers leave with spans; the standard's own
            `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` says so, too.
    """
    if STATE.is_on or not (endpoint or prometheus):
        return
    from kb.telemetry import providers  # noqa: PLC0415 - off is free

    providers.build(endpoint, prometheus=prometheus)
    STATE.captures = capture_content or os.environ.get(CAPTURE, "").lower() in _YES
    atexit.register(shutdown)


def adopt(
    *, traces: TracerProvider | None = None, metrics: MeterProvider | None = None, capture_content: bool = False
) -> None:
    """Record with providers that the host of this library owns, and ends; `shutdown` only lets go of them."""
    from kb.telemetry import providers  # noqa: PLC0415 - off is free

    providers.adopt(traces, metrics)
    STATE.captures = capture_content


def prometheus_text() -> tuple[bytes, str]:
    """Return all metrics as Prometheus reads them, and the content type; no byte unless `configure` was told so.

    May wait for a reading of the ledger, 2 s at most: call it in a thread, not on an event loop.
    """
    return STATE.scrape() if STATE.scrape is not None else (b"", PLAIN)


def shutdown(seconds: float = SHUTDOWN_S) -> None:
    """Send what is left, traces beside metrics, for at most so many seconds; then turn everything off."""
    ends = [(end, threading.Thread(target=end.finish, name="kb-telemetry-end", daemon=True)) for end in STATE.ends]
    STATE.off()
    atexit.unregister(shutdown)
    for _, thread in ends:
        thread.start()
    until = time.monotonic() + seconds
    for _, thread in ends:
        thread.join(max(0.0, until - time.monotonic()))
    for end, thread in ends:
        if thread.is_alive() and end.cut is not None:
            end.cut()
