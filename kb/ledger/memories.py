"""Memories in the ledger: whole rows in, whole values out, guarded by their revision."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from kb.errors import IntegrityError, StaleRevision
from kb.ledger.batches import chunks
from kb.ledger.checks import checked_int, checked_key, checked_keys, checked_name, checked_text
from kb.ledger.rows import memory_of_row, row_of_memory
from kb.ledger.schema import documents, memories
from kb.ledger.tenants import Tenants
from kb.model import DocumentId, Instant, Kind, Memory, MemoryId, SourceClass, Standing, Trust

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

STREAM = 2_000  # rows fetched at a time
LAST_CODE_POINT = 0x10FFFF

_C = memories.c
_IDS: sa.BindParameter[list[str]] = sa.bindparam("ids", expanding=True)
_ROOT = sa.func.coalesce(documents.c.root, "")
_WITH_ROOT = memories.outerjoin(documents, documents.c.id == _C.doc_id)

_GET = sa.select(memories).where(_C.id.in_(_IDS))
_REVS = sa.select(_C.id, _C.rev, _C.tenant).where(_C.id.in_(_IDS)).order_by(_C.id).with_for_update()
_REPLACE = (
    sa.update(memories)
    .where(_C.id == sa.bindparam("at_id"), _C.rev == sa.bindparam("at_rev"))
    .values({column.name: sa.bindparam(column.name) for column in _C if column.name != "id"})
)
_REMOVE = sa.delete(memories).where(_C.id.in_(_IDS))
_OF_DOCUMENT = (
    sa.select(memories)
    .where(_C.doc_id == sa.bindparam("doc_id"), _C.standing.in_(sa.bindparam("standings", expanding=True)))
    .order_by(_C.ordinal, _C.id)
)
_INDEXED = sa.select(sa.func.count()).select_from(memories).where(_C.standing != Standing.RETIRED.value)
_REVISIONS = (
    sa.select(_C.id, _C.rev)
    .where(_C.id > sa.bindparam("after"), _C.standing != Standing.RETIRED.value)
    .order_by(_C.id)
    .limit(sa.bindparam("at_most", type_=sa.Integer))
)
_STAGED = sa.select(_C.id).where(sa.text("standing = 'staged'")).order_by(_C.id)  # literal: served by its own index
_TOUCHED = sa.select(_C.id).where(_C.updated_at >= sa.bindparam("since")).order_by(_C.id)
_COUNTED = (_C.tenant, _C.standing, _C.kind, _C.source_class, _ROOT)
_COUNTS = sa.select(*_COUNTED, sa.func.count()).select_from(_WITH_ROOT).group_by(*_COUNTED).order_by(*_COUNTED)
_TRUST = (
    sa.select(_C.id, _ROOT, _C.source, _C.source_class, _C.confidence, _C.anchor, _C.birth, _C.verified)
    .select_from(_WITH_ROOT)
    .where(_C.tenant == sa.bindparam("tenant"), _C.standing.in_(sa.bindparam("standings", expanding=True)))
    .execution_options(yield_per=STREAM)
)
_TRUST_OF_ROOT = _TRUST.where(documents.c.root == sa.bindparam("root"))


class MemoryCount(NamedTuple):
    """How many memories share these properties; `root` is the document's, "" for notes and other undocumented ones."""

    tenant: str
    standing: Standing
    kind: Kind
    source_class: SourceClass
    root: str
    count: int  # type: ignore[assignment] # the word for it, though tuples have a method of this name


class TrustRow(NamedTuple):
    """What a forecast needs of one memory."""

    id: MemoryId
    root: str
    source: str
    source_class: SourceClass
    confidence: float
    anchor: Instant
    birth: Instant
    verified: bool


def trust_of(row: TrustRow) -> Trust:
    """Return a row's trust, as far as decay needs it."""
    return Trust(confidence=row.confidence, anchor=row.anchor, birth=row.birth, verified=row.verified)


