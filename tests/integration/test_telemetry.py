"""Traces and metrics through the real OTLP protocol; off and free without an endpoint."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kb import telemetry
from kb.telemetry import Metric, Span
from tests.fakes.collector import Collector
from tests.stores import open_store, search, sync, write

ROOT = Path(__file__).parents[2]
PRIVATE = "The vault opens with seven turns."


@pytest.fixture
def collected(tmp_path):
    """What one ingest and one search export."""
    docs = tmp_path / "docs"
    docs.mkdir()
    with Collector() as collector:
        telemetry.configure(collector.endpoint)
        try:
            with open_store(tmp_path / "data") as memories:
                write(docs, a_md=f"# A\n\n{PRIVATE}\n")
                sync(memories, docs)
                search(memories, "how does the vault open")
        finally:
            telemetry.shutdown()
        yield collector


def test_every_stage_of_ingest_and_search_is_a_span_of_one_trace(collected):
    names = {s.name for s in collected.spans}
    assert {
        Span.INGEST_RUN, Span.INGEST_WALK, Span.INGEST_PLAN, Span.INGEST_CHUNK, Span.INGEST_EMBED,
        Span.INGEST_SWITCH, Span.INDEX_DRAIN, Span.LEDGER_READ, Span.LEDGER_WRITE, Span.SEARCH,
    } <= names  # fmt: skip
    (run,) = [s for s in collected.spans if s.name == Span.INGEST_RUN]
    of_run = {s.name for s in collected.spans if s.trace_id == run.trace_id}
    assert {Span.INGEST_WALK, Span.INGEST_PARSE, Span.INGEST_EMBED, Span.INGEST_SWITCH} <= of_run


def test_metrics_arrive_under_their_names(collected):
    assert {Metric.INGEST_DOCUMENTS, Metric.SEARCHES, Metric.SEARCH_SECONDS} <= collected.metrics


def test_no_text_of_a_document_leaves_in_a_span(collected):
    exported = " ".join(str(s) for s in collected.spans)
    assert "vault" not in exported
    assert "seven turns" not in exported


def test_without_an_endpoint_nothing_of_the_vendor_is_loaded():
    code = (
        "import sys\n"
        "from kb import telemetry\n"
        "from kb.telemetry import Attr, Span, Metric\n"
        "telemetry.configure(None)\n"
        "with telemetry.span(Span.SEARCH, {Attr.TOP_K: 1}): telemetry.count(Metric.SEARCHES)\n"
        "assert not [m for m in sys.modules if m.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_collector_that_is_absent_is_no_error_and_makes_no_noise(tmp_path):
    code = (
        "from kb import telemetry\n"
        "from kb.telemetry import Span, Metric\n"
        "telemetry.configure('http://127.0.0.1:9')\n"
        "with telemetry.span(Span.SEARCH): telemetry.count(Metric.SEARCHES)\n"
        "telemetry.shutdown()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
