"""What is to be counted or measured: the units that fit a question's answer. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.terms import terms
from kb.words.quantities import quantities_of

if TYPE_CHECKING:
    from kb.words.quantities import Quantity

_MONEY = frozenset({"eur", "usd", "gbp", "cny", "jpy", "hkd"})
_TIME = frozenset({"second", "month"})
_SIZE = frozenset({"byte"})
_FAMILIES = (
    (
        re.compile(
            r"\b(?:prices?|pric(?:ed|ing)|costs?|charges?|fees?|expensive|cheap)\b"
            r"|\bhow much (?:money|do|does|did|is|was)\b|多少钱|价格|费用|收费|售价|月费|年费",
            re.IGNORECASE,
        ),
        _MONEY,
    ),
    (
        re.compile(
            r"\bhow (?:long|soon|quickly)\b|\bhow many (?:seconds?|minutes?|hours?|days?|weeks?|months?|years?)\b"
            r"|多久|多长时间|多少(?:秒|分钟|小时|天|周|个?月|年)|几(?:秒|分钟|个?小时|天|周|个月|年(?!级))",
            re.IGNORECASE,
        ),
        _TIME,
    ),
    (re.compile(r"\b(?:KiB|MiB|GiB|bytes?)\b|多少字节", re.IGNORECASE), _SIZE),
)
_COUNTED = re.compile(r"\bhow many (?P<noun>[\w'’-]+(?: [\w'’-]+)?)", re.IGNORECASE)
_MONEY_WORDS = re.compile(
    r"[€$£¥]|\b(?:euros?|eur|dollars?|usd|pounds|yuan|prices?)\b|欧元|美元|人民币|价格", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """Units that fit an answer; without any, every unit may.

    Args:
        families: of `kb.words.quantities`.
        nouns: terms of what is counted.
    """

    families: frozenset[str] = frozenset()
    nouns: frozenset[str] = frozenset()

    def fits(self, quantity: Quantity) -> bool:
        """Return whether a quantity has one of the units."""
        if self.families:
            return quantity.unit in self.families
        return not self.nouns or quantity.unit in self.nouns

    def are_in(self, text: str) -> bool:
        """Return whether a text has a quantity of a wanted family, or says its unit; False when none is wanted."""
        if not self.families:
            return False
        if any(quantity.unit in self.families for quantity in quantities_of(text)):
            return True
        return self.families is _MONEY and _MONEY_WORDS.search(text) is not None and any(c.isdigit() for c in text)


def units_wanted(question: str) -> Units:
    """Return the units that a question asks for."""
    families = next((family for pattern, family in _FAMILIES if pattern.search(question)), frozenset())
    counted = _COUNTED.search(question)
    return Units(families=families, nouns=frozenset(terms(counted["noun"]).split()) if counted else frozenset())
