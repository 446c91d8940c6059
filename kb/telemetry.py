"""Every span and metric name of the product, and the switch that turns them on.

Off (the default) a span costs one function call and nothing of OpenTelemetry is imported. On, once an endpoint is set,
traces and metrics go out by OTLP/HTTP in the background with a 2 s timeout: a collector that is absent never slows or
stops the work. No document text and no secret is ever an attribute.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.metrics import Counter, Histogram, Meter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

EXPORT_TIMEOUT_S = 2
SERVICE = "kb"

Attribute = str | int | float | bool

# Upper edges of histograms' buckets: the vendor's own are for milliseconds, and would put all of ours into the first.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_SHARES = tuple(n / 10 for n in range(1, 11))


class Span(StrEnum):
    """Names of spans."""

    INGEST_RUN = "kb.ingest.run"
    INGEST_WALK = "kb.ingest.walk"
    INGEST_PLAN = "kb.ingest.plan"
    INGEST_PARSE = "kb.ingest.parse"
    INGEST_CHUNK = "kb.ingest.chunk"
    INGEST_EMBED = "kb.ingest.embed"
    INGEST_SWITCH = "kb.ingest.switch"
    EMBED = "kb.embeddings"
    LEDGER_READ = "kb.ledger.read"
    LEDGER_WRITE = "kb.ledger.write"
    INDEX_UPSERT = "kb.index.upsert"
    INDEX_DELETE = "kb.index.delete"
    INDEX_SEARCH = "kb.index.search"
    INDEX_DRAIN = "kb.index.drain"
    INDEX_RECONCILE = "kb.index.reconcile"
    INDEX_REINDEX = "kb.index.reindex"
    SEARCH = "kb.search"
    CHAT = "kb.chat"
    ASK = "kb.ask"
    NODE = "kb.ask.node"
    WRITE_BACK = "kb.ask.write_back"
    SWEEP = "kb.govern.sweep"
    SWEEP_BATCH = "kb.govern.batch"
    JOB = "kb.job"


class Metric(StrEnum):
    """Names of counters (`_total`) and histograms (`_seconds`, and shares between 0 and 1)."""

    INGEST_DOCUMENTS = "kb_ingest_documents_total"
    INGEST_MEMORIES = "kb_ingest_memories_total"
    EMBEDDED_TEXTS = "kb_embedded_texts_total"
    SEARCHES = "kb_searches_total"
    SUPPRESSED = "kb_gate_suppressed_total"
    CHAT_CALLS = "kb_chat_calls_total"
    CHAT_TOKENS = "kb_chat_tokens_total"
    OUTBOX_DRAINED = "kb_outbox_drained_total"
    GRADES = "kb_grades_total"
    EVIDENCE_CONFIDENCE = "kb_evidence_confidence"
    CASCADE_SENT = "kb_cascade_sent_total"
    CASCADE_SETTLED = "kb_cascade_settled_total"
    CASCADE_AGREED = "kb_cascade_agreed_total"
    GRADE_CACHE_HITS = "kb_grade_cache_hits_total"
    GRADE_CACHE_MISSES = "kb_grade_cache_misses_total"
    DRIFT_CHECKS = "kb_drift_checks_total"
    WEB_DROPPED = "kb_web_results_dropped_total"
    SEARCH_SECONDS = "kb_search_seconds"
    REQUESTS = "crag_requests_total"
    FALLBACKS = "crag_fallback_triggered_total"
    VERDICTS = "kb_verdicts_total"
    OUTCOMES = "kb_answers_total"
    WEB_SEARCHES = "kb_web_searches_total"
    WRITE_BACK_FAILURES = "kb_write_back_failures_total"
    NODE_SECONDS = "kb_node_seconds"
    ASK_SECONDS = "kb_ask_seconds"
    SWEEPS = "kb_sweeps_total"
    SWEEP_ACTIONS = "kb_sweep_actions_total"
    SWEEPS_REFUSED = "kb_sweeps_refused_total"
    SWEEP_SECONDS = "kb_sweep_seconds"
    JOB_RUNS = "kb_job_runs_total"
    JOB_ALERTS = "kb_job_alerts_total"
    JOB_SECONDS = "kb_job_seconds"


class _Exporter:
    """What is on: nothing, or a tracer and a meter. One instance, held by this module, set by `configure` only."""

    def __init__(self) -> None:
        self.tracer: Tracer | None = None
        self.meter: Meter | None = None
        self.instruments: dict[str, Counter | Histogram] = {}
        self.providers: tuple[TracerProvider, MeterProvider] | None = None


_exporter = _Exporter()


def configure(endpoint: str | None) -> None:
    """Turn export on for this process when `endpoint` (an OTLP/HTTP base URL) is given; else leave it off."""
    if not endpoint or _exporter.tracer is not None:
        return
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415 - off is free
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # a collector that is away is no news
    base = endpoint.rstrip("/")
    resource = Resource.create({"service.name": SERVICE})
    traces = TracerProvider(resource=resource)
    span_exporter = OTLPSpanExporter(endpoint=f"{base}/v1/traces", timeout=EXPORT_TIMEOUT_S)
    traces.add_span_processor(BatchSpanProcessor(span_exporter, export_timeout_millis=EXPORT_TIMEOUT_S * 1000))
    metric_exporter = OTLPMetricExporter(endpoint=f"{base}/v1/metrics", timeout=EXPORT_TIMEOUT_S)
    reader = PeriodicExportingMetricReader(metric_exporter, export_timeout_millis=EXPORT_TIMEOUT_S * 1000)
    metrics = MeterProvider(resource=resource, metric_readers=[reader])
    _exporter.tracer, _exporter.meter = traces.get_tracer(SERVICE), metrics.get_meter(SERVICE)
    _exporter.providers = (traces, metrics)


def shutdown() -> None:
    """Send what is left, within the export timeout, and turn export off."""
    if _exporter.providers is not None:
        for provider in _exporter.providers:
            provider.shutdown()
    _exporter.__init__()  # type: ignore[misc] # back to off


def span(name: Span, **attributes: Attribute) -> AbstractContextManager[None]:
    """Return a context that records `name` with `attributes`; an exception marks the span failed and passes on."""
    if _exporter.tracer is None:
        return nullcontext()
    return _recorded(_exporter.tracer, name, attributes)


@contextmanager
def _recorded(tracer: Tracer, name: Span, attributes: dict[str, Attribute]) -> Iterator[None]:
    with tracer.start_as_current_span(name.value, attributes=attributes):
        yield


def count(metric: Metric, amount: int = 1, **attributes: Attribute) -> None:
    """Add to a counter."""
    if _exporter.meter is None or amount == 0:
        return
    instrument = _exporter.instruments.get(metric)
    if instrument is None:
        instrument = _exporter.instruments[metric] = _exporter.meter.create_counter(metric.value)
    instrument.add(amount, attributes)  # type: ignore[union-attr] # a counter by its name


def observe(metric: Metric, value: float, **attributes: Attribute) -> None:
    """Record a value in a histogram; seconds where the name says so."""
    if _exporter.meter is None:
        return
    instrument = _exporter.instruments.get(metric)
    if instrument is None:
        edges = _SECONDS if metric.value.endswith("_seconds") else _SHARES
        instrument = _exporter.instruments[metric] = _exporter.meter.create_histogram(
            metric.value, explicit_bucket_boundaries_advisory=edges
        )
    instrument.record(value, attributes)  # type: ignore[union-attr] # a histogram by its name
