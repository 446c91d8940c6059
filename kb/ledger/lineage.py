"""Lineage: who was derived from whom, one step at a time or all the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from kb.ledger.batches import chunks, insert_into
from kb.ledger.checks import checked_key, checked_keys
from kb.ledger.rows_history import edge_of_row, row_of_edge
from kb.ledger.schema import lineage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kb.history import Edge, EdgeKind

_L = lineage.c
_IDS: sa.BindParameter[list[str]] = sa.bindparam("ids", expanding=True)
_PARENTS = sa.select(lineage).where(_L.child == sa.bindparam("id")).order_by(_L.at, _L.parent, _L.kind)
_CHILDREN = sa.select(lineage).where(_L.parent == sa.bindparam("id")).order_by(_L.at, _L.child, _L.kind)
_UP = sa.select(_L.parent).where(_L.child.in_(_IDS)).distinct()
_DOWN = sa.select(_L.child).where(_L.parent.in_(_IDS)).distinct()
_REMOVE = sa.delete(lineage).where(_L.child == sa.bindparam("id"), _L.kind == sa.bindparam("kind"))


class Lineage:
    """The lineage of one transaction. Ids are of memories or answers."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, edges: Sequence[Edge]) -> None:
        """Keep steps; one that is there already stays as it is, with its first instant.

        Raises:
            InputError: a value cannot be stored as it is.
        """
        first: dict[tuple[str, str, EdgeKind], Edge] = {}
        for edge in edges:
            first.setdefault((edge.parent, edge.child, edge.kind), edge)
        # in one order everywhere, so that two writers never wait in a ring
        rows = [row_of_edge(edge) for _, edge in sorted(first.items())]
        if rows:
            self._connection.execute(insert_into(self._connection, lineage).on_conflict_do_nothing(), rows)

    def remove(self, child: str, kind: EdgeKind) -> int:
        """Forget the steps of one kind to a child, which is to get others; return how many there were."""
        named = {"id": checked_key(child, "child"), "kind": kind.value}
        return self._connection.execute(_REMOVE, named).rowcount

    def parents(self, child: str) -> list[Edge]:
        """Return the steps that lead to `child`, oldest first."""
        rows = self._connection.execute(_PARENTS, {"id": checked_key(child, "child")})
        return [edge_of_row(row) for row in rows]

    def children(self, parent: str) -> list[Edge]:
        """Return the steps that lead on from `parent`, oldest first."""
        rows = self._connection.execute(_CHILDREN, {"id": checked_key(parent, "parent")})
        return [edge_of_row(row) for row in rows]

    def ancestors(self, ids: Iterable[str]) -> dict[str, int]:
        """Return all that `ids` were derived from, however far, with the fewest steps to each: at least 1.

        The nearest come first, those of one distance in order of their ids. The ids asked for are not among them,
        not even when one was derived from another, or from itself in a circle.
        """
        return self._reached(ids, _UP)

    def descendants(self, ids: Iterable[str]) -> dict[str, int]:
        """Return all that was derived from `ids`, however far, in the way of `ancestors`."""
        return self._reached(ids, _DOWN)

    def _reached(self, ids: Iterable[str], step: sa.Select[Any]) -> dict[str, int]:
        level = checked_keys(dict.fromkeys(ids), "id")
        distances = dict.fromkeys(level, 0)
        distance = 0
        while level:
            distance += 1
            found: set[str] = set()
            for part in chunks(level):
                found.update(self._connection.execute(step, {"ids": part}).scalars())
            level = sorted(found - distances.keys())
            distances.update(dict.fromkeys(level, distance))
        return {id_: away for id_, away in distances.items() if away}
