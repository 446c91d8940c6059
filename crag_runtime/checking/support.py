"""Whether a sentence is borne out by what it cites: figures, names, words, quotations and polarity. Pure.

A first line of defence that costs no model: it finds what a sentence says that its sources do not. It cannot see that
roles are exchanged ("A bought B" from "B bought A").
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from crag_runtime.quoting import unquoted
from kb.boundaries import clauses
from kb.dates.almanac import day_of
from kb.terms import Script, query_terms, script_of, terms
from kb.words.entities import entities
from kb.words.figures import Date, Figures, Quantity, figures
from kb.words.polarity import Polarity, are_opposed, polarity
from kb.words.strips import split, stop_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from crag_runtime.evidence import Excerpt

COVERAGE = 0.6  # least share of a sentence's content words that its sources must have
ALIGNED = 0.5  # least share of a sentence's words that a source's sentence must have to be compared with it
PERSON = 3  # letters of most Chinese names
FEW = 2  # content words: too few to tell by their share
NEAR = 0.1  # sentences so close to the best aligned one count as aligned too
_FRAME_WORDS = """answer answers according based source sources evidence document documents passage text state states
stated mention mentions mentioned note notes follow follows result therefore thus hence overall yes currently likewise
however moreover furthermore also respectively specifically namely approximately about roughly exactly total refer
before after since until during per within up down price prices
答案 根据 依据 资料 文档 来源 显示 提到 指出 表示 因此 所以 目前 分别 具体 总共 共计 大约 约 即 则 为 称
表明 说明 如下 回答 价格 费用 价钱"""
_LEAD_WORDS = """aspect breakdown category column comparison date description detail difference example feature finding
following here item key kind label list main metric name note overview part point question reason row setting step
subject summary table topic type value version sorry unable provided available information known apply
以下 下列 各 各个 总结 概述 区别 差异 对比 比较 情况 列表 要点 原因
步骤 详情 信息 方面 项目 名称 类型 内容 数值 日期 抱歉"""
_ACTIVE = re.compile(r"(?<!\\)(?:!\[|<!--|<(?:script|style|iframe)\b|<[a-z][\w-]*[\s/][^<>\n]*=)", re.IGNORECASE)
_CODE_SPAN = re.compile(r"(`+)[^`\n]+\1")
_ADDRESS = re.compile(
    r"(?:\b[a-z][a-z0-9+.-]{1,20}://|\bwww\.|\b(?:mailto|data|javascript):|(?<=\]\())[^\s<>()\"'`”’」»\]|]+",
    re.IGNORECASE,
)
_QUOTES = re.compile(r"“([^”\n]+)”|「([^」\n]+)」|«([^»\n]+)»|\"([^\"\n]{12,})\"")
_ASIAN = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WIDE_BLANK = re.compile(rf"(?<=[{_ASIAN}\u3000-\u303f]) | (?=[{_ASIAN}])")  # a line's end is no blank in Chinese
_WORD = re.compile(rf"(?<![^\W{_ASIAN}])[^\W{_ASIAN}](?:[^\W{_ASIAN}]|[’'.&+/-])*+")
_STARTS = frozenset('.!?:;。！？：；"“*|')
_BETWEEN = re.compile(r"\W*")
_CODE = re.compile(r"\d|[a-z][A-Z]|^[A-Z]{2,}$|_|^(?:[A-Z]\.){2,}")
_MARKUP = re.compile(r"[\\*_`#>]|^\s*[-+]\s", re.MULTILINE)
_BLANKS = re.compile(r"\s+")
_QUARTERS = tuple(
    re.compile(rf"q{n}\b|\b{en} quarter|第?{zh}季度|第?{n}季度|{n}q\b", re.IGNORECASE)
    for n, en, zh in ((1, "first", "一"), (2, "second", "二"), (3, "third", "三"), (4, "fourth", "四"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """What a sentence may rest on: the excerpts it cites, ready for comparison."""

    plain: str  # normalised text, with titles, headings and sources
    terms: frozenset[str]
    figures: Figures
    sentences: tuple[tuple[Polarity, Figures], ...]
    script: Script
    quarters: frozenset[int]


def grounds_of(excerpts: Sequence[Excerpt], further: Sequence[str] = ()) -> Grounds:
    """Return the grounds that excerpts give, their titles, headings, sources and dates included.

    Args:
        excerpts: what is cited.
        further: what else is known of it, e.g. the date that a conflict gives for it.
    """
    strips = [strip for excerpt in excerpts for strip in excerpt.strips]
    return _grounds(tuple(dict.fromkeys(strips)), tuple(dict.fromkeys((*_context(excerpts), *further))))


def lacking(sentence: str, grounds: Grounds) -> str:
    """Return what a sentence has that its grounds do not, for people and for the next attempt; "" when nothing."""
    for quote in quotes(sentence):
        if not has_verbatim(quote, grounds):
            return f"the quotation “{quote}” is not in it word by word"
    own = _without_quotes(sentence)
    found = figures(own)
    return (
        _lacking_address(sentence, grounds)
        or _lacking_figure(found, grounds)
        or _lacking_quarter(own, grounds)
        or _lacking_name(found.rest, grounds)
        or _lacking_words(found.rest, grounds, has_figures=_has_figures(found))
        or _contrary(own, grounds)
    )


def adding(text: str, grounds: Grounds, *, words: int = 0) -> str:
    """Return what a text that cites nothing says of its own: an address, a figure or words; "" when nothing.

    Words that lead in to what follows, as a table's header or "Here is a summary:", are nobody's own.

    Args:
        text: that claims nothing, if it is what it looks like.
        grounds: all that was given, the question included.
        words: so many of its own are let pass.
    """
    own = _MARKUP.sub("", text).strip()
    found = figures(own)
    wrong = _lacking_address(text, grounds) or _lacking_figure(found, grounds) or _lacking_quarter(own, grounds)
    if wrong or _is_foreign(script_of(found.rest), grounds.script):
        return wrong or _lacking_name(found.rest, grounds)
    said = (term for term in content(found.rest) if len(term) > 1 or term.isascii())
    absent = [term for term in said if term not in _leading() and not _has_term(term, grounds)]
    return f"nothing given speaks of {', '.join(absent[:4])}" if len(absent) > words else ""


def content(text: str) -> list[str]:
    """Return a text's content terms, each once: no function words, nothing that only frames an answer."""
    return [term for term in query_terms(text).split() if term not in _framing()]


