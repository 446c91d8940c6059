"""Trusted sources that disagree are told apart from those that speak of something else, and from those that agree."""

from __future__ import annotations

import pytest

from crag_runtime.evidence import Evidence, Excerpt, Label, Origin
from crag_runtime.refining.conflict import agreements, conflicts
from kb.dates.period import TimeIntent
from kb.dates.periods import time_intent

TODAY = 1_790_000_000_000
DAY = 86_400_000
PRICE = "How much does the Team plan cost?"


def says(id_: str, text: str, answer: str = "", **more: object) -> Excerpt:
    known = {"doc_id": id_, "root": id_, "source": f"file://{id_}"} | more
    evidence = Evidence(id=id_, origin=Origin.MEMORY, text=text, **known)  # type: ignore[arg-type] # test shorthand
    return Excerpt(evidence=evidence, sub=0, strips=(text,), relevance=0.9, label=Label.RELEVANT, answer=answer)


def disputed(question: str, *excerpts: Excerpt, time: TimeIntent | None = None) -> list[list[str]]:
    found = conflicts([question], excerpts, time or TimeIntent(), TODAY)
    agreed = {a.ids for a in agreements([question], excerpts, time or TimeIntent(), TODAY)}
    for conflict in found:
        assert not any(set(pair) <= {i for s in conflict.sides for i in s.ids} for pair in agreed if len(excerpts) == 2)
    return [[side.value for side in conflict.sides] for conflict in found]


def test_two_prices_of_one_plan_are_a_conflict_with_both_sides_dated_and_quoted() -> None:
    midnight = TODAY - TODAY % DAY
    old = says("a", "The Team plan costs 19 euros per month.", dated=midnight - 90 * DAY)
    new = says("b", "The Team plan costs 21 euros per month.", dated=midnight - DAY, url="https://b.example")
    (found,) = conflicts([PRICE], [old, new], TimeIntent(), TODAY)
    assert (found.sub, found.kind) == (0, "number")
    assert [(s.value, s.ids, s.dated, s.source) for s in found.sides] == [
        ("21 euros", ("b",), midnight - DAY, "https://b.example"),
        ("19 euros", ("a",), midnight - 90 * DAY, "file://a"),
    ]
    assert found.sides[0].quote == "The Team plan costs 21 euros per month."


@pytest.mark.parametrize(
    ("question", "one", "other", "spans"),
    [
        ("团队方案多少钱？", "团队方案每月19欧元。", "团队方案的价格是每月21欧元。", ("", "")),
        (PRICE, "For the Team plan you pay €19 a month.", "The Team plan costs 21 euros per month.", ("", "")),
        ("When was Falcon released?", "Falcon was released on 5 May 2024.", "Falcon was released in June 2024.",
         ("", "")),
        ("Which TLS version does the gateway need?", "The gateway needs TLS 1.2.", "The gateway needs TLS 1.3.",
         ("", "")),
        ("Is SSO included in Team?", "SSO is included in Team.", "SSO is not included in Team.", ("", "")),
        ("Team包括SSO吗？", "Team包括SSO。", "Team不包括SSO。", ("", "")),
        ("Who won Wimbledon?", "Barty won Wimbledon.", "Halep won Wimbledon.", ("Barty", "Halep")),
        ("谁导演了《流浪地球》？", "《流浪地球》由郭帆导演。", "《流浪地球》由刘慈欣导演。", ("郭帆", "刘慈欣")),
        ("How many seats has the council?", "The council has 70 seats.", "The council has 170 seats.", ("70", "170")),
    ],
)  # fmt: skip
def test_different_values_of_one_thing_are_a_conflict(
    question: str, one: str, other: str, spans: tuple[str, str]
) -> None:
    assert len(disputed(question, says("a", one, spans[0]), says("b", other, spans[1]))) == 1


