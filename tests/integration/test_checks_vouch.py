"""What an external check makes of a memory: verified for a while, by whose word, and what takes that back again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from governance.actor import Actor
from governance.explain import explain
from governance.plan import Plan, plan_of_json
from governance.planning import planned
from governance.ports import Checked, Outcome
from governance.queue import Waits, review_queue
from governance.recheck import plan_recheck
from governance.review import decide
from governance.sweep import apply
from governance.undo import undo
from kb.errors import InputError
from kb.history import EvidenceEvent, EvidenceKind
from kb.model import Scope, SourceClass, Standing
from kb.sweeps import ActionKind, SweepJob, TombstoneKind
from kb.trust import DAY_MS, effective
from kb.vouching import vouchers
from tests.disputing import (
    FIFTY,
    FILLER,
    FORTY,
    FakeChecker,
    cite,
    events_of,
    found,
    keep,
    now_of,
    open_contradictions,
    policy,
    recheck,
    said,
)
from tests.stores import T0

if TYPE_CHECKING:
    from governance.ports import Claim
    from kb.memories import Memories
    from kb.model import Memory

ANN = Actor(name="ann")
YES = ("check", 2.0, "check:for:city.example+port.example")
NO = ("check", -2.0, "check:against:lake.example+mill.example")


def supports(_: Claim) -> Checked:
    return found(Outcome.SUPPORTED, "city.example", "port.example")


def refutes(_: Claim) -> Checked:
    return found(Outcome.CONTRADICTED, "lake.example", "mill.example")


def later(store: Memories, days: float) -> None:
    store.clock.advance(round(days * DAY_MS))  # type: ignore[attr-defined] # the fake's


def history_of(store: Memories, memory: Memory) -> list[EvidenceEvent]:
    with store.ledger.read() as tx:
        return tx.evidence.of_memory(memory.id)


def a_vouched(store: Memories, *, by: SourceClass = SourceClass.WEB, text: str = FORTY) -> Memory:
    """Return a memory that waited, was cited, and was borne out by a check."""
    waits = said("w", text, by=by)
    keep(store, waits)
    cite(store, waits)
    recheck(store, checker=FakeChecker(supports))
    return now_of(store, waits)[0]


@pytest.mark.parametrize("by", [SourceClass.WEB, SourceClass.AGENT])
def test_a_check_lets_out_what_waited_and_was_cited_and_holds_it_for_its_own_while(
    store: Memories, by: SourceClass
) -> None:
    after, now = a_vouched(store, by=by), store.clock.now()
    assert (after.standing, after.trust.verified, after.trust.verified_at) == (Standing.ACTIVE, True, now)
    assert after.trust.confidence == pytest.approx((0.5 + 2) / 3)  # by the formula of evidence alone
    assert after.trust.anchor == now + 60 * DAY_MS
    assert effective(after.trust, now + 60 * DAY_MS, 30 * DAY_MS) > 0.7
    assert events_of(store, after)[0] == YES
    assert vouchers(after, history_of(store, after)) == {"city.example", "port.example"}
    why = " | ".join(explain(store, after.id, policy(), now).why)
    assert "no person vouched for it: a check did, by city.example and port.example" in why


def test_the_hold_is_a_setting(store: Memories) -> None:
    waits = said("w", FORTY, by=SourceClass.WEB)
    keep(store, waits)
    cite(store, waits)
    recheck(store, by=policy(checked_hold_days=9.0), checker=FakeChecker(supports))
    assert now_of(store, waits)[0].trust.anchor == T0 + 9 * DAY_MS


def test_what_nobody_cited_is_not_asked_about_and_the_most_cited_is_asked_first(store: Memories) -> None:
    waits = [said(f"w{n}", text, by=SourceClass.WEB) for n, text in enumerate(FILLER[:4])]
    private = said("p", FORTY, by=SourceClass.AGENT, scope=Scope(user="u1"))
    keep(store, *waits, private)
    for n, memory in enumerate(waits[1:], 1):
        cite(store, memory, times=n)
    cite(store, private, times=9)  # a note of somebody's own: nobody is asked about it outside
    checker = FakeChecker(lambda _: Checked(outcome=Outcome.NOTHING))
    recheck(store, by=policy(checks=2), checker=checker)
    assert [c.memory_id for c in checker.asked] == [waits[3].id, waits[2].id]
    recheck(store, by=policy(checks=2), checker=checker)
    assert [c.memory_id for c in checker.asked[2:]] == [waits[1].id]
    assert all(m.standing is Standing.QUARANTINED for m in now_of(store, *waits))


def test_disputes_and_what_fell_due_come_before_what_waits(store: Memories) -> None:
    one, other, due = said("a", FORTY), said("b", FIFTY), said("d", FILLER[0], verified=True)
    waits = said("w", FILLER[1], by=SourceClass.WEB)
    later(store, 181)
    keep(store, one, other, due, waits)
    cite(store, waits, times=5)
    recheck(store)
    checker = FakeChecker(lambda _: Checked(outcome=Outcome.NOTHING))
    recheck(store, checker=checker)
    assert [c.memory_id for c in checker.asked] == [one.id, due.id, waits.id]


def test_a_repeated_check_by_the_same_sources_renews_the_hold_and_weighs_nothing(store: Memories) -> None:
    before = a_vouched(store)
    later(store, 61)
    assert [i.why for i in review_queue(store, "default", store.clock.now())] == [Waits.DUE]
    recheck(store, checker=FakeChecker(supports))
    (after,) = now_of(store, before)
    assert after.trust.anchor == store.clock.now() + 60 * DAY_MS
    assert (after.trust.confidence, after.trust.strength) == (before.trust.confidence, before.trust.strength)
    assert len(events_of(store, after)) == 2
    assert review_queue(store, "default", store.clock.now()) == []


def test_a_check_that_refutes_takes_back_what_only_a_check_had_vouched_for(store: Memories) -> None:
    vouched = a_vouched(store)
    later(store, 61)
    sweep = recheck(store, checker=FakeChecker(refutes))
    (after,) = now_of(store, vouched)
    assert (after.trust.verified, after.standing) == (False, Standing.QUARANTINED)
    assert after.standing_reason == "refuted by a check: lake.example and mill.example say otherwise"
    assert NO in events_of(store, after)
    undo(store, sweep.id, "default", actor="ann", policy=policy())
    (back,) = now_of(store, vouched)
    assert (back.trust, back.standing) == (vouched.trust, Standing.ACTIVE)


def test_a_check_never_takes_back_what_a_person_vouched_for(store: Memories) -> None:
    vouched = a_vouched(store)
    later(store, 1)
    decide(store, [vouched.id], SweepJob.VERIFY, policy=policy(), actor=ANN)
    assert vouchers(now_of(store, vouched)[0], history_of(store, vouched)) == frozenset()
    later(store, 181)
    recheck(store, checker=FakeChecker(refutes))
    (after,) = now_of(store, vouched)
    assert (after.trust.verified, after.standing) == (True, Standing.ACTIVE)
    assert [i.why for i in review_queue(store, "default", store.clock.now() + 1)] == [Waits.DUE]


def test_a_dispute_with_a_persons_word_waits_for_a_person_whatever_a_check_says(store: Memories) -> None:
    sure, other = said("a", FORTY, verified=True), said("b", FIFTY)
    keep(store, sure, other)
    recheck(store)
    checker = FakeChecker(refutes)
    for _ in range(3):
        recheck(store, checker=checker)
        later(store, 8)
    after = now_of(store, sure, other)
    assert len(open_contradictions(store)) == 1
    assert [m.trust.verified for m in after] == [True, False]
    assert all(m.contested for m in after)
    assert len([c for c in checker.asked if c.rival]) == 1  # asking again would decide nothing


def test_a_persons_word_outweighs_what_a_check_vouched_for_and_not_the_other_way_round(store: Memories) -> None:
    vouched, sure = a_vouched(store), said("s", FIFTY, verified=True)
    keep(store, sure)
    recheck(store)
    assert ("contradiction", -1.0, "s") in events_of(store, vouched)
    assert events_of(store, sure) == []
    assert now_of(store, sure)[0].trust == sure.trust


REFUSED = {
    "rolled back": {"standing_reason": "rolled back by sweep 1"},
    "superseded": {"standing": Standing.SUPERSEDED},
    "retired": {"standing": Standing.RETIRED},
    "contested": {"contested": True},
}


@pytest.mark.parametrize("case", [*REFUSED, "rejected", "barred", "a document", "split"])
def test_no_check_lets_out_what_waits_for_a_person(store: Memories, case: str) -> None:
    memory = said("w", FORTY, by=SourceClass.WEB, **REFUSED.get(case, {}))  # type: ignore[arg-type] # columns
    if case == "a document":
        memory = said("w", FORTY, standing=Standing.QUARANTINED)
    keep(store, memory)
    if case == "rejected":
        decide(store, [memory.id], SweepJob.REJECT, policy=policy(), actor=ANN)
        memory = now_of(store, memory)[0]
    if case == "barred":
        with store.ledger.write() as tx:
            tx.tombstones.add("default", TombstoneKind.TEXT, [FORTY], sweep_id="s1", reason="rolled_back", at=T0)  # type: ignore[arg-type]
    if case == "split":
        with store.ledger.write() as tx:
            tx.evidence.add([_against(memory)])
    before = now_of(store, memory)[0]
    _force_vouching(store, before)
    after = now_of(store, memory)[0]
    assert (after.trust, after.standing) == (before.trust, before.standing)


def _against(memory: Memory) -> EvidenceEvent:
    return EvidenceEvent(
        memory_id=memory.id, tenant="default", kind=EvidenceKind.CHECK, weight=-2.0, witness=NO[2], at=T0
    )


def _force_vouching(store: Memories, memory: Memory) -> None:
    from governance.vouching import vouching

    action = vouching(memory, ("city.example", "port.example"))
    own = Plan(tenant="default", job=SweepJob.RECHECK, policy=policy().hash, at=T0, actions=(action,))
    apply(store, own, policy=policy(), actor="test")


def test_one_source_vouches_for_nothing(store: Memories) -> None:
    waits = said("w", FORTY, by=SourceClass.WEB)
    keep(store, waits)
    cite(store, waits)
    recheck(store, checker=FakeChecker(lambda _: found(Outcome.SUPPORTED, "city.example")))
    assert now_of(store, waits)[0].standing is Standing.QUARANTINED


def test_no_plan_in_a_file_vouches_for_what_was_asked_outside(store: Memories) -> None:
    waits = said("w", FORTY, by=SourceClass.WEB)
    keep(store, waits)
    cite(store, waits)
    plan = plan_recheck(store, policy(), T0, checker=FakeChecker(supports))
    assert ActionKind.VOUCH in {a.kind for a in plan.actions}
    with pytest.raises(InputError, match="vouch"):
        plan_of_json(plan.as_json())


def test_a_winning_side_is_vouched_for_once_the_dispute_is_settled(store: Memories) -> None:
    one, other = said("a", FORTY), said("b", FIFTY)
    keep(store, one, other)
    recheck(store)
    recheck(store, checker=FakeChecker(lambda _: found(Outcome.CONTRADICTED, "city.example", "port.example")))
    lost, won = now_of(store, one, other)
    assert (won.trust.verified, won.contested, lost.trust.verified) == (True, False, False)
    assert won.trust.anchor == store.clock.now() + 60 * DAY_MS


def test_what_a_check_vouched_for_is_never_pruned_while_it_is_verified(store: Memories) -> None:
    vouched = a_vouched(store)
    later(store, 400)
    plan = planned(store, SweepJob.PRUNE, policy(), store.clock.now())
    assert vouched.id not in {a.memory_id for a in plan.actions}


def test_a_memory_that_was_there_before_keeps_the_strength_it_had(store: Memories) -> None:
    old = said("w", FORTY, by=SourceClass.WEB)
    old = replace(old, trust=replace(old.trust, strength=4.0))
    keep(store, old)
    cite(store, old)
    recheck(store, checker=FakeChecker(supports))
    assert now_of(store, old)[0].trust.confidence == pytest.approx((4 * 0.5 + 2) / 6)
