"""Effects of a rollback: what was bad goes into quarantine and stays out, what it had replaced is current again."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from governance.effects import plain
from governance.marks import LEFT
from kb.erased import pieces
from kb.model import FOREVER, DocumentId, MemoryId, Standing
from kb.rolled_back import CODES, ROOT_CODE, said_of
from kb.sweeps import ActionKind, TombstoneKind
from kb.trust import renewed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from governance.effects import Effect, Occasion
    from governance.writer import Writer
    from kb.model import Document, Memory
    from kb.sweeps import Action

MOVED = "moved"  # the document is not as it was when this was planned
OCCUPIED = "occupied"  # another document stands at its address by now


def quarantine(writer: Writer, memory: Memory | None, action: Action, occasion: Occasion) -> str:
    """Put what was rolled back into quarantine, whatever its standing: a superseded one would still speak of the past.

    Its text must not come back, in whatever document. What it contradicted is contested by it no longer.
    """
    if action.reason not in CODES:
        return plain.quarantine(writer, memory, action, occasion)
    if memory is None:
        return plain.GONE
    if memory.standing is Standing.STAGED:
        return memory.standing.value
    if action.detail.get("tombstone"):
        writer.add_tombstones(memory.tenant, TombstoneKind.TEXT, pieces(memory.text), reason=action.reason)
    said = said_of(str(action.detail["said"]), occasion.sweep.id)
    writer.put_memory(memory, replace(memory, standing=Standing.QUARANTINED, standing_reason=said, contested=False))
    _settle(writer, memory, f"{LEFT}{said}")  # should a person restore it, both sides are there again
    return ""


def _settle(writer: Writer, memory: Memory, by: str) -> None:
    open_ = writer.tx.contradictions.of_memories([memory.id], is_open=True)
    if not open_:
        return
    writer.settle(open_, by=by)
    others = {c.other if c.one == memory.id else c.one for c in open_}
    left = writer.tx.contradictions.of_memories(sorted(others), is_open=True)
    still = {id_ for c in left for id_ in (c.one, c.other)}
    for other in writer.tx.memories.get(map(MemoryId, sorted(others - still))).values():
        writer.put_memory(other, replace(other, contested=False))


def revive(writer: Writer, memory: Memory | None, action: Action, occasion: Occasion) -> str:
    """Make a memory current again that a rolled-back version had replaced.

    It is renewed, as one that a sync finds again in its document: it did not age while it was replaced.
    """
    if memory is None:
        return plain.GONE
    if "from" in action.detail and _has_moved(_planned(writer, action), action):
        return MOVED
    if memory.standing is Standing.STAGED and memory.valid_to != FOREVER:
        memory = _unstaged(writer, memory)
    if memory.standing is not Standing.SUPERSEDED:
        return plain.ALREADY if memory.standing is Standing.ACTIVE else memory.standing.value
    half_life = occasion.policy.trust[memory.source_class].half_life
    after = replace(
        memory,
        standing=Standing.ACTIVE,
        standing_reason=str(action.detail.get("said") or ""),
        valid_to=FOREVER,
        trust=renewed(memory.trust, occasion.now, half_life),
    )
    writer.put_memory(memory, after)
    return ""


def _unstaged(writer: Writer, memory: Memory) -> Memory:
    """Take a passage back from a sync that was about to bring it back: its version is made from what is rolled back.

    No image is kept of it: an undo must not stage it again.
    """
    before = replace(memory, standing=Standing.SUPERSEDED, rev=memory.rev + 1)
    writer.tx.memories.replace([before])
    return before


def put_back(writer: Writer, _memory: Memory | None, action: Action, occasion: Occasion) -> str:
    """Let a document be as a version before was, or gone, and keep out what was rolled back of it."""
    document = _planned(writer, action)
    if document is None or document.tenant != occasion.sweep.tenant:
        return plain.GONE
    is_deleted = document.deleted_at is not None
    if _has_moved(document, action):
        return MOVED
    version = action.detail["version"]
    stands = None if is_deleted else document.version
    if version is not None and is_deleted and _is_occupied(writer, document):
        return OCCUPIED
    if version is not None and version != stands and _is_unready(writer, document, int(str(version))):
        return MOVED
    hashes: list[str] = list(action.detail["hashes"])  # type: ignore[arg-type] # JSON of a plan
    writer.add_tombstones(document.tenant, TombstoneKind.DOCUMENT, hashes, reason=ROOT_CODE)
    if version != stands:
        _put_back(writer, document, None if version is None else int(str(version)))
    return ""


def _planned(writer: Writer, action: Action) -> Document | None:
    return writer.tx.documents.get(DocumentId(str(action.detail["doc_id"])), is_locking=True)


def _has_moved(document: Document | None, action: Action) -> bool:
    """Return whether a document is another version than it was when this was planned."""
    if document is None:
        return True
    is_deleted = document.deleted_at is not None
    return document.version != action.detail["from"] or is_deleted is not action.detail["deleted"]


def _is_occupied(writer: Writer, document: Document) -> bool:
    live = writer.tx.documents.by_source(document.tenant, document.source)
    return live is not None and live.id != document.id


def _is_unready(writer: Writer, document: Document, version: int) -> bool:
    """Return whether a passage of a version did not come back, since somebody changed it: it would list what is lost.

    The next look of the rollback brings both back.
    """
    held = next(v.memory_ids for v in writer.tx.documents.versions(document.id) if v.version == version)
    past = (Standing.SUPERSEDED, Standing.STAGED)
    return any(m.standing in past for m in writer.tx.memories.get(held).values())


def _put_back(writer: Writer, document: Document, version: int | None) -> None:
    """Let a document be as a version was; the file on disk is to be read again, whatever its size and times say."""
    versions = {v.version: v for v in writer.tx.documents.versions(document.id)}
    target = None if version is None else versions[version]
    if document.deleted_at is None:
        held = set() if target is None else set(target.memory_ids)
        _end(writer, [id_ for id_ in document.memory_ids if id_ not in held])
        writer.put_version(document.id, document.version, writer.now)
    if target is None:
        writer.put_document(document, replace(document, deleted_at=writer.now))
        return
    writer.put_version(document.id, target.version, None)
    after = replace(
        document,
        version=target.version,
        fingerprint=target.fingerprint,
        memory_ids=target.memory_ids,
        deleted_at=None,
        size=0,
        mtime_ns=0,
    )
    writer.put_document(document, after)


def _end(writer: Writer, ids: Iterable[MemoryId]) -> None:
    """Let go of good passages that the document no longer holds then."""
    for memory in writer.tx.memories.get(ids).values():
        if memory.standing is Standing.ACTIVE and memory.valid_to == FOREVER:
            said = "the version that held it was rolled back"
            ends = max(writer.now, memory.valid_from)
            writer.put_memory(
                memory, replace(memory, standing=Standing.SUPERSEDED, standing_reason=said, valid_to=ends)
            )


EFFECTS: Mapping[ActionKind, Effect] = MappingProxyType(
    {ActionKind.QUARANTINE: quarantine, ActionKind.REVIVE: revive, ActionKind.PUT_BACK: put_back}
)
