"""Images: rows as a sweep's journal keeps them, to be put back: governed columns, never a text. Pure functions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kb.history import AnswerId, EvidenceEvent, EvidenceKind
from kb.model import DocumentId, Fingerprint, MemoryId, Standing
from kb.sweeps import Contradiction, ImageKind, SweepId, Tombstone, TombstoneKind
from kb.trust import SHOWN_LEVELS, shown_level

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kb.model import Document, Instant, Json, Memory
    from kb.sweeps import Image

Columns = dict[str, "Json"]
Row = tuple[ImageKind, str]  # what kind of row, and its key

SEPARATOR = "\x1f"  # between the parts of a key
ONLY_GROW = frozenset({"rev", "updated_at"})  # a row that was put back is as it was but for these


def key_of(*parts: str | int) -> str:
    """Return a row's primary key as an image names it."""
    return SEPARATOR.join(map(str, parts))


def parts_of(key: str) -> list[str]:
    """Return the parts of a key."""
    return key.split(SEPARATOR)


def same(one: Mapping[str, Json] | None, other: Mapping[str, Json] | None) -> bool:
    """Return whether two states of a row are one, whatever its revision: what was done and undone leaves no trace."""
    if one is None or other is None:
        return one is other
    return {k: v for k, v in one.items() if k not in ONLY_GROW} == {
        k: v for k, v in other.items() if k not in ONLY_GROW
    }


def memory_columns(memory: Memory) -> Columns:
    """Return what governance may change of a memory."""
    trust = memory.trust
    return {
        "confidence": trust.confidence,
        "anchor": trust.anchor,
        "birth": trust.birth,
        "verified": trust.verified,
        "verified_at": trust.verified_at,
        "strength": trust.strength,
        "shown": shown_level(trust),
        "standing": memory.standing.value,
        "standing_reason": memory.standing_reason,
        "pinned": memory.pinned,
        "contested": memory.contested,
        "valid_from": memory.valid_from,
        "valid_to": memory.valid_to,
        "updated_at": memory.updated_at,
        "rev": memory.rev,
    }


def memory_with(memory: Memory, columns: Mapping[str, Any]) -> Memory:
    """Return a memory with the columns of an image, its own revision and instant of change aside."""
    trust = replace(
        memory.trust,
        confidence=columns["confidence"],
        anchor=columns["anchor"],
        birth=columns["birth"],
        verified=columns["verified"],
        verified_at=columns["verified_at"],
        strength=columns["strength"],
        shown=None,
    )
    if columns["shown"] != shown_level(trust):
        trust = replace(trust, shown=columns["shown"] / SHOWN_LEVELS)
    return replace(
        memory,
        trust=trust,
        standing=Standing(columns["standing"]),
        standing_reason=columns["standing_reason"],
        pinned=columns["pinned"],
        contested=columns["contested"],
        valid_from=columns["valid_from"],
        valid_to=columns["valid_to"],
    )


def document_columns(document: Document) -> Columns:
    """Return what governance may change of a document: which version it is, and whether it is there."""
    fingerprint = document.fingerprint
    return {
        "version": document.version,
        "raw": fingerprint.raw,
        "content": fingerprint.content,
        "metadata": fingerprint.metadata,
        "pipeline": fingerprint.pipeline,
        "size": document.size,
        "mtime_ns": document.mtime_ns,
        "memory_ids": list(document.memory_ids),
        "deleted_at": document.deleted_at,
        "updated_at": document.updated_at,
    }


def document_with(document: Document, columns: Mapping[str, Any]) -> Document:
    """Return a document with the columns of an image, its instant of change aside."""
    return replace(
        document,
        version=columns["version"],
        fingerprint=Fingerprint(
            raw=columns["raw"],
            content=columns["content"],
            metadata=columns["metadata"],
            pipeline=columns["pipeline"],
        ),
        size=columns["size"],
        mtime_ns=columns["mtime_ns"],
        memory_ids=tuple(MemoryId(id_) for id_ in columns["memory_ids"]),
        deleted_at=columns["deleted_at"],
    )


def version_columns(superseded_at: Instant | None) -> Columns:
    """Return what governance may change of a version."""
    return {"superseded_at": superseded_at}


def version_key(key: str) -> tuple[DocumentId, int]:
    """Return the version that a key names."""
    doc_id, version = parts_of(key)
    return DocumentId(doc_id), int(version)


def evidence_key(event: EvidenceEvent) -> str:
    """Return the key of an event."""
    return key_of(event.memory_id, event.kind.value, event.witness)


def evidence_parts(key: str) -> tuple[MemoryId, EvidenceKind, str]:
    """Return memory, kind and witness of a key; a witness may hold anything, a separator too."""
    memory_id, kind, witness = key.split(SEPARATOR, 2)
    return MemoryId(memory_id), EvidenceKind(kind), witness


def evidence_columns(event: EvidenceEvent) -> Columns:
    """Return the rest of an event."""
    return {
        "tenant": event.tenant,
        "weight": event.weight,
        "answer_id": event.answer_id,
        "reason": event.reason,
        "at": event.at,
    }


def event_of(key: str, columns: Mapping[str, Any]) -> EvidenceEvent:
    """Return the event of an image."""
    memory_id, kind, witness = evidence_parts(key)
    answer_id = columns["answer_id"]
    return EvidenceEvent(
        memory_id=memory_id,
        tenant=columns["tenant"],
        kind=kind,
        weight=columns["weight"],
        witness=witness,
        answer_id=None if answer_id is None else AnswerId(answer_id),
        reason=columns["reason"],
        at=columns["at"],
    )