class Memories:
    """The memories of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, added: Sequence[Memory]) -> None:
        """Insert new memories, and their tenants where new.

        Raises:
            InputError: a value cannot be stored as it is.
            IntegrityError: an id is taken.
        """
        if not added:
            return
        rows = [row_of_memory(memory) for memory in added]
        first = {memory.tenant: memory.created_at for memory in reversed(added)}
        Tenants(self._connection).ensure(first)
        self._connection.execute(sa.insert(memories), rows)

    def get(self, ids: Iterable[MemoryId]) -> dict[MemoryId, Memory]:
        """Return the memories that exist, by id, in the order asked for."""
        wanted = checked_keys(dict.fromkeys(ids), "id")
        found: dict[MemoryId, Memory] = {}
        for part in chunks(wanted):
            rows = self._connection.execute(_GET, {"ids": part})
            found.update((MemoryId(row[0]), memory_of_row(row)) for row in rows)
        return {key: found[key] for key in map(MemoryId, wanted) if key in found}

    def replace(self, changed: Sequence[Memory]) -> None:
        """Write whole memories over their predecessors; each carries its new `rev`, the stored one plus 1.

        All or nothing: nothing is written when one of them is refused.

        Raises:
            StaleRevision: a stored `rev` is not the predecessor, or the memory is gone; the message names the id.
            InputError: a value cannot be stored as it is.
            IntegrityError: a memory would change its tenant, or is given twice.
        """
        rows = [row_of_memory(memory) for memory in changed]
        self._refuse_stale(rows)
        for row in rows:
            row["at_id"], row["at_rev"] = row.pop("id"), row["rev"] - 1
        if rows:
            self._connection.execute(_REPLACE, rows)

    def remove(self, ids: Iterable[MemoryId]) -> int:
        """Delete rows that were never switched in, or that must be erased; return how many there were."""
        wanted = checked_keys(ids, "id")
        return sum(self._connection.execute(_REMOVE, {"ids": part}).rowcount for part in chunks(wanted))

    def of_document(self, doc_id: DocumentId, standings: Sequence[Standing] = ()) -> list[Memory]:
        """Return a document's memories in their order in it; of all versions unless `standings` narrows them."""
        named = {"doc_id": checked_key(doc_id, "doc_id"), "standings": _values(standings)}
        return [memory_of_row(row) for row in self._connection.execute(_OF_DOCUMENT, named)]

    def indexed_count(self) -> int:
        """Return how many memories of all tenants belong in the index."""
        return int(self._connection.execute(_INDEXED).scalar_one())

    def page(
        self,
        after: MemoryId | str,
        limit: int,
        *,
        tenant: str | None = None,
        standings: Sequence[Standing] = (),
        kinds: Sequence[Kind] = (),
        source_prefix: str | None = None,
    ) -> list[Memory]:
        """Return at most `limit` memories with ids above `after` (""; from the start), in id order.

        Args:
            after: id of the last memory already seen.
            limit: at least 0.
            tenant: only this tenant's.
            standings: only these; empty: all.
            kinds: only these; empty: all.
            source_prefix: only sources that begin with exactly this.
        """
        query = sa.select(memories).where(_C.id > checked_text(after, "after")).order_by(_C.id).limit(limit)
        if tenant is not None:
            query = query.where(_C.tenant == checked_key(tenant, "tenant"))
        if standings:
            query = query.where(_C.standing.in_(_values(standings)))
        if kinds:
            query = query.where(_C.kind.in_([kind.value for kind in kinds]))
        if source_prefix:
            query = query.where(_C.source >= checked_text(source_prefix, "source_prefix"))
            beyond = prefix_end(source_prefix)
            query = query if beyond is None else query.where(_C.source < beyond)
        return [memory_of_row(row) for row in self._connection.execute(query)]

    def revisions(self, after: MemoryId | str, limit: int) -> list[tuple[MemoryId, int]]:
        """Return (id, rev) of memories that belong in the index, ids above `after`, in id order.

        Every standing but `retired` belongs there; staged memories wait there for their switch.
        """
        rows = self._connection.execute(_REVISIONS, {"after": checked_text(after, "after"), "at_most": limit})
        return [(MemoryId(row[0]), row[1]) for row in rows]

    def counts(self, tenant: str | None = None) -> list[MemoryCount]:
        """Return how many memories there are by tenant, standing, kind, source class and root; None: of all tenants."""
        query = _COUNTS if tenant is None else _COUNTS.where(_C.tenant == checked_key(tenant, "tenant"))
        return [
            MemoryCount(row[0], Standing(row[1]), Kind(row[2]), SourceClass(row[3]), row[4], row[5])
            for row in self._connection.execute(query)
        ]

    def trust_columns(
        self, tenant: str, standings: Sequence[Standing] = (), *, root: str | None = None
    ) -> Iterator[TrustRow]:
        """Yield what forecasts need, of a tenant or of one of its sources, in no order, within this transaction."""
        named = {"tenant": checked_key(tenant, "tenant"), "standings": _values(standings)}
        if root is not None:
            named["root"] = checked_name(root, "root")
        with self._connection.execute(_TRUST if root is None else _TRUST_OF_ROOT, named) as rows:
            for row in rows:
                yield TrustRow(MemoryId(row[0]), row[1], row[2], SourceClass(row[3]), row[4], row[5], row[6], row[7])

    def staged(self) -> list[MemoryId]:
        """Return the ids of memories whose version was never switched in, in id order."""
        return [MemoryId(key) for key in self._connection.execute(_STAGED).scalars()]

    def touched_since(self, since: Instant) -> list[MemoryId]:
        """Return the ids of memories with `updated_at` at or after an instant, in id order."""
        rows = self._connection.execute(_TOUCHED, {"since": checked_int(since, "since")})
        return [MemoryId(key) for key in rows.scalars()]

    def _refuse_stale(self, rows: Sequence[dict[str, object]]) -> None:
        ids = [str(row["id"]) for row in rows]
        if len(set(ids)) < len(ids):
            raise IntegrityError("a memory is given twice in one replacement")
        stored: dict[str, tuple[int, str]] = {}
        for part in chunks(sorted(ids)):  # locked in one order everywhere, so that two writers never wait in a ring
            stored.update({row[0]: (row[1], row[2]) for row in self._connection.execute(_REVS, {"ids": part})})
        for row in rows:
            rev, tenant = stored.get(str(row["id"]), (None, row["tenant"]))
            if rev is None:
                raise StaleRevision(f"memory {row['id']} is no longer in the ledger")
            if row["rev"] != rev + 1:
                raise StaleRevision(
                    f"memory {row['id']} is at revision {rev}; revision {row['rev']} does not follow it"
                )
            if tenant != row["tenant"]:
                raise IntegrityError(f"memory {row['id']} belongs to another tenant")


def prefix_end(prefix: str) -> str | None:
    """Return the least text above every text that begins with `prefix`; None when there is none."""
    for end in range(len(prefix) - 1, -1, -1):
        point = ord(prefix[end]) + 1
        if 0xD800 <= point <= 0xDFFF:  # noqa: PLR2004 - surrogates are no characters
            point = 0xE000
        if point <= LAST_CODE_POINT:
            return prefix[:end] + chr(point)
    return None


def _values(standings: Sequence[Standing]) -> list[str]:
    return [standing.value for standing in standings or tuple(Standing)]
