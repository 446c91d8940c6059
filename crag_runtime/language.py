"""The runtime's own sentences, in the question's language: pure.

Whatever an answer says besides what its evidence says stands here, in English and in Chinese, so that the support
check can tell it from a claim.
"""

from __future__ import annotations

import re
from enum import StrEnum

from crag_runtime.refusal import RefusalReason
from kb.terms import Script, script_of

_KANA_OR_HANGUL = re.compile("[\u3041-\u30fa\u30fd-\u30ff\uac00-\ud7af]")  # not the middle dot, which names carry
# A question full of Latin product names is Chinese all the same if it is put together by Chinese words.
_ASKS_IN_CHINESE = re.compile(
    "多少|什么|怎么|怎样|如何|为何|是否|能否|可否|几[个天次年月种条台]|哪[个些里儿位年一种]|何时|谁|吗|呢|有没有|请|和|与|的|是|在"
)
_ENGLISH_FRAME = re.compile(
    r"\b(?:what|who|when|where|which|why|how|is|are|was|were|does|do|did|can|the|a|an|of|mean|means|in|for|tell)\b",
    re.IGNORECASE,
)


class Phrase(StrEnum):
    """A fixed sentence, or the beginning of one, in both languages: see `said`."""

    NOT_COVERED = "not_covered"  # + the parts that nothing covers
    DISAGREE = "disagree"  # + what about
    UNCERTAIN = "uncertain"
    SAYS = "says"  # + a title before, a block after
    LIST_MARK = "list_mark"  # between items in a line
    SPAN_MARK = "span_mark"  # between a value and the sentence it was read in
    NO_DATE = "no_date"


_PHRASES: dict[Phrase, tuple[str, str]] = {
    Phrase.NOT_COVERED: ("Not covered: ", "未涵盖："),
    Phrase.DISAGREE: ("The sources disagree: ", "资料来源不一致："),
    Phrase.UNCERTAIN: (
        "This is uncertain: what was found fits the question only in part.",
        "此答案不确定：找到的资料只部分符合问题。",
    ),
    Phrase.SAYS: ("From", "摘自"),
    Phrase.LIST_MARK: ("; ", "；"),
    Phrase.SPAN_MARK: (" — ", "——"),
    Phrase.NO_DATE: ("undated", "无日期"),
}

_REFUSALS: dict[RefusalReason, tuple[str, str]] = {
    RefusalReason.NOTHING_FOUND: (
        "I found nothing trustworthy that answers this question.",
        "没有找到能回答这个问题的可信资料。",
    ),
    RefusalReason.ONLY_SUPPRESSED: (
        "What matches has faded, waits or was taken out, so it is not used; ingest its source again if it still holds.",
        "相符的资料已经淡出、被隔离或有待核实，因此没有使用；重新导入其来源即可更新仍然有效的内容。",
    ),
    RefusalReason.PERIOD_NOT_COVERED: (
        "The knowledge base covers this, but not for the period in question.",
        "知识库中有相关内容，但没有所问时期的资料。",
    ),
    RefusalReason.NOT_SUPPORTED: (
        "There is related evidence, but no answer that it fully supports.",
        "有相关资料，但没有得到完全有据可依的答案。",
    ),
    RefusalReason.SEARCH_NOT_CONFIGURED: (
        "The web was not searched: no web search is configured.",
        "没有搜索网络：尚未配置网络搜索。",
    ),
    RefusalReason.SEARCH_DECLINED: (
        "The web was not searched: the search was declined.",
        "没有搜索网络：搜索未获批准。",
    ),
    RefusalReason.SEARCH_FAILED: ("The web search failed.", "网络搜索失败。"),
    RefusalReason.SEARCH_NOT_TIMELY: (
        "The web was not searched: it is for questions of time only, and this one names no time.",
        "没有搜索网络：只有涉及时间的问题才搜索，而这个问题没有提到时间。",
    ),
    RefusalReason.EVALUATOR_UNAVAILABLE: (
        "What was found could not be graded: the evaluator is not available.",
        "无法评定找到的资料：评估器不可用。",
    ),
    RefusalReason.INDEX_UNAVAILABLE: (
        "The memories could not be searched: the index is not available.",
        "无法检索记忆：索引不可用。",
    ),
    RefusalReason.EMBEDDER_UNAVAILABLE: (
        "The memories could not be searched: the embedder is not available.",
        "无法检索记忆：嵌入模型不可用。",
    ),
    RefusalReason.LEDGER_UNAVAILABLE: (
        "The memories could not be read: the ledger is not available.",
        "无法读取记忆：账本不可用。",
    ),
    RefusalReason.MODEL_UNAVAILABLE: (
        "No answer could be written: the chat model is not available.",
        "无法撰写答案：对话模型不可用。",
    ),
    RefusalReason.BUDGET_SPENT: (
        "The budget of this question is spent.",
        "这个问题的预算已经用完。",
    ),
    RefusalReason.PERSON_NEEDED: (
        "A person should decide with what was found.",
        "需要由人来判断找到的资料。",
    ),
    RefusalReason.PERSON_DECLINED: (
        "A person decided not to use what was found.",
        "有人决定不使用找到的资料。",
    ),
}


def is_chinese(text: str) -> bool:
    """Return whether a question is to be answered in Chinese.

    Japanese and Korean are not; a text of mostly Latin names is, when what holds it together is Chinese.
    """
    if _KANA_OR_HANGUL.search(text):
        return False
    if script_of(text) is Script.CJK:
        return True
    return _ASKS_IN_CHINESE.search(text) is not None and _ENGLISH_FRAME.search(text) is None


def said(phrase: Phrase, *, in_chinese: bool) -> str:
    """Return a fixed phrase in one of the two languages."""
    return _PHRASES[phrase][in_chinese]


def both(phrase: Phrase) -> tuple[str, str]:
    """Return a fixed phrase in English and in Chinese."""
    return _PHRASES[phrase]


def refusal(reason: RefusalReason, question: str, *further: RefusalReason) -> str:
    """Return what a refused question is told, in its language: the primary reason, then the others, each once."""
    in_chinese = is_chinese(question)
    sentences = [_REFUSALS[known][in_chinese] for known in dict.fromkeys((reason, *further))]
    return ("" if in_chinese else " ").join(sentences)
