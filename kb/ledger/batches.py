"""Lists of any length against databases that bound them, and the upsert both databases spell alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from sqlalchemy.dialects import postgresql, sqlite

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import sqlalchemy as sa

IN_LIMIT = 1_000  # names in one IN list; SQLite allows 32,766 parameters, PostgreSQL 65,535

T = TypeVar("T")


def chunks(items: Sequence[T], size: int = IN_LIMIT) -> Iterator[Sequence[T]]:
    """Yield `items` in runs of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def insert_into(connection: sa.Connection, table: sa.Table) -> sqlite.Insert | postgresql.Insert:
    """Return the insert of this connection's database, which knows ON CONFLICT."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


def upsert_into(
    connection: sa.Connection, table: sa.Table, *, keep: tuple[str, ...] = (), same: str | None = None
) -> sqlite.Insert | postgresql.Insert:
    """Return an insert that, where the primary key is taken, replaces every other column but those in `keep`.

    Args:
        connection: whose database the insert is for.
        table: with a primary key.
        keep: columns whose stored value stays.
        same: a column that must not change; where it would, nothing is written and no row is returned.
    """
    insert = insert_into(connection, table)
    keys = [column.name for column in table.primary_key]
    changed = {c.name: insert.excluded[c.name] for c in table.c if c.name not in keys and c.name not in keep}
    guard = None if same is None else table.c[same] == insert.excluded[same]
    return insert.on_conflict_do_update(index_elements=keys, set_=changed, where=guard)
