"""No passage is graded twice for one question; keys part whatever could change a grade."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_runtime.breaker import Breaker
from crag_runtime.caches.in_process import InProcessCache
from crag_runtime.evaluators.guarded import Guarded
from crag_runtime.evaluators.remembered import Remembered
from crag_runtime.evidence import Asked, Evidence, Grade, Label, Origin, QuestionType, ScoredStrip
from crag_runtime.grade_keys import grade_key, normal_question
from crag_runtime.ports import EvaluatorIdentity, Grading
from crag_runtime.threads import Threads
from kb.dates.period import Period, TimeIntent
from kb.errors import EvaluatorUnavailable
from kb.trust import DAY_MS
from tests.fakes.collector import Collector
from tests.fakes.evaluator import FakeEvaluator
from tests.stores import FakeClock

ASKED = Asked(
    question="When did it open?", type=QuestionType.FACTUAL, time=TimeIntent(), today=100 * DAY_MS, tenant="t"
)
EVIDENCE = [Evidence(id=id_, origin=Origin.MEMORY, text=id_, rev=1) for id_ in ("a", "b", "c")]
ME = EvaluatorIdentity(name="reader", model="m", version="1")
FULL = Grade(
    id="a",
    label=Label.RELEVANT,
    relevance=0.9,
    reason="大桥",
    answer="1932",
    strips=(ScoredStrip(start=0, end=4, score=0.5),),
    evaluator="fake",
)


class Desk:
    """A scripted evaluator behind a cache."""

    def __init__(self) -> None:
        self.inner = FakeEvaluator({"a": FULL, "b": 0.1, "c": 0.5})
        self.clock = FakeClock()
        self.cache = InProcessCache(ttl_seconds=60, clock=self.clock)
        self.threads = Threads(1)
        self.remembered = Remembered(self.inner, self.cache, self.threads)

    def grade(self, asked: Asked = ASKED, evidence: list[Evidence] = EVIDENCE) -> Grading:
        return asyncio.run(self.remembered.grade(asked, evidence))


@pytest.fixture
def desk():
    made = Desk()
    yield made
    made.threads.close()


def test_the_second_time_the_same_grades_come_without_grading(desk):
    first, second = desk.grade(), desk.grade()
    assert second.grades == first.grades
    assert first.grades[0] == FULL
    assert (desk.inner.calls, second.usage.llm_calls, second.degraded) == (1, 0, "")
    assert desk.remembered.identity == desk.inner.identity


def test_only_the_misses_are_graded_in_one_batch_and_the_order_is_kept(desk):
    desk.grade(evidence=[EVIDENCE[1]])
    graded = desk.grade(evidence=[EVIDENCE[2], EVIDENCE[1], EVIDENCE[0], EVIDENCE[2]])
    assert [g.id for g in graded.grades] == ["c", "b", "a", "c"]
    assert [id_ for _, id_ in desk.inner.graded] == ["b", "c", "a", "c"]
    assert desk.inner.calls == 2


def test_unknown_is_never_kept(desk):
    desk.inner.script = {"a": None, "b": 0.5, "c": None}
    assert [g.label for g in desk.grade().grades] == [Label.UNKNOWN, Label.AMBIGUOUS, Label.UNKNOWN]
    desk.inner.script = {"a": 0.9, "b": 0.0, "c": 0.9}
    assert [g.relevance for g in desk.grade().grades] == [0.9, 0.5, 0.9]


def test_a_changed_memory_another_tenant_and_another_model_are_graded_anew(desk):
    desk.grade()
    desk.grade(evidence=[replace(e, rev=2) for e in EVIDENCE])
    desk.grade(replace(ASKED, tenant="u"))
    desk.inner.identity = replace(desk.inner.identity, version="2")
    desk.grade()
    assert desk.inner.calls == 4


def test_an_error_of_the_evaluator_passes_and_nothing_is_kept(desk):
    desk.inner.error = EvaluatorUnavailable("down")
    with pytest.raises(EvaluatorUnavailable):
        desk.grade()
    desk.inner.error = None
    desk.grade()
    assert desk.inner.calls == 2


def test_a_stand_in_s_grades_are_never_served_as_the_evaluator_s_own():
    desk, primary = Desk(), FakeEvaluator(default=0.9, name="llm")
    primary.error = EvaluatorUnavailable("down")
    guarded = Guarded(primary, [FakeEvaluator(default=0.2, name="local")], Breaker(), desk.clock)
    desk.remembered = Remembered(guarded, desk.cache, desk.threads)
    assert desk.grade().grades[0].evaluator == "local"
    primary.error = None
    own = desk.grade()
    assert [g.evaluator for g in own.grades] == ["llm"] * 3
    assert own.degraded == ""
    local = Remembered(FakeEvaluator(default=0.3, name="local"), desk.cache, desk.threads)
    assert asyncio.run(local.grade(ASKED, EVIDENCE)).grades[0].relevance == 0.2  # kept under who really graded
    desk.threads.close()


@pytest.mark.parametrize(
    "text", ["", "null", "[]", '{"id": "a"}', "{", '{"id":"b","label":"relevant","relevance":1.0}']
)
def test_what_is_no_grade_of_this_memory_is_a_miss(desk, text):
    desk.cache.put({grade_key(ASKED, EVIDENCE[0], desk.inner.identity): text})
    assert desk.grade(evidence=EVIDENCE[:1]).grades == (FULL,)


def test_hits_and_misses_are_counted(desk):
    from kb import telemetry

    with Collector() as collector:
        telemetry.configure(collector.endpoint)
        try:
            desk.grade()
            desk.grade()
        finally:
            telemetry.shutdown()
    assert {telemetry.Metric.GRADE_CACHE_HITS, telemetry.Metric.GRADE_CACHE_MISSES} <= collector.metrics


def test_nothing_to_grade_asks_nobody(desk):
    assert desk.grade(evidence=[]).grades == ()
    assert desk.inner.calls == 0


@pytest.mark.parametrize(
    "question", ["when did it  open", "When did it open ?!", "ＷＨＥＮ did it open？", " When did it\nopen. "]
)
def test_questions_that_differ_in_form_only_share_a_grade(question):
    assert grade_key(replace(ASKED, question=question), EVIDENCE[0], ME) == grade_key(ASKED, EVIDENCE[0], ME)


@pytest.mark.parametrize(
    "other",
    [
        replace(ASKED, question="When did it close?"),
        replace(ASKED, type=QuestionType.ANALYTICAL),
        replace(ASKED, tenant="u"),
    ],
)
def test_another_question_type_or_tenant_is_another_key(other):
    assert grade_key(other, EVIDENCE[0], ME) != grade_key(ASKED, EVIDENCE[0], ME)


def test_the_day_matters_only_to_questions_that_depend_on_it():
    tomorrow, tonight = ASKED.today + DAY_MS, ASKED.today + DAY_MS - 1
    for time in (
        TimeIntent(is_current=True),
        TimeIntent(as_of=5),
        TimeIntent(periods=(Period(start=0, end=1, label="x"),)),
    ):
        now = replace(ASKED, time=time)
        key = grade_key(now, EVIDENCE[0], ME)
        assert grade_key(replace(now, today=tonight), EVIDENCE[0], ME) == key
        assert grade_key(replace(now, today=tomorrow), EVIDENCE[0], ME) != key
    assert grade_key(replace(ASKED, today=tomorrow), EVIDENCE[0], ME) == grade_key(ASKED, EVIDENCE[0], ME)


@given(st.text(alphabet=st.characters()))
def test_normalising_twice_is_normalising_once(text):
    assert normal_question(normal_question(text)) == normal_question(text)


@given(st.text(max_size=3), st.text(max_size=3), st.text(max_size=3))
def test_name_model_and_version_never_run_into_one_another(name, model, version):
    key = grade_key(ASKED, EVIDENCE[0], EvaluatorIdentity(name=name, model=model, version=version)).evaluator
    assert key.split("\x1f")[0] == name or "\x1f" in name
