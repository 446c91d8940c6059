"""Writes of ingestion, each one ledger transaction: of old and new version exactly one is retrievable at any instant.

A changed document takes two: *stage* puts its new passages into the ledger as staged and into the index as active,
where the ledger still hides them; *switch* makes them current and supersedes the old ones in one transaction. A crash
between the two leaves staged rows that the next run of this source clears.
"""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from ingest.version import due_for_renewal, ended
from kb.erased import spoken_by
from kb.errors import InputError, IntegrityError, StaleRevision
from kb.ledger.barring import barred_documents, barred_texts
from kb.model import FOREVER, Standing
from kb.sweeps import ActionKind
from kb.telemetry import Span, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ingest.version import VersionChange
    from kb.ledger.barring import Bar
    from kb.ledger.ledger import LedgerTx
    from kb.memories import Memories
    from kb.model import Document, DocumentId, Failure, Instant, Memory, MemoryId


TRIES = 5  # of a write that others come in between of
P = ParamSpec("P")
R = TypeVar("R")


def repeated(write: Callable[P, R]) -> Callable[P, R]:
    """Return a write that reads and writes again when somebody else changed its memories in between.

    SQLite has one writer at a time; PostgreSQL lets another commit between the reading and the writing.
    """

    @wraps(write)
    def again(*args: P.args, **kwargs: P.kwargs) -> R:
        for _ in range(TRIES - 1):
            try:
                return write(*args, **kwargs)
            except StaleRevision:
                continue
        return write(*args, **kwargs)

    return again


