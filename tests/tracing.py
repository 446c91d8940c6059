"""Reads exported spans: by name, by trace, parents before children."""

from __future__ import annotations

import io
import logging
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import structlog
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kb import log, telemetry
from tests.fakes.collector import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import ReadableSpan


@contextmanager
def recorded(*, capture_content: bool = False) -> Iterator[InMemorySpanExporter]:
    """Keep the block's spans in memory, as they would leave."""
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    telemetry.adopt(traces=provider, capture_content=capture_content)
    try:
        yield spans
    finally:
        telemetry.shutdown()


@contextmanager
def logged(level: str = "info") -> Iterator[io.StringIO]:
    """Log to a stream inside the block, as an entry point would have it."""
    kept, stream = sys.stderr, io.StringIO()
    sys.stderr = stream
    try:
        log.configure(level)
        yield stream
    finally:
        sys.stderr = kept
        root = logging.getLogger()
        root.handlers[:] = [h for h in root.handlers if not isinstance(h, log._Libraries)]
        structlog.reset_defaults()


def one(spans: InMemorySpanExporter, name: str) -> ReadableSpan:
    """Return the only span of a name."""
    (found,) = [span for span in spans.get_finished_spans() if span.name == name]
    return found


@contextmanager
def collecting(**switch: Any) -> Iterator[Collector]:
    """Export to a real receiver; all has arrived after the block."""
    with Collector() as collector:
        telemetry.configure(collector.endpoint, **switch)
        try:
            yield collector
        finally:
            telemetry.shutdown()


def said(span: Any) -> dict[str, Any]:
    """Return the attributes of a span, or of an event, as the protocol brought them."""
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}


def named(collector: Collector, name: str) -> list[Any]:
    """Return the spans of a name, in the order in which they began."""
    return sorted((s for s in collector.spans if s.name == name), key=lambda s: s.start_time_unix_nano)


def lines(collector: Collector, trace: bytes) -> list[tuple[str, ...]]:
    """Return each span of a trace as the names from its root down to it; a span without its parent is an error."""
    spans = {s.span_id: s for s in collector.spans if s.trace_id == trace}

    def line(span: Any) -> tuple[str, ...]:
        return (*line(spans[span.parent_span_id]), span.name) if span.parent_span_id else (span.name,)

    return sorted(line(span) for span in spans.values())
