from __future__ import annotations

import pytest

from crag_runtime.language import Phrase, both, is_chinese, refusal
from crag_runtime.refusal import RefusalReason
from kb.terms import Script, script_of


@pytest.mark.parametrize(
    "text", ["团队版多少钱？", "Halden Relay 的 Team plan 多少钱？", "API v2 是什么", "如何配置 max_connections？"]
)
def test_a_question_put_together_by_chinese_words_is_chinese(text: str) -> None:
    assert is_chinese(text)


@pytest.mark.parametrize(
    "text",
    [
        "How much is Team?",
        "What does 磁盘 mean?",
        "",
        "42",
        "Teamプランはいくらですか",
        "팀 요금제는 얼마입니까?",
        "Сколько стоит?",
    ],
)
def test_other_questions_are_not(text: str) -> None:
    assert not is_chinese(text)


@pytest.mark.parametrize("reason", list(RefusalReason))
def test_every_reason_is_told_in_the_questions_language(reason: RefusalReason) -> None:
    assert script_of(refusal(reason, "How much?")) is Script.LATIN
    assert script_of(refusal(reason, "多少钱？")) is Script.CJK


def test_the_primary_reason_comes_first_and_none_twice() -> None:
    told = refusal(
        RefusalReason.NOTHING_FOUND, "Who?", RefusalReason.SEARCH_NOT_CONFIGURED, RefusalReason.NOTHING_FOUND
    )
    assert told == " ".join(
        (refusal(RefusalReason.NOTHING_FOUND, "Who?"), refusal(RefusalReason.SEARCH_NOT_CONFIGURED, "Who?"))
    )


def test_every_phrase_is_in_both_languages() -> None:
    assert all(all(both(phrase)) for phrase in Phrase)
