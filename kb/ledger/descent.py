"""What a rollback reads: what came from where and when, and one step of what was made from it. Rows without texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from kb.history import AnswerId, Edge, EdgeKind
from kb.ledger.batches import chunks
from kb.ledger.checks import checked_int, checked_key, checked_keys, checked_text
from kb.ledger.documents import DocumentVersion
from kb.ledger.memories import prefix_end
from kb.ledger.rows import document_of_row
from kb.ledger.rows_history import edge_of_row
from kb.ledger.schema import answers, citations, documents, lineage, memories, versions
from kb.model import DocumentId, Fingerprint, Kind, MemoryId, Scope, Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kb.model import Document, Instant

_M, _D, _V, _L, _A, _C = memories.c, documents.c, versions.c, lineage.c, answers.c, citations.c
_IDS: sa.BindParameter[list[str]] = sa.bindparam("ids", expanding=True)
_TENANT: sa.BindParameter[str] = sa.bindparam("tenant")
_LIGHT = (_M.id, _M.kind, _M.standing, _M.standing_reason, _M.doc_id, _M.source, _M.verified, _M.valid_to, _M.rev)

_MEMBERS = sa.select(*_LIGHT, _M.created_at).where(_M.tenant == _TENANT)
_STEPS = sa.select(lineage).where(_L.tenant == _TENANT, _L.parent.in_(_IDS)).order_by(_L.parent, _L.child, _L.kind)
_CITING = (
    sa.select(_C.memory_id, _A.id, _A.created_at)
    .join_from(citations, answers, _A.id == _C.answer_id)
    .where(_A.tenant == _TENANT, _C.memory_id.in_(_IDS))
    .order_by(_C.memory_id, _A.id)
)
_STEPS_UP = sa.select(lineage).where(_L.tenant == _TENANT, _L.child.in_(_IDS)).order_by(_L.child, _L.parent, _L.kind)
_CITED_BY = (
    sa.select(_C.memory_id, _A.id, _A.created_at)
    .join_from(citations, answers, _A.id == _C.answer_id)
    .where(_A.tenant == _TENANT, _A.id.in_(_IDS))
    .order_by(_A.id, _C.memory_id)
)
_FOREIGN = sa.select(_L.child).where(_L.tenant != _TENANT, _L.parent.in_(_IDS)).distinct()
_DOCUMENTS = sa.select(documents).where(_D.tenant == _TENANT)
_VERSIONS = sa.select(versions).where(_V.doc_id.in_(_IDS)).order_by(_V.doc_id, _V.version)
_WRITTEN = (
    sa.select(_V.doc_id).join_from(versions, documents, _D.id == _V.doc_id).where(_D.tenant == _TENANT).distinct()
)
_ANSWERS = sa.select(
    _A.id, _A.question, _A.outcome, _A.thread, _A.scope_agent, _A.scope_user, _A.scope_conversation, _A.created_at
).where(_A.tenant == _TENANT, _A.id.in_(_IDS))
_FOUND = sa.select(_L.child).where(_L.tenant == _TENANT, _L.kind == EdgeKind.FOUND.value).distinct()


class Member(NamedTuple):
    """A memory as a rollback looks at it."""

    id: MemoryId
    kind: Kind
    standing: Standing
    standing_reason: str
    doc_id: DocumentId | None
    source: str
    verified: bool
    valid_to: Instant
    rev: int
    created_at: Instant


class Given(NamedTuple):
    """An answer as it was given: to what, when and to whom; without its text."""

    id: AnswerId
    question: str
    outcome: str
    thread: str
    scope: Scope
    created_at: Instant


class Descent:
    """The rows of one transaction from which a rollback is planned."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def steps_from(self, tenant: str, ids: Iterable[str]) -> list[Edge]:
        """Return the steps that lead on from any of these ids, and those to answers that cited them.

        An answer that was written by a caller has citations and no lineage; it rests on them all the same.
        """
        return self._steps(tenant, ids, _STEPS, _CITING)

    def steps_to(self, tenant: str, ids: Iterable[str]) -> list[Edge]:
        """Return the steps that lead to any of these ids, and those to answers from what they cited."""
        return self._steps(tenant, ids, _STEPS_UP, _CITED_BY)

    def _steps(self, tenant: str, ids: Iterable[str], steps: sa.Select[Any], citing: sa.Select[Any]) -> list[Edge]:
        found: dict[tuple[str, str, EdgeKind], Edge] = {}
        for part in self._parts(ids):
            named = {"tenant": checked_key(tenant, "tenant"), "ids": part}
            for row in self._connection.execute(steps, named):
                edge = edge_of_row(row)
                found[(edge.parent, edge.child, edge.kind)] = edge
            for parent, child, at in self._connection.execute(citing, named):
                cited = Edge(tenant=tenant, parent=parent, child=child, kind=EdgeKind.CITED, at=at)
                found.setdefault((parent, child, EdgeKind.CITED), cited)
        return list(found.values())

    def descended(self, tenant: str, roots: Iterable[str]) -> list[Edge]:
        """Return all steps that lead on from the roots, however far; they may run in a circle."""
        seen = set(roots)
        level, edges = sorted(seen), []
        while level:
            steps = self.steps_from(tenant, level)
            edges += steps
            level = sorted({e.child for e in steps} - seen)
            seen.update(level)
        return edges

    def foreign_children(self, tenant: str, ids: Iterable[str]) -> int:
        """Return how much of other tenants was made from these ids."""
        found: set[str] = set()
        for part in self._parts(ids):
            found.update(self._connection.execute(_FOREIGN, {"tenant": tenant, "ids": part}).scalars())
        return len(found)

    def members(self, tenant: str, ids: Iterable[str]) -> dict[MemoryId, Member]:
        """Return a tenant's memories among these ids, in order of their ids."""
        rows = [r for part in self._parts(ids) for r in self._members(_M.id.in_(part), tenant)]
        return {m.id: m for m in rows}

    def of_documents(self, tenant: str, doc_ids: Iterable[str]) -> list[Member]:
        """Return all memories of these documents, of all their versions."""
        return [m for part in self._parts(doc_ids) for m in self._members(_M.doc_id.in_(part), tenant)]

    def at_source(self, tenant: str, prefix: str) -> list[Member]:
        """Return the memories whose source begins with `prefix`."""
        return self._members(_begins(_M.source, prefix), tenant)

    def written_since(self, tenant: str, since: Instant, kinds: Sequence[Kind]) -> list[Member]:
        """Return the memories of these kinds that were first stored at or after an instant."""
        checked_int(since, "since")
        is_new = sa.and_(_M.updated_at >= since, _M.created_at >= since)  # the first of them has an index
        return self._members(sa.and_(is_new, _M.kind.in_([k.value for k in kinds])), tenant)

    def found_by(self, tenant: str, prefix: str) -> list[Member]:
        """Return what the searches whose URI begins with `prefix` have found."""
        query = _FOUND.where(_begins(_L.parent, prefix))
        ids = list(self._connection.execute(query, {"tenant": checked_key(tenant, "tenant")}).scalars())
        return list(self.members(tenant, ids).values())

    def documents(self, tenant: str, doc_ids: Iterable[str]) -> dict[DocumentId, Document]:
        """Return a tenant's documents among these ids, deleted ones too."""
        rows = [d for part in self._parts(doc_ids) for d in self._documents(_D.id.in_(part), tenant)]
        return {d.id: d for d in rows}

    def documents_at(self, tenant: str, prefix: str) -> list[Document]:
        """Return the documents, deleted ones too, whose source begins with `prefix`."""
        return self._documents(_begins(_D.source, prefix), tenant)

    def deleted_since(self, tenant: str, since: Instant) -> list[Document]:
        """Return the documents that were deleted at or after an instant."""
        return self._documents(_D.deleted_at >= checked_int(since, "since"), tenant)

    def documents_of_run(self, tenant: str, run_id: str) -> list[DocumentId]:
        """Return the documents that a run wrote a version of."""
        query = _WRITTEN.where(_V.run_id == checked_key(run_id, "run_id"))
        rows = self._connection.execute(query, {"tenant": checked_key(tenant, "tenant")}).scalars()
        return sorted(map(DocumentId, rows))

    def documents_since(self, tenant: str, since: Instant) -> list[DocumentId]:
        """Return the documents that got a version at or after an instant."""
        query = _WRITTEN.where(_V.created_at >= checked_int(since, "since"))
        rows = self._connection.execute(query, {"tenant": checked_key(tenant, "tenant")}).scalars()
        return sorted(map(DocumentId, rows))

    def versions(self, doc_ids: Iterable[str]) -> dict[DocumentId, list[DocumentVersion]]:
        """Return the versions of documents, oldest first."""
        found: dict[DocumentId, list[DocumentVersion]] = {}
        for part in self._parts(doc_ids):
            for row in self._connection.execute(_VERSIONS, {"ids": part}):
                found.setdefault(DocumentId(row[0]), []).append(_version_of_row(row))
        return found

    def answers(self, tenant: str, ids: Iterable[str]) -> list[Given]:
        """Return a tenant's answers among these ids, newest first."""
        found = []
        for part in self._parts(ids):
            for row in self._connection.execute(_ANSWERS, {"tenant": checked_key(tenant, "tenant"), "ids": part}):
                scope = Scope(agent=row[4], user=row[5], conversation=row[6])
                found.append(Given(AnswerId(row[0]), row[1], row[2], row[3], scope, row[7]))
        return sorted(found, key=lambda a: (-a.created_at, a.id))

    def _members(self, where: sa.ColumnElement[bool], tenant: str) -> list[Member]:
        query = _MEMBERS.where(where).order_by(_M.id)
        rows = self._connection.execute(query, {"tenant": checked_key(tenant, "tenant")})
        return [_member_of_row(row) for row in rows]

    def _documents(self, where: sa.ColumnElement[bool], tenant: str) -> list[Document]:
        query = _DOCUMENTS.where(where).order_by(_D.source, _D.id)
        return [document_of_row(r) for r in self._connection.execute(query, {"tenant": checked_key(tenant, "tenant")})]

    @staticmethod
    def _parts(ids: Iterable[str]) -> Iterable[Sequence[str]]:
        return chunks(checked_keys(sorted(set(ids)), "id"))


def _begins(column: sa.ColumnElement[str], prefix: str) -> sa.ColumnElement[bool]:
    """Return the test whether a column begins with `prefix`, as a range that an index serves."""
    end = prefix_end(checked_text(prefix, "prefix"))
    return column >= prefix if end is None else sa.and_(column >= prefix, column < end)


def _member_of_row(row: Sequence[Any]) -> Member:
    return Member(
        id=MemoryId(row[0]),
        kind=Kind(row[1]),
        standing=Standing(row[2]),
        standing_reason=row[3],
        doc_id=None if row[4] is None else DocumentId(row[4]),
        source=row[5],
        verified=row[6],
        valid_to=row[7],
        rev=row[8],
        created_at=row[9],
    )


def _version_of_row(row: Sequence[Any]) -> DocumentVersion:
    return DocumentVersion(
        doc_id=DocumentId(row[0]),
        version=row[1],
        fingerprint=Fingerprint(raw=row[2], content=row[3], metadata=row[4], pipeline=row[5]),
        memory_ids=tuple(map(MemoryId, row[6])),
        created_at=row[7],
        superseded_at=row[8],
        run_id=row[9],
    )
