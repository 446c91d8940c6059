"""Plans by rule: which questions are taken apart, and which are left whole, in both languages."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_runtime.evidence import QuestionType
from crag_runtime.planning.plan_rules import planned
from crag_runtime.planning.question_types import question_type
from crag_runtime.planning.rewrite import keeps

TODAY = int(datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp() * 1000)

PARTS = {
    "Compare the Team plan and the Business plan on price": [
        "What is the price of the Team plan?",
        "What is the price of the Business plan?",
    ],
    "What is the difference between Milvus and Qdrant?": ["What is Milvus?", "What is Qdrant?"],
    "Compare Milvus, Qdrant and Weaviate in terms of latency in 2024": [
        "What is the latency of Milvus in 2024?",
        "What is the latency of Qdrant in 2024?",
        "What is the latency of Weaviate in 2024?",
    ],
    "Milvus vs Qdrant": ["What is Milvus?", "What is Qdrant?"],
    "How does Milvus compare to Qdrant on recall?": ["What is the recall of Milvus?", "What is the recall of Qdrant?"],
    "Which is cheaper, the Team plan or the Business plan?": [
        "What is the price of the Team plan?",
        "What is the price of the Business plan?",
    ],
    "Is Milvus faster than Qdrant?": ["What is the speed of Milvus?", "What is the speed of Qdrant?"],
    "Compare revenue in 2023 and 2024": ["What is revenue in 2023?", "What is revenue in 2024?"],
    "Compare research and development spending in 2023 and 2024": [
        "What is research and development spending in 2023?",
        "What is research and development spending in 2024?",
    ],
    "Compare Acme's revenue and profit in 2024": ["What is Acme's revenue in 2024?", "What is Acme's profit in 2024?"],
    "Compare Team and Business plans": ["What is Team plan?", "What is Business plan?"],
    "In 2024, what is the difference between Milvus and Qdrant?": [
        "What is Milvus in 2024?",
        "What is Qdrant in 2024?",
    ],
    "A和B有什么区别": ["A有什么特点？", "B有什么特点？"],
    "团队版和企业版有什么区别？": ["团队版有什么特点？", "企业版有什么特点？"],
    "比较团队版与企业版的价格": ["团队版的价格是什么？", "企业版的价格是什么？"],
    "请对比一下2023年和2024年的营收": ["2023年的营收是什么？", "2024年的营收是什么？"],
    "团队版和企业版哪个更便宜？": ["团队版的价格是什么？", "企业版的价格是什么？"],
    "华为和小米的营收分别是多少？": ["华为的营收是什么？", "小米的营收是什么？"],
    "比较《战争与和平》和《罪与罚》的主题": ["《战争与和平》的主题是什么？", "《罪与罚》的主题是什么？"],
    "What is the Team plan and who wrote the handbook?": ["What is the Team plan?", "Who wrote the handbook?"],
    "What is the price of the Team plan and how many users does it allow?": [
        "What is the price of the Team plan?",
        "How many users does the Team plan allow?",
    ],
    "When was Acme founded, who runs it and where is it based?": [
        "When was Acme founded?",
        "Who runs Acme?",
        "Where is Acme based?",
    ],
    "What was Acme's revenue in Q3 2024 and what was its profit?": [
        "What was Acme's revenue in Q3 2024?",
        "What was Acme's profit in Q3 2024?",
    ],
    "1. What is Milvus? 2. Who maintains Qdrant?": ["What is Milvus?", "Who maintains Qdrant?"],
    "Please answer:\n- What is Milvus?\n- Who maintains Qdrant?": ["What is Milvus?", "Who maintains Qdrant?"],
    "Who founded Acme? When was it founded?": ["Who founded Acme?", "When was Acme founded?"],
    "年假有多少天，以及病假工资怎么算？": ["年假有多少天？", "病假工资怎么算？"],
    "公司的年假政策是什么？谁来审批？": ["公司的年假政策是什么？", "公司的年假政策，谁来审批？"],
    "团队版支持多少用户？价格是多少？": ["团队版支持多少用户？", "团队版的价格是多少？"],
    "团队版的价格以及手册的作者是什么？": ["团队版的价格是什么？", "手册的作者是什么？"],
}

_WHOLE = (
    "What is the research and development budget?"
    "|What do the terms and conditions say about refunds?"
    "|Who is the CEO of Johnson and Johnson?"
    "|How do I install and configure Milvus?|What is the price?"
    "|Tell me what is sold and to whom|What are the rules and regulations for travel?"
    "|Who wrote War and Peace?|What is the price and storage limit of the Team plan?"
    "|How and why did it fail?|Is Acme large?|Milvus"
    "|Does the Department of Health and Social Care publish data?"
    "|What is the status of the sales and marketing team?"
    "|《战争与和平》的作者是谁？|和平饭店在哪里？|北京和上海的人口是多少？|年假有多少天？"
    "|与会者名单在哪里？|科学与技术部的职责是什么？|如何安装和配置Milvus？"
    "|研究与开发的预算是多少？"
)
WHOLE = _WHOLE.split("|")


@pytest.mark.parametrize(("question", "parts"), PARTS.items())
def test_a_question_of_several_parts_is_taken_apart(question, parts):
    assert list(planned(question, (), TODAY).sub_questions) == parts


@pytest.mark.parametrize("question", WHOLE)
def test_a_simple_question_is_its_own_only_part(question):
    plan = planned(question, (), TODAY)
    assert plan.sub_questions == (question,)
    assert plan.question == question
    assert (plan.carried, plan.planner) == ("", "rules")


def test_a_fourth_part_is_merged_into_the_third():
    parts = planned("What is Milvus? Who made Qdrant? Where is Acme? How big is Globex?", (), TODAY).sub_questions
    assert parts == ("What is Milvus?", "Who made Qdrant?", "Where is Acme? How big is Globex?")
    assert len(planned("甲公司是什么？乙公司在哪里？丙公司有多少人？丁公司是谁创办的？", (), TODAY).sub_questions) == 3
    assert len(planned("Compare Milvus, Qdrant, Weaviate and Vespa on price", (), TODAY).sub_questions) == 3


@pytest.mark.parametrize("question", [*(q for q in PARTS if not q.startswith("1.")), *WHOLE])
def test_together_the_parts_keep_every_name_number_and_period(question):
    assert keeps(question, "\n".join(planned(question, (), TODAY).sub_questions), today=TODAY) == ""


TYPES = {
    QuestionType.FACTUAL: (
        "Who wrote the poem?|What is the price?|How many users?|When was the story written?"
        "|年假有多少天？|作者是谁？|团队版比较多的功能"
    ),
    QuestionType.ANALYTICAL: (
        "Why did sales fall?|Compare Milvus and Qdrant|What are the pros and cons of Lite?"
        "|How does price affect sales?|Should we use Milvus?"
        "|为什么营收下降？|团队版和企业版有什么区别？|分析一下优缺点|如何看待这次调整？"
    ),
    QuestionType.CREATIVE: (
        "Write a poem about Milvus|Suggest a catchy name for the plan|Brainstorm slogans"
        "|写一首关于春天的诗|帮产品起一个名字|为团队版写一句口号"
    ),
}


@pytest.mark.parametrize(("kind", "question"), [(kind, q) for kind, qs in TYPES.items() for q in qs.split("|")])
def test_the_type_follows_from_the_words(kind, question):
    assert question_type(question) is kind


def test_the_time_of_a_plan_is_the_whole_questions():
    plan = planned("What is the latest price of the Team plan, and what was it last year?", (), TODAY)
    assert plan.time.is_current
    assert [p.label for p in plan.time.periods] == ["last year"]


_PIECES = (
    "What is|compare |who |Milvus|团队版|和|与|以及| and |, |?|？|是什么|谁|区别| vs | between "
    "|1. |2. |- |it |its |它|的|2024|Q3 |多少|，|\n| than |faster|\ue000"
)
PIECES = st.sampled_from(_PIECES.split("|"))


@given(st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=14).map("".join)))
def test_any_question_gives_one_to_three_parts_that_are_not_blank(question):
    plan = planned(question, (), TODAY)
    assert 1 <= len(plan.sub_questions) <= 3
    assert all(part.strip() for part in plan.sub_questions) or not question.strip()
    assert planned(question, (), TODAY) == plan


def test_a_very_long_question_is_planned_at_once():
    for piece in ("compare a and b ", "和", "what is it and who ", "的", ", ", "in "):
        assert planned(piece * 2000, (), TODAY).sub_questions


def test_what_stands_with_the_last_of_several_things_is_asked_of_each():
    assert planned("入门版和团队版的服务水平有什么区别？", (), TODAY).sub_questions == (
        "入门版的服务水平有什么特点？",
        "团队版的服务水平有什么特点？",
    )
