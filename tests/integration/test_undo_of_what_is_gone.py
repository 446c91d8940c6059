"""An undo puts back what is left, counts what was erased since, and is refused when nothing is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from governance.objects import journal_of, sweep_of, whole_json
from governance.review import decide
from governance.undo import undo
from kb.errors import Refused
from kb.model import Standing
from kb.sweeps import SweepJob, SweepStatus
from tests.erasing import BY
from tests.forgetting import forget
from tests.integration.test_undo_after_gc import COINS, NINETY, collected_but_for, decided, swept
from tests.invariants import broken
from tests.rolling import guide, later, note, roll_back, stored, sync, take_back
from tests.stores import write
from tests.swept import policy

if TYPE_CHECKING:
    from pathlib import Path

    from kb.memories import Memories
    from kb.model import Json, Memory
    from kb.sweeps import Sweep

pytestmark = pytest.mark.usefixtures("ledger_url")  # on either database


def undone(store: Memories, sweep: Sweep) -> Sweep:
    return undo(store, sweep.id, "default", actor="ann", policy=policy())


def gone(store: Memories, sweep: Sweep) -> Json:
    """Return how much could not be put back, as programs are told."""
    return whole_json(sweep, journal_of(store, sweep))["gone"]


def assert_nothing_is_left(store: Memories, sweep: Sweep, number: int) -> None:
    """The undo is refused as that of an erasure is, says of how many, and leaves the sweep as it was."""
    with pytest.raises(Refused, match=f"is left to put back: {number} of the memories .* erased") as refused:
        undone(store, sweep)
    assert "nothing of what was erased is kept" in refused.value.hint
    assert sweep_of(store, sweep.id, "default").status is SweepStatus.DONE


def pruned(store: Memories) -> Sweep:
    later(store, 900)
    return swept(store, SweepJob.PRUNE)


def pinned(store: Memories, *memories: Memory) -> Sweep:
    return decided(store, memories, SweepJob.PIN)


def test_the_undo_of_a_prune_is_refused_once_gc_has_taken_all_of_it(store: Memories) -> None:
    note(store, NINETY)
    note(store, COINS)
    sweep = pruned(store)
    later(store, 60)
    swept(store, SweepJob.GC)
    assert not stored(store, "")
    assert_nothing_is_left(store, sweep, 2)


def test_the_undo_of_a_prune_puts_back_what_gc_has_left_and_counts_the_rest(store: Memories) -> None:
    one, two = note(store, NINETY), note(store, COINS)
    sweep = pruned(store)
    held = pinned(store, two)
    later(store, 60)
    swept(store, SweepJob.GC)
    take_back(store, held)
    done = undone(store, sweep)
    assert gone(store, done) == 1
    assert {j.action.memory_id: j.skipped for j in journal_of(store, done)} == {one.id: "gone", two.id: ""}
    assert store.get(two.id, "default").standing is Standing.ACTIVE
    assert sweep_of(store, sweep.id, "default").status is SweepStatus.UNDONE
    undone(store, done)
    assert store.get(two.id, "default").standing is Standing.RETIRED
    assert sweep_of(store, sweep.id, "default").status is SweepStatus.DONE


def test_what_a_rollback_keeps_out_is_let_in_and_what_gc_has_taken_of_it_is_counted(store: Memories) -> None:
    one, two = note(store, NINETY), note(store, COINS)
    (rolled_back,) = roll_back(store, memories=(one.id, two.id))
    *_, held = collected_but_for(store, two, rolled_back)
    take_back(store, held)
    done = undone(store, rolled_back)
    assert gone(store, done) == 1
    assert note(store, NINETY).standing is Standing.ACTIVE
    assert broken(store) == []


def test_the_undo_of_a_decision_is_refused_once_all_that_it_was_about_is_erased(
    store: Memories, tmp_path: Path
) -> None:
    one, two = note(store, NINETY), note(store, COINS)
    sweep = pinned(store, one, two)
    forget(store, tmp_path, one, two)
    assert_nothing_is_left(store, sweep, 2)


def test_the_undo_of_a_decision_counts_what_was_erased_of_it(store: Memories, tmp_path: Path) -> None:
    one, two = note(store, NINETY), note(store, COINS)
    sweep = pinned(store, one, two)
    forget(store, tmp_path, one)
    done = undone(store, sweep)
    assert gone(store, done) == 1
    assert not store.get(two.id, "default").pinned
    assert sweep_of(store, sweep.id, "default").status is SweepStatus.UNDONE


def test_an_erased_memory_is_in_no_way_of_the_undo_of_a_remark_on_another(store: Memories, tmp_path: Path) -> None:
    one, two = note(store, NINETY), note(store, COINS)
    sweep = decide(store, [one.id, two.id], SweepJob.ANNOTATE, policy=policy(), actor=BY, reason="seen").sweep
    assert sweep is not None
    forget(store, tmp_path, one)
    assert gone(store, undone(store, sweep)) == 1
    assert sweep_of(store, sweep.id, "default").status is SweepStatus.UNDONE


def test_the_undo_of_a_rollback_is_refused_once_its_source_is_erased(
    store: Memories, folder: Path, tmp_path: Path
) -> None:
    write(folder, guide_md=guide())
    sync(store, folder)
    (sweep,) = roll_back(store, source="docs")
    forget(store, tmp_path, source="docs")
    assert_nothing_is_left(store, sweep, 2)


def test_what_a_person_has_restored_is_passed_over_as_it_is_and_not_called_gone(store: Memories) -> None:
    one, two = note(store, NINETY), note(store, COINS)
    sweep = pruned(store)
    decided(store, one, SweepJob.RESTORE)
    done = undone(store, sweep)
    assert {j.action.memory_id: j.skipped for j in journal_of(store, done)} == {one.id: "already", two.id: ""}
    assert {m.standing for m in stored(store, "")} == {Standing.ACTIVE}
    assert sweep_of(store, sweep.id, "default").status is SweepStatus.UNDONE
