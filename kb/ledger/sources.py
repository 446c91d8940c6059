"""Registered sources: what the nightly sync walks again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from kb.ledger.batches import upsert_into
from kb.ledger.checks import checked_key
from kb.ledger.rows import row_of_source, source_of_row
from kb.ledger.schema import sources
from kb.ledger.tenants import Tenants

if TYPE_CHECKING:
    from kb.model import SourceRoot

_S = sources.c
_GET = sa.select(sources).where(_S.tenant == sa.bindparam("tenant"), _S.name == sa.bindparam("name"))
_LIST = sa.select(sources).order_by(_S.tenant, _S.name)


class Sources:
    """The registered sources of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def put(self, root: SourceRoot) -> None:
        """Register a source, or replace what was registered under its tenant and name.

        Raises:
            InputError: a value cannot be stored as it is.
        """
        row = row_of_source(root)
        Tenants(self._connection).ensure({root.tenant: root.registered_at})
        self._connection.execute(upsert_into(self._connection, sources), row)

    def get(self, tenant: str, name: str) -> SourceRoot | None:
        """Return a registered source, None when there is none."""
        named = {"tenant": checked_key(tenant, "tenant"), "name": checked_key(name, "name")}
        row = self._connection.execute(_GET, named).first()
        return None if row is None else source_of_row(row)

    def list(self, tenant: str | None = None) -> list[SourceRoot]:
        """Return the registered sources by tenant and name; of all tenants on None."""
        query = _LIST if tenant is None else _LIST.where(_S.tenant == checked_key(tenant, "tenant"))
        return [source_of_row(row) for row in self._connection.execute(query)]
