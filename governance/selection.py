"""What a person names as bad, found in the ledger: by source, document, batch, memory, or since when it was written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kb.errors import InputError, UnknownMemory
from kb.history import AnswerId
from kb.model import Kind, MemoryId, SourceRoot, Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kb.ledger.descent import Descent, Member
    from kb.ledger.documents import DocumentVersion
    from kb.ledger.ledger import LedgerTx
    from kb.model import Document, DocumentId, Instant

SEARCHED = "search://"
_WRITTEN = (Kind.WEB, Kind.NOTE)  # what has no versions; an answer-key says nothing and goes with its answer
_ENDS = ("/", "?", "#")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is to be rolled back. One of the first four, or `since` alone, or a source or document since an instant.

    Args:
        source: name of a registered source; a URI, with all below it; a URI that ends in `*`, with all that begins so;
            a host, with all its pages; `search://provider/`, with all that such searches found.
        document: id or URI of a document, with all its versions.
        batch: id of a run of `kb ingest`.
        memories: ids of memories or answers.
        since: what was written at or after this instant.
    """

    source: str = ""
    document: str = ""
    batch: str = ""
    memories: tuple[str, ...] = ()
    since: Instant | None = None

    def __post_init__(self) -> None:
        named = [n for n in ("source", "document", "batch", "memories") if getattr(self, n)]
        if len(named) > 1 or (not named and self.since is None):
            raise InputError("say what to roll back: one of --source, --document, --batch, --since, --memory")
        if self.since is not None and named and named[0] in ("batch", "memories"):
            raise InputError("--since narrows a source or a document, nothing else")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """What a selection means in this ledger.

    Args:
        memories: ids that are bad in themselves.
        answers: likewise, of answers.
        versions: numbers of the versions that are bad as a whole, by document.
        deletions: documents whose deletion is to be taken back.
    """

    memories: frozenset[MemoryId] = frozenset()
    answers: frozenset[AnswerId] = frozenset()
    versions: dict[DocumentId, frozenset[int]] = field(default_factory=dict)
    deletions: frozenset[DocumentId] = frozenset()

    @property
    def roots(self) -> frozenset[str]:
        """Where the lineage begins."""
        return frozenset((*self.memories, *self.answers))


def selected(tx: LedgerTx, tenant: str, wanted: Selection) -> Selected:
    """Return what a selection means.

    Raises:
        InputError: the tenant has no such source, document or batch: a misspelt name must not pass for a clean one.
        UnknownMemory: likewise, no such memory or answer.
    """
    if wanted.memories:
        return _of_ids(tx, tenant, wanted.memories)
    if wanted.source:
        return _of_source(tx, tenant, wanted.source, wanted.since)
    if wanted.document:
        return _of_documents(tx.descent, tenant, _documents(tx, tenant, wanted.document), wanted.since)
    if wanted.batch:
        return _of_batch(tx, tenant, wanted.batch)
    assert wanted.since is not None
    return _since(tx.descent, tenant, wanted.since)


def _of_ids(tx: LedgerTx, tenant: str, ids: Sequence[str]) -> Selected:
    members = tx.descent.members(tenant, ids)
    answers = frozenset(AnswerId(id_) for id_ in ids if id_ not in members and tx.answers.get(AnswerId(id_), tenant))
    for id_ in ids:
        if id_ not in members and id_ not in answers:
            raise UnknownMemory(f"there is no memory and no answer {id_} in tenant {tenant}")
    return Selected(memories=frozenset(members), answers=answers)


def _of_source(tx: LedgerTx, tenant: str, source: str, since: Instant | None) -> Selected:
    descent = tx.descent
    if source.startswith(SEARCHED):
        found = descent.found_by(tenant, source.removesuffix("*"))
        return _known(source, Selected(memories=_ids(found, since)))
    root = None if "://" in source else tx.sources.get(tenant, source)
    prefixes = [source] if "://" in source else [f"file://{source}/", f"https://{source}/", f"http://{source}/"]
    documents = [
        d for p in prefixes for d in descent.documents_at(tenant, p.removesuffix("*")) if is_within(d.source, p)
    ]
    if "://" not in source:
        documents += tx.documents.of_root(tenant, source, include_deleted=True)
    members = [m for p in prefixes for m in descent.at_source(tenant, p.removesuffix("*")) if is_within(m.source, p)]
    whole = _of_documents(descent, tenant, {d.id: d for d in documents}.values(), since)
    loose = _ids((m for m in members if m.kind is not Kind.ANSWER), since)
    return _known(source, Selected(memories=whole.memories | loose, versions=whole.versions), root)


