"""Stories of what a search owes: all that was acknowledged, nothing that has gone, the past as it was."""

from __future__ import annotations

import os
import sqlite3
import unicodedata
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ingest.store import Store
from kb.doctor import examined
from kb.errors import InputError
from kb.memories import Note
from kb.model import Scope, SourceClass, Standing
from kb.ranking import Fusion
from kb.settings import ClassSettings, Settings
from kb.trust import DAY_MS
from tests.fakes.embedder import HashingEmbedder, InterruptedEmbedder
from tests.stores import FakeClock, InProcessServer, open_store, search, sync, texts, write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kb.memories import Memories
    from kb.model import Memory
    from kb.ports import Vector

FOUR = "# A\n\nThe toll is four coins.\n"
NINE = "# A\n\nThe toll is nine coins.\n"
HUGE = "123456789012345678901234567890"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    return docs


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock):
    with open_store(tmp_path / "data", clock=clock) as memories:
        yield memories


def change(memories: Memories, how: Callable[[Memory], Memory]) -> None:
    """Change every memory as another room would."""
    with memories.ledger.write() as tx:
        changed = [replace(how(m), rev=m.rev + 1) for m in tx.memories.page("", 1000)]
        tx.memories.replace(changed)
        tx.outbox.mark([m.id for m in changed], memories.clock.now())
    memories.projector.drain()


def note(memories: Memories, text: str, *, user: str = "", by: SourceClass = SourceClass.PERSON) -> Memory:
    return memories.add_note(Note(text=text, tenant="default", by=by, scope=Scope(user=user)))[0]


# What is acknowledged can be retrieved.


@pytest.mark.parametrize("value", [HUGE, '"\\0"', "[" * 70 + "]" * 70], ids=["number", "nul", "depth"])
def test_front_matter_that_no_store_could_hold_fails_its_document_only(store, folder, value):
    write(folder, a_md=f"---\nn: {value}\n---\n{FOUR}", b_md="# B\n\nThe ferry is free.\n")
    report = sync(store, folder)
    assert [(f.source, f.code) for f in report.failures] == [("file://docs/a.md", "front_matter")]
    assert report.failures[0].hint
    assert texts(search(store, "ferry")) == ["The ferry is free."]


@pytest.mark.parametrize("value", [int(HUGE), float("nan"), "\ud800"], ids=["number", "nan", "surrogate"])
def test_a_note_whose_metadata_no_index_takes_is_refused(store, value):
    with pytest.raises(InputError, match="metadata"):
        store.add_note(Note(text="The toll is four coins.", tenant="default", metadata={"n": value}))
    assert store.page("default") == []


@pytest.mark.parametrize("text", ["half \ud800", "nul \0"], ids=["surrogate", "nul"])
def test_a_note_that_is_no_text_is_refused(store, text):
    with pytest.raises(InputError, match="note"):
        store.add_note(Note(text=text, tenant="default"))


def test_two_people_may_note_the_same(store):
    note(store, "The toll is four coins.", user="alice")
    note(store, "The toll is four coins.", user="bob")
    for user in ("alice", "bob"):
        (hit,) = search(store, "toll", scope=Scope(user=user)).hits
        assert hit.memory.scope.user == user


def test_what_an_agent_said_first_a_person_may_still_say(store):
    assert note(store, "The toll is four coins.", by=SourceClass.AGENT).standing is Standing.QUARANTINED
    said = store.add_note(Note(text="The toll is four coins.", tenant="default", source="note://agent"))[0]
    assert said.standing is Standing.ACTIVE
    assert [h.memory.id for h in search(store, "toll").hits] == [said.id]


def test_two_who_add_one_note_at_once_both_have_it(tmp_path):
    embedder = InterruptedEmbedder()
    with open_store(tmp_path / "data", embedder=embedder) as store:
        others: list[Memory] = []
        embedder.then = lambda: others.append(note(store, "The toll is four coins."))
        assert [note(store, "The toll is four coins.")] == others
        assert len(store.page("default")) == 1


