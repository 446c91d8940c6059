"""Stand-ins grade when the first cannot, and the grading says so; nothing but a typed error leaves."""

from __future__ import annotations

import asyncio

import pytest

from crag_runtime.breaker import Breaker, BreakerPolicy, CircuitState
from crag_runtime.evaluators.guarded import Guarded
from crag_runtime.evidence import Asked, Evidence, Grade, Label, Origin, QuestionType, Usage
from crag_runtime.ports import Grading
from kb.dates.period import TimeIntent
from kb.errors import EvaluatorUnavailable, Fault, ModelUnavailable
from tests.fakes.evaluator import FakeEvaluator
from tests.stores import FakeClock

ASKED = Asked(question="q", type=QuestionType.FACTUAL, time=TimeIntent(), today=0, tenant="t")
EVIDENCE = [Evidence(id=id_, origin=Origin.MEMORY, text=id_) for id_ in ("a", "b")]


class Alone:
    """A primary, a fallback, a clock and what guards them."""

    def __init__(self, fallbacks: int = 1) -> None:
        self.primary = FakeEvaluator({"a": 0.9, "b": 0.1}, name="llm", cost=Usage(llm_calls=1))
        self.fallbacks = [FakeEvaluator(default=0.5, name=f"local{n}") for n in range(fallbacks)]
        self.clock = FakeClock()
        self.breaker = Breaker(BreakerPolicy(failures=2, cooldown=1000))
        self.guarded = Guarded(self.primary, self.fallbacks, self.breaker, self.clock)

    def grade(self) -> Grading:
        return asyncio.run(self.guarded.grade(ASKED, EVIDENCE))


def test_while_the_primary_grades_nobody_else_is_asked_and_nothing_is_degraded():
    alone = Alone()
    graded = alone.grade()
    assert [g.relevance for g in graded.grades] == [0.9, 0.1]
    assert (graded.degraded, graded.usage.llm_calls, alone.fallbacks[0].calls) == ("", 1, 0)
    assert alone.guarded.identity == alone.primary.identity


@pytest.mark.parametrize(
    "error",
    [
        ModelUnavailable("too many requests", fault=Fault.RATE_LIMITED),
        EvaluatorUnavailable("not loaded"),
        ZeroDivisionError("from somebody else's code"),
        TimeoutError(),
    ],
    ids=lambda e: type(e).__name__,
)
def test_whatever_the_primary_raises_the_next_grades_and_the_reason_is_told(error):
    alone = Alone()
    alone.primary.error = error
    graded = alone.grade()
    assert [g.evaluator for g in graded.grades] == ["local0", "local0"]
    assert "llm" in graded.degraded
    assert "graded by local0" in graded.degraded
    assert (str(error) or type(error).__name__) in graded.degraded


def test_all_unknown_is_a_failure_and_some_unknown_is_not():
    alone = Alone()
    alone.primary.script = {"a": None, "b": None}
    assert alone.grade().grades[0].evaluator == "local0"
    alone.primary.script = {"a": None, "b": 0.9}
    graded = alone.grade()
    assert [g.label for g in graded.grades] == [Label.UNKNOWN, Label.RELEVANT]
    assert graded.degraded == ""


def test_grades_that_were_not_asked_for_are_a_failure():
    class Confused(FakeEvaluator):
        async def grade(self, asked, evidence):  # noqa: ARG002 - it listens to nobody
            return Grading(grades=(Grade(id="z", label=Label.RELEVANT, relevance=1.0),), usage=Usage(llm_calls=1))

    alone = Alone()
    alone.guarded = Guarded(Confused(name="llm"), alone.fallbacks, alone.breaker, alone.clock)
    graded = alone.grade()
    assert [g.id for g in graded.grades] == ["a", "b"]
    assert graded.usage.llm_calls == 1


def test_what_was_spent_in_vain_is_counted():
    alone = Alone()
    error = ModelUnavailable("cut off", fault=Fault.CUT_OFF)
    error.calls, error.tokens_in = 2, 30
    alone.primary.error = error
    assert alone.grade().usage == Usage(llm_calls=2, tokens_in=30)


def test_an_open_breaker_keeps_the_primary_unasked_until_a_probe_succeeds():
    alone = Alone()
    alone.primary.error = EvaluatorUnavailable("down")
    for _ in range(5):
        alone.grade()
    assert alone.primary.calls == 2
    assert "failed repeatedly" in alone.grade().degraded
    alone.clock.advance(1000)
    alone.primary.error = None
    assert alone.grade().degraded == ""
    assert alone.breaker.state(alone.clock.now()) is CircuitState.CLOSED


def test_stand_ins_are_asked_in_order_until_one_grades():
    alone = Alone(fallbacks=3)
    alone.primary.error = alone.fallbacks[0].error = EvaluatorUnavailable("down")
    assert alone.grade().grades[0].evaluator == "local1"
    assert alone.fallbacks[2].calls == 0


@pytest.mark.parametrize("fallbacks", [0, 2])
def test_when_everybody_fails_the_error_is_typed_and_names_each(fallbacks):
    alone = Alone(fallbacks=fallbacks)
    for evaluator in (alone.primary, *alone.fallbacks):
        evaluator.error = RuntimeError("broken")
    with pytest.raises(EvaluatorUnavailable) as caught:
        alone.grade()
    assert all(e.identity.name in str(caught.value) for e in (alone.primary, *alone.fallbacks))


def test_a_cancelled_probe_is_no_outcome():
    alone = Alone()
    alone.primary.error = EvaluatorUnavailable("down")
    alone.grade()
    alone.grade()
    alone.clock.advance(1000)
    alone.primary.error, alone.primary.hangs = None, True

    async def cancelled() -> None:
        task = asyncio.create_task(alone.guarded.grade(ASKED, EVIDENCE))
        await alone.primary.entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    alone.primary.hangs = False
    assert alone.grade().degraded == ""


def test_nothing_to_grade_costs_nothing():
    alone = Alone()
    assert asyncio.run(alone.guarded.grade(ASKED, [])) == Grading(grades=(), usage=Usage())
    assert alone.primary.calls == 0
