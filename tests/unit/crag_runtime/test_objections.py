"""What a small reader does not see: another plan's page, another code, a value that nobody asked for."""

from __future__ import annotations

import pytest

from crag_runtime.evaluators.objections import has_its_code, is_misfit, missing_names


@pytest.mark.parametrize(
    ("question", "text", "missing"),
    [
        ("What is the price of the Solo plan?", "The Team plan costs 75 euros.", ["Solo"]),
        ("专业版每月多少钱？", "团队版每月75欧元。", ["专业版"]),
        ("What does alert RELAY-999 mean?", "Disk is low (RELAY-204).", ["RELAY-999"]),
        ("告警 RELAY-999 是什么意思？", "Disk is low (RELAY-204).", ["RELAY-999"]),
        ("What is the price of the Team plan?", "The Team plan costs 75 euros.", []),
        ("团队版每月多少钱？", "团队版每月75欧元。", []),
        ("Which Indian leader resisted?", "In India he resisted.", []),
        ("How large is the EU?", "The European Union is large.", []),
        ("这是什么类型的动物？", "它是一种鱼。", []),
        ("Halden Relay 的价格是多少？", "哈尔登中继每月75欧元。", []),
        ("How much does the Solo plan cost?", "团队版每月75欧元。", []),
        ("how much does it cost?", "75 euros", []),
        ("What refrigerant does the Aurora use?", "It is filled with R-290.", []),
        ("团队版用什么制冷剂？", "它充注的是R-290。", []),
    ],
)
def test_a_passage_that_lacks_what_the_question_names_is_about_something_else(
    question: str, text: str, missing: list[str]
) -> None:
    assert missing_names(question, text) == missing


@pytest.mark.parametrize(
    ("question", "text", "is_there"),
    [
        ("What does alert RELAY-301 mean?", "It is 0 for 5 minutes (RELAY-301).", True),
        ("告警 RELAY-301 是什么意思？", "为0超过5分钟（告警 RELAY-301）。", True),
        ("What does alert RELAY-30 mean?", "It is 0 for 5 minutes (RELAY-301).", False),
        ("Who wrote RELAY-301?", "It is 0 for 5 minutes (RELAY-301).", False),
        ("What does it mean?", "It is 0 for 5 minutes (RELAY-301).", False),
    ],
)
def test_a_passage_with_the_very_code_bears_on_what_it_means(question: str, text: str, *, is_there: bool) -> None:
    assert has_its_code(question, text) is is_there


@pytest.mark.parametrize(
    ("question", "text", "answer", "misfit"),
    [
        (
            "首席执行官是谁？",
            "Teams of five to two hundred engineers that need it.",
            "Teams of five to two hundred",
            True,
        ),
        ("Who runs it?", "It stores every message twice.", "every message twice", True),
        ("Who may close it?", "Only the privacy officer may close it.", "privacy officer", False),
        ("谁可以关闭？", "只有隐私专员可以关闭。", "隐私专员", False),
        ("Who painted it?", "It was painted by Leonardo.", "Leonardo", False),
        ("How many are there?", "There is a bridge.", "a bridge", True),
        ("有多少座桥？", "那里有桥。", "桥", True),
        ("How many tons?", "It carries forty tons.", "forty tons", False),
        ("能载多少吨？", "它能载四十吨。", "四十吨", False),
        ("How do I create one?", "# Settings of a subscriber\nname: x", "Settings of a subscriber", True),
        ("如何创建？", "# 订阅者的设置\n名称", "订阅者的设置", True),
        ("What is it?", "It is a queue.", "", True),
        ("What is it?", "It is a queue.", "a queue", False),
    ],
)
def test_a_span_of_another_kind_than_asked_is_no_answer(question: str, text: str, answer: str, *, misfit: bool) -> None:
    assert is_misfit(question, text, answer) is misfit
