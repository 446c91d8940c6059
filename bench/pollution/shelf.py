"""The product's own store for one run: real ledger, real Milvus Lite, real vectors; a clock that moves by the day."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kb.ids import embed_hash
from kb.index.generations import Generations
from kb.index.milvus import open_server
from kb.ledger import open_ledger
from kb.memories import Memories
from kb.model import Kind, Memory, MemoryId, Passage, SourceClass, Standing
from kb.passages import embed_text, embedded_as
from kb.settings import Settings
from kb.trust import DAY_MS, prior

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.vectors import Vectors
    from kb.model import Instant
    from kb.ports import EmbedderIdentity, Vector

TENANT = "default"
BEGIN: Instant = 1_800_000_000_000


class DayClock:
    """Tells the instant it was set to."""

    def __init__(self) -> None:
        self.instant = BEGIN

    def now(self) -> Instant:
        """Return the instant."""
        return self.instant

    def set(self, day: int, step: int = 0) -> None:
        """Move to a day, and within it to a minute."""
        self.instant = BEGIN + day * DAY_MS + step * 60_000


class Shelved:
    """The store's embedder, its vectors taken from those that benchmarks share, so that no run embeds again."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors

    @property
    def identity(self) -> EmbedderIdentity:
        """Of the real embedder."""
        return self._vectors.embedder.identity

    @property
    def max_tokens(self) -> int:
        """Of the real embedder."""
        return self._vectors.embedder.max_tokens

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return each passage's tokens."""
        return self._vectors.embedder.count_tokens(texts)

    def passages(self, texts: Sequence[str]) -> Vector:
        """Return the vectors of passages."""
        return self._stacked(self._vectors.passages(texts))

    def queries(self, texts: Sequence[str]) -> Vector:
        """Return the vectors of questions."""
        return self._stacked(self._vectors.queries(texts))

    def _stacked(self, vectors: list[Vector]) -> Vector:
        return np.stack(vectors) if vectors else np.zeros((0, self.identity.dim), dtype=np.float32)


@contextmanager
def opened(vectors: Vectors, clock: DayClock) -> Iterator[tuple[Memories, Settings]]:
    """Open an empty store in a folder of its own, which is gone afterwards."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pollution-", ignore_cleanup_errors=True)))
        settings = Settings(data_dir=folder, index_idle_seconds=1.0)
        ledger = stack.enter_context(open_ledger(None, data_dir=folder))
        generations = Generations(open_server(settings), ledger)
        stack.callback(generations.close)
        memories = Memories(
            ledger=ledger, generations=generations, embedder=Shelved(vectors), settings=settings, clock=clock
        )
        generations.ensured(memories.embedder.identity, clock.now())
        yield memories, settings


def passage(
    memories: Memories, text: str, *, source: str, kind: Kind, source_class: SourceClass, is_governed: bool
) -> Memory:
    """Return a passage as the store keeps it.

    Args:
        memories: the store.
        text: what it says.
        source: URI it came from.
        kind: document, web or note.
        source_class: whose prior it gets.
        is_governed: the product's own priors and standings; else everything is active, as other stores have it.
    """
    now = memories.clock.now()
    policy = memories.policies[source_class]
    waits = policy.quarantined and is_governed
    return Memory(
        id=MemoryId(embed_hash(f"{source} {now} {text}")[:32]),
        tenant=TENANT,
        kind=kind,
        source_class=source_class,
        source=source,
        text=text,
        trust=prior(policy, now),
        standing=Standing.QUARANTINED if waits else Standing.ACTIVE,
        passage=Passage(end=len(text)),
        embed_hash=embed_hash(embed_text("", (), text)),
        valid_from=now,
        created_at=now,
        updated_at=now,
    )


def keep(memories: Memories, made: Sequence[Memory]) -> list[Memory]:
    """Store passages, each once, and make them findable; return those that are new."""
    if not made:
        return []
    by_id = {m.id: m for m in made}
    memories.embed({m.embed_hash: embedded_as(m) for m in by_id.values()})
    with memories.ledger.write() as tx:
        known = tx.memories.get(by_id)
        new = [m for id_, m in by_id.items() if id_ not in known]
        tx.memories.add(new)
        tx.outbox.mark([m.id for m in new], memories.clock.now())
    memories.projector.drain()
    return new


def drop(memories: Memories, ids: Sequence[MemoryId]) -> None:
    """Take passages out, as a store without governance deletes them."""
    if not ids:
        return
    now = memories.clock.now()
    with memories.ledger.write() as tx:
        live = [m for m in tx.memories.get(ids).values() if m.standing is Standing.ACTIVE]
        tx.memories.replace([replace(m, standing=Standing.RETIRED, updated_at=now, rev=m.rev + 1) for m in live])
        tx.outbox.mark([m.id for m in live], now)
    memories.projector.drain()