@pytest.mark.parametrize(
    ("question", "one", "other", "spans"),
    [
        (PRICE, "The Team plan costs 19 euros per month.", "The Solo plan costs 9 euros per month.", ("", "")),
        ("How much does the plan cost?", "The team plan costs 19 euros.", "The solo plan costs 9 euros.", ("", "")),
        ("方案多少钱？", "团队方案每月19欧元。", "个人方案每月9欧元。", ("", "")),
        (PRICE, "The Team plan costs 19 euros.", "团队方案19欧元。The Team plan costs €19.00.", ("", "")),
        (PRICE, "The Team plan costs 19 euros per month.", "The Team plan costs 190 euros per year.", ("", "")),
        (PRICE, "The Team plan costs 19 euros per month.", "The Team plan costs 5 dollars per month.", ("", "")),
        (PRICE, "The Team plan costs 19 euros.", "The Team plan cost 17 euros, now it costs 19 euros.", ("", "")),
        (PRICE, "The Team plan costs 19 euros.", "The Team plan costs 9, 21 or 49 euros.", ("", "")),
        (PRICE, "In Q2 2024 the Team plan cost 19 euros.", "In Q3 2024 the Team plan cost 21 euros.", ("", "")),
        ("How many users are there?", "There are about 400 users.", "There are 412 users.", ("", "")),
        ("How many users are there?", "There are more than 400 users.", "There are 900 users.", ("", "")),
        ("When was Falcon released?", "Falcon was released in 2024.", "Falcon was released on 5 May 2024.",
         ("", "")),
        ("Who won Wimbledon?", "Ashleigh Barty won Wimbledon.", "Barty won Wimbledon.", ("Ashleigh Barty", "Barty")),
        ("Who won Wimbledon?", "Barty won Wimbledon against Halep.", "Halep lost Wimbledon.", ("Barty", "Halep")),
        ("Who acquired Fox?", "The Walt Disney Co acquired Fox.", "Walt Disney Company acquired Fox.",
         ("The Walt Disney Co", "Walt Disney Company")),
        ("What is it called?", "It is called Alexa.", "It is called virtual assistant.",
         ("Alexa", "virtual assistant")),
        ("谁赢了？", "拜登赢了。", "约瑟夫·拜登赢了。", ("拜登", "约瑟夫·拜登")),
        ("Who won Wimbledon?", "Barty won Wimbledon.", "巴蒂赢得了温网。", ("Barty", "巴蒂")),
    ],
)  # fmt: skip
def test_what_is_no_contradiction_is_not_flagged(question: str, one: str, other: str, spans: tuple[str, str]) -> None:
    assert disputed(question, says("a", one, spans[0]), says("b", other, spans[1])) == []


def test_a_newer_version_of_a_document_does_not_contradict_it() -> None:
    one = says("a", "The Team plan costs 19 euros.", doc_id="d")
    assert disputed(PRICE, one, says("b", "The Team plan costs 21 euros.", doc_id="d")) == []


def test_of_two_periods_the_one_that_is_asked_is_taken() -> None:
    question = "How much did the Team plan cost in Q3 2024?"
    q2 = says("a", "In Q2 2024 the Team plan cost 19 euros.")
    q3 = says("b", "In Q3 2024 the Team plan cost 21 euros.")
    assert disputed(question, q2, q3, time=time_intent(question, TODAY)) == []
    other = says("c", "In Q3 2024 the Team plan cost 23 euros.")
    assert disputed(question, q2, q3, other, time=time_intent(question, TODAY)) == [["21 euros", "23 euros"]]


def test_for_the_current_state_an_older_period_is_background() -> None:
    question = "What does the Team plan cost currently?"
    old = says("a", "In 2023 the Team plan cost 19 euros.")
    new = says("b", "Since 1 January 2026 the Team plan costs 21 euros.")
    assert disputed(question, old, new, time=time_intent(question, TODAY)) == []


def test_a_title_gives_the_period_of_a_sentence_that_names_none() -> None:
    one = says("a", "The Team plan costs 19 euros.", title="Price list 2023")
    assert disputed(PRICE, one, says("b", "The Team plan costs 21 euros.", title="Price list 2025")) == []


