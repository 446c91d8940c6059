"""A question's parts, each a question of its own that can be answered alone, English and Chinese: pure.

A question is cut at comparisons, at question marks, at numbered lines, and at "and" or a comma where another question
word follows. An "and" inside a name or a noun phrase is no place to cut.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crag_runtime.language import is_chinese
from crag_runtime.planning.comparisons import compared, held_together, let_go
from crag_runtime.planning.topics import has_own_topic, subjects
from kb.dates.mentions import mentions
from kb.words.entities import entities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.model import Instant

MAX_PARTS = 3
MOST_CUTS = 8  # what is cut finer would only be joined again
MAX_QUESTION = 2000  # characters; a longer one is a text, and stays whole

_ITEM = re.compile(r"(?:(?<=^)|(?<=[\s:：;；]))(?:\(?\d{1,2}[.)、）](?!\d)|[•*-](?=\s)|[①②③④⑤⑥⑦⑧⑨]|\([a-z]\))\s*")
_MARKS = re.compile(r"(?<=[?？])[\s”\"]*")
_WH = r"(?:who|whom|whose|what|when|where|which|why|how)"
_AUX = r"(?:is|are|was|were|does|do|did|can|could|should|will|has|have)"
_ASKS = re.compile(
    rf"^(?:(?:and|also|or|please|so)\s)*(?:{_WH}\b|{_AUX}\s|(?:explain|describe|tell|list|name|give|summari[sz]e|show)\s)",
    re.IGNORECASE,
)
_LEAD = re.compile(r"^.*(?:[,:]\s|\.\s)")
_QUESTION = re.compile(rf"^(?:{_WH}|{_AUX})\b", re.IGNORECASE)
_CUT = re.compile(
    rf"\s*[,;]?\s(?:and|and also|as well as|plus)\s"
    rf"(?={_WH}\b|{_AUX}\s(?:it|they|he|she|there|the|this|that|we|i|you)\b)"
    rf"|\s*[,;]\s(?={_WH}\b)",
    re.IGNORECASE,
)
_OPEN_LEFT = re.compile(
    rf"(?:\b{_WH}|\bbetween\b[^,]*|\bboth\b[^,]*|\b(?:year|time|place|way|reason|person|know|of|in|at|to))$",
    re.IGNORECASE,
)
_HAN_CUT = re.compile(
    r"[，,；;]\s*(?:以及|并且|而且|还有|同时|另外|和|那么?|又)?|以及|并且|(?<=[谁么少里天个年月日吗])(?:和|与|还有)"
)
_HAN_ASKS = re.compile(
    r"什么|多少|谁|哪|怎么|怎样|如何|为何|几[个天年月次种条人位台家]|何时|吗|是否|能否|可否|多[长久大高远快]|有没有"
)
_PREDICATE = re.compile(
    r"(?:分别|各)?((?:是|有|为|在)?(?:什么|多少|谁|哪里|哪些|哪一?[天年个]|几[个天年月次种条人位]).*|怎么样|如何)$"
)
_PRONOUN = re.compile(
    r"\b(?P<of>its|their|his|her)(?=\s\w)|\bthere(?=\W*$)|\b(?:it|they|them)\b(?!\s(?:possible|true|necessary|ok)\b)",
    re.IGNORECASE,
)
_HAN_PRONOUN = re.compile(r"它们?|(?<!其)其(?![他它中实余次])|该(?:产品|公司|项目|计划|版本|套餐|政策)")
_NO_PREPOSITION = re.compile(
    r"^(?:since|before|after|until|till|last|this|next|yesterday|today|tomorrow|between|from|\w+ \w+ ago|the day)\b",
    re.IGNORECASE,
)


def sub_questions(question: str, today: Instant) -> tuple[str, ...]:
    """Return one to three questions that together ask what a question asks; itself when it is simple.

    Args:
        question: self-contained.
        today: for the periods it names.
    """
    if len(question) > MAX_QUESTION:
        return (question,)
    things = compared(question, today)
    if things:
        parts = [_in_period(part, question, today) for part in things]
    else:
        cut = _merged(list(dict.fromkeys(_split(question))), MOST_CUTS)
        parts = [part if i == 0 else _whole(part, cut[:i], today) for i, part in enumerate(cut)]
    distinct = list(dict.fromkeys(part for part in parts if part))
    return tuple(_merged(distinct, MAX_PARTS)) if len(distinct) > 1 else (question,)


def _merged(parts: list[str], most: int) -> list[str]:
    """Return at most so many parts: the rest is joined to the last."""
    if len(parts) <= most:
        return parts
    glue = "" if is_chinese(parts[0]) else " "
    return [*parts[: most - 1], glue.join(parts[most - 1 :])]


def _split(question: str) -> list[str]:
    """Cut a question at its items, its question marks and its further question words."""
    items = _items(question)
    if items:
        return items
    held = held_together(question.strip())
    sentences = [piece for piece in _MARKS.split(held) if piece.strip(" ?？.。\n")]
    cut = _cut_han if is_chinese(question) else _cut
    return [_asked(let_go(part)) for sentence in sentences for part in cut(sentence)]


def _items(question: str) -> list[str]:
    """Return the items of a numbered or bulleted list of at least two."""
    marks = list(_ITEM.finditer(question))
    if len(marks) < 2:  # noqa: PLR2004 - one mark is no list
        return []
    ends = [mark.start() for mark in marks[1:]] + [len(question)]
    found = [question[mark.end() : end].strip(" \n;；,，") for mark, end in zip(marks, ends, strict=True)]
    return [item for item in found if item]


def _cut(sentence: str) -> list[str]:
    """Cut "What is X and who wrote Y" where both sides ask."""
    parts, start = [], 0
    for match in _CUT.finditer(sentence):
        left = sentence[start : match.start()].strip()
        lead = _LEAD.sub("", left)
        if _ASKS.match(lead) and len(lead.split()) > 2 and not _OPEN_LEFT.search(left):  # noqa: PLR2004 - "What is X"
            parts.append(left)
            start = match.end()
    return [*parts, sentence[start:].strip()]


def _cut_han(sentence: str) -> list[str]:
    """Cut 甲是什么，乙是谁 where both sides ask; 甲以及乙是什么 gives both the predicate."""
    parts, start = [], 0
    for match in _HAN_CUT.finditer(sentence):
        left, right = sentence[start : match.start()].strip(), sentence[match.end() :]
        if not _HAN_ASKS.search(right):
            continue
        if _HAN_ASKS.search(left):
            parts.append(left)
            start = match.end()
        elif (
            match[0] == "以及"
            and "的" in left
            and "的" in right
            and (predicate := _PREDICATE.search(right.rstrip("?？")))
        ):
            parts.append(left + predicate[1])
            start = match.end()
    return [*parts, sentence[start:].strip()]


def _asked(part: str) -> str:
    """Return a part as a question: with a capital and a question mark."""
    part = re.sub(r"^(?:and|also|plus)\s", "", part.strip(" ,;，；"), flags=re.IGNORECASE)
    if not part:
        return ""
    if is_chinese(part):
        return part if part[-1] in "?？。！" else f"{part}？"
    if part[-1] not in "?.!" and _QUESTION.match(part):
        part += "?"
    return part[0].upper() + part[1:] if _ASKS.match(part) else part


def _whole(part: str, before: Sequence[str], today: Instant) -> str:
    """Give a later part the thing and the period that earlier parts named and it leaves out."""
    if entities(part) and not (_PRONOUN.search(part) or _HAN_PRONOUN.search(part)):
        return part
    known = next((found for earlier in before if (found := subjects(earlier))), ())
    if known and (_PRONOUN.search(part) or _HAN_PRONOUN.search(part) or not has_own_topic(part)):
        part = with_subject(part, known[0])
    return _in_period(part, " ".join(before), today)


def with_subject(part: str, subject: str) -> str:
    """Return a question that names its subject: in place of a pronoun, or else beside it."""
    if subject.casefold() in part.casefold():
        return part
    if is_chinese(part):
        replaced = _HAN_PRONOUN.sub(lambda _: subject, part, count=1)
        return (
            replaced
            if replaced != part
            else f"{subject}{'' if part[:1] in '的在' else '，' if _starts_why(part) else '的'}{part}"
        )
    if match := _PRONOUN.search(part):
        owner = f"{subject}'s" if match["of"] else f"at {subject}" if match[0] == "there" else subject
        replaced = part[: match.start()] + owner + part[match.end() :]
        return _PRONOUN.sub(lambda m: owner if bool(m["of"]) == bool(match["of"]) else m[0], replaced)
    stem, mark = (part[:-1], part[-1]) if part[-1:] in {"?", "."} else (part, "")
    return f"{stem} for {subject}{mark}"


def in_period(part: str, label: str) -> str:
    """Return a question with a period's words added to it."""
    if is_chinese(part):
        return f"{label}{part}"
    stem, mark = (part[:-1], part[-1]) if part[-1:] in {"?", "."} else (part, "")
    joint = (
        ""
        if _NO_PREPOSITION.match(label)
        else "on "
        if re.search(r"\d{4}-\d\d-\d\d|\b\d{1,2},?\s\d{4}|^\d{1,2}\s\w+\s\d{4}", label)
        else "in "
    )
    return f"{stem} {joint}{label}{mark}"


def _in_period(part: str, source: str, today: Instant) -> str:
    """Give a part the periods of the whole when it names none."""
    named = mentions(source, today)
    if not named or mentions(part, today):
        return part
    return in_period(part, named[0].period.label)


def _starts_why(part: str) -> bool:
    return re.match(r"为什么|为何|怎么|如何|是|有|能|可以|什么|谁|哪|几|多少", part) is not None