def test_names_that_no_uri_can_hold_and_twins_stop_nobody(store, folder):
    deep = "/".join(["x" * 200] * 10)
    (folder / deep).mkdir(parents=True)
    (folder / deep / "far.md").write_text("# Far\n\nNobody comes here.\n")
    (folder / "a").mkdir()
    (folder / "a" / "b.md").write_text(FOUR)
    (folder / "a\\b.md").write_text(NINE)
    report = sync(store, folder)
    assert report.failures == []
    assert sorted(s.reason for s in report.skipped) == ["name_repeated", "name_too_long"]
    assert texts(search(store, "toll")) == ["The toll is four coins."]


# Evidence and files outlive what does not concern them.


def test_another_half_life_keeps_the_evidence_and_is_no_change(tmp_path, folder, clock):
    server = InProcessServer()
    write(folder, a_md=FOUR)
    with open_store(tmp_path / "data", clock=clock, server=server) as store:
        sync(store, folder)
        change(store, lambda m: replace(m, trust=replace(m.trust, confidence=0.97, strength=9.0)))
    slow = {SourceClass.DOCUMENT: ClassSettings(half_life_days=60), SourceClass.CURATED: ClassSettings(hold_days=9)}
    with open_store(tmp_path / "data", clock=clock, server=server, trust=slow) as store:
        report = sync(store, folder)
        (memory,) = store.page("default")
    assert (report.documents["unchanged"], report.documents["metadata_changed"]) == (1, 0)
    assert (memory.trust.confidence, memory.trust.strength) == (0.97, 9.0)


