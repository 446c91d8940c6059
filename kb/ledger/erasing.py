"""What an erasure looks at before it acts, and again after it: who quotes what is to go, and how much of it is there.

Streams; memory does not grow with the ledger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from kb.erased import numbers_of, strings
from kb.history import AnswerId
from kb.ledger.batches import chunks
from kb.ledger.checks import checked_key, checked_keys
from kb.ledger.schema import (
    answers,
    citations,
    documents,
    embeddings,
    evaluations,
    evidence,
    failures,
    lineage,
    memories,
    outbox,
    runs,
    utility,
    versions,
)
from kb.ledger.schema_governance import actions, contradictions, images, slots, sweeps
from kb.model import DocumentId, Kind, MemoryId
from kb.sweeps import ImageKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kb.model import Json

WHY_SKIPPED, SILENCED = "skipped", "silenced"  # a column of the journal, and what stands in it for words that went
STREAM = 500  # rows fetched at a time; each may hold a long text

_A, _C, _M = answers.c, citations.c, memories.c
_TENANT: sa.BindParameter[str] = sa.bindparam("tenant")
_SCOPE = (_A.tenant, _A.scope_agent, _A.scope_user, _A.scope_conversation, _A.thread)
_TURNS = sa.select(*_SCOPE, _A.created_at).where(_A.thread != "", _A.id.in_(sa.bindparam("ids", expanding=True)))
_QUOTES = sa.select(_C.answer_id, _C.quote, _C.title).where(
    _C.answer_id.in_(sa.select(_A.id).where(_A.tenant == _TENANT))
)
_ANSWERS = sa.select(_A.id, _A.question, _A.text, _A.report).where(_A.tenant == _TENANT)
_OTHERS = sa.select(_M.id, _M.kind, _M.doc_id, _M.source, _M.text).where(_M.tenant == _TENANT)

_REJECTED = "rejected by %: %"  # a standing's reason that holds a person's words; any other is a program's, and governs
_OWN = ": "  # what comes before a person's words
_BEFORE, _AFTER = (c["standing_reason"].as_string() for c in (images.c.before, images.c.after))

# What people and programs remark about memories, table by table: its key, whose it is, and the columns of remarks.
_REMARKS: Mapping[str, tuple[sa.Table, sa.ColumnElement[str] | None, tuple[str, ...]]] = {
    "runs": (runs, runs.c.tenant, ("report",)),
    "slots": (slots, None, ("report",)),
    "sweeps": (sweeps, sweeps.c.tenant, ("reason",)),
    "actions": (actions, sweeps.c.tenant, ("detail", "skipped")),
    "failures": (failures, failures.c.tenant, ("source", "message", "hint")),
    "memories": (memories, memories.c.tenant, ("standing_reason",)),
    "contradictions": (contradictions, contradictions.c.tenant, ("one_value", "other_value", "settled_by")),
    "images": (images, sweeps.c.tenant, ("before", "after")),
}
_OF_SWEEPS = ("actions", "images")
_ONLY: Mapping[str, sa.ColumnElement[bool]] = {
    "memories": memories.c.standing_reason.like(_REJECTED),
    "images": sa.and_(images.c.kind == ImageKind.MEMORY.value, sa.or_(_BEFORE.like(_REJECTED), _AFTER.like(_REJECTED))),
}
_COUNTED: Mapping[str, tuple[sa.Table, tuple[sa.ColumnElement[Any], ...]]] = {
    "memories": (memories, (memories.c.id,)),
    "evidence": (evidence, (evidence.c.memory_id,)),
    "utility": (utility, (utility.c.memory_id,)),
    "evaluations": (evaluations, (evaluations.c.memory_id,)),
    "lineage": (lineage, (lineage.c.parent, lineage.c.child)),
    "contradictions": (contradictions, (contradictions.c.one, contradictions.c.other)),
    "citations": (citations, (citations.c.memory_id,)),
    "images": (images, (images.c.key,)),
}


class Other(NamedTuple):
    """A memory that may say what another one says."""

    id: MemoryId
    kind: Kind
    doc_id: DocumentId | None
    source: str
    text: str


class Remark(NamedTuple):
    """A row that holds words of people or programs: where it is, and the words."""

    table: str
    key: tuple[str | int, ...]
    texts: tuple[str, ...]


class Erasing:
    """What one transaction sees of an erasure."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def answers(self, tenant: str) -> Iterator[tuple[AnswerId, list[str]]]:
        """Yield a tenant's answers with every text in them; first their quotes, then the rest."""
        named = {"tenant": checked_key(tenant, "tenant")}
        for id_, *texts in self._streamed(_QUOTES, named):
            yield AnswerId(id_), texts
        for id_, question, text, report in self._streamed(_ANSWERS, named):
            yield AnswerId(id_), [question, text, *strings(report)]

    def follow_ups(self, answer_ids: Iterable[str]) -> list[AnswerId]:
        """Return the later answers of the same threads whose question was completed from what was said before."""
        gone, first = set(answer_ids), dict[tuple[str, ...], int]()
        for part in chunks(sorted(gone)):
            for *thread, at in self._connection.execute(_TURNS, {"ids": part}):
                first[tuple(thread)] = min(at, first.get(tuple(thread), at))
        found = []
        for turns, at in first.items():
            is_of = (column == value for column, value in zip(_SCOPE, turns, strict=True))
            query = sa.select(_A.id, _A.question, _A.report).where(*is_of, _A.created_at >= at)
            rows = self._connection.execute(query)
            found += [AnswerId(r[0]) for r in rows if r[0] not in gone and r[2].get("question", r[1]) != r[1]]
        return sorted(found)

    def graded_for(self, answer_ids: Iterable[str]) -> list[str]:
        """Return the memories that were graded for these answers: a grade may repeat words of its question."""
        found: set[str] = set()
        for part in chunks(sorted(set(answer_ids))):
            query = sa.select(evaluations.c.memory_id).where(evaluations.c.answer_id.in_(part)).distinct()
            found.update(self._connection.execute(query).scalars())
        return sorted(found)

    def others(self, tenant: str) -> Iterator[Other]:
        """Yield all memories of a tenant with their texts, in no order."""
        for id_, kind, doc_id, source, text in self._streamed(_OTHERS, {"tenant": checked_key(tenant, "tenant")}):
            yield Other(MemoryId(id_), Kind(kind), None if doc_id is None else DocumentId(doc_id), source, text)

    def remarks(self, tenant: str) -> Iterator[Remark]:
        """Yield what people and programs have remarked: a tenant's, and what is nobody's."""
        for name, (table, whose, columns) in _REMARKS.items():
            keys = list(table.primary_key)
            query = sa.select(*keys, *(table.c[c] for c in columns))
            if name in _OF_SWEEPS:
                query = query.join_from(table, sweeps, sweeps.c.id == table.c.sweep_id)
            if name in _ONLY:
                query = query.where(_ONLY[name])
            if whose is not None:
                query = query.where(sa.or_(whose == checked_key(tenant, "tenant"), whose == ""))
            for row in self._streamed(query, {}):
                texts = tuple(text for value in row[len(keys) :] for text in strings(value))
                if any(texts):
                    yield Remark(name, tuple(row[: len(keys)]), texts)

    def silence(self, table: str, key: Sequence[str | int]) -> bool:
        """Take the words out of a remark and leave what was counted; return whether it was there. A failure goes."""
        of, _, columns = _REMARKS[table]
        at = sa.and_(*(column == value for column, value in zip(of.primary_key, key, strict=True)))
        if table == "failures":
            return self._connection.execute(sa.delete(of).where(at)).rowcount > 0
        row = self._connection.execute(sa.select(*(of.c[c] for c in columns)).where(at)).first()
        if row is None:
            return False
        silenced = _unreasoned if table in _ONLY else _silenced
        left = {c: silenced(value) for c, value in zip(columns, row, strict=True)}
        if left.get(WHY_SKIPPED) == "" and row[columns.index(WHY_SKIPPED)]:
            left[WHY_SKIPPED] = SILENCED  # it must not look applied
        self._connection.execute(sa.update(of).where(at).values(left))
        return True

    def counts(self, ids: Iterable[str], doc_ids: Iterable[str] = (), hashes: Iterable[str] = ()) -> dict[str, int]:
        """Return how many rows there are about memories, by table.

        Args:
            ids: of memories.
            doc_ids: of documents that go as a whole.
            hashes: of embedded texts that no other memory has.
        """
        found = dict.fromkeys((*_COUNTED, "outbox", "vectors", "documents", "versions"), 0)
        for part in chunks(checked_keys(sorted(set(ids)), "id")):
            for name, (table, columns) in _COUNTED.items():
                found[name] += self._count(table, sa.or_(*(column.in_(part) for column in columns)))
            found["outbox"] += self._count(outbox, outbox.c.memory_id.in_(part))
        for part in chunks(checked_keys(sorted(set(doc_ids)), "doc_id")):
            found["documents"] += self._count(documents, documents.c.id.in_(part))
            found["versions"] += self._count(versions, versions.c.doc_id.in_(part))
        for part in chunks(checked_keys(sorted(set(hashes)), "text_hash")):
            found["vectors"] += self._count(embeddings, embeddings.c.text_hash.in_(part))
        return found

    def own_hashes(self, ids: Iterable[str]) -> list[str]:
        """Return the hashes of what is embedded for these memories and for no others."""
        gone = sorted(set(ids))
        own, shared = set[str](), set[str]()
        for part in chunks(gone):
            own.update(self._connection.execute(sa.select(_M.embed_hash).where(_M.id.in_(part))).scalars())
        left = set(gone)
        for part in chunks(sorted(own - {""})):
            rows = self._connection.execute(sa.select(_M.id, _M.embed_hash).where(_M.embed_hash.in_(part)))
            shared.update(hash_ for id_, hash_ in rows if id_ not in left)
        return sorted(own - shared - {""})

    def _count(self, table: sa.Table, where: sa.ColumnElement[bool]) -> int:
        return int(self._connection.execute(sa.select(sa.func.count()).select_from(table).where(where)).scalar_one())

    def _streamed(self, query: sa.Select[Any], named: Mapping[str, str]) -> Iterator[Sequence[Any]]:
        with self._connection.execute(query.execution_options(yield_per=STREAM), dict(named)) as rows:
            yield from rows


def _unreasoned(value: Json) -> Json:
    """Return a standing's reason, alone or in an image, without a person's words: who has decided so stays."""
    if isinstance(value, dict):
        return {key: _unreasoned(part) if key == "standing_reason" else part for key, part in value.items()}
    return value.partition(_OWN)[0] if isinstance(value, str) else value


def _silenced(value: Json) -> Json:
    return "" if isinstance(value, str) else numbers_of(value) or {}
