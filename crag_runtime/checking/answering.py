"""What kind of value a question asks for, and whether a text gives one or only declines. Pure."""

from __future__ import annotations

import re
from enum import StrEnum

from crag_runtime.checking.support import content, names
from kb.words.figures import figures


class Wanted(StrEnum):
    """The kind of value that answers a question."""

    WHO = "who"
    WHEN = "when"
    WHERE = "where"
    COUNT = "count"
    POLAR = "polar"  # yes or no
    OTHER = "other"


_ASKS = {
    Wanted.COUNT: (
        r"\bhow (?:much|many|long|often|large|big|old|far|fast|high|tall|heavy)\b",
        "多少|几[个天次年月日种条台位分小倍名]|多[长大久高快重远]",
    ),
    Wanted.WHEN: (
        r"\bwhen\b|\b(?:what|which) (?:date|day|year|month|time)\b|\brelease date\b",
        "何时|什么时候|什么时间|哪一?[年天月日]|几[点月号]|时间$|日期",
    ),
    Wanted.WHO: (r"\bwho(?:m|se)?\b", "谁|哪一?位|何人|什么人"),
    Wanted.WHERE: (
        r"\bwhere\b|\b(?:which|what) (?:place|city|country|location)\b",
        "哪里|哪儿|在哪|何处|何地|什么地方",
    ),
    Wanted.POLAR: (
        r"^\s*(?:is|are|was|were|do|does|did|can|could|may|must|should|will|would|has|have|had)\b",
        "吗|是否|能否|可否|是不是|能不能|有没有|会不会",
    ),
    Wanted.OTHER: (r"\b(?:what|which|why|how)\b",),
}
_ASKED = tuple((wanted, re.compile("|".join(patterns), re.IGNORECASE)) for wanted, patterns in _ASKS.items())
_BOUNDLESS = re.compile(
    r"\b(?:free|unlimited|no limit|none|never|forever|always|as (?:many|much|long|often) as|hundreds|millions)\b"
    r"|\b(?:thousands|dozens|billions|majority|minority|half|most|all|several|ago|centuries|decades|every)\b"
    "|免费|无限|不限|没有|无|永久|始终",
    re.IGNORECASE,
)
_TIMES = re.compile(
    r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\b(?:daily|weekly|monthly|yearly|nightly|hourly|today|tomorrow)\b"
    r"|\b(?:yesterday|noon|midnight|january|february|march|april|may|june|july|august|september|october|november)\b"
    r"|\b(?:december|q[1-4]|immediately|before|after|once|as soon as|during|until|while|when|end|start|ago|era)\b"
    "|每[天周月年日晚]|今[天年]|明[天年]|昨天|周[一二三四五六日末]|星期|季度|世纪|年代|之前|之后|立即|期间"
    "|[上下]午|凌晨|早上|晚上|当.{1,30}时|以前|以后|时期|时代|初期|末期",
    re.IGNORECASE,
)
_NOUN = (
    r"(?:evidence|sources?|documents?|context|passages?|texts?|excerpts?|material|memor(?:y|ies)|knowledge base"
    r"|information)"
)
_SAID = r"(?:mentioned|specified|stated|provided|given|known|covered|disclosed|described)"
_NOT_GIVING = (
    r"(?:(?:do(?:es)? not|don't|doesn't|did not|didn't|cannot|can't) (?:\w+ly )?(?:mention|say|state|specify|answer"
    r"|tell|indicate|address|reveal|discuss|clarify|(?:provide|contain|give|include|have) (?:any|enough|the|a|info))"
    r"|(?:contains?|provides?|has|have|gives?|makes?) no (?:information|mention|answer|details?|data|evidence)"
    r"|is (?:insufficient|not enough)|lacks? (?:information|details?|the answer))"
)
_ZH_NOUN = "(?:资料|文档|证据|文中|原文|来源|上下文|信息|内容)"
_DECLINING = (
    r"\bI(?:'m| am)? (?:sorry|do not|don't|cannot|can't|could not|couldn't|unable|not able|not sure)\b",
    rf"\b{_NOUN}\b[^.]{{0,40}}\b{_NOT_GIVING}\b",
    rf"\b(?:is|are|was|were)(?: not|n't) {_SAID}\b",
    r"\bthere (?:is|was) (?:no|not enough|insufficient) (?:information|evidence|mention|data|answer)\b",
    r"\b(?:cannot|can't|can not|could not) be (?:determined|answered|inferred|found|established)\b",
    r"\b(?:unable|not able|impossible|not possible) to (?:determine|answer|find|say|tell|provide)\b",
    rf"^\W*no (?:relevant )?(?:answer|mention|{_NOUN})\b|\bnot enough {_NOUN}\b",
    r"^\W*(?:unknown|not (?:mentioned|specified|stated|available|found|sure)|n/?a)\W*$",
    r"无法(?:确定|回答|判断|得知|确认|从|提供|找到)|我?不(?:清楚|知道|确定)[。！]?$|抱歉|对不起|不得而知|信息不足",
    rf"{_ZH_NOUN}(?:中|里|都|均|并)*(?:没有|未|无)(?:提|说|给|涉|包含|记载|明确|足够|相关|任何|答案|信息)|没有(?:提到|提及|相关(?:信息|资料)|足够|找到|说明)",
    r"未(?:提到|提及|说明|给出|找到|涉及|提供|明确)",
)
_DECLINES = re.compile("|".join(_DECLINING), re.IGNORECASE)


def wanted_by(question: str) -> Wanted:
    """Return the kind of value that a question asks for: what it says first decides ("who is called when...")."""
    found = [(m.start(), order, wanted) for order, (wanted, p) in enumerate(_ASKED) if (m := p.search(question))]
    return min(found)[2] if found else Wanted.OTHER


def declining(sentence: str) -> str:
    """Return the words by which a sentence says that it does not know; "" when it does not say so."""
    found = _DECLINES.search(sentence.replace("’", "'"))
    return found.group() if found else ""


def gives(text: str, question: str) -> bool:
    """Return whether a text has a value of the kind that the question asks for, which the question has not itself."""
    wanted = wanted_by(question)
    if wanted is Wanted.POLAR:
        return bool(content(text)) and not text.rstrip().endswith(("?", "？"))
    mine, theirs = figures(text), figures(question)
    has_figure = any(
        set(own) - set(given)
        for own, given in (
            (mine.dates, theirs.dates),
            ((*mine.quantities, *mine.worded), (*theirs.quantities, *theirs.worded)),
        )
    )
    if wanted is Wanted.COUNT:
        return has_figure or _BOUNDLESS.search(text) is not None
    if wanted is Wanted.WHEN:
        return has_figure or (_TIMES.search(text) is not None and is_more_than(text, question))
    return has_figure or bool(set(names(text)) - set(names(question))) or is_more_than(text, question)


def is_more_than(text: str, question: str) -> bool:
    """Return whether a text says anything that the question does not."""
    asked = set(content(question))
    return any(term not in asked and term not in question.lower() for term in content(text))
