"""What sweeps decide about, found by range scans: rows without text, metadata or headings, streamed.

Every scan is an exact range of an index: what has not crossed a line is not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from kb.history import EdgeKind
from kb.ledger.batches import chunks
from kb.ledger.checks import checked_int, checked_key, checked_keys
from kb.ledger.schema import documents, lineage, memories
from kb.model import DocumentId, Instant, Kind, MemoryId, SourceClass, Standing
from kb.trust import SHOWN_LEVELS, shown_level

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kb.model import Memory

STREAM = 2_000  # rows fetched at a time
LIVE = (Standing.ACTIVE, Standing.QUARANTINED)

_M = memories.c
_COLUMNS = (
    *(_M.id, _M.doc_id, _M.kind, _M.source_class, _M.standing),
    *(_M.confidence, _M.anchor, _M.birth, _M.verified, _M.shown, _M.pinned, _M.contested),
    *(_M.ordinal, _M.created_at, _M.updated_at, _M.rev),
)
_IDS: sa.BindParameter[list[str]] = sa.bindparam("ids", expanding=True)
_KINDS = {kind.value: kind for kind in Kind}  # a look-up: these are read a million times
_CLASSES = {source_class.value: source_class for source_class in SourceClass}
_STANDINGS = {standing.value: standing for standing in Standing}
_MAY_RETURN = tuple(s.value for s in (*LIVE, Standing.STAGED))

_LEVEL = sa.select(sa.func.min(_M.shown)).where(
    _M.tenant == sa.bindparam("tenant"),
    _M.standing == sa.bindparam("standing"),
    _M.source_class == sa.bindparam("source_class"),
    _M.shown > sa.bindparam("above"),
)
_SHOWN = (
    sa.select(*_COLUMNS)
    .where(
        _M.tenant == sa.bindparam("tenant"),
        _M.standing == sa.bindparam("standing"),
        _M.source_class == sa.bindparam("source_class"),
        _M.shown == sa.bindparam("level"),
        _M.birth < sa.bindparam("born_before"),
    )
    .order_by(_M.birth, _M.id)
)
_LIVE_OF_DOCUMENTS = (
    sa.select(_M.doc_id, sa.func.count())
    .where(_M.doc_id.in_(_IDS), _M.standing == Standing.ACTIVE.value)
    .group_by(_M.doc_id)
)
_COUNT = (
    sa.select(sa.func.count())
    .select_from(memories)
    .where(_M.tenant == sa.bindparam("tenant"), _M.standing.in_([s.value for s in LIVE]))
)
_BELIEVED = (
    sa.select(sa.func.coalesce(documents.c.root, ""), *_COLUMNS)
    .select_from(memories.outerjoin(documents, documents.c.id == _M.doc_id))
    .where(
        _M.tenant == sa.bindparam("tenant"),
        sa.or_(
            _M.standing == Standing.RETIRED.value,
            sa.and_(_M.standing.in_([s.value for s in LIVE]), _M.source_class != SourceClass.ANSWER.value),
        ),
    )
    .order_by(sa.func.coalesce(_M.doc_id, ""), _M.id)
)
_KEY_STEP, _CITED_STEP, _CITED = lineage.alias("key_step"), lineage.alias("cited_step"), memories.alias("cited")
_LEADS = (  # key ← answer ← memory that may still be retrieved, or may come back
    sa.select(_KEY_STEP.c.child, _CITED.c.id)
    .join_from(_KEY_STEP, _CITED_STEP, _CITED_STEP.c.child == _KEY_STEP.c.parent)
    .join(_CITED, _CITED.c.id == _CITED_STEP.c.parent)
    .where(
        _KEY_STEP.c.kind == EdgeKind.KEY.value,
        _CITED_STEP.c.kind == EdgeKind.CITED.value,
        _CITED.c.standing.in_(_MAY_RETURN),
        _CITED.c.source_class != SourceClass.ANSWER.value,
    )
)
_IS_OPEN_KEY = (
    _M.tenant == sa.bindparam("tenant"),
    _M.source_class == SourceClass.ANSWER.value,
    _M.created_at <= sa.bindparam("created_until"),
    sa.not_(_M.pinned),
)
_IDLE_KEYS = (
    sa.select(*_COLUMNS)
    .where(
        *_IS_OPEN_KEY,
        _M.standing == sa.bindparam("standing"),
        ~sa.exists(_LEADS.where(_KEY_STEP.c.child == _M.id)),
    )
    .order_by(_M.id)
)
_KEYS_TO = (
    sa.select(_KEY_STEP.c.child)
    .join_from(_CITED_STEP, _KEY_STEP, _KEY_STEP.c.parent == _CITED_STEP.c.child)
    .where(
        _CITED_STEP.c.parent.in_(_IDS),
        _CITED_STEP.c.kind == EdgeKind.CITED.value,
        _KEY_STEP.c.kind == EdgeKind.KEY.value,
    )
    .distinct()
)
_LEADS_ON = _LEADS.where(_KEY_STEP.c.child == sa.bindparam("key")).limit(1)
_LED_TO = _LEADS.where(_KEY_STEP.c.child.in_(_IDS)).distinct()
_KEYS = sa.select(*_COLUMNS).where(_M.id.in_(_IDS), *_IS_OPEN_KEY, _M.standing.in_([s.value for s in LIVE]))


class GovernedRow(NamedTuple):
    """What a decision about a memory needs of it."""

    id: MemoryId
    doc_id: DocumentId | None
    kind: Kind
    source_class: SourceClass
    standing: Standing
    confidence: float
    anchor: Instant
    birth: Instant
    verified: bool
    shown: int  # thousandths
    pinned: bool
    contested: bool
    ordinal: int
    created_at: Instant
    updated_at: Instant
    rev: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fading:
    """What of one source class has faded: confidence < below or birth < born_before, and created_at <= created_until.

    Args:
        below: confidence, in (0, 1].
        born_before: virtual birth.
        created_until: younger memories are left alone.
    """

    below: float
    born_before: Instant
    created_until: Instant


def governed_row(memory: Memory) -> GovernedRow:
    """Return what a decision needs of a memory."""
    trust = memory.trust
    return GovernedRow(
        id=memory.id,
        doc_id=memory.doc_id,
        kind=memory.kind,
        source_class=memory.source_class,
        standing=memory.standing,
        confidence=trust.confidence,
        anchor=trust.anchor,
        birth=trust.birth,
        verified=trust.verified,
        shown=shown_level(trust),
        pinned=memory.pinned,
        contested=memory.contested,
        ordinal=memory.passage.ordinal,
        created_at=memory.created_at,
        updated_at=memory.updated_at,
        rev=memory.rev,
    )


class Governed:
    """What sweeps find in one transaction. All that is yielded must be read within it."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def live(self, tenant: str) -> int:
        """Return how many memories of a tenant are active or quarantined."""
        return int(self._connection.execute(_COUNT, {"tenant": checked_key(tenant, "tenant")}).scalar_one())

    def levels(self, tenant: str, standing: Standing, source_class: SourceClass, *, above: int) -> list[int]:
        """Return the confidences (thousandths, above `above`) that rows of this kind show, by one look-up each."""
        named = {"tenant": tenant, "standing": standing.value, "source_class": source_class.value, "above": above}
        found: list[int] = []
        while (level := self._connection.execute(_LEVEL, named).scalar()) is not None:
            found.append(level)
            named["above"] = level
        return found

    def showing(
        self, tenant: str, standing: Standing, source_class: SourceClass, *, level: int, born_before: Instant
    ) -> Iterator[GovernedRow]:
        """Yield the rows that show exactly `level` and were born before an instant, by birth and id."""
        named = {
            "tenant": checked_key(tenant, "tenant"),
            "standing": standing.value,
            "source_class": source_class.value,
            "level": level,
            "born_before": checked_int(born_before, "born_before"),
        }
        return self._rows(_SHOWN, named)

    def faded(self, tenant: str, lines: Mapping[SourceClass, Fading]) -> Iterator[GovernedRow]:
        """Yield live rows below their line that are neither verified, pinned nor contested, by document and id."""
        drawn = {c: line for c, line in lines.items() if line.below > 0}
        if not drawn:
            return iter(())
        branches = [
            branch
            for standing in LIVE
            for branch in (_born_before(standing, drawn), *(_held(standing, c, line) for c, line in drawn.items()))
        ]
        every = sa.union_all(*branches).subquery()
        query = sa.select(every).order_by(sa.func.coalesce(every.c.doc_id, ""), every.c.id)
        return self._rows(query, {"tenant": checked_key(tenant, "tenant")})

    def live_of_documents(self, doc_ids: Iterable[DocumentId]) -> dict[DocumentId, int]:
        """Return how many active memories documents have; those with none are left out."""
        found: dict[DocumentId, int] = {}
        for part in chunks(checked_keys(doc_ids, "doc_id")):
            rows = self._connection.execute(_LIVE_OF_DOCUMENTS, {"ids": part})
            found.update((DocumentId(row[0]), row[1]) for row in rows)
        return found

    def idle_keys(self, tenant: str, *, created_until: Instant) -> Iterator[GovernedRow]:
        """Yield answer-keys behind which no live memory is left, by standing and id; pinned ones are left out."""
        named = {"tenant": checked_key(tenant, "tenant"), "created_until": checked_int(created_until, "created_until")}
        for standing in LIVE:
            yield from self._rows(_IDLE_KEYS, {**named, "standing": standing.value})

    def keys_only_to(self, tenant: str, ids: Sequence[MemoryId], *, created_until: Instant) -> list[GovernedRow]:
        """Return the answer-keys that lead to live memories among `ids` and to no others, by id."""
        gone, keys = set(ids), set[str]()
        for part in chunks(list(ids)):
            keys.update(self._connection.execute(_KEYS_TO, {"ids": part}).scalars())
        named = {"tenant": checked_key(tenant, "tenant"), "created_until": checked_int(created_until, "created_until")}
        found: list[GovernedRow] = []
        for some in chunks(sorted(keys)):
            leading: dict[str, set[str]] = {}
            for key, cited in self._connection.execute(_LED_TO, {"ids": some}):
                leading.setdefault(key, set()).add(cited)
            rows = self._rows(_KEYS, {**named, "ids": [k for k, cited in leading.items() if cited <= gone]})
            found += sorted(rows, key=lambda row: row.id)
        return found

    def leads_on(self, key: MemoryId) -> bool:
        """Return whether an answer-key leads to a memory that may still be retrieved, or may come back."""
        return self._connection.execute(_LEADS_ON, {"key": checked_key(key, "key")}).first() is not None

    def retired(self, tenant: str, until: Mapping[SourceClass, Instant]) -> Iterator[GovernedRow]:
        """Yield retired rows, not pinned and not contested, last changed at or before their class's instant, by id."""
        due = sa.or_(*(sa.and_(_M.source_class == c.value, _M.updated_at <= at) for c, at in until.items()))
        query = (
            sa.select(*_COLUMNS)
            .where(
                _M.tenant == sa.bindparam("tenant"),
                _M.standing == Standing.RETIRED.value,
                sa.not_(_M.pinned),
                sa.not_(_M.contested),
                due,
            )
            .order_by(_M.id)
        )
        return self._rows(query, {"tenant": checked_key(tenant, "tenant")})

    def believed(self, tenant: str) -> Iterator[tuple[str, GovernedRow]]:
        """Yield what a forecast follows, with the root of its document, by document and id.

        Live memories but answer-keys, and everything retired.
        """
        named = {"tenant": checked_key(tenant, "tenant")}
        with self._connection.execute(_BELIEVED.execution_options(yield_per=STREAM), named) as rows:
            for row in rows:
                yield row[0], _governed(row, 1)

    def _rows(self, query: sa.Select[Any], named: Mapping[str, Any]) -> Iterator[GovernedRow]:
        with self._connection.execute(query.execution_options(yield_per=STREAM), named) as rows:
            for row in rows:
                yield _governed(row, 0)


