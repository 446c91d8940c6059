"""Builds the current collection at another Milvus, from the ledger, without embedding, while the old one is searched.

The collection has the same name there: only the setting that names the server decides which of the two is used. Every
write reads its rows anew and holds the projector's lock, so that none is older than one that was written before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.errors import IndexOutdated, IntegrityError, Refused
from kb.index.projector import LOCK, REINDEX_LOCK, is_indexed, upsert_memories
from kb.index.schema import is_of_this_schema
from kb.ledger.batches import chunks
from kb.rebuild import REINDEX_WAIT_S, difference, indexed_pages, ledger_revisions
from kb.telemetry import MILVUS, Attr, Span, span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kb.index.generations import IndexServer
    from kb.ledger.collections import Collection
    from kb.memories import Memories
    from kb.model import MemoryId
    from kb.ports import Index

ROUNDS = 5  # comparisons; who writes all the time leaves something in each


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A collection at its new place.

    Args:
        collection: its name, at both places.
        rows: that it holds there.
        written: rows that were written there.
        left: rows in which it and the ledger still differ; the next reconcile mends them.
    """

    collection: str
    rows: int
    written: int
    left: int


def current_of(memories: Memories) -> Collection:
    """Return the collection that is searched.

    Raises:
        Refused: there is none yet.
        IndexOutdated: it has the columns of another version.
    """
    with memories.ledger.read() as tx:
        current = memories.generations.current(tx)
    if current is None:
        raise Refused("there is no index to move yet", hint="set index_uri; the first memories are written there")
    if not is_of_this_schema(current.name):
        raise IndexOutdated(f"the index {current.name} has the schema of another version of kb")
    return current


def moved(memories: Memories, target: IndexServer, *, progress: Callable[[int], None] = lambda _: None) -> Moved:
    """Build the current collection at `target`, or go on with one that is there, until it agrees with the ledger.

    Raises:
        IntegrityError: a memory has no vector.
        Locked: a reindex is at work, or somebody drains for a minute.
        IndexUnavailable: the target cannot be reached; what was written there stays.
    """
    with memories.ledger.lock(REINDEX_LOCK), span(Span.MOVE_INDEX, {Attr.DB_SYSTEM: MILVUS}) as recording:
        current = current_of(memories)
        target.create(current.name, current.dim)
        index = target.open(current.name, current.dim)
        written = 0
        if index.count() == 0:
            for page in indexed_pages(memories):
                written += _brought(memories, index, current.model, [m.id for m in page])
                progress(written)
        left: tuple[MemoryId, ...] = ()
        for _ in range(ROUNDS):
            left = difference(ledger_revisions(memories), index.revisions()).ids
            if not left:
                break
            for part in chunks(left):
                written += _brought(memories, index, current.model, part)
                progress(written)
        recording.set({Attr.DB_COLLECTION: current.name, Attr.ROWS: written, Attr.LEFT: len(left)})
        return Moved(collection=current.name, rows=index.count(), written=written, left=len(left))


def _brought(memories: Memories, index: Index, model: str, ids: Sequence[MemoryId]) -> int:
    """Make the new collection agree with the ledger about these memories; return how many rows were written."""
    with memories.ledger.lock(LOCK, wait_seconds=REINDEX_WAIT_S):
        with memories.ledger.read() as tx:
            found = tx.memories.get(ids)
        indexed = [m for m in found.values() if is_indexed(m)]
        lost = upsert_memories(memories.ledger, index, model, indexed) if indexed else []
        if lost:
            raise IntegrityError(
                f"{len(lost)} memories have no vector of {model}, the first is {lost[0]}",
                hint="`kb reindex --embedder` embeds every memory again",
            )
        kept = {m.id for m in indexed}
        index.delete([id_ for id_ in ids if id_ not in kept])
    return len(indexed)
