"""What every evaluator must hold, the fake included: those that need no network."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from crag_runtime.evaluators.cascade import Cascade
from crag_runtime.evaluators.fast import FastEvaluator, own_bands
from crag_runtime.evidence import Asked, Evidence, Label, Origin, QuestionType, Usage
from crag_runtime.threads import Threads
from crag_runtime.verdict import Thresholds, label_of
from kb.dates.period import TimeIntent
from kb.settings import default_cache_dir
from tests.fakes.embedder import HashingEmbedder
from tests.fakes.evaluator import FakeEvaluator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crag_runtime.policy import Bands
    from crag_runtime.ports import Evaluator, Grading

TODAY = 1_796_000_000_000  # 2026-11-30
EMBEDDER = HashingEmbedder(dim=64)
QUESTION = "When does the Tampa harbour open?"
TEXTS = (
    "The Tampa harbour opens at nine in the morning. Boats may wait outside.",
    "坦帕港口早上九点开放。",
    "Quantum bananas sing loudly at night.",
    "x",
    "。",
    "1" * 300,
    "😀 \u200b odd \x00 text",
    "a long sentence of many words. " * 20,
    "| a | b |\n|---|---|\n| 9:00 | open |",
)


@dataclass(frozen=True)
class Graded:
    """An evaluator and the thresholds it was given."""

    evaluator: Evaluator
    bands: Bands


def evidence(texts: Sequence[str], *, prefix: str = "m") -> list[Evidence]:
    vectors = EMBEDDER.passages(texts)
    return [
        Evidence(id=f"{prefix}{n}", origin=Origin.MEMORY, text=text, title="Harbours", vector=vector)
        for n, (text, vector) in enumerate(zip(texts, vectors, strict=True))
    ]


def asked(question: str = QUESTION, kind: QuestionType = QuestionType.FACTUAL) -> Asked:
    vector = EMBEDDER.queries([question])[0]
    return Asked(question=question, type=kind, time=TimeIntent(), today=TODAY, tenant="t", vector=vector)


@pytest.fixture
def threads() -> Iterator[Threads]:
    made = Threads(2)
    yield made
    made.close()


@pytest.fixture(
    params=["fake", "fast", "fast in place", "fast without vectors", "cascade", "cascade degraded", "reader"]
)
def graded(request: pytest.FixtureRequest, threads: Threads) -> Graded:
    bands = own_bands()
    fake_bands = dict.fromkeys(QuestionType, Thresholds(lower=0.2, upper=0.8))
    match request.param:
        case "fake":
            return Graded(FakeEvaluator({"m0": 0.9, "m1": 0.5}, bands=fake_bands), fake_bands)
        case "fast":
            return Graded(FastEvaluator(bands, threads), bands)
        case "fast in place":
            return Graded(FastEvaluator(bands), bands)
        case "fast without vectors":
            return Graded(FastEvaluator(bands, threads, vector_space="hashing"), bands)
        case "reader":
            reader = pytest.importorskip("crag_runtime.evaluators.reader")
            return Graded(reader.open_reader(default_cache_dir(), reader.BANDS, threads), reader.BANDS)
    first, second = FakeEvaluator({"m0": 0.5}, bands=fake_bands), FakeEvaluator({"m0": 0.9}, bands=fake_bands)
    if request.param == "cascade degraded":
        second = FakeEvaluator(default=None, bands=fake_bands)
    return Graded(Cascade(first, second), fake_bands)


def grade(evaluator: Evaluator, question: Asked, passages: Sequence[Evidence]) -> Grading:
    return asyncio.run(evaluator.grade(question, passages))


def test_identity_is_named_and_stays(graded: Graded) -> None:
    identity = graded.evaluator.identity
    assert identity.name
    assert identity.model
    assert identity.version
    grade(graded.evaluator, asked(), evidence(TEXTS[:1]))
    assert graded.evaluator.identity == identity


def test_every_passage_gets_one_grade_in_order(graded: Graded) -> None:
    passages = evidence(TEXTS)
    found = grade(graded.evaluator, asked(), passages)
    assert [g.id for g in found.grades] == [e.id for e in passages]


def test_nothing_to_grade_costs_nothing(graded: Graded) -> None:
    found = grade(graded.evaluator, asked(), [])
    assert found.grades == ()
    assert found.usage == Usage()


@pytest.mark.parametrize("kind", QuestionType)
def test_labels_agree_with_the_thresholds_of_the_type(graded: Graded, kind: QuestionType) -> None:
    for found in grade(graded.evaluator, asked(kind=kind), evidence(TEXTS)).grades:
        assert (found.relevance is None) == (found.label is Label.UNKNOWN)
        assert found.relevance is None or 0.0 <= found.relevance <= 1.0
        assert found.label is label_of(found.relevance, graded.bands[kind])


def test_grades_do_not_depend_on_the_company(graded: Graded) -> None:
    passages = evidence(TEXTS)
    together = grade(graded.evaluator, asked(), passages).grades
    backwards = grade(graded.evaluator, asked(), passages[::-1]).grades[::-1]
    alone = [grade(graded.evaluator, asked(), [e]).grades[0] for e in passages]
    for one, other, third in zip(together, backwards, alone, strict=True):
        assert one.label is other.label is third.label
        assert one.relevance == pytest.approx(other.relevance, abs=1e-3)
        assert one.relevance == pytest.approx(third.relevance, abs=1e-3)


def test_a_grade_says_who_gave_it_and_why(graded: Graded) -> None:
    for found in grade(graded.evaluator, asked(), evidence(TEXTS[:3])).grades:
        assert found.reason
        assert "\n" not in found.reason
        assert found.evaluator
        assert found.model
        assert found.version


def test_answers_and_strips_are_of_the_text(graded: Graded) -> None:
    passages = evidence(TEXTS)
    for found, passage in zip(grade(graded.evaluator, asked(), passages).grades, passages, strict=True):
        assert found.answer in passage.text
        assert all(0 <= s.start < s.end <= len(passage.text) for s in found.strips)


def test_a_passage_without_text_harms_no_other(graded: Graded) -> None:
    whole = grade(graded.evaluator, asked(), evidence(TEXTS[:2])).grades
    passages = evidence((*TEXTS[:2], "", " \n"))
    found = grade(graded.evaluator, asked(), passages).grades
    assert [g.label for g in found[:2]] == [g.label for g in whole]
    assert all(g.label is not Label.RELEVANT for g in found[2:])


def test_any_question_can_be_graded(graded: Graded) -> None:
    for question in ("", "?", "the of and", "什么", "a" * 5000, "\x00", "￥%……"):
        assert len(grade(graded.evaluator, asked(question), evidence(TEXTS[:2])).grades) == 2


def test_many_at_a_time_are_as_one(graded: Graded) -> None:
    passages = evidence(TEXTS[:3])

    async def many() -> list[Grading]:
        return await asyncio.gather(*(graded.evaluator.grade(asked(), passages) for _ in range(6)))

    expected = grade(graded.evaluator, asked(), passages)
    for found in asyncio.run(many()):
        assert [g.label for g in found.grades] == [g.label for g in expected.grades]


def test_missing_vectors_are_no_failure(graded: Graded) -> None:
    bare = [replace(e, vector=None) for e in evidence(TEXTS[:2])]
    found = grade(graded.evaluator, replace(asked(), vector=None), bare)
    assert len(found.grades) == 2
