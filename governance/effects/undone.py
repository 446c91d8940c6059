"""The effect of an undo: rows go back to how they stood before an action, where they still stand as it left them."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from governance import images
from governance.comparing.sayings import passed
from governance.contradict import Contradict, compare
from governance.effects.plain import ALREADY, GONE
from kb.evidence_rules import is_rejected
from kb.model import DocumentId, MemoryId, Standing
from kb.rolled_back import is_rolled_back
from kb.sweeps import ActionKind, ImageKind, TombstoneKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from governance.effects import Occasion
    from governance.writer import Writer
    from kb.ledger.ledger import LedgerTx
    from kb.model import Document, Json, Memory
    from kb.sweeps import Action, Contradiction, Image, Sweep, Tombstone

    Columns = Mapping[str, Json]

MOVED = "moved"  # it has changed since
PAGE = 500
ERASED_MARK = "erased:"  # begins what stands in the journal for an erased id
SEQ = "seq"  # of the action that is undone, in an undo's detail
DOCUMENT = "doc_id"  # likewise, of the document that it was about


def put_back(writer: Writer, _: Memory | None, action: Action, occasion: Occasion) -> str:
    """Put back the rows that one action of the undone sweep changed: all of them that are there, or none."""
    undone, seq = occasion.sweep.undoes, int(action.detail[SEQ])  # type: ignore[arg-type] # written by the undo
    if undone is None:
        return MOVED
    own = writer.tx.sweeps.images(undone, [seq]).get(seq, [])
    targets, moved = images.put_back(
        reversed(own), lambda kind, key: standing_row(writer.tx, kind, key), taken_by_gc(writer.tx, occasion.sweep)
    )
    if moved or occupied(writer.tx, targets) or _is_torn(writer.tx, targets, occasion.sweep):
        return MOVED
    if any(_is_erased(writer.tx, teller) for teller in _tellers(writer.tx, targets).values()):
        return MOVED
    for (kind, key), target in targets.items():
        _PUT[kind](writer, key, target)
    _contested(writer, own)
    if writer.images():
        return ""
    if DOCUMENT in action.detail and writer.tx.documents.get(DocumentId(str(action.detail[DOCUMENT]))) is None:
        return GONE
    return ALREADY if own else ""


def _contested(writer: Writer, own: Sequence[Image]) -> None:
    """Let memories be contested exactly while something contests them: later sweeps may have found more, or less."""
    sides: set[str] = set()
    for image in own:
        if image.kind is ImageKind.CONTRADICTION:
            sides.update(images.parts_of(image.key)[:2])
        elif image.kind is ImageKind.MEMORY and _flag(image.before) is not _flag(image.after):
            sides.add(image.key)
    for memory in writer.tx.memories.get(map(MemoryId, sorted(sides))).values():
        known = writer.tx.contradictions.of_memories([memory.id])
        if known or _was_contested(writer.tx, memory.id):
            is_open = any(c.settled_at is None for c in known)
            writer.put_memory(memory, replace(memory, contested=is_open))


def _was_contested(tx: LedgerTx, id_: MemoryId) -> bool:
    """Return whether a sweep had found what contests a memory; its row may have gone with the other side.

    A flag that no row was ever behind, as an import may bring it, goes back as it was.
    """
    return any(j.action.kind is ActionKind.CONTEST and j.applied_at is not None for j in tx.sweeps.of_memory(id_))


def _flag(columns: Columns | None) -> bool:
    return columns is not None and bool(columns["contested"])


def _is_torn(tx: LedgerTx, targets: Mapping[images.Row, Columns | None], sweep: Sweep) -> bool:
    """Return whether a passage would go without its document, which somebody changed after the undo was checked."""
    ids = [MemoryId(key) for kind, key in targets if kind is ImageKind.MEMORY]
    for memory in tx.memories.get(ids).values():
        target = targets[ImageKind.MEMORY, memory.id]
        if memory.doc_id is None or target is None or (ImageKind.DOCUMENT, memory.doc_id) in targets:
            continue
        document = tx.documents.get(memory.doc_id)
        is_listed = document is not None and document.deleted_at is None and memory.id in document.memory_ids
        becomes = Standing(str(target["standing"]))
        is_odd = becomes is (Standing.SUPERSEDED if is_listed else Standing.ACTIVE)
        if is_odd and memory.doc_id in _left_alone(tx, sweep):
            return True
    return False


def _left_alone(tx: LedgerTx, sweep: Sweep) -> set[str]:
    """Return the documents that an undo has not put back, since they had changed."""
    seqs, after = list[int](), -1
    while page := tx.sweeps.journal(sweep.id, after=after, limit=PAGE):
        after = page[-1].seq
        seqs += [int(j.action.detail[SEQ]) for j in page if j.skipped == MOVED and not j.action.memory_id]  # type: ignore[arg-type] # written by the undo
    own = {} if sweep.undoes is None else tx.sweeps.images(sweep.undoes, seqs)
    return {image.key for images_ in own.values() for image in images_ if image.kind is ImageKind.DOCUMENT}


def standing_row(tx: LedgerTx, kind: ImageKind, key: str) -> Columns | None:
    """Return how a row stands, as an image would hold it; None when it is not there."""
    return _READ[kind](tx, key)


def taken_by_gc(tx: LedgerTx, sweep: Sweep) -> Callable[[str], bool]:
    """Return what tells whether gc has taken a memory of a sweep's tenant."""
    return lambda id_: id_ in tx.erasure.collected(sweep.tenant, [id_])


