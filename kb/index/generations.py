"""Which collection is the current one: the ledger knows, the server holds it, a missing one is made again.

Milvus Lite has neither alias nor rename, so a collection's name carries schema version, dimension and generation. A
migration, or a new embedder, is a new generation filled from the ledger and then switched to in one ledger transaction.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Protocol

from kb.errors import EmbedderChanged, IndexOutdated, IndexUnavailable
from kb.index.schema import collection_name, is_of_this_schema
from kb.ledger.collections import Collection, CollectionState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.ledger import Ledger
    from kb.ledger.ledger import LedgerTx
    from kb.model import Instant
    from kb.ports import EmbedderIdentity, Index

META_KEY = "ledger_id"


class IndexServer(Protocol):
    """Where collections live."""

    def open(self, name: str, dim: int) -> Index:
        """Return the index over an existing collection; connects at the first call."""
        ...

    def has(self, name: str) -> bool:
        """Return whether the collection exists."""
        ...

    def create(self, name: str, dim: int) -> None:
        """Create the collection, empty; one that exists is left as it is."""
        ...

    def drop(self, name: str) -> None:
        """Drop the collection; one that does not exist is no error."""
        ...

    def scrub(self, names: Sequence[str]) -> None:
        """Leave nothing of deleted rows behind in these collections, as far as the server can do that."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


class Generations:
    """The door to the current collection."""

    def __init__(self, server: IndexServer, ledger: Ledger) -> None:
        self.server = server
        self._ledger = ledger
        self._open: dict[str, Index] = {}

    def current(self, tx: LedgerTx) -> Collection | None:
        """Return the current collection's record, or None before the first write."""
        return tx.collections.current()

    def checked(self, identity: EmbedderIdentity) -> Collection | None:
        """Return the current collection if `identity` may write and search it.

        Raises:
            EmbedderChanged: its vectors came from another model or have another dimension.
        """
        with self._ledger.read() as tx:
            return self.matching(tx, identity)

    def matching(self, tx: LedgerTx, identity: EmbedderIdentity) -> Collection | None:
        """As `checked`, within a transaction: a writer asks in its own, so that no reindex comes between."""
        current = self.current(tx)
        if current is not None and (current.model, current.dim) != (identity.model, identity.dim):
            raise EmbedderChanged(
                f"the stored vectors come from {current.model} ({current.dim} dimensions), "
                f"the configured embedder is {identity.model} ({identity.dim})"
            )
        return current

    def ensured(self, identity: EmbedderIdentity, now: Instant) -> Collection:
        """Return the current collection, made when there is none.

        Raises:
            EmbedderChanged: as `checked`.
        """
        current = self.checked(identity)
        if current is not None:
            return current
        with self._ledger.write() as tx:
            current = self.current(tx)
            if current is None:
                current = generation_of(1, identity, ledger_id(tx), CollectionState.CURRENT, now)
                tx.collections.put(current)
        return current

    def index(self, collection: Collection, now: Instant) -> Index:
        """Return the collection's index. One that the server lost is made anew and its rows queued for projection.

        Raises:
            IndexOutdated: the collection has another schema than this version's.
            IndexUnavailable: the server cannot be reached, or the collection is no longer the current one.
        """
        if not is_of_this_schema(collection.name):
            raise IndexOutdated(f"the index {collection.name} has the schema of another version of kb")
        known = self._open.get(collection.name)
        if known is not None:
            return known
        if not self.server.has(collection.name):
            self._queue_everything(collection, now)  # before it is made: a crash in between repeats both
            self.server.create(collection.name, collection.dim)
        opened = self._open[collection.name] = self.server.open(collection.name, collection.dim)
        return opened

    def _queue_everything(self, collection: Collection, now: Instant) -> None:
        with self._ledger.write() as tx:
            current = self.current(tx)
            if current is None or current.name != collection.name:
                raise IndexUnavailable(f"{collection.name} was replaced by a reindex", hint="repeat the command")
            tx.outbox.mark_everything(now)

    def forget(self, name: str) -> None:
        """Stop using a collection that another process replaced."""
        self._open.pop(name, None)

    def close(self) -> None:
        """Let go of the server."""
        self._open.clear()
        self.server.close()


def generation_of(
    number: int, identity: EmbedderIdentity, owner: str, state: CollectionState, now: Instant
) -> Collection:
    """Return the record of a collection: the first is searched at once, a later one is built and then switched to."""
    return Collection(
        name=collection_name(identity.dim, number, owner),
        model=identity.model,
        dim=identity.dim,
        generation=number,
        state=state,
        created_at=now,
    )


def ledger_id(tx: LedgerTx) -> str:
    """Return this ledger's own id, made at the first call; needs a transaction that may write."""
    known = tx.meta.get(META_KEY)
    if isinstance(known, str):
        return known
    made = uuid.uuid4().hex[:8]
    tx.meta.set(META_KEY, made)
    return made
