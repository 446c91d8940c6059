"""What of a ledger is carried to another one: which tables, whose rows, and each row as plain values and back.

A column that is NULL is left out of its row, so that a JSON column's own `null` stays apart from it. Bytes are base64.
Tables are read from the schema and written as the database has them, so that a ledger that was stepped back to an older
revision takes rows of that revision. Streams; memory does not grow with the ledger.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from kb.ledger import schema_serving
from kb.ledger.migrate import step_to
from kb.ledger.migrations import HEAD
from kb.ledger.schema import (
    METADATA,
    answers,
    citations,
    documents,
    embeddings,
    memories,
    meta,
    utility,
    versions,
)
from kb.ledger.schema_governance import actions, images, sweeps
from kb.ledger.tombstones import SALT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kb.model import Json

    Where = Callable[[str], sa.ColumnElement[bool]]

EMBEDDINGS, KEYS, META = embeddings.name, schema_serving.api_keys.name, meta.name
ARRIVAL = "arrival"  # key in meta: what this ledger was filled from, and whether its index is built
STAYS = frozenset({"ledger_id", ARRIVAL})  # keys in meta that are about this ledger alone
OF_ALL = frozenset({SALT, "half_life_days"})  # keys in meta that every tenant's memories need
STREAM = 500  # rows fetched at a time; each may hold a long text
NULLABLE = "?"  # ends the kind of a column that may be NULL


def _by_tenant(table: str) -> Where:
    return lambda tenant: METADATA.tables[table].c.tenant == tenant


def _by_parent(column: sa.Column[Any], parent: sa.Column[Any]) -> Where:
    whose = parent.table.c.tenant
    return lambda tenant: column.in_(sa.select(parent).where(whose == tenant))


# Every table that travels, and how a tenant's rows are found; None: they are the whole store's, not a tenant's.
CARRIED: Mapping[str, Where | None] = {
    "tenants": lambda tenant: METADATA.tables["tenants"].c.name == tenant,
    META: lambda _: sa.true(),  # narrowed by key, see `_is_carried`
    "sources": _by_tenant("sources"),
    "documents": _by_tenant("documents"),
    "versions": _by_parent(versions.c.doc_id, documents.c.id),
    "memories": _by_tenant("memories"),
    "runs": _by_tenant("runs"),
    "failures": _by_tenant("failures"),
    "answers": _by_tenant("answers"),
    "citations": _by_parent(citations.c.answer_id, answers.c.id),
    "evaluations": _by_tenant("evaluations"),
    "lineage": _by_tenant("lineage"),
    "evidence": _by_tenant("evidence"),
    "utility": _by_parent(utility.c.memory_id, memories.c.id),
    "sweeps": _by_tenant("sweeps"),
    "actions": _by_parent(actions.c.sweep_id, sweeps.c.id),
    "images": _by_parent(images.c.sweep_id, sweeps.c.id),
    "tombstones": _by_tenant("tombstones"),
    "contradictions": _by_tenant("contradictions"),
    "slots": None,
    EMBEDDINGS: _by_parent(embeddings.c.text_hash, memories.c.embed_hash),
    KEYS: _by_tenant(KEYS),
}
LEFT_OUT: Mapping[str, str] = {
    "outbox": "what the old index had not got yet; the new one is built from the ledger",
    "collections": "names of the old index; the new one has its own",
    "daemons": "processes of the old machine",
}


class Portable:
    """The carried rows of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._is_stepped = False

    def step_to(self, revision: str) -> None:
        """Step the whole schema back or forward, within the transaction; what a revision does not know is lost."""
        step_to(self._connection, revision)
        self._is_stepped = revision != HEAD

    def rows(self, table: str, tenant: str | None = None) -> Iterator[dict[str, Json]]:
        """Yield a table's rows in the order of their keys.

        Args:
            table: a name in `CARRIED`.
            tenant: whose rows; None: all.
        """
        of, where = METADATA.tables[table], CARRIED[table]
        kinds = shape_of(of)
        shown = [self._spelt(c) if kinds[c.name].startswith("json") else c for c in of.c]
        query = sa.select(*shown).order_by(*of.primary_key)
        if tenant is not None:
            query = query.where(sa.false() if where is None else where(tenant))
        with self._connection.execute(query.execution_options(yield_per=STREAM)) as found:
            for row in found:
                plain = _plain(kinds, row)
                if table != META or _is_carried(plain, tenant):
                    yield plain

    def count(self, table: str) -> int:
        """Return how many rows a table has."""
        of = METADATA.tables[table]
        return int(self._connection.execute(sa.select(sa.func.count()).select_from(of)).scalar_one())

    def occupied(self, tables: Iterable[str]) -> list[str]:
        """Return those of these tables that hold rows; `meta` always does and is never named."""
        return [t for t in tables if t != META and self._has_rows(METADATA.tables[t])]

    def shut(self, tables: Sequence[str]) -> None:
        """Keep every other writer out of these tables until the transaction ends; SQLite's has done that already."""
        if self._connection.dialect.name == "postgresql":
            named = ", ".join(f'"{METADATA.tables[t].name}"' for t in tables)
            self._connection.exec_driver_sql(f"LOCK TABLE {named} IN SHARE ROW EXCLUSIVE MODE")

    def shape(self, table: str) -> dict[str, str]:
        """Return the kinds of a table's columns by name, as this database has them now; empty when it is not there."""
        if not self._is_stepped:
            return shape_at_head(table)
        if not sa.inspect(self._connection).has_table(table):
            return {}
        return shape_of(sa.Table(table, sa.MetaData(), autoload_with=self._connection, resolve_fks=False))

    def clear_meta(self) -> None:
        """Delete what `meta` says, but for what it says about this very ledger."""
        self._connection.execute(sa.delete(meta).where(meta.c.key.not_in(sorted(STAYS))))

    def insert(self, table: str, shape: Mapping[str, str], rows: Iterable[Mapping[str, Json]]) -> None:
        """Insert rows as `rows` yields them, each checked before.

        Args:
            table: a name in `CARRIED`.
            shape: kinds of its columns by name.
            rows: every column of theirs is in `shape`, every column without NULL in them.

        Raises:
            IntegrityError: a key is taken, or a row refers to one that is not there.
        """
        bound = [{name: _bound(kind, row.get(name), name in row) for name, kind in shape.items()} for row in rows]
        if bound:
            into = sa.Table(table, sa.MetaData(), *(sa.Column(name, _wire(kind)) for name, kind in shape.items()))
            self._connection.execute(sa.insert(into), bound)

    def finish(self, tables: Iterable[str]) -> None:
        """Let counters go on above what was inserted, and check every reference now.

        Raises:
            IntegrityError: a row refers to one that is not there.
        """
        if self._connection.dialect.name != "postgresql":
            return
        for table in (METADATA.tables[t] for t in tables):
            counter = table.autoincrement_column
            if counter is not None and counter.autoincrement is True:
                self._connection.exec_driver_sql(
                    f"SELECT setval(pg_get_serial_sequence('{table.name}', '{counter.name}'),"  # noqa: S608 - ours
                    f' (SELECT greatest(max("{counter.name}"), 1) FROM "{table.name}")) FROM "{table.name}" LIMIT 1'
                )
        self._connection.exec_driver_sql("SET CONSTRAINTS ALL IMMEDIATE")

    def _spelt(self, column: sa.Column[Any]) -> sa.ColumnElement[Any]:
        """Return JSON as the database spells it: only so NULL and `null` differ."""
        if self._connection.dialect.name == "postgresql":
            return sa.cast(column, sa.Text)
        return sa.type_coerce(column, sa.types.NullType())  # a bare number is one there, and a cast would round it

    def _has_rows(self, table: sa.Table) -> bool:
        return self._connection.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first() is not None


