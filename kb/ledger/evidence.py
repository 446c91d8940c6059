"""Evidence: the events that moved a memory's confidence, each counted once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from kb.history import SAYS, EvidenceKind, told_by
from kb.ledger.batches import insert_into
from kb.ledger.checks import checked_int, checked_key
from kb.ledger.rows_history import evidence_of_row, row_of_evidence
from kb.ledger.schema import evidence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kb.history import EvidenceEvent
    from kb.model import Instant, MemoryId

_E = evidence.c
_KEY = (_E.memory_id, _E.kind, _E.witness)
_OF_MEMORY = sa.select(evidence).where(_E.memory_id == sa.bindparam("memory_id")).order_by(_E.at, *_KEY)
_SINCE = (
    sa.select(evidence)
    .where(_E.tenant == sa.bindparam("tenant"), _E.at >= sa.bindparam("since"))
    .order_by(_E.at, *_KEY)
)
_TESTIMONY = (
    sa.select(evidence)
    .where(
        _E.tenant == sa.bindparam("tenant"),
        _E.kind.in_([k.value for k in (EvidenceKind.AGREEMENT, EvidenceKind.CONTRADICTION, EvidenceKind.CHECK)]),
    )
    .order_by(*_KEY)
)
_TOLD = _TESTIMONY.where(_E.reason.in_(sa.bindparam("reasons", expanding=True)))
STREAM = 2_000  # rows fetched at a time


class Evidence:
    """The evidence of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, events: Sequence[EvidenceEvent]) -> list[EvidenceEvent]:
        """Keep events; return those that count, in the order given.

        Of events with one (memory, kind, witness) the first counts, whether it was kept before, comes first in this
        call, or is committed first by another writer, for whose end this one waits.

        Raises:
            InputError: a value cannot be stored as it is.
        """
        first: dict[tuple[str, str, str], EvidenceEvent] = {}
        for event in events:
            first.setdefault((event.memory_id, event.kind.value, event.witness), event)
        # in one order everywhere, so that two writers never wait in a ring
        rows = [row_of_evidence(event) for _, event in sorted(first.items())]
        if not rows:
            return []
        insert = insert_into(self._connection, evidence).on_conflict_do_nothing().returning(*_KEY)
        new = {tuple(row) for row in self._connection.execute(insert, rows)}
        return [event for key, event in first.items() if key in new]

    def of_memory(self, memory_id: MemoryId) -> list[EvidenceEvent]:
        """Return a memory's events, oldest first."""
        rows = self._connection.execute(_OF_MEMORY, {"memory_id": checked_key(memory_id, "memory_id")})
        return [evidence_of_row(row) for row in rows]

    def since(self, tenant: str, at: Instant) -> list[EvidenceEvent]:
        """Return a tenant's events at or after an instant, oldest first."""
        named = {"tenant": checked_key(tenant, "tenant"), "since": checked_int(at, "at")}
        return [evidence_of_row(row) for row in self._connection.execute(_SINCE, named)]

    def testimony(self, tenant: str) -> Iterator[EvidenceEvent]:
        """Yield what other memories, and external checks, have said of a tenant's memories, in order of those."""
        query = _TESTIMONY.execution_options(yield_per=STREAM)
        with self._connection.execute(query, {"tenant": checked_key(tenant, "tenant")}) as rows:
            for row in rows:
                yield evidence_of_row(row)

    def told_by(self, tenant: str, memory_id: MemoryId) -> list[EvidenceEvent]:
        """Return what one memory has said of others; looks through the tenant's evidence."""
        reasons = [told_by(checked_key(memory_id, "memory_id"), kind) for kind in SAYS]
        rows = self._connection.execute(_TOLD, {"tenant": checked_key(tenant, "tenant"), "reasons": reasons})
        return [evidence_of_row(row) for row in rows]
