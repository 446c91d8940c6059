"""Laws of what people decide: it can be taken back, it settles its disputes, and nobody else moves what was refused."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.actor import Actor, Role
from governance.corroborate import plan_promote
from governance.decisions import DECISIONS, refusal, rejected, verified
from governance.explain import explain
from governance.planning import planned
from governance.queue import Waits, review_queue
from governance.review import decide
from governance.sweep import apply
from governance.undo import undo
from kb.errors import Refused
from kb.evidence_rules import applied, is_rejected
from kb.history import EvidenceEvent, EvidenceKind
from kb.model import FOREVER, Kind, MemoryId, Standing
from kb.sweeps import ActionKind, Contradiction, SweepJob, TombstoneKind
from kb.trust import DAY_MS
from tests.stores import T0, InProcessServer, open_store
from tests.swept import a_governed, a_plan, index_rows, is_in_step, ledger_rows, policy, stocked, unsafe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from governance.review import Decided
    from kb.memories import Memories
    from kb.model import Memory
    from kb.sweeps import Sweep

_tenants = count()
SEEDS = st.integers(0, 10**6)
FEW = settings(max_examples=20)
ADA = Actor(name="ada")
CHANGING = (SweepJob.VERIFY, SweepJob.REJECT, SweepJob.PIN, SweepJob.UNPIN, SweepJob.RESTORE)


class World:
    """One store for all examples; each has a tenant of its own."""

    def __init__(self, store: Memories, server: InProcessServer) -> None:
        self.store, self.server, self.tenant = store, server, ""

    def begin(self, seed: int, size: int = 8) -> list[Memory]:
        self.tenant = f"d{next(_tenants)}"
        self.store.clock.instant = T0  # type: ignore[attr-defined] # the fake's
        return stocked(self.store, count=size, seed=seed, tenant=self.tenant)

    def decide(self, job: SweepJob, of: Sequence[Memory], actor: Actor = ADA) -> Decided:
        self.store.clock.advance(1_000)  # type: ignore[attr-defined]
        ids = [m.id for m in of]
        return decide(self.store, ids, job, policy=policy(self.tenant), actor=actor, reason="seen")

    def undo(self, sweep: Sweep) -> None:
        self.store.clock.advance(1_000)  # type: ignore[attr-defined]
        undo(self.store, sweep.id, self.tenant, actor="ada", policy=policy(self.tenant))

    def sweep(self, of: Sequence[Memory], kind: ActionKind) -> Sweep:
        self.store.clock.advance(1_000)  # type: ignore[attr-defined]
        own = policy(self.tenant)
        plan = a_plan(self.now(of), kinds=[kind], live=10**6)
        return apply(self.store, plan, policy=own, actor="law", allow_mass=True)

    def now(self, of: Sequence[Memory]) -> list[Memory]:
        with self.store.ledger.read() as tx:
            return list(tx.memories.get([m.id for m in of]).values())

    def rows(self) -> tuple[object, object]:
        assert is_in_step(self.store)
        return ledger_rows(self.store, self.tenant), index_rows(self.server, self.tenant)

    def contest(self, *pairs: tuple[Memory, Memory]) -> None:
        sides = {m.id: replace(m, contested=True, rev=m.rev + 1) for pair in pairs for m in pair}
        found = [
            Contradiction(tenant=self.tenant, one=min(a.id, b.id), other=max(a.id, b.id), kind="number", found_at=T0)
            for a, b in pairs
        ]
        with self.store.ledger.write() as tx:
            tx.memories.replace(list(sides.values()))
            tx.contradictions.add(found)
            tx.outbox.mark(list(sides), T0)
        self.store.projector.drain()

    def open(self) -> set[tuple[str, str]]:
        with self.store.ledger.read() as tx:
            return {(c.one, c.other) for c in tx.contradictions.open(self.tenant)}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    server = InProcessServer()
    with open_store(tmp_path_factory.mktemp("decided"), server=server) as store:
        unsafe(store)
        yield World(store, server)


def active(memories: Sequence[Memory]) -> list[Memory]:
    return [m for m in memories if m.standing is Standing.ACTIVE]


@FEW
@given(seed=SEEDS, job=st.sampled_from(CHANGING), share=st.integers(1, 8))
def test_a_decision_that_is_undone_leaves_no_trace(world, seed, job, share):
    made = world.begin(seed)
    before = world.rows()
    decided = world.decide(job, made[:share])
    done = {m.id for m in made[:share]} - set(decided.refused)
    assert (decided.sweep is not None) is bool(done)
    if decided.sweep is not None:
        assert world.rows() != before
        world.undo(decided.sweep)
    assert world.rows() == before


@FEW
@given(seed=SEEDS)
def test_what_is_verified_stands_as_curated_and_is_undone_through_a_rejection(world, seed):
    made = world.begin(seed)
    before = world.rows()
    done = world.decide(SweepJob.VERIFY, made)
    then = world.rows()
    for memory in done.memories:
        if memory.id not in done.refused:
            assert (memory.trust.confidence, memory.trust.verified, memory.standing) == (0.95, True, Standing.ACTIVE)
            assert memory.trust.anchor == memory.updated_at + 180 * DAY_MS
            assert not memory.contested
    refused = world.decide(SweepJob.REJECT, made)
    assert {m.standing for m in refused.memories} <= {Standing.QUARANTINED, Standing.RETIRED}
    assert not any(m.trust.verified for m in refused.memories)
    assert refused.sweep is not None
    world.undo(refused.sweep)
    assert world.rows() == then
    if done.sweep is not None:
        world.undo(done.sweep)
    assert world.rows() == before


@FEW
@given(seed=SEEDS)
def test_what_was_retired_is_restored_as_it_stood_and_for_the_same_reason(world, seed):
    made = world.begin(seed)
    world.sweep(made, ActionKind.RETIRE)
    gone = [m for m in world.now(made) if m.standing is Standing.RETIRED]
    was = {m.id: (m.standing, m.standing_reason) for m in made if m.standing is not Standing.RETIRED}
    gone = [m for m in gone if m.id in was]
    if gone:
        back = world.decide(SweepJob.RESTORE, gone)
        assert {m.id: (m.standing, m.standing_reason) for m in back.memories} == {m.id: was[m.id] for m in gone}
        assert back.refused == {}


@FEW
@given(seed=SEEDS, weight=st.sampled_from([-2.0, -1.0, 0.5, 1.0, 2.0]))
def test_what_is_rejected_is_moved_by_nothing_but_a_person(world, seed, weight):
    made = world.begin(seed)
    world.decide(SweepJob.REJECT, made)
    before = {m.id: m for m in world.now(made)}
    own = policy(world.tenant)
    now = world.store.clock.now() + 400 * DAY_MS
    assert not [a for a in plan_promote(world.store, own, now).actions if a.memory_id]
    for memory in before.values():
        with world.store.ledger.read() as tx:
            history = tx.evidence.of_memory(memory.id)
        event = EvidenceEvent(
            memory_id=memory.id, tenant=memory.tenant, kind=EvidenceKind.CHECK, weight=weight, witness="w", at=now
        )
        trust = own.trust[memory.source_class]
        assert is_rejected(memory, history)
        assert applied(memory, [event], policy=trust, now=now, history=history) is memory
    world.sweep(made, ActionKind.WEIGH)
    assert {m.id: m for m in world.now(made)} == before
    assert set(world.decide(SweepJob.RESTORE, made).refused) == set(before)
    assert set(world.decide(SweepJob.REJECT, made).refused) == set(before)
    assert not review_queue(world.store, world.tenant, now, why=[Waits.QUARANTINED])
    with world.store.ledger.read() as tx:
        kept_out = tx.tombstones.among(world.tenant, TombstoneKind.TEXT, [m.text for m in made])
    assert set(kept_out) == {m.text for m in made}, "the refusal outlives the memory"
    again = world.decide(SweepJob.VERIFY, made)
    with world.store.ledger.read() as tx:
        kept_out = tx.tombstones.among(world.tenant, TombstoneKind.TEXT, [m.text for m in made])
    assert set(kept_out) == {m.text for m in made if m.id in again.refused}


@FEW
@given(seed=SEEDS, job=st.sampled_from([SweepJob.VERIFY, SweepJob.REJECT]))
def test_a_decision_settles_its_contradictions_and_clears_the_other_side_when_nothing_else_contests_it(
    world, seed, job
):
    made = [m for m in active(world.begin(seed, 24)) if refusal(SweepJob.VERIFY, m) == ""]
    if len(made) < 4:
        return
    one, two, three, four = made[:4]
    world.contest((one, two), (one, three), (three, four))
    before = world.rows()
    done = world.decide(job, [one])
    assert world.open() == {(min(three.id, four.id), max(three.id, four.id))}
    flags = {m.id: m.contested for m in world.now(made[:4])}
    assert flags == {one.id: False, two.id: False, three.id: True, four.id: True}
    world.undo(done.sweep)
    assert world.rows() == before
    assert len(world.open()) == 3


@FEW
@given(seed=SEEDS, job=st.sampled_from(list(DECISIONS)), role=st.sampled_from([Role.AGENT, Role.DAEMON]))
def test_nobody_but_a_person_decides_though_an_agent_may_leave_a_remark(world, seed, job, role):
    made = world.begin(seed, 2)
    before = world.rows()
    actor = Actor(name="helper", role=role)
    if (job, role) == (SweepJob.ANNOTATE, Role.AGENT):
        assert world.decide(job, made, actor).refused == {}
    else:
        with pytest.raises(Refused):
            world.decide(job, made, actor)
    assert world.rows() == before


@FEW
@given(seed=SEEDS, days=st.integers(0, 300))
def test_what_explain_foresees_is_what_prune_and_gc_do_at_that_instant_and_not_before(world, seed, days):
    made = world.begin(seed, 12)
    own = policy(world.tenant)
    now = T0 + days * DAY_MS
    for memory in made:
        next_ = {c.what: c.at for c in explain(world.store, memory.id, own, now).crossings}
        for what, job in (("prune", SweepJob.PRUNE), ("erase", SweepJob.GC)):
            at = next_.get(what, FOREVER)
            then = min(at, now + 3_000 * DAY_MS)
            assert (memory.id in acted(world.store, job, own, then)) is (at < FOREVER)
            if now < at < FOREVER:
                assert memory.id not in acted(world.store, job, own, at - 1)


def acted(store: Memories, job: SweepJob, own: object, at: int) -> set[str]:
    return {a.memory_id for a in planned(store, job, own, at).actions}  # type: ignore[arg-type] # a policy


@given(seed=SEEDS, n=st.integers(0, 40))
def test_the_values_of_decisions_change_what_they_say_and_nothing_else(seed, n):
    memory = a_governed(random.Random(seed), n, "t")
    sure, refused = verified(memory, policy("t"), T0), rejected(memory, "wrong", T0)
    assert (sure.text, sure.trust.strength, sure.pinned) == (memory.text, memory.trust.strength, memory.pinned)
    assert refused.trust == replace(memory.trust, verified=False, verified_at=None)
    assert (refused.standing, refused.standing_reason) == (Standing.QUARANTINED, "wrong")
    answer = replace(memory, kind=Kind.ANSWER, id=MemoryId("a"))
    assert "never evidence" in refusal(SweepJob.VERIFY, answer)
    staged = replace(memory, standing=Standing.STAGED, valid_to=FOREVER)
    assert all("staged" in refusal(job, staged) for job in (SweepJob.VERIFY, SweepJob.REJECT, SweepJob.RESTORE))
