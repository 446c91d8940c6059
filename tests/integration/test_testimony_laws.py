"""Laws of testimony: nobody is heard twice, no flag outlives its contradiction, nobody asks without consent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from governance.actor import Actor
from governance.check import checked, default_policy, faults
from governance.explain import explained
from governance.policy import ClassRules
from governance.ports import Checked, Outcome
from governance.recheck import plan_recheck
from governance.review import decide
from governance.sweep import apply
from jobs.outside import ASKS, outside
from kb.independence import root_of
from kb.model import Scope, SourceClass, Standing
from kb.reputation import Record
from kb.settings import Settings, WebSearchSettings
from kb.sweeps import SweepJob
from kb.trust import DAY_MS
from tests.disputing import (
    FIFTY,
    FILLER,
    FORTY,
    FakeChecker,
    derive,
    events_of,
    found,
    keep,
    now_of,
    open_contradictions,
    policy,
    promote,
    recheck,
    said,
)
from tests.governing import a_policy
from tests.stores import T0

if TYPE_CHECKING:
    from kb.memories import Memories
    from kb.model import Memory

ANN = Actor(name="ann")
ALSO = "On dry days the Harbour Bridge carries a load of 40 tons."
THIRD = "The Harbour Bridge carries a load of 40,000 kg on dry days."
NEITHER = "On dry days the Harbour Bridge carries a load of 55 tons."
FIRST = said("a", THIRD, verified=True)
NOTE = said("n", ALSO, by=SourceClass.PERSON, verified=True)
ECHOES = {"copy": (said("b", THIRD, verified=True), False), "note": (NOTE, True)}


@pytest.mark.parametrize("case", ECHOES)
@pytest.mark.parametrize("is_later", [False, True])
def test_an_echo_of_a_witness_is_heard_by_no_recheck_at_once_or_later(
    store: Memories, case: str, *, is_later: bool
) -> None:
    hearer, (echo, is_derived) = said("h", FORTY), ECHOES[case]
    keep(store, hearer, FIRST)
    for _ in range(2 if is_later else 0):
        recheck(store)
        store.clock.advance(DAY_MS)  # type: ignore[attr-defined] # the fake's
    echo = replace(echo, updated_at=store.clock.now())
    keep(store, echo)
    if is_derived:
        derive(store, echo, FIRST.id)
    recheck(store)
    recheck(store)
    assert [e[:2] for e in events_of(store, hearer)] == [("agreement", 1.0)]


def test_an_echo_of_a_witness_contradicts_nobody_again(store: Memories) -> None:
    waits, against = said("w", FORTY, by=SourceClass.WEB), said("z", FIFTY, verified=True)
    keep(store, waits, against)
    promote(store)
    echo = said("b", NEITHER, by=SourceClass.PERSON, verified=True)  # its id is the lesser
    keep(store, echo)
    derive(store, echo, against.id)
    promote(store)
    assert events_of(store, waits) == [("contradiction", -1.0, "z")]


def test_a_root_that_a_check_heard_is_no_second_witness_in_the_store_nor_the_other_way_round(store: Memories) -> None:
    due = said("d", FORTY, verified=True)
    held = replace(due.trust, verified=False, verified_at=None)
    keep(store, due)
    store.clock.advance(181 * DAY_MS)  # type: ignore[attr-defined] # the fake's
    recheck(store, checker=FakeChecker(lambda _: found(Outcome.SUPPORTED, "city.example", "port.example")))
    assert [e[0] for e in events_of(store, due)] == ["check"]
    now = store.clock.now()
    with store.ledger.write() as tx:  # as if nobody had vouched for it, so that it hears what others say
        (own,) = tx.memories.get([due.id]).values()
        tx.memories.replace([replace(own, trust=held, rev=own.rev + 1, updated_at=now)])
        tx.outbox.mark([own.id], now)
    page = said("c", ALSO, by=SourceClass.WEB, source="https://www.city.example/page", verified=True, updated_at=now)
    far = replace(page, trust=replace(page.trust, anchor=now, birth=now))
    keep(store, far)
    recheck(store)
    assert [e[0] for e in events_of(store, due)] == ["check"]


@pytest.mark.parametrize("by", [SourceClass.PERSON, SourceClass.AGENT])
def test_one_author_is_one_witness_whoever_may_read_the_notes(store: Memories, by: SourceClass) -> None:
    own = Scope(agent="a1", user="ann")
    waits = said("w", FORTY, by=SourceClass.WEB, scope=own)
    notes = [
        said(f"n{n}", text, by=by, verified=True, scope=scope)
        for n, (text, scope) in enumerate([(ALSO, own), (THIRD, Scope(user="ann")), (f"{FORTY} It is red.", Scope())])
    ]
    assert len({root_of(n) for n in notes}) == 1
    keep(store, waits, *notes)
    promote(store)
    assert now_of(store, waits)[0].standing is Standing.QUARANTINED
    assert len(events_of(store, waits)) == 1


def _touched(store: Memories, memory: Memory) -> None:
    with store.ledger.write() as tx:
        (own,) = tx.memories.get([memory.id]).values()
        tx.memories.replace([replace(own, rev=own.rev + 1, updated_at=store.clock.now())])


@pytest.mark.parametrize("moved", [0, 1])
def test_a_side_that_changed_under_the_sweep_is_contested_by_the_next_one(store: Memories, moved: int) -> None:
    sides = (said("a", FORTY), said("b", FIFTY))
    keep(store, *sides)
    plan = plan_recheck(store, policy(), store.clock.now())
    _touched(store, sides[moved])
    apply(store, plan, policy=policy(), actor="test")
    recheck(store)
    assert [m.contested for m in now_of(store, *sides)] == [True, True]
    assert len(open_contradictions(store)) == 1


@pytest.mark.parametrize("moved", [0, 1])
def test_no_flag_outlives_its_contradiction_though_a_side_changed_under_the_sweep(store: Memories, moved: int) -> None:
    sides = (said("a", FORTY), said("b", FIFTY))
    keep(store, *sides)
    recheck(store)
    checker = FakeChecker(lambda _: found(Outcome.CONTRADICTED, "city.example", "port.example"))
    plan = plan_recheck(store, policy(), store.clock.now(), checker=checker)
    _touched(store, sides[moved])
    apply(store, plan, policy=policy(), actor="test")
    recheck(store)
    assert open_contradictions(store) == []
    assert [m.contested for m in now_of(store, *sides)] == [False, False]


def test_what_was_asked_lately_keeps_nobody_else_from_being_checked(
    store: Memories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("governance.checks.PAGE", 2)
    keep(store, *(said(f"d{n}", text, verified=True) for n, text in enumerate(FILLER[:6])))
    store.clock.advance(181 * DAY_MS)  # type: ignore[attr-defined] # the fake's
    checker = FakeChecker(lambda _: Checked(outcome=Outcome.NOTHING))
    for _ in range(3):
        recheck(store, by=policy(checks=2), checker=checker)
    assert len({c.memory_id for c in checker.asked}) == len(checker.asked) == 6


@pytest.mark.parametrize(("provider", "approve"), [("searxng", "never"), ("tavily", "never"), ("tavily", "ask")])
def test_nobody_is_asked_outside_without_consent(provider: str, approve: str) -> None:
    search = WebSearchSettings.model_validate(
        {"provider": provider, "approve": approve, "url": "http://127.0.0.1:9", "api_key": "k"}
    )
    with outside(Settings(search=search), checks=5, is_dry=False) as asked:
        assert asked.checker is None
        assert asked.note == ("" if approve == "never" else ASKS)


def test_a_source_whose_memory_a_person_verified_after_all_is_not_held_to_account(store: Memories) -> None:
    pages = [said(f"p{n}", FILLER[n], by=SourceClass.WEB, source=f"https://city.example/{n}") for n in range(3)]
    keep(store, *pages)
    decide(store, [m.id for m in pages], SweepJob.REJECT, policy=policy(), actor=ANN)
    store.clock.advance(DAY_MS)  # type: ignore[attr-defined] # the fake's
    decide(store, [pages[0].id], SweepJob.VERIFY, policy=policy(), actor=ANN)
    with store.ledger.read() as tx:
        assert tx.reputation.of_hosts("default", ["city.example"])["city.example"] == Record(good=1, bad=2)
    store.clock.advance(DAY_MS)  # type: ignore[attr-defined] # the fake's
    decide(store, [pages[0].id], SweepJob.REJECT, policy=policy(), actor=ANN)
    with store.ledger.read() as tx:
        assert tx.reputation.of_hosts("default", ["city.example"])["city.example"] == Record(bad=3)


@pytest.mark.parametrize("standing", Standing)
def test_every_sentence_of_an_explanation_is_true_of_its_standing(standing: Standing) -> None:
    memory = said("m", FORTY, standing=standing, pinned=True, contested=True)
    why = " | ".join(explained(memory, policy(), T0).why)
    assert ("never pruned" in why) is (standing is not Standing.RETIRED)
    assert ("never erased" in why) is (standing is Standing.RETIRED)
    assert ("not retrieved but for the past" in why) is (standing is Standing.SUPERSEDED)
    assert (": it is retrieved" in why) is (standing is Standing.ACTIVE)


@pytest.mark.parametrize(
    ("confidence", "gate", "is_refused"), [(0.6, 0.7, True), (0.99, 0.96, False), (0.95, 0.7, False)]
)
def test_a_gate_is_measured_against_what_a_verification_is_worth_here(
    confidence: float, gate: float, *, is_refused: bool
) -> None:
    own = a_policy(gate=gate)
    curated = replace(own.trust[SourceClass.CURATED], confidence=confidence)
    codes = {f.code for f in faults(replace(own, trust={**own.trust, SourceClass.CURATED: curated})) if f.is_refusal}
    assert ("gate_above_verified" in codes) is is_refused


def test_a_restore_window_of_minutes_is_no_way_back() -> None:
    own = a_policy(mass_share=1.0)
    rules = {**own.rules, SourceClass.DOCUMENT: ClassRules(restore_days=0.01)}
    assert "no_way_back" in {f.code for f in faults(replace(own, rules=rules)) if f.is_refusal}


def test_a_proposal_cannot_hide_what_it_does_by_looking_less_far(store: Memories) -> None:
    keep(store, *(said(f"n{n}", f"{FORTY} {n}", by=SourceClass.AGENT, standing=Standing.ACTIVE) for n in range(5)))
    greedy = a_policy(prune_below=0.45, prune_after=3.0, forecast_days=1)
    assert checked(store, greedy, T0).is_safe
    assert not checked(store, greedy, T0, in_force=default_policy("default")).is_safe
