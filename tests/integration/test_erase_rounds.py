"""What comes while an erasure is at work: it goes if it was asked for, and stays, and is told of, if it was not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from governance.erase import carried_out, surveyed
from governance.reach import Wanted
from governance.selection import Selection
from jobs import erasure
from kb.memories import Memories, Note
from kb.model import Kind, SourceClass, Standing
from kb.settings import Settings
from tests.erasing import BY
from tests.forgetting import Meanwhile, agree, barred, forget
from tests.governing import a_policy, fill, governed
from tests.invariants import broken
from tests.rolling import FILLER, asked, guide, later, note, says, stored, sync
from tests.stores import write
from tests.swept import policy

if TYPE_CHECKING:
    from pathlib import Path

    from governance.reach import Reach
    from kb.model import Memory

pytestmark = pytest.mark.usefixtures("ledger_url")  # on either database

NINETY = "The Anping bridge carries ninety tons on a dry day."
FORTY = "The Anping bridge carries forty tons on a dry day."
ELEVEN = "The Luoyang bridge carries eleven tons on a wet day."
RETOLD = "Somebody told me that Anping copes with ten times nine thousand kilos."


def at_work(store: Memories, patch: pytest.MonkeyPatch, *then: Any) -> Any:
    """Let things happen between the surveys of an erasure and their sweeps; return the consent to it."""
    meanwhile = Meanwhile(store, *then)
    patch.setattr(store.ledger, "lock", meanwhile)
    return meanwhile.consent


def reach_of(done: erasure.Erased) -> Reach:
    assert done.reach is not None
    return done.reach


def a_page(name: str, text: str) -> Memory:
    waiting = governed(name, policy=a_policy(), standing=Standing.QUARANTINED)
    web: dict[str, Any] = {"kind": Kind.WEB, "source_class": SourceClass.WEB}
    return replace(waiting, text=text, source=f"https://bridge.example/{name}", **web)


def forget_source(store: Memories, home: Path, source: str, consent: Any = agree) -> erasure.Erased:
    wanted = Wanted(selection=Selection(source=source))
    return erasure.forget(store, Settings(data_dir=home / "kb"), wanted, policy=policy(), actor=BY, consent=consent)


@pytest.mark.parametrize("is_asked_for", [True, False])
def test_what_is_written_from_it_meanwhile_goes_if_that_was_asked_for_and_is_told_of_if_not(
    store: Memories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_asked_for: bool
) -> None:
    secret = note(store, NINETY)
    consent = at_work(store, monkeypatch, lambda: note(store, RETOLD, secret.id))
    done = forget(store, tmp_path, secret, consent=consent, with_derived=is_asked_for)
    left = [m.id for m in stored(store, RETOLD)]
    assert bool(left) is not is_asked_for
    assert [m.id for m in reach_of(done).derived] == left
    assert stored(store, NINETY) == []
    assert broken(store) == []


def test_a_late_note_that_says_only_what_a_copy_says_beside_it_stays(
    store: Memories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = note(store, NINETY)
    note(store, f"{NINETY} {ELEVEN}")
    consent = at_work(store, monkeypatch, lambda: note(store, ELEVEN))
    done = forget(store, tmp_path, secret, consent=consent, with_copies=True)
    (stays,) = stored(store, ELEVEN)
    assert [c.id for c in reach_of(done).copies] == [stays.id]
    assert barred(store, NINETY, ELEVEN) == [NINETY]


def test_an_answer_that_quotes_only_what_a_late_copy_says_beside_it_stays(
    store: Memories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = note(store, ELEVEN)
    answer = asked(store, tmp_path, "How many tons does the Luoyang bridge carry on a wet day?")
    assert [c.memory_id for c in answer.citations] == [other.id]
    secret = note(store, NINETY)
    consent = at_work(store, monkeypatch, lambda: note(store, f"{NINETY} {ELEVEN}"))
    done = forget(store, tmp_path, secret, consent=consent, with_copies=True)
    assert reach_of(done).answers == []
    with store.ledger.read() as tx:
        assert [a.id for a in tx.descent.answers("default", [answer.answer_id])] == [answer.answer_id]


def test_what_comes_into_a_document_after_it_was_surveyed_stays(
    store: Memories, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, other = note(store, NINETY), folder.parent / "other"
    other.mkdir()

    def put(more: str) -> None:
        write(other, page_md=f"# Page\n\n{NINETY} {FILLER}\n{more}")
        later(store, 0.01)
        sync(store, other)

    consent = at_work(
        store, monkeypatch, lambda: put(""), lambda: put(f"\n## More\n\n{ELEVEN} {FILLER.replace('guide', 'rest')}\n")
    )
    forget(store, folder.parent, secret, consent=consent, with_copies=True)
    assert stored(store, NINETY) == []
    assert [m.standing for m in stored(store, ELEVEN)] == [Standing.ACTIVE], "nobody asked for it"
    assert says(store, ELEVEN)
    assert barred(store, NINETY, ELEVEN) == [NINETY]
    assert broken(store) == []


def test_what_comes_from_a_source_that_goes_goes_too(
    store: Memories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, [a_page("one", NINETY)])
    consent = at_work(store, monkeypatch, lambda: fill(store, [a_page("two", ELEVEN)]))
    done = forget_source(store, tmp_path, "bridge.example", consent)
    assert done.is_complete
    assert stored(store, NINETY) == stored(store, ELEVEN) == []
    assert sorted(reach_of(done).members) == ["default-one", "default-two"]


def test_who_consents_is_asked_again_when_more_would_go(store: Memories, folder: Path) -> None:
    write(folder, guide_md=guide(load=NINETY))
    sync(store, folder)
    shown: list[set[str]] = []

    def consent(reach: Reach) -> None:
        shown.append(set(reach.members))
        if len(shown) == 1:
            write(folder, other_md=f"# Other\n\n{ELEVEN} {FILLER}")
            sync(store, folder)

    done = forget_source(store, folder.parent, "docs", consent)
    assert len(shown) == 2
    assert shown[0] < shown[1] == set(reach_of(done).members)


def test_nothing_goes_if_more_would_each_time_that_somebody_has_consented(store: Memories, tmp_path: Path) -> None:
    fill(store, [a_page("page", NINETY)])
    names = iter(range(100))
    with pytest.raises(erasure.Refused, match="grew"):
        forget_source(store, tmp_path, "bridge.example", lambda _: fill(store, [a_page(f"page-{next(names)}", ELEVEN)]))
    assert stored(store, NINETY)


def test_an_answer_that_was_erased_by_its_id_is_known_to_have_been(store: Memories, tmp_path: Path) -> None:
    note(store, ELEVEN)
    answer = asked(store, tmp_path, "How many tons does the Luoyang bridge carry on a wet day?")
    assert forget(store, tmp_path, answer.answer_id).sweeps
    assert forget(store, tmp_path, answer.answer_id).sweeps == []
    assert stored(store, ELEVEN)


def test_a_passage_that_is_about_to_come_back_is_a_copy_that_stays(
    store: Memories, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for load in (NINETY, FORTY):
        write(folder, guide_md=guide(load=load))
        sync(store, folder)
        later(store)
    secret, project, done = note(store, NINETY), type(store.projector).project_staged, list[erasure.Erased]()

    def project_staged(projector: Any, memories: Any) -> Any:
        written = project(projector, memories)
        if not done:
            done.append(forget(store, folder.parent, secret))
        return written

    monkeypatch.setattr(type(store.projector), "project_staged", project_staged)
    write(folder, guide_md=guide(load=NINETY))
    sync(store, folder)
    assert done
    later(store)
    sync(store, folder)
    assert says(store, NINETY), "the passage that it replaces said so before, and stayed"
    assert broken(store) == []


def test_who_repeats_an_erasure_that_died_is_told_of_copies_that_came_meanwhile(
    store: Memories, tmp_path: Path
) -> None:
    secret = note(store, NINETY)
    wanted = Wanted(selection=Selection(memories=(secret.id,)), with_copies=True)
    reach = surveyed(store, wanted, policy(), store.clock.now())
    (copy, _) = store.add_note(Note(text=NINETY, tenant="default", by=SourceClass.AGENT))
    carried_out(store, reach, policy=policy(), actor="ada")  # and its process died
    done = forget(store, tmp_path, secret, with_copies=True)
    assert done.stayed == [copy.id]
    assert done.as_json()["resumed_copies_not_erased"] == [copy.id]
    assert forget(store, tmp_path, copy).is_complete
    assert stored(store, NINETY) == []


def test_index_rows_of_an_earlier_try_are_not_counted_when_they_are_gone(
    store: Memories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = note(store, NINETY), note(store, ELEVEN)
    count, tries = erasure._index_rows, list[int]()

    def slow(memories: Memories, ids: Any) -> int:
        tries.append(len(ids))
        return 3 if len(tries) <= 2 else count(memories, ids)

    monkeypatch.setattr(erasure, "_index_rows", slow)
    wanted = Wanted(selection=Selection(memories=(one.id,)))
    settings = Settings(data_dir=tmp_path / "kb")
    first = erasure.forget(store, settings, wanted, policy=policy(), actor=BY, consent=agree)
    assert (first.is_complete, first.index_rows) == (False, 3)
    assert forget(store, tmp_path, two).index_rows == 0
