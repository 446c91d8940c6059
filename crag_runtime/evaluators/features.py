"""What can be seen of a question and a passage without a model: cosine, shared words, names, numbers, periods. Pure.

Every feature is a finite float. Lexical ones weigh a word by how rare it is in general text (`Rarity`), since a passage
must look the same whatever stands beside it; question words weigh nothing. Features that speak against a passage end
in `_missing` or `_mismatch`: they are 0 when nothing speaks against it, and a larger value is never better.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from kb.dates import periods
from kb.terms import Script, script_of, terms
from kb.words.strips import split, stop_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from crag_runtime.evidence import Asked, Evidence
    from kb.dates.period import Period
    from kb.ports import Vector

MAX_CHARACTERS = 8_000  # of a passage that are looked at; a memory has a quarter of it
NAME_RARITY = 6.0  # from here a Chinese word is taken for a name: in fewer than 1 of 400 passages
LONG = 8.0  # log of 3,000 terms; scales `length` to about 1

_HAN = re.compile(r"[\u3400-\u9fff]")
_QUOTED = re.compile(r"[《「『“\"]([^《》「」『』“”\"]{2,40})[》」』”\"]")
_LINKS = r"(?:(?:of|the|and|de|du|la|le|von|van|der|da|di|al|bin|&)\s+){0,2}"
_CAPITALS = re.compile(rf"\b[A-Z][\w'’.-]*(?:\s+{_LINKS}[A-Z0-9][\w'’.-]*)*")
_CODES = re.compile(r"\b(?=[\w./-]*\d)(?=[\w./-]*[A-Za-z])[\w]+(?:[./-]\w+)*\b")
_NUMBERS = re.compile(
    r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?!\w)|(?<=[\u3400-\u9fff])\d[\d,]*(?:\.\d+)?|[零〇一二三四五六七八九十百千万亿两]{2,}"
)
_DATES = re.compile(
    r"\b(?:1[0-9]|20)\d{2}\b|\d{1,2}[:：]\d{2}|\d+\s*[年月日号]|[一二三四五六七八九十]+[年月日]|\b(?:Jan|Feb|Mar|Apr|May|June?|July?"
    r"|Aug|Sept?|Oct|Nov|Dec)\w*\b|世纪|century|today|yesterday|tomorrow|今天|昨天|明天"
    r"|\b\d+ (?:days?|weeks?|months?|years?)\b"
)
_SURNAMES = (
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何高林罗郑梁谢宋唐许韩冯邓曹彭曾肖田董袁潘于蒋蔡余杜叶程苏魏吕丁任沈姚卢姜崔钟谭陆汪范金石廖贾夏韦付方白邹"
    "孟熊秦邱江尹薛闫段雷侯龙史陶黎贺顾毛郝龚邵万钱严覃武戴莫孔向汤"
)
_PERSON = re.compile(
    rf"[{_SURNAMES}][\u4e00-\u9fff]{{1,2}}|[\u4e00-\u9fff]+·[\u4e00-\u9fff]+|\b[A-Z][a-z]+ (?:[A-Z]\.? )?[A-Z][a-z]+"
)
_WHO = re.compile(r"\b(?:who|whom|whose)\b|谁|哪位|何人|哪个人|什么人", re.IGNORECASE)
_WHEN = re.compile(
    r"\b(?:when|what year|which year|what date|what time|what day)\b|何时|什么时候|哪一?年|哪天|几[年月号点]|时间|日期",
    re.IGNORECASE,
)
_HOW_MANY = re.compile(
    r"\b(?:how (?:many|much|old|long|far|tall|high|large)|what (?:percentage|number|share))\b|多少|几|多[长高大远久]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Rarity:
    """How rare terms are in general text: their inverse document frequencies, and that of terms it does not know."""

    table: Mapping[str, float]
    unknown: float

    def __call__(self, term: str) -> float:
        """Return how much a term tells, at least 0; question words tell nothing."""
        return 0.0 if term in stop_terms() else self.table.get(term, self.unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question, taken apart once for all its passages.

    Args:
        weights: what each of its terms tells, those that tell nothing left out.
        pairs: neighbouring terms.
        numbers: those outside its periods, as terms.
        names: entities, each as its terms' weights.
        periods: that it asks for.
        wants: person, date, number, or "" when it does not say.
        script: of its letters.
    """

    weights: Mapping[str, float]
    pairs: frozenset[tuple[str, str]] = frozenset()
    numbers: frozenset[str] = frozenset()
    names: tuple[Mapping[str, float], ...] = ()
    periods: tuple[Period, ...] = ()
    wants: str = ""
    script: Script = Script.NONE
    today: int = 0
    own: frozenset[str] = field(default_factory=frozenset)  # all its terms, as they stand


def query_of(asked: Asked, rarity: Rarity) -> Query:
    """Return the question taken apart. Its periods are the time intent's, or else those that it names."""
    question = asked.question
    wanted = asked.time.periods or periods.periods_in(question, asked.today)
    timeless = _without(question, [p.label for p in wanted])
    sequence = terms(timeless).split()
    weights = {term: rarity(term) for term in dict.fromkeys(sequence) if rarity(term) > 0}
    return Query(
        weights=weights,
        pairs=frozenset((a, b) for a, b in pairwise(sequence) if a in weights and b in weights),
        numbers=frozenset(numbers_in(timeless)),
        names=tuple(names_in(timeless, rarity)),
        periods=wanted,
        wants=_wanted(question),
        script=script_of(question),
        today=asked.today,
        own=frozenset(terms(question).split()),
    )


