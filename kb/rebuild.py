"""Repair and rebuild the index from the ledger: reconcile compares revisions, reindex fills a new collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.errors import EmbedderUnavailable, IntegrityError, Locked
from kb.index.generations import generation_of, ledger_id
from kb.index.projector import LOCK, REINDEX_LOCK, is_indexed, upsert_memories
from kb.ledger.collections import CollectionState
from kb.passages import embedded_as
from kb.telemetry import Span, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kb.ledger.collections import Collection
    from kb.ledger.locks import Held
    from kb.memories import Memories
    from kb.model import Memory, MemoryId
    from kb.ports import EmbedderIdentity

PAGE = 1000
REINDEX_WAIT_S = 60.0
MANY = 10_000_000  # every outbox entry there is


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How index and ledger differ: ids the index lacks, holds in another revision, or holds without the ledger."""

    missing: tuple[MemoryId, ...] = ()
    stale: tuple[MemoryId, ...] = ()
    orphaned: tuple[MemoryId, ...] = ()

    @property
    def ids(self) -> tuple[MemoryId, ...]:
        """Every id that needs work."""
        return (*self.missing, *self.stale, *self.orphaned)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reindexed:
    """What a reindex did."""

    collection: str
    memories: int
    embedded: int
    pending: int


def difference(ledger: Iterable[tuple[MemoryId, int]], index: Iterable[tuple[MemoryId, int]]) -> Difference:
    """Return how two (id, rev) streams differ, each in id order and each id once. Holds one row of each at a time."""
    missing: list[MemoryId] = []
    stale: list[MemoryId] = []
    orphaned: list[MemoryId] = []
    truth, shadow = iter(ledger), iter(index)
    a, b = next(truth, None), next(shadow, None)
    while a is not None or b is not None:
        if b is None or (a is not None and a[0] < b[0]):
            assert a is not None, "one of the two is there"
            missing.append(a[0])
            a = next(truth, None)
        elif a is None or b[0] < a[0]:
            orphaned.append(b[0])
            b = next(shadow, None)
        else:
            if a[1] != b[1]:
                stale.append(a[0])
            a, b = next(truth, None), next(shadow, None)
    return Difference(missing=tuple(missing), stale=tuple(stale), orphaned=tuple(orphaned))


def reconcile(memories: Memories) -> Difference:
    """Compare the current collection with the ledger and repair it in both directions; return what was found.

    Raises:
        IndexUnavailable: the index cannot be reached.
    """
    with span(Span.INDEX_RECONCILE):
        memories.projector.drain()
        with memories.ledger.read() as tx:
            current = memories.generations.current(tx)
        if current is None:
            return Difference()
        index = memories.generations.index(current, memories.clock.now())
        found = difference(ledger_revisions(memories), index.revisions())
        if found.ids:
            with memories.ledger.write() as tx:
                tx.outbox.mark(found.ids, memories.clock.now())
            memories.projector.drain()
        return found


def reindex(memories: Memories, *, re_embed: bool, progress: Callable[[int], None] = lambda _: None) -> Reindexed:
    """Fill a new collection from the ledger and switch to it; searches use the old one until the switch.

    Args:
        memories: the door.
        re_embed: embed what the configured embedder has no vector for; needed when it has changed.
        progress: told how many memories were written, page by page.

    Raises:
        EmbedderChanged: the embedder differs and `re_embed` is not set.
        EmbedderUnavailable: a text could not be embedded; the old collection stays.
        Locked: the projector, or another reindex, is at work and does not end; or the lock was lost.
    """
    identity = memories.embedder.identity
    if not re_embed:
        memories.generations.checked(identity)
    lock = memories.ledger.lock
    with (
        lock(REINDEX_LOCK),
        lock(LOCK, wait_seconds=REINDEX_WAIT_S) as held,
        span(Span.INDEX_REINDEX),
    ):
        target = _begun(memories, identity)
        total, newly = _fill(memories, target, re_embed=re_embed, progress=progress)
        newly += _switched(memories, target, held, re_embed=re_embed)
        _swept(memories)
    return Reindexed(collection=target.name, memories=total, embedded=newly, pending=memories.projector.drain().pending)


