"""Which excerpt an answer rests on: what is about the question, of its kind, of its time."""

from __future__ import annotations

import pytest

from crag_runtime.evidence import Evidence, Excerpt, Label, Origin
from crag_runtime.refining.preference import preferred

TODAY = 1_796_000_000_000  # 2026-11-30


def excerpt(
    text: str, relevance: float, *, title: str = "", answer: str = "", label: Label = Label.RELEVANT
) -> Excerpt:
    evidence = Evidence(id=text, origin=Origin.MEMORY, text=text, title=title)
    return Excerpt(evidence=evidence, sub=0, strips=(text,), relevance=relevance, label=label, answer=answer)


def best(question: str, *own: Excerpt) -> str:
    return preferred(question, own, TODAY)[0].evidence.text


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        ("How long are access logs kept?", "Access logs are kept for 90 days.", "Messages are kept for 30 days."),
        ("访问日志保留多少天？", "访问日志保留90天。", "未读消息保留30天。"),
        ("How much does the Team plan cost?", "The Team plan costs 75 euros.", "A million messages cost 1.10 euros."),
        ("团队版每月多少钱？", "团队版每月75欧元。", "超出部分每月1.10欧元。"),
        ("How much does the Team plan cost?", "The Team plan costs 75 euros.", "The Team plan has 10 projects."),
    ],
)
def test_the_excerpt_on_the_questions_subject_comes_before_a_likelier_one_on_another(
    question: str, right: str, wrong: str
) -> None:
    assert best(question, excerpt(wrong, 0.95), excerpt(right, 0.75)) == right


@pytest.mark.parametrize(
    ("question", "old", "new", "title"),
    [
        ("How much does Team cost?", "Team costs 69 euros.", "Team costs 75 euros.", "Facts, Q{} 2026"),
        ("团队版多少钱？", "团队版69欧元。", "团队版75欧元。", "2026年第{}季度"),
    ],
)
def test_for_the_present_the_newest_time_wins_and_for_a_period_only_what_fits(
    question: str, old: str, new: str, title: str
) -> None:
    past = excerpt(old, 0.95, title=title.format(1))
    assert best(question, past, excerpt(new, 0.85, title=title.format(3))) == new
    assert best(question, past, excerpt(new, 0.85)) == new
    assert best(f"{question} (2026-02)", past, excerpt(new, 0.85)) == old


def test_a_relevant_excerpt_always_comes_before_one_that_only_may_answer() -> None:
    weak = excerpt("Team costs 75 euros.", 0.6, label=Label.AMBIGUOUS)
    assert best("How much does Team cost?", weak, excerpt("It is 69 euros.", 0.66)) == "It is 69 euros."


def test_the_order_is_of_all_excerpts_and_the_same_for_equals() -> None:
    own = [excerpt("a", 0.9), excerpt("b", 0.9), excerpt("c", 0.9)]
    assert preferred("zzz", own, TODAY) == own
