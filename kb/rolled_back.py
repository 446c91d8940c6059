"""What was rolled back, in words: how such a memory is told, and why something is kept out. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kb.model import Standing
from kb.sweeps import SweepId, SweepStatus
from kb.telling import sayings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kb.model import Memory
    from kb.sweeps import Sweep, Tombstone

ROLLED_BACK = "rolled back"
DESCENDS = "descends from what was rolled back"
KEPT_OUT, ERASED = "kept out by sweep", "erased by sweep"  # likewise, of what says again what was taken out
ROOT_CODE, DESCENT_CODE = "rolled_back", "descends_from_rolled_back"  # reasons of a sweep's actions
CODES = frozenset({ROOT_CODE, DESCENT_CODE})
_ADVICE = re.compile(r"`kb govern undo (?P<sweep>\w+)`(?: or `kb memory restore ID`)? lets it back")  # of `why_barred`


def is_rolled_back(memory: Memory) -> bool:
    """Return whether a memory is quarantined because it, or what it was made from, was rolled back.

    Nothing but a person, or the undoing of the sweep, lets such a memory be retrieved again: no evidence promotes it.
    """
    return memory.standing is Standing.QUARANTINED and memory.standing_reason.startswith((ROLLED_BACK, DESCENDS))


def said_of(what: str, sweep_id: SweepId) -> str:
    """Return the standing reason of a memory that a sweep rolled back; `what` is ROLLED_BACK or DESCENDS."""
    return f"{what} by sweep {sweep_id}"


def descending(reason: str) -> str:
    """Return the standing reason of what descends from a memory that was rolled back for `reason`."""
    return reason if reason.startswith(DESCENDS) else f"{DESCENDS}{reason.removeprefix(ROLLED_BACK)}"


def why_barred(tombstone: Tombstone) -> str:
    """Return why something does not come back, and what would let it."""
    sweep = tombstone.sweep_id
    if tombstone.is_erased:
        return f"{ERASED} {sweep}: it is not stored again"
    if tombstone.reason in CODES:
        return f"{said_of(ROLLED_BACK, sweep)}; `kb govern undo {sweep}` or `kb memory restore ID` lets it back"
    return f"{KEPT_OUT} {sweep} ({tombstone.reason or 'no reason given'}); `kb govern undo {sweep}` lets it back"


def since_undone(reason: str, sweep: Callable[[SweepId], Sweep | None]) -> str:
    """Return a standing reason that recommends no undo which was done since.

    Args:
        reason: as it was when the memory came.
        sweep: returns a sweep as it stands now; not asked where the reason recommends nothing.
    """
    advice = _ADVICE.search(reason)
    known = None if advice is None else sweep(SweepId(advice["sweep"]))
    if advice is None or known is None or known.status is not SweepStatus.UNDONE:
        return reason
    return f"{reason[: advice.start()]}that was undone since: `kb memory restore ID` lets it back"


def gravest(found: Sequence[Tombstone]) -> Tombstone | None:
    """Return the tombstone that decides where several apply: what was erased before what was rolled back."""
    return min(found, key=lambda t: (not t.is_erased, t.at, t.sweep_id), default=None)


def repeated(text: str, said: Iterable[frozenset[str]]) -> bool:
    """Return whether a text says again what any of these passages (by their `sayings`) had said."""
    own = sayings(text)
    return any(own & other for other in said)
