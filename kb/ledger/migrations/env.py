"""Alembic's entry: runs the steps on the connection it is handed, inside that connection's transaction."""

from __future__ import annotations

from alembic import context

from kb.ledger import schema_governance
from kb.ledger.migrations import VERSION_TABLE


def run() -> None:
    connection = context.config.attributes["connection"]
    context.configure(
        connection=connection,
        target_metadata=schema_governance.METADATA,
        version_table=VERSION_TABLE,
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


run()
