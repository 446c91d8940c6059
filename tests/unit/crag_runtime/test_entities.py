"""Names, codes, quoted words and numbers of texts, in both languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.words.entities import entities, numbers, same, words_of

NAMED = {
    "What is the price of the Team plan in Berlin?": ("Team", "Berlin"),
    "Compare Milvus 2.5 and Qdrant on latency": ("Milvus 2.5", "Qdrant"),
    "Who wrote Bank of England report SKU-2024-X5?": ("Bank of England", "SKU-2024-X5"),
    "What does kb_cli.py do at v2.3.1 with C++?": ("kb_cli.py", "v2.3.1", "C++"),
    "Revenue in Q3 2024 for Apple Inc.": ("Apple Inc",),
    "Does iPhone 15 cost $799?": ("iPhone 15",),
    "Is SSO part of “Plan B”?": ("SSO", "Plan B"),
    "What happened in March 2024?": (),
    "What is the price?": (),
    "Can I get 5GB by the 1st of May?": (),
    "清华大学的校长是谁？": ("清华大学",),
    "团队版和企业版有什么区别？": ("团队版", "企业版"),
    "去年第三季度华为公司的营收是多少？": ("华为公司",),
    "《红楼梦》的作者是谁": ("红楼梦",),
    "北极星项目的负责人是谁？": ("北极星项目",),
    "王小明教授在北京工作吗？": ("王小明", "北京"),
    "年假有多少天？": (),
    "Milvus的价格是多少？": ("Milvus",),
}


@pytest.mark.parametrize(("text", "names"), NAMED.items())
def test_names_codes_and_quotes_are_found_in_order(text, names):
    assert entities(text) == names


def test_numbers_have_one_notation():
    assert numbers("2,500 euros") == numbers("€2500") == ("2500 money:eur",)
    assert numbers("It is 5% of 3 GB") == ("5 share:percent", "3 size:gb")
    assert numbers("no figures") == ()


@given(st.text(max_size=200))
def test_any_text_has_entities_that_stand_in_it_each_once(text):
    found = entities(text)
    assert all(name in text for name in found)
    assert len({same(name) for name in found}) == len(found)
    assert entities(text) == found
    numbers(text)


@given(st.text(alphabet="北京大学的团队版和企业价格是多少年假第三季度", min_size=2, max_size=20))
def test_words_joined_are_the_run(run):
    assert "".join(words_of(run)) == run
