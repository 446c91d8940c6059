"""Keeps the index in step with the ledger.

An outbox entry says "make the index agree with the ledger about this id": it is cleared only after the index has
acknowledged, so a crash at any step repeats work and never loses it. One drainer at a time (a lock), or an older
revision could overwrite a newer one: what is written is read under the lock, and written anew if the lock was lost.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.errors import IndexUnavailable, LedgerUnavailable, Locked
from kb.index.validate import broken_rules
from kb.log import get_logger
from kb.ports import IndexRow
from kb.telemetry import Metric, Span, count, span
from kb.terms import terms
from kb.trust import shown_confidence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.index.generations import Generations
    from kb.ledger import Ledger
    from kb.ledger.collections import Collection
    from kb.ledger.locks import Held
    from kb.model import Json, Memory, MemoryId
    from kb.ports import Clock, Index, Vector

BATCH = 1000
LOCK = "projector"
REINDEX_LOCK = "reindex"  # held by a reindex beside the projector's, so that who waits can tell it from a drainer
WAIT_S = 5.0
AHEAD_TRIES = 12
PAUSE_S = 0.06  # longer than a waiting process sleeps between two looks at the lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What one drain did: entries applied, entries left, and why they were left ("" when none are)."""

    applied: int = 0
    pending: int = 0
    problem: str = ""


def index_row(memory: Memory, vector: Vector) -> IndexRow:
    """Return the memory as the index holds it. A heading's words count as the passage's words."""
    passage = memory.passage
    searched = "\n".join((passage.title, *passage.heading_path, memory.text))
    return IndexRow(
        id=memory.id,
        tenant=memory.tenant,
        scope=memory.scope,
        text=memory.text,
        terms=terms(searched),
        dense=vector,
        birth=memory.trust.birth,
        confidence=memory.trust.confidence,
        verified=memory.trust.verified,
        standing=memory.standing.number,
        valid_from=memory.valid_from,
        valid_to=memory.valid_to,
        kind=memory.kind.value,
        source_class=memory.source_class.value,
        policy=memory.source_class.policy,
        doc_id=memory.doc_id or "",
        source=memory.source,
        rev=memory.rev,
        metadata=_readers_metadata(memory),
    )


def _readers_metadata(memory: Memory) -> dict[str, Json]:
    """Return what other clients of the collection read; the three governed keys always come from the ledger."""
    return {
        "title": memory.passage.title,
        "heading_path": list(memory.passage.heading_path),
        "page": memory.passage.page,
        **memory.metadata,
        "confidence": shown_confidence(memory.trust),
        "verified": memory.trust.verified,
        "source": memory.source,
    }


