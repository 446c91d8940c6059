"""What spans and counts say, and what they never say."""

from __future__ import annotations

import asyncio
import threading
from contextvars import copy_context

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import SpanKind, StatusCode

from kb import telemetry
from kb.telemetry import Attr, Event, Metric, Span, annotate, event, span
from kb.telemetry.gauges import STALE, Reading, Watch, current, watched
from kb.telemetry.names import CONTENT, LABELS, exposed
from kb.telemetry.redaction import HIDDEN, clean, redacted
from tests.tracing import one, recorded

KEY = "kb_0123456789abcdef_" + "s" * 43
SECRETS = [
    "sk-proj-abcdefghijklmnop",
    KEY,
    "tvly-dev-0123456789abcdef",
    "Bearer abcdef0123456789",
    "postgresql://kb:hunter22@db/kb",
    "api_key=hunter22",
    "password: hunter22",
]
HIDDEN_PARTS = ("hunter22", "abcdefghijklmnop", "s" * 43, "0123456789abcdef")  # of SECRETS, one in each


def test_a_span_tells_what_it_was_told_and_is_inside_the_one_around_it() -> None:
    with recorded() as spans, span(Span.ASK, {Attr.TENANT: "acme", Attr.VERDICT: None}) as asked:
        with span(Span.INDEX_SEARCH, {Attr.DB_SYSTEM: "milvus"}):
            annotate({Attr.HITS: 3})
        asked.set({Attr.OUTCOME: "answered"})
    ask, search = one(spans, Span.ASK), one(spans, Span.INDEX_SEARCH)
    assert dict(ask.attributes or {}) == {"kb.tenant": "acme", "kb.outcome": "answered"}
    assert dict(search.attributes or {}) == {"db.system.name": "milvus", "kb.hits": 3}
    assert search.parent is not None
    assert search.parent.span_id == ask.context.span_id
    assert (ask.kind, search.kind) == (SpanKind.INTERNAL, SpanKind.CLIENT)


def test_a_failed_span_names_the_error_and_never_its_words() -> None:
    with recorded() as spans, pytest.raises(ValueError, match="Anping"), span(Span.SEARCH):
        raise ValueError("the Anping bridge")
    failed = one(spans, Span.SEARCH)
    assert failed.status.status_code is StatusCode.ERROR
    assert dict(failed.attributes or {}) == {"error.type": "ValueError"}
    assert not failed.events
    assert "Anping" not in failed.to_json()


def test_who_stops_waiting_has_not_failed() -> None:
    async def story() -> None:
        async def work() -> None:
            with span(Span.SEARCH):
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with recorded() as spans:
        asyncio.run(story())
    assert one(spans, Span.SEARCH).status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("may_leave", [False, True])
def test_content_leaves_only_where_it_may(*, may_leave: bool) -> None:
    made: list[int] = []

    def content() -> str:
        made.append(1)
        return "how does the vault open"

    def work() -> None:
        with span(Span.SEARCH) as recording:
            recording.capture(Attr.QUERY, content)
            recording.set({Attr.DOCUMENTS: "seven turns of the vault"})
            raise ValueError("vault")

    with recorded(capture_content=may_leave) as spans, pytest.raises(ValueError, match="vault"):
        work()
    assert ("vault" in one(spans, Span.SEARCH).to_json()) is may_leave
    assert bool(made) is may_leave


def test_an_event_stands_on_the_span_it_happened_in() -> None:
    with recorded() as spans, span(Span.NODE):
        event(Event.EVALUATION, {Attr.EVALUATION: "fake", Attr.SCORE: 0.5, Attr.LABEL: "ambiguous"})
        event(Event.EVALUATION, {Attr.EVALUATION: "fake", Attr.SCORE: None, Attr.LABEL: "unknown"})
    told = [(e.name, dict(e.attributes or {})) for e in one(spans, Span.NODE).events]
    assert told[0][0] == "gen_ai.evaluation.result"
    assert told[0][1]["gen_ai.evaluation.score.value"] == 0.5
    assert "gen_ai.evaluation.score.value" not in told[1][1]


