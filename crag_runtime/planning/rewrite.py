"""Other words for a query that found too little, by rule, and what no rewrite may lose: pure.

Every rewrite starts from the sub-question, never from an earlier rewrite, so nothing drifts.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from crag_runtime.language import is_chinese
from crag_runtime.planning.topics import phrase
from kb.dates.mentions import mentions
from kb.dates.period_words import absolute, resolved
from kb.dates.periods import periods_in
from kb.words.entities import entities, same

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.model import Instant

ANY_YEAR = 2000
MAX_ADDED = 3  # synonyms added to one query
MAX_QUERY = 400  # characters of a model's query

_ADDRESS = re.compile(
    r"[a-z][a-z0-9+.-]{1,20}://\S+|\bwww\.\S+|\b(?:site|inurl|link|url|domain):\S+", re.IGNORECASE
)  # steers a search
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"[^\s,，。；;：:？?！!（）()“”\"「」《》、]+")
_FOCUS = (
    (re.compile(r"^(?:why|how come)\b", re.IGNORECASE), "reason"),
    (re.compile(r"^when\b", re.IGNORECASE), "date"),
    (re.compile(r"^where\b", re.IGNORECASE), "location"),
    (re.compile(r"多少天"), "天数"),
    (re.compile(r"多少钱"), "价格"),
    (re.compile(r"多少人"), "人数"),
    (re.compile(r"为什么|为何"), "原因"),
    (re.compile(r"何时|什么时候"), "时间"),
    (re.compile(r"在哪里?|哪里"), "地点"),
    (re.compile(r"怎么|怎样|如何"), "方法"),
)
_HAN_SCAFFOLD = re.compile(
    r"请问|请|告诉我|介绍一下|我想知道|想知道|关于|有?多少[天钱人]|为什么|为何|什么时候|何时|在哪里?|哪里|怎么样?|怎样|如何|有什么|是什么|什么是|有哪些"
    r"|哪些|哪个|是多少|有多少|多少|是谁|谁是|谁|什么|几(?=个|天|年)|是否|能否|可否|可不可以|可以|一下|吗|呢|吧|了(?=$|\s)|(?<=[^目])的(?!士)|是(?=$|\s)"
)
_NO_CODE_BEFORE, _NO_CODE_AFTER = (
    r"(?<![\dA-Za-z&_])(?<![\dA-Za-z][-./])",
    r"(?![\dA-Za-z&_]|[-./][\dA-Za-z])",
)  # HR-1042
_NEGATION = frozenset(("not", "no", "without", "except", "never", "non"))


class _Group(NamedTuple):
    short: str
    en: tuple[str, ...]
    zh: tuple[str, ...]


def rewritten(query: str, tried: Sequence[str], today: Instant) -> str:
    """Return other words for a query, on one line; "" when no rule knows any that were not tried.

    Args:
        query: the last one tried.
        tried: queries so far, the sub-question first; compared without case, width and blanks.
        today: what relative periods are resolved against.
    """
    question = one_line(tried[0] if tried else query)
    known = {same_query(other) for other in (*tried, query)}
    for candidate in _candidates(question, today):
        if candidate and same_query(candidate) not in known and not keeps(question, candidate, today=today):
            return candidate
    return ""


def keeps(original: str, rewrite: str, *, today: Instant) -> str:
    """Return what a rewrite lost of names, codes, quoted words, numbers, periods and language; "" when nothing."""
    flat = same(rewrite)
    lost = [name for name in entities(original) if same(name) not in flat]
    named = {(period.start, period.end) for period in periods_in(rewrite, today)}
    lost += [period.label for period in periods_in(original, today) if (period.start, period.end) not in named]
    lost += [label for label in _yearless(original, today) if same(label) not in flat]
    kept = numerals(rewrite, today)
    lost += [number for number in sorted(numerals(original, today)) if number not in kept]
    if is_chinese(original) != is_chinese(rewrite) and re.search(r"[^\W\d_]", original):
        lost.append("language")
    return ", ".join(dict.fromkeys(lost))


def adds(original: str, rewrite: str, *, today: Instant) -> str:
    """Return the numbers, periods and addresses that a rewrite made up; "" when none."""
    named = {(period.start, period.end) for period in periods_in(original, today)}
    added = [period.label for period in periods_in(rewrite, today) if (period.start, period.end) not in named]
    added += [found for found in _ADDRESS.findall(rewrite) if found.casefold() not in original.casefold()]
    added += sorted(numerals(rewrite, today) - numerals(original, today))
    return ", ".join(dict.fromkeys(added))


def numerals(text: str, today: Instant) -> set[str]:
    """Return the numbers of a text in figures, those of its periods left out, without marks between thousands."""
    for mention in reversed(mentions(text, today, year=ANY_YEAR)):
        text = f"{text[: mention.at]} {text[mention.until :]}"
    plain = unicodedata.normalize("NFKC", text)
    return {re.sub(r",(?=\d{3})", "", number).rstrip(".,") for number in _NUMBER.findall(plain)}


def _yearless(text: str, today: Instant) -> list[str]:
    """Return the words of parts whose year is not said: "Q2"."""
    known = {mention.at for mention in mentions(text, today)}
    return [m.period.label for m in mentions(text, today, year=ANY_YEAR) if m.at not in known]


def same_query(query: str) -> str:
    """Return what two queries share that are the same but for case, width and blanks."""
    return "".join(unicodedata.normalize("NFKC", query).casefold().split())


def one_line(query: str) -> str:
    """Return a query without line breaks and doubled blanks."""
    return " ".join(query.split())


def _candidates(question: str, today: Instant) -> tuple[str, ...]:
    in_chinese = is_chinese(question)
    keywords = _keywords(question, today, in_chinese=in_chinese)
    added = _synonyms(question, in_chinese=in_chinese)
    plain = resolved(question, today, in_chinese=in_chinese)
    more = ""
    if added:
        more = f"{plain}（{'、'.join(added)}）" if in_chinese else f"{plain} ({', '.join(added)})"
    return (" ".join((keywords, *added)), keywords, plain, more)


def _keywords(question: str, today: Instant, *, in_chinese: bool) -> str:
    """Return names first, then the other words that carry meaning, then periods."""
    names = [re.sub(r"^(?:the|our)\s", "", phrase(question, name), flags=re.IGNORECASE) for name in entities(question)]
    periods = [
        absolute(m.period, in_chinese=in_chinese) if m.is_relative else m.period.label
        for m in mentions(question, today)
    ]
    rest = question
    for mention in reversed(mentions(question, today)):
        rest = f"{rest[: mention.at]} {rest[mention.until :]}"
    for name in names:
        rest = re.sub(re.escape(name) + r"(?:['’]s\b)?", " ", rest)
    focus = next((word for pattern, word in _FOCUS if pattern.search(question) and word.isascii() != in_chinese), "")
    rest = _HAN_SCAFFOLD.sub(" ", rest) if in_chinese else rest
    words = [word for word in _WORD.findall(rest) if in_chinese or _says_something(word)]
    return " ".join(
        dict.fromkeys(word.strip("'’.-") for word in (*names, *words, focus, *periods) if word.strip("'’.-"))
    )


def _says_something(word: str) -> bool:
    lowered = word.lower().strip("'’.-")
    return lowered in _NEGATION or lowered not in _scaffolding()


def _synonyms(question: str, *, in_chinese: bool) -> list[str]:
    """Return other names of what a question names, in its language, at most three; abbreviations first."""
    found: list[str] = []
    lowered = question.casefold()
    for group in _groups():
        words = group.zh if in_chinese else group.en
        is_short = (
            bool(group.short)
            and re.search(rf"{_NO_CODE_BEFORE}{re.escape(group.short)}{_NO_CODE_AFTER}", question) is not None
        )
        present = [word for word in words if _stands(word.casefold(), lowered, in_chinese=in_chinese)]
        if is_short or present:
            others = [group.short] if group.short and not is_short else []
            found += [*others, *(word for word in words if word not in present)]
    return [word for word in dict.fromkeys(found) if not _stands(word.casefold(), lowered, in_chinese=in_chinese)][
        :MAX_ADDED
    ]


def _stands(word: str, text: str, *, in_chinese: bool) -> bool:
    if in_chinese and not word.isascii():
        return word in text
    return re.search(rf"(?<!\w){re.escape(word)}s?(?!\w)", text) is not None


@lru_cache(maxsize=1)
def _scaffolding() -> frozenset[str]:
    return frozenset((files("crag_runtime") / "data" / "scaffolding.txt").read_text(encoding="utf-8").split())


@lru_cache(maxsize=1)
def _groups() -> tuple[_Group, ...]:
    rows = json.loads((files("crag_runtime") / "data" / "synonyms.json").read_text(encoding="utf-8"))
    return tuple(_Group(row["short"], tuple(row["en"]), tuple(row["zh"])) for row in rows)
