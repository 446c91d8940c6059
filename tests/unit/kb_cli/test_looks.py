"""A look that found nothing is no sweep, and what is kept of one is told in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from governance.marks import is_place_alone, keep_places, mark_action, placed
from jobs.context import JobContext
from jobs.report import Tally
from jobs.sweeps import recheck
from kb.ledger.looking import START, Place
from kb.settings import Settings
from kb.sweeps import Action, ActionKind, SweepJob
from kb_cli.sweeps import counted, plan_lines
from tests.disputing import FILLER, keep, said
from tests.swept import plan_of

if TYPE_CHECKING:
    from pathlib import Path

    from kb.memories import Memories

AT = 1_800_000_000_000


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (Place(AT, "m1"), "looked at what had changed up to 2027-01-15"),
        (Place(START.at, "m7"), "the next look goes on after m7"),
        (START, "the next look begins anew"),
    ],
)
def test_how_far_a_look_got_is_told_in_words(place: Place, words: str) -> None:
    lines = plan_lines(plan_of([mark_action(SweepJob.RECHECK, place)], job=SweepJob.RECHECK))
    assert any(words in line for line in lines)
    assert counted({"look": 1, "weigh": 2}) == "1 look noted, 2 weigh"


def test_only_places_are_kept_without_a_sweep() -> None:
    place = mark_action(SweepJob.RECHECK, (AT, "m"))
    assert is_place_alone([place])
    assert not is_place_alone([])
    assert not is_place_alone([place, Action(memory_id="m", kind=ActionKind.LOOK, reason="checked", rev=1)])


def test_a_night_on_which_nothing_is_found_leaves_no_sweep(store: Memories, tmp_path: Path) -> None:
    keep(store, *(said(f"n{n}", text) for n, text in enumerate(FILLER)))
    context = JobContext(
        settings=Settings(data_dir=tmp_path), open_memories=lambda: store, clock=store.clock, actor="daemon"
    )  # type: ignore[arg-type] # it is open already
    for _ in range(3):
        recheck(context, store, Tally(job=SweepJob.RECHECK))  # type: ignore[arg-type] # the same names
        store.clock.advance(86_400_000)  # type: ignore[attr-defined] # a clock of the tests
    with store.ledger.read() as tx:
        assert tx.sweeps.list(9) == []
        assert placed(tx, "default", SweepJob.RECHECK) > START
    with store.ledger.write() as tx:
        keep_places(tx, "default", [mark_action(SweepJob.PROMOTE, START)])