def quotes(sentence: str) -> list[str]:
    """Return the quotations in a sentence."""
    return [next(part for part in found if part) for found in _QUOTES.findall(sentence)]


def has_verbatim(quote: str, grounds: Grounds) -> bool:
    """Return whether a quotation is in the grounds word by word; an ellipsis stands for what was left out."""
    parts = [_plain(part) for part in re.split(r"…|\.{3}", quote)]
    return all(part in grounds.plain for part in parts if part)


def names(text: str) -> list[str]:
    """Return a text's names and codes: capitalised words that do not begin a sentence, and words with digits or marks.

    Chinese writes no capitals: its names are found by `content` alone.
    """
    found: list[str] = []
    begins = True
    for word in _WORD.finditer(text):
        token = word.group().rstrip("’'.&+/-")
        is_name = (token[0].isupper() and not begins) or _CODE.search(token)
        if is_name and not token.isdecimal() and token.lower() not in _framing():
            found.append(token)
        gap = _BETWEEN.match(text, word.start() + len(token))
        begins = gap is not None and gap.group().strip()[-1:] in _STARTS
    return found


def _context(excerpts: Iterable[Excerpt]) -> Iterator[str]:
    for excerpt in excerpts:
        evidence = excerpt.evidence
        yield from (evidence.title, *evidence.heading_path, evidence.source, evidence.url)
        if evidence.dated is not None:
            yield day_of(evidence.dated).isoformat()


