"""Questions that set things side by side, taken apart into one question for each thing, English and Chinese. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING

from kb.dates.periods import periods_in
from kb.words.entities import words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.model import Instant

MAX_QUESTION = 400  # characters; a longer text is more than a comparison
MAX_THING = 90  # characters; a longer one is a clause, not a thing

_TO = r"\s(?:and|with|to|against|from|or|vs\.?|versus)\s"
_ASPECT = r"(?:on|in terms of|regarding|with (?:respect|regard) to|when it comes to|by|concerning)"
_TAIL = re.compile(r"\s(?:in|for|at|during|under|as of|since|within|on)\s(?!the\s(?:other|same)\b).+$", re.IGNORECASE)
_PLEASE = r"(?:(?:please|can you|could you)\s)*"
_WORDS = r"[\w\s'\-\ue000-\ue00f]{2,40}?"
_WHAT = r"(?:what(?:'s|\sis|\sare|\swas)?|explain|describe|tell me)"
_DIFFERENCE = "(?:differences?|comparison)"
_IS = "(?:is|are|was|has|have|costs?|runs?|works?)"
_EN = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"^{_PLEASE}(?:compare|contrast)\s(?:the\s)?(?P<aspect>{_WORDS})\s(?:of|between)\s(?P<things>.+)$",
        rf"^{_PLEASE}(?:compare|contrast)\s(?P<things>.+?)(?:,?\s{_ASPECT}\s(?P<aspect>.+))?$",
        rf"^(?:.{{0,30}}?\b)?{_WHAT}\s(?:\w+\s){{0,3}}?{_DIFFERENCE}(?:\sin\s(?P<aspect>{_WORDS}))?\sbetween\s(?P<things>.+)$",
        rf"^(?:the\s)?{_DIFFERENCE}(?:\sin\s(?P<aspect>{_WORDS}))?\sbetween\s(?P<things>.+)$",
        (
            rf"^how\s(?:do|does|did)\s(?P<things>.+?)\s(?:compare|differ)(?P<more>{_TO}(?!each other).+?)?"
            rf"(?:,?\s(?:{_ASPECT}|in)\s(?P<aspect>.+))?$"
        ),
        rf"^(?P<things>[^,:]+?\s(?:vs\.?|versus)\s.+?)(?:\s?[:,]\s?(?P<colon>.+)|\s{_ASPECT}\s(?P<aspect>.+))?$",
        rf"^(?:which|who|what)\s(?:\w+\s){{0,2}}?{_IS}\s(?P<degree>[\w\s-]{{3,30}}?)\s?[,:]\s?(?P<things>.+\sor\s.+)$",
        r"^(?:is|are|was|were)\s(?P<things>.+?)\s(?P<degree>\w+er|more\s\w+|less\s\w+|better|worse)\sthan\s(?P<more>.+)$",
    )
)
_ZH = tuple(
    re.compile(pattern)
    for pattern in (
        (
            r"^(?:请|请问|帮我)?(?:比较|对比|分析)(?:一下)?(?P<things>.+?)在(?P<aspect>.{1,16}?)(?:方面|上)?"
            r"的?(?:主要)?(?:区别|差异|不同|差别|表现|优劣)?$"
        ),
        r"^(?:请|请问|帮我)?(?:比较|对比)(?:一下)?(?P<things>.+?)(?:的(?P<aspect>.{1,16}?))?$",
        (
            r"^(?:请问)?(?P<things>.+?)(?:之间|两者)?(?:在(?P<aspect>.{1,16}?)(?:方面|上))?"
            r"的?(?:有(?:什么|何|哪些)|主要|的)*(?:区别|差异|不同|差别)(?:之处|点)?(?:是什么|有哪些|在哪里|在哪|吗)?$"
        ),
        r"^(?:请问)?(?P<things>.+?)(?:相比|比起来|之间)?[，,]?(?:哪个|哪一个|哪家|谁)的?(?:更|比较|最)?(?P<degree>[^的是有]{1,6})$",
        r"^(?:请问)?(?P<things>.+?)的(?P<aspect>[^的]{1,16}?)(?:分别|各)(?:是|有|为)(?:什么|多少|谁|哪些|几\w?)$",
        r"^(?P<things>.+?(?:\s?(?:vs\.?|VS\.?|对比)\s?).+?)(?:[:：，,]\s?(?P<aspect>.+))?$",
    )
)
_MEASURES = {
    "cheaper": "price", "more expensive": "price", "faster": "speed", "slower": "speed",
    "larger": "size", "bigger": "size", "smaller": "size", "older": "age", "newer": "release date",
    "heavier": "weight", "lighter": "weight",
    "taller": "height", "longer": "length",
    "便宜": "价格", "贵": "价格", "快": "速度", "慢": "速度", "大": "规模", "小": "规模",
    "早": "时间", "高": "高度", "重": "重量",
}  # fmt: skip
_NO_ASPECT = re.compile(r"^(?:differences?|区别|差异|不同|差别|优劣|each other)$", re.IGNORECASE)
_CLAUSE = re.compile(r"^(?:what|who|when|where|which|why|how|whether|if|to|each|them|these|those|it)\b", re.IGNORECASE)
_EN_SPLIT = re.compile(r"\s*,\s(?:and|or|with)?\s?|\s(?:and|with|versus|vs\.?|or|against|to|from)\s", re.IGNORECASE)
_ZH_CUTS = "和与跟同及、"


_QUOTES = re.compile(r"《[^》]*》|“[^”]*”|\"[^\"]*\"|「[^」]*」|『[^』]*』")
_MASK = {cut: chr(0xE000 + i) for i, cut in enumerate(" ,?？和与跟同及、")}  # private characters: no text has them
_MASKED = str.maketrans(_MASK)
_UNMASKED = str.maketrans({masked: cut for cut, masked in _MASK.items()})


def compared(question: str, today: Instant) -> tuple[str, ...]:
    """Return one question for each thing that is compared, with the aspect and the period; none when nothing is.

    Args:
        question: self-contained.
        today: for the periods it names.
    """
    if len(question) > MAX_QUESTION:
        return ()
    held = held_together(question.strip().rstrip("?？!！.。 "))
    for pattern in (*_EN, *_ZH):
        match = pattern.match(held)
        parts = _questions(match, today, is_han=pattern in _ZH) if match else ()
        if parts:
            return tuple(let_go(part) for part in parts)
    return ()


def held_together(question: str) -> str:
    """Return a question whose quoted names and fixed pairs ("terms and conditions") hold no place to cut at."""
    question = _QUOTES.sub(lambda match: match[0].translate(_MASKED), question)
    return _pairs().sub(lambda match: match[0].translate(_MASKED), question)


def let_go(text: str) -> str:
    """Undo `held_together`."""
    return text.translate(_UNMASKED)


def _questions(match: re.Match[str], today: Instant, *, is_han: bool) -> tuple[str, ...]:
    groups = {name: value or "" for name, value in match.groupdict().items()}
    joint = " and " if "than" in match[0] else ""
    things = groups["things"] + (joint + groups["more"] if groups.get("more") else "")
    found, tail = (_han_things(things), "") if is_han else _things(things, today)
    if len(found) <= 1 or not all(0 < len(thing) <= MAX_THING and not _CLAUSE.match(thing) for thing in found):
        return ()
    aspect = groups.get("aspect") or groups.get("colon") or ""
    aspect, tail = _moved_tail(aspect.strip(), tail)
    aspect, degree = "" if _NO_ASPECT.match(aspect) else aspect, groups.get("degree", "")
    if is_han:
        return tuple(_han_question(thing, aspect, degree) for thing in found)
    return tuple(f"{_question(thing, aspect, degree)}{tail}?" for thing in found)


def _things(text: str, today: Instant) -> tuple[tuple[str, ...], str]:
    """Return what "the Team and Business plans in 2024" names, each whole, and the tail that all share."""
    parts = [part.strip() for part in _EN_SPLIT.split(text) if part.strip()]
    if len(parts) < 2:  # noqa: PLR2004 - nothing to compare
        return tuple(parts), ""
    tail = _TAIL.search(parts[-1])
    end = tail[0] if tail and not any(_TAIL.search(part) for part in parts[:-1]) else ""
    parts[-1] = parts[-1][: len(parts[-1]) - len(end)]
    return tuple(_completed(part, parts, today) for part in parts), end


def _completed(part: str, parts: Sequence[str], today: Instant) -> str:
    """Give a thing what the others of its list say for it: their head noun, their owner, or all but the period."""
    first, last = parts[0], parts[-1]
    if (
        part is first
        and (plural := re.match(r".+\s([a-z]{3,}[a-rt-z])s$", last))
        and re.fullmatch(r"(?:the\s)?[A-Z][\w.+-]*", part)
    ):
        return f"{part} {plural[1]}"
    if part is last and (plural := re.match(r"(.*[A-Z][\w.+-]*\s[a-z]{3,}[a-rt-z])s$", part)):
        return plural[1]
    if part is not first and (owner := re.match(r"(?:the\s)?\S+(?:\s[A-Z]\S+)*['’]s\s", first)) and part[:1].islower():
        return owner[0] + re.sub(r"^(?:the|its|their)\s", "", part)
    if part is not first and _is_period(part, today) and not _is_period(first, today):
        named = periods_in(first, today)
        return first.replace(named[-1].label, part) if named else part
    return part


def _is_period(text: str, today: Instant) -> bool:
    named = periods_in(text, today)
    return len(named) == 1 and named[0].label == text.strip()


def _moved_tail(aspect: str, tail: str) -> tuple[str, str]:
    """Take "in 2024" out of "revenue in 2024", so that it ends the question."""
    match = _TAIL.search(aspect)
    return (aspect[: match.start()], match[0] + tail) if match else (aspect, tail)


def _question(thing: str, aspect: str, degree: str) -> str:
    if degree:
        aspect = _MEASURES.get(degree.lower(), "")
        if not aspect:
            return f"{thing}: {degree}"
    if not aspect:
        return f"What is {thing}"
    aspect = re.sub(r"^(?:the|their|its)\s", "", aspect)
    verb = "are" if re.search(r"[^su]s$", aspect) and " and " not in aspect else "is"
    return f"What {verb} the {aspect} of {thing}"


def _han_question(thing: str, aspect: str, degree: str) -> str:
    if degree:
        aspect = _MEASURES.get(degree.removeprefix("更").removeprefix("比较"), "")
        if not aspect:
            return f"{thing}有多{degree}？"
    return f"{thing}的{aspect}是什么？" if aspect else f"{thing}有什么特点？"


def _han_things(text: str) -> tuple[str, ...]:
    """Return what 甲和乙 names, cut where 和 is a word of its own, or else the only one."""
    pieces = re.split(r"\s?(?:vs\.?|VS\.?|对比|相比)\s?|、|以及", text)
    found: list[str] = []
    for piece in pieces:
        found.extend(_cut(piece.strip()))
    if len(found) > 1 and (owner := re.match(r"(.{2,}的)[^的]+$", found[0])) and not _is_whole(found[1]):
        found[1:] = [owner[1] + thing for thing in found[1:]]
    shared = re.match(r"[^的]{1,12}的([^的]+)$", found[-1]) if len(found) > 1 else None
    if shared and not any("的" in thing for thing in found[:-1]):
        found[:-1] = [f"{thing}的{shared[1]}" for thing in found[:-1]]
    return tuple(found)


def _is_whole(thing: str) -> bool:
    return "的" in thing or re.search(r"[A-Za-z0-9年]|[\ue000-\ue00f]", thing) is not None


def _cut(piece: str) -> list[str]:
    places = [i for i, letter in enumerate(piece) if letter in _ZH_CUTS and 0 < i < len(piece) - 1]
    if len(places) > 1:
        standing, at = set(), 0
        for word in re.findall(r"[\u3400-\u9fff]+|[^\u3400-\u9fff]+", piece):
            for part in words_of(word) if word[0] > "\u33ff" else [word]:
                if part in _ZH_CUTS:
                    standing.add(at)
                at += len(part)
        places = [place for place in places if place in standing] or places[:1]
    edges = [-1, *places, len(piece)]
    return [part for start, end in pairwise(edges) if (part := piece[start + 1 : end].strip())]


@lru_cache(maxsize=1)
def _pairs() -> re.Pattern[str]:
    lines = (files("crag_runtime") / "data" / "binomials.txt").read_text(encoding="utf-8").split("\n")
    return re.compile("|".join(re.escape(line) for line in lines if line), re.IGNORECASE)
