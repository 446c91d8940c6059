"""Every name of the product's telemetry: spans, attributes, events, metrics, and the labels that each metric has.

Attributes follow the GenAI and database conventions of OpenTelemetry where these have a word (Milvus has no value of
its own there yet: `db.system.name` is `milvus`); what is ours alone begins with `kb.`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVICE = "kb"
KEPT_AS = "traceparent"  # key under which a record keeps the span that it was written in


class Span(StrEnum):
    """Names of spans."""

    COMMAND = "kb.command"
    HTTP = "kb.http.request"
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
    WEB_SEARCH = "kb.ask.web_search"
    WRITE_BACK = "kb.ask.write_back"
    SWEEP = "kb.govern.sweep"
    SWEEP_BATCH = "kb.govern.batch"
    FOLLOWED = "kb.govern.followed"
    JOB = "kb.job"
    EXPORT = "kb.move.export"
    IMPORT = "kb.move.import"
    MOVE_INDEX = "kb.move.index"
    MOVE_LEDGER = "kb.move.ledger"


# Work that is done by another process, and work that another process asked for. All else is internal.
CLIENTS = frozenset(
    {
        Span.EMBED,
        Span.LEDGER_READ,
        Span.LEDGER_WRITE,
        Span.INDEX_UPSERT,
        Span.INDEX_DELETE,
        Span.INDEX_SEARCH,
        Span.CHAT,
        Span.WEB_SEARCH,
    }
)
SERVERS = frozenset({Span.HTTP})
# Spans that only stand inside another: alone, a heartbeat every few seconds would be a trace of its own.
PARTS = frozenset({Span.LEDGER_READ, Span.LEDGER_WRITE})


class Attr(StrEnum):
    """Names of spans' attributes."""

    # GenAI conventions
    OPERATION = "gen_ai.operation.name"
    PROVIDER = "gen_ai.provider.name"
    REQUEST_MODEL = "gen_ai.request.model"
    RESPONSE_MODEL = "gen_ai.response.model"
    INPUT_TOKENS = "gen_ai.usage.input_tokens"
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
    TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105 - a name
    CONVERSATION = "gen_ai.conversation.id"
    WORKFLOW = "gen_ai.workflow.name"
    TOOL = "gen_ai.tool.name"
    TOP_K = "gen_ai.retrieval.top_k"
    EVALUATION = "gen_ai.evaluation.name"
    SCORE = "gen_ai.evaluation.score.value"
    LABEL = "gen_ai.evaluation.score.label"
    # database conventions
    DB_SYSTEM = "db.system.name"
    DB_COLLECTION = "db.collection.name"
    DB_OPERATION = "db.operation.name"
    DB_BATCH = "db.operation.batch.size"
    # general and HTTP conventions
    ERROR = "error.type"
    HTTP_METHOD = "http.request.method"
    HTTP_ROUTE = "http.route"
    HTTP_STATUS = "http.response.status_code"
    # ours
    COMMAND = "kb.command"
    REQUEST_ID = "kb.request.id"
    TENANT = "kb.tenant"
    SOURCE = "kb.source"
    BYTES = "kb.bytes"
    TEXTS = "kb.texts"
    PURPOSE = "kb.purpose"
    CALLS = "kb.calls"
    ARM = "kb.arm"
    MODE = "kb.mode"
    HITS = "kb.hits"
    SUPPRESSED = "kb.suppressed"
    NODE = "kb.node"
    ANSWER = "kb.answer.id"
    OUTCOME = "kb.outcome"
    VERDICT = "kb.verdict"
    SEARCHES = "kb.searches"
    RESULTS = "kb.results"
    MOVED = "kb.moved"
    APPLIED = "kb.applied"
    JOB = "kb.job"
    SWEEP = "kb.sweep.id"
    ACTIONS = "kb.actions"
    ROWS = "kb.rows"
    LEFT = "kb.left"
    RESUMED = "kb.resumed"
    EXCEPTION = "exception.message"
    # content: only where `telemetry.capture_content` allows it
    INPUT = "gen_ai.input.messages"
    OUTPUT = "gen_ai.output.messages"
    QUERY = "gen_ai.retrieval.query.text"
    DOCUMENTS = "gen_ai.retrieval.documents"


CONTENT = frozenset({Attr.INPUT, Attr.OUTPUT, Attr.QUERY, Attr.DOCUMENTS, Attr.EXCEPTION})


class Event(StrEnum):
    """Names of events of a span."""

    EVALUATION = "gen_ai.evaluation.result"


class Operation(StrEnum):
    """Values of `gen_ai.operation.name`."""

    CHAT = "chat"
    EMBEDDINGS = "embeddings"
    RETRIEVAL = "retrieval"
    WORKFLOW = "invoke_workflow"
    TOOL = "execute_tool"


MILVUS = "milvus"  # `db.system.name`
WORKFLOW = "crag"  # `gen_ai.workflow.name`


