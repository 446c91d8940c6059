"""The jobs that care for the index: `reconcile` compares all of it, `verify-index` searches for a sample of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs.probe import probed, sample
from kb.errors import IntegrityError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobs.context import JobContext
    from jobs.report import Tally
    from kb.memories import Memories
    from kb.model import MemoryId
    from kb.ports import Index
    from kb.rebuild import Difference

SAMPLE = 40  # memories that one run searches for
PAGE = 1_000
NAMED = 20  # ids in a message


def reconcile(context: JobContext, memories: Memories, tally: Tally) -> None:
    """Compare the index with the ledger and repair what differs."""
    tally.attempt("index", lambda: _reconcile(context, memories, tally))


def _reconcile(context: JobContext, memories: Memories, tally: Tally) -> None:
    from kb.rebuild import reconcile as repair  # noqa: PLC0415 - import what is used

    found = _difference(memories) if context.is_dry else repair(memories)
    tally.counts.update({"missing": len(found.missing), "stale": len(found.stale), "orphaned": len(found.orphaned)})
    tally.counts["repaired"] += 0 if context.is_dry else len(found.ids)


def _difference(memories: Memories) -> Difference:
    """Return how the index differs, what waits in the outbox included."""
    from kb.rebuild import Difference, difference  # noqa: PLC0415 - import what is used

    with memories.ledger.read() as tx:
        current = memories.generations.current(tx)
    if current is None:
        return Difference()
    index = memories.generations.index(current, memories.clock.now())
    return difference(_revisions(memories), index.revisions())


def _revisions(memories: Memories) -> Iterator[tuple[MemoryId, int]]:
    after = ""
    while True:
        with memories.ledger.read() as tx:
            page = tx.memories.revisions(after, PAGE)
        if not page:
            return
        yield from page
        after = page[-1][0]


def verify_index(context: JobContext, memories: Memories, tally: Tally) -> None:
    """Search for a random sample of memories by their own vectors and words; write anew what is not found."""
    tally.attempt("index", lambda: _verify(context, memories, tally))


def _verify(context: JobContext, memories: Memories, tally: Tally) -> None:
    with memories.ledger.read() as tx:
        current = memories.generations.current(tx)
    if current is None:
        return
    if not context.is_dry:
        memories.projector.drain()
    index = memories.generations.index(current, memories.clock.now())
    _count(memories, index, tally)
    lost: list[MemoryId] = []
    for tried in probed(memories, index, current.model, sample(memories, SAMPLE)):
        tally.counts["checked"] += 1
        if not tried.is_found:
            lost.append(tried.id)
        if context.is_stopped():
            tally.is_stopped = True
            return
    tally.counts["lost"] += len(lost)
    if lost and context.is_dry:
        raise _broken(lost)
    if lost:
        _mend(memories, tally, model=current.model, lost=lost)


def _count(memories: Memories, index: Index, tally: Tally) -> None:
    with memories.ledger.read() as tx:
        counted, waiting = tx.memories.indexed_count(), tx.outbox.lag().count
    rows = index.count()
    tally.counts.update({"memories": counted, "rows": rows, "outbox_pending": waiting})
    if rows != counted and not waiting:
        tally.notes.append(f"the ledger has {counted} memories for the index, the index has {rows} rows")


def _mend(memories: Memories, tally: Tally, *, model: str, lost: list[MemoryId]) -> None:
    """Write the rows anew, and raise when that does not help."""
    from jobs.vectors import revived  # noqa: PLC0415 - needed only then

    revived(memories, model, lost)
    with memories.ledger.write() as tx:
        tx.outbox.mark(lost, memories.clock.now())
    memories.projector.drain()
    with memories.ledger.read() as tx:
        current = memories.generations.current(tx)
    if current is None:
        return
    index = memories.generations.index(current, memories.clock.now())
    still = [tried.id for tried in probed(memories, index, current.model, lost) if not tried.is_found]
    tally.counts["repaired"] += len(lost) - len(still)
    if still:
        raise _broken(still)


def _broken(lost: list[MemoryId]) -> IntegrityError:
    shown = ", ".join(lost[:NAMED])
    return IntegrityError(
        f"the index does not find {len(lost)} memories by themselves: {shown}",
        hint="`kb reconcile` compares all rows; `kb reindex` builds the index anew",
    )
