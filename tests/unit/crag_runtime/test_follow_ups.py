"""Follow-ups by rule: what is taken over from the last turn, and what never is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_runtime.evidence import Turn
from crag_runtime.planning.follow_ups import self_contained
from crag_runtime.planning.plan_rules import planned

TODAY = int(datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp() * 1000)
REVENUE = Turn(question="What was Acme's revenue in Q3 2024?", answer="5 million euros [1].", at=0)
PLAN = Turn(question="How much does the Team plan cost?", answer="19 euros [1].", at=0)
LOWER = Turn(question="what is the price of the team plan?", answer="19", at=0)
FOUNDER = Turn(question="Who founded Acme?", answer="Jane Doe founded Acme.", at=0)
BOTH = Turn(question="Compare Milvus and Qdrant on latency", answer="...", at=0)
PRICE_ZH = Turn(question="团队版的价格是多少？", answer="19欧元。", at=0)
REVENUE_ZH = Turn(question="2024年第三季度华为的营收是多少？", answer="...", at=0)
LEAVE_ZH = Turn(question="年假有多少天？", answer="15天。", at=0)
LAST_YEAR = Turn(question="What was revenue in Q3 last year?", answer="5", at=0)

CARRIED = [
    (REVENUE, "And in Q2?", "What was Acme's revenue in Q2 2024?"),
    (REVENUE, "what about 2023?", "What was Acme's revenue in 2023?"),
    (REVENUE, "And Q4 2023?", "What was Acme's revenue in Q4 2023?"),
    (REVENUE, "And the same quarter last year?", "What was Acme's revenue in Q3 2023?"),
    (REVENUE, "And the profit?", "What is the profit of Acme in Q3 2024?"),
    (REVENUE, "And what about Globex?", "What was Globex's revenue in Q3 2024?"),
    (REVENUE, "Who founded it?", "Who founded Acme?"),
    (REVENUE, "How many employees does it have?", "How many employees does Acme have in Q3 2024?"),
    (REVENUE, "How much was it?", "What was Acme's revenue in Q3 2024?"),
    (REVENUE, "Why?", "Why: What was Acme's revenue in Q3 2024?"),
    (PLAN, "What about the Business plan?", "How much does the Business plan cost?"),
    (PLAN, "how much does it cost?", "how much does the Team plan cost?"),
    (PLAN, "And the storage limit?", "What is the storage limit of the Team plan?"),
    (PLAN, "What is its storage limit?", "What is the Team plan's storage limit?"),
    (PLAN, "Does it include SSO?", "Does the Team plan include SSO?"),
    (PLAN, "And the Business plan in 2023?", "How much does the Business plan cost in 2023?"),
    (LOWER, "what about the business plan?", "what is the price of the business plan?"),
    (LOWER, "how many users does it allow?", "how many users does the team plan allow?"),
    (FOUNDER, "When was she born?", "When was Jane Doe born?"),
    (FOUNDER, "Where is it based?", "Where is Acme based?"),
    (BOTH, "How do they handle deletes?", "How do Milvus and Qdrant handle deletes?"),
    (PRICE_ZH, "它支持多少用户？", "团队版支持多少用户？"),
    (PRICE_ZH, "那企业版呢？", "企业版的价格是多少？"),
    (PRICE_ZH, "那去年呢？", "去年团队版的价格是多少？"),
    (PRICE_ZH, "存储上限呢？", "团队版的存储上限是什么？"),
    (PRICE_ZH, "它呢？", "团队版的价格是多少？"),
    (PRICE_ZH, "为什么？", "为什么：团队版的价格是多少？"),
    (REVENUE_ZH, "第二季度呢？", "2024年第二季度华为的营收是多少？"),
    (REVENUE_ZH, "那小米呢？", "2024年第三季度小米的营收是多少？"),
    (REVENUE_ZH, "那去年同期呢？", "2023年第三季度华为的营收是多少？"),
    (REVENUE_ZH, "它的创始人是谁？", "华为的创始人是谁？"),
    (LEAVE_ZH, "病假呢？", "病假有多少天？"),
    (LEAVE_ZH, "怎么申请？", "年假，怎么申请？"),
    (LAST_YEAR, "And in Q2?", "What was revenue in Q2 2025?"),
]


@pytest.mark.parametrize(("turn", "question", "whole"), CARRIED)
def test_a_follow_up_is_made_self_contained_and_says_what_it_took_over(turn, question, whole):
    plan = planned(question, (turn,), TODAY)
    assert plan.question == whole
    assert plan.carried
    assert plan.sub_questions == (whole,)


ALONE = (
    "What is the capital of France?|Is it possible to refund Berlin tickets?"
    "|How much does the Business plan cost?|Who wrote War and Peace?"
    "|What is parental leave?|Does Qdrant support its own format?"
    "|What is the weather this year in Berlin?|And how much does Qdrant cost?"
    "|北京的人口是多少？|企业版的价格是多少？|清华大学在哪里？|其他城市有办公室吗？"
)


@pytest.mark.parametrize("question", ALONE.split("|"))
@pytest.mark.parametrize("turn", [REVENUE, PLAN, PRICE_ZH, REVENUE_ZH])
def test_a_question_that_stands_alone_takes_nothing_over(turn, question):
    plan = planned(question, (turn,), TODAY)
    assert (plan.question, plan.carried) == (question, "")
    assert plan == planned(question, (), TODAY)


def test_two_unrelated_turns_on_one_thread_do_not_leak():
    first = planned("What was Acme's revenue in Q3 2024?", (), TODAY)
    second = planned("How many days of leave do interns get in Berlin?", (REVENUE,), TODAY)
    assert first.time.periods
    assert not second.time.periods
    assert "Acme" not in " ".join(second.sub_questions)


def test_only_the_last_turn_is_looked_at():
    assert planned("Who founded it?", (PLAN, REVENUE), TODAY).question == "Who founded Acme?"


def test_without_turns_a_follow_up_stays_as_it_is():
    assert planned("And in Q2?", (), TODAY).question == "And in Q2?"


TEXTS = st.one_of(
    st.text(max_size=30),
    st.lists(
        st.sampled_from(["and ", "it", " Q2", "那", "呢", "？", "它", "why", "the price", " 2023", "Acme", " "]),
        max_size=5,
    ).map("".join),
)


@given(TEXTS, TEXTS, TEXTS)
def test_any_turn_and_question_can_be_read(asked, answer, question):
    whole, _ = self_contained(question, (Turn(question=asked, answer=answer, at=0),), TODAY)
    assert whole.strip() or not question.strip()


@pytest.mark.parametrize("marks", [".", "。", "?!", "？"])
def test_marks_alone_ask_nothing_and_stay_as_they_are(marks):
    turn = Turn(question="Who painted the ceiling?", answer="", at=0)
    assert self_contained(marks, (turn,), TODAY) == (marks, "")
