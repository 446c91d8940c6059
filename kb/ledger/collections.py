"""The index's collections, as the ledger knows them: which one is searched, and which is being built or gone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from kb.errors import IntegrityError
from kb.ledger.batches import upsert_into
from kb.ledger.checks import checked_int, checked_key
from kb.ledger.schema import collections

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.model import Instant

_C = collections.c
_ORDERED = sa.select(collections).order_by(_C.generation, _C.name)


class CollectionState(StrEnum):
    """What a collection is used for."""

    BUILDING = "building"  # being filled; not searched
    CURRENT = "current"  # the one that is searched and written
    DROPPED = "dropped"  # no longer used; to be removed from the index, or removed


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """One collection of the index."""

    name: str
    model: str  # embedder's model: the vector space
    dim: int
    generation: int  # grows with every rebuild
    state: CollectionState = CollectionState.BUILDING
    created_at: Instant


class Collections:
    """The collections of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def put(self, collection: Collection) -> None:
        """Insert or replace a collection.

        Raises:
            IntegrityError: another one is current.
            InputError: a value cannot be stored as it is.
        """
        row = {
            "name": checked_key(collection.name, "name"),
            "model": checked_key(collection.model, "model"),
            "dim": collection.dim,
            "generation": checked_int(collection.generation, "generation"),
            "state": collection.state.value,
            "created_at": checked_int(collection.created_at, "created_at"),
        }
        self._connection.execute(upsert_into(self._connection, collections), row)

    def get(self, name: str) -> Collection | None:
        """Return a collection, None when there is none."""
        row = self._connection.execute(sa.select(collections).where(_C.name == checked_key(name, "name"))).first()
        return None if row is None else _collection_of_row(row)

    def current(self) -> Collection | None:
        """Return the collection that is searched, None before the first."""
        found = self.list((CollectionState.CURRENT,))
        return found[0] if found else None

    def list(self, states: Sequence[CollectionState] = ()) -> list[Collection]:
        """Return the collections by generation; all, or those in `states`."""
        query = _ORDERED.where(_C.state.in_([state.value for state in states])) if states else _ORDERED
        return [_collection_of_row(row) for row in self._connection.execute(query)]

    def next_generation(self) -> int:
        """Return the generation a new collection gets: one above all known, from 1."""
        highest = self._connection.execute(sa.select(sa.func.max(_C.generation))).scalar()
        return int(highest or 0) + 1

    def make_current(self, name: str) -> None:
        """Switch the search to a collection; the one before is dropped in the same step.

        Raises:
            IntegrityError: there is no such collection.
        """
        before = _C.state == CollectionState.CURRENT.value
        self._connection.execute(
            sa.update(collections).where(before, _C.name != name).values(state=CollectionState.DROPPED.value)
        )
        self._set_state(name, CollectionState.CURRENT)

    def drop(self, name: str) -> None:
        """Mark a collection as no longer used.

        Raises:
            IntegrityError: there is no such collection.
        """
        self._set_state(name, CollectionState.DROPPED)

    def forget(self, name: str) -> bool:
        """Delete the row of a collection that the index no longer has; return whether there was one."""
        query = sa.delete(collections).where(_C.name == checked_key(name, "name"))
        return self._connection.execute(query).rowcount > 0

    def _set_state(self, name: str, state: CollectionState) -> None:
        query = sa.update(collections).where(_C.name == checked_key(name, "name")).values(state=state.value)
        if self._connection.execute(query).rowcount == 0:
            raise IntegrityError(f"there is no collection {name}")


def _collection_of_row(row: Sequence[Any]) -> Collection:
    return Collection(
        name=row[0],
        model=row[1],
        dim=row[2],
        generation=row[3],
        state=CollectionState(row[4]),
        created_at=row[5],
    )
