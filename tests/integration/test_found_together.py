"""Pages that one search found and that say the same: a check for which nobody is paid; and whose voice is whose."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from governance.actor import Actor
from governance.plan import plan_of_json
from governance.ports import Checked, Outcome
from governance.recheck import plan_recheck
from governance.review import decide
from governance.rollback import carried_out, surveyed
from governance.selection import Selection
from governance.sweep import apply
from kb.evidence_rules import applied
from kb.history import EvidenceEvent, EvidenceKind
from kb.model import Scope, SourceClass, Standing
from kb.rolled_back import is_rolled_back
from kb.sweeps import SweepJob
from kb.trust import DAY_MS
from kb.vouching import vouchers
from tests.disputing import (
    FIFTY,
    FORTY,
    POLICIES,
    FakeChecker,
    cite,
    events_of,
    keep,
    now_of,
    policy,
    promote,
    recheck,
    said,
    search_for,
)

if TYPE_CHECKING:
    from kb.memories import Memories
    from kb.model import Memory

ANN = Actor(name="ann")
ALSO = "On dry days the Harbour Bridge carries a load of 40 tons."
THIRD = "The Harbour Bridge carries a load of 40,000 kg on dry days."
FIRST, SECOND = said("a", FORTY, by=SourceClass.WEB), said("b", ALSO, by=SourceClass.WEB)


def find(store: Memories, *pages: Memory) -> None:
    """Store pages as one search of an answered question found them, and as its answer cited them."""
    keep(store, *pages)
    cite(store, *pages)
    search_for(store, "load of the bridge", *pages)


def test_two_owners_that_say_the_same_are_a_check_for_which_nobody_is_asked(store: Memories) -> None:
    find(store, FIRST, SECOND)
    checker = FakeChecker(lambda _: Checked(outcome=Outcome.NOTHING))
    recheck(store, checker=checker)
    assert checker.asked == []
    for memory in now_of(store, FIRST, SECOND):
        assert (memory.standing, memory.trust.verified) == (Standing.ACTIVE, True)
        assert memory.trust.confidence == pytest.approx((0.5 + 2) / 3)
        assert events_of(store, memory)[0] == ("check", 2.0, "check:for:a.example+b.example")
    assert not plan_recheck(store, policy(), store.clock.now(), checker=checker).counts.get("vouch")


def test_a_plan_of_it_can_be_kept_in_a_file_and_applied(store: Memories) -> None:
    find(store, FIRST, SECOND)
    plan = plan_of_json(plan_recheck(store, policy(), store.clock.now()).as_json())
    apply(store, plan, policy=policy(), actor="ann", is_exact=True)
    assert all(m.trust.verified for m in now_of(store, FIRST, SECOND))


def test_words_that_changed_meanwhile_vouch_for_nothing(store: Memories) -> None:
    find(store, FIRST, SECOND)
    plan = plan_recheck(store, policy(), store.clock.now())
    decide(store, [SECOND.id], SweepJob.REJECT, policy=policy(), actor=ANN)
    apply(store, plan, policy=policy(), actor="test")
    assert [m.trust.verified for m in now_of(store, FIRST, SECOND)] == [False, False]


NO_CHECK = {
    "one owner": (FIRST, said("b", ALSO, by=SourceClass.WEB, source="https://www.a.example/other")),
    "a copy": (FIRST, said("b", FORTY, by=SourceClass.WEB)),
    "another value": (FIRST, said("b", FIFTY, by=SourceClass.WEB)),
    "a third says otherwise": (FIRST, SECOND, said("c", FIFTY, by=SourceClass.WEB)),
    "an agent's own words": (FIRST, said("b", ALSO, by=SourceClass.AGENT)),
    "a private page": (FIRST, said("b", ALSO, by=SourceClass.WEB, scope=Scope(user="u1"))),
    "rolled back": (FIRST, replace(SECOND, standing_reason="rolled back by sweep 1")),
    "retired": (FIRST, replace(SECOND, standing=Standing.RETIRED)),
}


@pytest.mark.parametrize("case", NO_CHECK)
def test_anything_less_is_no_check(store: Memories, case: str) -> None:
    find(store, *NO_CHECK[case])
    recheck(store)
    assert not now_of(store, FIRST)[0].trust.verified


def test_pages_that_no_search_found_together_are_no_check(store: Memories) -> None:
    keep(store, FIRST, SECOND)
    cite(store, FIRST, SECOND)
    search_for(store, "one", FIRST)
    search_for(store, "another", SECOND)
    recheck(store)
    assert not any(m.trust.verified for m in now_of(store, FIRST, SECOND))


def test_what_no_answer_cited_waits(store: Memories) -> None:
    keep(store, FIRST, SECOND)
    search_for(store, "load of the bridge", FIRST, SECOND)
    recheck(store)
    assert not any(m.trust.verified for m in now_of(store, FIRST, SECOND))


def test_two_forged_hosts_deceive_everybody_and_are_rolled_back_with_what_they_brought(store: Memories) -> None:
    forged = (said("x", FIFTY, by=SourceClass.WEB), said("y", FIFTY + " Ships pass at noon.", by=SourceClass.WEB))
    find(store, *forged)
    recheck(store)
    assert all(m.standing is Standing.ACTIVE and m.trust.verified for m in now_of(store, *forged))
    store.clock.advance(DAY_MS)  # type: ignore[attr-defined] # the fake's
    for host in ("x.example", "y.example"):
        wanted = Selection(source=host)
        radius = surveyed(store, wanted, policy(), store.clock.now())
        carried_out(store, wanted, radius, policy=policy(), actor="ann")
    assert all(is_rolled_back(m) for m in now_of(store, *forged))
    for _ in range(2):
        store.clock.advance(8 * DAY_MS)  # type: ignore[attr-defined] # the fake's
        recheck(store, checker=FakeChecker(lambda _: Checked(outcome=Outcome.SUPPORTED, roots=("p", "q"))))
        promote(store)
    assert all(m.standing is Standing.QUARANTINED for m in now_of(store, *forged))


def test_what_the_same_sources_vouched_for_is_one_witness(store: Memories) -> None:
    hearer = said("h", THIRD)
    find(store, FIRST, SECOND)
    recheck(store)
    keep(store, hearer)
    recheck(store)
    recheck(store)
    assert len([e for e in events_of(store, hearer) if e[0] == "agreement"]) == 1
    assert events_of(store, hearer)[0][2] == "a.example+b.example"


def test_a_source_is_no_second_witness_of_what_it_has_vouched_for_another_time(store: Memories) -> None:
    """A check by a and b bears the hearer out; a page of c that a and b vouched for says nothing new to it."""
    hearer, page = said("h", THIRD), said("c", ALSO, by=SourceClass.WEB)
    keep(store, hearer, page)
    cite(store, page)
    checker = FakeChecker(lambda _: Checked(outcome=Outcome.SUPPORTED, roots=("a.example", "b.example")))
    recheck(store, checker=checker)
    assert vouchers(now_of(store, page)[0], _history(store, page)) == {"a.example", "b.example"}
    heard = _event(hearer, EvidenceKind.CHECK, 2.0, "check:for:a.example+b.example", store.clock.now())
    with store.ledger.write() as tx:
        tx.evidence.add([heard])
        (own,) = tx.memories.get([hearer.id]).values()
        tx.memories.replace([applied(own, [heard], policy=POLICIES[SourceClass.DOCUMENT], now=store.clock.now())])
    before = events_of(store, hearer)
    recheck(store)
    assert events_of(store, hearer) == before


def test_a_page_vouched_for_by_the_hearers_own_source_is_its_echo(store: Memories) -> None:
    hearer, page = said("h", THIRD, by=SourceClass.WEB, standing=Standing.ACTIVE), said("c", ALSO, by=SourceClass.WEB)
    keep(store, hearer, page)
    cite(store, page)
    checker = FakeChecker(lambda _: Checked(outcome=Outcome.SUPPORTED, roots=("h.example", "k.example")))
    recheck(store, checker=checker)
    assert now_of(store, page)[0].trust.verified
    recheck(store)
    assert not [e for e in events_of(store, hearer) if e[0] == "agreement"]


def _history(store: Memories, memory: Memory) -> list[EvidenceEvent]:
    with store.ledger.read() as tx:
        return tx.evidence.of_memory(memory.id)


def _event(memory: Memory, kind: EvidenceKind, weight: float, witness: str, at: int) -> EvidenceEvent:
    return EvidenceEvent(memory_id=memory.id, tenant="default", kind=kind, weight=weight, witness=witness, at=at)
