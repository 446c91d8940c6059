"""Laws of sweeps: what is applied can be undone, twice is once, in whatever batches; the journal knows every row."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.images import memory_columns, memory_with, same
from governance.sweep import apply, resume
from governance.undo import undo
from kb.errors import StalePlan
from kb.model import MemoryId
from kb.sweeps import ActionKind, ImageKind, SweepStatus
from kb.trust import shown_level
from tests.stores import T0, InProcessServer, open_store
from tests.swept import (
    PLAIN,
    a_governed,
    a_plan,
    an_action,
    index_rows,
    is_in_step,
    ledger_rows,
    plan_of,
    policy,
    revisions,
    stocked,
    unsafe,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from governance.plan import Plan
    from kb.memories import Memories
    from kb.sweeps import Sweep

_tenants = count()
SEEDS = st.integers(0, 10**6)
GOVERNING = [kind for kind in PLAIN if kind is not ActionKind.SHOW]
FEW = settings(max_examples=25)


class World:
    """One store for all examples; each has a tenant of its own."""

    def __init__(self, store: Memories, server: InProcessServer) -> None:
        self.store, self.server, self.tenant = store, server, ""

    def begin(self, size: int, seed: int, kinds: Sequence[ActionKind] = PLAIN) -> Plan:
        self.tenant = f"t{next(_tenants)}"
        self.store.clock.instant = T0  # type: ignore[attr-defined] # the fake's
        return a_plan(stocked(self.store, count=size, seed=seed, tenant=self.tenant), seed=seed, kinds=kinds)

    def apply(self, plan: Plan, *, batch: int = 7, **options: object) -> Sweep:
        self.store.clock.advance(1_000)  # type: ignore[attr-defined]
        return apply(self.store, plan, policy=policy(self.tenant, batch=batch), actor="law", **options)  # type: ignore[arg-type]

    def undo(self, sweep: Sweep, *, batch: int = 7) -> Sweep:
        self.store.clock.advance(1_000)  # type: ignore[attr-defined]
        return undo(self.store, sweep.id, self.tenant, actor="law", policy=policy(self.tenant, batch=batch))

    def rows(self) -> tuple[object, object]:
        assert is_in_step(self.store)
        return ledger_rows(self.store, self.tenant), index_rows(self.server, self.tenant)

    def status(self, sweep: Sweep) -> SweepStatus:
        with self.store.ledger.read() as tx:
            known = tx.sweeps.get(sweep.id)
        assert known is not None
        return known.status

    def get(self, id_: str):
        with self.store.ledger.read() as tx:
            return tx.memories.get([MemoryId(id_)])[MemoryId(id_)]


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Iterator[World]:
    server = InProcessServer()
    with open_store(tmp_path_factory.mktemp("store"), server=server) as store:
        unsafe(store)
        yield World(store, server)


@FEW
@given(size=st.integers(1, 24), seed=SEEDS, batch=st.integers(1, 30))
def test_what_is_applied_and_undone_leaves_no_trace(world, size, seed, batch):
    plan = world.begin(size, seed)
    before, grown = world.rows(), revisions(world.store, world.tenant)
    sweep = world.apply(plan, batch=batch)
    undoing = world.undo(sweep, batch=batch)
    assert world.rows() == before
    assert (world.status(sweep), world.status(undoing)) == (SweepStatus.UNDONE, SweepStatus.DONE)
    after = revisions(world.store, world.tenant)
    assert all(after[id_] >= was for id_, was in grown.items())


@FEW
@given(size=st.integers(1, 16), seed=SEEDS)
def test_an_undo_that_is_undone_is_as_if_nobody_had_undone(world, size, seed):
    plan = world.begin(size, seed)
    before = world.rows()
    sweep = world.apply(plan)
    applied = world.rows()
    first = world.undo(sweep)
    second = world.undo(first)
    assert world.rows() == applied
    assert (world.status(sweep), world.status(first)) == (SweepStatus.DONE, SweepStatus.UNDONE)
    third = world.undo(second)
    assert world.rows() == before
    assert [world.status(s) for s in (sweep, first, second)] == [
        SweepStatus.UNDONE,
        SweepStatus.DONE,
        SweepStatus.UNDONE,
    ]
    world.undo(third)
    assert world.rows() == applied


@FEW
@given(size=st.integers(1, 24), seed=SEEDS)
def test_a_plan_that_is_applied_twice_changes_nothing_the_second_time(world, size, seed):
    plan = world.begin(size, seed)
    first = world.apply(plan)
    applied, grown = world.rows(), revisions(world.store, world.tenant)
    second = world.apply(plan)
    assert world.rows() == applied
    assert revisions(world.store, world.tenant) == grown
    with world.store.ledger.read() as tx:
        earlier, later = tx.sweeps.journal(first.id), tx.sweeps.journal(second.id)
        changed = {i.key for own in tx.sweeps.images(first.id, range(len(earlier))).values() for i in own}
        assert tx.sweeps.images(second.id, range(len(later))) == {}
    for was, now in zip(earlier, later, strict=True):
        assert now.skipped == ("moved" if was.action.memory_id in changed else was.skipped)


@FEW
@given(size=st.integers(1, 16), seed=SEEDS, batch=st.integers(1, 5))
def test_the_size_of_batches_makes_no_difference(world, size, seed, batch):
    states = []
    for of in (batch, 1_000):
        plan = world.begin(size, seed)
        sweep = world.apply(plan, batch=of)
        with world.store.ledger.read() as tx:
            story = [(j.action.kind, j.skipped) for j in tx.sweeps.journal(sweep.id)]
            rows = tx.memories.page("", 10**6, tenant=world.tenant)
        states.append((story, [(m.trust, m.standing, m.standing_reason, m.pinned, m.rev) for m in rows], sweep.counts))
    assert states[0] == states[1]


@FEW
@given(seed=SEEDS, shown=st.lists(st.floats(0, 1), min_size=1, max_size=4), keep=st.data())
def test_a_sweep_that_is_left_out_makes_no_difference(world, seed, shown, keep):
    """Decay shows what holds at its instant: only the last sweep counts."""
    world.begin(1, seed)
    (id_,) = revisions(world.store, world.tenant)
    skipped = keep.draw(st.lists(st.booleans(), min_size=len(shown) - 1, max_size=len(shown) - 1))
    for confidence, is_left_out in zip(shown, [*skipped, False], strict=True):
        if not is_left_out:
            world.apply(showing(world, id_, confidence))
    last = world.get(id_)
    world.apply(showing(world, id_, shown[-1]))
    assert world.get(id_) == last  # and a doubled one none
    assert memory_columns(last)["shown"] == int(min(shown[-1], last.trust.confidence) * 1000 + 1e-9)


def showing(world: World, id_: str, confidence: float) -> Plan:
    action = an_action(world.get(id_), ActionKind.SHOW, random.Random(0))
    return plan_of([replace(action, detail={"confidence": confidence})], tenant=world.tenant)


@FEW
@given(size=st.integers(1, 24), seed=SEEDS, batches=st.integers(0, 4))
def test_every_changed_row_has_its_image_also_when_a_sweep_is_stopped(world, size, seed, batches):
    plan = world.begin(size, seed)
    with world.store.ledger.read() as tx:
        before = {m.id: memory_columns(m) for m in tx.memories.page("", 10**6, tenant=world.tenant)}
    left = iter([False] * batches)
    sweep = world.apply(plan, batch=3, is_stopped=lambda: next(left, True))
    with world.store.ledger.read() as tx:
        story = tx.sweeps.journal(sweep.id)
        images = tx.sweeps.images(sweep.id, range(len(story)))
        after = {m.id: memory_columns(m) for m in tx.memories.page("", 10**6, tenant=world.tenant)}
    done = [j for j in story if j.applied_at is not None]
    assert len(done) == min(len(story), 3 * batches)
    assert story[: len(done)] == done
    chains: dict[str, list] = {}
    for seq in sorted(images):
        assert not story[seq].skipped
        for image in images[seq]:
            if image.kind is ImageKind.MEMORY:
                chains.setdefault(image.key, []).append(image)
    assert set(chains) == {id_ for id_, columns in after.items() if columns != before[id_]}
    for id_, chain in chains.items():
        states = [before[id_], *(i.after for i in chain)]
        assert [i.before for i in chain] == states[:-1]
        assert states[-1] == after[id_]
    finished = resume(world.store, world.tenant, policy(world.tenant))
    assert [s.id for s in finished] == ([sweep.id] if sweep.status is SweepStatus.RUNNING else [])
    assert world.status(sweep) is SweepStatus.DONE


@FEW
@given(size=st.integers(2, 16), seed=SEEDS, batches=st.integers(0, 4))
def test_a_sweep_that_was_interrupted_is_undone_as_it_stands(world, size, seed, batches):
    plan = world.begin(size, seed)
    before = world.rows()
    left = iter([False] * batches)
    sweep = world.apply(plan, batch=2, is_stopped=lambda: next(left, True))
    world.undo(sweep)
    assert world.rows() == before
    assert world.status(sweep) is SweepStatus.UNDONE
    assert resume(world.store, world.tenant, policy(world.tenant)) == []


@FEW
@given(size=st.integers(2, 16), seed=SEEDS, share=st.floats(0.1, 1))
def test_an_undo_refuses_exactly_when_a_later_sweep_changed_its_rows_and_names_them(world, size, seed, share):
    plan = world.begin(size, seed)
    before = world.rows()
    first = world.apply(plan)
    between = ledger_rows(world.store, world.tenant)
    with world.store.ledger.read() as tx:
        page = tx.memories.page("", 10**6, tenant=world.tenant)
    numbers = random.Random(seed)
    chosen = [m for m in page if numbers.random() < share] or page
    later = world.apply(a_plan(chosen, seed=seed + 1, kinds=GOVERNING))
    applied = world.rows()
    with world.store.ledger.read() as tx:
        touched = {i.key for own in tx.sweeps.images(first.id, range(99)).values() for i in own}
        changed = {i.key for own in tx.sweeps.images(later.id, range(99)).values() for i in own} & touched
    was = {m.id: m for m in between["memories"]}
    now = {m.id: m for m in ledger_rows(world.store, world.tenant)["memories"]}
    origin = {m.id: m for m in before[0]["memories"]}
    if moved := {key for key in changed if key not in now or now[key] not in (was[key], origin[key])}:
        with pytest.raises(StalePlan) as refusal:
            world.undo(first)
        assert set(refusal.value.moved) == moved
        assert later.id in refusal.value.hint
        assert world.rows() == applied
        world.undo(later)
        assert ledger_rows(world.store, world.tenant) == between
    world.undo(first)
    if moved:
        assert world.rows() == before


@FEW
@given(size=st.integers(2, 16), seed=SEEDS)
def test_what_decay_has_shown_others_since_holds_up_no_undo_and_is_never_raised(world, size, seed):
    plan = world.begin(size, seed, kinds=GOVERNING)
    before = world.rows()
    first = world.apply(plan)
    with world.store.ledger.read() as tx:
        page = tx.memories.page("", 10**6, tenant=world.tenant)
    world.apply(a_plan(page, seed=seed + 1, kinds=[ActionKind.SHOW]))
    shown = {m.id: shown_level(m.trust) for m in ledger_rows(world.store, world.tenant)["memories"]}
    world.undo(first)
    after = {m.id: m for m in ledger_rows(world.store, world.tenant)["memories"]}
    for was in before[0]["memories"]:
        now = after[was.id]
        assert replace(now, trust=replace(now.trust, shown=None)) == replace(was, trust=replace(was.trust, shown=None))
        assert shown_level(now.trust) <= min(shown[was.id], shown_level(was.trust))


@given(seed=SEEDS, other=SEEDS)
def test_an_image_puts_back_all_that_governance_may_change(seed, other):
    one, two = (a_governed(random.Random(s), 3, "t") for s in (seed, other))
    assert memory_with(two, memory_columns(two)) == two
    assert same(memory_columns(memory_with(one, memory_columns(two))), memory_columns(two))
    assert one.text not in str(memory_columns(one))


def test_every_plain_kind_is_tried_by_these_laws():
    assert set(PLAIN) < set(ActionKind)
    plan = a_plan([a_governed(random.Random(n), n, "t") for n in range(200)])
    assert set(plan.counts) == {k.value for k in PLAIN}
