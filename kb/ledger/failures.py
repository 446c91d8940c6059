"""Documents that could not be ingested: kept, counted and retried when they, or the pipeline, change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from kb.ledger.batches import insert_into
from kb.ledger.checks import checked_key, checked_name, checked_text
from kb.ledger.rows import failure_of_row, row_of_failure
from kb.ledger.schema import failures

if TYPE_CHECKING:
    from kb.model import Failure

_F = failures.c
_AT = (_F.tenant == sa.bindparam("tenant"), _F.source == sa.bindparam("source"))
_GET = sa.select(failures).where(*_AT)
_CLEAR = sa.delete(failures).where(*_AT)
_OF_ROOT = (
    sa.select(failures).where(_F.tenant == sa.bindparam("tenant"), _F.root == sa.bindparam("root")).order_by(_F.source)
)


class Failures:
    """The failures of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def record(self, failure: Failure) -> Failure:
        """Keep a failure in place of the source's last one; return it as kept.

        The same bytes failing in the same pipeline again is one more attempt; otherwise counting starts with the
        failure's own `attempts`. What a message cannot hold (NUL, lone surrogates) is replaced in it.

        Raises:
            InputError: another value cannot be stored as it is.
        """
        insert = insert_into(self._connection, failures)
        new = insert.excluded
        again = sa.and_(_F.raw == new.raw, _F.pipeline == new.pipeline)
        attempts = sa.case((again, _F.attempts + 1), else_=new.attempts)
        changed = {c.name: new[c.name] for c in _F if c.name not in ("tenant", "source")} | {"attempts": attempts}
        upsert = insert.on_conflict_do_update(index_elements=["tenant", "source"], set_=changed)
        return failure_of_row(self._connection.execute(upsert.returning(*_F), row_of_failure(failure)).one())

    def get(self, tenant: str, source: str) -> Failure | None:
        """Return the last failure of a source, None when there is none."""
        row = self._connection.execute(_GET, _named(tenant, source)).first()
        return None if row is None else failure_of_row(row)

    def clear(self, tenant: str, source: str) -> bool:
        """Forget a source's failure, since it succeeded or is gone; return whether there was one."""
        return self._connection.execute(_CLEAR, _named(tenant, source)).rowcount > 0

    def count(self, tenant: str) -> int:
        """Return how many of a tenant's documents failed last time."""
        query = sa.select(sa.func.count()).select_from(failures).where(_F.tenant == checked_key(tenant, "tenant"))
        return int(self._connection.execute(query).scalar_one())

    def of_root(self, tenant: str, root: str) -> list[Failure]:
        """Return a root's failures in order of their sources."""
        named = {"tenant": checked_key(tenant, "tenant"), "root": checked_name(root, "root")}
        return [failure_of_row(row) for row in self._connection.execute(_OF_ROOT, named)]


def _named(tenant: str, source: str) -> dict[str, str]:
    return {"tenant": checked_key(tenant, "tenant"), "source": checked_text(source, "source")}
