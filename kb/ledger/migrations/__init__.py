"""The ledger's schema, step by step. Alembic runs them; `kb.ledger.migrate` calls it.

The revisions are listed here as well, so that opening a ledger that is up to date need not load Alembic.
"""

from __future__ import annotations

REVISIONS = ("0001", "0002", "0003", "0004", "0005")  # oldest first; a test compares them with the files
HEAD = REVISIONS[-1]
VERSION_TABLE = "ledger_version"  # our own name, so that a shared PostgreSQL database may hold other programs' too