def _grounds(strips: tuple[str, ...], context: tuple[str, ...]) -> Grounds:
    text = "\n".join((*strips, *context))
    pieces = [strip[a:b] for strip in strips for a, b in split(strip)]
    return Grounds(
        plain=_plain(text),
        terms=frozenset(terms(text).split()),
        figures=figures(text),
        sentences=tuple((polarity(piece), figures(piece)) for piece in pieces),
        script=script_of("\n".join(strips)),
        quarters=frozenset(_quarters(text)),
    )


@cache
def _surnames() -> frozenset[str]:
    return frozenset((files("crag_runtime") / "data" / "surnames_zh.txt").read_text(encoding="utf-8").split())


@cache
def _framing() -> frozenset[str]:
    words = (term for word in _FRAME_WORDS.split() for term in (word, *query_terms(word).split()))
    return stop_terms() | frozenset(words)


@cache
def _leading() -> frozenset[str]:
    return frozenset(term for word in _LEAD_WORDS.split() for term in (word, *query_terms(word).split()))


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", _MARKUP.sub("", unquoted(text))).casefold()
    for curly, straight in (("“", '"'), ("”", '"'), ("‘", "'"), ("’", "'"), ("–", "-"), ("—", "-")):
        folded = folded.replace(curly, straight)
    return _WIDE_BLANK.sub("", _BLANKS.sub(" ", folded)).strip()


def _without_quotes(sentence: str) -> str:
    return _MARKUP.sub("", _QUOTES.sub(" ", sentence)).strip()


def _quarters(text: str) -> Iterator[int]:
    yield from (n for n, pattern in enumerate(_QUARTERS, start=1) if pattern.search(text))


def _lacking_address(sentence: str, grounds: Grounds) -> str:
    """Say so when a sentence has what a reader's program acts on: an image, a tag, an address its source has not.

    An address that a text had a model make up carries away what stands in it, once somebody's program loads it.
    """
    if _ACTIVE.search(_CODE_SPAN.sub(" ", sentence)):
        return "an image or a tag is no part of an answer"
    addresses = (found.rstrip(".,;:!?*_。，；：！？") for found in _ADDRESS.findall(sentence))
    return next((f"the address {a} is not in it" for a in addresses if _plain(a) not in grounds.plain), "")


def _lacking_figure(found: Figures, grounds: Grounds) -> str:
    for date in found.dates:
        if not _has_date(date, grounds.figures):
            return f"{_shown(date)} is not in it"
    known = (*grounds.figures.quantities, *grounds.figures.worded)
    for quantity in (*found.quantities, *(w for w in found.worded if w.number > 1)):
        if not any(other.covers(quantity) for other in known) and not _is_year(quantity, grounds.figures):
            return f"{_number(quantity)} is not in it"
    return ""


def _has_date(date: Date, known: Figures) -> bool:
    if any(other.covers(date) for other in known.dates):
        return True
    years = {float(d.year) for d in known.dates if d.year} | {q.number for q in known.quantities}
    if date.year is not None and float(date.year) not in years:
        return False
    return (date.month is None) or any(
        other.year is None and other.month == date.month and date.day in (None, other.day) for other in known.dates
    )


def _is_year(quantity: Quantity, known: Figures) -> bool:
    return not quantity.unit and any(date.year == quantity.number for date in known.dates)


def _lacking_quarter(own: str, grounds: Grounds) -> str:
    missing = [n for n in _quarters(own) if n not in grounds.quarters]
    return f"Q{missing[0]} is not in it" if missing else ""


def _lacking_name(rest: str, grounds: Grounds) -> str:
    is_foreign = _is_foreign(script_of(rest), grounds.script)
    chinese = () if is_foreign else (name for name in entities(rest) if not name.isascii())
    for name in (*names(rest), *chinese):
        if is_foreign and not _CODE.search(name):
            continue
        if re.fullmatch(r"[Qq][1-4]|[1-4][Qq]", name):
            continue
        if not _has_name(name, grounds):
            return f"“{name}” is not in it"
    return "" if is_foreign else _lacking_person(rest, grounds)


