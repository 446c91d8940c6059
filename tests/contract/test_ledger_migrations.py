"""An older ledger with rows in it is brought to this program's schema, on both databases, and may go back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from kb.keys import Holder, KeyScope, minted
from kb.ledger import open_ledger
from kb.ledger.checks import json_text
from kb.ledger.engine import LEDGER_FILE
from kb.ledger.ledger import LedgerTx
from kb.ledger.migrate import revision_of
from kb.ledger.migrations import HEAD
from kb.ledger.rows import row_of_memory
from kb.model import Memory, SourceRoot
from kb.sweeps import Sweep, SweepId, SweepJob
from tests.history_samples import A1, an_answer, an_edge, an_event
from tests.ledger_samples import NOW, TRUST, a_document, a_fingerprint, a_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kb.ledger import Ledger
    from tests.fixtures_ledger import PostgresServer

HISTORY = {"answers", "citations", "evaluations", "lineage", "evidence", "utility"}
GOVERNANCE = {"sweeps", "actions", "images", "tombstones", "contradictions", "slots", "daemons"}
GOVERNED = {"shown", "pinned", "contested"}  # columns of memories since the third schema
CONFIDENCES = {1: 0.9, 2: 0.29, 3: 0.1234567, 4: 0.9999999, 5: 1.0, 6: 0.0, 7: 0.0005, 8: 0.5995}
SHOWN = {1: 900, 2: 290, 3: 123, 4: 999, 5: 1000, 6: 0, 7: 0, 8: 599}  # thousandths, rounded down


def migrated(connection: sa.Connection, run: Callable[[Config, str], None], revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", "kb.ledger:migrations")
    config.attributes["connection"] = connection
    run(config, revision)


def fill(connection: sa.Connection) -> None:
    """Write a row of every kind that the first schema knows."""
    tx, document = LedgerTx(connection), a_document()
    known = sa.Table("memories", sa.MetaData(), autoload_with=connection)
    tx.tenants.ensure({"acme": NOW})
    rows = [{name: value for name, value in row_of_memory(m).items() if name in known.c} for m in memories()]
    connection.execute(sa.insert(known), rows)
    tx.documents.put(document)
    tx.documents.add_version(document.id, 1, fingerprint=a_fingerprint("d1"), memory_ids=document.memory_ids, at=NOW)
    tx.sources.put(SourceRoot(name="handbook", tenant="acme", location="docs", source_class=a_memory(1).source_class))
    tx.runs.start("r1", kind="ingest", at=NOW)
    tx.outbox.mark([a_memory(1).id], NOW)
    tx.meta.set("k", {"a": 1})


def memories() -> list[Memory]:
    """Return memories of many confidences, as an old program wrote them."""
    return [a_memory(n, trust=replace(TRUST, confidence=c)) for n, c in CONFIDENCES.items()]


def everything(engine: sa.Engine) -> dict[str, list[tuple[object, ...]]]:
    """Return all rows of the first schema's tables, in its columns."""
    found = sa.MetaData()
    found.reflect(engine)
    since = {*HISTORY, *GOVERNANCE, "api_keys", "ledger_version"}
    tables = [t for t in found.sorted_tables if t.name not in since]
    with engine.connect() as connection:
        return {
            t.name: sorted((tuple(r) for r in connection.execute(sa.select(*_columns(t)))), key=repr) for t in tables
        }


def _columns(table: sa.Table) -> list[sa.Column[object]]:
    return [c for c in table.c if table.name != "memories" or c.name not in GOVERNED]


@pytest.fixture(params=["sqlite", "postgresql"])
def old_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str | None]:
    """URL of a ledger at the first revision, with rows; None for SQLite in `tmp_path`."""
    if request.param == "sqlite":
        yield None
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    name = server.create()
    yield server.url(name)
    server.drop(name)


@pytest.fixture
def old(old_url: str | None, tmp_path: Path) -> Iterator[sa.Engine]:
    """A plain engine on that ledger."""
    url = old_url or f"sqlite:///{tmp_path / LEDGER_FILE}"
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1), json_serializer=json_text)
    with engine.begin() as connection:
        migrated(connection, command.upgrade, "0001")
    with engine.begin() as connection:
        fill(connection)
    yield engine
    engine.dispose()


