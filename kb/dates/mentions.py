"""Where a text names periods, in English and Chinese: absolute ones, and relative ones resolved against today. Pure.

Words become *atoms*: a year, a part of a year ("Q3", "3月") or a whole period ("2024-03-05", "last week"). A part joins
the year that stands beside it, or else the year of its list ("Q2 and Q3 2024") or of its sentence; without any it is no
period. Then "A to B" becomes one range, and "since A", "before A" become open ones. A fiscal year is taken as the
calendar year of its number: a text does not say when its fiscal year starts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

from kb.dates.absolute_dates import absolute_atoms
from kb.dates.almanac import DAY_MS, FIRST_YEAR, day_of, instant, span
from kb.dates.date_starts import starts_in
from kb.dates.flat_text import flat
from kb.dates.period import Period
from kb.dates.relative_dates import relative_atoms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kb.dates.atoms import Atom
    from kb.model import Instant

SENTENCE_REACH = 80  # characters that a year may stand before its part
OPEN_YEARS = 10  # an open period that starts in the future ends so much later

_GLUE_AFTER = re.compile(r"\s*,?\s*(?:of|in)?\s*(?:the\s+)?(?:fiscal\s+)?(?:year\s+)?", re.IGNORECASE)  # Q3 of 2024
_GLUE_BEFORE = re.compile(r"\s*(?:[,的\-]|'s)?\s*(?:the\s+)?", re.IGNORECASE)  # 2024, third quarter
_LIST = re.compile(
    r"\s*(?:,|、|/|&|-|~|,?\s*and|,?\s*or|to|through|vs\.?|versus|和|与|及|跟|或|至|到)\s*(?:the\s+|in\s+)?",
    re.IGNORECASE,
)
_RANGE = re.compile(
    r"\s*(?:-{1,2}|~|(?:up )?to|through|thru|until|till|至|到)\s*(?:the\s+(?:end\s+of\s+)?)?", re.IGNORECASE
)
_AND = re.compile(r"\s*and\s*", re.IGNORECASE)
_BETWEEN = re.compile(r"\bbetween\s+(?:the\s+)?$", re.IGNORECASE)
_COMPARED = re.compile(r"compar|relative|对比|比较|相比", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[!?。！？;；\n]|\.\s")
_NEVER = re.compile(r"(?!)")
_OPENERS = (  # (way, words before, words after)
    (
        "since",
        re.compile(r"(?:\bsince|\bstarting(?: in| from)?|自从?)\s*(?:the\s+)?$", re.IGNORECASE),
        re.compile(
            r"\s*(?:onwards?\b|起|开始|以来|至今|(?:to|until|till|through) (?:now|date|the present)\b)", re.IGNORECASE
        ),
    ),
    ("after", re.compile(r"\bafter\s+(?:the\s+)?$", re.IGNORECASE), re.compile(r"\s*(?:之后|以后|过后)")),
    ("before", re.compile(r"\b(?:before|prior to)\s+(?:the\s+)?$", re.IGNORECASE), re.compile(r"\s*(?:之前|以前)")),
    ("until", re.compile(r"\b(?:until|till|up to)\s+(?:the\s+)?$", re.IGNORECASE), _NEVER),
)
DAWN = instant(date(FIRST_YEAR, 1, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A period where a text names it: characters [at, until) of the text.

    `is_relative` when its words mean something else on another day.
    """

    period: Period
    at: int
    until: int
    is_relative: bool = False


def mentions(text: str, today: Instant, *, year: int | None = None) -> tuple[Mention, ...]:
    """Return the periods that a text names, in order of place.

    Args:
        text: any.
        today: what relative words are resolved against.
        year: what parts without a year belong to ("Q2" of a follow-up); None to leave them out.
    """
    plain = flat(text)
    day = day_of(today)
    starts = starts_in(plain)
    atoms = _disjoint([*absolute_atoms(plain, starts, day.year), *relative_atoms(plain, starts, day)])
    dated = _with_years(_merged(atoms, plain), plain, year)
    found = [mention for atom in dated if (mention := _mention(atom, text))]
    ranged = _ranged(found, plain, text)
    return tuple(_opened(mention, plain, text, instant(day) + DAY_MS) for mention in ranged)


def _disjoint(atoms: list[Atom]) -> list[Atom]:
    """Return atoms that do not overlap, in order of place; the longer, then the earlier made, wins."""
    kept: list[Atom] = []
    for atom in sorted(atoms, key=lambda a: (a.at, a.at - a.until)):
        if not kept or atom.at >= kept[-1].until:
            kept.append(atom)
        elif atom.until - atom.at > kept[-1].until - kept[-1].at:
            kept[-1] = atom
    return kept


