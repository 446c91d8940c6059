"""Any ledger that the schema allows comes out of an archive, or of a copy, as it went in: between both databases."""

from __future__ import annotations

import base64
import struct
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kb.ledger import open_ledger
from kb.ledger.migrations import HEAD
from kb.ledger.portable import CARRIED, EMBEDDINGS, META, carried, shape_at_head
from kb.ledger.schema_serving import METADATA
from kb.moving.copying import copied, digest_of
from kb.moving.importing import looked_through, take_in
from kb.moving.manifest import Manifest
from kb.moving.reading import reading
from kb.moving.values import WORDS, checked_row
from kb.moving.writing import writing
from tests.moving import everything
from tests.property.ledger_values import INT64, JSON, NAME, REAL, TEXT, UNIT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.ledger import Ledger
    from tests.fixtures_ledger import PostgresServer

MODEL = "space"
FOREIGN = {(t.name, fk.parent.name): fk.column for t in METADATA.sorted_tables for fk in t.foreign_keys}
TABLES = carried(with_embeddings=True, with_keys=True, tenant=None)
HELD = JSON.filter(lambda value: type(value) not in {int, float})  # SQLite makes its own of a number that stands alone
ROOM = 3  # rows of a table at most
_names = count()


@st.composite
def ledgers(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    """Return rows for every table, their keys distinct, what they refer to among them."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for table in TABLES:
        wanted = draw(st.integers(0, ROOM))
        made = [draw_row(draw, table, rows) for _ in range(wanted)]
        keys = [c.name for c in METADATA.tables[table].primary_key]
        distinct = {repr([row[key] for key in keys]): row for row in made if row is not None}
        rows[table] = list(distinct.values())
    return rows


def draw_row(draw: st.DrawFn, table: str, rows: dict[str, list[dict[str, Any]]]) -> dict[str, Any] | None:
    row: dict[str, Any] = {}
    parents = {c.table.name for (own, _), c in FOREIGN.items() if own == table}
    chosen = {}
    for parent in parents:
        if not rows[parent]:
            return None
        chosen[parent] = draw(st.sampled_from(rows[parent]))
    for name, kind in shape_at_head(table).items():
        if (table, name) in FOREIGN:
            row[name] = chosen[FOREIGN[table, name].table.name][FOREIGN[table, name].name]
        elif not kind.endswith("?") or draw(st.booleans()):
            row[name] = draw(value_of(table, name, kind.removesuffix("?")))
    return fitted(table, row)


def value_of(table: str, name: str, kind: str) -> st.SearchStrategy[Any]:
    if (table, name) in WORDS:
        return st.sampled_from([word.value for word in WORDS[table, name]])
    if name in {"confidence", "relevance"}:
        return UNIT
    if name == "seq":
        return st.integers(1, 2**40)  # counted by the database
    is_key = name in METADATA.tables[table].primary_key or "source" in name
    words = NAME if is_key else TEXT
    kinds = {"integer": INT64, "real": REAL, "boolean": st.booleans(), "json": HELD, "text": words}
    return kinds.get(kind, st.just(""))


def fitted(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row that keeps the rules that go beyond a column."""
    if table == EMBEDDINGS:
        vector = struct.pack("<2f", 0.25, -1.5)
        row |= {"model": MODEL, "dim": 2, "vector": base64.b64encode(vector).decode()}
    if table == "evaluations":
        row["label"] = "relevant" if "relevance" in row else "unknown"
    if table == "documents":
        row["source"] = f"file://d/{next(_names)}"  # one live document a source
    if table == META and row["key"] in {"ledger_id", "arrival"}:
        row["key"] += "-other"
    return row


@pytest.fixture(scope="module")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Ledger]]:
    """Two ledgers, the kinds of which the parameter names."""
    opened = []
    for kind in request.param:
        url = None
        if kind == "postgresql":
            server: PostgresServer = request.getfixturevalue("postgres")
            url = server.url(server.create(request.getfixturevalue("migrated")))
        opened.append(open_ledger(url, data_dir=tmp_path_factory.mktemp("kb")))
    yield opened
    for ledger in opened:
        ledger.close()


def emptied(ledger: Ledger) -> None:
    with ledger.engines.writes.begin() as connection:
        for table in reversed(METADATA.sorted_tables):
            connection.execute(table.delete())


def put(ledger: Ledger, rows: dict[str, list[dict[str, Any]]]) -> None:
    emptied(ledger)
    with ledger.write() as tx:
        for table in TABLES:
            tx.portable.insert(table, shape_at_head(table), rows[table])


def archived(ledger: Ledger, target: Path) -> None:
    with writing(target) as archive, ledger.read() as tx:
        tables = {table: archive.add(table, shape_at_head(table), tx.portable.rows(table)) for table in TABLES}
        archive.seal(
            Manifest(schema=HEAD, product="1", created_at="", tenant=None, space=None, trust={}, tables=tables)
        )


WAYS = [("sqlite", "postgresql"), ("postgresql", "sqlite"), ("sqlite", "sqlite")]


@pytest.mark.parametrize("pair", WAYS, indirect=True, ids="-to-".join)
@settings(max_examples=5, phases=(Phase.explicit, Phase.generate))  # shrinking forty tables takes minutes
@given(rows=ledgers())
def test_any_ledger_comes_back_row_for_row(
    pair: list[Ledger], tmp_path_factory: pytest.TempPathFactory, rows: dict[str, list[dict[str, Any]]]
) -> None:
    moved_and_compared(pair, tmp_path_factory.mktemp("out"), rows)


def moved_and_compared(pair: list[Ledger], folder: Path, rows: dict[str, list[dict[str, Any]]]) -> None:
    one, other = pair
    put(one, rows)
    emptied(other)
    before = everything(one)
    assert sum(map(len, before.values())) == sum(map(len, rows.values()))
    assert all(checked_row(t, shape_at_head(t), row) == row for t, of in before.items() for row in of)
    target = folder / f"a{next(_names)}{'.tar' if next(_names) % 2 else ''}"
    archived(one, target)
    looked_through(target)
    with reading(target) as archive:
        take_in(other, archive, MODEL, 0)
    assert everything(other) == before
    emptied(other)
    done = copied(one, other, 0)
    assert everything(other) == before
    assert done.digest == digest_of(one) == digest_of(other)
    assert set(done.rows) == set(CARRIED)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("pair", [*WAYS, ("postgresql", "postgresql")], indirect=True, ids="-to-".join)
@settings(max_examples=200, phases=(Phase.explicit, Phase.generate))
@given(rows=ledgers())
def test_many_more_ledgers_come_back_row_for_row(
    pair: list[Ledger], tmp_path_factory: pytest.TempPathFactory, rows: dict[str, list[dict[str, Any]]]
) -> None:
    moved_and_compared(pair, tmp_path_factory.mktemp("out"), rows)