def test_a_narrowed_run_knows_files_however_the_disk_spells_them(store, folder):
    write(folder, b_md=FOUR)
    for name in ("café.md", "é/c.md", "x\\y.md"):
        path = folder / unicodedata.normalize("NFD", name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# {len(name)}\n\nText.\n")
    assert sync(store, folder).documents["added"] == 4
    assert sync(store, folder, include=("b.md",)).documents["removed"] == 0
    (folder / unicodedata.normalize("NFD", "café.md")).unlink()
    assert sync(store, folder, include=("b.md",)).documents["removed"] == 1


def test_a_folder_in_a_files_place_is_not_the_file(store, folder):
    write(folder, a_md=FOUR, b_md="# B\n\nText.\n", c_md="# C\n\nText.\n")
    sync(store, folder)
    (folder / "a.md").unlink()
    (folder / "a.md").mkdir()
    assert sync(store, folder, include=("b.md",)).documents["removed"] == 1


def test_a_source_inside_another_is_left_to_itself_whatever_its_name(store, folder):
    inner = folder / "a[1] *?\\"
    inner.mkdir()
    write(inner, b_md=FOUR)
    write(folder, c_md="# C\n\nText.\n")
    sync(store, inner)
    assert sync(store, folder).documents["added"] == 1


# What the gate stopped, and nothing that has gone.


def test_what_the_gate_stopped_is_told_under_either_fusion(store):
    for n in range(8):
        note(store, f"Remark {n}: the toll road was built by masons.")
    note(store, "The toll is four coins.", by=SourceClass.AGENT)
    for fusion in Fusion:
        found = search(store, "the toll is four coins", k=5, fusion=fusion)
        assert [s.reason.value for s in found.suppressed] == ["quarantined"], fusion


def test_a_deleted_document_is_stopped_by_no_gate(store, folder, clock):
    write(folder, a_md=FOUR)
    sync(store, folder)
    change(store, lambda m: replace(m, standing=Standing.QUARANTINED, standing_reason="poison"))
    assert [s.reason.value for s in search(store, "toll").suppressed] == ["quarantined"]
    clock.advance(DAY_MS)
    (folder / "a.md").unlink()
    sync(store, folder, allow_mass_delete=True)
    clock.advance(DAY_MS)
    assert search(store, "toll").suppressed == ()
    assert search(store, "toll", at=clock.now() - DAY_MS).suppressed == ()
    assert search(store, "toll", at=clock.now() - 2 * DAY_MS).suppressed != ()


def test_a_row_that_lags_is_judged_by_what_the_ledger_says(tmp_path, folder):
    server = InProcessServer()
    write(folder, a_md=FOUR)
    with open_store(tmp_path / "data", server=server) as store:
        sync(store, folder)
        mine = note(store, "The toll road is mine.")
        server.is_away = True
        (folder / "a.md").rename(folder / "b.md")
        assert sync(store, folder).pending > 0
        with store.ledger.write() as tx:
            tx.memories.replace([replace(mine, scope=Scope(user="bob"), rev=mine.rev + 1)])
        server.is_away = False
        assert search(store, "toll", sources=("file://docs/a.md",)).hits == ()
        assert [h.memory.source for h in search(store, "toll").hits] == ["file://docs/b.md"]


# The past as it was.


def versions(store: Memories, folder: Path, clock: FakeClock, *bodies: str | None) -> list[int]:
    """Sync one body a day, None for a file that is not there; return an instant of each day."""
    days = []
    for body in bodies:
        if body is None:
            (folder / "a.md").unlink()
        else:
            write(folder, a_md=body)
        sync(store, folder, checksum=True, allow_mass_delete=True)
        days.append(clock.now() + DAY_MS // 2)
        clock.advance(DAY_MS)
    return days


def toll(store: Memories, at: int | None = None) -> list[str]:
    return [t.split()[-2] for t in texts(search(store, "toll", at=at))]


def test_a_passage_that_comes_back_keeps_its_past_and_its_gap(store, folder, clock):
    days = versions(store, folder, clock, FOUR, NINE, FOUR, NINE, None, FOUR)
    seen = [toll(store, day) for day in days]
    assert seen == [["four"], ["nine"], ["four"], ["nine"], [], ["four"]]
    assert toll(store) == ["four"]
    assert toll(store, days[0] - DAY_MS) == []


def test_a_crash_before_the_switch_leaves_the_past_as_it_was(store, folder, clock, monkeypatch):
    days = versions(store, folder, clock, FOUR, NINE)

    def die(*_args: object) -> None:
        raise KeyboardInterrupt

    write(folder, a_md=FOUR)
    with monkeypatch.context() as crash:
        crash.setattr(Store, "_switch", die)
        with pytest.raises(KeyboardInterrupt):
            sync(store, folder, checksum=True)
    clock.advance(DAY_MS)
    assert [toll(store, day) for day in days] == [["four"], ["nine"]]
    write(folder, a_md=NINE)
    sync(store, folder, checksum=True)  # clears what was staged
    assert [toll(store, day) for day in (*days, None)] == [["four"], ["nine"], ["nine"]]


class Ticking(FakeClock):
    """Every look at it takes a minute, as an embedding does."""

    def now(self) -> int:
        self.instant += 60_000
        return self.instant


def test_at_every_instant_of_the_past_one_version_stood(tmp_path, folder):
    with open_store(tmp_path / "data", clock=Ticking()) as store:
        for body in (FOUR, NINE, FOUR):
            write(folder, a_md=body)
            os.utime(folder / "a.md", ns=(1, 1))
            sync(store, folder, checksum=True)
        with store.ledger.read() as tx:
            (document,) = tx.documents.of_root("default", "docs")
            first, *_, last = tx.documents.versions(document.id)
        moments = range(first.created_at, last.created_at + 60_000, 60_000)
        assert {len(toll(store, at)) for at in moments} == {1}


# The doctor.


class Missing(HashingEmbedder):
    """Its library is not there."""

    def queries(self, texts: Sequence[str]) -> Vector:
        raise ImportError(f"no library for {len(texts)} texts")


def checks(store: Memories, settings: Settings) -> dict[str, object]:
    return {c.name: c for c in examined(store, settings)}


def test_the_doctor_outlives_a_library_that_is_missing(tmp_path):
    with open_store(tmp_path / "data", embedder=Missing()) as store:
        seen = checks(store, Settings(data_dir=tmp_path / "data"))
    assert not seen["embedder"].ok
    assert "no library" in seen["embedder"].detail
    assert seen["ledger"].ok
    assert "LedgerHealth" not in seen["ledger"].detail


def test_the_doctor_tells_of_a_damaged_ledger(tmp_path, store, folder):
    write(folder, a_md=FOUR)
    sync(store, folder)
    damage = sqlite3.connect(store.ledger.place.shown)
    damage.execute("PRAGMA foreign_keys = OFF")
    damage.execute("DELETE FROM documents")
    damage.commit()
    damage.close()
    seen = checks(store, Settings(data_dir=tmp_path / "data"))
    assert not seen["ledger"].ok
    assert "versions" in seen["ledger"].detail
    assert seen["ledger"].fix