def test_a_request_goes_on_with_the_trace_its_headers_name_and_not_with_a_broken_one() -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    with recorded() as spans:
        with telemetry.continued({"TraceParent": f"00-{trace}-b7ad6b7169203331-01"}), span(Span.HTTP):
            assert telemetry.ids() is not None
            assert telemetry.ids()[0] == trace  # type: ignore[index] # asserted above
            assert telemetry.current().startswith(f"00-{trace}-")
        with telemetry.continued({"traceparent": "00-garbage"}), span(Span.SEARCH):
            pass
    assert one(spans, Span.HTTP).kind is SpanKind.SERVER
    assert format(one(spans, Span.HTTP).context.trace_id, "032x") == trace
    assert one(spans, Span.SEARCH).parent is None
    assert telemetry.ids() is None
    assert telemetry.current() == ""


def test_cause_and_effect_lead_to_each_other_across_traces() -> None:
    with recorded() as spans:
        with span(Span.WRITE_BACK):
            cause = telemetry.current()
        with span(Span.SWEEP, links=[cause, "no trace"]):
            telemetry.followed([cause], {Attr.SWEEP: "s1"})
    sweep, back, left = (one(spans, name) for name in (Span.SWEEP, Span.WRITE_BACK, Span.FOLLOWED))
    assert [link.context.span_id for link in sweep.links] == [back.context.span_id]
    assert left.parent is not None
    assert left.parent.span_id == back.context.span_id
    assert left.context.trace_id == back.context.trace_id != sweep.context.trace_id
    assert [link.context.span_id for link in left.links] == [sweep.context.span_id]


def test_a_thread_that_is_given_its_context_finds_its_parent() -> None:
    def work() -> None:
        with span(Span.SEARCH):
            pass

    with recorded() as spans, span(Span.ASK):
        thread = threading.Thread(target=copy_context().run, args=(work,))
        thread.start()
        thread.join()
    assert one(spans, Span.SEARCH).context.trace_id == one(spans, Span.ASK).context.trace_id


def test_a_transaction_outside_of_any_work_is_no_trace() -> None:
    with recorded() as spans, span(Span.LEDGER_READ) as nothing:
        nothing.set({Attr.HITS: 1})
    assert spans.get_finished_spans() == ()


@pytest.mark.parametrize("secret", SECRETS)
def test_no_secret_leaves_with_a_span_even_where_content_may(secret: str) -> None:
    def work() -> None:
        with span(Span.CHAT) as recording:
            recording.set({Attr.REQUEST_MODEL: f"m {secret}", Attr.INPUT: f"use {secret}, please"})
            raise ValueError(f"failed with {secret}")

    with recorded(capture_content=True) as spans, pytest.raises(ValueError, match="failed"):
        work()
    told = one(spans, Span.CHAT).to_json()
    assert not [hidden for hidden in HIDDEN_PARTS if hidden in told]
    assert HIDDEN in told


def test_what_goes_under_a_secrets_name_is_hidden_however_deep_and_other_words_stay() -> None:
    given = {
        "api_key": "x",
        "nested": {"Authorization": "y", "list": [{"password": "z"}]},
        "tokens": 7,
        "token_count": "12",
        "collection": "kb_memories_v1_e5_384",
        "text": "a basic question about tokens and keys: what is a secret?",
    }
    shown = clean(given)
    assert shown["api_key"] == HIDDEN
    assert shown["nested"] == {"Authorization": HIDDEN, "list": [{"password": HIDDEN}]}
    assert {k: shown[k] for k in ("tokens", "token_count", "collection", "text")} == {
        k: given[k] for k in ("tokens", "token_count", "collection", "text")
    }
    assert redacted("redis://:pw123@h/0") == f"redis://:{HIDDEN}@h/0"


def points(reader: InMemoryMetricReader, name: str) -> list[tuple[dict[str, object], object]]:
    data = reader.get_metrics_data()
    found = [] if data is None else [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]
    return [
        (dict(p.attributes or {}), p)
        for m in found
        if m.name == name
        for p in m.data.data_points  # type: ignore[union-attr]
    ]


