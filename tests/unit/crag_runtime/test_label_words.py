"""What counts as which label, in the words models use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_runtime.evaluators.label_words import label_word

RELEVANT = [
    "relevant", "Relevant.", "RELEVANT", "**Relevant**", "yes", "Yes!", '"relevant"', "highly relevant",
    "The passage is relevant.", "相关", "相关。", "有关", "是", "高度相关", "该段落与问题相关", "ｒｅｌｅｖａｎｔ",
    True,
]  # fmt: skip
IRRELEVANT = [
    "irrelevant", "Irrelevant.", "not relevant", "Not  Relevant", "isn’t relevant", "No", "no.", "unrelated",
    "not_relevant",
    "non-relevant",
    "The passage is not directly relevant.", "It has no relevance.", "不相关", "不相关。", "无关", "否", "不是",
    "完全不相关", "与问题无关", "没有相关", "不太相关", False,
]  # fmt: skip
AMBIGUOUS = [
    "ambiguous", "Ambiguous.", "partially relevant", "Partly relevant", "somewhat relevant", "partial", "unsure",
    "部分相关", "部分相关。", "可能相关", "不确定", "模糊",
]  # fmt: skip
NONE = ["", " ", "?", "banana", "relevant or irrelevant", "相关还是不相关", "0.5", None, 1, 0.9, [], {}, "null"]


@pytest.mark.parametrize("word", RELEVANT, ids=str)
def test_relevant(word: object) -> None:
    assert label_word(word) == "relevant"


@pytest.mark.parametrize("word", IRRELEVANT, ids=str)
def test_irrelevant_although_it_holds_relevant(word: object) -> None:
    assert label_word(word) == "irrelevant"


@pytest.mark.parametrize("word", AMBIGUOUS, ids=str)
def test_ambiguous(word: object) -> None:
    assert label_word(word) == "ambiguous"


@pytest.mark.parametrize("word", NONE, ids=repr)
def test_no_label_or_two_are_none(word: object) -> None:
    with pytest.raises(ValueError, match=r"label|word"):
        label_word(word)


@given(st.text(alphabet=" .!*_#()-:\n", max_size=6), st.sampled_from(["relevant", "irrelevant", "相关", "不相关"]))
def test_marks_around_a_word_change_nothing(marks: str, word: str) -> None:
    assert label_word(f"{marks}{word}{marks}") == label_word(word)
