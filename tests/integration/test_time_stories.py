"""What a nightly job may do to memories, and what it must never do, on a real ledger through real sweeps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from governance.planning import planned
from governance.sweep import apply
from governance.undo import undo
from kb.errors import InputError
from kb.model import Memory, SourceClass, Standing
from kb.sweeps import ActionKind, SweepJob
from kb.trust import DAY_MS, effective
from tests.governing import a_policy, all_of, applied_purely, fill, governed
from tests.stores import T0, open_store, search

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.memories import Memories
    from kb.sweeps import Sweep

POLICY = a_policy()
YEAR = 365 * DAY_MS


@pytest.fixture
def memories(tmp_path: Path) -> Iterator[Memories]:
    with open_store(tmp_path / "kb") as opened:
        yield opened


def indexed(memories: Memories, *added: Memory) -> None:
    """Put memories into ledger and index."""
    fill(memories, added)
    with memories.ledger.write() as tx:
        tx.outbox.mark([m.id for m in added], T0)
    memories.projector.drain()


def swept(memories: Memories, job: SweepJob, after: int) -> Sweep:
    memories.clock.instant = T0 + after  # type: ignore[attr-defined]
    plan = planned(memories, job, POLICY, T0 + after)
    return apply(memories, plan, policy=POLICY, actor="test", allow_mass=True)


def test_decay_never_settles_a_conflict_the_older_side_is_not_pruned_before_the_newer(memories: Memories) -> None:
    older = governed("older", SourceClass.PERSON, policy=POLICY, age=300, contested=True)
    newer = governed("newer", SourceClass.PERSON, policy=POLICY, age=1, contested=True)
    bystander = governed("bystander", SourceClass.PERSON, policy=POLICY, age=300)
    indexed(memories, older, newer, bystander)
    swept(memories, SweepJob.PRUNE, YEAR)
    standing = {i: m.standing for i, m in all_of(memories, "default").items()}
    assert standing == {older.id: Standing.ACTIVE, newer.id: Standing.ACTIVE, bystander.id: Standing.RETIRED}


def test_a_rare_true_fact_survives_any_number_of_years_without_a_reader_or_a_sync(memories: Memories) -> None:
    page = [governed(f"p{n}", policy=POLICY, age=n, doc_id="d1") for n in range(5)]
    vouched = governed("v", SourceClass.PERSON, policy=POLICY, verified=True)
    indexed(memories, *page, vouched)
    for years in range(1, 6):
        for job in (SweepJob.DECAY, SweepJob.PRUNE):
            swept(memories, job, years * YEAR)
        applied_purely(memories, planned(memories, SweepJob.GC, POLICY, T0 + years * YEAR))
    left = all_of(memories, "default")
    assert set(left) == {page[0].id, vouched.id}  # of the page, what would have been believed longest
    assert all(m.standing is Standing.ACTIVE for m in left.values())


def test_reading_refreshes_nothing(memories: Memories) -> None:
    read, unread = (governed(n, SourceClass.PERSON, policy=POLICY) for n in ("read", "unread"))
    indexed(memories, read, unread)
    for day in range(40):
        memories.clock.instant = T0 + day * DAY_MS  # type: ignore[attr-defined]
        search(memories, read.text)
        with memories.ledger.write() as tx:
            tx.utility.bump(retrieved=[read.id], relevant=[read.id], cited=[read.id], now=memories.clock.now())
    assert all_of(memories, "default") == {read.id: read, unread.id: unread}
    due = [a.memory_id for a in planned(memories, SweepJob.PRUNE, POLICY, T0 + 60 * DAY_MS).actions]
    assert due == sorted([read.id, unread.id])


def test_prune_deletes_nothing_is_capped_and_journalled_and_can_be_undone(memories: Memories) -> None:
    notes = [governed(f"n{n}", SourceClass.PERSON, policy=POLICY) for n in range(6)]
    indexed(memories, *notes)
    capped = replace(POLICY, cap=4)
    memories.clock.instant = T0 + 90 * DAY_MS  # type: ignore[attr-defined]
    plan = planned(memories, SweepJob.PRUNE, capped, T0 + 90 * DAY_MS)
    assert [a.kind for a in plan.actions] == [ActionKind.RETIRE] * 4
    sweep = apply(memories, plan, policy=capped, actor="test", allow_mass=True)
    after = all_of(memories, "default")
    assert [m.text for m in after.values()] == [n.text for n in notes]
    assert sum(m.standing is Standing.RETIRED for m in after.values()) == 4
    with memories.ledger.read() as tx:
        assert [j.action for j in tx.sweeps.journal(sweep.id)] == list(plan.actions)
    undo(memories, sweep.id, "default", actor="test", policy=capped)
    assert all(m.standing is Standing.ACTIVE for m in all_of(memories, "default").values())


def test_what_was_retired_is_erased_when_its_window_ends_and_not_a_day_before(memories: Memories) -> None:
    note = governed("n", SourceClass.PERSON, policy=POLICY)
    indexed(memories, note)
    swept(memories, SweepJob.PRUNE, 60 * DAY_MS)
    assert planned(memories, SweepJob.GC, POLICY, T0 + 90 * DAY_MS - 1).actions == ()
    (action,) = planned(memories, SweepJob.GC, POLICY, T0 + 90 * DAY_MS).actions
    assert (action.kind, action.reason) == (ActionKind.ERASE, "restore_window_ended")


def test_other_readers_are_told_what_is_left_within_a_twentieth_and_few_rows_are_written(memories: Memories) -> None:
    note = governed("n", SourceClass.PERSON, policy=POLICY)
    indexed(memories, note)
    written = 0
    for day in range(60):
        written += sum(swept(memories, SweepJob.DECAY, day * DAY_MS).counts.values())
        now = all_of(memories, "default")[note.id]
        believed = effective(now.trust, T0 + day * DAY_MS, 30 * DAY_MS)
        shown = now.trust.confidence if now.trust.shown is None else now.trust.shown
        assert -1e-3 <= shown - believed <= 0.05 + 1e-3
    assert written <= 12  # from 0.8 to 0.2 in steps of 0.05


def test_only_what_time_does_alone_is_planned_here(memories: Memories) -> None:
    with pytest.raises(InputError, match="verify is not planned by time alone"):
        planned(memories, SweepJob.VERIFY, POLICY, T0)