def occupied(tx: LedgerTx, targets: Mapping[images.Row, Columns | None]) -> list[images.Row]:
    """Return the documents that cannot come back, because another one is at their source now."""
    return [row for row, to in targets.items() if row[0] is ImageKind.DOCUMENT and _is_occupied(tx, row[1], to)]


def disowned(tx: LedgerTx, targets: Mapping[images.Row, Columns | None]) -> list[images.Row]:
    """Return the evidence that cannot come back, because who said it was rolled back or rejected since."""
    told = {k: t for k, t in _tellers(tx, targets).items() if (ImageKind.MEMORY, t) not in targets}
    found = tx.memories.get(sorted(set(told.values())))
    out = {m.id for m in found.values() if is_rolled_back(m) or is_rejected(m, tx.evidence.of_memory(m.id))}
    return [(ImageKind.EVIDENCE, key) for key, teller in told.items() if teller in out]


def _tellers(tx: LedgerTx, targets: Mapping[images.Row, Columns | None]) -> dict[str, MemoryId]:
    """Return the memories that have said what would come back as evidence, by its key."""
    back = {key: target for (kind, key), target in targets.items() if kind is ImageKind.EVIDENCE and target is not None}
    told = {key: images.event_of(key, target).teller for key, target in back.items() if _evidence(tx, key) is None}
    return {key: MemoryId(teller) for key, teller in told.items() if teller}


def _is_erased(tx: LedgerTx, teller: MemoryId) -> bool:
    is_marked = teller.startswith(ERASED_MARK)
    return is_marked or (not tx.memories.get([teller]) and teller in tx.erasure.erased_among([teller]))


def _is_occupied(tx: LedgerTx, key: str, target: Columns | None) -> bool:
    document = tx.documents.get(DocumentId(key))
    if document is None or target is None or document.deleted_at is None or target["deleted_at"] is not None:
        return False
    return tx.documents.by_source(document.tenant, document.source) is not None


def _memory(tx: LedgerTx, key: str) -> Columns | None:
    memory = tx.memories.get([MemoryId(key)]).get(MemoryId(key))
    return None if memory is None else images.memory_columns(memory)


def _put_memory(writer: Writer, key: str, target: Columns | None) -> None:
    memory = writer.tx.memories.get([MemoryId(key)]).get(MemoryId(key))
    if memory is not None and target is not None:
        writer.put_memory(memory, images.memory_with(memory, target))


def _document(tx: LedgerTx, key: str) -> Columns | None:
    document = tx.documents.get(DocumentId(key), is_locking=True)
    return None if document is None else images.document_columns(document)


def _put_document(writer: Writer, key: str, target: Columns | None) -> None:
    document = writer.tx.documents.get(DocumentId(key))
    if document is not None and target is not None:
        writer.put_document(document, _read_again(writer.tx, images.document_with(document, target)))


