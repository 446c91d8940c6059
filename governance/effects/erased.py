"""Effects of erasure: the one act that nobody can take back.

Asked for by a person, a memory goes with all that is kept about it and with every answer that rests on it, and leaves
salted marks alone. Taken away by gc, since its restore window has ended, it goes by itself: nobody asked that its
words be forgotten, so the answers keep what they quoted, evidence and lineage stay, and it may come back.

Images are not kept here, against the rule: what can be put back was not erased.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from governance.effects.plain import GONE
from kb.erased import ERASED, WINDOW_ENDED, Words, pieces, spoken_by, without_others
from kb.model import DocumentId, Kind, MemoryId, Standing
from kb.sweeps import ActionKind, TombstoneKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from governance.effects import Effect, Occasion
    from governance.writer import Writer
    from kb.ledger.ledger import LedgerTx
    from kb.model import Json, Memory
    from kb.sweeps import Action

PIECES, ANSWER, DOCUMENT, REMARK, NAME = "pieces", "answer_id", "doc_id", "remark", "name"  # in an action's detail
RESTORABLE = "restorable"  # why gc leaves a memory that was retired too short a time ago
BELOW = "below"  # likewise: what was written from a memory, as far as it was known when this was planned
MOVED = "moved"  # there is more of it, or from it, than was known when this was planned
GRADED = "graded"  # likewise: memories whose cached grades go, since they may repeat words of an erased question


def erase(writer: Writer, memory: Memory | None, action: Action, occasion: Occasion) -> str:
    """Take away a memory, or (without one) an answer, a document, or what somebody remarked."""
    if action.reason == WINDOW_ENDED:
        return _collected(writer, memory, occasion)
    writer.tx.erasure.begin(occasion.sweep.id, occasion.sweep.tenant)
    if memory is not None:
        left: Sequence[int] | None = action.detail.get(PIECES)  # type: ignore[assignment] # JSON of a plan
        known = action.detail.get(BELOW)
        if isinstance(known, list) and _has_more_below(writer.tx, memory, known):
            return MOVED
        _forgotten(writer, memory, left)
        return ""
    if action.memory_id:
        return _traces(writer, MemoryId(action.memory_id), occasion.sweep.tenant)
    return _other(writer, action, occasion.sweep.tenant)


def _has_more_below(tx: LedgerTx, memory: Memory, known: Sequence[Json]) -> bool:
    """Return whether somebody has written from a memory since: with it would go all that tells where that is from."""
    new = {e.child for e in tx.descent.descended(memory.tenant, [memory.id])} - {memory.id, *map(str, known)}
    return any(m.kind is not Kind.ANSWER for m in tx.descent.members(memory.tenant, new).values())


def is_forgotten(action: Action) -> bool:
    """Return whether a person has asked that it be forgotten: then it goes as it is found, or its traces do."""
    return action.kind is ActionKind.ERASE and action.reason == ERASED


def _traces(writer: Writer, id_: MemoryId, tenant: str) -> str:
    """Take away what gc has left of a memory that it took first: evidence, lineage, and answers that quote it."""
    if id_ in writer.tx.erasure.erased_among([id_]):
        return GONE
    writer.add_tombstones(tenant, TombstoneKind.ID, [id_], is_erased=True, reason=ERASED)
    _without_answers(writer, writer.tx.erasure.resting_on([id_]))
    writer.tx.erasure.quiet_journal(id_)
    writer.tx.erasure.remove_traces(id_)
    for doc_id in writer.tx.erasure.listing(tenant, id_):
        writer.tx.erasure.unlist(doc_id, id_)
    writer.tx.outbox.mark([id_], writer.now)
    return ""


def _collected(writer: Writer, memory: Memory | None, occasion: Occasion) -> str:
    if memory is None:
        return GONE
    if memory.standing is not Standing.RETIRED or memory.pinned or memory.contested:
        return memory.standing.value
    if memory.updated_at + occasion.policy.rules[memory.source_class].restore > occasion.now:
        return RESTORABLE
    writer.tx.contradictions.remove([memory.id])
    writer.remove_memory(memory)
    if memory.doc_id is not None:
        _read_again(writer, memory.doc_id, memory.id)
    return ""


def _read_again(writer: Writer, doc_id: DocumentId, lost: MemoryId) -> None:
    """Let the next sync read a document anew that still lists a passage which is gone: its file may hold it still."""
    document = writer.tx.documents.get(doc_id, is_locking=True)
    if document is None or lost not in document.memory_ids or not document.fingerprint.raw:
        return
    unread = replace(document.fingerprint, raw="", content="")
    writer.put_document(document, replace(document, fingerprint=unread, size=0, mtime_ns=0))


def _forgotten(writer: Writer, memory: Memory, left: Sequence[int] | None) -> None:
    """Take a memory away with everything that speaks of it.

    Args:
        writer: of the action.
        memory: what goes.
        left: places of the pieces of its text that nobody else says; None: it was not there when that was looked for.
    """
    tx, own = writer.tx, pieces(memory.text)
    if left is None:
        left = _said_alone(tx, memory)
    barred = tuple(own[place] for place in left if place < len(own))
    if memory.kind is Kind.ANSWER:  # a question is nobody's words but those of who asks
        barred = ()
    writer.add_tombstones(memory.tenant, TombstoneKind.TEXT, barred, is_erased=True, reason=ERASED)
    writer.add_tombstones(memory.tenant, TombstoneKind.ID, [memory.id], is_erased=True, reason=ERASED)
    _without_answers(writer, tx.erasure.resting_on([memory.id]))
    others = _contested_by(writer, memory)
    tx.erasure.quiet_journal(memory.id)
    tx.erasure.remove_memory(memory)
    if memory.doc_id is not None:
        tx.erasure.unlist(memory.doc_id, memory.id)
    tx.outbox.mark([memory.id], writer.now)
    for other in tx.memories.get(others).values():
        if other.contested and not tx.contradictions.of_memories([other.id], is_open=True):
            writer.put_memory(other, replace(other, contested=False))


def _said_alone(tx: LedgerTx, memory: Memory) -> Sequence[int]:
    """Return the places of the pieces of a memory's text that nobody says who stays; looks at all of the tenant's."""
    words = Words([memory.text])
    stay = (o for o in tx.erasing.others(memory.tenant) if o.id != memory.id and o.kind is not Kind.ANSWER)
    return without_others(memory.text, spoken_by(o.text for o in stay if words.quoted_in(o.text)))


def _contested_by(writer: Writer, memory: Memory) -> list[MemoryId]:
    open_ = writer.tx.contradictions.of_memories([memory.id], is_open=True)
    return sorted({MemoryId(c.other if c.one == memory.id else c.one) for c in open_})


def _without_answers(writer: Writer, answer_ids: Iterable[str]) -> bool:
    """Take answers away, and the keys that lead to nothing else; return whether there were any."""
    tx, wanted = writer.tx, sorted(set(answer_ids))
    if not wanted:
        return False
    keys = tx.memories.get(tx.erasure.keys_only_to(wanted))
    gone = tx.erasure.remove_answers(wanted)
    for tenant, ids in gone.items():
        writer.add_tombstones(tenant, TombstoneKind.ID, ids, is_erased=True, reason=ERASED)
    for key in keys.values():
        writer.add_tombstones(key.tenant, TombstoneKind.ID, [key.id], is_erased=True, reason=ERASED)
        tx.erasure.quiet_journal(key.id)
        tx.erasure.remove_memory(key)
    tx.outbox.mark(keys, writer.now)
    return bool(gone)


def _other(writer: Writer, action: Action, tenant: str) -> str:
    """Take away what is no memory; what is gone already was taken by a memory's own action."""
    detail = action.detail
    if ANSWER in detail:
        return "" if _without_answers(writer, [str(detail[ANSWER])]) else GONE
    if REMARK in detail:
        table, *key = _place(detail[REMARK])
        return "" if writer.tx.erasing.silence(str(table), key) else GONE
    if GRADED in detail:
        return ""  # it only stands in the journal, for who purges caches
    if NAME in detail:
        writer.add_tombstones(tenant, TombstoneKind.ID, [str(detail[NAME])], is_erased=True, reason=ERASED)
        return ""
    return _document(writer, DocumentId(str(detail.get(DOCUMENT) or "-")), tenant)


def _place(value: Json) -> list[str | int]:
    return [part for part in value if isinstance(part, str | int)] if isinstance(value, list) else [""]


def _document(writer: Writer, id_: DocumentId, tenant: str) -> str:
    """Take a document away whole; its bytes do not come back, unless another document has the same."""
    tx, document = writer.tx, writer.tx.documents.get(id_)
    if document is None or document.tenant != tenant:
        return GONE
    if tx.memories.of_document(id_):  # what has come in since was not asked for
        return MOVED
    prints = [document.fingerprint, *(v.fingerprint for v in tx.documents.versions(document.id))]
    hashes = {h for f in prints for h in (f.raw, f.content) if h}
    barred = sorted(h for h in hashes if not tx.erasure.is_elsewhere(document.tenant, h, document.id))
    writer.add_tombstones(document.tenant, TombstoneKind.DOCUMENT, barred, is_erased=True, reason=ERASED)
    tx.erasure.remove_document(document.id, document.tenant, document.source)
    return ""


EFFECTS: Mapping[ActionKind, Effect] = MappingProxyType({ActionKind.ERASE: erase})
