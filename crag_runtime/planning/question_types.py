"""What kind of answer a question wants, by its words, English and Chinese: pure."""

from __future__ import annotations

import re

from crag_runtime.evidence import QuestionType

_WORK = (
    r"(?:poem|story|stories|song|haiku|slogan|tagline|joke|speech|limerick|script"
    r"|advert|blog post|name|names|title|titles)"
)
_CREATIVE = re.compile(
    rf"\b(?:write|compose|draft|invent|create|make up|come up with|suggest|think of)"
    rf"\s(?:me\s|us\s)?(?:\w+\s){{0,4}}?{_WORK}\b"
    r"|\b(?:brainstorm|imagine\b(?!\sdragons))|\bwhat if\b"
    r"|(?:写|作|编|创作|想|起|取|拟)(?:出)?(?:一|几|个|首|篇|段|句|条|则|些){1,3}[^，。？！]{0,12}?"
    r"(?:诗|故事|歌词?|文案|口号|标语|笑话|小说|剧本|名字|标题|对联|广告词?)"
    r"|头脑风暴|发挥想象|想象一下|假如你是",
    re.IGNORECASE,
)
_ANALYTICAL = re.compile(
    r"\b(?:why|how come|compare[sd]?|comparison|contrast|versus|vs|differ(?:s|ences?|ent)?|analy[sz]e|analysis"
    r"|evaluate|assess"
    r"|trade-?offs?|pros and cons|advantages?|disadvantages?|benefits?|drawbacks?|strengths?|weaknesses|impacts?"
    r"|implications?"
    r"|consequences|causes?|reasons?|trends?|relationship|correlat\w+|should (?:we|i|one)"
    r"|better|worse|cheaper|faster|slower"
    r"|explain (?:why|how)|affects?|influences?|lead to|what made)\b"
    r"|为什么|为何|为啥|原因|分析|比较(?!多|少|好)|对比|相比"
    r"|区别|差异|差别|不同之处|有什么不同"
    r"|优缺点|优点|缺点|优势|劣势|利弊|影响|评估|评价|趋势"
    r"|(?:之间|有什么|有何|的)关系|如何看待|怎么看|应不应该|是否应该|意味着|哪个更|哪一个更|谁更|有何意义",
    re.IGNORECASE,
)


def question_type(question: str) -> QuestionType:
    """Return what a question wants: a creation, an analysis, or else a fact."""
    if _CREATIVE.search(question):
        return QuestionType.CREATIVE
    return QuestionType.ANALYTICAL if _ANALYTICAL.search(question) else QuestionType.FACTUAL
