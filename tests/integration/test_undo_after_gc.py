"""What gc has taken is in no undo's way: all the rest stands as before, and may be said, read and erased again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from governance.planning import planned
from governance.review import decide
from governance.sweep import apply
from governance.undo import undo
from kb.errors import Refused, StalePlan
from kb.model import Memory, SourceClass, Standing
from kb.sweeps import SweepJob
from tests.disputing import FIFTY, FORTY, keep, now_of, open_contradictions, recheck, said
from tests.erasing import BY
from tests.forgetting import Meanwhile, barred, forget
from tests.invariants import broken
from tests.rolling import guide, later, note, roll_back, stored, sync, take_back
from tests.stores import write
from tests.swept import policy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kb.memories import Memories
    from kb.sweeps import Sweep

pytestmark = pytest.mark.usefixtures("ledger_url")  # on either database

NINETY = "The Anping bridge carries ninety tons on a dry day."
COINS = "The toll of the Beihai bridge is three coins."


def swept(store: Memories, job: SweepJob) -> Sweep:
    """Sweep as the daemon would."""
    plan = planned(store, job, policy(), store.clock.now())
    return apply(store, plan, policy=policy(), actor="daemon", allow_mass=True)


def collected(store: Memories, days: float = 900) -> Sweep:
    """Let so many days pass, and gc take what has faded by then; return its sweep."""
    later(store, days)
    swept(store, SweepJob.PRUNE)
    later(store, 60)
    return swept(store, SweepJob.GC)


def decided(store: Memories, of: Memory | Sequence[Memory], job: SweepJob) -> Sweep:
    ids = [m.id for m in ([of] if isinstance(of, Memory) else of)]
    sweep = decide(store, ids, job, policy=policy(), actor=BY).sweep
    assert sweep is not None
    return sweep


def collected_but_for(store: Memories, kept: Memory, *rolled_back: Sweep) -> list[Sweep]:
    """Let gc take what was rolled back, but for what a person pins; return all that is to be undone then."""
    pinned = decided(store, kept, SweepJob.PIN)
    collected(store)
    return [*rolled_back, pinned]


def test_a_rollback_is_undone_for_what_gc_has_left(store: Memories) -> None:
    one, two = note(store, NINETY), note(store, COINS)
    sweeps = collected_but_for(store, two, *roll_back(store, memories=(one.id, two.id)))
    assert not stored(store, NINETY)
    take_back(store, *sweeps)
    (now,) = stored(store, COINS)
    assert now.standing is Standing.ACTIVE


def test_what_gc_has_taken_may_be_said_again_once_its_rollback_is_undone(store: Memories) -> None:
    one, two = note(store, NINETY), note(store, COINS)
    sweeps = collected_but_for(store, two, *roll_back(store, memories=(one.id, two.id)))
    take_back(store, *sweeps)
    again = note(store, NINETY)
    assert again.standing is Standing.ACTIVE
    assert broken(store) == []


def test_a_document_comes_back_without_what_gc_has_taken_and_is_read_again(store: Memories, folder: Path) -> None:
    write(folder, guide_md=guide())
    sync(store, folder)
    rolled_back = roll_back(store, source="docs")
    _, kept = stored(store, "")
    sweeps = collected_but_for(store, kept, *rolled_back)
    assert len(stored(store, "")) == 1
    take_back(store, *sweeps)
    sync(store, folder)
    assert [m.standing for m in stored(store, "")] == [Standing.ACTIVE] * 2
    assert broken(store) == []


def test_who_comes_back_is_not_contested_by_what_gc_has_taken(store: Memories) -> None:
    one, two = said("one", FORTY), said("two", FIFTY, by=SourceClass.PERSON)
    keep(store, one, two)
    recheck(store)
    assert open_contradictions(store)
    decided(store, one, SweepJob.PIN)
    sweeps = roll_back(store, memories=(one.id,))
    collected(store, days=400)
    assert not stored(store, "55 tons")
    take_back(store, *sweeps)
    assert not now_of(store, one)[0].contested


def test_a_refused_undo_names_what_can_be_undone_and_that_is_not_gc(store: Memories) -> None:
    one, two = note(store, NINETY), note(store, COINS)
    sweeps = roll_back(store, memories=(one.id, two.id))
    verified = decided(store, two, SweepJob.VERIFY)
    gc = collected(store)
    with pytest.raises(StalePlan) as refused:
        take_back(store, *sweeps)
    assert refused.value.hint == f"later sweeps changed them too; undo those first: {verified.id}"
    with pytest.raises(Refused):
        undo(store, gc.id, "default", actor="ann", policy=policy())


def test_what_is_said_again_while_its_traces_are_erased_bars_nobody_else(
    store: Memories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = note(store, NINETY)
    collected(store)
    assert not stored(store, NINETY)
    note(store, f"{COINS}\n\n{NINETY}")
    meanwhile = Meanwhile(store, lambda: note(store, NINETY))
    monkeypatch.setattr(store.ledger, "lock", meanwhile)
    forget(store, tmp_path, secret, consent=meanwhile.consent)
    assert barred(store, NINETY) == [], "another memory, which stays, says it"
    assert broken(store) == []


@pytest.mark.parametrize("is_undone_twice", [False, True])
def test_what_faded_comes_back_with_the_next_sync_also_after_an_undo_that_was_undone(
    store: Memories, folder: Path, *, is_undone_twice: bool
) -> None:
    """A sync asks the journal why something is retired: an undo of an undo must not hide that."""
    write(folder, guide_md=guide())
    sync(store, folder)
    later(store, 900)
    pruned = swept(store, SweepJob.PRUNE)
    (gone,) = [m for m in stored(store, "") if m.standing is Standing.RETIRED]
    if is_undone_twice:
        back = undo(store, pruned.id, "default", actor="ann", policy=policy())
        undo(store, back.id, "default", actor="ann", policy=policy())
    assert store.get(gone.id, "default").standing is Standing.RETIRED
    later(store)
    sync(store, folder)
    assert store.get(gone.id, "default").standing is Standing.ACTIVE
