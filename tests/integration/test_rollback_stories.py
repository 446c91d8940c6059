"""Stories of rollback: what was bad goes with all that was made from it, stays out, and comes back when undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kb.errors import InputError, UnknownMemory
from kb.model import Kind, Standing
from kb.rolled_back import is_rolled_back
from kb.sweeps import ActionKind
from kb.trust import DAY_MS, passes
from tests.rolling import (
    LOAD,
    POISON,
    TOLL,
    asked,
    guide,
    later,
    look,
    note,
    poison,
    roll_back,
    says,
    stored,
    sync,
    take_back,
)
from tests.stores import write
from tests.swept import is_in_step, ledger_rows

if TYPE_CHECKING:
    from pathlib import Path

    from kb.memories import Memories


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A folder that becomes the source `evil`."""
    folder = tmp_path / "evil"
    folder.mkdir()
    return folder


def test_a_bad_batch_gives_way_to_what_it_had_replaced(store: Memories, folder: Path) -> None:
    batch = poison(store, folder)
    assert says(store, POISON)
    assert not says(store, LOAD)
    radius = look(store, batch=batch)
    assert radius.counts["quarantined"] == 1
    assert radius.counts["revived"] == 1
    assert radius.counts["documents_put_back"] == 1
    assert says(store, POISON), "a look changes nothing"
    roll_back(store, batch=batch)
    assert says(store, LOAD) == ["file://docs/guide.md"]
    assert says(store, TOLL), "what both versions held was never touched"
    assert not says(store, POISON)
    assert is_in_step(store)


def test_what_comes_back_passes_the_gate_however_long_it_was_replaced(store: Memories, folder: Path) -> None:
    batch = poison(store, folder)
    later(store, 60)
    roll_back(store, batch=batch)
    (back,) = stored(store, LOAD)
    assert passes(back.trust, 0.7, store.clock.now(), store.policies[back.source_class].half_life)
    assert says(store, LOAD, gate=0.7)


def test_nothing_of_the_past_speaks_for_what_was_rolled_back(store: Memories, folder: Path) -> None:
    batch = poison(store, folder)
    at = store.clock.now() + 1
    later(store)
    write(folder, guide_md=guide(load="The Anping bridge is closed to lorries of all tons."))
    sync(store, folder)
    later(store)
    assert says(store, POISON, at=at)
    roll_back(store, batch=batch)
    assert not says(store, POISON, at=at)
    assert says(store, "closed to lorries"), "a good version on top of the bad one stands"
    assert not says(store, LOAD), "and what it did not take over stays replaced"


def test_an_unchanged_file_never_comes_back(store: Memories, folder: Path) -> None:
    batch = poison(store, folder)
    (sweep,) = roll_back(store, batch=batch)
    before = ledger_rows(store)
    for night in range(3):
        later(store)
        report = sync(store, folder, checksum=bool(night % 2))
        assert report.documents["skipped"] == 1
        assert f"rolled back by sweep {sweep.id}" in report.skipped[0].reason
        assert "kb govern undo" in report.skipped[0].reason
        assert not says(store, POISON)
        assert says(store, LOAD)
    assert ledger_rows(store) == before, "the nightly sync wrote nothing"


def test_a_whole_source_goes_and_stays_away_renamed_and_copied(store: Memories, folder: Path, evil: Path) -> None:
    write(folder, good_md=guide())
    write(evil, bad_md=guide(load=POISON, toll="The toll is one soul and a half per lorry."))
    sync(store, folder)
    sync(store, evil)
    roll_back(store, source="evil")
    assert not says(store, POISON)
    assert says(store, LOAD)
    (evil / "bad.md").rename(evil / "worse.md")
    assert sync(store, evil).documents["skipped"] == 1
    write(folder, copy_md=(evil / "worse.md").read_text())
    report = sync(store, folder)
    assert [s.source for s in report.skipped] == ["file://docs/copy.md"]
    assert not says(store, POISON)
    assert not says(store, "one soul")


def test_a_changed_file_brings_only_what_is_new_in_it(store: Memories, folder: Path) -> None:
    batch = poison(store, folder)
    (sweep,) = roll_back(store, batch=batch)
    later(store)
    write(folder, guide_md=guide(load=POISON, more="The ferry below leaves at noon every single day."))
    report = sync(store, folder)
    assert report.documents["changed"] == 1
    assert says(store, "The ferry below")
    assert not says(store, POISON)
    assert any(sweep.id in w.reason for w in report.warnings)
    with store.ledger.read() as tx:
        (document,) = tx.documents.of_root("default", "docs")
    assert document.version == 3, "a version that was rolled back keeps its number"


def test_a_sentence_stays_out_wherever_its_passage_is_cut_by_now(store: Memories, folder: Path) -> None:
    batch = poison(store, folder)
    roll_back(store, batch=batch)
    write(
        folder, guide_md=guide(load=f"It was built long ago by hand. {POISON}", more="A ferry leaves at noon each day.")
    )
    sync(store, folder)
    assert says(store, "A ferry leaves")
    assert not says(store, POISON)
    (again,) = [m for m in stored(store, POISON) if "long ago" in m.text]
    assert again.standing is Standing.QUARANTINED
    assert is_rolled_back(again)


