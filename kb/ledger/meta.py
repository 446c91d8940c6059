"""Small facts about the ledger itself, as JSON by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from kb.ledger.batches import upsert_into
from kb.ledger.checks import checked_json, checked_key
from kb.ledger.schema import meta

if TYPE_CHECKING:
    from kb.model import Json

_GET = sa.select(meta.c.value).where(meta.c.key == sa.bindparam("key"))


class Meta:
    """The facts of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def get(self, key: str, default: Json = None) -> Json:
        """Return the value at `key`, or `default`."""
        row = self._connection.execute(_GET, {"key": checked_key(key, "key")}).first()
        value: Json = default if row is None else row[0]
        return value

    def set(self, key: str, value: Json) -> None:
        """Keep a value.

        Raises:
            InputError: JSON cannot hold it without loss.
        """
        row = {"key": checked_key(key, "key"), "value": checked_json(value, "value")}
        self._connection.execute(upsert_into(self._connection, meta), row)
