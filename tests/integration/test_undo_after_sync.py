"""A sync that only looks at a file is in no undo's way; one that stores another version is, and the refusal says so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from governance.review import decide
from governance.undo import undo
from kb.errors import StalePlan
from kb.model import Standing
from kb.sweeps import SweepJob, TombstoneKind
from tests.erasing import BY
from tests.invariants import broken
from tests.rolling import LOAD, POISON, guide, later, note, poison, roll_back, says, stored, sync, take_back
from tests.stores import write
from tests.swept import policy

if TYPE_CHECKING:
    from pathlib import Path

    from kb.memories import Memories
    from kb.sweeps import Sweep, SweepId

pytestmark = pytest.mark.usefixtures("ledger_url")  # on either database

OTHER = "The Anping bridge carries fifty tons on a dry day."


def rolled_back(store: Memories, folder: Path) -> Sweep:
    """Roll a bad batch back, put the good file where it was, and sync."""
    batch = poison(store, folder)
    later(store)
    (sweep,) = roll_back(store, batch=batch)
    later(store)
    write(folder, guide_md=guide())
    assert sync(store, folder).documents == {"unchanged": 1}
    later(store)
    return sweep


@pytest.mark.parametrize("load", [POISON, LOAD])
def test_a_rollback_is_undone_though_the_good_file_was_looked_at_since_and_the_file_is_read_anew(
    store: Memories, folder: Path, load: str
) -> None:
    sweep = rolled_back(store, folder)
    take_back(store, sweep)
    assert says(store, POISON)
    assert not says(store, LOAD)
    later(store)
    write(folder, guide_md=guide(load=load))
    assert sync(store, folder).documents == {"unchanged" if load == POISON else "changed": 1}
    assert [bool(says(store, words)) for words in (POISON, LOAD)] == [load == POISON, load == LOAD]
    assert broken(store) == []


def test_an_undo_is_undone_though_the_file_was_looked_at_since(store: Memories, folder: Path) -> None:
    sweep = rolled_back(store, folder)
    back = undo(store, sweep.id, "default", actor="ann", policy=policy())
    later(store)
    write(folder, guide_md=guide(load=POISON))
    assert sync(store, folder).documents == {"unchanged": 1}
    later(store)
    again = undo(store, back.id, "default", actor="ann", policy=policy())
    assert says(store, LOAD)
    assert not says(store, POISON)
    take_back(store, again)
    assert says(store, POISON)
    assert broken(store) == []


def test_a_file_as_old_and_as_long_as_the_bad_one_is_read_all_the_same_once_a_rollback_is_undone(
    store: Memories, folder: Path
) -> None:
    """What an undo knows of a file was true before a sync looked at it again."""
    sweep = rolled_back(store, folder)
    take_back(store, sweep)
    with store.ledger.read() as tx:
        (document,) = tx.documents.of_root("default", "docs")
    assert (document.size, document.mtime_ns) == (0, 0)


def refusal(store: Memories, sweep_id: SweepId) -> StalePlan:
    with pytest.raises(StalePlan) as refused:
        undo(store, sweep_id, "default", actor="ann", policy=policy())
    return refused.value


def test_a_refused_undo_names_the_document_that_a_sync_has_stored_anew_and_what_can_be_done(
    store: Memories, folder: Path
) -> None:
    sweep = rolled_back(store, folder)
    write(folder, guide_md=guide(load=OTHER))
    sync(store, folder)
    (bad,), (good,) = stored(store, POISON), stored(store, LOAD)
    error = refusal(store, sweep.id)
    assert "document file://docs/guide.md" in str(error)
    assert "version 1 of document file://docs/guide.md" in str(error)
    assert f"memory {bad.id}" in str(error)
    assert set(error.moved) >= {bad.id, good.id}, "programs get the keys alone"
    assert "a later sync has changed file://docs/guide.md; `kb memory restore ID` lets back" in error.hint


def test_what_a_newer_version_has_replaced_comes_back_as_a_note_as_the_hint_says(store: Memories, folder: Path) -> None:
    sweep = rolled_back(store, folder)
    write(folder, guide_md=guide(load=OTHER))
    sync(store, folder)
    assert "comes back as a note: `kb memory add`, then restore that" in refusal(store, sweep.id).hint
    (bad,) = stored(store, POISON)
    assert decide(store, [bad.id], SweepJob.RESTORE, policy=policy(), actor=BY).refused
    again = note(store, POISON)
    assert again.standing is Standing.QUARANTINED
    decide(store, [again.id], SweepJob.RESTORE, policy=policy(), actor=BY)
    assert says(store, POISON) == ["note://person"]


def test_what_moved_is_named_by_its_kind(store: Memories) -> None:
    one = note(store, POISON)
    (first,) = roll_back(store, memories=(one.id,))
    with store.ledger.write() as tx:
        left = tx.tombstones.among("default", TombstoneKind.TEXT, [POISON]).values()
        tx.tombstones.put([replace(tombstone, at=tombstone.at + 1) for tombstone in left])
    error = refusal(store, first.id)
    assert "1 row changed since" in str(error)
    assert "tombstone of a text" in str(error)
    assert "explain" not in error.hint
