"""Tenants, registered by the first row that names them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from kb.ledger.batches import insert_into
from kb.ledger.checks import checked_int, checked_key
from kb.ledger.schema import tenants

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kb.model import Instant


class Tenants:
    """The tenants of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def ensure(self, first_seen: Mapping[str, Instant]) -> None:
        """Register tenants that are new, with the instant at which each was first seen.

        Raises:
            InputError: a name is empty or cannot be stored.
        """
        rows = [
            {"name": checked_key(name, "tenant"), "created_at": checked_int(at, "created_at")}
            for name, at in sorted(first_seen.items())
        ]
        if rows:
            self._connection.execute(insert_into(self._connection, tenants).on_conflict_do_nothing(), rows)

    def list(self) -> list[str]:
        """Return every tenant's name, in order."""
        return list(self._connection.execute(sa.select(tenants.c.name).order_by(tenants.c.name)).scalars())