def features_of(query: Query, evidence: Evidence, rarity: Rarity) -> dict[str, float]:
    """Return every lexical feature of a passage, by name.

    All but `length` are in [0, 1]; what the question gives no occasion for is neutral: 1 for what would speak for the
    passage (`answer_type`: 0.5), 0 for what would speak against it.
    """
    text = evidence.text[:MAX_CHARACTERS]
    head = " ".join((evidence.title, *evidence.heading_path))
    strips = [terms(text[a:b]).split() for a, b in split(text)]
    body = [term for strip in strips for term in strip]
    known = frozenset(body) | frozenset(terms(head).split())
    total = sum(query.weights.values())
    found_pairs = sum(pair in query.pairs for pair in set(pairwise(body)))
    return {
        "coverage": _share(query.weights, known, total),
        "best_strip": max((_share(query.weights, window, total) for window in _windows(strips)), default=0.0),
        "rarest": _rarest(query.weights, known),
        "pairs": min(1.0, found_pairs / len(query.pairs)) if query.pairs else 1.0,
        "title_entity": _title_entity(evidence.title, query, rarity),
        "answer_type": _answer_type(query, text),
        "length": math.log1p(len(body)) / LONG,
        "number_missing": _number_missing(query.numbers, text),
        "entity_missing": _entity_missing(query.names, known),
        "period_mismatch": float(_is_other_period(query, evidence)),
    }


def cosine_of(asked: Asked, evidence: Evidence) -> float | None:
    """Return the cosine of the stored vectors; None when one is missing or they cannot be compared."""
    return _cosine(asked.vector, evidence.vector)


def is_cross_script(query: Query, evidence: Evidence) -> bool:
    """Return whether question and passage are written in different scripts, so that they share hardly a word."""
    other = script_of(evidence.text[:MAX_CHARACTERS])
    return Script.NONE not in {query.script, other} and other is not query.script


def names_in(question: str, rarity: Rarity) -> Iterable[dict[str, float]]:
    """Yield the entities of a question as weighted terms: titles, capitalised runs and codes.

    In a Chinese question without any, its rare words are taken for one name, since names are not marked there.
    """
    spans = [m.group(1) for m in _QUOTED.finditer(question)]
    spans += [m.group() for m in _CAPITALS.finditer(question)] + [m.group() for m in _CODES.finditer(question)]
    seen: set[str] = set()
    for span in spans:
        name = {term: rarity(term) for term in terms(span).split() if rarity(term) > 0}
        if name and not name.keys() <= seen:
            seen |= name.keys()
            yield name
    if not seen:
        words = {term: rarity(term) for term in terms(question).split() if len(term) > 1 and _HAN.match(term)}
        rare = {term: weight for term, weight in words.items() if weight >= NAME_RARITY}
        if rare:
            yield rare


def numbers_in(text: str) -> set[str]:
    """Return the numbers of a text without their thousands separators."""
    return {m.group().replace(",", "").rstrip(".") for m in _NUMBERS.finditer(text)}


def _cosine(one: Vector | None, other: Vector | None) -> float | None:
    if one is None or other is None or one.shape != other.shape:
        return None
    value = float(one @ other)
    return min(1.0, max(-1.0, value)) if math.isfinite(value) else None


def _without(text: str, labels: Sequence[str]) -> str:
    for label in labels:
        text = text.replace(label, " ")
    return text


def _share(weights: Mapping[str, float], found: Iterable[str], total: float) -> float:
    """Return the share of the question's weight that is found; 1 for a question that asks for no word."""
    return min(1.0, sum(weights.get(term, 0.0) for term in set(found)) / total) if total else 1.0


def _windows(strips: Sequence[list[str]]) -> Iterable[list[str]]:
    """Yield every strip together with the next one: an answer often stands one sentence after what it is about."""
    following = [*strips[1:], []]
    return (one + two for one, two in zip(strips, following, strict=True))


def _rarest(weights: Mapping[str, float], known: frozenset[str]) -> float:
    """Return the share of the two rarest terms that is there; of equals, the longest count."""
    rarest = sorted(weights, key=lambda term: (-weights[term], -len(term), term))[:2]
    return sum(term in known for term in rarest) / len(rarest) if rarest else 1.0


def _title_entity(title: str, query: Query, rarity: Rarity) -> float:
    """Return the share of the title's weight, what stands in brackets left out, that the question names."""
    plain = re.sub(r"[（(][^）)]*[）)]", " ", title)
    weights = {term: rarity(term) for term in terms(plain).split() if rarity(term) > 0}
    return _share(weights, query.own, sum(weights.values())) if weights else 0.0


def _answer_type(query: Query, text: str) -> float:
    match query.wants:
        case "person":
            return float(any(not query.own.issuperset(terms(m.group()).split()) for m in _PERSON.finditer(text)))
        case "date":
            return float(_DATES.search(text) is not None)
        case "number":
            return float(bool(numbers_in(text) - query.numbers))
        case _:
            return 0.5


def _wanted(question: str) -> str:
    for kind, pattern in (("person", _WHO), ("date", _WHEN), ("number", _HOW_MANY)):
        if pattern.search(question):
            return kind
    return ""


def _number_missing(numbers: frozenset[str], text: str) -> float:
    if not numbers:
        return 0.0
    return len(numbers - numbers_in(text)) / len(numbers)


def _entity_missing(names: Sequence[Mapping[str, float]], known: frozenset[str]) -> float:
    """Return the share of the names' weight whose name has no word in the passage, its title or its headings."""
    total = sum(sum(name.values()) for name in names)
    missing = sum(sum(name.values()) for name in names if known.isdisjoint(name))
    return missing / total if total else 0.0


def _is_other_period(query: Query, evidence: Evidence) -> bool:
    if not query.periods:
        return False
    named = "\n".join((evidence.title, *evidence.heading_path, evidence.text[:MAX_CHARACTERS]))
    return periods.mismatched(query.periods, named, evidence.dated, query.today)
