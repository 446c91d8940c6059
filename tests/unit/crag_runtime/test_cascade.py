"""The cascade sends what is unclear, nothing else, and survives the failure of either side."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from crag_runtime.evaluators.cascade import Cascade, agreement
from crag_runtime.evidence import Asked, Evidence, Grade, Label, Origin, QuestionType, ScoredStrip, Usage
from kb.dates.period import TimeIntent
from kb.errors import EvaluatorUnavailable, ModelUnavailable
from tests.fakes.evaluator import FakeEvaluator

if TYPE_CHECKING:
    from crag_runtime.ports import Grading

ASKED = Asked(question="q", type=QuestionType.FACTUAL, time=TimeIntent(), today=0, tenant="t")
FIRST = {"clear": 0.9, "off": 0.1, "between": 0.5, "edge": 0.3, "unknown": None}
SENT = ["between", "edge", "unknown"]


def graded(first: FakeEvaluator, second: FakeEvaluator) -> Grading:
    passages = [Evidence(id=id_, origin=Origin.MEMORY, text=id_) for id_ in FIRST]
    return asyncio.run(Cascade(first, second).grade(ASKED, passages))


def labels(grading: Grading) -> dict[str, Label]:
    return {grade.id: grade.label for grade in grading.grades}


def test_only_the_unclear_are_sent() -> None:
    first, second = FakeEvaluator(FIRST), FakeEvaluator(default=0.8, cost=Usage(llm_calls=1), name="llm")
    found = graded(first, second)
    assert [id_ for _, id_ in second.graded] == SENT
    assert second.calls == 1
    assert labels(found) == {**dict.fromkeys([*SENT, "clear"], Label.RELEVANT), "off": Label.IRRELEVANT}
    assert found.usage == Usage(llm_calls=1)
    assert found.degraded == ""


def test_a_grade_keeps_the_name_of_who_gave_it() -> None:
    found = graded(FakeEvaluator(FIRST, name="reader"), FakeEvaluator(default=0.8, name="llm"))
    assert {g.id: g.evaluator for g in found.grades} == {
        **dict.fromkeys(SENT, "llm"), "clear": "reader", "off": "reader"
    }  # fmt: skip
    assert "ambiguous to reader" in next(g.reason for g in found.grades if g.id == "between")


def test_clear_cases_cost_no_call() -> None:
    second = FakeEvaluator()
    passages = [Evidence(id=id_, origin=Origin.MEMORY, text=id_) for id_ in ("clear", "off")]
    found = asyncio.run(Cascade(FakeEvaluator(FIRST), second).grade(ASKED, passages))
    assert second.calls == 0
    assert found.usage == Usage()


@pytest.mark.parametrize("error", [EvaluatorUnavailable("away"), ModelUnavailable("away")])
def test_a_failed_second_leaves_the_first_and_says_so(error: Exception) -> None:
    first, second = FakeEvaluator(FIRST), FakeEvaluator(name="llm")
    second.error = error
    found = graded(first, second)
    expected = asyncio.run(first.grade(ASKED, [Evidence(id=i, origin=Origin.MEMORY, text=i) for i in FIRST]))
    assert labels(found) == labels(expected)
    assert "llm could not grade: away" in found.degraded


def test_what_a_failed_call_cost_is_counted() -> None:
    second = FakeEvaluator()
    error = ModelUnavailable("away")
    error.calls, error.tokens_in = 2, 30
    second.error = error
    assert graded(FakeEvaluator(FIRST), second).usage == Usage(llm_calls=2, tokens_in=30)


def test_a_passage_that_only_the_second_leaves_unknown_keeps_its_grade() -> None:
    found = graded(FakeEvaluator(FIRST), FakeEvaluator({"edge": 0.9}, default=None, name="llm"))
    assert labels(found)["between"] is Label.AMBIGUOUS
    assert labels(found)["edge"] is Label.RELEVANT
    assert labels(found)["unknown"] is Label.UNKNOWN
    assert "2 of 3" in found.degraded


def test_a_failed_first_sends_everything_and_says_so() -> None:
    first, second = FakeEvaluator(FIRST, name="reader"), FakeEvaluator(default=0.8)
    first.error = EvaluatorUnavailable("no engine")
    found = graded(first, second)
    assert len(second.graded) == len(FIRST)
    assert "reader could not grade: no engine" in found.degraded


def test_both_away_is_the_second_s_error() -> None:
    first, second = FakeEvaluator(), FakeEvaluator()
    first.error, second.error = EvaluatorUnavailable("one"), ModelUnavailable("two")
    with pytest.raises(ModelUnavailable, match="two"):
        graded(first, second)


def test_a_bug_in_the_second_is_not_hidden() -> None:
    second = FakeEvaluator()
    second.error = KeyError("bug")
    with pytest.raises(KeyError):
        graded(FakeEvaluator(FIRST), second)


def test_windows_and_span_of_the_first_stay_with_a_passage_that_the_second_accepts() -> None:
    read = Grade(
        id="", label=Label.AMBIGUOUS, relevance=0.5, answer="nine", strips=(ScoredStrip(start=0, end=4, score=0.5),)
    )
    accepted, refused = FakeEvaluator(default=0.9), FakeEvaluator(default=0.1)
    passage = [Evidence(id="x", origin=Origin.MEMORY, text="nine")]
    (good,) = asyncio.run(Cascade(FakeEvaluator({"x": read}), accepted).grade(ASKED, passage)).grades
    (bad,) = asyncio.run(Cascade(FakeEvaluator({"x": read}), refused).grade(ASKED, passage)).grades
    assert (good.answer, good.strips) == ("nine", read.strips)
    assert bad.answer == ""


def test_identity_changes_with_either_side() -> None:
    one, two = FakeEvaluator(name="a"), FakeEvaluator(name="b")
    assert Cascade(one, two).identity.name == "cascade"
    assert Cascade(one, two).identity != Cascade(two, one).identity


def test_agreement_is_of_what_both_could_say_something_about() -> None:
    def grades(**relevances: float | None) -> list[Grade]:
        def label(r: float | None) -> Label:
            return Label.UNKNOWN if r is None else Label.RELEVANT if r >= 0.7 else Label.IRRELEVANT

        return [Grade(id=id_, label=label(r), relevance=r) for id_, r in relevances.items()]

    first = grades(up=0.6, down=0.4, torn=0.5, lost=None, left=0.6)
    assert agreement(first, grades(up=0.9, down=0.1, torn=0.1, lost=0.9, left=None)) == (3, 2)
    assert agreement(first, []) == (0, 0)
