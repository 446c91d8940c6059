"""How far two values of one kind are apart: the same, as exactly as both say it, clearly different, or unsure. Pure."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING

from kb.dates.periods import overlaps

if TYPE_CHECKING:
    from governance.comparing.sayings import Value
    from kb.words.quantities import Quantity

NEAR = 0.1  # relative difference up to which a rounded number may be the exact one
ROUNDED = 2  # zeros at the end of a number that may be rounded
_EXACT = 1e-9


class Gap(StrEnum):
    """What lies between two values."""

    NONE = "none"
    UNSURE = "unsure"
    CLEAR = "clear"


def gap(one: Value, other: Value) -> Gap:
    """Return what lies between two values of one kind and unit. Symmetric."""
    if one.quantity and other.quantity:
        return _between_numbers(one, other, one.quantity, other.quantity)
    if one.period and other.period:
        if (one.period.start, one.period.end) == (other.period.start, other.period.end):
            return Gap.NONE
        return Gap.UNSURE if overlaps(one.period, other.period) else Gap.CLEAR
    if one.notation == other.notation:
        return Gap.NONE
    return Gap.UNSURE if _is_part(one.notation, other.notation) else Gap.CLEAR


def _between_numbers(one: Value, other: Value, mine: Quantity, theirs: Quantity) -> Gap:
    if mine.unit != theirs.unit or mine.rate != theirs.rate:
        return Gap.UNSURE
    size = max(abs(mine.number), abs(theirs.number))
    apart = abs(mine.number - theirs.number)
    if mine.bound == theirs.bound and (apart <= _EXACT * size or _is_rounding(one, other)):
        return Gap.NONE
    if mine.agrees(theirs) or _is_rounding(one, other):
        return Gap.UNSURE  # "at least 5" and "7", "about 100" and "95"
    if (mine.bound or theirs.bound or _zeros(mine) or _zeros(theirs)) and apart <= NEAR * size:
        return Gap.UNSURE
    return Gap.CLEAR


def _is_rounding(one: Value, other: Value) -> bool:
    """Return whether the one is the other, rounded to the digits that it is written with: 3.1 and 3.14."""
    assert one.quantity is not None
    assert other.quantity is not None
    if one.decimals == other.decimals and not (one.quantity.step or other.quantity.step):
        return False
    steps = [q.step or 10.0**-v.decimals for v, q in ((one, one.quantity), (other, other.quantity))]
    return abs(one.quantity.number - other.quantity.number) <= max(steps) / 2 * (1 + _EXACT)


def _zeros(quantity: Quantity) -> bool:
    """Return whether a number may be rounded by its writer: 1,200."""
    number = quantity.number
    return math.isfinite(number) and number != 0 and number == int(number) and int(number) % 10**ROUNDED == 0


def _is_part(one: str, other: str) -> bool:
    """Return whether one version is the other's line: 2.4 and 2.4.1."""
    short, long = sorted((one, other), key=len)
    return long.startswith((f"{short}.", f"{short}-"))
