"""The outbox: memories whose rows in the index may not agree with the ledger yet.

An entry says "make the index agree with the ledger about this id", whatever the ledger says when it is read: entries
may repeat, and applying one twice is harmless. Numbers are never reused, so clearing what was applied never clears a
newer entry of the same memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from kb.ledger.batches import chunks
from kb.ledger.checks import checked_int, checked_keys
from kb.ledger.schema import memories, outbox
from kb.model import Instant, MemoryId, Standing

if TYPE_CHECKING:
    from collections.abc import Iterable

_O = outbox.c
_PENDING = sa.select(_O.seq, _O.memory_id).order_by(_O.seq).limit(sa.bindparam("at_most", type_=sa.Integer))
_CLEAR = sa.delete(outbox).where(_O.seq.in_(sa.bindparam("seqs", expanding=True)))
_LAG = sa.select(sa.func.count(), sa.func.min(_O.marked_at)).select_from(outbox)


class Lag(NamedTuple):
    """How far the index is behind."""

    count: int  # type: ignore[assignment] # the word for it, though tuples have a method of this name
    oldest: Instant | None  # when the oldest entry was marked


class Outbox:
    """The outbox of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def mark(self, ids: Iterable[MemoryId], at: Instant) -> None:
        """Enter memories that this transaction changes, each once, in the order given."""
        checked_int(at, "at")
        rows = [{"memory_id": key, "marked_at": at} for key in checked_keys(dict.fromkeys(ids), "id")]
        if rows:
            self._connection.execute(sa.insert(outbox), rows)

    def mark_everything(self, at: Instant) -> None:
        """Enter every memory that belongs in the index, for an index that was lost."""
        named = sa.literal(checked_int(at, "at"), sa.BigInteger)
        belong = sa.select(memories.c.id, named).where(memories.c.standing != Standing.RETIRED.value)
        query = sa.insert(outbox).from_select(["memory_id", "marked_at"], belong.order_by(memories.c.id))
        self._connection.execute(query)

    def pending(self, limit: int) -> list[tuple[int, MemoryId]]:
        """Return at most `limit` (number, id) pairs, oldest first."""
        return [(row[0], MemoryId(row[1])) for row in self._connection.execute(_PENDING, {"at_most": limit})]

    def clear(self, seqs: Iterable[int]) -> int:
        """Remove entries that were applied; return how many were there."""
        numbers = [checked_int(seq, "seq") for seq in seqs]
        return sum(self._connection.execute(_CLEAR, {"seqs": part}).rowcount for part in chunks(numbers))

    def lag(self) -> Lag:
        """Return how many entries wait and since when."""
        row = self._connection.execute(_LAG).one()
        return Lag(row[0], row[1])