def _begun(memories: Memories, identity: EmbedderIdentity) -> Collection:
    _swept(memories)
    with memories.ledger.write() as tx:
        number, owner = tx.collections.next_generation(), ledger_id(tx)
        target = generation_of(number, identity, owner, CollectionState.BUILDING, memories.clock.now())
        tx.collections.put(target)
    memories.generations.server.create(target.name, target.dim)
    return target


def _switched(memories: Memories, target: Collection, held: Held, *, re_embed: bool) -> int:
    """Make the target current, once what was changed meanwhile has vectors for it; return how many were embedded.

    Nobody has drained since the reindex began, so the outbox holds all that was changed.

    Raises:
        Locked: somebody may have drained after all, since the lock was lost.
    """
    newly = 0
    while True:
        with memories.ledger.write() as tx:
            waiting = [id_ for _, id_ in tx.outbox.pending(MANY)]
            changed = [m for m in tx.memories.get(waiting).values() if is_indexed(m)]
            missing = set(tx.embeddings.missing(target.model, [m.embed_hash for m in changed]))
            if not held.is_held():
                raise Locked("the reindex lost its lock; the index is as it was", hint="repeat the command")
            if not missing or not re_embed:
                before = memories.generations.current(tx)
                tx.collections.make_current(target.name)
                break
        newly += _embedded(memories, [m for m in changed if m.embed_hash in missing])
    if before is not None:
        memories.generations.forget(before.name)
    return newly


def _swept(memories: Memories) -> None:
    """Drop collections that were replaced, and those that a killed reindex left half built."""
    with memories.ledger.read() as tx:
        left = tx.collections.list((CollectionState.BUILDING, CollectionState.DROPPED))
    for collection in left:
        memories.generations.server.drop(collection.name)
        with memories.ledger.write() as tx:
            tx.collections.forget(collection.name)


def _fill(
    memories: Memories, target: Collection, *, re_embed: bool, progress: Callable[[int], None]
) -> tuple[int, int]:
    index = memories.generations.server.open(target.name, target.dim)
    total = newly = 0
    for page in indexed_pages(memories):
        if re_embed:
            newly += _embedded(memories, page)
        lost = upsert_memories(memories.ledger, index, target.model, page)
        if lost:
            raise IntegrityError(
                f"{len(lost)} memories have no vector of {target.model}, the first is {lost[0]}",
                hint="`kb reindex --embedder` embeds every memory again",
            )
        total += len(page)
        progress(len(page))
    return total, newly


def _embedded(memories: Memories, page: list[Memory]) -> int:
    texts = {m.embed_hash: embedded_as(m) for m in page}
    newly, refused = memories.embed(texts)
    if refused:
        raise EmbedderUnavailable(
            f"the embedder refuses {len(refused)} stored texts: {next(iter(refused.values()))}",
            hint="retire those memories, or use an embedder that takes longer texts",
        )
    return newly


def indexed_pages(memories: Memories) -> Iterator[list[Memory]]:
    """Yield all memories that belong in the index in id order, each page as it is when it is reached."""
    after = ""
    while True:
        with memories.ledger.read() as tx:
            page = tx.memories.page(after, PAGE)
        if not page:
            return
        after = page[-1].id
        indexed = [m for m in page if is_indexed(m)]
        if indexed:
            yield indexed


def ledger_revisions(memories: Memories) -> Iterator[tuple[MemoryId, int]]:
    """Yield (id, rev) of all memories that belong in the index, in id order."""
    after = ""
    while True:
        with memories.ledger.read() as tx:
            page = tx.memories.revisions(after, PAGE)
        if not page:
            return
        yield from page
        after = page[-1][0]
