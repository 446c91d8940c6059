"""Erasure: takes rows away for good, and every row that speaks of them, whoever's they are.

Whatever is written here is written so that it can be repeated: an erasure that was interrupted is carried out again.
That one is still to be finished outside the ledger stands in `meta`, from the transaction that took the first row.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from kb.erased import WINDOW_ENDED
from kb.history import EdgeKind
from kb.ledger.batches import chunks, insert_into
from kb.ledger.checks import checked_key, checked_keys
from kb.ledger.meta import Meta
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
    meta,
    utility,
    versions,
)
from kb.ledger.schema_governance import actions, contradictions, images, sweeps, tombstones
from kb.ledger.tombstones import SALT, marked
from kb.model import DocumentId, MemoryId
from kb.sweeps import ImageKind, SweepId, TombstoneKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kb.model import Instant, Json, Memory

PENDING = "erasing:"  # beginning of the keys under which unfinished erasures stand
ROWS, FILES = "rows", "files"  # what is still to be done: everything; only the cleaning of files
SEPARATOR = "\x1f"  # between the parts of an image's key
REDACTED = 32  # hex digits of the mark that stands for an erased id in the journal
RELEVANT = "relevant"  # label of a grade: such a passage was shown to who wrote the answer
_WORD = re.compile(r"[\w-]+")

_IDS: sa.BindParameter[list[str]] = sa.bindparam("ids", expanding=True)
_ID: sa.BindParameter[str] = sa.bindparam("of_id")
_THERE = sa.select(memories.c.id).where(memories.c.id.in_(_IDS))
_NAMED = sa.select(actions.c.memory_id).where(actions.c.memory_id.in_(_IDS)).distinct()
_SHARED = sa.select(memories.c.id).where(memories.c.embed_hash == sa.bindparam("hash")).limit(1)
_VECTORS = (
    sa.select(embeddings.c.text_hash)
    .where(embeddings.c.text_hash == sa.bindparam("hash"))
    .order_by(embeddings.c.model)
    .with_for_update()
)
_OF_MEMORY = (
    sa.delete(evidence).where(evidence.c.memory_id == _ID),
    sa.delete(utility).where(utility.c.memory_id == _ID),
    sa.delete(evaluations).where(evaluations.c.memory_id == _ID),
    sa.delete(lineage).where(sa.or_(lineage.c.parent == _ID, lineage.c.child == _ID)),
    sa.delete(contradictions).where(sa.or_(contradictions.c.one == _ID, contradictions.c.other == _ID)),
    sa.delete(memories).where(memories.c.id == _ID),
)
_OF_ANSWERS = (
    sa.delete(citations).where(citations.c.answer_id.in_(_IDS)),
    sa.delete(evaluations).where(evaluations.c.answer_id.in_(_IDS)),
    sa.delete(lineage).where(sa.or_(lineage.c.parent.in_(_IDS), lineage.c.child.in_(_IDS))),
)
_ANSWERS = sa.delete(answers).where(answers.c.id.in_(_IDS)).returning(answers.c.id, answers.c.tenant)
_CITING = sa.select(citations.c.answer_id).where(citations.c.memory_id.in_(_IDS))
_SHOWN = sa.select(evaluations.c.answer_id).where(evaluations.c.memory_id.in_(_IDS), evaluations.c.label == RELEVANT)
_RESTING = sa.select(answers.c.id).where(sa.or_(answers.c.id.in_(_CITING), answers.c.id.in_(_SHOWN)))
_KEYS = sa.select(lineage.c.child).where(lineage.c.kind == EdgeKind.KEY.value, lineage.c.parent.in_(_IDS)).distinct()
_LEADING = sa.select(lineage.c.child, lineage.c.parent).where(
    lineage.c.kind == EdgeKind.KEY.value, lineage.c.child.in_(_IDS)
)
_LISTED = ((documents, documents.c.id), (versions, versions.c.doc_id))
_ELSEWHERE = (
    sa.select(documents.c.id)
    .where(
        documents.c.tenant == sa.bindparam("tenant"),
        documents.c.deleted_at.is_(None),
        documents.c.id != sa.bindparam("but"),
        versions.c.doc_id == documents.c.id,
        versions.c.version == documents.c.version,  # a document that waits to be read again has lost its own prints
        sa.or_(versions.c.raw == sa.bindparam("hash"), versions.c.content == sa.bindparam("hash")),
    )
    .limit(1)
)


class Pending(NamedTuple):
    """An erasure that is not finished: its sweep, whose it is, and what is still to be done."""

    sweep_id: SweepId
    tenant: str
    stage: str


class Erasure:
    """What one transaction takes away for good."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._meta = Meta(connection)

    def remove_memory(self, memory: Memory) -> None:
        """Delete a memory with all that is kept about it; its vector, unless another memory has the same words."""
        self.remove_traces(memory.id)
        self._connection.execute(_VECTORS, {"hash": memory.embed_hash}).all()  # who is about to need it is waited for
        if memory.embed_hash and self._connection.execute(_SHARED, {"hash": memory.embed_hash}).first() is None:
            self._connection.execute(sa.delete(embeddings).where(embeddings.c.text_hash == memory.embed_hash))

    def remove_traces(self, id_: MemoryId) -> None:
        """Delete the rows that are about a memory, and its own, whichever are there."""
        for statement in _OF_MEMORY:
            self._connection.execute(statement, {"of_id": checked_key(id_, "id")})

    def listing(self, tenant: str, id_: MemoryId) -> list[DocumentId]:
        """Return a tenant's documents that list a memory; looks through all of them."""
        text = sa.cast(documents.c.memory_ids, sa.Text)
        query = sa.select(documents.c.id).where(
            documents.c.tenant == checked_key(tenant, "tenant"), text.contains(f'"{id_}"', autoescape=True)
        )
        return [DocumentId(key) for key in self._connection.execute(query).scalars()]

    def collected(self, tenant: str, ids: Iterable[str]) -> set[str]:
        """Return those of these ids whose memories were a tenant's, and have been taken away by gc."""
        found: set[str] = set()
        for part in chunks(checked_keys(sorted(set(ids)), "id")):
            query = (
                sa.select(actions.c.memory_id)
                .join_from(actions, sweeps, sweeps.c.id == actions.c.sweep_id)
                .where(
                    sweeps.c.tenant == checked_key(tenant, "tenant"),
                    actions.c.memory_id.in_(part),
                    actions.c.reason == WINDOW_ENDED,
                    actions.c.applied_at.is_not(None),
                    actions.c.skipped == "",
                )
            )
            found.update(self._connection.execute(query).scalars())
        there = self._connection.execute(sa.select(memories.c.id).where(memories.c.id.in_(sorted(found)))).scalars()
        return found - set(there)

    def unlist(self, doc_id: DocumentId, id_: MemoryId) -> None:
        """Take a memory off the lists of its document and of that one's versions."""
        for table, key in _LISTED:
            primary = list(table.primary_key)
            for row in self._connection.execute(
                sa.select(*primary, table.c.memory_ids).where(key == checked_key(doc_id, "doc_id"))
            ).all():
                if id_ in row[-1]:
                    at = sa.and_(*(column == value for column, value in zip(primary, row[:-1], strict=True)))
                    left = [other for other in row[-1] if other != id_]
                    self._connection.execute(sa.update(table).where(at).values(memory_ids=left))

    def resting_on(self, ids: Iterable[str]) -> list[str]:
        """Return the answers, of any tenant, that cited one of these memories or were written with it in sight."""
        return self._scalars(_RESTING, ids)

    def remove_answers(self, ids: Iterable[str]) -> dict[str, list[str]]:
        """Delete answers with their citations, grades and lineage; return those that were there, by tenant."""
        gone: dict[str, list[str]] = {}
        for part in chunks(checked_keys(sorted(set(ids)), "answer_id")):
            for statement in _OF_ANSWERS:
                self._connection.execute(statement, {"ids": part})
            for id_, tenant in self._connection.execute(_ANSWERS, {"ids": part}):
                gone.setdefault(tenant, []).append(id_)
        return gone

    def keys_only_to(self, answer_ids: Iterable[str]) -> list[MemoryId]:
        """Return the answer-keys that lead to some of these answers, and to no other."""
        gone = set(answer_ids)
        keys = self._scalars(_KEYS, gone)
        left: set[str] = set()
        for part in chunks(keys):
            rows = self._connection.execute(_LEADING, {"ids": part})
            left.update(child for child, parent in rows if parent not in gone and parent != child)
        return [MemoryId(key) for key in keys if key not in left]

    def remove_document(self, doc_id: DocumentId, tenant: str, source: str) -> None:
        """Delete a document's row, its versions, their images, and the failures at its address."""
        own = checked_key(doc_id, "doc_id")
        self._connection.execute(sa.delete(versions).where(versions.c.doc_id == own))
        self._connection.execute(sa.delete(documents).where(documents.c.id == own))
        self._connection.execute(sa.delete(failures).where(failures.c.tenant == tenant, failures.c.source == source))
        kinds = (ImageKind.DOCUMENT.value, ImageKind.VERSION.value)
        named = sa.or_(images.c.key == own, _begins_with(own))
        self._connection.execute(sa.delete(images).where(images.c.kind.in_(kinds), named))

    def is_elsewhere(self, tenant: str, hash_: str, but: DocumentId) -> bool:
        """Return whether another live document of the tenant has these bytes, or says this."""
        named = {"tenant": checked_key(tenant, "tenant"), "hash": hash_, "but": but}
        return self._connection.execute(_ELSEWHERE, named).first() is not None

    def quiet_journal(self, id_: str) -> None:
        """Take what sweeps have kept of a memory out of their journals: details, and the images of its rows."""
        own = checked_key(id_, "id")
        self._connection.execute(
            sa.update(actions).where(actions.c.memory_id == own, actions.c.applied_at.is_not(None)).values(detail={})
        )
        is_row = sa.and_(images.c.kind == ImageKind.MEMORY.value, images.c.key == own)
        kinds = (ImageKind.EVIDENCE.value, ImageKind.CONTRADICTION.value)
        is_about = sa.and_(images.c.kind.in_(kinds), _begins_with(own))
        self._connection.execute(sa.delete(images).where(sa.or_(is_row, is_about)))

    def begin(self, sweep_id: SweepId, tenant: str) -> None:
        """Note that an erasure has begun and is to be finished, in the transaction that takes its first row."""
        row = {"key": f"{PENDING}{sweep_id}", "value": {"tenant": tenant, "stage": ROWS}}
        self._connection.execute(insert_into(self._connection, meta).on_conflict_do_nothing(), row)

    def pending(self) -> list[Pending]:
        """Return the erasures that are not finished, in order of their sweeps' ids."""
        query = sa.select(meta).where(meta.c.key >= PENDING, meta.c.key < f"{PENDING}\x7f").order_by(meta.c.key)
        found = self._connection.execute(query)
        return [Pending(SweepId(r[0].removeprefix(PENDING)), r[1]["tenant"], r[1]["stage"]) for r in found]

    def advance(self, pending: Pending) -> None:
        """Note that of an erasure only files are left to be cleaned."""
        self._meta.set(f"{PENDING}{pending.sweep_id}", {"tenant": pending.tenant, "stage": FILES})

    def end(self, pending: Pending) -> None:
        """Note that an erasure is finished."""
        self._connection.execute(sa.delete(meta).where(meta.c.key == f"{PENDING}{pending.sweep_id}"))

    def erased_among(self, ids: Iterable[str]) -> set[str]:
        """Return those of these ids whose memories, of any tenant, were erased for good."""
        salt = self._meta.get(SALT)
        if not isinstance(salt, str):
            return set()
        marks = {marked(bytes.fromhex(salt), TombstoneKind.ID, id_): id_ for id_ in set(ids)}
        found: set[str] = set()
        for part in chunks(sorted(marks)):
            query = sa.select(tombstones.c.mark).where(
                tombstones.c.kind == TombstoneKind.ID.value, tombstones.c.is_erased, tombstones.c.mark.in_(part)
            )
            found.update(marks[mark] for mark in self._connection.execute(query).scalars())
        return found

    def redact(self, sweep_id: SweepId, ids: Iterable[str]) -> None:
        """Put salted marks in the place of erased ids wherever the journal names them: an id is a digest of words.

        The details of the erasure itself go, too. A memory that is there again, since others say the same and so its
        words may come, keeps what was done to it since: its id is no secret, and its history must be told.
        """
        salt, wanted = str(self._meta.get(SALT) or ""), set(ids)
        if salt:
            marks = {i: f"erased:{marked(bytes.fromhex(salt), TombstoneKind.ID, i)[:REDACTED]}" for i in wanted}
            again = self._again(sweep_id, wanted)
            for id_ in self._scalars(_NAMED, wanted):
                changed = sa.update(actions).where(actions.c.memory_id == id_)
                if id_ in again:
                    changed = changed.where(actions.c.applied_at <= again[id_])
                self._connection.execute(changed.values(memory_id=marks[id_]))
            marks = {i: mark for i, mark in marks.items() if i not in again}
            self._redact_details(marks)
            self._redact_images(marks)
            self._redact_reports(marks)
        own = sa.and_(actions.c.sweep_id == checked_key(sweep_id, "sweep_id"), actions.c.applied_at.is_not(None))
        self._connection.execute(sa.update(actions).where(own).values(detail={}))

    def _again(self, sweep_id: SweepId, ids: Iterable[str]) -> dict[str, Instant]:
        """Return when this sweep erased those that are there again."""
        there = self._scalars(_THERE, ids)
        found: dict[str, Instant] = {}
        for part in chunks(there):
            query = sa.select(actions.c.memory_id, sa.func.max(actions.c.applied_at)).group_by(actions.c.memory_id)
            own = query.where(actions.c.sweep_id == sweep_id, actions.c.memory_id.in_(part))
            found.update((id_, at) for id_, at in self._connection.execute(own) if at is not None)
        return found

    def _redact_details(self, marks: Mapping[str, str]) -> None:
        """Put marks into the details of other memories' actions: paths of a rollback, other sides of a conflict."""
        text = sa.cast(actions.c.detail, sa.Text)
        query = sa.select(actions.c.sweep_id, actions.c.seq, text).where(text != "{}")
        for sweep_id, seq, detail in self._naming(query, marks):
            at = sa.and_(actions.c.sweep_id == sweep_id, actions.c.seq == seq)
            named = _renamed(json.loads(detail), marks)
            self._connection.execute(sa.update(actions).where(at).values(detail=named))

    def _redact_reports(self, marks: Mapping[str, str]) -> None:
        """Put marks into the reports of answers that stay: they name what was passed over."""
        query = sa.select(answers.c.id, sa.cast(answers.c.report, sa.Text))
        for id_, report in self._naming(query, marks):
            named = _renamed(json.loads(report), marks)
            self._connection.execute(sa.update(answers).where(answers.c.id == id_).values(report=named))

    def _redact_images(self, marks: Mapping[str, str]) -> None:
        """Take erased ids off the lists in images of documents, and out of what others heard from them.

        Images of what contradicted them go.
        """
        i, blank = images.c, sa.literal(" ")
        text = sa.func.coalesce(sa.cast(i.before, sa.Text), "") + sa.func.coalesce(sa.cast(i.after, sa.Text), "")
        kinds = (ImageKind.DOCUMENT.value, ImageKind.CONTRADICTION.value, ImageKind.EVIDENCE.value)
        query = sa.select(i.sweep_id, i.seq, i.number, i.kind, i.key + blank + text).where(i.kind.in_(kinds))
        for sweep_id, seq, number, kind, _ in self._naming(query, marks):
            at = sa.and_(i.sweep_id == sweep_id, i.seq == seq, i.number == number)
            if kind == ImageKind.CONTRADICTION.value:
                self._connection.execute(sa.delete(images).where(at))
                continue
            before, after = self._connection.execute(sa.select(i.before, i.after).where(at)).one()
            cleaned = _renamed if kind == ImageKind.EVIDENCE.value else _unlisted
            left = {"before": cleaned(before, marks), "after": cleaned(after, marks)}
            self._connection.execute(sa.update(images).where(at).values(left))

    def _naming(self, query: sa.Select[Any], marks: Mapping[str, str]) -> list[Sequence[Any]]:
        """Return the rows whose last column names one of the ids."""
        rows = self._connection.execute(query.execution_options(yield_per=2_000))
        return [row for row in rows if not marks.keys().isdisjoint(_WORD.findall(row[-1]))]

    def _scalars(self, query: sa.Select[Any], ids: Iterable[str]) -> list[str]:
        found: set[str] = set()
        for part in chunks(checked_keys(sorted(set(ids)), "id")):
            found.update(self._connection.execute(query, {"ids": part}).scalars())
        return sorted(found)


def _begins_with(id_: str) -> sa.ColumnElement[bool]:
    """Return whether an image's key has more parts and this is the first: a range, which an index serves."""
    return sa.and_(images.c.key >= f"{id_}{SEPARATOR}", images.c.key < f"{id_}{chr(ord(SEPARATOR) + 1)}")


def _renamed(value: Json, marks: Mapping[str, str]) -> Json:
    if isinstance(value, str):
        return marks.get(value) or _WORD.sub(lambda word: marks.get(word[0], word[0]), value)
    if isinstance(value, list):
        return [_renamed(part, marks) for part in value]
    return {key: _renamed(part, marks) for key, part in value.items()} if isinstance(value, dict) else value


def _unlisted(columns: dict[str, Json] | None, marks: Mapping[str, str]) -> dict[str, Json] | None:
    if columns is None or not isinstance(ids := columns.get("memory_ids"), list):
        return columns
    return {**columns, "memory_ids": [id_ for id_ in ids if id_ not in marks]}
