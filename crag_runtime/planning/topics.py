"""What a question is about, as it would be said again in another question: "the Team plan", 团队版. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files

from crag_runtime.language import is_chinese
from kb.words.entities import entities

MAX_TOPIC_WORDS = 7
_HEADS = (
    "plan|edition|tier|version|package|project|policy|team|model|server|report|contract|product|service|platform|protocol|system"
    "|app|application|API|library|database|company|department|agreement|subscription|licen[cs]e|module|office|branch|region|account"
    "|role|feature|programme?|initiative|framework|tool|cluster|engine|event|conference|book|film|movie|novel"
)
_SCAFFOLD = re.compile(
    r"^(?:(?:please|can you|could you|tell me|do you know|explain|describe|show me)\s+)*"
    r"(?:what|who|whom|whose|when|where|which|why|how)?"
    r"(?:'s|\s(?:much|many|long|far|old|often|big|large))?\s*"
    r"(?:\b(?:is|are|was|were|does|do|did|can|could|should|will|would|has|have|had)\b)?\s*",
    re.IGNORECASE,
)
_OF = re.compile(r"\b(?:of|for|in|about|by|from|to)\s+((?:the|a|an|our|my|your|this)\s.+|[a-z].+)$", re.IGNORECASE)
_VERBS = re.compile(
    r"\s(?:costs?|works?|happens?|happened|means?|include[sd]?|need(?:ed)?|require[sd]?|use[sd]?|take[ns]?|start(?:ed)?|begin|end|run|allow(?:ed)?"
    r"|support(?:ed)?|apply|appl(?:ies|ied)|found(?:ed)?|released?|published|written|made|launched|located|based|called|do|get|have|change[sd]?)\b.*$",
    re.IGNORECASE,
)
_HAN_TOPIC = re.compile(
    r"^(?:请问|请|那么?|告诉我|介绍一下|介绍)?([^，。？！?!,]{1,24}?)"
    r"(?:是|有|在|什么|多少|怎么|如何|为什么|为何|何时|哪|谁|几|能|可以|需要|包括|包含|要|会|吗|呢|支持|最多|属于|来自|分别)"
)
_NOUN = re.compile(
    r"\b(?:the|a|an|my|our|your)\s(?:[a-z]+\s)*?([a-z]+)(?=\s(?:of|for|in|on|at|is|are|was|were)\b|[?.]|$)",
    re.IGNORECASE,
)


def subjects(question: str) -> tuple[str, ...]:
    """Return what a question is about, each with its article and head noun; its topic where it names nothing."""
    named = tuple(phrase(question, name) for name in entities(question))
    if named:
        return named
    topic = _han_topic(question) if is_chinese(question) else _topic(question)
    return (topic,) if topic else ()


def phrase(question: str, name: str) -> str:
    """Return a name as the question says it: with "the" and a head noun where they stand beside it."""
    match = re.search(rf"(?:\b(?:the|our)\s)?{re.escape(name)}(?:\s(?:{_HEADS})s?\b)?", question, re.IGNORECASE)
    return match[0] if match else name


def _topic(question: str) -> str:
    rest = _SCAFFOLD.sub("", question.strip().rstrip("?!. "))
    inner = _OF.search(rest)
    if inner and (" " in inner[1] or not rest.lower().startswith(("the ", "a ", "an "))):
        rest = inner[1]
    rest = _VERBS.sub("", rest).strip()
    return rest if rest and len(rest.split()) <= MAX_TOPIC_WORDS else ""


def has_own_topic(part: str) -> bool:
    """Return whether a question without names says what it is about: "the handbook", 病假工资; not "the price"."""
    if is_chinese(part):
        return bool(_han_topic(part))
    return any(noun.lower() not in _attributes() for noun in _NOUN.findall(part))


def _han_topic(question: str) -> str:
    """Return what stands before the predicate, without the attribute that is asked for."""
    match = _HAN_TOPIC.match(question.strip())
    if not match:
        return ""
    *owners, last = match[1].strip().split("的")
    topic = "的".join([*owners, last] if last and last not in _attributes() else owners)
    return topic if len(topic) > 1 else ""


@lru_cache(maxsize=1)
def _attributes() -> frozenset[str]:
    return frozenset((files("crag_runtime") / "data" / "attributes.txt").read_text(encoding="utf-8").split())
