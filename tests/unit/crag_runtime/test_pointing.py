"""What leads an answer is the value of the thing that is asked about, and never the opposite of its sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_runtime.refining import pointing

if TYPE_CHECKING:
    from collections.abc import Sequence

TODAY = 1_796_000_000_000

PLANS = ("| | Starter | Team | Business |", "| --- | --- | --- | --- |", "| price | 15 | 75 | from 450 |",
         "| subscribers of a topic | 20 | 200 | 2,000 |")  # fmt: skip
PLANS_ZH = ("| 项目 | 入门版 | 团队版 | 企业版 |", "| --- | --- | --- | --- |",
            "| 每月价格（欧元） | 15 | 75 | 450起 |", "| 支持响应时间 | 2个工作日 | 8个工作小时 | 1小时 |")  # fmt: skip
CODES = ("| code | status | meaning | what to do |", "| --- | --- | --- | --- |",
         "| lease_lost | 409 | The lease ended before the acknowledgement | Handle faster |")  # fmt: skip
KEPT = "They are kept for 14 days on Team and Business and for 7 days on Starter."
HISTORY = ("| from | euros a month | largest message |", "| --- | --- | --- |", "| 1 October 2025 | 59 | 512 KiB |",
           "| 1 January 2026 | 69 | 1 MiB |")  # fmt: skip


def pointed(question: str, strips: Sequence[str], span: str) -> str:
    return pointing.pointed(question, strips, span, today=TODAY)


@pytest.mark.parametrize(
    ("question", "text", "span", "value"),
    [
        ("How much does Team cost?", "Pay 12 euros for Starter and 59 euros for Team.", "12 euros", "59 euros"),
        ("How much does Starter cost?", "Pay 12 euros for Starter and 59 euros for Team.", "59 euros", "12 euros"),
        ("How much does Team cost?", "Starter costs 15 euros and Team 69 euros.", "15 euros and Team 69 euros",
         "69 euros"),
        ("How long are they kept on Business?", KEPT, "7 days", "14 days"),
        ("How long are they kept on Starter?", KEPT, "14 days", "7 days"),
        ("企业版的服务水平是多少？", "团队版的服务水平为每月99.95%，企业版为每月99.99%。", "99.95%", "99.99%"),
        ("入门版保留几天？", "未读消息在团队版和企业版保留14天，在入门版保留7天。", "14天", "7天"),
        ("企业版保留几天？", "未读消息在团队版和企业版保留14天，在入门版保留7天。", "7天", "14天"),
        ("团队版每月多少钱？", "团队版由每月69欧元调整为每月75欧元。", "75欧元", "75欧元"),
    ],
)  # fmt: skip
def test_of_several_values_in_a_sentence_the_named_things_own_leads(
    question: str, text: str, span: str, value: str
) -> None:
    assert pointed(question, (text,), span) == value


@pytest.mark.parametrize(
    ("question", "text", "span", "value"),
    [
        ("How much did the Team plan cost?", "Pay 59 euros for Team. Each million beyond the plan costs 1.10 euros.",
         "1.10 euros", "59 euros"),
        ("团队版每月多少钱？", "超出套餐的消息每月收费1.10欧元。团队版每月59欧元。", "1.10欧元", "59欧元"),
    ],
)  # fmt: skip
def test_a_value_of_the_same_kind_in_a_sentence_about_something_else_does_not_lead(
    question: str, text: str, span: str, value: str
) -> None:
    assert value in pointed(question, (text,), span)
    assert span not in pointed(question, (text,), span)


@pytest.mark.parametrize(
    ("question", "rows", "span", "cell"),
    [
        ("How many subscribers may a topic have on the Team plan?", PLANS, "20 | 200 | 2,000", "200"),
        ("What is the price of the Business plan?", PLANS, "15 | 75", "from 450"),
        ("团队版每月多少钱？", PLANS_ZH, "每月价格（欧元） | 15 | 75 | 450起", "75"),
        ("企业版的支持响应时间是多少？", PLANS_ZH, "2个工作日", "1小时"),
        ("What does lease_lost mean?", CODES, "409", "The lease ended before the acknowledgement"),
        ("Which status does lease_lost have?", CODES, "lease_lost | 409", "409"),
        ("What did the Team plan cost in Q1 2026?", HISTORY, "69 | 1 MiB", "69"),
    ],
)
def test_of_a_row_the_cell_of_the_asked_column_leads(
    question: str, rows: tuple[str, ...], span: str, cell: str
) -> None:
    assert pointed(question, rows, span) == cell


def test_a_row_whose_column_is_not_asked_stays_whole() -> None:
    assert pointed("What is the price of the Solo plan?", PLANS, "15 | 75") == "price | 15 | 75 | from 450"


@pytest.mark.parametrize(
    ("question", "text", "span"),
    [
        ("What must one never do?", "Never delete segment files by hand.", "delete segment files"),
        ("What is not allowed?", "You must not share one key.", "share one key"),
        ("绝不要做什么？", "绝不要手工删除分段文件。", "手工删除分段文件"),
        ("哪些版本不得回滚？", "格式变化的版本不得回滚。", "回滚"),
    ],
)
def test_a_span_never_loses_its_sentences_negation(question: str, text: str, span: str) -> None:
    assert pointed(question, (text,), span) == text


@pytest.mark.parametrize(
    ("question", "text", "span", "whole"),
    [
        ("When was it announced?", "It was announced on 8 February 2007 in London.", "2007", "8 February 2007"),
        ("什么时候宣布的？", "2007年2月8日，公司宣布了计划。", "2007年", "2007年2月8日"),
        ("How do I renew?", "Run `relayctl certs renew REGION` first.", "REGION", "relayctl certs renew REGION"),
    ],
)
def test_a_date_and_a_command_lead_whole(question: str, text: str, span: str, whole: str) -> None:
    assert pointed(question, (text,), span) == whole


@given(
    st.sampled_from(["How much does Team cost?", "团队版多少钱？", "When?", "谁？"]),
    st.lists(
        st.sampled_from(
            [*PLANS, *PLANS_ZH, "Pay 12 euros for Starter.", "团队版每月59欧元。", "Never do it.", "a", "`x y`"]
        ),
        min_size=1,
        max_size=8,
    ),
    st.data(),
)
def test_what_leads_stands_in_a_strip_word_for_word(question: str, strips: list[str], data: st.DataObject) -> None:
    strip = data.draw(st.sampled_from(strips))
    start = data.draw(st.integers(0, len(strip) - 1))
    span = strip[start : data.draw(st.integers(start + 1, len(strip)))]
    found = pointed(question, strips, span)
    assert found == span or any(found in strip for strip in strips)


def test_where_nothing_is_pointed_at_nothing_leads() -> None:
    assert pointed("How much?", ("It costs 5 euros.",), "") == ""