def _read_again(tx: LedgerTx, document: Document) -> Document:
    """Let the next sync read a document anew that comes back without a passage, which gc has taken meanwhile."""
    if document.deleted_at is not None or len(tx.memories.get(document.memory_ids)) == len(document.memory_ids):
        return document
    return replace(document, fingerprint=replace(document.fingerprint, raw="", content=""), size=0, mtime_ns=0)


def _version(tx: LedgerTx, key: str) -> Columns | None:
    known = tx.sweeping.superseded_at(*images.version_key(key))
    return None if known is None else images.version_columns(known[0])


def _put_version(writer: Writer, key: str, target: Columns | None) -> None:
    if target is not None:
        writer.put_version(*images.version_key(key), superseded_at=target["superseded_at"])  # type: ignore[arg-type] # as kept


def _evidence(tx: LedgerTx, key: str) -> Columns | None:
    event = tx.sweeping.event(*images.evidence_parts(key))
    return None if event is None else images.evidence_columns(event)


def _put_evidence(writer: Writer, key: str, target: Columns | None) -> None:
    known = writer.tx.sweeping.event(*images.evidence_parts(key))
    if target is None and known is not None:
        writer.remove_evidence(known)
    elif target is not None and known is None:
        writer.add_evidence([images.event_of(key, target)])


def _tombstone_at(tx: LedgerTx, key: str) -> Tombstone | None:
    tenant, kind, mark = images.tombstone_parts(key)
    return tx.tombstones.marked(tenant, TombstoneKind(kind), mark)


def _tombstone(tx: LedgerTx, key: str) -> Columns | None:
    known = _tombstone_at(tx, key)
    return None if known is None else images.tombstone_columns(known)


def _put_tombstone(writer: Writer, key: str, target: Columns | None) -> None:
    writer.put_tombstone(_tombstone_at(writer.tx, key), None if target is None else images.tombstone_of(key, target))


def _contradiction_at(tx: LedgerTx, key: str) -> Contradiction | None:
    one = images.parts_of(key)[0]
    return next((c for c in tx.contradictions.of_memories([one]) if images.contradiction_key(c) == key), None)


def _contradiction(tx: LedgerTx, key: str) -> Columns | None:
    known = _contradiction_at(tx, key)
    return None if known is None else images.contradiction_columns(known)


def _put_contradiction(writer: Writer, key: str, target: Columns | None) -> None:
    known = _contradiction_at(writer.tx, key)
    if known is None and target is not None:
        writer.add_contradictions([_with_values(writer.tx, images.contradiction_of(key, target))])
    elif known is not None and target is None:
        writer.put_contradiction(known, None)
    elif known is not None and target is not None:
        was = images.contradiction_of(key, target)
        writer.put_contradiction(known, replace(known, settled_at=was.settled_at, settled_by=was.settled_by))


def _with_values(tx: LedgerTx, bare: Contradiction) -> Contradiction:
    """Return a contradiction with what its two sides say: images hold no words of a memory, so these are read again."""
    found = tx.memories.get([MemoryId(bare.one), MemoryId(bare.other)])
    if len(found) < 2:  # noqa: PLR2004 - two sides
        return bare
    said = compare(*map(passed, found.values()))
    if not isinstance(said, Contradict):
        return bare
    return replace(bare, one_value=said.one_value, other_value=said.other_value)


_READ: Mapping[ImageKind, Callable[[LedgerTx, str], Columns | None]] = MappingProxyType(
    {
        ImageKind.MEMORY: _memory,
        ImageKind.DOCUMENT: _document,
        ImageKind.VERSION: _version,
        ImageKind.EVIDENCE: _evidence,
        ImageKind.TOMBSTONE: _tombstone,
        ImageKind.CONTRADICTION: _contradiction,
    }
)
_PUT: Mapping[ImageKind, Callable[[Writer, str, Columns | None], None]] = MappingProxyType(
    {
        ImageKind.MEMORY: _put_memory,
        ImageKind.DOCUMENT: _put_document,
        ImageKind.VERSION: _put_version,
        ImageKind.EVIDENCE: _put_evidence,
        ImageKind.TOMBSTONE: _put_tombstone,
        ImageKind.CONTRADICTION: _put_contradiction,
    }
)
