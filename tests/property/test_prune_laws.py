"""The laws of planned sweeps over whole stores: what is kept, what is due, and that any sweep may be skipped."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.planning import planned
from governance.sweep import apply
from kb.model import Memory, Standing
from kb.sweeps import ActionKind, SweepJob
from kb.trust import DAY_MS, effective
from tests.governing import a_key, a_policy, all_of, applied_purely, fill, governed, policies, stored, what_stands
from tests.stores import T0, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from governance.policy import Policy
    from kb.history import Edge
    from kb.memories import Memories
    from kb.model import Instant

NIGHTLY = (SweepJob.DECAY, SweepJob.PRUNE)
LIVE = (Standing.ACTIVE, Standing.QUARANTINED)
instants = st.floats(0, 300).map(lambda days: T0 + round(days * DAY_MS))
numbers = count()
few = settings(max_examples=30)  # each fills a store


@pytest.fixture(scope="module")
def memories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memories]:
    """One store for all examples: each takes a tenant of its own."""
    with open_store(tmp_path_factory.mktemp("kb")) as opened:
        yield opened


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Policy, list[Memory], list[Edge]]:
    """Draw a policy and what a tenant holds, answer-keys among it."""
    policy = draw(policies(f"t{next(numbers)}"))
    held = believed = draw(stored(policy))
    edges: list[Edge] = []
    for n in range(draw(st.integers(0, 3))):
        cited = draw(st.lists(st.sampled_from(believed), max_size=3, unique_by=lambda m: m.id))
        key, steps = a_key(f"key{n}", cited, policy=policy, age=draw(st.sampled_from([1.0, 20.0])))
        held, edges = [*held, key], [*edges, *steps]
    return policy, held, edges


def swept(memories: Memories, policy: Policy, now: Instant, *, really: bool = False) -> None:
    for job in NIGHTLY:
        plan = planned(memories, job, policy, now)
        if really:
            memories.clock.instant = now  # type: ignore[attr-defined]
            sweep = apply(memories, plan, policy=policy, actor="test", allow_mass=True)
            assert "skipped" not in sweep.counts
        else:
            applied_purely(memories, plan)


@few
@given(worlds(), instants)
def test_two_plans_of_one_instant_are_equal_and_making_them_changes_nothing(
    memories: Memories, world: tuple[Policy, list[Memory], list[Edge]], now: Instant
) -> None:
    policy, held, edges = world
    fill(memories, held, edges, is_embedded=False)
    before = all_of(memories, policy.tenant)
    for job in (*NIGHTLY, SweepJob.GC):
        assert planned(memories, job, policy, now).hash == planned(memories, job, policy, now).hash
    assert all_of(memories, policy.tenant) == before


@few
@given(worlds(), instants)
def test_once_a_plan_is_applied_nothing_is_left_to_plan(
    memories: Memories, world: tuple[Policy, list[Memory], list[Edge]], now: Instant
) -> None:
    policy, held, edges = world
    fill(memories, held, edges, is_embedded=False)
    for job in (*NIGHTLY, SweepJob.GC):
        applied_purely(memories, planned(memories, job, policy, now))
        assert planned(memories, job, policy, now).actions == ()


@few
@given(worlds(), instants, instants)
def test_a_skipped_sweep_makes_no_difference(
    memories: Memories, world: tuple[Policy, list[Memory], list[Edge]], one: Instant, other: Instant
) -> None:
    ends = []
    for nights in (sorted((one, other)), [max(one, other)]):
        policy, held, edges = renamed(world)
        fill(memories, held, edges, is_embedded=False)
        for now in nights:
            swept(memories, policy, now)
        ends.append({i.split("-", 1)[1]: end for i, end in what_stands(memories, policy.tenant).items()})
    assert ends[0] == ends[1]


@settings(max_examples=15)
@given(worlds(), instants, instants)
def test_real_sweeps_end_as_pure_ones_do(
    memories: Memories, world: tuple[Policy, list[Memory], list[Edge]], one: Instant, other: Instant
) -> None:
    ends = []
    for really in (False, True):
        policy, held, edges = renamed(world)
        fill(memories, held, edges, is_embedded=really)
        for now in sorted((one, other)):
            swept(memories, policy, now, really=really)
        ends.append({i.split("-", 1)[1]: end for i, end in what_stands(memories, policy.tenant).items()})
    assert ends[0] == ends[1]


@few
@given(worlds(), instants)
def test_prune_takes_exactly_what_has_faded_but_the_last_evidence_of_a_document(
    memories: Memories, world: tuple[Policy, list[Memory], list[Edge]], now: Instant
) -> None:
    policy, held, edges = world
    fill(memories, held, edges, is_embedded=False)
    taken = {a.memory_id: a for a in planned(memories, SweepJob.PRUNE, policy, now).actions if a.reason == "faded"}
    due = {m.id for m in held if is_due(m, policy, now)}
    assert taken.keys() <= due
    live = Counter(m.doc_id for m in held if m.doc_id and m.standing is Standing.ACTIVE)
    kept = [m for m in held if m.id in due - taken.keys()]
    assert all(m.doc_id is not None and m.standing is Standing.ACTIVE for m in kept)
    assert len({m.doc_id for m in kept}) == len(kept)
    for doc_id, number in live.items():
        falling = sum(m.id in due for m in held if m.doc_id == doc_id and m.standing is Standing.ACTIVE)
        assert (doc_id in {m.doc_id for m in kept}) == (falling == number)
    assert all(a.kind is ActionKind.RETIRE for a in taken.values())


@few
@given(worlds(), instants)
def test_an_answer_key_goes_exactly_when_nothing_live_is_behind_it(
    memories: Memories, world: tuple[Policy, list[Memory], list[Edge]], now: Instant
) -> None:
    policy, held, edges = world
    fill(memories, held, edges, is_embedded=False)
    actions = planned(memories, SweepJob.PRUNE, policy, now).actions
    gone = {a.memory_id for a in actions if a.reason == "faded"}
    may_return = {m.id for m in held if m.standing in (*LIVE, Standing.STAGED) and m.id not in gone}
    leading = {e.child.removeprefix("answer-") for e in edges if e.parent in may_return}
    old = {m.id for m in held if m.kind.value == "answer" and is_old(m, policy, now)}
    assert {a.memory_id for a in actions if a.reason == "leads_nowhere"} == old - leading


@few
@given(worlds(), instants)
def test_gc_erases_exactly_what_was_retired_for_the_whole_window(
    memories: Memories, world: tuple[Policy, list[Memory], list[Edge]], now: Instant
) -> None:
    policy, held, edges = world
    fill(memories, held, edges, is_embedded=False)
    planned_ids = {a.memory_id for a in planned(memories, SweepJob.GC, policy, now).actions}
    retired = [m for m in held if m.standing is Standing.RETIRED and not m.pinned and not m.contested]
    assert planned_ids == {m.id for m in retired if now - m.updated_at >= policy.rules[m.source_class].restore}


def test_no_more_is_planned_than_the_cap_and_the_rest_is_counted(memories: Memories) -> None:
    policy = a_policy("capped", cap=3)
    fill(memories, [governed(str(n), policy=policy, age=100) for n in range(8)])
    plan = planned(memories, SweepJob.PRUNE, policy, T0)
    assert (len(plan.actions), plan.left, plan.live) == (3, 5, 8)
    assert "5 more" in plan.notes[0]
    for _ in range(3):
        applied_purely(memories, planned(memories, SweepJob.PRUNE, policy, T0))
    assert planned(memories, SweepJob.PRUNE, policy, T0).actions == ()


def is_due(memory: Memory, policy: Policy, now: Instant) -> bool:
    own, rules = policy.trust[memory.source_class], policy.rules[memory.source_class]
    is_open = memory.standing in LIVE and memory.kind.value != "answer"
    is_guarded = memory.trust.verified or memory.pinned or memory.contested
    faded = effective(memory.trust, now, own.half_life) < rules.prune_below
    return is_open and not is_guarded and faded and is_old(memory, policy, now)


def is_old(memory: Memory, policy: Policy, now: Instant) -> bool:
    return now - memory.created_at >= policy.rules[memory.source_class].prune_after


def renamed(world: tuple[Policy, list[Memory], list[Edge]]) -> tuple[Policy, list[Memory], list[Edge]]:
    """Return the same world as another tenant's."""
    policy, held, edges = world
    tenant = f"t{next(numbers)}"

    def moved(name: str) -> str:
        return name.replace(policy.tenant, tenant)

    return (
        replace(policy, tenant=tenant),
        [
            replace(m, id=moved(m.id), tenant=tenant, doc_id=moved(m.doc_id) if m.doc_id else None)  # type: ignore[arg-type]
            for m in held
        ],
        [replace(e, tenant=tenant, parent=moved(e.parent), child=moved(e.child)) for e in edges],
    )