def is_within(source: str, named: str) -> bool:
    """Return whether a source is what `named` names, or below it; after `*` anything may follow."""
    if named.endswith("*"):
        return source.startswith(named[:-1])
    return source == named or (source.startswith(named) and (named[-1] in _ENDS or source[len(named)] in _ENDS))


def _known(source: str, found: Selected, root: SourceRoot | None = None) -> Selected:
    if not (found.memories or found.versions or root):
        raise InputError(f"nothing came from {source!r}", hint="`kb status` names the sources")
    return found


def _documents(tx: LedgerTx, tenant: str, document: str) -> list[Document]:
    found = list(tx.descent.documents(tenant, [document]).values()) or [
        d for d in tx.descent.documents_at(tenant, document) if d.source == document
    ]
    if not found:
        raise InputError(f"there is no document {document!r} in tenant {tenant}", hint="name it by its URI or its id")
    return found


def _of_documents(descent: Descent, tenant: str, documents: Iterable[Document], since: Instant | None) -> Selected:
    """Return all versions of documents, or those since an instant."""
    ids = [d.id for d in documents]
    versions = descent.versions(ids)
    bad = {
        id_: frozenset(v.version for v in own if since is None or v.created_at >= since)
        for id_, own in versions.items()
    }
    if since is None:
        return Selected(memories=_ids(descent.of_documents(tenant, ids), None), versions=bad)
    return Selected(memories=_brought(versions, bad), versions={k: v for k, v in bad.items() if v})


def _of_batch(tx: LedgerTx, tenant: str, run_id: str) -> Selected:
    ids, run = tx.descent.documents_of_run(tenant, run_id), tx.runs.get(run_id)
    if not ids and (run is None or run.tenant != tenant):
        raise InputError(f"there is no batch {run_id!r} in tenant {tenant}", hint="`kb ingest --json` names its run_id")
    versions = tx.descent.versions(ids)
    bad = {id_: frozenset(v.version for v in own if v.run_id == run_id) for id_, own in versions.items()}
    deletions: frozenset[DocumentId] = frozenset()
    if run is not None and run.tenant == tenant:
        end = run.finished_at if run.finished_at is not None else run.heartbeat_at
        gone = tx.descent.deleted_since(tenant, run.started_at)
        deletions = frozenset(d.id for d in gone if d.root == run.root and (d.deleted_at or 0) <= end)
    return Selected(memories=_brought(versions, bad), versions=bad, deletions=deletions)


def _since(descent: Descent, tenant: str, since: Instant) -> Selected:
    versions = descent.versions(descent.documents_since(tenant, since))
    bad = {id_: frozenset(v.version for v in own if v.created_at >= since) for id_, own in versions.items()}
    written = descent.written_since(tenant, since, _WRITTEN)
    deletions = frozenset(d.id for d in descent.deleted_since(tenant, since))
    return Selected(memories=_brought(versions, bad) | _ids(written, since), versions=bad, deletions=deletions)


def _brought(
    versions: dict[DocumentId, list[DocumentVersion]], bad: dict[DocumentId, frozenset[int]]
) -> frozenset[MemoryId]:
    """Return what bad versions brought in: what no good version had before them."""
    found: set[MemoryId] = set()
    for doc_id, own in versions.items():
        good: set[MemoryId] = set()
        for version in own:
            if version.version in bad[doc_id]:
                found.update(id_ for id_ in version.memory_ids if id_ not in good)
            else:
                good.update(version.memory_ids)
    return frozenset(found)


def _ids(members: Iterable[Member], since: Instant | None) -> frozenset[MemoryId]:
    """Return those that are kept for good: what is staged belongs to a version that does not stand yet."""
    return frozenset(
        m.id for m in members if m.standing is not Standing.STAGED and (since is None or m.created_at >= since)
    )