def _lacking_person(rest: str, grounds: Grounds) -> str:
    """Say which word that reads like a Chinese person's name is not there: three letters, a surname first."""
    for term in content(rest):
        if (
            len(term) == PERSON
            and term[0] in _surnames()
            and not any(pair in grounds.plain for pair in (term[:2], term[1:]))
        ):
            return f"“{term}” is not in it"
    return ""


def _has_name(name: str, grounds: Grounds) -> bool:
    found = query_terms(name).split()
    if not found or found[0] in grounds.terms or all(term in grounds.terms for term in found):
        return True
    plain = _plain(name).removesuffix("'s")
    return any(
        re.search(rf"(?<![a-z0-9]){re.escape(form)}(?![a-z0-9])", grounds.plain)
        for form in {plain, plain.replace(".", "")}
        if form
    )


def _has_figures(found: Figures) -> bool:
    return bool(found.dates or found.quantities or found.worded)


def _lacking_words(own: str, grounds: Grounds, *, has_figures: bool) -> str:
    if _is_foreign(script_of(own), grounds.script):
        return ""
    wanted = content(own)
    wanted = [t for t in wanted if len(t) > 1 or t.isascii()] or wanted
    absent = [term for term in wanted if not _has_term(term, grounds)]
    if (
        has_figures and len(wanted) <= FEW and len(absent) <= 1
    ):  # "it went up to 75 euros": the figures, which are there, are what it says
        return ""
    if wanted and 1 - len(absent) / len(wanted) < COVERAGE:
        return f"it does not speak of {', '.join(absent[:4])}"
    return ""


def _has_term(term: str, grounds: Grounds) -> bool:
    return term in grounds.terms or (not term.isascii() and term in grounds.plain)


def _is_foreign(one: Script, other: Script) -> bool:
    return Script.NONE not in (one, other) and one is not other


def _contrary(own: str, grounds: Grounds) -> str:
    """Say so when the source's sentences that are nearest to this one say the opposite, or give another figure."""
    wanted = frozenset(content(own))
    if len(wanted) < FEW or _is_foreign(script_of(own), grounds.script):
        return ""
    shares = [len(wanted & said.said) / len(wanted) for said, _ in grounds.sentences]
    best = max(shares, default=0.0)
    if best < ALIGNED:
        return ""
    near = [s for s, share in zip(grounds.sentences, shares, strict=True) if share >= best - NEAR]
    mine = polarity(own)
    if all(are_opposed(mine, said) for said, _ in near):
        return "it says the opposite"
    parts = [own[a:b] for a, b in clauses(own, 0, len(own))]
    return next((wrong for part in parts if (wrong := _misplaced(part, grounds))), "")


def _misplaced(part: str, grounds: Grounds) -> str:
    """Say so when a clause's figure stands in the source beside another name, and another figure beside this one's."""
    found = figures(part).quantities
    if len(found) != 1:
        return ""
    named = {term for name in (*names(part), *entities(part)) for term in query_terms(name).split()}
    holders = [said for said, theirs in grounds.sentences if any(q.covers(found[0]) for q in theirs.quantities)]
    rivals = [
        said
        for said, theirs in grounds.sentences
        if said not in holders and any(q.rivals(found[0]) for q in theirs.quantities)
    ]
    mine = max((len(named & said.said) for said in holders), default=0)
    if holders and any(len(named & said.said) > mine for said in rivals):
        return f"it does not give {_number(found[0])} for this"
    return ""


def _shown(date: Date) -> str:
    return "-".join(f"{part:02d}" for part in date if part is not None)


def _number(quantity: Quantity) -> str:
    unit = quantity.unit.partition(":")[2]
    return f"{quantity.number:g} {unit}".strip()
