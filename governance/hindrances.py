"""What is really in the way of an undo: later sweeps that changed the same rows for good, or what is no sweep at all.

A sweep that only lowered what other readers are told is in nobody's way, unless that is what is to be undone; nor is
one that was undone, with its undo.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from governance.effects.undone import standing_row
from governance.images import evidence_parts, parts_of, same, tombstone_parts, version_key
from kb.model import DocumentId
from kb.sweeps import ImageKind, SweepStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from governance.images import Row
    from kb.ledger.ledger import LedgerTx
    from kb.model import Json
    from kb.sweeps import Image, Sweep, SweepId

KEYS = 500  # rows that are looked into
NAMED = 5  # sweeps, or documents, in a hint
UNGOVERNED = frozenset({"shown", "size", "mtime_ns"})  # what decay lowers, and what a sync sees of a file
MARK = 8  # hex digits of a tombstone's
RESTORE = (
    "`kb memory restore ID` lets back what no newer version has replaced; what one has comes back as a note:"
    " `kb memory add`, then restore that"
)
EXPLAIN = "`kb govern explain MEMORY` shows what has happened to a memory since"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindrances:
    """What is in the way.

    Args:
        sweeps: to be undone first, the latest first.
        others: rows that something else than a sweep has changed since.
        documents: addresses of the documents among these.
    """

    sweeps: tuple[SweepId, ...] = ()
    others: tuple[Row, ...] = ()
    documents: tuple[str, ...] = ()

    @property
    def hint(self) -> str:
        """What to do first."""
        undo = f"later sweeps changed them too; undo those first: {_few(self.sweeps)}"
        if not self.others:
            return undo if self.sweeps else EXPLAIN
        number = len(self.others)
        rows = "one of the rows was" if number == 1 else f"{number:,} rows were"
        said = [f"{rows} changed by no sweep, but by a sync, an answer or feedback: that is not taken back"]
        if self.documents:
            said += [f"a later sync has changed {_few(self.documents)}", RESTORE]
        if not self.sweeps and any(kind is ImageKind.MEMORY for kind, _ in self.others):
            said.append(EXPLAIN)
        return "; ".join([undo, *said] if self.sweeps else said)


def hindrances(tx: LedgerTx, sweep: Sweep, moved: Sequence[Row]) -> Hindrances:
    """Return what has changed rows since a sweep changed them.

    Args:
        tx: where they are.
        sweep: that is to be undone.
        moved: rows that do not stand as it left them.
    """
    known: dict[SweepId, Sweep | None] = {}
    blocking: dict[SweepId, Sweep] = {}
    others: list[Row] = []
    for row in moved[:KEYS]:
        changes = _changes(tx, row, known)
        own = [image for by, image in changes if by.id == sweep.id]
        is_all_shown = bool(own) and all(_is_shown_only(i) for i in own)
        later = [
            (by, i) for by, i in changes if _is_later(by, sweep, known) and (is_all_shown or not _is_shown_only(i))
        ]
        blocking.update((by.id, by) for by, _ in later)
        last = [image for _, image in later] or own
        if last and not _stands(tx, last, is_all_shown=is_all_shown):
            others.append(row)
    ordered = sorted(blocking.values(), key=lambda s: (-s.started_at, -(s.finished_at or 0), s.undoes is None, s.id))
    documents = [_address(tx, key) for kind, key in others if kind is ImageKind.DOCUMENT]
    return Hindrances(sweeps=tuple(s.id for s in ordered), others=tuple(others), documents=tuple(documents))


def told_row(tx: LedgerTx, row: Row) -> str:
    """Return a row in words: what it is, and of which memory or document."""
    kind, key = row
    match kind:
        case ImageKind.DOCUMENT:
            return f"document {_address(tx, key)}"
        case ImageKind.VERSION:
            doc_id, version = version_key(key)
            return f"version {version} of document {_address(tx, doc_id)}"
        case ImageKind.EVIDENCE:
            memory_id, what, witness = evidence_parts(key)
            return f"evidence of memory {memory_id} ({what.value} by {' '.join(parts_of(witness))})"
        case ImageKind.TOMBSTONE:
            _, what_of, mark = tombstone_parts(key)
            return f"tombstone of a {what_of} ({mark[:MARK]})"
        case ImageKind.CONTRADICTION:
            one, other, _ = parts_of(key)
            return f"contradiction of memories {one} and {other}"
    return f"{kind.value} {key}"


def _address(tx: LedgerTx, doc_id: str) -> str:
    document = tx.documents.get(DocumentId(doc_id))
    return document.source if document is not None else doc_id


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")


def _changes(tx: LedgerTx, row: Row, known: dict[SweepId, Sweep | None]) -> list[tuple[Sweep, Image]]:
    """Return what sweeps have done to a row, with the sweeps, in the order in which it was done."""
    found: list[tuple[Sweep, Image]] = []
    for sweep_id, seq in tx.sweeps.changed_rows(row[1]):
        if sweep_id not in known:
            known[sweep_id] = tx.sweeps.get(sweep_id)
        by = known[sweep_id]
        if by is not None:
            own = tx.sweeps.images(sweep_id, [seq]).get(seq, [])
            found += [(by, image) for image in own if (image.kind, image.key) == row]
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
    return same(_governed(now), _governed(last.after))


def _governed(columns: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in columns.items() if name not in UNGOVERNED}


def _rev(image: Image) -> int:
    return int(str((image.after or {}).get("rev") or 0))
