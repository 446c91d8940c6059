"""A batch that breaks in the middle is there whole or not at all; a sweep that lost its lock begins no other batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from governance.sweep import apply, resume
from governance.undo import undo
from kb.errors import KbError
from kb.model import MemoryId, Standing
from kb.sweeps import Action, ActionKind, SweepId, SweepStatus, TombstoneKind
from tests.contract.test_lease import lose
from tests.governing import a_policy, fill, governed
from tests.stores import T0, open_store
from tests.swept import is_in_step, plan_of, policy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.memories import Memories
    from kb.model import Memory

BATCH, MANY, BROKEN = 3, 9, 4  # the fifth action, in the middle of the second batch
WHERE = {
    "a row": f"BEFORE UPDATE ON memories WHEN NEW.id = 'default-n{BROKEN}'",
    "an image": f"BEFORE INSERT ON images WHEN NEW.seq = {BROKEN}",
    "a mark": f"BEFORE UPDATE ON actions WHEN NEW.seq = {BROKEN}",
    "the outbox": f"BEFORE INSERT ON outbox WHEN NEW.memory_id = 'default-n{BROKEN}'",
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Memories]:
    with open_store(tmp_path / "kb") as memories:
        yield memories


def breaking(store: Memories, statement: str) -> None:
    """Let the database refuse something from now on, or no longer."""
    with store.ledger.engines.writes.connect() as connection:
        connection.exec_driver_sql(statement)
        connection.commit()


def stands(store: Memories, of: list[Memory]) -> list[tuple[bool, int]]:
    """Return whether each memory is pinned, and how often it was changed since."""
    with store.ledger.read() as tx:
        found = tx.memories.get([MemoryId(m.id) for m in of])
    return [(found[m.id].pinned, found[m.id].rev - m.rev) for m in of]


def pins(of: list[Memory]) -> list[Action]:
    return [Action(memory_id=m.id, kind=ActionKind.PIN, reason="pinned", rev=m.rev) for m in of]


@pytest.mark.parametrize("what", WHERE)
def test_a_batch_that_breaks_leaves_nothing_of_itself_and_the_next_run_does_it_once(store: Memories, what: str) -> None:
    of = [governed(f"n{n}", policy=a_policy()) for n in range(MANY)]
    fill(store, of)
    rules = policy(batch=BATCH)
    breaking(store, f"CREATE TRIGGER broken {WHERE[what]} BEGIN SELECT RAISE(ABORT, 'broken'); END")
    with pytest.raises(KbError, match="broken"):
        apply(store, plan_of(pins(of)), policy=rules, actor="x")
    whole = [(True, 1)] * BATCH + [(False, 0)] * (MANY - BATCH)
    assert stands(store, of) == whole
    with store.ledger.read() as tx:
        (sweep,) = tx.sweeps.list(9)
        journal = tx.sweeps.journal(sweep.id)
        images = tx.sweeps.images(sweep.id, range(MANY))
    assert sweep.status is SweepStatus.RUNNING
    assert [j.applied_at is not None for j in journal] == [pinned for pinned, _ in whole], "all of the plan is kept"
    assert sorted(images) == list(range(BATCH))

    breaking(store, "DROP TRIGGER broken")
    (done,) = resume(store, "default", rules)
    assert (done.id, done.status, done.counts) == (sweep.id, SweepStatus.DONE, {"pin": MANY})
    assert stands(store, of) == [(True, 1)] * MANY
    assert is_in_step(store)
    undo(store, sweep.id, "default", actor="x", policy=rules)
    assert stands(store, of) == [(False, 2)] * MANY


def test_a_sweep_that_lost_its_lock_begins_no_other_batch_and_who_has_it_now_goes_on(
    store: Memories, tmp_path: Path
) -> None:
    of, told = [governed(f"n{n}", policy=a_policy()) for n in range(MANY)], list[int]()
    fill(store, of)

    def robbed(done: int) -> None:
        told.append(done)
        if len(told) == 1:
            lose(None, tmp_path / "kb", "govern:default")

    rules = policy(batch=BATCH)
    stopped = apply(store, plan_of(pins(of)), policy=rules, actor="x", advance=robbed)
    assert (stopped.status, stopped.counts, told) == (SweepStatus.RUNNING, {"pin": BATCH}, [BATCH])
    assert stands(store, of) == [(True, 1)] * BATCH + [(False, 0)] * (MANY - BATCH)
    (done,) = resume(store, "default", rules)
    assert (done.status, done.counts) == (SweepStatus.DONE, {"pin": MANY})
    assert stands(store, of) == [(True, 1)] * MANY


def test_an_undo_puts_back_all_of_an_action_or_nothing_when_somebody_comes_in_between(store: Memories) -> None:
    of, asked = [governed(f"n{n}", policy=a_policy()) for n in range(2)], list[int]()
    fill(store, of)
    detail = {"said": "others say so", "tombstone": True}
    out = [
        Action(memory_id=m.id, kind=ActionKind.QUARANTINE, reason="contradicted", rev=m.rev, detail=detail) for m in of
    ]
    sweep = apply(store, plan_of(out), policy=policy(), actor="x")

    def taken_over() -> bool:
        """Another rollback holds the same words down, after the undo has looked at them, before it comes to them."""
        asked.append(1)
        if len(asked) == 2:
            with store.ledger.write() as tx:
                text, other = [of[0].text], SweepId("other")
                tx.tombstones.add("default", TombstoneKind.TEXT, text, sweep_id=other, reason="rolled_back", at=T0)
        return False

    undoing = undo(store, sweep.id, "default", actor="x", policy=policy(batch=1), is_stopped=taken_over)
    with store.ledger.read() as tx:
        skipped = [j.skipped for j in tx.sweeps.journal(undoing.id)]
        found, stands_still = tx.memories.get([m.id for m in of]), tx.sweeps.get(sweep.id)
    assert skipped == ["", "moved"]
    assert [found[m.id].standing for m in of] == [Standing.QUARANTINED, Standing.ACTIVE]
    assert stands_still is not None
    assert stands_still.status is SweepStatus.DONE, "what is not undone whole is not called undone"