def test_an_upgrade_keeps_every_row_and_makes_room_for_history(
    old: sa.Engine, old_url: str | None, tmp_path: Path
) -> None:
    before = everything(old)
    assert {name for name, rows in before.items() if rows} >= {"memories", "versions", "outbox", "runs", "meta"}
    with open_ledger(old_url, data_dir=tmp_path) as ledger:
        assert everything(old) == before
        assert ledger.check().revision == HEAD
        with ledger.write() as tx:
            assert tx.memories.page("", 9) == memories()
            assert tx.answers.add(an_answer())
            assert tx.evidence.add([an_event()]) == [an_event()]
            tx.lineage.add([an_edge("m00001", "a1")])
    with open_ledger(old_url, data_dir=tmp_path) as again, again.read() as tx:
        assert tx.answers.get(A1, "acme") == an_answer()


def test_what_old_rows_have_shown_until_now_is_their_confidence_never_more(
    old: sa.Engine, old_url: str | None, tmp_path: Path
) -> None:
    open_ledger(old_url, data_dir=tmp_path).close()
    query = sa.text("SELECT id, shown, pinned, contested FROM memories ORDER BY id")
    with old.connect() as connection:
        rows = [
            (id_, shown, bool(pinned), bool(contested)) for id_, shown, pinned, contested in connection.execute(query)
        ]
    assert rows == [(f"m{n:05d}", shown, False, False) for n, shown in SHOWN.items()]


def test_many_who_open_an_old_ledger_at_once_upgrade_it_once(
    old: sa.Engine, old_url: str | None, tmp_path: Path
) -> None:
    def opened(_: int) -> str:
        with open_ledger(old_url, data_dir=tmp_path) as ledger:
            return ledger.check().revision

    before = everything(old)
    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(opened, range(6))) == {HEAD}
    assert everything(old) == before


def test_going_back_drops_history_and_governance_alone(old: sa.Engine, old_url: str | None, tmp_path: Path) -> None:
    before = everything(old)
    with open_ledger(old_url, data_dir=tmp_path) as ledger:
        remember(ledger)
    with old.begin() as connection:
        migrated(connection, command.downgrade, "0001")
    with old.connect() as connection:
        assert revision_of(connection) == "0001"
        assert not (HISTORY | GOVERNANCE) & set(sa.inspect(connection).get_table_names())
        assert not GOVERNED & {c["name"] for c in sa.inspect(connection).get_columns("memories")}
    assert everything(old) == before
    with open_ledger(old_url, data_dir=tmp_path) as ledger, ledger.read() as tx:
        assert tx.answers.page("acme") == []


def test_going_back_one_step_keeps_history(old: sa.Engine, old_url: str | None, tmp_path: Path) -> None:
    before = everything(old)
    with open_ledger(old_url, data_dir=tmp_path) as ledger:
        remember(ledger)
    with old.begin() as connection:
        migrated(connection, command.downgrade, "0002")
    with old.connect() as connection:
        assert not GOVERNANCE & set(sa.inspect(connection).get_table_names())
    assert everything(old) == before
    with open_ledger(old_url, data_dir=tmp_path) as ledger, ledger.read() as tx:
        assert tx.answers.get(A1, "acme") == an_answer()
        assert tx.sweeps.list(9) == []
        assert [m.pinned for m in tx.memories.page("", 1)] == [False]


def test_going_back_before_logouts_keeps_the_keys(old: sa.Engine, old_url: str | None, tmp_path: Path) -> None:
    key, _ = minted("ada", "acme", [KeyScope.GOVERN], Holder.PERSON, NOW)
    with open_ledger(old_url, data_dir=tmp_path) as ledger, ledger.write() as tx:
        tx.keys.add(key)
        tx.keys.log_out(key.id)
        tx.keys.log_out(key.id)
        assert tx.keys.get(key.id) == replace(key, logouts=2)
    with old.begin() as connection:
        migrated(connection, command.downgrade, "0004")
    with old.connect() as connection:
        assert "logouts" not in {c["name"] for c in sa.inspect(connection).get_columns("api_keys")}
    with open_ledger(old_url, data_dir=tmp_path) as ledger, ledger.read() as tx:
        assert tx.keys.list("acme") == [key]


def remember(ledger: Ledger) -> None:
    """Write an answer and a sweep."""
    with ledger.write() as tx:
        tx.answers.add(an_answer())
        tx.sweeps.begin(Sweep(id=SweepId("s1"), tenant="acme", job=SweepJob.PIN), [])
