"""Notes as they are written to the ledger: with what they were written from, and never past a rollback."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kb.errors import InputError, Refused
from kb.history import AnswerId, Edge, EdgeKind
from kb.independence import root_mark, root_of
from kb.ledger.barring import barred_texts
from kb.model import MemoryId, Standing
from kb.rolled_back import descending, is_rolled_back, why_barred

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.ledger.ledger import LedgerTx
    from kb.model import Instant, Memory

MAX_PARENTS = 100


def written(tx: LedgerTx, note: Memory, parents: Sequence[str], now: Instant) -> Memory:
    """Store a note and its lineage in one transaction; return it as it is stored.

    Args:
        tx: a write.
        note: as its author means it.
        parents: ids of the memories and answers that it was written from. To name one that was rolled back puts a
            note in quarantine, unless somebody has vouched for it since.
        now: the instant.

    Raises:
        InputError: a parent is unknown or another tenant's, or there are more than 100.
        Refused: its words were erased.
        IntegrityError: somebody else has stored the same note in between.
    """
    tx.tombstones.hold(note.tenant)
    known = tx.memories.get([note.id]).get(note.id)
    counted, kin = _line(tx, note, parents)
    stands = known or kept_out(tx, note)
    if not stands.trust.verified and not is_rolled_back(stands) and (why := _taint(kin)):
        stands = replace(stands, standing=Standing.QUARANTINED, standing_reason=why)
    if known is None:
        tx.memories.add([stands])
        tx.outbox.mark([stands.id], now)
    elif stands is not known:
        stands = replace(stands, rev=known.rev + 1, updated_at=max(now, known.updated_at))
        tx.memories.replace([stands])
        tx.outbox.mark([stands.id], now)
    tx.lineage.add(_steps(note, counted, kin, now))
    return stands


def kept_out(tx: LedgerTx, note: Memory) -> Memory:
    """Return a new note, in quarantine when its words were rolled back.

    Raises:
        Refused: its words were erased.
    """
    bar = barred_texts(tx, note.tenant, [note.text]).get(note.text)
    if bar is None:
        return note
    why = why_barred(bar.tombstone)
    if bar.tombstone.is_erased:
        raise Refused(f"this was {why}", hint="say it in other words if it must be kept")
    return replace(note, standing=Standing.QUARANTINED, standing_reason=why)


def _line(tx: LedgerTx, note: Memory, parents: Sequence[str]) -> tuple[list[str], list[Memory]]:
    """Return the parents that count, and the memories that the note descends from through them.

    What was itself made from the note adds nothing to it, and would close a circle.

    Raises:
        InputError: a parent is unknown, or another tenant's; or there are too many.
    """
    if len(parents) > MAX_PARENTS:
        raise InputError(f"a note can be written from {MAX_PARENTS} memories and answers at most")
    counted, above = [], set[str]()
    for parent in dict.fromkeys(parents):
        own = _above(tx, note.tenant, parent)
        if note.id not in own:
            counted.append(parent)
            above |= own
    tx.sweeping.hold(above)
    return counted, list(tx.memories.get(map(MemoryId, sorted(above))).values())


def _above(tx: LedgerTx, tenant: str, parent: str) -> set[str]:
    """Return a parent and all that it was made from; an answer rests on what it cites, whoever wrote it."""
    memory = tx.memories.get([MemoryId(parent)]).get(MemoryId(parent))
    if memory is not None and memory.standing is Standing.STAGED:
        memory = None  # its document's version may never be switched in
    answer = None if memory is not None else tx.answers.get(AnswerId(parent), tenant)
    if (memory is None and answer is None) or (memory is not None and memory.tenant != tenant):
        hint = "`kb search --json` names memories, `kb ask --json` its answer"
        raise InputError(f"there is no memory and no answer {parent} in tenant {tenant}", hint=hint)
    cited = [c.memory_id for c in answer.citations] if answer is not None else []
    return {parent, *cited, *tx.lineage.ancestors([parent, *cited])}


def _steps(note: Memory, parents: Sequence[str], kin: Sequence[Memory], now: Instant) -> list[Edge]:
    """Return the steps to a note: from its parents, and from the root sources that it restates."""
    roots = {root for m in kin if (root := root_of(m)) and root != root_of(note)}
    above = [*parents, *map(root_mark, sorted(roots))]
    return [Edge(tenant=note.tenant, parent=p, child=note.id, kind=EdgeKind.DERIVED, at=now) for p in above]


def _taint(kin: Sequence[Memory]) -> str:
    """Return why a note may not speak, when something that it descends from was rolled back; else ""."""
    bad = sorted(m.standing_reason for m in kin if is_rolled_back(m))
    return descending(bad[0]) if bad else ""
