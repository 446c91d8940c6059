"""Documents and their versions: what ingestion knows of each file, and which memories each version had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from kb.errors import IntegrityError
from kb.ledger.batches import chunks, upsert_into
from kb.ledger.checks import checked_int, checked_key, checked_keys, checked_name, checked_text
from kb.ledger.rows import document_of_row, row_of_document, row_of_fingerprint
from kb.ledger.schema import documents, versions
from kb.ledger.tenants import Tenants
from kb.model import Document, DocumentId, Fingerprint, Instant, MemoryId

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_D, _V = documents.c, versions.c
_LIVE = sa.text("deleted_at IS NULL")  # literal, so that the index of live sources serves it
_TENANT: sa.BindParameter[str] = sa.bindparam("tenant")

_GET = sa.select(documents).where(_D.id == sa.bindparam("id"))
_LOCKED = _GET.with_for_update()
_BY_SOURCE = sa.select(documents).where(_D.tenant == _TENANT, _D.source == sa.bindparam("source"), _LIVE)
_OF_ROOT = sa.select(documents).where(_D.tenant == _TENANT, _D.root == sa.bindparam("root")).order_by(_D.source, _D.id)
_WITH_RAW = _OF_ROOT.where(_D.raw == sa.bindparam("raw"), _LIVE)
_BORN = (
    sa.select(sa.func.count())
    .select_from(documents)
    .where(_D.tenant == _TENANT, _D.birth_source == sa.bindparam("source"))
)
_VERSIONS = sa.select(versions).where(_V.doc_id == sa.bindparam("doc_id")).order_by(_V.version)
_STOOD = sa.select(_V.doc_id, _V.memory_ids).where(
    _V.doc_id.in_(sa.bindparam("doc_ids", expanding=True)),
    _V.created_at <= sa.bindparam("at"),
    sa.or_(_V.superseded_at.is_(None), _V.superseded_at > sa.bindparam("at")),
)
_CLOSE = (
    sa.update(versions)
    .where(
        _V.doc_id == sa.bindparam("of_doc"),
        _V.version == sa.bindparam("of_version"),
        _V.superseded_at.is_(None),
    )
    .values(superseded_at=sa.bindparam("at"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentVersion:
    """One version of a document: what it was, and when it stood."""

    doc_id: DocumentId
    version: int
    fingerprint: Fingerprint
    memory_ids: tuple[MemoryId, ...]
    created_at: Instant
    superseded_at: Instant | None  # None while it stands
    run_id: str


class Documents:
    """The documents of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def get(self, doc_id: DocumentId, *, is_locking: bool = False) -> Document | None:
        """Return a document, deleted or not; None when there is none.

        Args:
            doc_id: of the document.
            is_locking: nobody else may change it before this transaction ends; who puts one over another that it has
                read must ask so, after the memories that it changes, so that two writers never wait in a ring.
        """
        return self._one(_LOCKED if is_locking else _GET, id=checked_key(doc_id, "doc_id"))

    def by_source(self, tenant: str, source: str) -> Document | None:
        """Return the live document at a source, None when there is none."""
        return self._one(_BY_SOURCE, tenant=checked_key(tenant, "tenant"), source=checked_text(source, "source"))

    def of_root(self, tenant: str, root: str, *, include_deleted: bool = False) -> list[Document]:
        """Return a root's documents in order of their sources; the live ones, or all."""
        query = _OF_ROOT if include_deleted else _OF_ROOT.where(_LIVE)
        return self._many(query, tenant=checked_key(tenant, "tenant"), root=checked_name(root, "root"))

    def with_raw_hash(self, tenant: str, root: str, raw: str) -> list[Document]:
        """Return a root's live documents with these bytes, in order of their sources."""
        return self._many(
            _WITH_RAW,
            tenant=checked_key(tenant, "tenant"),
            root=checked_name(root, "root"),
            raw=checked_name(raw, "raw"),
        )

    def born_at(self, tenant: str, source: str) -> int:
        """Return how many documents, moved and deleted ones included, were first seen at this source."""
        named = {"tenant": checked_key(tenant, "tenant"), "source": checked_text(source, "source")}
        return int(self._connection.execute(_BORN, named).scalar_one())

    def put(self, document: Document) -> None:
        """Insert or update a document; where it was born stays what the first `put` said.

        To swap the sources of two live documents, first put one of them as deleted: two never share a source.

        Raises:
            InputError: a value cannot be stored as it is.
            IntegrityError: another live document has this source, or the id belongs to another tenant.
        """
        row = row_of_document(document)
        Tenants(self._connection).ensure({document.tenant: document.created_at})
        upsert = upsert_into(self._connection, documents, keep=("birth_source",), same="tenant")
        if self._connection.execute(upsert.returning(_D.id), row).first() is None:
            raise IntegrityError(f"document {document.id} belongs to another tenant")

    def add_version(
        self,
        doc_id: DocumentId,
        version: int,
        *,
        fingerprint: Fingerprint,
        memory_ids: Sequence[MemoryId],
        at: Instant,
        run_id: str = "",
    ) -> None:
        """Record a version of a document; the document itself may be put later in the same transaction.

        Raises:
            InputError: a value cannot be stored as it is.
            IntegrityError: the version is there already, or (on commit) the document is not.
        """
        row = {
            "doc_id": checked_key(doc_id, "doc_id"),
            "version": checked_int(version, "version"),
            **row_of_fingerprint(fingerprint),
            "memory_ids": checked_keys(memory_ids, "memory_ids"),
            "created_at": checked_int(at, "at"),
            "superseded_at": None,
            "run_id": checked_name(run_id, "run_id"),
        }
        self._connection.execute(sa.insert(versions), row)

    def close_version(self, doc_id: DocumentId, version: int, at: Instant) -> bool:
        """Record when a version was superseded; the first instant stays. Return whether the version was open."""
        named = {
            "of_doc": checked_key(doc_id, "doc_id"),
            "of_version": checked_int(version, "version"),
            "at": checked_int(at, "at"),
        }
        return self._connection.execute(_CLOSE, named).rowcount > 0

    def versions(self, doc_id: DocumentId) -> list[DocumentVersion]:
        """Return a document's versions, oldest first."""
        rows = self._connection.execute(_VERSIONS, {"doc_id": checked_key(doc_id, "doc_id")})
        return [
            DocumentVersion(
                doc_id=DocumentId(row[0]),
                version=row[1],
                fingerprint=Fingerprint(raw=row[2], content=row[3], metadata=row[4], pipeline=row[5]),
                memory_ids=tuple(row[6]),
                created_at=row[7],
                superseded_at=row[8],
                run_id=row[9],
            )
            for row in rows
        ]

    def stood_at(self, doc_ids: Iterable[DocumentId], at: Instant) -> dict[DocumentId, frozenset[MemoryId]]:
        """Return the memories of the version that each document had at an instant; a document without one is absent."""
        wanted = checked_keys(sorted(doc_ids), "doc_ids")
        stood: dict[DocumentId, frozenset[MemoryId]] = {}
        for part in chunks(wanted):
            for row in self._connection.execute(_STOOD, {"doc_ids": part, "at": checked_int(at, "at")}):
                doc_id = DocumentId(row[0])
                stood[doc_id] = stood.get(doc_id, frozenset()) | frozenset(row[1])
        return stood

    def _one(self, query: sa.Select[Any], **named: str) -> Document | None:
        row = self._connection.execute(query, named).first()
        return None if row is None else document_of_row(row)

    def _many(self, query: sa.Select[Any], **named: str) -> list[Document]:
        return [document_of_row(row) for row in self._connection.execute(query, named)]
