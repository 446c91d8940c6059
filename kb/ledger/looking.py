"""What has to be looked into: what changed since the last look, fell due, or waits and was used; last checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from kb.history import EdgeKind
from kb.ledger.batches import chunks
from kb.ledger.checks import checked_int, checked_key, checked_keys, checked_text
from kb.ledger.rows import memory_of_row
from kb.ledger.schema import lineage, memories, utility
from kb.ledger.schema_governance import actions
from kb.model import FOREVER, Instant, Kind, MemoryId, SourceClass, Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kb.model import Memory

_M, _L, _A, _U = memories.c, lineage.c, actions.c, utility.c
_IDS: sa.BindParameter[list[str]] = sa.bindparam("ids", expanding=True)
_AT_MOST: sa.BindParameter[int] = sa.bindparam("at_most", type_=sa.Integer)
_AFTER = sa.or_(
    _M.updated_at > sa.bindparam("at"), sa.and_(_M.updated_at == sa.bindparam("at"), _M.id > sa.bindparam("after"))
)
_CHANGED = (
    sa.select(memories)
    .where(
        _M.updated_at >= sa.bindparam("at"),  # the part of the test that an index serves
        _AFTER,
        _M.tenant == sa.bindparam("tenant"),
        _M.standing == Standing.ACTIVE.value,
        _M.source_class != SourceClass.ANSWER.value,
    )
    .order_by(_M.updated_at, _M.id)
    .limit(_AT_MOST)
)
_DUE = (
    sa.select(memories)
    .where(
        _M.tenant == sa.bindparam("tenant"),
        _M.standing == Standing.ACTIVE.value,
        _M.birth < sa.bindparam("now"),  # no anchor is before its birth: a range of the index
        _M.verified,
        _M.anchor < sa.bindparam("now"),
        sa.or_(_M.anchor > sa.bindparam("at"), sa.and_(_M.anchor == sa.bindparam("at"), _M.id > sa.bindparam("after"))),
    )
    .order_by(_M.anchor, _M.id)
    .limit(_AT_MOST)
)
_CHECKED = (
    sa.select(_A.memory_id, sa.func.max(_A.applied_at))
    .where(_A.memory_id.in_(_IDS), _A.reason == sa.bindparam("reason"), _A.applied_at.is_not(None))
    .group_by(_A.memory_id)
)
_USED = (
    sa.select(memories, _U.cited)
    .join(utility, _U.memory_id == _M.id)
    .where(
        _M.tenant == sa.bindparam("tenant"),
        _M.standing == Standing.QUARANTINED.value,
        _M.kind.in_((Kind.WEB.value, Kind.NOTE.value)),
        _M.valid_to == FOREVER,
        _U.cited > 0,
        sa.or_(
            _U.cited < sa.bindparam("cited"), sa.and_(_U.cited == sa.bindparam("cited"), _M.id > sa.bindparam("after"))
        ),
    )
    .order_by(_U.cited.desc(), _M.id)
    .limit(_AT_MOST)
)
_FOUND_BY = sa.select(_L.child, _L.parent).where(_L.child.in_(_IDS), _L.kind == EdgeKind.FOUND.value)
_FINDS = sa.select(_L.parent, _L.child).where(_L.parent.in_(_IDS), _L.kind == EdgeKind.FOUND.value)
_PARENTS = sa.select(_L.child, _L.parent).where(_L.child.in_(_IDS))


class Place(NamedTuple):
    """How far a look got in an order of instants and ids."""

    at: Instant
    id: str


START = Place(-(2**63), "")
MOST_USED = Place(2**62, "")


class Looking:
    """The looks of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def changed(self, tenant: str, after: Place, limit: int) -> list[Memory]:
        """Return at most `limit` active memories that were changed after a place, in order of change and id.

        Answer-keys are none: they say nothing themselves.
        """
        return self._memories(_CHANGED, tenant=tenant, at=after.at, after=after.id, at_most=limit)

    def due(self, tenant: str, now: Instant, limit: int, after: Place = START) -> list[Memory]:
        """Return at most `limit` active verified memories whose hold has ended, those that ended first first."""
        return self._memories(
            _DUE, tenant=tenant, at=after.at, after=after.id, now=checked_int(now, "now"), at_most=limit
        )

    def used(self, tenant: str, limit: int, after: Place = MOST_USED) -> list[tuple[Memory, int]]:
        """Return at most `limit` quarantined findings and notes that answers cited, and how often; most cited first.

        Args:
            tenant: whose.
            limit: of memories.
            after: how often the last one was cited, and its id: the next page.
        """
        named = {"tenant": checked_key(tenant, "tenant"), "cited": after.at, "after": checked_text(after.id, "after")}
        rows = self._connection.execute(_USED, {**named, "at_most": limit})
        return [(memory_of_row(row[:-1]), row[-1]) for row in rows]

    def found_with(self, ids: Iterable[MemoryId]) -> dict[MemoryId, frozenset[MemoryId]]:
        """Return, by id, all that the searches have found which found a memory; what no search found is absent."""
        by_child: dict[str, set[str]] = {}
        for part in chunks(checked_keys(sorted(set(ids)), "id")):
            for child, search in self._connection.execute(_FOUND_BY, {"ids": part}):
                by_child.setdefault(child, set()).add(search)
        by_search: dict[str, set[MemoryId]] = {}
        for part in chunks(sorted({search for searches in by_child.values() for search in searches})):
            for search, child in self._connection.execute(_FINDS, {"ids": part}):
                by_search.setdefault(search, set()).add(MemoryId(child))
        return {
            MemoryId(id_): frozenset(f for search in searches for f in by_search.get(search, ()))
            for id_, searches in by_child.items()
        }

    def last_looked(self, ids: Iterable[MemoryId], reason: str) -> dict[MemoryId, Instant]:
        """Return when an action with this reason was last done to memories; those it never was are absent."""
        found: dict[MemoryId, Instant] = {}
        for part in chunks(checked_keys(sorted(set(ids)), "id")):
            named = {"ids": part, "reason": checked_key(reason, "reason")}
            found.update((MemoryId(row[0]), row[1]) for row in self._connection.execute(_CHECKED, named))
        return found

    def lines(self, ids: Iterable[MemoryId]) -> dict[str, frozenset[str]]:
        """Return, by id, all that each memory was made from, however far; those made from nothing are absent."""
        parents: dict[str, set[str]] = {}
        level: Sequence[str] = checked_keys(sorted(set(ids)), "id")
        asked = list(level)
        while level:
            found: set[str] = set()
            for part in chunks(level):
                for child, parent in self._connection.execute(_PARENTS, {"ids": part}):
                    parents.setdefault(child, set()).add(parent)
                    found.add(parent)
            level = sorted(found - parents.keys() - set(asked))
            parents.update({id_: parents.get(id_, set()) for id_ in level})
        return {id_: line for id_ in asked if (line := _above(id_, parents))}

    def _memories(self, query: sa.Select[tuple[object, ...]], **named: int | str) -> list[Memory]:
        checked_key(str(named["tenant"]), "tenant")
        checked_text(str(named["after"]), "after")
        return [memory_of_row(row) for row in self._connection.execute(query, named)]


def _above(id_: str, parents: dict[str, set[str]]) -> frozenset[str]:
    seen: set[str] = set()
    level = set(parents.get(id_, ()))
    while level:
        seen |= level
        level = {above for one in level for above in parents.get(one, ())} - seen
    return frozenset(seen - {id_})
