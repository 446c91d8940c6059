"""Where a word or figure that names a period can start, so that a long text is not tried at every letter. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kb.dates.atoms import Atom

T = TypeVar("T")  # what a rule knows of today: the year, or the day
Start = tuple[int, str]  # a place, and what stands there: d, a digit; w, a Latin word; h, a Han character


@dataclass(frozen=True, slots=True)
class Rule(Generic[T]):
    """How one form is read, and at which kinds of start it can be."""

    kinds: str
    pattern: re.Pattern[str]
    make: Callable[[re.Match[str], T], Atom | None]


Rules = Mapping[str, Sequence[Rule[T]]]

_UNIT = r"(?:day|week|month|quarter|year|decade)"
_STARTS = re.compile(
    r"(?P<d>(?<!\d)\d{1,4}(?!\d))"
    r"|(?P<w>(?<![A-Za-z\d])(?:'\d|q[1-4]|h[12]|[fc]y\s?'?\d|fiscal|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
    r"|(?:first|second|third|fourth|final|last|this|current|previous|past|prior|next|coming|recent)[\s-]"
    r"|today|yesterday|tomorrow|the\s(?:day|early|late|mid|'?[3-9]0)|year[\s-]to|ytd|so\sfar"
    rf"|(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\s{_UNIT}))"
    r"|(?P<h>[〇○零一二三四五六七八九十两第上下前今昨明后去本这大近过最来年])",
    re.IGNORECASE,
)


def starts_in(plain: str) -> list[Start]:
    """Return the places of a flat text where a rule may match, in order."""
    return [(match.start(), match.lastgroup or "") for match in _STARTS.finditer(plain)]


def rules_at(*rules: Rule[T]) -> Rules[T]:
    """Return the rules to try at each kind of start, in the given order."""
    return {kind: [rule for rule in rules if kind in rule.kinds] for kind in "dwh"}


def atoms_at(starts: Sequence[Start], plain: str, rules: Rules[T], today: T) -> Iterator[Atom]:
    """Yield what the rules read at the starts of a flat text, in order of place and then of rules."""
    for at, kind in starts:
        for rule in rules[kind]:
            match = rule.pattern.match(plain, at)
            if match and (atom := rule.make(match, today)):
                yield atom