def carried(*, with_embeddings: bool, with_keys: bool, tenant: str | None) -> list[str]:
    """Return the tables that travel, those that are referred to first."""
    passed_over = {*(() if with_embeddings else (EMBEDDINGS,)), *(() if with_keys else (KEYS,))}
    if tenant is not None:
        passed_over |= {name for name, where in CARRIED.items() if where is None}
    return [t.name for t in METADATA.sorted_tables if t.name in CARRIED and t.name not in passed_over]


def left_out(names: Iterable[str]) -> dict[str, str]:
    """Return why the tables that are not among `names` stay behind."""
    why = {
        EMBEDDINGS: "made anew by the importing embedder; --with-embeddings carries it",
        KEYS: "access belongs to a place; --with-keys carries the hashes",
        "slots": "the schedule of the whole store, not of a tenant",
    }
    gone = [t.name for t in METADATA.sorted_tables if t.name not in set(names)]
    return {name: LEFT_OUT.get(name) or why[name] for name in gone}


def shape_of(table: sa.Table) -> dict[str, str]:
    """Return the kinds of a table's columns by name: text, integer, real, boolean, json, bytes; `?` for nullable."""
    return {c.name: f"{_kind(c.type)}{NULLABLE if c.nullable else ''}" for c in table.c}


def shape_at_head(table: str) -> dict[str, str]:
    """Return the kinds of a carried table's columns in this program's schema."""
    return shape_of(METADATA.tables[table])


_KINDS: tuple[tuple[type[sa.types.TypeEngine[Any]], str], ...] = (
    (sa.JSON, "json"),
    (sa.LargeBinary, "bytes"),
    (sa.Boolean, "boolean"),
    (sa.Integer, "integer"),
    (sa.Float, "real"),
    (sa.String, "text"),
)
_WIRE: Mapping[str, sa.types.TypeEngine[Any]] = {
    "json": sa.JSON(none_as_null=True),
    "bytes": sa.LargeBinary(),
    "boolean": sa.Boolean(),
    "integer": sa.BigInteger(),
    "real": sa.Double(),
    "text": sa.Text(),
}


def _kind(column_type: sa.types.TypeEngine[Any]) -> str:
    return next(kind for known, kind in _KINDS if isinstance(column_type, known))


def _wire(kind: str) -> sa.types.TypeEngine[Any]:
    return _WIRE[kind.removesuffix(NULLABLE)]


def _plain(kinds: Mapping[str, str], row: Sequence[Any]) -> dict[str, Json]:
    plain: dict[str, Json] = {}
    for (name, kind), value in zip(kinds.items(), row, strict=True):
        if value is None:
            continue
        if kind.startswith("json"):
            plain[name] = json.loads(value) if isinstance(value, str) else value
        else:
            plain[name] = base64.b64encode(value).decode("ascii") if kind.startswith("bytes") else value
    return plain


def _bound(kind: str, value: Json, is_there: bool) -> Any:  # noqa: ANN401, FBT001 - what a driver takes; see `insert`
    if kind.startswith("json") and is_there and value is None:
        return sa.JSON.NULL
    if kind.startswith("bytes") and isinstance(value, str):
        return base64.b64decode(value, validate=True)
    return value


def _is_carried(row: Mapping[str, Json], tenant: str | None) -> bool:
    key, value = str(row["key"]), row.get("value")
    if key in STAYS:
        return False
    if tenant is None or key in OF_ALL or key.endswith(f":{tenant}"):
        return True
    return isinstance(value, dict) and value.get("tenant") == tenant
