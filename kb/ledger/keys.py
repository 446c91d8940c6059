"""API keys in the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from kb.keys import ApiKey, Holder, KeyScope
from kb.ledger.batches import insert_into
from kb.ledger.checks import checked_int, checked_int_or_none, checked_key, checked_text
from kb.ledger.schema_serving import api_keys
from kb.ledger.tenants import Tenants

if TYPE_CHECKING:
    from kb.model import Instant

USED_EVERY = 60_000  # milliseconds: that a key is in use is news once a minute, not with every request

_K = api_keys.c
_ID: sa.BindParameter[str] = sa.bindparam("key_id")
_GET = sa.select(api_keys).where(_K.id == _ID)
_LIST = sa.select(api_keys).where(_K.tenant == sa.bindparam("tenant")).order_by(_K.created_at, _K.id)
_REVOKE = (
    sa.update(api_keys)
    .where(_K.id == _ID, _K.tenant == sa.bindparam("whose"), _K.revoked_at.is_(None))
    .values(revoked_at=sa.bindparam("at"))
)
_USED = (
    sa.update(api_keys)
    .where(_K.id == _ID, sa.or_(_K.used_at.is_(None), _K.used_at < sa.bindparam("before")))
    .values(used_at=sa.bindparam("at"))
)
_LOG_OUT = sa.update(api_keys).where(_K.id == _ID).values(logouts=_K.logouts + 1)


class Keys:
    """The API keys of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, key: ApiKey) -> None:
        """Keep a new key; its tenant is registered.

        Raises:
            InputError: a value cannot be stored as it is.
        """
        row = {
            "id": checked_key(key.id, "id"),
            "tenant": checked_key(key.tenant, "tenant"),
            "name": checked_text(key.name, "name"),
            "scopes": sorted(s.value for s in key.scopes),
            "holder": key.holder.value,
            "secret_hash": checked_key(key.secret_hash, "secret_hash"),
            "created_at": checked_int(key.created_at, "created_at"),
            "expires_at": checked_int_or_none(key.expires_at, "expires_at"),
            "revoked_at": checked_int_or_none(key.revoked_at, "revoked_at"),
            "used_at": checked_int_or_none(key.used_at, "used_at"),
            "logouts": checked_int(key.logouts, "logouts"),
        }
        Tenants(self._connection).ensure({key.tenant: key.created_at})
        self._connection.execute(insert_into(self._connection, api_keys), row)

    def get(self, key_id: str) -> ApiKey | None:
        """Return a key, revoked or not; None when there is none."""
        row = self._connection.execute(_GET, {"key_id": checked_key(key_id, "id")}).first()
        return None if row is None else _of_row(row)

    def list(self, tenant: str) -> list[ApiKey]:
        """Return a tenant's keys, oldest first."""
        return [_of_row(row) for row in self._connection.execute(_LIST, {"tenant": checked_key(tenant, "tenant")})]

    def is_empty(self) -> bool:
        """Return whether no key was ever made."""
        return self._connection.execute(sa.select(_K.id).limit(1)).first() is None

    def revoke(self, key_id: str, tenant: str, at: Instant) -> bool:
        """Make a key void; return whether it was not so before."""
        named = {
            "key_id": checked_key(key_id, "id"),
            "whose": checked_key(tenant, "tenant"),
            "at": checked_int(at, "at"),
        }
        return self._connection.execute(_REVOKE, named).rowcount == 1

    def used(self, key_id: str, at: Instant) -> None:
        """Note that a key is in use."""
        self._connection.execute(_USED, {"key_id": checked_key(key_id, "id"), "at": at, "before": at - USED_EVERY})

    def log_out(self, key_id: str) -> None:
        """End every login that was made with a key until now."""
        self._connection.execute(_LOG_OUT, {"key_id": checked_key(key_id, "id")})


def _of_row(row: sa.Row[Any]) -> ApiKey:
    return ApiKey(
        id=row.id,
        tenant=row.tenant,
        name=row.name,
        scopes=frozenset(map(KeyScope, row.scopes)),
        holder=Holder(row.holder),
        secret_hash=row.secret_hash,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        used_at=row.used_at,
        logouts=row.logouts,
    )