def test_counts_add_up_by_label_and_a_zero_makes_no_series() -> None:
    reader = InMemoryMetricReader()
    telemetry.adopt(metrics=MeterProvider([reader], shutdown_on_exit=False))
    try:
        for verdict in ("correct", "correct", "incorrect"):
            telemetry.count(Metric.VERDICTS, verdict=verdict)
        telemetry.count(Metric.CASCADE_SENT, 0)
        telemetry.observe(Metric.GENAI_TOKENS, 300, **{Attr.OPERATION: "chat"})
        verdicts = {labels["verdict"]: point.value for labels, point in points(reader, Metric.VERDICTS)}  # type: ignore[attr-defined]
        assert verdicts == {"correct": 2, "incorrect": 1}
        assert points(reader, Metric.CASCADE_SENT) == []
        ((labels, point),) = points(reader, Metric.GENAI_TOKENS)
        assert labels == {"gen_ai.operation.name": "chat"}
        assert point.explicit_bounds[:4] == (1, 4, 16, 64)  # type: ignore[attr-defined]
    finally:
        telemetry.shutdown()


def test_gauges_show_the_last_reading_and_read_at_most_once_in_an_interval() -> None:
    reads: list[int] = []
    time = [0.0]

    def read() -> list[Reading]:
        reads.append(1)
        return [Reading(metric=Metric.OUTBOX_PENDING, value=len(reads))]

    watch = Watch(read, every=30, clock=lambda: time[0])
    assert [r.value for _ in range(5) for r in watch.readings()] == [1] * 5
    time[0] = 31
    assert [r.value for r in watch.readings()] == [2]
    assert len(reads) == 2


def test_a_ledger_that_hangs_holds_up_no_collection_and_its_last_reading_is_not_told_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kb.telemetry.gauges.PATIENCE_S", 0.01)
    time, hanging = [0.0], threading.Event()
    hanging.set()

    def read() -> list[Reading]:
        hanging.wait()
        return [Reading(metric=Metric.OUTBOX_PENDING, value=7)]

    watch = Watch(read, every=30, clock=lambda: time[0])
    watch.readings()
    watch.settle()
    hanging.clear()
    time[0] = 31
    assert [r.value for r in watch.readings()] == [7]  # old, but known
    time[0] = 31 + STALE * 30
    assert watch.readings() == ()
    hanging.set()
    watch.settle()
    assert [r.value for r in watch.readings()] == [7]


def test_gauges_are_those_of_who_watches_now() -> None:
    with watched(lambda: [Reading(metric=Metric.LEADERS, value=1)], every_seconds=30):
        assert [r.value for r in current(Metric.LEADERS)] == [1]
    assert current(Metric.LEADERS) == []


def test_prometheus_reads_what_was_counted_without_any_collector() -> None:
    assert telemetry.prometheus_text()[0] == b""
    telemetry.configure(None, prometheus=True)
    try:
        telemetry.count(Metric.REQUESTS)
        telemetry.observe(Metric.GENAI_SECONDS, 0.2, **{Attr.OPERATION: "chat"})
        with watched(lambda: [Reading(metric=Metric.LEDGER_UP, value=1)], every_seconds=30):
            text, kind = telemetry.prometheus_text()
        assert not telemetry.is_traced()
    finally:
        telemetry.shutdown()
    assert kind.startswith("text/plain")
    assert b"\ncrag_requests_total 1.0\n" in text
    assert b"\nkb_ledger_up 1.0\n" in text
    assert b'gen_ai_client_operation_duration_seconds_bucket{gen_ai_operation_name="chat",le="0.32"} 1.0' in text
    assert b"otel_scope" not in text
    assert b"process_resident_memory_bytes" in text


def test_names_are_prometheus_names_and_labels_belong_to_metrics() -> None:
    for metric in Metric:
        for name in exposed(metric):
            assert name.replace("_", "").isalnum()
    assert exposed(Metric.DB_SECONDS)[0] == "db_client_operation_duration_seconds_bucket"
    assert exposed(Metric.REQUESTS) == ("crag_requests_total",)
    assert set(LABELS) <= set(Metric)
    assert set(Attr) >= CONTENT