def tombstone_key(tombstone: Tombstone) -> str:
    """Return the key of a tombstone."""
    return key_of(tombstone.tenant, tombstone.kind.value, tombstone.mark)


def tombstone_parts(key: str) -> tuple[str, str, str]:
    """Return tenant, kind and mark of a key; a tenant's name may hold anything, a separator too."""
    tenant, kind, mark = key.rsplit(SEPARATOR, 2)
    return tenant, kind, mark


def tombstone_columns(tombstone: Tombstone) -> Columns:
    """Return the rest of a tombstone."""
    return {
        "is_erased": tombstone.is_erased,
        "sweep_id": tombstone.sweep_id,
        "reason": tombstone.reason,
        "at": tombstone.at,
    }


def tombstone_of(key: str, columns: Mapping[str, Any]) -> Tombstone:
    """Return the tombstone of an image."""
    tenant, kind, mark = tombstone_parts(key)
    return Tombstone(
        tenant=tenant,
        kind=TombstoneKind(kind),
        mark=mark,
        is_erased=columns["is_erased"],
        sweep_id=SweepId(columns["sweep_id"]),
        reason=columns["reason"],
        at=columns["at"],
    )


def contradiction_key(contradiction: Contradiction) -> str:
    """Return the key of a contradiction."""
    return key_of(contradiction.one, contradiction.other, contradiction.kind)


def contradiction_columns(contradiction: Contradiction) -> Columns:
    """Return the rest of a contradiction, but for the two values: they are words of the memories."""
    return {
        "tenant": contradiction.tenant,
        "found_at": contradiction.found_at,
        "settled_at": contradiction.settled_at,
        "settled_by": contradiction.settled_by,
    }


def contradiction_of(key: str, columns: Mapping[str, Any]) -> Contradiction:
    """Return the contradiction of an image, without the two values."""
    one, other, kind = parts_of(key)
    return Contradiction(
        tenant=columns["tenant"],
        one=one,
        other=other,
        kind=kind,
        found_at=columns["found_at"],
        settled_at=columns["settled_at"],
        settled_by=columns["settled_by"],
    )


def put_back(
    newest_first: Iterable[Image],
    current: Callable[[ImageKind, str], Mapping[str, Json] | None],
    taken: Callable[[str], bool] = lambda _: False,
) -> tuple[dict[Row, Mapping[str, Json] | None], list[Row]]:
    """Return how rows should stand so that changes are undone, and the rows that have changed since.

    A row that stands already as it stood before, by whatever way, needs nothing and overwrites nothing. What decay has
    lowered for other readers since is no change: it stays lowered, and what was governed is put back. Nor is that a
    sync has looked at a document's file since.

    Args:
        newest_first: images, the last change first.
        current: how a row stands now; asked once a row.
        taken: whether gc has taken a memory.
    """
    state: dict[Row, Mapping[str, Json] | None] = {}
    moved: dict[Row, None] = {}
    for image in newest_first:
        row = (image.kind, image.key)
        if row not in state:
            state[row] = current(*row)
        if same(state[row], image.after):
            state[row] = image.before
        elif _is_gone_for_good(image, state[row], taken):
            continue
        elif not same(state[row], image.before):
            if (target := _but_for_shown(state[row], image) or _but_for_looked_at(state[row], image)) is None:
                moved[row] = None
            else:
                state[row] = target
    return state, list(moved)


def _is_gone_for_good(image: Image, now: Mapping[str, Json] | None, taken: Callable[[str], bool]) -> bool:
    """Return whether nothing can put a row back, so that it is in no undo's way.

    Either gc has taken the memory, or a side of the contradiction; or an erasure has taken the tombstone over.
    """
    if image.kind is ImageKind.TOMBSTONE:
        return now is not None and bool(now["is_erased"])
    if now is not None or image.before is None or image.after is None:
        return False
    sides = {ImageKind.MEMORY: 1, ImageKind.CONTRADICTION: 2}.get(image.kind, 0)
    return any(map(taken, parts_of(image.key)[:sides]))


def _but_for_shown(now: Mapping[str, Json] | None, image: Image) -> Columns | None:
    """Return how a memory stands put back, if decay alone has touched it since; None if anything else has, too."""
    before, after = image.before, image.after
    if image.kind is not ImageKind.MEMORY or now is None or before is None or after is None:
        return None
    shown = {"shown": now["shown"]}
    if same({**before, **shown}, {**after, **shown}):
        return None  # what is shown is all that the change was about
    if same({**before, **shown}, now):
        return dict(now)
    if not same({**after, **shown}, now) or int(str(now["shown"])) > int(str(after["shown"])):
        return None
    return {**before, "shown": min(int(str(before["shown"])), int(str(now["shown"])))}


def _but_for_looked_at(now: Mapping[str, Json] | None, image: Image) -> Columns | None:
    """Return how a document stands put back, if nothing else has touched it since; None if anything else has.

    Either a sync has looked at its file again, and found the version that stands; or gc has let the file be read again,
    for a passage is gone. What is known of the file is of another version then, so the next sync is to read it.
    """
    before, after = image.before, image.after
    if image.kind is not ImageKind.DOCUMENT or now is None or before is None or after is None:
        return None
    unseen: Columns = {"size": 0, "mtime_ns": 0}
    if same({**now, **unseen}, {**after, **unseen}):
        return {**before, **unseen}
    if same({**now, **unseen}, {**before, **unseen}):
        return dict(now)
    unread: Columns = {**unseen, "raw": "", "content": ""}
    if same(now, {**now, **unread}) and same(now, {**after, **unread}):
        return {**before, **unread}
    return None
