"""A follow-up made self-contained by the last turn, by rule, English and Chinese: pure.

Only the last turn is looked at, and only where the question leaves something out: a pronoun, "and in Q2?", 那去年呢？
A question that names what it is about takes nothing over, so one subject never leaks into another.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from crag_runtime.language import is_chinese
from crag_runtime.planning.question_parts import in_period, with_subject
from crag_runtime.planning.topics import has_own_topic, phrase, subjects
from kb.dates.almanac import day_of
from kb.dates.mentions import mentions
from kb.words.entities import entities, same

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_runtime.evidence import Turn
    from kb.dates.mentions import Mention
    from kb.model import Instant

MAX_FOLLOW_UP = 400  # characters; who writes more says what it is about
SHORT_WORDS, SHORT_HAN = 5, 8  # a question up to so long, without a name, leaves something out

_LEAD = re.compile(
    r"^(?:(?:ok(?:ay)?|so|then|well|hm+)[,\s]+)?"
    r"(?:and|but|or|also|what about|how about|same (?:question )?(?:for|with))\b[\s,]*(?:what about\s|how about\s)?"
    r"|^(?:好的?[，,])?(?:那么?|还有|另外|换成|至于)[，,]?",
    re.IGNORECASE,
)
_BACK = re.compile(
    r"\b(?:it|its|they|their|them|he|she|his|her"
    r"|those|these|the (?:former|latter|same(?!\s\w))|that one|this one|both)\b"
    r"|\b(?:this|that)(?!\s(?:year|month|week|quarter|half|decade|is\s\w+ing)\b)"
    r"(?=\s(?:plan|policy|product|project|company|team|version|one|tier)\b|[?.,]|$)"
    r"|它们?|(?<![其吉])他们?|她们?|(?<!其)其(?![他它中实余次])|前者|后者|两者"
    r"|这(?:个|些|款|项|家)|那(?:个|些|款|项|家)|该(?:产品|公司|项目|计划|版本|套餐|政策|人)",
    re.IGNORECASE,
)
_DUMMY = re.compile(
    r"\bit(?:'s|\sis)?\s(?:possible|true|necessary|ok|allowed|correct|safe|worth|take\b)"
    r"|(?:is|was)\sit\s(?:possible|true|safe|worth|correct|necessary|ok)\b",
    re.IGNORECASE,
)
_PERSON = re.compile(r"\b(?:he|she|his|her)\b|(?<![其吉])[他她](?!们)", re.IGNORECASE)
_BACK_OWNER = re.compile(r"\b(?:its|their|his|her)\b(?=\s\w)", re.IGNORECASE)
_AMOUNT = re.compile(
    r"\bhow\s(?:much|many)\b|\bwhat\s(?:is|was|are|were)\s(?:its|their|the)\b"
    r"|多少|几[个天人]|多[大高长]|的[^的谁哪]{1,8}呢?[?？]?$",
    re.IGNORECASE,
)
_WHY = re.compile(r"^(?:why(?: not| is that| so)?|how so|how come|为什么|为何|怎么会|原因呢?)[?？。.]*$", re.IGNORECASE)
_AGAIN = re.compile(
    r"^(?:and\s|so\s)?how\s(?:much|many)\s(?:is|was|are|were)\s(?:it|that|they)[?. ]*$|^[它这那]呢?[?？]*$",
    re.IGNORECASE,
)
_EARLIER = re.compile(
    r"同期|\bsame\s\w+\s(?:of\s)?(?:the\s)?(?:last|previous|prior)\syear|\ba\syear\s(?:earlier|before)", re.IGNORECASE
)
_VERB = re.compile(r"\b(?:is|are|was|were|do|does|did|can|could|should|will|has|have|costs?|means?)\b", re.IGNORECASE)
_LEAD_IN = re.compile(r"^(?:in|for|on|during|with|about|of|at|since|from)\s(?:the\s(?=[QqHh]\d))?", re.IGNORECASE)


_LAST_IN = re.compile(r"\s(?:in|for|on|during|of|at)\s*$", re.IGNORECASE)


class Carried(NamedTuple):
    """A self-contained question, and the words it took over; "" when none."""

    question: str
    words: str


def self_contained(question: str, turns: Sequence[Turn], today: Instant) -> Carried:
    """Return a question with what it leaves out taken from the last turn.

    Args:
        question: as asked.
        turns: earlier ones of the thread, the last one last; their questions are self-contained.
        today: for periods.
    """
    question = question.strip()
    last = turns[-1] if turns else None
    if last is None or not last.question.strip() or not _bare(question) or len(question) > MAX_FOLLOW_UP:
        return Carried(question, "")
    if _WHY.match(question):
        joint = "：" if is_chinese(last.question) else ": "
        return Carried(f"{_bare(question)}{joint}{last.question}", last.question)
    if _AGAIN.match(question):
        return Carried(last.question, last.question)
    core = _core(question)
    is_led = core != _bare(question)
    if _BACK.search(_DUMMY.sub(" ", core)) and not _names_itself(core):
        return _referring(question if not is_led else core, last, today)
    if (is_led and not _is_clause(core)) or _is_short(core, today):
        return _elliptic(core, last, today)
    return Carried(question, "")


def _bare(question: str) -> str:
    return question.strip().rstrip("?？!！.。 ")


def _core(question: str) -> str:
    """Return what a question says after "and", "what about", 那; 呢 left out."""
    bare = _bare(question)
    core = bare.removesuffix("呢").strip()
    stripped = _LEAD.sub("", core, count=1).strip()
    return stripped or bare


def _names_itself(core: str) -> bool:
    """Return whether a name stands before the pronoun, which then means that."""
    back = _BACK.search(core)
    return back is not None and bool(entities(core[: back.start()]))


def _is_clause(core: str) -> bool:
    """Return whether it is a whole question: it names something, and says or asks something of it."""
    if is_chinese(core):
        return bool(re.search(r"什么|多少|谁|哪|怎么|如何|几|吗|是否", core)) and (
            bool(entities(core)) or has_own_topic(core)
        )
    return _VERB.search(core) is not None and (bool(entities(core)) or has_own_topic(core))


def _is_short(core: str, today: Instant) -> bool:
    """Return whether so little is said that the rest must be meant: "Q2", "how much", 多少钱."""
    if entities(core) or has_own_topic(core):
        return False
    if is_chinese(core):
        return len(core) <= SHORT_HAN
    is_noun = re.match(r"^(?:what|who|when|where|which|how)\s(?:is|are|was|were)\s\w+$", core, re.IGNORECASE)
    return (
        len(core.split()) <= SHORT_WORDS
        and not is_noun
        and bool(_VERB.search(core) is None or mentions(core, today) or _THE.search(core))
    )


_THE = re.compile(r"\bthe\s\w+$", re.IGNORECASE)


def _referring(question: str, last: Turn, today: Instant) -> Carried:
    """Put what the last turn was about in place of the pronoun, and its period where an amount is asked."""
    subject = _subject(question, last)
    if not subject:
        return Carried(question, "")
    whole = _replaced(question, subject)
    words = [subject]
    named = mentions(last.question, today)
    if named and not mentions(whole, today) and _AMOUNT.search(question):
        whole = in_period(whole, named[-1].period.label)
        words.append(named[-1].period.label)
    return Carried(whole, ", ".join(words))


def _subject(question: str, last: Turn) -> str:
    known = subjects(last.question)
    if _PERSON.search(question):
        asked = {same(name) for name in entities(last.question)}
        person = next((name for name in entities(last.answer) if same(name) not in asked), "")
        return person or (known[0] if known else "")
    if not known:
        return ""
    if (
        re.search(r"\b(?:they|them|their|both|those|these)\b|它们|两者|这些|那些", question, re.IGNORECASE)
        and len(known) > 1
    ):
        return ("和" if is_chinese(question) else " and ").join(known)
    return known[-1] if re.search(r"\blatter\b|后者", question, re.IGNORECASE) else known[0]


def _replaced(question: str, subject: str) -> str:
    back = _BACK.search(_DUMMY.sub(lambda m: " " * len(m[0]), question))
    if back is None:
        return with_subject(question, subject)
    owned = f"{subject}'s" if _BACK_OWNER.match(question, back.start()) else subject
    end = back.end()
    if noun := re.match(
        r"\s(?:plan|policy|product|project|company|team|version|one|tier)\b", question[end:], re.IGNORECASE
    ):
        end += 0 if owned != subject else noun.end()
    return question[: back.start()] + owned + question[end:]


def _elliptic(core: str, last: Turn, today: Instant) -> Carried:
    """Ask the last question again of another period or another thing, or another thing of the same subject."""
    before = mentions(last.question, today)
    now = mentions(core, today, year=day_of(before[0].period.start).year if before else None)
    if before and _EARLIER.search(core) and (year_before := _a_year_before(before[0].period.label)):
        return _of_period(year_before, "", last, before)
    if now:
        others = (core[: now[0].at] + core[now[0].until :]).strip()
        label = now[0].period.label
        label = _with_year(label, before[0]) if before and not mentions(label, today) else label
        return _of_period(label, _LEAD_IN.sub("", _LAST_IN.sub("", f"{others} ")).strip(" ,，的"), last, before)
    known = subjects(last.question)
    names = entities(core)
    thing = _LEAD_IN.sub("", core)
    if known and (names or _is_alike(thing, known[0])):
        new = phrase(core, names[0]) if names else thing
        frame = _with_article(last.question, known[0])
        asked = last.question.replace(
            frame, new if not frame.lower().startswith("the ") or new.lower().startswith("the ") else f"the {new}", 1
        )
        return Carried(asked, _rest(last.question, frame)) if asked != last.question else Carried(core, "")
    if not known:
        return Carried(core, "")
    return _other_aspect(core, known[0], before)


def _of_period(label: str, others: str, last: Turn, before: Sequence[Mention]) -> Carried:
    """Ask the last question of another period, and of another thing where one is named beside it."""
    if before:
        first, end = before[0].at, before[-1].until
        asked, rest = (
            last.question[:first] + label + last.question[end:],
            _rest(last.question, last.question[first:end]),
        )
    else:
        asked, rest = in_period(last.question, label), last.question
    names, known = entities(others), subjects(last.question)
    if names and known:
        asked, rest = asked.replace(known[0], phrase(others, names[0]), 1), _rest(rest, known[0])
    return Carried(asked, rest)


def _other_aspect(core: str, subject: str, before: Sequence[Mention]) -> Carried:
    """Ask "and the storage limit?" of the last subject."""
    if is_chinese(core):
        asked = with_subject(
            core if re.search(r"什么|多少|谁|哪|怎么|如何|几|吗|为什么", core) else f"{core}是什么", subject
        )
        asked = f"{asked}？"
    elif _VERB.search(core) or re.match(r"(?:how|what|who|when|where|why|which)\b", core, re.IGNORECASE):
        asked = f"{core[0].upper()}{core[1:]} for {subject}?"
    else:
        thing = re.sub(r"^(?:the|its|their)\s", "", core)
        asked = f"What is the {thing} of {subject}?"
    if not before or not _AMOUNT.search(asked):
        return Carried(asked, subject)
    label = before[-1].period.label
    return Carried(in_period(asked, label), f"{subject}, {label}")


def _is_alike(thing: str, subject: str) -> bool:
    """Return whether two things end in the same noun: "the business plan" and "the team plan"."""
    ends = [re.sub(r"\W+$", "", text).casefold() for text in (thing, subject)]
    if is_chinese(thing):
        return len(thing) > 1 and thing[-1] == ends[1][-1:]
    return len(ends[0].split()) > 1 and ends[0].split()[-1] == (ends[1].split() or [""])[-1]


def _with_article(question: str, subject: str) -> str:
    return subject if subject in question else next((s for s in (f"the {subject}",) if s in question), subject)


def _rest(question: str, replaced: str) -> str:
    return " … ".join(part.strip() for part in question.split(replaced, 1) if part.strip(" ?？")).strip()


def _a_year_before(label: str) -> str:
    return (
        re.sub(r"(?<!\d)[12]\d{3}(?!\d)", lambda year: str(int(year[0]) - 1), label)
        if re.search(r"\d{4}", label)
        else ""
    )


def _with_year(label: str, last: Mention) -> str:
    """Return "Q2 2024" from "Q2" and the last turn's "Q3 2024", 2024年二季度 from 二季度."""
    year = day_of(last.period.start).year
    return f"{year}年{label}" if is_chinese(label) else f"{label} {year}"