def _governed(row: Sequence[Any], start: int) -> GovernedRow:
    id_, doc_id, kind, source_class, standing, *others = row[start:]
    return GovernedRow(id_, doc_id, _KINDS[kind], _CLASSES[source_class], _STANDINGS[standing], *others)


def _open(standing: Standing) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        _M.tenant == sa.bindparam("tenant"),
        _M.standing == standing.value,
        sa.not_(_M.verified),
        sa.not_(_M.pinned),
        sa.not_(_M.contested),
    )


def _born_before(standing: Standing, lines: Mapping[SourceClass, Fading]) -> sa.Select[Any]:
    """Return one range of (tenant, standing, birth) for all classes."""
    own = sa.or_(
        *(
            sa.and_(_M.source_class == c.value, _M.birth < line.born_before, _M.created_at <= line.created_until)
            for c, line in lines.items()
        )
    )
    return sa.select(*_COLUMNS).where(*_open(standing), _M.birth < max(x.born_before for x in lines.values()), own)


def _held(standing: Standing, source_class: SourceClass, line: Fading) -> sa.Select[Any]:
    """Return what never stood at the line and is held, so that its birth does not tell: a range by what it shows."""
    return sa.select(*_COLUMNS).where(
        *_open(standing),
        _M.source_class == source_class.value,
        _M.shown <= int(line.below * SHOWN_LEVELS) + 1,  # what is shown is never above what is believed
        _M.birth + 0 >= line.born_before,  # no range: that would be nearly every row
        _M.confidence < line.below,
        _M.created_at <= line.created_until,
    )