def _merged(atoms: list[Atom], plain: str) -> list[Atom]:
    """Join a part with the year right beside it."""
    merged: list[Atom] = []
    for atom in atoms:
        if merged:
            last = merged[-1]
            gap = plain[last.until : atom.at]
            if last.is_part and atom.is_year and _GLUE_AFTER.fullmatch(gap):
                merged[-1] = replace(atom, at=last.at, part=last.part, is_relative=atom.is_relative)
                continue
            if last.is_year and atom.is_part and _GLUE_BEFORE.fullmatch(gap):
                merged[-1] = replace(last, until=atom.until, part=atom.part)
                continue
        merged.append(atom)
    return merged


def _with_years(atoms: list[Atom], plain: str, year: int | None) -> list[Atom]:
    """Give every part the year of its list, or of its sentence, or the given one; leave out what gets none."""
    known = list(atoms)
    for i in range(len(known) - 2, -1, -1):
        if known[i].is_part and _LIST.fullmatch(plain[known[i].until : known[i + 1].at]) and known[i + 1].part:
            known[i] = replace(known[i], year=known[i + 1].year, is_relative=known[i + 1].is_relative)
    for i, atom in enumerate(known):
        if atom.is_part:
            before = known[i - 1] if i else None
            if before is not None and before.year is not None and _is_near(plain[before.until : atom.at]):
                known[i] = replace(atom, year=before.year, is_relative=before.is_relative)
            elif year is not None:
                known[i] = replace(atom, year=year)
    return [atom for atom in known if not atom.is_part]


def _is_near(gap: str) -> bool:
    return len(gap) <= SENTENCE_REACH and not _SENTENCE_END.search(gap)


def _mention(atom: Atom, text: str) -> Mention | None:
    days = atom.span
    if days is None and atom.year is not None:
        days = span(atom.year, atom.part) if atom.part else span(atom.year)
    if days is None:
        return None
    period = Period(start=instant(days.start), end=instant(days.end), label=text[atom.at : atom.until].strip())
    return Mention(period=period, at=atom.at, until=atom.until, is_relative=atom.is_relative)


def _ranged(found: list[Mention], plain: str, text: str) -> Iterator[Mention]:
    """Join "A to B" and "between A and B" where A starts first."""
    held: Mention | None = None
    for mention in found:
        if held is not None and _is_range(held, mention, plain):
            label = text[held.at : mention.until]
            period = Period(start=held.period.start, end=mention.period.end, label=label)
            is_relative = held.is_relative or mention.is_relative
            held = Mention(period=period, at=held.at, until=mention.until, is_relative=is_relative)
            continue
        if held is not None:
            yield held
        held = mention
    if held is not None:
        yield held


def _is_range(first: Mention, second: Mention, plain: str) -> bool:
    if not (first.period.start < second.period.start and first.period.end < second.period.end):
        return False
    gap, before = plain[first.until : second.at], plain[max(0, first.at - 40) : first.at]
    if _AND.fullmatch(gap):
        return _BETWEEN.search(before) is not None
    return _RANGE.fullmatch(gap) is not None and not _COMPARED.search(before)


def _opened(mention: Mention, plain: str, text: str, tonight: Instant) -> Mention:
    """Widen "since A", "after A", "before A" and "until A" to what they mean."""
    before, after = plain[max(0, mention.at - 20) : mention.at], plain[mention.until : mention.until + 20]
    way, leads, tails = next(
        ((way, a, b) for way, lead, tail in _OPENERS for a, b in [(lead.search(before), tail.match(after))] if a or b),
        ("", None, None),
    )
    start, end = _open(way, mention.period, tonight) if way else (0, 0)
    if end <= start:
        return mention
    at = mention.at - (len(before) - leads.start() if leads else 0)
    until = mention.until + (tails.end() if tails else 0)
    period = Period(start=start, end=end, label=text[at:until].strip())
    return replace(mention, period=period, at=at, until=until)


def _open(way: str, period: Period, tonight: Instant) -> tuple[Instant, Instant]:
    match way:
        case "since":
            return period.start, max(period.end, tonight)
        case "after":
            return period.end, tonight if period.end < tonight else period.end + OPEN_YEARS * 365 * DAY_MS
        case "before":
            return DAWN, period.start
        case _:
            return DAWN, period.end
