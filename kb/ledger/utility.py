"""Utility: how often memories were of use. Informs ranking and review, never truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from kb.ledger.batches import chunks, insert_into
from kb.ledger.checks import checked_int, checked_keys
from kb.ledger.rows_history import utility_of_row
from kb.ledger.schema import utility
from kb.model import MemoryId

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kb.history import Utility
    from kb.model import Instant

_U = utility.c
_GET = sa.select(utility).where(_U.memory_id.in_(sa.bindparam("ids", expanding=True)))


class Utilities:
    """The utility of memories, in one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def bump(
        self,
        *,
        retrieved: Iterable[MemoryId] = (),
        relevant: Iterable[MemoryId] = (),
        cited: Iterable[MemoryId] = (),
        now: Instant,
    ) -> None:
        """Count one answer's use of memories; an id counts once under each word, however often it is given.

        Args:
            retrieved: what was found for the question.
            relevant: what was graded relevant to it.
            cited: what the answer cites.
            now: the instant of the answer.
        """
        checked_int(now, "now")
        given = {"retrieved": retrieved, "relevant": relevant, "cited": cited}
        counted = {word: set(checked_keys(ids, "id")) for word, ids in given.items()}
        rows = [  # in one order everywhere, so that two writers never wait in a ring
            {"memory_id": id_, **{word: int(id_ in ids) for word, ids in counted.items()}, "last_at": now}
            for id_ in sorted(set().union(*counted.values()))
        ]
        if not rows:
            return
        insert = insert_into(self._connection, utility)
        new = insert.excluded
        last = sa.case((new.last_at > _U.last_at, new.last_at), else_=_U.last_at)
        changed = {word: _U[word] + new[word] for word in counted} | {"last_at": last}
        self._connection.execute(insert.on_conflict_do_update(index_elements=["memory_id"], set_=changed), rows)

    def get(self, ids: Iterable[MemoryId]) -> dict[MemoryId, Utility]:
        """Return the counters by id, in the order asked for; a memory that was never of use is absent."""
        wanted = checked_keys(dict.fromkeys(ids), "id")
        found: dict[MemoryId, Utility] = {}
        for part in chunks(wanted):
            rows = self._connection.execute(_GET, {"ids": part})
            found.update((MemoryId(row[0]), utility_of_row(row)) for row in rows)
        return {key: found[key] for key in map(MemoryId, wanted) if key in found}
