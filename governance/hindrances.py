"""What is really in the way of an undo: later sweeps that changed the same rows for good, or what is no sweep at all.

A sweep that only lowered what other readers are told is in nobody's way, unless that is what is to be undone; nor is
one that was undone, with its undo.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from governance.effects.undone import standing_row
from governance.images import same
from kb.sweeps import ImageKind, SweepStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kb.ledger.ledger import LedgerTx
    from kb.model import Json
    from kb.sweeps import Image, Sweep, SweepId

KEYS = 500  # rows that are looked into
NAMED = 5  # sweeps in a hint
EXPLAIN = "`kb govern explain MEMORY` shows what has happened to a memory since"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindrances:
    """What is in the way.

    Args:
        sweeps: to be undone first, the latest first.
        others: rows that something else than a sweep has changed since.
    """

    sweeps: tuple[SweepId, ...] = ()
    others: int = 0

    @property
    def hint(self) -> str:
        """What to do first."""
        first = ", ".join(self.sweeps[:NAMED]) + (", …" if len(self.sweeps) > NAMED else "")
        undo = f"later sweeps changed them too; undo those first: {first}"
        if not self.others:
            return undo if self.sweeps else EXPLAIN
        rows = "one of the rows was" if self.others == 1 else f"{self.others:,} rows were"
        other = f"{rows} changed by no sweep, but by a sync, an answer or feedback: that is not taken back"
        return f"{undo}; {other}" if self.sweeps else f"{other}; {EXPLAIN}"


def hindrances(tx: LedgerTx, sweep: Sweep, moved: Sequence[str]) -> Hindrances:
    """Return what has changed rows since a sweep changed them.

    Args:
        tx: where they are.
        sweep: that is to be undone.
        moved: keys of rows that do not stand as it left them.
    """
    known: dict[SweepId, Sweep | None] = {}
    blocking: dict[SweepId, Sweep] = {}
    others = 0
    for key in moved[:KEYS]:
        changes = _changes(tx, key, known)
        own = [image for by, image in changes if by.id == sweep.id]
        is_all_shown = bool(own) and all(_is_shown_only(i) for i in own)
        later = [
            (by, i) for by, i in changes if _is_later(by, sweep, known) and (is_all_shown or not _is_shown_only(i))
        ]
        blocking.update((by.id, by) for by, _ in later)
        last = [image for _, image in later] or own
        others += bool(last) and not _stands(tx, last, is_all_shown=is_all_shown)
    ordered = sorted(blocking.values(), key=lambda s: (-s.started_at, -(s.finished_at or 0), s.undoes is None, s.id))
    return Hindrances(sweeps=tuple(s.id for s in ordered), others=others)


def _changes(tx: LedgerTx, key: str, known: dict[SweepId, Sweep | None]) -> list[tuple[Sweep, Image]]:
    """Return what sweeps have done to a row, with the sweeps, in the order in which it was done."""
    found: list[tuple[Sweep, Image]] = []
    for sweep_id, seq in tx.sweeps.changed_rows(key):
        if sweep_id not in known:
            known[sweep_id] = tx.sweeps.get(sweep_id)
        by = known[sweep_id]
        if by is not None:
            found += [(by, image) for image in tx.sweeps.images(sweep_id, [seq]).get(seq, []) if image.key == key]
    return sorted(found, key=lambda change: (change[0].started_at, _rev(change[1])))


def _is_later(by: Sweep, sweep: Sweep, known: Mapping[SweepId, Sweep | None]) -> bool:
    """Return whether a sweep came after another and stands; what was done and undone since is nothing."""
    if by.id == sweep.id or by.started_at < sweep.started_at or by.status is not SweepStatus.DONE:
        return False
    undone = known.get(by.undoes) if by.undoes is not None else None
    return undone is None or undone.id == sweep.id or undone.started_at < sweep.started_at


def _is_shown_only(image: Image) -> bool:
    if image.kind is not ImageKind.MEMORY or image.before is None or image.after is None:
        return False
    return same({**image.before, "shown": 0}, {**image.after, "shown": 0})


def _stands(tx: LedgerTx, done: Iterable[Image], *, is_all_shown: bool) -> bool:
    """Return whether a row stands as the last of these changes left it."""
    last = list(done)[-1]
    now = standing_row(tx, last.kind, last.key)
    if now is None or last.after is None or is_all_shown:
        return same(now, last.after)
    return same(_but_shown(now), _but_shown(last.after))


def _but_shown(columns: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in columns.items() if name != "shown"}


def _rev(image: Image) -> int:
    return int(str((image.after or {}).get("rev") or 0))