@pytest.mark.parametrize(
    ("question", "old", "new", "title"),
    [
        (
            PRICE,
            "The Team plan costs 19 euros since 1 January 2026.",
            "The Team plan costs 21 euros.",
            "Facts, Q1 2026",
        ),
        ("团队版每月多少钱？", "团队版每月19欧元。", "团队版每月21欧元。", "产品事实（2026年第一季度）"),
    ],
)
def test_for_a_question_about_the_present_a_page_on_a_time_that_is_over_is_history(
    question: str, old: str, new: str, title: str
) -> None:
    assert disputed(question, says("a", old, title=title), says("b", new)) == []
    assert disputed(question, says("a", old, title=title), says("b", new, title=title)) == [
        ["19 euros", "21 euros"]
    ] or (disputed(question, says("a", old, title=title), says("b", new, title=title)) == [["19欧元", "21欧元"]])


def test_a_side_is_dated_by_the_time_it_speaks_of_and_never_by_when_it_was_stored() -> None:
    one = says("a", "Since 1 July 2026 the Team plan costs 19 euros.", dated=TODAY)
    (found,) = conflicts([PRICE], [one, says("b", "The Team plan costs 21 euros.", dated=TODAY)], TimeIntent(), TODAY)
    dates = {side.value: side.dated for side in found.sides}
    assert dates == {"19 euros": 1_782_864_000_000, "21 euros": None}


@pytest.mark.parametrize(
    ("question", "one", "other"),
    [
        ("How long are access logs kept?", "Unread messages are kept for 7 days.", "Access logs are kept for 90 days."),
        ("访问日志保留多少天？", "未读消息保留7天。", "访问日志保留90天。"),
    ],
)
def test_a_value_of_something_that_shares_only_the_verb_contradicts_nobody(question: str, one: str, other: str) -> None:
    assert disputed(question, says("a", one), says("b", other)) == []


def test_a_name_in_a_passage_that_only_may_answer_contradicts_nobody() -> None:
    sure, unsure = says("a", "Barty won Wimbledon.", "Barty"), says("b", "Halep won Wimbledon.", "Halep")
    doubtful = Excerpt(
        evidence=unsure.evidence, sub=0, strips=unsure.strips, relevance=0.4, label=Label.AMBIGUOUS, answer="Halep"
    )
    assert disputed("Who won Wimbledon?", sure, doubtful) == []


def test_those_that_say_the_same_stand_on_one_side() -> None:
    own = [says(i, f"The Team plan costs {n} euros.") for i, n in (("c", 21), ("a", 19), ("b", 19))]
    (found,) = conflicts([PRICE], own, TimeIntent(), TODAY)
    assert {side.ids for side in found.sides} == {("a", "b"), ("c",)}


def test_parts_of_a_question_do_not_contradict_one_another() -> None:
    a, b = says("a", "The Team plan costs 19 euros."), says("b", "The Team plan costs 21 euros.")
    other = Excerpt(evidence=b.evidence, sub=1, strips=b.strips, relevance=0.9, label=Label.RELEVANT)
    assert conflicts([PRICE, PRICE], [a, other], TimeIntent(), TODAY) == ()


@pytest.mark.parametrize(
    ("question", "one", "other", "value"),
    [
        (PRICE, "The Team plan costs 19 euros per month.", "For the Team plan you pay €19 a month.", "19 eur/month"),
        ("货车载重多少？", "货车载重40吨。", "货车的载重为40 t。", "40000000 gram"),
        (
            "When was Falcon released?",
            "Falcon was released on 5 May 2024.",
            "Falcon: released 2024-05-05.",
            "2024-05-05",
        ),
    ],
)
def test_independent_sources_of_one_value_agree(question: str, one: str, other: str, value: str) -> None:
    (found,) = agreements([question], [says("b", one), says("a", other)], TimeIntent(), TODAY)
    assert (found.sub, found.ids, found.value) == (0, ("a", "b"), value)


@pytest.mark.parametrize("root", ["docs", ""])
def test_one_root_does_not_agree_with_itself_nor_an_unknown_one_with_any(root: str) -> None:
    one, other = (says(i, "The Team plan costs 19 euros.", root=root) for i in "ab")
    assert agreements([PRICE], [one, other], TimeIntent(), TODAY) == ()
