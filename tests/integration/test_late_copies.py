"""Copies that are written between the survey of an erasure and its sweep, and what is there again after it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from governance import rounds
from governance.erase import carried_out, surveyed
from governance.late_copies import unbar, with_late_copies
from governance.reach import Wanted
from governance.review import decide
from governance.selection import Selection
from governance.undo import undo
from kb.errors import Refused
from kb.memories import Memories, Note
from kb.model import Memory, SourceClass, Standing
from kb.sweeps import SweepJob, TombstoneKind
from tests.erasing import BY
from tests.forgetting import Meanwhile, barred, forget
from tests.governing import a_policy, fill, governed
from tests.invariants import broken
from tests.rolling import FILLER, guide, later, note, roll_back, says, stored, sync
from tests.stores import T0, write
from tests.swept import policy

if TYPE_CHECKING:
    from pathlib import Path

    from governance.reach import Reach

pytestmark = pytest.mark.usefixtures("ledger_url")  # on either database

NINETY = "The Anping bridge carries ninety tons on a dry day."
FORTY = "The Anping bridge carries forty tons on a dry day."
NEW = "A canteen was opened in the spring of this year."


def test_what_a_late_copy_says_is_not_kept_out(store: Memories, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, guide_md=guide(load=FORTY))
    sync(store, folder)
    secret = note(store, NINETY)
    write(folder, guide_md=guide(load=NINETY))
    later(store)
    meanwhile = Meanwhile(store, lambda: sync(store, folder))
    monkeypatch.setattr(store.ledger, "lock", meanwhile)
    done = forget(store, folder.parent, secret, consent=meanwhile.consent)
    assert done.reach is not None
    (copy,) = stored(store, NINETY)
    assert [c.id for c in done.reach.copies] == [copy.id], "a person is told"
    assert barred(store, NINETY) == []
    later(store)
    write(folder, guide_md=guide(load=NINETY, more=NEW))
    sync(store, folder)
    assert says(store, NINETY) == says(store, NEW) == [copy.source]
    assert broken(store) == []


def test_what_was_rolled_back_before_is_so_again(
    store: Memories, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = note(store, NINETY)
    (sweep,) = roll_back(store, memories=(bad.id,))
    agents = Note(text=f"{NINETY} {FILLER}", tenant="default", by=SourceClass.AGENT)
    meanwhile = Meanwhile(store, lambda: store.add_note(agents))
    monkeypatch.setattr(store.ledger, "lock", meanwhile)
    forget(store, folder.parent, bad, consent=meanwhile.consent)
    with store.ledger.read() as tx:
        (left,) = tx.tombstones.among("default", TombstoneKind.TEXT, [NINETY]).values()
    assert (left.is_erased, left.sweep_id) == (False, sweep.id)
    again = note(store, NINETY)
    assert again.standing is Standing.QUARANTINED


def test_a_late_copy_does_not_let_other_words_back(
    store: Memories, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = note(store, f"{NINETY} {FORTY}")
    meanwhile = Meanwhile(store, lambda: note(store, NINETY))
    monkeypatch.setattr(store.ledger, "lock", meanwhile)
    forget(store, folder.parent, secret, consent=meanwhile.consent)
    assert barred(store, NINETY, FORTY) == [FORTY]
    with pytest.raises(Refused):
        note(store, FORTY)


def test_a_late_copy_that_goes_too_takes_nothing_along_that_nobody_asked_for(
    store: Memories, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, other = note(store, NINETY), note(store, FORTY)
    meanwhile = Meanwhile(store, lambda: note(store, f"{NINETY} {FORTY}"))
    monkeypatch.setattr(store.ledger, "lock", meanwhile)
    done = forget(store, folder.parent, secret, consent=meanwhile.consent, with_copies=True)
    assert stored(store, NINETY) == []
    assert [m.id for m in stored(store, FORTY)] == [other.id], "it says not a word of what was to go"
    assert done.reach is not None
    assert [c.id for c in done.reach.copies] == [other.id], "it says what the late copy said: a person is told"
    assert barred(store, NINETY, FORTY) == [NINETY]


def test_what_is_written_while_a_late_copy_goes_is_late_too(
    store: Memories, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = note(store, NINETY)
    meanwhile = Meanwhile(store, lambda: note(store, f"{NINETY} {FORTY}"), lambda: note(store, FORTY))
    monkeypatch.setattr(store.ledger, "lock", meanwhile)
    done = forget(store, folder.parent, secret, consent=meanwhile.consent, with_copies=True)
    assert stored(store, NINETY) == []
    (copy,) = stored(store, FORTY)
    assert done.reach is not None
    assert [c.id for c in done.reach.copies] == [copy.id], "a person is told"
    assert barred(store, NINETY, FORTY) == [NINETY]
    assert broken(store) == []


def test_a_late_copy_that_goes_by_itself_meanwhile_stops_nothing(
    store: Memories, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, survey, own = note(store, NINETY), rounds.surveyed, list[Memory]()

    def surveyed_late(memories: Memories, wanted: Wanted, *others: Any, **named: Any) -> Reach:
        if [m.id for m in own] == list(wanted.selection.memories):
            with memories.ledger.write() as tx:
                tx.memories.remove([own[0].id])
                tx.outbox.mark([own[0].id], T0)
        return survey(memories, wanted, *others, **named)

    meanwhile = Meanwhile(store, lambda: own.append(note(store, f"{NINETY} {FORTY}")))
    monkeypatch.setattr(store.ledger, "lock", meanwhile)
    monkeypatch.setattr(rounds, "surveyed", surveyed_late)
    done = forget(store, folder.parent, secret, consent=meanwhile.consent, with_copies=True)
    assert done.is_complete
    assert stored(store, NINETY) == []
    assert barred(store, NINETY, FORTY) == [NINETY]
    assert broken(store) == []


def test_a_copy_that_is_staged_and_never_comes_leaves_the_words_barred(store: Memories, folder: Path) -> None:
    staged = replace(governed("staged", policy=a_policy(), standing=Standing.STAGED), text=NINETY)
    fill(store, [staged])
    done = forget(store, folder.parent, note(store, NINETY))
    assert done.reach is not None
    assert [c.id for c in done.reach.copies] == ["default-staged"], "its words are in the ledger: a person is told"
    assert barred(store, NINETY) == [NINETY]


def test_an_erasure_that_died_before_it_looked_for_late_copies_is_mended(store: Memories, folder: Path) -> None:
    secret = note(store, NINETY)
    wanted = Wanted(selection=Selection(memories=(secret.id,)))
    reach = surveyed(store, wanted, policy(), store.clock.now())
    late = Note(text=NINETY, tenant="default", by=SourceClass.AGENT)
    (copy, _) = store.add_note(late)
    carried_out(store, reach, policy=policy(), actor="ada")
    assert barred(store, NINETY) == [NINETY]
    forget(store, folder.parent, note(store, FORTY))  # finishes it
    assert barred(store, NINETY, FORTY) == [FORTY]
    assert [m.id for m in stored(store, NINETY)] == [copy.id]
    assert broken(store) == []


def test_a_copy_that_goes_meanwhile_takes_its_words_along(store: Memories) -> None:
    secret = note(store, NINETY)
    reach = surveyed(store, Wanted(selection=Selection(memories=(secret.id,))), policy(), store.clock.now())
    (copy, _) = store.add_note(Note(text=NINETY, tenant="default", by=SourceClass.AGENT))
    sweep = carried_out(store, reach, policy=policy(), actor="ada")
    assert [c.id for c in with_late_copies(store, reach).copies] == [copy.id]
    with store.ledger.write() as tx:
        tx.memories.remove([copy.id])
    assert unbar(store, reach, [copy.id], {sweep.id}) == 0
    assert barred(store, NINETY) == [NINETY]


def test_what_is_there_again_keeps_its_history_when_the_journal_lets_go(store: Memories, folder: Path) -> None:
    write(folder, guide_md=guide(load=NINETY))
    sync(store, folder)
    (agents, _) = store.add_note(Note(text=NINETY, tenant="default", by=SourceClass.AGENT))
    decide(store, [agents.id], SweepJob.ANNOTATE, policy=policy(), actor=BY, reason="before")
    later(store)
    reach = surveyed(store, Wanted(selection=Selection(memories=(agents.id,))), policy(), store.clock.now())
    carried_out(store, reach, policy=policy(), actor="ada")  # and its process died
    later(store)
    (again, _) = store.add_note(Note(text=NINETY, tenant="default", by=SourceClass.AGENT))
    assert again.id == agents.id, "the guide says it, too: nobody has barred its words"
    rejected = decide(store, [again.id], SweepJob.REJECT, policy=policy(), actor=BY, reason="after").sweep
    assert rejected is not None
    later(store)
    forget(store, folder.parent, note(store, FORTY))  # finishes it
    with store.ledger.read() as tx:
        assert [j.sweep_id for j in tx.sweeps.of_memory(again.id)] == [rejected.id]
    undo(store, rejected.id, "default", actor="ada", policy=policy())
    assert store.get(again.id, "default").standing is again.standing
    assert broken(store) == []
