"""What answers may stand anywhere in a passage: nothing looks at its beginning only."""

from __future__ import annotations

import asyncio

import pytest

from crag_runtime.evaluators.criteria import prompt_of
from crag_runtime.evaluators.fast import FastEvaluator, own_bands
from crag_runtime.evidence import Asked, Evidence, Grade, Label, Origin, QuestionType
from crag_runtime.refine import refined
from kb.dates.period import TimeIntent
from kb.tokens import cl100k_count

NOW = 1_800_000_000_000
EN = ("How many tons does the Anping bridge carry?", "The Anping bridge carries 40 tons.", "Ferries leave at nine. ")
ZH = ("安平大桥承重多少吨？", "安平大桥承重40吨。", "渡轮每天九点开船。")
PLACES = [(before, after) for before in (0, 150) for after in (0, 150)]


def asked(question: str) -> Asked:
    return Asked(question=question, type=QuestionType.FACTUAL, time=TimeIntent(), today=NOW, tenant="t")


def passage(text: str) -> Evidence:
    return Evidence(id="m", origin=Origin.MEMORY, text=text)


@pytest.fixture(params=[(*words, *place) for words in (EN, ZH) for place in PLACES])
def case(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    """A question, its answer, and the answer with much before it, or after it."""
    question, answer, other, before, after = request.param
    return question, answer, f"{other * before}{answer} {other * after}".strip()


def test_an_answer_anywhere_is_in_the_graders_prompt(case: tuple[str, str, str]) -> None:
    question, _, text = case
    assert text in "\n".join(message.content for message in prompt_of(asked(question), passage(text)))


def test_an_answer_anywhere_is_relevant_by_its_words(case: tuple[str, str, str]) -> None:
    question, _, text = case
    evaluator = FastEvaluator(own_bands(), vector_space="hashing")
    (grade,) = asyncio.run(evaluator.grade(asked(question), [passage(text)])).grades
    assert grade.label is Label.RELEVANT


def test_an_answer_anywhere_is_kept_by_refinement(case: tuple[str, str, str]) -> None:
    question, answer, text = case
    grade = Grade(id="m", label=Label.RELEVANT, relevance=0.9)
    kept = refined(question, [passage(text)], {"m": grade}, budget=200, count=cl100k_count)
    assert answer in {text[strip.start : strip.end] for strip in kept}
