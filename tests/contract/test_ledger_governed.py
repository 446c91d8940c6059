"""What sweeps find in a ledger, on both databases: what a look at every row would find, by ranges of indexes alone."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event

from governance.candidates import decay_actions, gc_actions, key_actions, prune_actions
from governance.decide import decayed, lines_of, pruned
from kb.ledger.governed import Fading, governed_row
from kb.model import DocumentId, SourceClass, Standing
from kb.trust import DAY_MS
from tests.governing import a_key, a_policy, governed
from tests.ledger_samples import a_document
from tests.stores import T0

if TYPE_CHECKING:
    from kb.ledger import Ledger
    from kb.model import Memory

POLICY = a_policy("acme")
LINES = lines_of(POLICY)
LATER = T0 + 400 * DAY_MS


def some_memories() -> list[Memory]:
    """Memories of every class but answers, of every standing, 0 to 240 days old, one in nine of them guarded."""
    classes = [c for c in SourceClass if c is not SourceClass.ANSWER]
    return [
        governed(
            f"{n:03}",
            classes[n % 5],
            policy=POLICY,
            age=float(n),
            confidence=(n % 13) / 12,
            standing=list(Standing)[n % 7 % 5],
            verified=n % 9 == 0,
            pinned=n % 9 == 1,
            contested=n % 9 == 2,
            doc_id=DocumentId(f"d{n % 20}") if classes[n % 5] in (SourceClass.DOCUMENT, SourceClass.CURATED) else None,
        )
        for n in range(240)
    ]


@pytest.fixture
def held(ledger: Ledger) -> list[Memory]:
    """Two tenants' memories, one tenant's returned."""
    ours = some_memories()
    others = [replace(m, id=f"x{m.id}", tenant="zenith", doc_id=None) for m in ours]  # type: ignore[arg-type]
    with ledger.write() as tx:
        tx.memories.add([*ours, *others])
    return ours


def test_faded_rows_are_those_that_the_formula_names_and_no_others(ledger: Ledger, held: list[Memory]) -> None:
    fading = Fading(below=0.3, born_before=T0 - 60 * DAY_MS, created_until=T0 - 20 * DAY_MS)
    with ledger.read() as tx:
        found = [row.id for row in tx.governed.faded("acme", dict.fromkeys(LINES, fading))]
    expected = [
        m
        for m in held
        if m.standing in (Standing.ACTIVE, Standing.QUARANTINED)
        and not (m.trust.verified or m.pinned or m.contested)
        and (m.trust.confidence < 0.3 or m.trust.birth < fading.born_before)
        and m.created_at <= fading.created_until
    ]
    assert found == [m.id for m in sorted(expected, key=lambda m: (m.doc_id or "", m.id))]


def test_what_is_held_below_the_line_is_found_though_its_birth_is_late(ledger: Ledger) -> None:
    doubtful = governed("a", policy=POLICY, confidence=0.1, age=20, anchor=T0 + 900 * DAY_MS)
    with ledger.write() as tx:
        tx.memories.add([doubtful])
        assert [a.memory_id for a in prune_actions(tx, POLICY, T0)] == [doubtful.id]


def test_decay_plans_for_each_row_what_is_decided_for_it_alone(ledger: Ledger, held: list[Memory]) -> None:
    with ledger.read() as tx:
        found = {a.memory_id: a for a in decay_actions(tx, POLICY, LATER)}
    rows = [governed_row(m) for m in held]
    assert found == {r.id: a for r in rows if (a := decayed(r, LINES[r.source_class], LATER)) is not None}


def test_prune_plans_for_each_document_what_is_decided_for_it_alone(ledger: Ledger, held: list[Memory]) -> None:
    with ledger.read() as tx:
        found = {a.memory_id for a in prune_actions(tx, POLICY, LATER)}
    expected: set[str] = set()
    documents: dict[str, list[Memory]] = {}
    for memory in held:
        documents.setdefault(memory.doc_id or memory.id, []).append(memory)
    for own in documents.values():
        live = sum(m.standing is Standing.ACTIVE for m in own) if own[0].doc_id else 0
        expected |= {a.memory_id for a in pruned([governed_row(m) for m in own], LINES, LATER, live=live)}
    assert found == expected
    assert found


def test_levels_are_those_that_rows_show(ledger: Ledger, held: list[Memory]) -> None:
    with ledger.read() as tx:
        found = tx.governed.levels("acme", Standing.ACTIVE, SourceClass.WEB, above=50)
        live = tx.governed.live("acme")
    own = [governed_row(m) for m in held if m.source_class is SourceClass.WEB and m.standing is Standing.ACTIVE]
    assert found == sorted({row.shown for row in own if row.shown > 50})
    assert live == sum(m.standing in (Standing.ACTIVE, Standing.QUARANTINED) for m in held)


def test_a_key_goes_with_the_last_memory_behind_it(ledger: Ledger) -> None:
    one, other = (governed(n, SourceClass.PERSON, policy=POLICY, age=20) for n in ("one", "other"))
    both, steps = a_key("both", [one, other], policy=POLICY)
    single, more = a_key("single", [one], policy=POLICY)
    idle, most = a_key("idle", [], policy=POLICY)
    pinned, _ = a_key("pinned", [], policy=POLICY, pinned=True)
    young, _ = a_key("young", [], policy=POLICY, age=1.0)
    with ledger.write() as tx:
        tx.memories.add([one, other, both, single, idle, pinned, young])
        tx.lineage.add([*steps, *more, *most])

        def going(*retiring: Memory) -> list[str]:
            return [a.memory_id for a in key_actions(tx, POLICY, T0, [m.id for m in retiring])]

        assert going() == [idle.id]
        assert going(one) == [idle.id, single.id]
        assert going(one, other) == [idle.id, both.id, single.id]
        tx.memories.replace([replace(one, standing=Standing.SUPERSEDED, rev=2)])
        assert going(other) == [idle.id, single.id, both.id]


def test_forecast_rows_come_by_document_with_its_root_and_without_live_keys(ledger: Ledger) -> None:
    first = governed("1", policy=POLICY, doc_id=DocumentId("d1"))
    second = governed("2", policy=POLICY, doc_id=DocumentId("d0"))
    note = governed("3", SourceClass.PERSON, policy=POLICY)
    key, _ = a_key("4", [], policy=POLICY)
    gone, _ = a_key("5", [], policy=POLICY, standing=Standing.RETIRED)
    with ledger.write() as tx:
        tx.documents.put(a_document("d1"))
        tx.memories.add([first, second, note, key, gone])
        found = [(root, row.id) for root, row in tx.governed.believed("acme")]
    assert found == [("", note.id), ("", gone.id), ("", second.id), ("handbook", first.id)]


def test_no_plan_reads_the_whole_table(ledger: Ledger, held: list[Memory]) -> None:
    statements: dict[str, Any] = {}

    def keep(_connection: object, _cursor: object, statement: str, parameters: object, *_: object) -> None:
        statements.setdefault(statement, parameters)

    with ledger.read() as tx:
        connection = tx.governed._connection
        event.listen(connection, "before_cursor_execute", keep)
        for actions in (decay_actions, prune_actions, gc_actions):
            list(actions(tx, POLICY, LATER))
        list(key_actions(tx, POLICY, LATER, [m.id for m in held]))
        event.remove(connection, "before_cursor_execute", keep)
        if ledger.dialect == "postgresql":  # it reads so small a table whole unless that is ruled out
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        how = "EXPLAIN QUERY PLAN " if ledger.dialect == "sqlite" else "EXPLAIN "
        plans = [
            "\n".join(map(str, connection.exec_driver_sql(how + statement, parameters)))
            for statement, parameters in statements.items()
        ]
    assert len(plans) >= 7
    for plan in plans:
        assert not re.search(r"SCAN (memories|lineage|cited|key_step|cited_step)\b|Seq Scan", plan), plan
    if ledger.dialect == "sqlite":  # PostgreSQL chooses by statistics, which so small a table has none of
        together = "\n".join(plans)
        for exact in (
            "ix_memories_shown (tenant=? AND standing=? AND source_class=? AND shown=? AND birth<?)",
            "ix_memories_gate (tenant=? AND standing=? AND birth<?)",
            "COVERING INDEX ix_memories_shown (tenant=? AND standing=? AND source_class=? AND shown>?)",
        ):
            assert exact in together
