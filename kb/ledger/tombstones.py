"""Tombstones: what was rolled back or erased and must not come back, as salted hashes."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING

import sqlalchemy as sa

from kb.ledger.batches import chunks, insert_into, upsert_into
from kb.ledger.checks import checked_int, checked_key, checked_text
from kb.ledger.locks import advisory_key
from kb.ledger.meta import Meta
from kb.ledger.schema import meta
from kb.ledger.schema_governance import tombstones
from kb.sweeps import SweepId, Tombstone, TombstoneKind
from kb.telling import spelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from kb.model import Instant

SALT = "tombstone_salt"
_T = tombstones.c
_KEY = ["tenant", "kind", "mark"]
_AMONG = sa.select(tombstones).where(
    _T.tenant == sa.bindparam("tenant"),
    _T.kind == sa.bindparam("kind"),
    _T.mark.in_(sa.bindparam("marks", expanding=True)),
)
_OF_SWEEP = sa.select(tombstones).where(_T.sweep_id == sa.bindparam("sweep")).order_by(_T.tenant, _T.kind, _T.mark)
_REMOVE = sa.delete(tombstones).where(
    _T.tenant == sa.bindparam("at_tenant"), _T.kind == sa.bindparam("at_kind"), _T.mark == sa.bindparam("at_mark")
)


class Tombstones:
    """The tombstones of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._meta = Meta(connection)

    def hold(self, tenant: str) -> None:
        """Let no tombstone be left before this transaction ends: what it looks up is so until it is written, too.

        To be asked before anything is locked, so that two writers never wait in a ring. SQLite has one writer anyway.
        """
        self._wait("pg_advisory_xact_lock_shared", tenant)

    def alone(self, tenant: str) -> None:
        """Wait until every writer that may have looked tombstones up has ended; those that come then wait.

        To be asked like `hold`, by who leaves tombstones that nothing written meanwhile may slip past.
        """
        self._wait("pg_advisory_xact_lock", tenant)

    def add(
        self,
        tenant: str,
        kind: TombstoneKind,
        values: Iterable[str],
        *,
        sweep_id: SweepId,
        is_erased: bool = False,
        reason: str = "",
        at: Instant,
    ) -> list[Tombstone]:
        """Leave a tombstone for each value; return those that are new, or were another sweep's.

        A value that has one passes to this sweep, but what was erased stays so: it is never only rolled back.

        Args:
            tenant: whose.
            kind: of the values.
            values: texts, or hashes of contents.
            sweep_id: the sweep that leaves them.
            is_erased: the value must not be stored again at all.
            reason: in a few words; never the value.
            at: when.
        """
        self._ensure_salt()
        marks = self._marks(kind, values)
        of = {"tenant": tenant, "kind": kind, "is_erased": is_erased, "sweep_id": sweep_id, "reason": reason, "at": at}
        rows = [_row_of_tombstone(Tombstone(mark=mark, **of)) for mark in sorted(set(marks.values()))]  # type: ignore[arg-type]
        if not rows:
            return []
        insert = insert_into(self._connection, tombstones)
        changed = {name: insert.excluded[name] for name in ("is_erased", "sweep_id", "reason", "at")}
        is_news = sa.or_(insert.excluded.is_erased, _T.sweep_id != insert.excluded.sweep_id)
        insert = insert.on_conflict_do_update(index_elements=_KEY, set_=changed, where=sa.and_(~_T.is_erased, is_news))
        new = self._connection.execute(insert.returning(*tombstones.c), rows)
        return [_tombstone_of_row(row) for row in new]

    def among(self, tenant: str, kind: TombstoneKind, values: Iterable[str]) -> dict[str, Tombstone]:
        """Return the tombstones of those values that have one, by value."""
        marks = self._marks(kind, values)
        found: dict[str, Tombstone] = {}
        for part in chunks(sorted(set(marks.values()))):
            named = {"tenant": checked_key(tenant, "tenant"), "kind": kind.value, "marks": part}
            found.update((row[2], _tombstone_of_row(row)) for row in self._connection.execute(_AMONG, named))
        return {value: found[mark] for value, mark in marks.items() if mark in found}

    def marked(self, tenant: str, kind: TombstoneKind, mark: str) -> Tombstone | None:
        """Return the tombstone with this mark, None when there is none."""
        named = {"tenant": checked_key(tenant, "tenant"), "kind": kind.value, "marks": [checked_key(mark, "mark")]}
        row = self._connection.execute(_AMONG, named).first()
        return None if row is None else _tombstone_of_row(row)

    def of_sweep(self, sweep_id: SweepId) -> list[Tombstone]:
        """Return the tombstones that a sweep left."""
        rows = self._connection.execute(_OF_SWEEP, {"sweep": checked_key(sweep_id, "sweep_id")})
        return [_tombstone_of_row(row) for row in rows]

    def put(self, tombstones_: Iterable[Tombstone]) -> None:
        """Leave tombstones whose marks are known, over those that are there: as they were before they were removed."""
        rows = [_row_of_tombstone(t) for t in tombstones_]
        if rows:
            self._connection.execute(upsert_into(self._connection, tombstones), rows)

    def remove(self, removed: Iterable[Tombstone]) -> int:
        """Take tombstones away, so that what they stand for may come back; return how many were there."""
        keys = [{"at_tenant": t.tenant, "at_kind": t.kind.value, "at_mark": t.mark} for t in removed]
        return sum(self._connection.execute(_REMOVE, key).rowcount for key in keys)

    def _wait(self, function: str, tenant: str) -> None:
        if self._connection.dialect.name == "postgresql":
            key = advisory_key(f"tombstones:{checked_key(tenant, 'tenant')}")
            self._connection.execute(sa.text(f"SELECT {function}(:key)"), {"key": key})

    def _marks(self, kind: TombstoneKind, values: Iterable[str]) -> dict[str, str]:
        salt = self._salt()
        return {} if salt is None else {value: marked(salt, kind, value) for value in dict.fromkeys(values)}

    def _salt(self) -> bytes | None:
        """Return the ledger's salt; None when no tombstone was ever left, so that nothing can match one."""
        stored = self._meta.get(SALT)
        return bytes.fromhex(stored) if isinstance(stored, str) else None

    def _ensure_salt(self) -> None:
        row = {"key": SALT, "value": secrets.token_hex(32)}
        self._connection.execute(insert_into(self._connection, meta).on_conflict_do_nothing(), row)


def marked(salt: bytes, kind: TombstoneKind, value: str) -> str:
    """Return a value's salted hash: of a text by its words alone."""
    if kind is TombstoneKind.TEXT:
        value = spelled(value)
    return hmac.new(salt, f"{kind.value}\x1f{value}".encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _row_of_tombstone(tombstone: Tombstone) -> dict[str, Any]:
    return {
        "tenant": checked_key(tombstone.tenant, "tenant"),
        "kind": tombstone.kind.value,
        "mark": checked_key(tombstone.mark, "mark"),
        "is_erased": tombstone.is_erased,
        "sweep_id": checked_key(tombstone.sweep_id, "sweep_id"),
        "reason": checked_text(tombstone.reason, "reason"),
        "at": checked_int(tombstone.at, "at"),
    }


def _tombstone_of_row(row: Sequence[Any]) -> Tombstone:
    tenant, kind, mark, is_erased, sweep_id, reason, at = row
    return Tombstone(
        tenant=str(tenant),
        kind=TombstoneKind(str(kind)),
        mark=str(mark),
        is_erased=bool(is_erased),
        sweep_id=SweepId(str(sweep_id)),
        reason=str(reason),
        at=int(str(at)),
    )
