"""Cached vectors that no memory needs any more, and memories whose vector is gone.

A vector is cached before its memory is stored, so one that looks unused may be about to be used. It goes when it was
unused in an earlier run and is so still, and while no source is being ingested; whoever had it in hand all the same
gets it back: memories without a vector are embedded again.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from kb.errors import Locked
from kb.ledger.runs import RunStatus
from kb.passages import embedded_as

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.ledger.ledger import LedgerTx
    from kb.ledger.runs import Run
    from kb.ledger.upkeep import Vector
    from kb.memories import Memories
    from kb.model import Instant, Json, MemoryId

MOST = 50_000  # vectors of one run
MARKED = "unused_vectors"  # key in the ledger's meta
MARK_LENGTH = 16  # hex digits of a vector's hash that are kept as its mark
GRACE = 600_000  # milliseconds between two runs that must both find a vector unused
RUNS_LOOKED_AT = 1_000
MENDED = 1_000  # memories that get a vector again in one run


def drop_unused(memories: Memories) -> int | None:
    """Drop the vectors that an earlier run found unused and that are so still; mark the others for the next.

    Returns:
        How many went; None when a source is being ingested: then nothing is done.
    """
    now = memories.clock.now()
    with memories.ledger.read() as tx:
        seen = _running(tx)
    with ExitStack() as stack:
        try:
            for lock in sorted({f"ingest-{run.tenant}-{run.root}" for run in seen}):
                stack.enter_context(memories.ledger.lock(lock))  # one that can be had is of a run that died
        except Locked:
            return None
        with memories.ledger.write() as tx:
            if {run.id for run in _running(tx)} - {run.id for run in seen}:
                return None  # a sync has begun meanwhile
            unused = tx.upkeep.unused_vectors(MOST)
            marked_at, marks = _marked(tx)
            if 0 <= now - marked_at < GRACE:
                return 0
            number = tx.upkeep.drop_unneeded(v for v in unused if _mark(v) in marks)
            kept: list[Json] = [m for m in map(_mark, unused) if m not in marks]
            if kept or marks:
                tx.meta.set(MARKED, {"at": now, "marks": kept})
    return number


def unused(memories: Memories) -> int:
    """Return how many cached vectors no memory needs, as far as one run would look."""
    with memories.ledger.read() as tx:
        return len(tx.upkeep.unused_vectors(MOST))


def mend(memories: Memories) -> int:
    """Embed anew what lacks a vector, and write it to the index; return how many memories that were.

    Raises:
        EmbedderUnavailable: nothing more can be embedded.
    """
    with memories.ledger.read() as tx:
        current = memories.generations.current(tx)
        bereft = [] if current is None else tx.upkeep.without_vector(current.model, MENDED)
    if current is None or not bereft:
        return 0
    mended = revived(memories, current.model, bereft)
    with memories.ledger.write() as tx:
        tx.outbox.mark(bereft, memories.clock.now())
    memories.projector.drain()
    return mended


def revived(memories: Memories, model: str, ids: Sequence[MemoryId]) -> int:
    """Embed again whatever of these memories has no vector; return how many were embedded.

    Raises:
        EmbedderUnavailable: nothing more can be embedded.
    """
    with memories.ledger.read() as tx:
        found = {m.embed_hash: m for m in tx.memories.get(ids).values() if m.embed_hash}
        missing = tx.embeddings.missing(model, found)
    if not missing or memories.embedder.identity.model != model:
        return 0
    embedded, _ = memories.embed({text_hash: embedded_as(found[text_hash]) for text_hash in missing})
    return embedded


def _marked(tx: LedgerTx) -> tuple[Instant, set[str]]:
    """Return when vectors were marked as unused, and their marks."""
    kept = tx.meta.get(MARKED)
    if not isinstance(kept, dict) or not isinstance(kept.get("at"), int) or not isinstance(kept.get("marks"), list):
        return -GRACE, set()
    return int(str(kept["at"])), {str(mark) for mark in kept["marks"]}  # type: ignore[union-attr] # seen to be a list


def _mark(vector: Vector) -> str:
    return vector.text_hash[:MARK_LENGTH]


def _running(tx: LedgerTx) -> list[Run]:
    return [r for r in tx.runs.list(RUNS_LOOKED_AT, kind="ingest") if r.status is RunStatus.RUNNING]
