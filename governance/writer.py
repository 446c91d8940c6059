"""The one way in which an effect changes rows: each change keeps an image of its row and marks the outbox."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from governance import images
from kb.errors import IntegrityError
from kb.sweeps import Image, ImageKind, Tombstone

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kb.history import EvidenceEvent
    from kb.ledger.ledger import LedgerTx
    from kb.model import Document, DocumentId, Instant, Json, Memory
    from kb.sweeps import Contradiction, SweepId, TombstoneKind


class Writer:
    """Changes rows in one transaction on behalf of one action.

    Args:
        tx: the transaction; effects read through it, and write through the writer alone.
        sweep_id: the sweep that tombstones are credited to.
        now: the instant of the change.
    """

    def __init__(self, tx: LedgerTx, sweep_id: SweepId, now: Instant) -> None:
        self.tx = tx
        self.sweep_id = sweep_id
        self.now = now
        self._images: list[Image] = []

    def images(self) -> list[Image]:
        """Return the rows that were changed, in the order in which they were."""
        return list(self._images)

    def put_memory(self, before: Memory, after: Memory) -> Memory:
        """Write a memory over its predecessor and return it as it is stored. One that is the same is left alone.

        The writer sets `rev` and `updated_at`: both only grow.

        Raises:
            StaleRevision: somebody else has changed it since `before` was read.
            IntegrityError: something changed that an image does not hold, and so could not be put back.
        """
        stored = replace(after, rev=before.rev + 1, updated_at=max(self.now, before.updated_at))
        was, becomes = images.memory_columns(before), images.memory_columns(stored)
        if images.memory_with(before, becomes) != _readable(
            replace(stored, rev=before.rev, updated_at=before.updated_at)
        ):
            raise IntegrityError(f"governance may not change other columns of memory {before.id}")
        if images.same(was, becomes):
            return before
        self.tx.memories.replace([stored])
        self.tx.outbox.mark([before.id], self.now)
        self._keep(ImageKind.MEMORY, before.id, was, becomes)
        return stored

    def remove_memory(self, before: Memory) -> None:
        """Delete a memory for good. Its image holds no text, so nobody can put it back."""
        self.tx.memories.remove([before.id])
        self.tx.outbox.mark([before.id], self.now)
        self._keep(ImageKind.MEMORY, before.id, images.memory_columns(before), None)

    def put_document(self, before: Document, after: Document) -> Document:
        """Write a document over its predecessor and return it as it is stored. One that is the same is left alone.

        Raises:
            IntegrityError: another live document has its source, or something changed that an image does not hold.
        """
        stored = replace(after, updated_at=max(self.now, before.updated_at))
        was, becomes = images.document_columns(before), images.document_columns(stored)
        if images.document_with(before, becomes) != replace(stored, updated_at=before.updated_at):
            raise IntegrityError(f"governance may not change other columns of document {before.id}")
        if images.same(was, becomes):
            return before
        self.tx.documents.put(stored)
        self._keep(ImageKind.DOCUMENT, before.id, was, becomes)
        return stored

    def put_version(self, doc_id: DocumentId, version: int, superseded_at: Instant | None) -> None:
        """Set when a version was superseded; None: it stands.

        Raises:
            IntegrityError: there is no such version.
        """
        known = self.tx.sweeping.superseded_at(doc_id, version)
        if known is None:
            raise IntegrityError(f"document {doc_id} has no version {version}")
        if known[0] == superseded_at:
            return
        self.tx.sweeping.supersede(doc_id, version, superseded_at)
        was, becomes = images.version_columns(known[0]), images.version_columns(superseded_at)
        self._keep(ImageKind.VERSION, images.key_of(doc_id, version), was, becomes)

    def add_evidence(self, events: Sequence[EvidenceEvent]) -> list[EvidenceEvent]:
        """Keep events; return those that are new, in the order given."""
        new = self.tx.evidence.add(events)
        for event in new:
            self._keep(ImageKind.EVIDENCE, images.evidence_key(event), None, images.evidence_columns(event))
        return new

    def remove_evidence(self, event: EvidenceEvent) -> None:
        """Take an event back, so that its witness may be heard again."""
        if self.tx.sweeping.remove_event(event.memory_id, event.kind, event.witness):
            self._keep(ImageKind.EVIDENCE, images.evidence_key(event), images.evidence_columns(event), None)

    def add_tombstones(
        self, tenant: str, kind: TombstoneKind, values: Iterable[str], *, is_erased: bool = False, reason: str = ""
    ) -> list[Tombstone]:
        """Leave a tombstone for each value; return those that are new, or taken over from an earlier sweep.

        One that is taken over goes back to that sweep when this one is undone, and keeps that one from being undone
        first: what two sweeps hold down, comes back only when both are undone.
        """
        wanted = list(dict.fromkeys(values))
        known = {t.mark: t for t in self.tx.tombstones.among(tenant, kind, wanted).values()}
        left = self.tx.tombstones.add(
            tenant, kind, wanted, sweep_id=self.sweep_id, is_erased=is_erased, reason=reason, at=self.now
        )
        for tombstone in left:
            self._keep_tombstone(known.get(tombstone.mark), tombstone)
        return left

    def remove_tombstones(self, tenant: str, kind: TombstoneKind, values: Iterable[str]) -> list[Tombstone]:
        """Take the values' tombstones away, but those of what was erased; return those that were there."""
        known = self.tx.tombstones.among(tenant, kind, values).values()
        gone = list({t.mark: t for t in known if not t.is_erased}.values())
        for tombstone in gone:
            self.put_tombstone(tombstone, None)
        return gone

    def put_tombstone(self, before: Tombstone | None, after: Tombstone | None) -> None:
        """Put a tombstone where another, or none, was; None: take it away."""
        if after is not None:
            self.tx.tombstones.put([after])
        elif before is not None:
            self.tx.tombstones.remove([before])
        self._keep_tombstone(before, after)

    def add_contradictions(self, found: Sequence[Contradiction]) -> list[Contradiction]:
        """Keep contradictions; return those that are new."""
        new = self.tx.contradictions.add(found)
        for contradiction in new:
            self._keep_contradiction(None, contradiction)
        return new

    def settle(self, contradictions: Iterable[Contradiction], by: str) -> list[Contradiction]:
        """Record that contradictions are settled; return those that were open."""
        open_ = [c for c in contradictions if c.settled_at is None]
        for contradiction in open_:
            self.put_contradiction(contradiction, replace(contradiction, settled_at=self.now, settled_by=by))
        return open_

    def put_contradiction(self, before: Contradiction, after: Contradiction | None) -> None:
        """Write how a contradiction is settled, or that it is open again; None: take it away."""
        if after is None:
            self.tx.contradictions.forget([before])
        else:
            self.tx.contradictions.settle([before], by=after.settled_by, at=after.settled_at)
        self._keep_contradiction(before, after)

    def _keep_tombstone(self, before: Tombstone | None, after: Tombstone | None) -> None:
        named = after or before
        if named is not None and before != after:
            was = None if before is None else images.tombstone_columns(before)
            becomes = None if after is None else images.tombstone_columns(after)
            self._keep(ImageKind.TOMBSTONE, images.tombstone_key(named), was, becomes)

    def _keep_contradiction(self, before: Contradiction | None, after: Contradiction | None) -> None:
        named = after or before
        if named is not None and before != after:
            was = None if before is None else images.contradiction_columns(before)
            becomes = None if after is None else images.contradiction_columns(after)
            self._keep(ImageKind.CONTRADICTION, images.contradiction_key(named), was, becomes)

    def _keep(
        self, kind: ImageKind, key: str, before: Mapping[str, Json] | None, after: Mapping[str, Json] | None
    ) -> None:
        self._images.append(Image(kind=kind, key=key, before=before, after=after))


def _readable(memory: Memory) -> Memory:
    """Return a memory as it comes back from the ledger: what it shows to others is kept in thousandths."""
    return images.memory_with(memory, images.memory_columns(memory))
