"""The fast evaluator: what it must not miss, what it must say, and how it degrades."""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from crag_runtime.evaluators import coefficients as shipped
from crag_runtime.evaluators.fast import FastEvaluator, own_bands
from crag_runtime.evidence import Asked, Evidence, Grade, Label, Origin, QuestionType
from crag_runtime.threads import Threads
from kb.dates.periods import ANOTHER_TIME, time_intent
from kb.errors import EvaluatorUnavailable

if TYPE_CHECKING:
    from pathlib import Path

TODAY = 1_796_000_000_000  # 2026-11-30
UNIT = np.eye(1, 384, dtype=np.float32)[0]


def near(cosine: float) -> np.ndarray:
    vector = np.zeros(384, np.float32)
    vector[0], vector[1] = cosine, (1 - cosine**2) ** 0.5
    return vector


def asked(question: str, *, has_vector: bool = True) -> Asked:
    return Asked(
        question=question,
        type=QuestionType.FACTUAL,
        time=time_intent(question, TODAY),
        today=TODAY,
        tenant="t",
        vector=UNIT if has_vector else None,
    )


def passage(text: str, cosine: float | None = 0.92, **more: str) -> Evidence:
    vector = None if cosine is None else near(cosine)
    return Evidence(id="m", origin=Origin.MEMORY, text=text, vector=vector, **more)


def grade(question: Asked, evidence: Evidence, evaluator: FastEvaluator | None = None) -> Grade:
    found = asyncio.run((evaluator or FastEvaluator(own_bands())).grade(question, [evidence]))
    return found.grades[0]


SWAPS = [
    (
        "What was the revenue of Acme in Q3 2024?",
        "In {} the revenue of Acme was 41 million.",
        "Q3 2024",
        "Q3 2023",
    ),
    (
        "What was the revenue of Acme in Q3 2024?",
        "In {} the revenue of Acme was 41 million.",
        "Q3 2024",
        "Q2 2024",
    ),
    ("What is the plan of Acme for 2024?", "The plan of Acme for {} is to open two harbours.", "2024", "2023"),
    ("阿克米公司2024年三季度的营收是多少？", "阿克米公司{}的营收是4100万元。", "2024年三季度", "2023年三季度"),
    ("阿克米公司2024年三季度的营收是多少？", "阿克米公司{}的营收是4100万元。", "2024年三季度", "2024年二季度"),
    ("阿克米公司2024年的计划是什么？", "阿克米公司{}的计划是开放两个港口。", "2024年", "2023年"),
]


@pytest.mark.parametrize("cosine", [0.97, None], ids=["vectors", "words"])
@pytest.mark.parametrize(("question", "text", "right", "wrong"), SWAPS)
def test_another_period_is_never_relevant(
    question: str, text: str, right: str, wrong: str, cosine: float | None
) -> None:
    own = grade(asked(question), passage(text.format(right), cosine))
    other = grade(asked(question), passage(text.format(wrong), cosine))
    assert own.label is Label.RELEVANT
    assert other.label is not Label.RELEVANT
    assert f"{ANOTHER_TIME} {asked(question).time.periods[0].label}" in other.reason
    assert right in other.reason


def test_only_of_a_passage_that_would_fit_is_it_said_that_the_time_is_another() -> None:
    """A refusal says it of the whole question then: that there is evidence, of another period."""
    other = grade(asked("What was the revenue of Acme in Q3 2024?"), passage("Ferries left at nine in 2019.", None))
    assert other.label is Label.IRRELEVANT
    assert ANOTHER_TIME not in other.reason
    assert "its period is another one too" in other.reason


@pytest.mark.parametrize(
    ("question", "text", "right", "wrong"),
    [
        ("What was the revenue of Acme in Q3 2024?", "In Q3 2024 the revenue of {} was 41 million.", "Acme", "Globex"),
        ("What is the torque of SKU-2024-X5?", "The torque of {} is 40 Nm.", "SKU-2024-X5", "RTX-99-B"),
        ("《三体》的作者是谁？", "《{}》的作者是一位工程师。", "三体", "雪国"),
    ],
)
@pytest.mark.parametrize("cosine", [0.95, None], ids=["vectors", "words"])
def test_another_name_lowers_relevance(question: str, text: str, right: str, wrong: str, cosine: float | None) -> None:
    own = grade(asked(question), passage(text.format(right), cosine))
    other = grade(asked(question), passage(text.format(wrong), cosine))
    assert own.relevance is not None
    assert other.relevance is not None
    assert other.relevance < own.relevance
    assert "names of the question are missing" in other.reason


def test_a_name_in_title_or_headings_is_not_missing() -> None:
    question = asked("What was the revenue of Acme?")
    bare = grade(question, passage("The revenue was 41 million."))
    titled = grade(question, passage("The revenue was 41 million.", title="Annual report of Acme"))
    assert (titled.relevance or 0) > (bare.relevance or 0)


def test_the_period_in_the_title_counts() -> None:
    found = grade(asked("What was the revenue in 2024?"), passage("The revenue was 41 million.", title="Report 2023"))
    assert found.label is not Label.RELEVANT


