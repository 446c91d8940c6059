"""What only a sweep does to rows: locks them in one order, opens a version again, takes evidence back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from kb.ledger.batches import chunks
from kb.ledger.checks import checked_int, checked_int_or_none, checked_key, checked_keys
from kb.ledger.rows_history import evidence_of_row
from kb.ledger.schema import evidence, memories, versions
from kb.model import Standing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kb.history import EvidenceEvent, EvidenceKind
    from kb.model import DocumentId, Instant, MemoryId

_M, _V, _E = memories.c, versions.c, evidence.c
_IDS: sa.BindParameter[list[str]] = sa.bindparam("ids", expanding=True)
_REVS = sa.select(_M.id, _M.rev, _M.tenant).where(_M.id.in_(_IDS)).order_by(_M.id)
_LOCKED = _REVS.with_for_update()
_HELD = _REVS.with_for_update(read=True)
_OTHER_LIVE = (
    sa.select(_M.id)
    .where(
        _M.doc_id == sa.bindparam("doc_id"),
        _M.standing == Standing.ACTIVE.value,
        _M.id != sa.bindparam("but"),
    )
    .limit(1)
)
_VERSION = sa.and_(_V.doc_id == sa.bindparam("at_doc"), _V.version == sa.bindparam("at_version"))
_SUPERSEDED = sa.select(_V.superseded_at).where(_VERSION)
_SUPERSEDE = sa.update(versions).where(_VERSION).values(superseded_at=sa.bindparam("new_at"))
_EVENT = sa.and_(
    _E.memory_id == sa.bindparam("at_memory"),
    _E.kind == sa.bindparam("at_kind"),
    _E.witness == sa.bindparam("at_witness"),
)
_GET_EVENT = sa.select(evidence).where(_EVENT)
_REMOVE_EVENT = sa.delete(evidence).where(_EVENT)


class Sweeping:
    """Rows of one transaction as a sweep needs them."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def revisions(self, ids: Iterable[str], tenant: str, *, is_locking: bool = False) -> dict[str, int]:
        """Return the revisions of a tenant's memories that exist, by id.

        Args:
            ids: of memories.
            tenant: whose; another tenant's memory is none.
            is_locking: nobody else may change them before this transaction ends. They are locked in the one order
                that every writer keeps, so that two never wait in a ring.
        """
        found: dict[str, int] = {}
        for part in chunks(checked_keys(sorted(set(ids)), "id")):
            rows = self._connection.execute(_LOCKED if is_locking else _REVS, {"ids": part})
            found.update((row[0], row[1]) for row in rows if row[2] == tenant)
        return found

    def hold(self, ids: Iterable[str]) -> None:
        """Let no sweep change these memories before this transaction ends: something is written from them.

        A sweep that comes at the same time is waited for, or waits and finds what was written.
        """
        for part in chunks(checked_keys(sorted(set(ids)), "id")):
            self._connection.execute(_HELD, {"ids": part}).all()

    def has_other_live(self, doc_id: DocumentId, but: MemoryId) -> bool:
        """Return whether a document has an active memory beside this one."""
        named = {"doc_id": checked_key(doc_id, "doc_id"), "but": checked_key(but, "id")}
        return self._connection.execute(_OTHER_LIVE, named).first() is not None

    def superseded_at(self, doc_id: DocumentId, version: int) -> tuple[Instant | None] | None:
        """Return when a version was superseded, in a tuple of one; None when there is no such version."""
        row = self._connection.execute(_SUPERSEDED, {"at_doc": doc_id, "at_version": version}).first()
        return None if row is None else (row[0],)

    def supersede(self, doc_id: DocumentId, version: int, at: Instant | None) -> bool:
        """Set when a version was superseded; None opens it again. Return whether there is such a version."""
        named = {
            "at_doc": checked_key(doc_id, "doc_id"),
            "at_version": checked_int(version, "version"),
            "new_at": checked_int_or_none(at, "at"),
        }
        return self._connection.execute(_SUPERSEDE, named).rowcount > 0

    def event(self, memory_id: MemoryId, kind: EvidenceKind, witness: str) -> EvidenceEvent | None:
        """Return one event of evidence, None when it was not kept."""
        row = self._connection.execute(_GET_EVENT, _named(memory_id, kind, witness)).first()
        return None if row is None else evidence_of_row(row)

    def remove_event(self, memory_id: MemoryId, kind: EvidenceKind, witness: str) -> bool:
        """Take one event of evidence away, so that its witness may be heard again; return whether it was there."""
        return self._connection.execute(_REMOVE_EVENT, _named(memory_id, kind, witness)).rowcount > 0


def _named(memory_id: MemoryId, kind: EvidenceKind, witness: str) -> dict[str, str]:
    return {
        "at_memory": checked_key(memory_id, "memory_id"),
        "at_kind": kind.value,
        "at_witness": checked_key(witness, "witness"),
    }