def test_a_file_that_is_new_in_nothing_but_bad_words_replaces_nothing(store: Memories, folder: Path) -> None:
    batch = poison(store, folder)
    roll_back(store, batch=batch)
    write(folder, guide_md=guide(load=f"{POISON} Believe it."))
    report = sync(store, folder)
    assert report.documents["skipped"] == 1
    assert says(store, LOAD)


def test_a_copy_with_changes_in_another_source_is_quarantined_passage_by_passage(
    store: Memories, folder: Path, evil: Path
) -> None:
    write(evil, bad_md=guide(load=POISON))
    sync(store, evil)
    roll_back(store, source="evil")
    write(folder, mixed_md=guide(load=POISON, more="The ferry below leaves at noon every single day."))
    sync(store, folder)
    assert says(store, "The ferry below")
    assert not says(store, POISON)


def test_undo_is_the_identity_and_the_next_sync_finds_nothing_to_do(
    store: Memories, folder: Path, tmp_path: Path
) -> None:
    batch = poison(store, folder)
    answer = asked(store, tmp_path)
    note(store, "Ninety tons may cross the bridge, they say.", answer.answer_id)
    before = ledger_rows(store)
    sweeps = roll_back(store, batch=batch)
    assert ledger_rows(store) != before
    later(store)
    sync(store, folder)
    take_back(store, *sweeps)
    assert ledger_rows(store) == before
    assert is_in_step(store)
    report = sync(store, folder)
    assert report.documents["unchanged"] == 1
    assert not report.skipped
    assert says(store, POISON)


def test_a_second_rollback_finds_nothing(store: Memories, folder: Path) -> None:
    batch = poison(store, folder)
    assert len(roll_back(store, batch=batch)) == 1
    later(store)
    sync(store, folder)
    for wanted in ({"batch": batch}, {"source": "docs", "since": store.clock.now() - DAY_MS}):
        assert look(store, **wanted).plan.actions == ()
        assert roll_back(store, **wanted) == []
    assert says(store, LOAD), "and an earlier rollback is not mistaken for a deletion to take back"


def test_what_was_deleted_in_a_bad_batch_is_back(store: Memories, folder: Path) -> None:
    write(folder, guide_md=guide(), other_md=guide(load="Another bridge carries four tons at most."))
    sync(store, folder)
    later(store)
    (folder / "other.md").unlink()
    write(folder, guide_md=guide(load=POISON))
    batch = sync(store, folder, allow_mass_delete=True).run_id
    assert not says(store, "Another bridge")
    (sweep,) = roll_back(store, batch=batch)
    assert says(store, "Another bridge")
    assert says(store, LOAD)
    take_back(store, sweep)
    assert not says(store, "Another bridge")
    assert says(store, POISON)


def test_words_that_a_good_passage_says_too_are_not_kept_out(store: Memories, folder: Path) -> None:
    write(folder, guide_md=guide())
    sync(store, folder)
    write(folder, guide_md=guide().replace("## Load", "## Weight"))  # the same words under another heading
    batch = sync(store, folder).run_id
    roll_back(store, batch=batch)
    write(folder, guide_md=guide(more="The ferry below leaves at noon.").replace("## Load", "## Burden"))
    sync(store, folder)
    assert says(store, LOAD)


def test_only_what_is_named_is_touched(store: Memories, folder: Path, evil: Path) -> None:
    write(folder, a_md=guide(), ab_md=guide(load="A second bridge carries two tons only."))
    write(evil, bad_md=guide(load=POISON))
    sync(store, folder)
    sync(store, evil)
    assert look(store, source="file://docs/a.md").counts["memories"] == 2
    assert look(store, source="file://docs/a*").counts["memories"] == 4
    assert look(store, document="file://docs/ab.md").counts["memories"] == 2
    assert look(store, source="docs").counts["memories"] == 4
    (one,) = stored(store, POISON)
    assert look(store, memories=(one.id,)).counts["memories"] == 1
    plan = look(store, memories=(one.id,)).plan
    assert [a.kind for a in plan.actions] == [ActionKind.QUARANTINE], "its document keeps its other passage"


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ({"source": "nowhere"}, InputError),
        ({"source": "file://docs/missing.md"}, InputError),
        ({"document": "file://docs/missing.md"}, InputError),
        ({"batch": "0" * 32}, InputError),
        ({"memories": ("m1",)}, UnknownMemory),
        ({}, InputError),
        ({"source": "a", "batch": "b"}, InputError),
        ({"batch": "b", "since": 1}, InputError),
    ],
)
def test_a_misspelt_name_does_not_pass_for_a_clean_one(
    store: Memories, wanted: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        look(store, **wanted)


def test_another_tenant_sees_and_loses_nothing(store: Memories, folder: Path) -> None:
    write(folder, guide_md=guide(load=POISON))
    sync(store, folder, tenant="other")
    (found,) = store.page("other", kinds=[Kind.DOCUMENT], limit=1)
    with pytest.raises(InputError):
        look(store, source="docs")
    with pytest.raises(UnknownMemory):
        look(store, memories=(found.id,))
    with pytest.raises(InputError):
        note(store, "From elsewhere.", found.id)
