"""Strips end where sentences, items, rows and code lines end, in both languages; scores weigh what is rare."""

from __future__ import annotations

import pytest

from kb.words.strips import lexical_scores, question_terms, split


def strips(text: str) -> list[str]:
    return [text[a:b] for a, b in split(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It costs $3.50. Buy it!", ["It costs $3.50.", "Buy it!"]),
        ("Dr. Smith runs v2.4.1. See No. 5.", ["Dr. Smith runs v2.4.1.", "See No. 5."]),
        ("See https://a.example/b.html?x=1.2. Then go.", ["See https://a.example/b.html?x=1.2.", "Then go."]),
        ("He paused… and left. Really?", ["He paused… and left.", "Really?"]),
        ("Wait... and see. Done.", ["Wait... and see.", "Done."]),
        ('"Go." She said so.', ['"Go."', "She said so."]),
        ("他说：“好的。”我走了！", ["他说：“好的。”", "我走了！"]),
        ("价格是3.5元；版本2.4.1。真的吗？", ["价格是3.5元；", "版本2.4.1。", "真的吗？"]),
        ("标题\n正文第一句。", ["标题", "正文第一句。"]),
        ("（他走了。）天黑了。", ["（他走了。）", "天黑了。"]),
        ("- one\n- two\n1. three", ["- one", "- two", "1. three"]),
        ("| a | b |\n|---|---|\n| 1 | 2 |", ["| a | b |", "|---|---|", "| 1 | 2 |"]),
        ("```\nx = 1. Y\n```\nText.", ["```", "x = 1. Y", "```", "Text."]),
        ("## Price. And more\nIt is 19.", ["## Price. And more", "It is 19."]),
        (" \n\t\n", []),
    ],
)
def test_a_text_is_cut_where_its_statements_end(text: str, expected: list[str]) -> None:
    assert strips(text) == expected


def test_a_wrapped_line_goes_on_in_the_next() -> None:
    text = "The Team plan, which most of our customers have chosen,\ncosts 19 euros per month.\nIt can be cancelled."
    assert strips(text) == [text[: text.index("\nIt")], "It can be cancelled."]


def test_a_strip_without_a_word_of_the_question_scores_nothing() -> None:
    assert lexical_scores("What does the Team plan cost?", ["The weather is what it is."]) == [0.0]


def test_rare_words_weigh_more_than_those_of_every_strip() -> None:
    own = ["The plan has SSO.", "The plan has support.", "The plan has nothing else."]
    scores = lexical_scores("Which plan has SSO?", own)
    assert scores[0] > 2 * scores[1] > 0


def test_a_number_weighs_more_than_a_word_as_rare() -> None:
    word, number = lexical_scores("status 4711", ["The status is fine.", "4711 is fine."])
    assert number > word


def test_case_width_and_inflection_make_no_difference() -> None:
    assert lexical_scores("TEAM plans", ["ｔｅａｍ plan"]) == [1.0]


def test_a_question_of_function_words_scores_nothing() -> None:
    assert lexical_scores("What is it?", ["It is what it is."]) == [0.0]
    assert lexical_scores("这是什么？", ["这是什么。"]) == [0.0]


def test_question_words_are_no_terms_in_either_language() -> None:
    assert question_terms("How much does the Team plan cost?") == {"team", "plan", "cost"}
    assert question_terms("团队方案多少钱？") == {"团队", "方案", "钱"}
