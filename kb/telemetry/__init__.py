"""Traces, metrics and their switch: the one door, with every name behind it.

Off (the default) a span costs one function call and nothing of OpenTelemetry is imported. On, once an endpoint is set,
traces and metrics go out by OTLP/HTTP in the background with a 2 s timeout: a collector that is absent never slows or
stops the work. For Prometheus the same metrics are there to be read. No document text and no secret is an attribute,
unless `telemetry.capture_content` lets content out; secrets never leave.
"""

from __future__ import annotations

from kb.telemetry.attributes import Attribute, Recording
from kb.telemetry.content import documents, messages
from kb.telemetry.gauges import Reading, watched
from kb.telemetry.names import KEPT_AS, MILVUS, WORKFLOW, Attr, Event, Metric, Operation, Span
from kb.telemetry.recording import (
    annotate,
    continued,
    count,
    current,
    event,
    followed,
    ids,
    is_traced,
    observe,
    span,
)
from kb.telemetry.switch import adopt, configure, prometheus_text, shutdown

__all__ = [
    "KEPT_AS",
    "MILVUS",
    "WORKFLOW",
    "Attr",
    "Attribute",
    "Event",
    "Metric",
    "Operation",
    "Reading",
    "Recording",
    "Span",
    "adopt",
    "annotate",
    "configure",
    "continued",
    "count",
    "current",
    "documents",
    "event",
    "followed",
    "ids",
    "is_traced",
    "messages",
    "observe",
    "prometheus_text",
    "shutdown",
    "span",
    "watched",
]
