"""What a passage says, sentence by sentence: its values, masked out of the words around them. Pure.

Tables, code and headings are left out: what stands there is said of something that the sentence itself does not name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

from kb.dates.mentions import mentions
from kb.dates.notation import notation_of
from kb.model import Kind, SourceClass
from kb.terms import terms
from kb.words.entities import entities, same
from kb.words.polarity import polarity
from kb.words.quantities import quantities_of
from kb.words.strips import split, stop_terms
from kb.words.versions import versions_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kb.dates.mentions import Mention
    from kb.dates.period import Period
    from kb.model import Instant, Memory
    from kb.words.polarity import Polarity
    from kb.words.quantities import Quantity

SLOT = "\x00"  # where a value stood among the terms; no term has it
MAX_SENTENCE = 600  # characters; what is longer is no sentence
MAX_SENTENCES = 60  # of a passage
TODAY = 1_767_225_600_000  # 2026: what years of two digits are read against where nothing else is known
_DAY = 86_400_000
_FENCE = re.compile(r"\s*(?:```|~~~)")
_HEADING = re.compile(r"\s*#{1,6}\s")
_NO_PROSE = re.compile(r"\s*(?:\||>?\s*\$\s|</?\w|import\s|from\s\w+\simport|\{|\}|\w+\()|(?:[^|\n]*(?<!\\)\|){2}")
_CODE = re.compile(r"[;{}=<>\\]|\w\(.*\)|::|->|--\w")
_UNSURE = re.compile(
    r"\b(?:if|unless|when(?:ever)?|suppose|assum\w+|for example|for instance|such as|e\.g|say,|example|sample|would"
    r"|could|might|imagine|hypothetical\w*)\b|如果|假设|假如|假定|例如|比如|譬如|示例|举例|若|当[^前时年月日地局初然代中选今下天]|的话|可能|(?<![小安顿临及])时，|以下",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"[?？]\s*[\"'”’」』）)]*\s*$")
_LABEL = re.compile(
    r"(?:\b(?:step|table|figure|fig\.?|chapter|section|sec\.?|page|pp?\.|part|appendix|item|no\.?|number|phase|stage"
    r"|note|example|issue|article|line|row|column|port|error|code|id|isbn|pep|rfc|top)|[#№§\[(]|第|表|图|步骤|附录)"
    r"\s?\W?$",
    re.IGNORECASE,
)
_MEASURED = re.compile(r"\s?(?:[%‰€$£℃°]|[a-zA-Z]*(?:illion|thousand)|[kmgt]i?b\b|bn\b|[\u3400-\u9fff])", re.IGNORECASE)
_COMMAND = re.compile(r"`[^`\n]*\s-{1,2}\w[^`\n]*`")
_LINE_OF = re.compile(r"\.[xX]\b|\+(?=\s?(?:or|版|及|以))")  # 18.x
_LIST_NUMBER = re.compile(r"^\s*(?:[-*+•·]\s+)?(?:\(?\d{1,3}[.)、）]|[(（]\d{1,3}[)）])\s*")
_OPENS = re.compile(
    r"\b(?:since|from|as of|after|starting|effective|until|before)\b|自|从|起|以来|截至|截止|之后|以后", re.IGNORECASE
)


class ValueKind(StrEnum):
    """What sort of value a sentence gives; the names of the kinds of contradiction."""

    NUMBER = "number"
    DATE = "date"
    VERSION = "version"
    NEGATION = "negation"  # that it is so, or is not


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A value in a sentence.

    Args:
        kind: number, date or version.
        unit: family of a quantity, or the noun that is counted; of a version what it is a version of.
        said: verbatim.
        notation: equal for equal dates and versions.
        decimals: digits after the point, of a number as it is written.
        quantity: of a number.
        period: of a date.
        is_context: a date that only says of when the sentence speaks ("last year", "in 2019" before a number).
        is_open: a date that something holds from, or until.
    """

    kind: ValueKind
    said: str
    unit: str = ""
    notation: str = ""
    decimals: int = 0
    quantity: Quantity | None = None
    period: Period | None = None
    is_context: bool = False
    is_open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Saying:
    """One sentence, taken apart.

    Args:
        sentence: verbatim.
        row: its content terms in order, with SLOT where a value stood.
        content: the same without slots.
        values: in order of place.
        names: names and codes, without the values.
        polarity: what it denies.
        is_sure: it claims something; a question, an example or a case ("if…") may agree, and contradicts nothing.
    """

    sentence: str
    row: tuple[str, ...]
    content: frozenset[str]
    values: tuple[Value, ...]
    names: frozenset[str]
    polarity: Polarity
    is_sure: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A passage that is compared.

    Args:
        text: its body.
        title: of its document or page.
        heading_path: headings above it.
        valid_from: since when it holds, or when it was written: relative dates are resolved against it; 0: unknown.
        is_counted_whole: headings, the marks of code and a title in words that the body lacks are claims too: an
            agent may write anything there.
    """

    text: str
    title: str = ""
    heading_path: tuple[str, ...] = ()
    valid_from: Instant = 0
    is_counted_whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """All that a passage says.

    Args:
        sayings: its sentences, in order.
        total: how many claims there are, rows of tables and lines of code among them.
        labels: content terms of its title and of its innermost heading.
        around: content terms of everything in it.
        periods: that its headings name, or else its title.
        versions: that its title and headings name.
    """

    sayings: tuple[Saying, ...]
    total: int
    labels: frozenset[str]
    around: frozenset[str]
    periods: tuple[Period, ...]
    versions: frozenset[str]


def passed(memory: Memory) -> Passed:
    """Return a memory as a passage that is compared.

    A web page's title names its site as often as its subject, and its prose says itself what it is about.
    """
    own = memory.passage
    title = "" if memory.kind is Kind.WEB else own.title
    return Passed(
        text=memory.text,
        title=title,
        heading_path=own.heading_path,
        valid_from=memory.valid_from,
        is_counted_whole=memory.source_class is SourceClass.AGENT,
    )


@lru_cache(maxsize=2_048)  # a passage is compared with many; it says the same each time
def said_by(passage: Passed) -> Said:
    """Return all that a passage says."""
    headings = "\n".join((passage.title, *passage.heading_path))
    today = passage.valid_from or TODAY
    inner = passage.heading_path[-1] if passage.heading_path else ""
    named = [m.period for m in mentions(headings, today) if not m.is_relative]
    sayings, others = _sayings(passage)
    return Said(
        sayings=sayings,
        total=len(sayings) + others + _is_claimed_above(passage),
        labels=content_of(f"{passage.title}\n{inner}"),
        around=content_of(f"{headings}\n{passage.text}"),
        periods=tuple(named),
        versions=frozenset(v.number for v in versions_of(headings)),
    )


def content_of(text: str) -> frozenset[str]:
    """Return the terms of a text that are no function words."""
    return frozenset(terms(text).split()) - stop_terms()


def _sayings(passage: Passed) -> tuple[tuple[Saying, ...], int]:
    """Return the sentences of prose, and how many rows and lines of anything else there are."""
    is_code, others = False, 0
    found: list[Saying] = []
    for start, end in split(passage.text):
        sentence = passage.text[start:end]
        if _HEADING.match(sentence):
            others += passage.is_counted_whole
        elif _FENCE.match(sentence):
            is_code = not is_code
            others += passage.is_counted_whole
        elif is_code or len(found) == MAX_SENTENCES or not _is_prose(sentence):
            others += 1
        else:
            found.append(_saying(sentence, passage.valid_from))
    return tuple(found), others


def _is_claimed_above(passage: Passed) -> bool:
    """Return whether a title claims what its passage does not say."""
    return passage.is_counted_whole and not content_of(passage.title) <= content_of(passage.text)


def _is_prose(sentence: str) -> bool:
    if len(sentence) > MAX_SENTENCE or _NO_PROSE.match(sentence) or _COMMAND.search(sentence):
        return False
    return len(_CODE.findall(sentence)) < 2  # noqa: PLR2004 - one may be a slip


def _saying(sentence: str, written: Instant) -> Saying:
    values = sorted(_values(sentence, written), key=lambda found: found[0])
    masked, at = [], 0
    for start, end, _ in values:
        masked.append(sentence[at:start])
        at = end
    masked.append(sentence[at:])
    rows = [[t for t in terms(part).split() if t not in stop_terms()] for part in masked]
    row = list(rows[0])
    for part in rows[1:]:
        row += [SLOT, *part]
    return Saying(
        sentence=sentence,
        row=tuple(row),
        content=frozenset(row) - {SLOT},
        values=tuple(value for _, _, value in values),
        names=frozenset(same(name) for part in masked for name in entities(part)),
        polarity=polarity(sentence),
        is_sure=not (_UNSURE.search(sentence) or _QUESTION.search(sentence)),
    )


def _values(sentence: str, written: Instant) -> Iterator[tuple[int, int, Value]]:
    """Yield the values with their places; they do not overlap."""
    taken = _numbering(sentence)
    for start, end, value in (*_dates(sentence, written), *_versions(sentence), *_numbers(sentence)):
        if not any(start < b and a < end for a, b in taken):
            taken.append((start, end))
            yield start, end, value


def _numbering(sentence: str) -> list[tuple[int, int]]:
    match = _LIST_NUMBER.match(sentence)
    return [match.span()] if match else []


def _dates(sentence: str, written: Instant) -> Iterator[tuple[int, int, Value]]:
    for mention in mentions(sentence, written or TODAY):
        if not _is_resolved(mention, written):
            continue
        value = Value(
            kind=ValueKind.DATE,
            said=sentence[mention.at : mention.until],
            notation=notation_of(mention.period),
            period=mention.period,
            is_context=mention.is_relative,
            is_open=_OPENS.search(sentence[max(0, mention.at - 12) : mention.until + 3]) is not None,
        )
        yield mention.at, mention.until, value


def _is_resolved(mention: Mention, written: Instant) -> bool:
    """Return whether a mention's words name a period; of "yesterday" nobody knows which day its writer had."""
    return not mention.is_relative or (written > 0 and mention.period.end - mention.period.start > _DAY)


