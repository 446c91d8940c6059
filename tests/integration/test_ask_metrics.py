"""What a runtime counts, through the real protocol: each question once, each correction by the web once."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from crag_runtime.evidence import Finding
from crag_runtime.result import AskRequest, Waiting
from kb import telemetry
from kb.errors import EvaluatorUnavailable
from kb.telemetry import Metric, Span
from tests.agents import remember
from tests.asking import ask, by_words, open_runtime, path_of
from tests.fakes.collector import Collector
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.search import FakeSearch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.memories import Memories

QUESTION = "How many tons does the Anping bridge carry?"
BRIDGE = "The Anping bridge carries 40 tons on a dry day."
PAINT = "The Anping bridge is painted green every spring."
PAGE = Finding(url="https://bridges.example/anping", title="Anping", text=BRIDGE)


class Totals(Collector):
    """Keeps the last total of every counter and the last count of every histogram, by name and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.by: dict[tuple[str, tuple[str, ...]], float] = {}
        self.edges: dict[str, tuple[float, ...]] = {}

    def keep(self, path: str, body: bytes) -> None:
        super().keep(path, body)
        if path.endswith("/metrics"):
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for metric in (m for scope in resource.scope_metrics for m in scope.metrics):
                    self._keep(metric)

    def _keep(self, metric: Any) -> None:
        for point in metric.histogram.data_points:
            self.edges[metric.name] = tuple(point.explicit_bounds)
        for point in (*metric.sum.data_points, *metric.histogram.data_points):
            said = tuple(sorted(a.value.string_value for a in point.attributes))
            value = point.as_int or point.as_double if metric.WhichOneof("data") == "sum" else point.count
            self.by[metric.name, said] = value

    def of(self, metric: Metric) -> int:
        """Return a metric's total over all attributes."""
        return int(sum(value for (name, _), value in self.by.items() if name == metric))

    def parts(self, metric: Metric) -> dict[str, int]:
        """Return a metric's totals by the words of its attributes."""
        return {" ".join(said): int(value) for (name, said), value in self.by.items() if name == metric}


@contextmanager
def counting() -> Iterator[Totals]:
    """Export to a collector; what it has counted is complete after the block."""
    with Totals() as totals:
        telemetry.configure(totals.endpoint)
        try:
            yield totals
        finally:
            telemetry.shutdown()


@pytest.mark.parametrize(
    ("local", "approve", "has_search", "corrections"),
    [
        (BRIDGE, "always", True, 0),  # nothing to correct
        (PAINT, "always", True, 1),
        (PAINT, "never", True, 0),
        (PAINT, "always", False, 0),
    ],
)
def test_a_question_counts_once_and_as_a_fallback_only_if_the_web_was_searched(
    store: Memories, tmp_path: Path, *, local: str, approve: str, has_search: bool, corrections: int
) -> None:
    remember(store, local)

    async def story() -> None:
        search = FakeSearch([PAGE]) if has_search else None
        evaluator = FakeEvaluator(by_words({"tons": 0.9}))
        async with open_runtime(store, tmp_path / "data", evaluator=evaluator, search=search) as runtime:
            await ask(runtime, QUESTION, approve=approve)
            await runtime.gather(AskRequest(question=QUESTION, tenant="default", approve="never"))

    with counting() as totals:
        asyncio.run(story())
    assert totals.of(Metric.REQUESTS) == 2
    assert totals.of(Metric.FALLBACKS) == totals.of(Metric.WEB_SEARCHES) == corrections
    assert sum(totals.parts(Metric.OUTCOMES).values()) == 2
    assert {Metric.REQUESTS, Metric.FALLBACKS} == {"crag_requests_total", "crag_fallback_triggered_total"}


@pytest.mark.parametrize(("decision", "corrections"), [("approve", 1), ("decline", 0)])
def test_a_question_that_waited_for_a_person_counts_once(
    store: Memories, tmp_path: Path, decision: str, corrections: int
) -> None:
    remember(store, PAINT)

    async def story() -> None:
        evaluator = FakeEvaluator(by_words({"tons": 0.9}))
        search = FakeSearch([PAGE])
        async with open_runtime(store, tmp_path / "data", evaluator=evaluator, search=search) as runtime:
            waiting = await runtime.ask(AskRequest(question=QUESTION, tenant="default", thread="t"))
            assert isinstance(waiting, Waiting)
            await runtime.resume("t", "default", decision=decision)

    with counting() as totals:
        asyncio.run(story())
    assert (totals.of(Metric.REQUESTS), totals.of(Metric.FALLBACKS)) == (1, corrections)
    assert sum(totals.parts(Metric.OUTCOMES).values()) == 1


def test_grades_are_counted_by_label_whoever_gave_them_and_trust_is_measured(store: Memories, tmp_path: Path) -> None:
    for note, confidence in ((BRIDGE, 0.95), (PAINT, 0.75), ("Ferries to the bridge leave at nine.", 0.8)):
        remember(store, note, confidence=confidence)

    async def story() -> None:
        evaluator = FakeEvaluator(by_words({"tons": 0.9, "Ferries": None}))
        async with open_runtime(store, tmp_path / "data", evaluator=evaluator) as runtime:
            await ask(runtime, QUESTION)
            evaluator.error = EvaluatorUnavailable("gone")
            await ask(runtime, QUESTION)

    with counting() as totals:
        asyncio.run(story())
    assert totals.parts(Metric.GRADES) == {"fake relevant": 1, "fake irrelevant": 1, "fake unknown": 1, " unknown": 3}
    assert totals.parts(Metric.EVIDENCE_CONFIDENCE) == {"memory": 3}
    assert totals.edges[Metric.EVIDENCE_CONFIDENCE][-1] == 1.0
    assert 0.7 in totals.edges[Metric.EVIDENCE_CONFIDENCE]


def test_every_node_has_its_latency_its_span_and_every_verdict_is_counted(store: Memories, tmp_path: Path) -> None:
    remember(store, PAINT)
    paths: list[list[str]] = []

    async def story() -> None:
        evaluator = FakeEvaluator(by_words({"tons": 0.9}))
        search = FakeSearch([PAGE])
        async with open_runtime(store, tmp_path / "data", evaluator=evaluator, search=search) as runtime:
            paths.append(path_of(await ask(runtime, QUESTION, approve="always")))

    with counting() as totals:
        asyncio.run(story())
    assert totals.parts(Metric.NODE_SECONDS) == dict(Counter(paths[0]))
    assert min(totals.edges[Metric.NODE_SECONDS]) <= 0.001  # milliseconds are told apart
    assert totals.parts(Metric.VERDICTS) == {"incorrect": 2, "correct": 1}
    spans = [span for span in totals.spans if span.name == Span.NODE]  # type: ignore[attr-defined]
    assert Counter(s.attributes[0].value.string_value for s in spans) == Counter(paths[0])  # type: ignore[attr-defined]
    everything = " ".join(str(span) for span in totals.spans)
    for private in ("Anping", "tons", "green"):
        assert private not in everything
