"""Features of a question and a passage, in English and Chinese."""

from __future__ import annotations

import pytest

from crag_runtime.evaluators.coefficients import coefficients
from crag_runtime.evaluators.features import features_of, is_cross_script, names_in, numbers_in, query_of
from crag_runtime.evidence import Asked, Evidence, Origin, QuestionType
from kb.dates.periods import time_intent

TODAY = 1_796_000_000_000  # 2026-11-30
RARITY = coefficients().rarity


def features(question: str, text: str, title: str = "") -> dict[str, float]:
    asked = Asked(
        question=question, type=QuestionType.FACTUAL, time=time_intent(question, TODAY), today=TODAY, tenant="t"
    )
    evidence = Evidence(id="m", origin=Origin.MEMORY, text=text, title=title)
    return features_of(query_of(asked, RARITY), evidence, RARITY)


@pytest.mark.parametrize(
    ("question", "text"),
    [("When does the harbour open?", "The harbour opens at nine."), ("港口何时开放？", "港口早上九点开放。")],
)
def test_all_words_there_is_full_coverage(question: str, text: str) -> None:
    found = features(question, text)
    assert found["coverage"] == pytest.approx(1.0)
    assert found["best_strip"] == pytest.approx(1.0)
    assert found["rarest"] == 1.0


def test_question_words_weigh_nothing() -> None:
    assert features("What is the harbour?", "what is the is what")["coverage"] == 0.0


def test_a_rare_word_weighs_more_than_a_common_one() -> None:
    rare = features("the year of the zeugma", "A zeugma.")["coverage"]
    common = features("the year of the zeugma", "A year.")["coverage"]
    assert rare > common > 0


def test_words_apart_cover_less_of_the_best_strip() -> None:
    together = "The harbour of Tampa opens at nine. It rains. It snows. It blows."
    apart = "The harbour is old. It rains. It snows. Nothing opens. It blows. Tampa is far."
    question = "When does the harbour of Tampa open?"
    assert features(question, together)["best_strip"] > features(question, apart)["best_strip"]


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Who directed Jaws at Universal Pictures?", 2),
        ("What is the torque of SKU-2024-X5?", 1),
        ("《三体》的作者是谁？", 1),
        ("when does it open?", 0),
        ("什么是年？", 0),
    ],
)
def test_names_are_found(question: str, names: int) -> None:
    assert len(list(names_in(question, RARITY))) == names


def test_a_question_word_is_no_name() -> None:
    assert list(names_in("What is it?", RARITY)) == []


def test_a_missing_name_and_number_show() -> None:
    found = features("How many of the 12 boats does Acme own?", "Globex owns 7 boats.")
    assert found["entity_missing"] == 1.0
    assert found["number_missing"] == 1.0
    assert features("How many of the 12 boats does Acme own?", "Acme owns 7 of 12.")["entity_missing"] == 0.0


def test_numbers_are_compared_without_separators() -> None:
    assert numbers_in("12,000 and 3.5 and 12") == {"12000", "3.5", "12"}


def test_the_years_asked_for_are_no_numbers() -> None:
    assert features("What happened in 2024?", "Much.")["number_missing"] == 0.0


@pytest.mark.parametrize(
    ("question", "yes", "no"),
    [
        ("Who built it?", "It was built by Ada Long.", "It was built of stone."),
        ("谁建造了它？", "由王小明建造。", "用木头建造。"),
        ("When was it built?", "It was built in 1901.", "It was built of stone."),
        ("它是哪年建造的？", "1901年建造。", "用木头建造。"),
        ("How many were built?", "They built 12.", "They built some."),
        ("建造了多少个？", "共建造12个。", "建造了一些。"),
    ],
)
def test_the_kind_of_answer_is_looked_for(question: str, yes: str, no: str) -> None:
    assert features(question, yes)["answer_type"] == 1.0
    assert features(question, no)["answer_type"] == 0.0


def test_the_title_that_the_question_names_counts_whole_without_brackets() -> None:
    assert features("Who wrote Solaris?", "x", title="Solaris (novel)")["title_entity"] == pytest.approx(1.0)
    assert features("Who wrote Solaris?", "x", title="Dune")["title_entity"] == 0.0
    assert features("Who wrote Solaris?", "x")["title_entity"] == 0.0


def test_scripts_are_told_apart() -> None:
    asked = Asked(question="港口", type=QuestionType.FACTUAL, time=time_intent("", TODAY), today=TODAY, tenant="t")
    query = query_of(asked, RARITY)
    assert is_cross_script(query, Evidence(id="m", origin=Origin.MEMORY, text="the harbour"))
    assert not is_cross_script(query, Evidence(id="m", origin=Origin.MEMORY, text="港口开放"))
    assert not is_cross_script(query, Evidence(id="m", origin=Origin.MEMORY, text="1 2 3"))
