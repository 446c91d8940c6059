"""Rows of the ledger to and from the words of `kb.model`: pure functions, every value checked on its way in.

A row is read by position, in the order of the table's columns, which is also the order written here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kb.ledger.checks import (
    checked_int,
    checked_int_or_none,
    checked_json,
    checked_key,
    checked_name,
    checked_real,
    checked_source,
    checked_text,
    storable,
)
from kb.model import (
    Document,
    DocumentId,
    Failure,
    Fingerprint,
    Kind,
    Memory,
    MemoryId,
    Passage,
    Scope,
    SourceClass,
    SourceRoot,
    Standing,
    Trust,
)
from kb.trust import SHOWN_LEVELS, checked_confidence, shown_level

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = dict[str, Any]  # column name to a value the driver takes


def row_of_memory(memory: Memory) -> Row:
    """Return a memory as a row.

    Raises:
        InputError: a value cannot be stored as it is.
    """
    return {
        "id": checked_key(memory.id, "id"),
        "tenant": checked_key(memory.tenant, "tenant"),
        "kind": memory.kind.value,
        "source_class": memory.source_class.value,
        "source": checked_source(memory.source),
        "text": checked_text(memory.text, "text"),
        "standing": memory.standing.value,
        "standing_reason": checked_text(memory.standing_reason, "standing_reason"),
        "pinned": memory.pinned,
        "contested": memory.contested,
        "doc_id": None if memory.doc_id is None else checked_key(memory.doc_id, "doc_id"),
        "embed_hash": checked_name(memory.embed_hash, "embed_hash"),
        "valid_from": checked_int(memory.valid_from, "valid_from"),
        "valid_to": checked_int(memory.valid_to, "valid_to"),
        "created_at": checked_int(memory.created_at, "created_at"),
        "updated_at": checked_int(memory.updated_at, "updated_at"),
        "rev": checked_int(memory.rev, "rev"),
        "metadata": checked_json(dict(memory.metadata), "metadata"),
        **_row_of_trust(memory.trust),
        **_row_of_passage(memory.passage),
        **_row_of_scope(memory.scope),
    }


def _row_of_trust(trust: Trust) -> Row:
    return {
        "confidence": checked_confidence(trust.confidence),
        "anchor": checked_int(trust.anchor, "anchor"),
        "birth": checked_int(trust.birth, "birth"),
        "verified": trust.verified,
        "verified_at": checked_int_or_none(trust.verified_at, "verified_at"),
        "strength": checked_real(trust.strength, "strength"),
        "shown": shown_level(trust),
    }


def _row_of_passage(passage: Passage) -> Row:
    return {
        "ordinal": checked_int(passage.ordinal, "ordinal"),
        "title": checked_text(passage.title, "title"),
        "heading_path": [checked_text(heading, "heading_path") for heading in passage.heading_path],
        "page": checked_int_or_none(passage.page, "page"),
        "span_start": checked_int(passage.start, "start"),
        "span_end": checked_int(passage.end, "end"),
    }


def _row_of_scope(scope: Scope) -> Row:
    return {
        "scope_agent": checked_name(scope.agent, "agent"),
        "scope_user": checked_name(scope.user, "user"),
        "scope_conversation": checked_name(scope.conversation, "conversation"),
    }


def memory_of_row(row: Sequence[Any]) -> Memory:
    """Return the memory of a row of `memories`."""
    return Memory(
        id=MemoryId(row[0]),
        tenant=row[1],
        kind=Kind(row[2]),
        source_class=SourceClass(row[3]),
        source=row[4],
        text=row[5],
        trust=trust_of_columns(row[6:13]),
        standing=Standing(row[13]),
        standing_reason=row[14],
        pinned=row[15],
        contested=row[16],
        doc_id=row[17],
        passage=Passage(
            ordinal=row[18], title=row[19], heading_path=tuple(row[20]), page=row[21], start=row[22], end=row[23]
        ),
        scope=Scope(agent=row[24], user=row[25], conversation=row[26]),
        embed_hash=row[27],
        valid_from=row[28],
        valid_to=row[29],
        created_at=row[30],
        updated_at=row[31],
        rev=row[32],
        metadata=row[33],
    )


def trust_of_columns(row: Sequence[Any]) -> Trust:
    """Return the trust of the columns confidence, anchor, birth, verified, verified_at, strength, shown."""
    trust = Trust(confidence=row[0], anchor=row[1], birth=row[2], verified=row[3], verified_at=row[4], strength=row[5])
    return trust if row[6] == shown_level(trust) else replace(trust, shown=row[6] / SHOWN_LEVELS)


def row_of_document(document: Document) -> Row:
    """Return a document as a row, born where it stands now; an update leaves `birth_source` as it is.

    Raises:
        InputError: a value cannot be stored as it is.
    """
    source = checked_source(document.source)
    return {
        "id": checked_key(document.id, "id"),
        "tenant": checked_key(document.tenant, "tenant"),
        "root": checked_name(document.root, "root"),
        "source": source,
        "birth_source": source,
        "version": checked_int(document.version, "version"),
        **row_of_fingerprint(document.fingerprint),
        "size": checked_int(document.size, "size"),
        "mtime_ns": checked_int(document.mtime_ns, "mtime_ns"),
        "title": checked_text(document.title, "title"),
        "memory_ids": [checked_key(i, "memory_ids") for i in document.memory_ids],
        "deleted_at": checked_int_or_none(document.deleted_at, "deleted_at"),
        "created_at": checked_int(document.created_at, "created_at"),
        "updated_at": checked_int(document.updated_at, "updated_at"),
    }


def row_of_fingerprint(fingerprint: Fingerprint) -> Row:
    """Return the four hashes as columns.

    Raises:
        InputError: a value cannot be stored as it is.
    """
    return {
        "raw": checked_name(fingerprint.raw, "raw"),
        "content": checked_name(fingerprint.content, "content"),
        "metadata_hash": checked_name(fingerprint.metadata, "metadata"),
        "pipeline": checked_name(fingerprint.pipeline, "pipeline"),
    }


def document_of_row(row: Sequence[Any]) -> Document:
    """Return the document of a row of `documents`."""
    return Document(
        id=DocumentId(row[0]),
        tenant=row[1],
        root=row[2],
        source=row[3],  # row[4] is where it was born
        version=row[5],
        fingerprint=Fingerprint(raw=row[6], content=row[7], metadata=row[8], pipeline=row[9]),
        size=row[10],
        mtime_ns=row[11],
        title=row[12],
        memory_ids=tuple(row[13]),
        deleted_at=row[14],
        created_at=row[15],
        updated_at=row[16],
    )


def row_of_source(root: SourceRoot) -> Row:
    """Return a registered source as a row.

    Raises:
        InputError: a value cannot be stored as it is.
    """
    return {
        "tenant": checked_key(root.tenant, "tenant"),
        "name": checked_key(root.name, "name"),
        "location": checked_text(root.location, "location"),
        "source_class": root.source_class.value,
        "options": checked_json(dict(root.options), "options"),
        "registered_at": checked_int(root.registered_at, "registered_at"),
        "synced_at": checked_int_or_none(root.synced_at, "synced_at"),
    }


def source_of_row(row: Sequence[Any]) -> SourceRoot:
    """Return the registered source of a row of `sources`."""
    return SourceRoot(
        tenant=row[0],
        name=row[1],
        location=row[2],
        source_class=SourceClass(row[3]),
        options=row[4],
        registered_at=row[5],
        synced_at=row[6],
    )


def row_of_failure(failure: Failure) -> Row:
    """Return a failure as a row. Its message may quote a parser or a file: what cannot be stored there is replaced.

    Raises:
        InputError: another value cannot be stored as it is.
    """
    return {
        "tenant": checked_key(failure.tenant, "tenant"),
        "source": checked_source(failure.source),
        "root": checked_name(failure.root, "root"),
        "raw": checked_name(failure.raw, "raw"),
        "pipeline": checked_name(failure.pipeline, "pipeline"),
        "code": checked_key(failure.code, "code"),
        "message": storable(failure.message),
        "hint": storable(failure.hint),
        "attempts": checked_int(failure.attempts, "attempts"),
        "failed_at": checked_int(failure.failed_at, "failed_at"),
    }


def failure_of_row(row: Sequence[Any]) -> Failure:
    """Return the failure of a row of `failures`."""
    return Failure(
        tenant=row[0],
        source=row[1],
        root=row[2],
        raw=row[3],
        pipeline=row[4],
        code=row[5],
        message=row[6],
        hint=row[7],
        attempts=row[8],
        failed_at=row[9],
    )