def _versions(sentence: str) -> Iterator[tuple[int, int, Value]]:
    for v in versions_of(sentence):
        if v.is_sure or (v.name and not _MEASURED.match(sentence, v.end)):
            said = sentence[v.start : v.end]
            yield v.start, v.end, Value(kind=ValueKind.VERSION, said=said, unit=v.name, notation=v.number)


def _numbers(sentence: str) -> Iterator[tuple[int, int, Value]]:
    for q in quantities_of(sentence):
        if _LABEL.search(sentence[max(0, q.start - 12) : q.start]) or _LINE_OF.match(sentence, q.end):
            continue
        said = sentence[q.start : q.end]
        digits = re.search(r"\d+\.(\d+)", said)
        decimals = len(digits[1]) if digits else 0
        bare = replace(q, start=0, end=0)
        yield q.start, q.end, Value(kind=ValueKind.NUMBER, said=said, unit=q.unit, decimals=decimals, quantity=bare)


def value_key(said: str) -> str:
    """Return a value in one notation: "40 tons" and "40,000 kg" have one key."""
    value = next((v for _, _, v in _values(said, 0)), None)
    if value is None:
        return terms(said)
    if value.quantity is not None:
        return f"{value.quantity.number:.9g} {value.unit}/{value.quantity.rate}"
    return value.notation


def periods_of(values: Sequence[Value]) -> list[Period]:
    """Return the periods that values name."""
    return [v.period for v in values if v.period is not None]
