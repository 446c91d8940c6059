"""Copies of what was erased that were written while the erasure was at work: after it was surveyed, before it was done.

They stay, as copies do that were there at the survey, and a person is told of them. What they say leaves no tombstone,
either: its own document could not be edited any more, and others would be kept out for what can be read here.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from governance.images import tombstone_key, tombstone_of
from governance.reach import may_never_come
from kb.erased import pieces
from kb.model import Kind
from kb.sweeps import ImageKind, SweepStatus, TombstoneKind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from governance.reach import Reach
    from kb.erased import Words
    from kb.ledger.ledger import LedgerTx
    from kb.memories import Memories
    from kb.model import MemoryId
    from kb.sweeps import SweepId, Tombstone

PAGE = 500  # memories whose words are looked up at a time


def said_since(memories: Memories, reach: Reach, words: Words) -> list[MemoryId]:
    """Return the memories that say some of these words, and were not there yet when these were looked for."""
    if not words:
        return []
    known = {*reach.members, *(m.id for m in reach.copies)}
    with memories.ledger.read() as tx:
        others = tx.erasing.others(reach.plan.tenant)
        return [o.id for o in others if o.id not in known and o.kind is not Kind.ANSWER and words.quoted_in(o.text)]


def with_late_copies(memories: Memories, reach: Reach) -> Reach:
    """Return the reach with the copies that were written after it was surveyed: they stay, and a person must know."""
    late = said_since(memories, reach, reach.words)
    with memories.ledger.read() as tx:
        return replace(reach, copies=[*reach.copies, *tx.descent.members(reach.plan.tenant, late).values()])


def unbar(memories: Memories, reach: Reach, late: Collection[MemoryId], sweeps: Collection[SweepId]) -> int:
    """Take back the tombstones that sweeps of an erasure left for what copies say that stay; return how many.

    A copy that was staged at the survey counts as late: its version might never have been switched in.
    """
    return _unbarred(memories, reach.plan.tenant, late, sweeps, reach.words.spoken_in)


def unbar_resumed(memories: Memories, tenant: str, sweep_id: SweepId) -> list[MemoryId]:
    """Do the same for an erasure whose process died: nobody knows its words any more, but their marks.

    Returns the late copies. Looks at every memory of the tenant. A copy is known by its own pieces alone: not, if it
    goes on in the same paragraph. Then a tombstone too many stays; nothing that was erased comes back for it.
    """
    with memories.ledger.read() as tx:
        if not any(t.kind is TombstoneKind.TEXT for t in tx.tombstones.of_sweep(sweep_id)):
            return []
        late = [id_ for page in _pages(tx, tenant) for id_ in _barred(tx, tenant, page, sweep_id)]
    if late:
        _unbarred(memories, tenant, late, {sweep_id}, pieces)
    return late


def _pages(tx: LedgerTx, tenant: str) -> Iterator[dict[MemoryId, tuple[str, ...]]]:
    """Yield what the tenant's memories say, in pieces, by their ids, a number of them at a time."""
    others = ((o.id, pieces(o.text)) for o in tx.erasing.others(tenant) if o.kind is not Kind.ANSWER)
    while page := dict(islice(others, PAGE)):
        yield page


def _barred(tx: LedgerTx, tenant: str, page: Mapping[MemoryId, Sequence[str]], sweep_id: SweepId) -> Iterator[MemoryId]:
    known = tx.tombstones.among(tenant, TombstoneKind.TEXT, (piece for own in page.values() for piece in own))
    said = {piece for piece, tombstone in known.items() if tombstone.is_erased and tombstone.sweep_id == sweep_id}
    return (id_ for id_, own in page.items() if not said.isdisjoint(own))


def _unbarred(
    memories: Memories,
    tenant: str,
    late: Collection[MemoryId],
    sweeps: Collection[SweepId],
    said: Callable[[str], Iterable[str]],
) -> int:
    """Take back what sweeps left for the pieces of late copies; what had stood there, of a rollback, stands again."""
    with memories.ledger.write() as tx:
        tx.tombstones.alone(tenant)  # a copy that goes meanwhile takes its words along
        stay = (m for m in tx.memories.get(late).values() if not may_never_come(m))
        spoken = {piece for memory in stay for piece in said(memory.text)}
        found = tx.tombstones.among(tenant, TombstoneKind.TEXT, spoken).values()
        left = {t.mark: t for t in found if t.is_erased and t.sweep_id in sweeps}.values()
        tx.tombstones.remove(left)
        tx.tombstones.put([before for t in left if (before := _before(tx, t)) is not None])
    return len(left)


def _before(tx: LedgerTx, tombstone: Tombstone) -> Tombstone | None:
    """Return the tombstone whose place an erasure took, unless the sweep that had left it was undone meanwhile."""
    key = tombstone_key(tombstone)
    kept = tx.sweeps.images_of_row(tombstone.sweep_id, ImageKind.TOMBSTONE, key)
    if not kept or kept[0].before is None:
        return None
    before = tombstone_of(key, kept[0].before)
    sweep = tx.sweeps.get(before.sweep_id)
    return None if sweep is None or sweep.status is SweepStatus.UNDONE else before