class Projector:
    """Applies outbox entries, and the staged rows of a version about to be switched in, to the index."""

    def __init__(self, ledger: Ledger, generations: Generations, clock: Clock) -> None:
        self._ledger = ledger
        self._generations = generations
        self._clock = clock

    def drain(self, *, wait_seconds: float | None = None) -> Drained:
        """Apply every pending entry. An index that cannot be reached leaves them for later: that is no error.

        Args:
            wait_seconds: how long to wait for another drainer before leaving the work to it; None for 5 s.
        """
        applied, wait = 0, WAIT_S if wait_seconds is None else wait_seconds
        try:
            with span(Span.INDEX_DRAIN):
                while batch := self._drain_batch(wait):
                    applied += batch
                    if batch < BATCH:
                        break
                    time.sleep(PAUSE_S)  # let in who waits to write ahead of a switch
        except (IndexUnavailable, Locked) as error:
            return self._left(applied, str(error))
        finally:
            count(Metric.OUTBOX_DRAINED, applied)
        return self._left(applied, "")

    def _drain_batch(self, wait_seconds: float) -> int:
        with self._ledger.lock(LOCK, wait_seconds=wait_seconds) as held:
            return self._apply_next(held)

    def catch_up(self, *, wait_seconds: float = 0.0, is_needed: bool = False) -> Drained:
        """Apply one batch at most, in the time of who answers a question: no writer of the ledger is waited for.

        What is left, and what a writer keeps from being cleared, is the next drainer's.

        Args:
            wait_seconds: how long to wait for another drainer.
            is_needed: the index is written even while a writer holds the ledger; else that would be done anew by
                every question, since no entry can be cleared.
        """
        applied = 0
        try:
            with span(Span.INDEX_DRAIN), self._ledger.lock(LOCK, wait_seconds=wait_seconds) as held:
                if not is_needed:
                    with self._ledger.write(is_waiting=False):
                        pass
                applied = self._apply_next(held, is_waiting=False)
        except (IndexUnavailable, LedgerUnavailable, Locked) as error:
            return self._left(applied, str(error))
        finally:
            count(Metric.OUTBOX_DRAINED, applied)
        return self._left(applied, "")

    def project_staged(self, memories: Sequence[Memory]) -> bool:
        """Write rows ahead of their switch; return whether the index took them (if not, the outbox will).

        A drainer is waited for, since it may be about to write an older revision of a row that comes back. While a
        reindex holds the lock nobody drains, so the rows are written all the same: the collection that is still
        searched must have them before the switch.
        """
        try:
            for _ in range(AHEAD_TRIES):
                try:
                    with self._ledger.lock(LOCK, wait_seconds=WAIT_S) as held:
                        return self._ahead(memories, held)
                except Locked:
                    if self._is_reindexing():
                        return self._ahead(memories, None)
        except IndexUnavailable:
            return False
        return False

    def _is_reindexing(self) -> bool:
        try:
            with self._ledger.lock(REINDEX_LOCK):
                return False
        except Locked:
            return True

    def _ahead(self, memories: Sequence[Memory], held: Held | None) -> bool:
        """Write those that are still what was staged; whoever changed or erased the others has entered them."""
        with self._ledger.read() as tx:
            current = self._generations.current(tx)
            stored = tx.memories.get([m.id for m in memories])
        if current is None:
            return False
        same = [m for m in memories if m.id in stored and stored[m.id].rev == m.rev]
        self._upsert(current, same)
        if held is None or not held.is_held():  # somebody may have drained beside us
            with self._ledger.write() as tx:
                tx.outbox.mark([m.id for m in same], self._clock.now())
        return True

    def _left(self, applied: int, problem: str) -> Drained:
        with self._ledger.read() as tx:
            pending, _ = tx.outbox.lag()
        return Drained(applied=applied, pending=pending, problem=problem if pending else "")

    def _apply_next(self, held: Held, *, is_waiting: bool = True) -> int:
        with self._ledger.read() as tx:
            current = self._generations.current(tx)
            is_idle = current is None or not tx.outbox.pending(1)
        if current is None or is_idle:
            return 0
        index = self._index(current)  # one that was lost is made here, which enters everything
        with self._ledger.read() as tx:
            entries = tx.outbox.pending(BATCH)
            ids = list(dict.fromkeys(id_ for _, id_ in entries))
            memories = tx.memories.get(ids)
        indexed = [m for m in memories.values() if is_indexed(m)]
        gone = [id_ for id_ in ids if id_ not in memories or not is_indexed(memories[id_])]
        if indexed:
            self._upsert(current, indexed)
        if gone:
            index.delete(gone)
        with self._ledger.write(is_waiting=is_waiting) as tx:
            tx.outbox.clear([seq for seq, _ in entries])
            if not held.is_held():  # another drainer may have written newer rows before ours came
                tx.outbox.mark(ids, self._clock.now())
        return len(entries)

    def _upsert(self, current: Collection, memories: Sequence[Memory]) -> None:
        upsert_memories(self._ledger, self._index(current), current.model, memories)

    def _index(self, current: Collection) -> Index:
        return self._generations.index(current, self._clock.now())


def upsert_memories(ledger: Ledger, index: Index, model: str, memories: Sequence[Memory]) -> list[MemoryId]:
    """Write memories to an index with the vectors that the ledger keeps for `model`.

    One bad row must not hold up the others for ever: a memory that has no vector, or that breaks the server's rules, is
    logged and left out, and its older row goes, which would say what it no longer is; the ledger keeps it. What was
    erased since it was read is left out in silence: its vector went with it.

    Returns:
        The ids that have no vector.
    """
    with ledger.read() as tx:
        vectors = tx.embeddings.get(model, list({m.embed_hash for m in memories}))
        bare = [m for m in memories if m.embed_hash not in vectors]
        stored = tx.memories.get([m.id for m in bare])
    lost = [m.id for m in bare if m.id in stored and stored[m.id].embed_hash == m.embed_hash]
    if lost:
        hint = "`kb reindex --embedder` embeds every memory again"
        get_logger().error("index_rows_without_vector", model=model, memory_ids=lost[:10], count=len(lost), hint=hint)
    rows = [index_row(m, vectors[m.embed_hash]) for m in memories if m.embed_hash in vectors]
    dim = len(rows[0].dense) if rows else 0
    for id_, rule in (refused := broken_rules(rows, dim)).items():
        get_logger().error("index_row_refused", memory_id=id_, rule=rule)
    index.upsert([row for row in rows if row.id not in refused])
    if bare or refused:
        index.delete([*(m.id for m in bare), *refused])
    return lost


def is_indexed(memory: Memory) -> bool:
    """Return whether a memory has a row in the index: all but the retired, so that the past stays searchable."""
    return memory.standing.value != "retired"
