"""What questions want of time, and which passages are about another time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kb.dates.periods import mismatched, periods_in, time_intent

TODAY = int(datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp() * 1000)


def _at(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)


CURRENT = (
    "What is the latest version?|Who is currently the CEO?|What is the price now?"
    "|Newest plan?|today's weather|most recent release|up-to-date list"
    "|最新版本是什么？|目前的价格|现在谁是负责人|当前政策|如今的规定|现任校长是谁|最近有什么变化|as of now"
)
NOT_CURRENT = (
    "What does the user know?|Alternating current of 5 A|a known issue"
    "|How was it in 2022?|如何实现在线支付？|出现在哪里|离公司最近的地铁站|Snow in Berlin"
    "|direct current"
)


@pytest.mark.parametrize("question", CURRENT.split("|"))
def test_words_for_now_ask_for_the_newest_state(question):
    assert time_intent(question, TODAY).is_current


@pytest.mark.parametrize("question", NOT_CURRENT.split("|"))
def test_words_that_only_look_like_now_do_not(question):
    assert not time_intent(question, TODAY).is_current


AS_OF = {
    "What was the price as of March 2024?": "2024-04-01",
    "As of 2024-03-05, how many employees?": "2024-03-06",
    "Who was CEO at the time of the 2022 release?": "2023-01-01",
    "截至2024年3月，员工有多少？": "2024-04-01",
    "截止到2023年底的用户数": "2024-01-01",
    "2022年当时的价格是多少？": "2023-01-01",
    "In 2022, what was the limit at that time?": "2023-01-01",
    "What was the price before the March 2024 change?": "2024-03-01",
    "2024年3月调整前的价格是多少？": "2024-03-01",
}


@pytest.mark.parametrize(("question", "end"), AS_OF.items())
def test_as_of_is_the_last_millisecond_of_what_it_goes_with(question, end):
    assert time_intent(question, TODAY).as_of == _at(end) - 1


def test_as_of_is_never_later_than_today():
    assert time_intent("Price as of 2026?", TODAY).as_of == TODAY
    assert time_intent("截至2030年的计划", TODAY).as_of == TODAY


@pytest.mark.parametrize(
    "question",
    ["What was the price in 2022?", "as of version 3", "当时的价格", "Back in 2022 how was it?", "as of now"],
)
def test_without_explicit_words_and_a_period_there_is_no_as_of(question):
    assert time_intent(question, TODAY).as_of is None


def test_of_a_period_and_one_within_it_the_finer_is_asked():
    assert [p.label for p in time_intent("In 2024, what was the revenue for Q3?", TODAY).periods] == ["Q3"]


def test_a_plain_question_is_not_time_sensitive():
    assert not time_intent("Who founded Acme?", TODAY).is_time_sensitive
    assert time_intent("去年的营收是多少？", TODAY).is_time_sensitive


MISMATCHED = {
    ("Q3 2024", "The Q3 2023 plan. An intro to Q2 2024."): True,
    ("Q3 2024", "In 2024 revenue grew."): False,
    ("Q3 2024", "In August 2024 revenue grew."): False,
    ("Q3 2024", "Since 2022 the price has been 19 euros."): False,
    ("Q3 2024", "Since 2025 the price has been 19 euros."): True,
    ("Q3 2024", "Until 2023 it was free."): True,
    ("Q3 2024", "It has always been free on port 2023."): False,
    ("2024", "Founded in 1998, it sold 5 units in 2024."): False,
    ("2024年第三季度", "2023年第三季度营收为5亿元。"): True,
    ("2024年第三季度", "2024年营收为5亿元。"): False,
    ("2024年第三季度", "2024年第二季度营收为5亿元，2023年为4亿元。"): True,
    ("2025年第三季度", "本报告截止2024年12月。"): True,
    ("2019-2021", "In 2020 it closed."): False,
    ("2019-2021", "In 2022 it opened."): True,
}


@pytest.mark.parametrize(("case", "wanted"), MISMATCHED.items())
def test_a_passage_is_mismatched_only_if_all_it_names_is_another_time(case, wanted):
    asked, passage = case
    assert mismatched(periods_in(asked, TODAY), passage, None, TODAY) is wanted


def test_relative_words_of_a_passage_count_from_its_own_date_or_not_at_all():
    asked = periods_in("2024", TODAY)
    assert not mismatched(asked, "Revenue rose last year.", None, TODAY)
    assert not mismatched(asked, "Revenue rose last year.", _at("2025-02-01"), TODAY)
    assert mismatched(asked, "Revenue rose last year.", _at("2022-02-01"), TODAY)
    assert not mismatched(asked, "As announced today, it is free.", _at("2022-02-01"), TODAY)


def test_the_date_of_a_passage_alone_never_makes_it_mismatched():
    assert not mismatched(periods_in("2024", TODAY), "It costs 19 euros.", _at("2020-01-01"), TODAY)
