"""The vendor's providers, exporters and readers. Loaded only when something is switched on."""

from __future__ import annotations

import logging
import os
import threading
import uuid
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from kb.telemetry.gauges import current
from kb.telemetry.names import GAUGES, SERVICE, UNITS, Metric
from kb.telemetry.state import STATE, End

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.metrics import MeterProvider as AnyMeterProvider
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.trace import TracerProvider as AnyTracerProvider

EXPORT_TIMEOUT_S = 2
SERVICE_NAME = "OTEL_SERVICE_NAME"  # the standard's own; it wins


def build(endpoint: str | None, *, prometheus: bool) -> None:
    """Switch on what is asked for: traces and metrics to a collector, metrics for Prometheus to read."""
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # a collector that is away is no news
    resource = _resource()
    ends: list[End] = []
    readers: list[MetricReader] = []
    traces: TracerProvider | None = None
    if endpoint:
        base = endpoint.rstrip("/")
        spans = OTLPSpanExporter(endpoint=f"{base}/v1/traces", timeout=EXPORT_TIMEOUT_S)
        traces = TracerProvider(resource=resource, shutdown_on_exit=False)  # which would wait for as long as it takes
        traces.add_span_processor(BatchSpanProcessor(spans, export_timeout_millis=EXPORT_TIMEOUT_S * 1000))
        values = OTLPMetricExporter(endpoint=f"{base}/v1/metrics", timeout=EXPORT_TIMEOUT_S)
        readers.append(PeriodicExportingMetricReader(values, export_timeout_millis=EXPORT_TIMEOUT_S * 1000))
        ends.append(End(finish=traces.shutdown, cut=spans.shutdown))
    if prometheus:
        readers.append(_scraped())
    metrics = MeterProvider(resource=resource, metric_readers=readers, shutdown_on_exit=False)
    ends.append(End(finish=metrics.shutdown, cut=values.shutdown if endpoint else None))
    adopt(traces, metrics)
    STATE.ends = ends


def adopt(traces: AnyTracerProvider | None, metrics: AnyMeterProvider | None) -> None:
    """Record with providers that somebody else owns, and ends."""
    STATE.tracer = None if traces is None else traces.get_tracer(SERVICE)
    STATE.meter = None if metrics is None else metrics.get_meter(SERVICE)
    STATE.counters, STATE.histograms = {}, {}
    if STATE.meter is not None:
        for gauge in GAUGES:
            STATE.meter.create_observable_gauge(gauge.value, [partial(_observed, gauge)], unit=UNITS.get(gauge, ""))


def _observed(gauge: Metric, _options: CallbackOptions) -> Iterator[Observation]:
    for reading in current(gauge):
        yield Observation(reading.value, dict(reading.labels))


def _resource() -> Resource:
    given = {"service.version": version("kbwarden"), "service.instance.id": uuid.uuid4().hex}
    named = {} if os.environ.get(SERVICE_NAME) else {"service.name": SERVICE}
    return Resource.create({**given, **named})


def _scraped() -> PrometheusMetricReader:
    """Return the reader, and let `STATE.scrape` render it; the process's own memory and files come with it."""
    registry = CollectorRegistry()
    reader = PrometheusMetricReader(scope_info_enabled=False, registry=registry)
    ProcessCollector(registry=registry)
    lock = threading.Lock()  # the reader's own queue is not made for two at a time

    def scrape() -> tuple[bytes, str]:
        with lock:
            return generate_latest(registry), CONTENT_TYPE_LATEST

    STATE.scrape = scrape
    return reader
