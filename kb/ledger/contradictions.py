"""Contradictions: pairs of live memories that say different things, until somebody settles them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from kb.ledger.batches import chunks, insert_into
from kb.ledger.checks import checked_int, checked_int_or_none, checked_key, checked_keys, checked_text
from kb.ledger.schema_governance import contradictions
from kb.sweeps import Contradiction

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from kb.model import Instant

_C = contradictions.c
_IDS: sa.BindParameter[list[str]] = sa.bindparam("ids", expanding=True)
_ORDER = (_C.found_at, _C.one, _C.other, _C.kind)
_OF = sa.select(contradictions).where(sa.or_(_C.one.in_(_IDS), _C.other.in_(_IDS))).order_by(*_ORDER)
_OPEN = (
    sa.select(contradictions)
    .where(_C.tenant == sa.bindparam("tenant"), _C.settled_at.is_(None))
    .order_by(*_ORDER)
    .limit(sa.bindparam("at_most", type_=sa.Integer))
)
_REMOVE = sa.delete(contradictions).where(sa.or_(_C.one.in_(_IDS), _C.other.in_(_IDS)))
_KEY = sa.and_(
    _C.one == sa.bindparam("at_one"), _C.other == sa.bindparam("at_other"), _C.kind == sa.bindparam("at_kind")
)
_FORGET = sa.delete(contradictions).where(_KEY)
_PUT = (
    sa.update(contradictions).where(_KEY).values(settled_at=sa.bindparam("new_at"), settled_by=sa.bindparam("new_by"))
)


class Contradictions:
    """The contradictions of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, found: Sequence[Contradiction]) -> list[Contradiction]:
        """Keep contradictions; return those that are new. One that is known stays as it is, settled or open.

        Raises:
            InputError: a value cannot be stored as it is.
        """
        first: dict[tuple[str, str, str], Contradiction] = {}
        for c in found:
            first.setdefault((c.one, c.other, c.kind), c)
        rows = [_row(c) for _, c in sorted(first.items())]
        if not rows:
            return []
        insert = insert_into(self._connection, contradictions).on_conflict_do_nothing()
        returning = insert.returning(_C.one, _C.other, _C.kind)
        new = {tuple(row) for row in self._connection.execute(returning, rows)}
        return [c for key, c in first.items() if key in new]

    def of_memories(self, ids: Iterable[str], *, is_open: bool | None = None) -> list[Contradiction]:
        """Return the contradictions that any of these memories is a side of, oldest first; None: open and settled."""
        found: dict[tuple[str, str, str], Contradiction] = {}
        for part in chunks(checked_keys(dict.fromkeys(ids), "id")):
            for row in self._connection.execute(_OF, {"ids": part}):
                found[(row[1], row[2], row[3])] = _of_row(row)
        return [c for c in found.values() if is_open is None or (c.settled_at is None) is is_open]

    def open(self, tenant: str, limit: int = 1_000) -> list[Contradiction]:
        """Return a tenant's open contradictions, oldest first."""
        named = {"tenant": checked_key(tenant, "tenant"), "at_most": limit}
        return [_of_row(row) for row in self._connection.execute(_OPEN, named)]

    def settle(self, settled: Iterable[Contradiction], *, by: str, at: Instant | None) -> int:
        """Record that contradictions are settled, or open again with `at` None; return how many there were."""
        new = {"new_at": checked_int_or_none(at, "at"), "new_by": checked_text(by, "by")}
        keys = [{"at_one": c.one, "at_other": c.other, "at_kind": c.kind, **new} for c in settled]
        return sum(self._connection.execute(_PUT, key).rowcount for key in keys)

    def forget(self, forgotten: Iterable[Contradiction]) -> int:
        """Forget these contradictions alone; return how many there were."""
        keys = [{"at_one": c.one, "at_other": c.other, "at_kind": c.kind} for c in forgotten]
        return sum(self._connection.execute(_FORGET, key).rowcount for key in keys)

    def remove(self, ids: Iterable[str]) -> int:
        """Forget every contradiction that any of these memories is a side of; return how many there were."""
        wanted = checked_keys(dict.fromkeys(ids), "id")
        return sum(self._connection.execute(_REMOVE, {"ids": part}).rowcount for part in chunks(wanted))


def _row(c: Contradiction) -> dict[str, Any]:
    one, other = checked_key(c.one, "one"), checked_key(c.other, "other")
    return {
        "tenant": checked_key(c.tenant, "tenant"),
        "one": one,
        "other": other,
        "kind": checked_key(c.kind, "kind"),
        "one_value": checked_text(c.one_value, "one_value"),
        "other_value": checked_text(c.other_value, "other_value"),
        "found_at": checked_int(c.found_at, "found_at"),
        "settled_at": checked_int_or_none(c.settled_at, "settled_at"),
        "settled_by": checked_text(c.settled_by, "settled_by"),
    }


def _of_row(row: Sequence[Any]) -> Contradiction:
    return Contradiction(
        tenant=row[0],
        one=row[1],
        other=row[2],
        kind=row[3],
        one_value=row[4],
        other_value=row[5],
        found_at=row[6],
        settled_at=row[7],
        settled_by=row[8],
    )