class Store:
    """The effects of one source's sync."""

    def __init__(self, memories: Memories, tenant: str, root: str, run_id: str) -> None:
        self._memories = memories
        self._ledger = memories.ledger
        self._tenant = tenant
        self._root = root
        self._run_id = run_id

    def apply(self, change: VersionChange, now: Instant) -> None:
        """Store a document's version, visible at once as a whole."""
        with span(Span.INGEST_SWITCH):
            if not change.is_switch:
                self._switch(change, now)
                return
            left = self._staged(change, now)
            try:
                self._switch(left, now)
            except (InputError, IntegrityError):
                self._unstaged(left, now)  # words that may not come must not lie there until the next run
                raise

    def _staged(self, change: VersionChange, now: Instant) -> VersionChange:
        """Write what comes, hidden by the ledger, to ledger and index; return the change that is left to switch."""
        back = [m for m in change.changed if m.id in change.revived]
        added = [replace(m, standing=Standing.STAGED) for m in change.added]
        with self._ledger.write() as tx:
            tx.tombstones.hold(self._tenant)
            self._refuse_rolled_back(tx, change)
            self._refuse_bereft(tx, (*added, *back))
            was = tx.memories.get([m.id for m in back])
            # What comes back keeps its closed interval while staged: the past still has it, and a crash can undo it.
            hidden = [_hidden(m, was.get(m.id, m)) for m in back]
            self._refuse_another_embedder(tx)
            tx.memories.add(added)
            tx.memories.replace(hidden)
            tx.outbox.mark([m.id for m in (*added, *hidden)], now)
        self._memories.projector.project_staged([*added, *hidden])
        return replace(
            change,
            added=(),
            changed=(
                *(m for m in change.changed if m.id not in change.revived),
                *(replace(m, rev=m.rev + 1) for m in (*change.added, *back)),
            ),
        )

    def _unstaged(self, change: VersionChange, now: Instant) -> None:
        """Take back what was staged for a version that cannot be switched in."""
        with self._ledger.write() as tx:
            found = tx.memories.get([m.id for m in change.changed])
            _unstage(tx, [m for m in found.values() if m.standing is Standing.STAGED], now)

    def _switch(self, change: VersionChange, now: Instant) -> None:
        document = change.document
        since = document.updated_at  # its memories' own instant: version and passages begin and end as one
        touched = (*change.added, *change.changed, *change.superseded)
        with self._ledger.write() as tx:
            tx.tombstones.hold(self._tenant)
            self._refuse_another_embedder(tx)
            self._refuse_rolled_back(tx, change)
            self._refuse_bereft(tx, change.added)
            tx.memories.replace((*change.changed, *change.superseded))
            before = tx.documents.get(document.id, is_locking=True)
            if not _is_same(before, change.before):
                raise StaleRevision(f"document {document.id} was changed meanwhile")
            tx.documents.put(document)
            if before is None or before.version != document.version:
                if before is not None:
                    tx.documents.close_version(document.id, before.version, since)
                tx.documents.add_version(
                    document.id,
                    document.version,
                    fingerprint=document.fingerprint,
                    memory_ids=document.memory_ids,
                    at=since,
                    run_id=self._run_id,
                )
            tx.memories.add(change.added)
            tx.outbox.mark([m.id for m in touched], now)
            tx.failures.clear(self._tenant, document.source)

    def _refuse_another_embedder(self, tx: LedgerTx) -> None:
        """A reindex may have switched to another embedder since this run's texts were embedded."""
        self._memories.generations.matching(tx, self._memories.embedder.identity)

    def _refuse_rolled_back(self, tx: LedgerTx, change: VersionChange) -> None:
        """A rollback may have come after this version was prepared; the next run looks at it anew.

        Raises:
            StaleRevision: words that would become retrievable must not come back any more.
        """
        made, doc_id = change.document.fingerprint, change.document.id
        held = {m.text for m in (*change.added, *change.changed)} & change.kept_out.keys()
        bars = self._barred(tx, doc_id, change.coming | held)
        if barred_documents(tx, self._tenant, [made.raw, made.content]) or bars.keys() & change.coming:
            raise StaleRevision(f"document {doc_id} holds what was rolled back or erased meanwhile")
        if any(bar.tombstone.is_erased for bar in bars.values()):  # what was to wait must not be stored at all by now
            raise StaleRevision(f"document {doc_id} holds what was erased meanwhile")

    def _barred(self, tx: LedgerTx, doc_id: DocumentId, texts: Iterable[str]) -> Mapping[str, Bar]:
        """Return the texts that tombstones keep out, but those that the document says by now in good passages."""
        at_first = barred_texts(tx, self._tenant, texts)
        if not at_first:
            return at_first
        good = (m.text for m in tx.memories.of_document(doc_id, (Standing.ACTIVE,)))
        return barred_texts(tx, self._tenant, at_first, spoken=spoken_by(good))

    def _refuse_bereft(self, tx: LedgerTx, coming: Sequence[Memory]) -> None:
        """An erasure may have taken a vector, with the last memory that had these words, since they were embedded.

        Raises:
            StaleRevision: a passage would be in the ledger and in no index.
        """
        model = self._memories.embedder.identity.model
        if tx.embeddings.missing(model, [m.embed_hash for m in coming], is_holding=True):
            raise StaleRevision("a vector was erased meanwhile")

    def touch(self, document: Document) -> None:
        """Note new size and times of a document whose bytes are the same.

        One that was rolled back or put back meanwhile is left to the next run, which reads its file again.
        """
        with self._ledger.write() as tx:
            if _is_same(tx.documents.get(document.id, is_locking=True), document):
                tx.documents.put(document)
                tx.failures.clear(self._tenant, document.source)

    def forget(self, sources: Sequence[str]) -> None:
        """Forget the failures of files that are as they were stored, or gone."""
        if sources:
            with self._ledger.write() as tx:
                for source in sources:
                    tx.failures.clear(self._tenant, source)

    @repeated
    def rename(self, document: Document, now: Instant) -> None:
        """Give a document, and its memories, their new address.

        Raises:
            StaleRevision: it was rolled back or put back meanwhile.
        """
        with self._ledger.write() as tx:
            moved = [
                replace(m, source=document.source, updated_at=now, rev=m.rev + 1)
                for m in tx.memories.of_document(document.id)
                if m.valid_to == FOREVER
            ]
            tx.memories.replace(moved)
            if not _is_same(tx.documents.get(document.id, is_locking=True), document):
                raise StaleRevision(f"document {document.id} was changed meanwhile")
            tx.documents.put(document)
            tx.outbox.mark([m.id for m in moved], now)
            tx.failures.clear(self._tenant, document.source)

    @repeated
    def remove(self, document: Document, now: Instant) -> int:
        """Supersede a deleted document's memories; return how many. The ledger keeps them, and the past finds them.

        Raises:
            StaleRevision: it was rolled back or put back meanwhile; the next run looks at it anew.
        """
        with self._ledger.write() as tx:
            lost = [
                ended(m, now, "its document was deleted")
                for m in tx.memories.of_document(document.id)
                if m.valid_to == FOREVER
            ]
            tx.memories.replace(lost)
            if not _is_same(tx.documents.get(document.id, is_locking=True), document):
                raise StaleRevision(f"document {document.id} was changed meanwhile")
            tx.documents.put(replace(document, deleted_at=now, updated_at=now))
            tx.documents.close_version(document.id, document.version, now)
            tx.outbox.mark([m.id for m in lost], now)
            tx.failures.clear(self._tenant, document.source)
        return len(lost)

    @repeated
    def renew(self, ids: Sequence[MemoryId], now: Instant) -> int:
        """Renew memories of unchanged documents, as far as they are still due; return how many were."""
        if not ids:
            return 0
        with self._ledger.write() as tx:
            tx.sweeping.revisions(ids, self._tenant, is_locking=True)
            memories = [m for m in tx.memories.get(ids).values() if _may_be_renewed(tx, m)]
            due = due_for_renewal(memories, self._memories.policies, self._memories.gate, now)
            tx.memories.replace(due)
            tx.outbox.mark([m.id for m in due], now)
        return len(due)

    def fail(self, failure: Failure) -> None:
        """Keep a failure for the next run."""
        with self._ledger.write() as tx:
            tx.failures.record(failure)

    @repeated
    def recover(self, documents: Sequence[Document], now: Instant) -> int:
        """Clear what a crashed run of this source staged but never switched in; return how many rows."""
        ours = {d.id for d in documents}
        with self._ledger.write() as tx:
            left = [m for m in tx.memories.get(tx.memories.staged()).values() if m.doc_id in ours]
            _unstage(tx, left, now)
        return len(left)