def test_without_a_vector_words_decide_and_the_reason_says_so() -> None:
    found = grade(asked("When does the harbour open?"), passage("The harbour opens at nine.", None))
    assert found.label is Label.RELEVANT
    assert "no vector" in found.reason
    off = grade(asked("When does the harbour open?"), passage("Bananas sing loudly.", None))
    assert off.label is Label.IRRELEVANT


def test_vectors_of_another_space_are_not_looked_at() -> None:
    other = FastEvaluator(own_bands(), vector_space="text-embedding-3-small")
    question = asked("When does the harbour open?")
    found = [grade(question, passage("The harbour opens at nine.", cosine), other) for cosine in (0.1, 0.99)]
    assert found[0].relevance == found[1].relevance
    assert "no coefficients are known for these vectors" in found[0].reason
    assert other.identity != FastEvaluator(own_bands()).identity


@pytest.mark.parametrize("odd", [np.full(384, np.nan, np.float32), np.ones(3, np.float32)], ids=["nan", "short"])
def test_a_broken_vector_is_as_none(odd: np.ndarray) -> None:
    found = grade(asked("When does the harbour open?"), replace(passage("The harbour opens at nine."), vector=odd))
    assert "no vector" in found.reason


def test_across_scripts_only_the_cosine_decides() -> None:
    question = asked("When does the Tampa harbour open?")
    found = [grade(question, passage("坦帕港口早上九点开放。", cosine)) for cosine in (0.7, 0.85)]
    assert "in another script" in found[0].reason
    assert (found[0].relevance or 0) < 0.5 < (found[1].relevance or 0)


def test_what_neither_words_nor_vectors_can_tell_is_unknown() -> None:
    across = grade(asked("When does the Tampa harbour open?"), passage("坦帕港口早上九点开放。", None))
    wordless = grade(asked("What is it?"), passage("The harbour opens at nine.", None))
    for found in (across, wordless):
        assert found.label is Label.UNKNOWN
        assert "no vector" in found.reason


def test_a_question_without_a_telling_word_is_graded_by_the_cosine_alone() -> None:
    found = [grade(asked("What is it?"), passage("The harbour opens at nine.", cosine)) for cosine in (0.7, 0.95)]
    assert (found[0].relevance or 0) < 0.3 < (found[1].relevance or 0)
    assert "no telling word" in found[0].reason


def test_relevance_rises_with_the_cosine() -> None:
    question = asked("When does the harbour open?")
    found = [grade(question, passage("It opens at nine.", c / 100)).relevance or 0 for c in range(70, 100, 3)]
    assert found == sorted(found)


def test_three_stored_passages_take_milliseconds() -> None:
    """The bench holds the target; here only that nothing is slower by an order of magnitude."""
    question, texts = asked("When does the Tampa harbour open?"), ["The Tampa harbour opens at nine. " * 12] * 3
    evaluator, evidence = FastEvaluator(own_bands()), [passage(t) for t in texts]
    times = []
    for _ in range(20):
        began = time.process_time()
        asyncio.run(evaluator.grade(question, evidence))
        times.append(time.process_time() - began)
    assert statistics.median(times) < 0.2


def test_the_loop_runs_on_while_threads_grade() -> None:
    threads = Threads(1)
    evaluator = FastEvaluator(own_bands(), threads)
    evidence = [passage("知识库的港口早上九点开放。" * 200) for _ in range(20)]
    turns = 0

    async def both() -> None:
        nonlocal turns
        work = asyncio.create_task(evaluator.grade(asked("港口几点开放？"), evidence))
        while not work.done():
            turns += 1
            await asyncio.sleep(0.001)
        await work

    asyncio.run(both())
    threads.close()
    assert turns > 3


def test_thresholds_are_part_of_the_version() -> None:
    bands = own_bands()
    other = {**bands, QuestionType.FACTUAL: replace(bands[QuestionType.FACTUAL], upper=0.99)}
    assert FastEvaluator(bands).identity.version != FastEvaluator(other).identity.version


@pytest.mark.parametrize("damage", ["", "{", "{}", '{"version": 1, "models": {"full": {}}}'])
def test_damaged_coefficients_are_a_typed_error(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fast.json").write_text(damage, encoding="utf-8")
    (tmp_path / "rarity.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(shipped, "DATA", tmp_path)
    with pytest.raises(EvaluatorUnavailable, match="coefficients cannot be read"):
        shipped.coefficients.__wrapped__()


def test_shipped_coefficients_carry_statistics_and_no_text() -> None:
    known = shipped.coefficients()
    assert set(known.bands) == set(QuestionType)
    assert all(" " not in term for term in known.rarity.table)
    for regression in (known.full, known.lexical, known.cosine, known.cross):
        signs = zip(regression.features, regression.weights, strict=True)
        assert all(w <= 0 if f.endswith(("_missing", "_mismatch")) else w >= 0 for f, w in signs if f != "length")
        assert regression.a > 0
    assert all(0 < left < 1 for left in known.penalties.values())