class Metric(StrEnum):
    """Names of metrics: `_total` counts; gauges are what GAUGES holds; the others are histograms."""

    INGEST_DOCUMENTS = "kb_ingest_documents_total"
    INGEST_MEMORIES = "kb_ingest_memories_total"
    EMBEDDED_TEXTS = "kb_embedded_texts_total"
    SEARCHES = "kb_searches_total"
    SUPPRESSED = "kb_gate_suppressed_total"
    CHAT_CALLS = "kb_chat_calls_total"
    CHAT_TOKENS = "kb_chat_tokens_total"
    OUTBOX_DRAINED = "kb_outbox_drained_total"
    GRADES = "kb_grades_total"
    EVALUATOR_DEGRADED = "kb_evaluator_degraded_total"
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
    HTTP_REQUESTS = "kb_http_requests_total"
    HTTP_SECONDS = "kb_http_seconds"
    RATE_LIMITED = "kb_rate_limited_total"
    RATE_LIMITS_OWN = "kb_rate_limits_own_total"
    # by the conventions, for dashboards that are made for any GenAI or database client
    GENAI_SECONDS = "gen_ai.client.operation.duration"
    GENAI_TOKENS = "gen_ai.client.token.usage"
    DB_SECONDS = "db.client.operation.duration"
    # read from the ledger now and then
    MEMORIES = "kb_memories"
    GATE_ACTIVE = "kb_gate_active_memories"
    GATE_OPEN = "kb_gate_open_memories"
    OUTBOX_PENDING = "kb_outbox_pending"
    OUTBOX_LAG = "kb_outbox_lag_seconds"
    DAEMONS = "kb_daemons_alive"
    LEADERS = "kb_daemon_leaders"
    HEARTBEAT_AGE = "kb_daemon_heartbeat_age_seconds"
    JOB_FAILED = "kb_job_failed"
    JOB_SUCCEEDED = "kb_job_last_success_timestamp_seconds"
    SWEEPS_UNFINISHED = "kb_sweeps_unfinished"
    LEDGER_UP = "kb_ledger_up"


GAUGES = frozenset(
    {
        Metric.MEMORIES,
        Metric.GATE_ACTIVE,
        Metric.GATE_OPEN,
        Metric.OUTBOX_PENDING,
        Metric.OUTBOX_LAG,
        Metric.DAEMONS,
        Metric.LEADERS,
        Metric.HEARTBEAT_AGE,
        Metric.JOB_FAILED,
        Metric.JOB_SUCCEEDED,
        Metric.SWEEPS_UNFINISHED,
        Metric.LEDGER_UP,
    }
)
UNITS: Mapping[Metric, str] = {Metric.GENAI_SECONDS: "s", Metric.GENAI_TOKENS: "{token}", Metric.DB_SECONDS: "s"}

# Labels of ours are plain words, as everywhere in Prometheus; those of the conventions' metrics are the conventions'.
LABELS: Mapping[Metric, tuple[str, ...]] = {
    Metric.INGEST_DOCUMENTS: ("outcome",),
    Metric.EMBEDDED_TEXTS: ("model", "purpose"),
    Metric.CHAT_CALLS: ("model", "purpose", "outcome"),
    Metric.CHAT_TOKENS: ("model", "purpose", "direction"),
    Metric.GRADES: ("evaluator", "label"),
    Metric.EVALUATOR_DEGRADED: ("evaluator",),
    Metric.EVIDENCE_CONFIDENCE: ("origin",),
    Metric.GRADE_CACHE_HITS: ("evaluator",),
    Metric.GRADE_CACHE_MISSES: ("evaluator",),
    Metric.DRIFT_CHECKS: ("evaluator", "state"),
    Metric.WEB_DROPPED: ("provider", "why"),
    Metric.VERDICTS: ("verdict",),
    Metric.OUTCOMES: ("outcome",),
    Metric.NODE_SECONDS: ("node",),
    Metric.SWEEPS: ("job",),
    Metric.SWEEP_ACTIONS: ("job", "action", "outcome"),
    Metric.SWEEPS_REFUSED: ("job", "why"),
    Metric.SWEEP_SECONDS: ("job",),
    Metric.JOB_RUNS: ("job", "outcome"),
    Metric.JOB_ALERTS: ("job", "outcome"),
    Metric.JOB_SECONDS: ("job",),
    Metric.HTTP_REQUESTS: ("method", "route", "status"),
    Metric.HTTP_SECONDS: ("method", "route"),
    Metric.GENAI_SECONDS: (Attr.OPERATION, Attr.REQUEST_MODEL),
    Metric.GENAI_TOKENS: (Attr.OPERATION, Attr.REQUEST_MODEL, Attr.TOKEN_TYPE),
    Metric.DB_SECONDS: (Attr.DB_SYSTEM, Attr.DB_OPERATION),
    Metric.MEMORIES: ("standing",),
    Metric.GATE_ACTIVE: ("tenant",),
    Metric.GATE_OPEN: ("tenant",),
    Metric.JOB_FAILED: ("job",),
    Metric.JOB_SUCCEEDED: ("job",),
}

# Upper edges of histograms' buckets: the vendor's own are for milliseconds, and would put all of ours into the first.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_SHARES = tuple(n / 10 for n in range(1, 11))
_GENAI_SECONDS = tuple(0.01 * 2**n for n in range(14))  # as the conventions recommend: 10 ms to 82 s
_GENAI_TOKENS = tuple(float(4**n) for n in range(14))  # likewise: 1 to 67 million
_EDGES: Mapping[Metric, tuple[float, ...]] = {
    Metric.GENAI_SECONDS: _GENAI_SECONDS,
    Metric.GENAI_TOKENS: _GENAI_TOKENS,
    Metric.DB_SECONDS: (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0),  # likewise
}


def is_counter(metric: Metric) -> bool:
    """Return whether a metric only counts up."""
    return metric.value.endswith("_total")


def edges(metric: Metric) -> tuple[float, ...]:
    """Return the upper edges of a histogram's buckets."""
    return _EDGES.get(metric, _SECONDS if metric.value.endswith("_seconds") else _SHARES)


def exposed(metric: Metric) -> tuple[str, ...]:
    """Return the names under which Prometheus knows a metric."""
    name = metric.value.replace(".", "_") + ("_seconds" if UNITS.get(metric) == "s" else "")
    if is_counter(metric) or metric in GAUGES:
        return (name,)
    return (f"{name}_bucket", f"{name}_sum", f"{name}_count")