def _hidden(after: Memory, was: Memory) -> Memory:
    """Return a superseded memory that comes back, staged; it ends, and why, as it did before."""
    ends = was.valid_to if was.valid_to != FOREVER else after.valid_from
    return replace(after, standing=Standing.STAGED, standing_reason=was.standing_reason, valid_to=ends)


def _is_same(stored: Document | None, read: Document | None) -> bool:
    """Return whether a document still is the version that was read: a rollback, or its undo, puts another one back."""
    if stored is None or read is None:
        return stored is read
    return (stored.version, stored.deleted_at, stored.memory_ids) == (read.version, read.deleted_at, read.memory_ids)


def _may_be_renewed(tx: LedgerTx, memory: Memory) -> bool:
    """Return whether a source that still holds a passage renews it; not what was pruned while it was quarantined."""
    if memory.standing is not Standing.RETIRED:
        return True
    done = [j for j in tx.sweeps.of_memory(memory.id) if j.applied_at is not None and not j.skipped]
    retired = [j for j in done if j.action.kind is ActionKind.RETIRE and "was" in j.action.detail]  # an undo has none
    return bool(retired) and retired[-1].action.detail.get("was") == Standing.ACTIVE.value


def _unstage(tx: LedgerTx, left: Sequence[Memory], now: Instant) -> None:
    """Drop rows that never were anything else, put back those that a version had superseded before."""
    tx.memories.remove([m.id for m in left if m.valid_to == FOREVER])
    tx.memories.replace(
        [replace(m, standing=Standing.SUPERSEDED, updated_at=now, rev=m.rev + 1) for m in left if m.valid_to != FOREVER]
    )
    tx.outbox.mark([m.id for m in left], now)
