"""Contradictions in a store: found once, contested on both sides, never settled by time, settled by a check."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from governance.actor import Actor
from governance.planning import planned
from governance.ports import Checked, Outcome
from governance.queue import Waits, review_queue
from governance.recheck import plan_recheck
from governance.review import decide
from governance.sweep import apply
from governance.undo import undo
from kb.model import Kind, Scope, SourceClass, Standing
from kb.sweeps import ActionKind, SweepJob
from kb.trust import DAY_MS, effective
from tests.disputing import (
    FIFTY,
    FILLER,
    FORTY,
    FUENFZIG,
    VIERZIG,
    FakeChecker,
    events_of,
    found,
    keep,
    now_of,
    open_contradictions,
    policy,
    recheck,
    said,
)
from tests.stores import FakeClock, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.index.milvus import MilvusServer
    from kb.memories import Memories

ANN = Actor(name="ann")


@pytest.fixture(params=["in process", "lite"])
def real(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memories]:
    """A store, on an index in this process and on Milvus Lite."""
    server: MilvusServer | None = request.getfixturevalue("milvus") if request.param == "lite" else None
    with open_store(tmp_path / "data", server=server, clock=FakeClock()) as memories:
        yield memories
        if server is not None:
            with memories.ledger.read() as tx:
                current = memories.generations.current(tx)
            if current is not None:
                server.drop(current.name)


@pytest.mark.parametrize(("one_text", "other_text"), [(FORTY, FIFTY), (VIERZIG, FUENFZIG)])
def test_both_sides_are_contested_once_and_the_sweep_can_be_undone(
    real: Memories, one_text: str, other_text: str
) -> None:
    one, other = said("a", one_text), said("b", other_text)
    fill = [said(f"f{n}", text) for n, text in enumerate(FILLER)]
    keep(real, one, other, *fill)
    sweep = recheck(real)
    assert [m.contested for m in now_of(real, one, other, *fill)] == [True, True, *(False for _ in fill)]
    (row,) = open_contradictions(real)
    assert row[:3] == (one.id, other.id, "number")
    assert ("40" in row[3], "55" in row[4]) == (True, True)
    again = recheck(real)
    assert (again.counts.get("contest", 0), len(open_contradictions(real))) == (0, 1)
    undo(real, again.id, "default", actor="ann", policy=policy())
    undo(real, sweep.id, "default", actor="ann", policy=policy())
    assert [m.contested for m in now_of(real, one, other)] == [False, False]
    assert open_contradictions(real) == []


def test_an_answer_another_tenant_and_another_scope_contest_nobody(store: Memories) -> None:
    mine = said("a", FORTY)
    others = (
        said("b", FIFTY, by=SourceClass.ANSWER, kind=Kind.ANSWER, standing=Standing.ACTIVE),
        said("c", FIFTY, tenant="elsewhere"),
        said("d", FIFTY, by=SourceClass.PERSON, scope=Scope(user="u1")),
        said("e", FIFTY, standing=Standing.QUARANTINED),
        said("f", FIFTY, standing=Standing.SUPERSEDED),
        said("g", FIFTY, doc="d-a"),
    )
    keep(store, mine, *others)
    recheck(store)
    assert not any(m.contested for m in now_of(store, mine, *others))
    assert open_contradictions(store) == []


def test_a_look_goes_on_where_the_last_one_ended_and_finds_what_comes_later(store: Memories) -> None:
    keep(store, said("a", FORTY), *(said(f"f{n}", text) for n, text in enumerate(FILLER)))
    recheck(store)
    store.clock.advance(DAY_MS)  # type: ignore[attr-defined] # the fake's
    recheck(store)
    assert not plan_recheck(store, policy(), store.clock.now()).actions
    keep(store, replace(said("b", FIFTY), updated_at=store.clock.now()))
    recheck(store)
    assert len(open_contradictions(store)) == 1


def test_time_settles_nothing_and_prunes_no_contested_memory(store: Memories) -> None:
    one, other = said("a", FORTY, by=SourceClass.PERSON), said("b", FIFTY, by=SourceClass.PERSON, scope=Scope())
    other = replace(other, source="note://person/b")
    keep(store, one, other)
    recheck(store)
    for _ in range(6):
        store.clock.advance(60 * DAY_MS)  # type: ignore[attr-defined] # the fake's
        for job in (SweepJob.DECAY, SweepJob.PRUNE, SweepJob.GC):
            plan = planned(store, job, policy(), store.clock.now())
            apply(store, plan, policy=policy(), actor="test", allow_mass=True)
        recheck(store)
    after = now_of(store, one, other)
    assert [(m.standing, m.contested) for m in after] == [(Standing.ACTIVE, True)] * 2
    assert all(effective(m.trust, store.clock.now(), 30 * DAY_MS) < 0.01 for m in after)
    assert len(open_contradictions(store)) == 1


def test_a_check_that_decides_for_one_side_settles_and_weighs_on_both(real: Memories) -> None:
    one, other = said("a", FORTY), said("b", FIFTY)
    keep(real, one, other)
    recheck(real)
    checker = FakeChecker(lambda _: found(Outcome.CONTRADICTED, "city.example", "port.example"))
    recheck(real, checker=checker)
    (claim,) = checker.asked
    assert claim.rival is not None
    assert (claim.said.text, claim.rival.text, claim.not_from) == (FORTY, FIFTY, frozenset({"a", "b"}))
    lost, won = now_of(real, one, other)
    assert (lost.contested, won.contested, open_contradictions(real)) == (False, False, [])
    assert events_of(real, one) == [("check", -2.0, "check:against:city.example+port.example")]
    assert events_of(real, other)[0] == ("check", 2.0, "check:for:city.example+port.example")
    assert lost.trust.confidence < 0.7
    assert won.trust.confidence > 0.9
    recheck(real, checker=checker)
    assert (len(checker.asked), open_contradictions(real)) == (1, [])


def test_checks_keep_to_their_budget_and_ask_nobody_again_too_soon(store: Memories) -> None:
    pairs = [
        said(f"{side}{n}", f"The bridge number {n} of Harbour town carries a load of {tons} tons on dry days.")
        for n in range(4)
        for side, tons in (("a", 40), ("b", 55))
    ]
    keep(store, *pairs)
    recheck(store)
    assert len(open_contradictions(store)) == 4
    checker = FakeChecker(lambda _: Checked(outcome=Outcome.NOTHING))
    own = policy(checks=3)
    recheck(store, by=own, checker=checker)
    assert len(checker.asked) == 3
    store.clock.advance(DAY_MS)  # type: ignore[attr-defined] # the fake's
    recheck(store, by=own, checker=checker)
    assert len({c.memory_id for c in checker.asked}) == len(checker.asked) == 4
    store.clock.advance(7 * DAY_MS)  # type: ignore[attr-defined] # the fake's
    recheck(store, by=own, checker=checker)
    assert len(checker.asked) == 7
    assert len(open_contradictions(store)) == 4


def test_one_source_is_heard_by_checks_only_once_for_the_same_thing(store: Memories) -> None:
    due = said("a", FORTY, verified=True)
    keep(store, due)
    checker = FakeChecker(lambda _: found(Outcome.CONTRADICTED, "city.example", "port.example"))
    for days in (181, 8, 8):
        store.clock.advance(days * DAY_MS)  # type: ignore[attr-defined] # the fake's
        recheck(store, checker=checker)
    assert len(checker.asked) == 3
    assert events_of(store, due) == [("check", -2.0, "check:against:city.example+port.example")]


def test_a_check_that_cannot_be_made_is_tried_again_with_the_next_sweep(store: Memories) -> None:
    keep(store, said("a", FORTY), said("b", FIFTY))
    recheck(store)
    checker = FakeChecker(lambda _: Checked(outcome=Outcome.UNASKED, problem="the search is away"))
    plan = plan_recheck(store, policy(), store.clock.now(), checker=checker)
    assert "not checked: the search is away" in plan.notes
    recheck(store, checker=checker)
    assert len(checker.asked) == 2


def test_a_verification_settles_and_so_does_a_side_that_leaves_until_it_comes_back(store: Memories) -> None:
    one, other = said("a", FORTY), said("b", FIFTY)
    keep(store, one, other)
    recheck(store)
    store.clock.advance(DAY_MS)  # type: ignore[attr-defined] # the fake's
    with store.ledger.write() as tx:
        (left,) = tx.memories.get([other.id]).values()
        gone = replace(left, standing=Standing.SUPERSEDED, rev=left.rev + 1, updated_at=store.clock.now())
        tx.memories.replace([gone])
    recheck(store)
    assert (open_contradictions(store), now_of(store, one)[0].contested) == ([], False)
    store.clock.advance(DAY_MS)  # type: ignore[attr-defined] # the fake's
    with store.ledger.write() as tx:
        (gone,) = tx.memories.get([other.id]).values()
        back = replace(gone, standing=Standing.ACTIVE, rev=gone.rev + 1, updated_at=store.clock.now())
        tx.memories.replace([back])
        tx.outbox.mark([back.id], store.clock.now())
    store.projector.drain()
    recheck(store)
    assert len(open_contradictions(store)) == 1
    decide(store, [one.id], SweepJob.VERIFY, policy=policy(), actor=ANN)
    assert (open_contradictions(store), [m.contested for m in now_of(store, one, other)]) == ([], [False, False])
    recheck(store)
    assert open_contradictions(store) == []


def test_a_verified_memory_speaks_against_an_unverified_one_once_and_loses_nothing_itself(store: Memories) -> None:
    sure, doubtful = said("a", FORTY, verified=True), said("b", FIFTY)
    keep(store, sure, doubtful)
    before = now_of(store, sure, doubtful)
    recheck(store)
    recheck(store)
    assert events_of(store, doubtful) == [("contradiction", -1.0, "a")]
    assert events_of(store, sure) == []
    after = now_of(store, sure, doubtful)
    assert after[0].trust == before[0].trust
    assert after[1].trust.confidence < before[1].trust.confidence
    assert after[1].standing is Standing.ACTIVE  # one negative never kills
    assert all(m.contested for m in after)


def test_the_queue_holds_both_sides_with_their_values_then_what_is_due_then_what_waits(store: Memories) -> None:
    one, other = said("a", FORTY), said("b", FIFTY)
    waits, due = said("w", FILLER[0], by=SourceClass.WEB), said("v", FILLER[1], verified=True)
    keep(store, one, other, waits, due)
    recheck(store)
    later = store.clock.now() + 181 * DAY_MS
    queue = review_queue(store, "default", later)
    assert [(i.memory.id, i.why) for i in queue] == [
        (one.id, Waits.CONTESTED),
        (other.id, Waits.CONTESTED),
        (due.id, Waits.DUE),
        (waits.id, Waits.QUARANTINED),
    ]
    assert (queue[0].other_id, queue[0].value, queue[0].other_value) == (other.id, "40 tons", "55 tons")
    assert (queue[1].other_id, queue[1].value, queue[1].other_value) == (one.id, "55 tons", "40 tons")
    assert [i.memory.id for i in review_queue(store, "default", later, why=[Waits.DUE])] == [due.id]
    assert len(review_queue(store, "default", later, limit=2)) == 2


def test_an_index_that_is_away_leaves_the_place_and_says_so(tmp_path: Path) -> None:
    from tests.stores import InProcessServer

    server = InProcessServer()
    with open_store(tmp_path / "data", server=server) as store:
        keep(store, said("a", FORTY), said("b", FIFTY))
        server.is_away = True
        plan = plan_recheck(store, policy(), store.clock.now())
        assert not any(a.kind is ActionKind.LOOK for a in plan.actions)
        assert "contradictions were not looked for" in plan.notes[0]
        server.is_away = False
        recheck(store)
        assert len(open_contradictions(store)) == 1


def test_a_plan_changes_nothing_and_is_the_same_again(store: Memories) -> None:
    keep(store, said("a", FORTY), said("b", FIFTY), said("c", FORTY, verified=True))
    one = plan_recheck(store, policy(), store.clock.now())
    assert plan_recheck(store, policy(), store.clock.now()).hash == one.hash
    assert one.counts == {"contest": 4, "weigh": 2} | ({"look": 1} if one.counts.get("look") else {})
