"""Stories of what a sync refuses, leaves alone and outlives. Index in process, all else real."""

from __future__ import annotations

import os

import pytest

from ingest.preview import previewed
from ingest.store import Store
from kb import rebuild
from kb.errors import EmbedderChanged, IndexOutdated, Locked, MassDelete, Refused, StaleRevision
from kb.index import projector, schema
from kb.ledger.memories import Memories as LedgerMemories
from kb.memories import Note
from kb.model import SourceClass, Standing
from kb.rebuild import reconcile, reindex
from kb.settings import ClassSettings
from kb.trust import DAY_MS
from tests.fakes.embedder import HashingEmbedder
from tests.stores import (
    FakeClock,
    InProcessServer,
    ids,
    open_store,
    search,
    split_into_sections,
    sync,
    sync_of,
    texts,
    write,
)


def test_a_text_that_the_embedder_refuses_fails_its_document_only(tmp_path, folder):
    write(folder, a_md="# A\n\nREFUSED words.\n", b_md="# B\n\nThe bridge opens.\n")
    with open_store(tmp_path / "data", embedder=HashingEmbedder(refuses="REFUSED")) as store:
        report = sync(store, folder)
        assert [(f.source, f.code) for f in report.failures] == [("file://docs/a.md", "embed_failed")]
        assert texts(search(store, "bridge")) == ["The bridge opens."]


def test_an_emptied_folder_deletes_nothing_without_consent(store, folder):
    write(folder, a_md="# A\n\nOne.\n", b_md="# B\n\nTwo.\n")
    sync(store, folder)
    for path in folder.iterdir():
        path.unlink()
    with pytest.raises(MassDelete, match="2 of 2"):
        sync(store, folder)
    assert len(ids(store)) == 2
    report = sync(store, folder, allow_mass_delete=True)
    assert report.documents["removed"] == 2
    assert ids(store) == {}


def test_a_narrowed_run_deletes_nothing(store, folder):
    write(folder, a_md="# A\n\nOne.\n", b_md="# B\n\nTwo.\n")
    sync(store, folder)
    report = sync(store, folder, include=("a.md",))
    assert report.documents["removed"] == 0
    assert len(ids(store)) == 2


def test_a_file_newly_ignored_leaves(store, folder):
    write(folder, a_md="# A\n\nOne.\n", b_md="# B\n\nTwo.\n", c_md="# C\n\nThree.\n")
    sync(store, folder)
    (folder / ".kbignore").write_text("b.md\n")
    assert sync(store, folder).documents["removed"] == 1


def test_one_file_of_a_source_is_synced_alone(store, folder):
    write(folder, a_md="# A\n\nOne.\n", b_md="# B\n\nTwo.\n")
    sync(store, folder)
    write(folder, a_md="# A\n\nUno.\n", b_md="# B\n\nDos.\n")
    report = sync(store, folder / "a.md")
    assert (report.source_name, report.documents["changed"], report.documents["removed"]) == ("docs", 1, 0)
    assert set(ids(store).values()) >= {"Two."} or any("Two." in t for t in ids(store).values())
    assert sync(store, folder).documents["changed"] == 1


def test_two_folders_of_one_name_are_told_apart(store, tmp_path):
    for parent in ("one", "two"):
        (tmp_path / parent / "docs").mkdir(parents=True)
        write(tmp_path / parent / "docs", a_md=f"# A\n\nText of {parent}.\n")
    sync(store, tmp_path / "one" / "docs")
    with pytest.raises(Refused, match="docs"):
        sync(store, tmp_path / "two" / "docs")
    assert len(ids(store)) == 1


def test_a_moved_folder_keeps_every_id(store, tmp_path, folder):
    split_into_sections(folder)
    sync(store, folder)
    before = ids(store)
    moved = tmp_path / "elsewhere" / "docs"
    moved.parent.mkdir()
    folder.rename(moved)
    report = sync(store, moved)
    assert report.embedded == 0
    assert ids(store) == before


def test_an_index_that_is_away_delays_and_loses_nothing(tmp_path, folder):
    server = InProcessServer()
    with open_store(tmp_path / "data", server=server) as store:
        write(folder, a_md="# A\n\nThe toll is four coins.\n")
        sync(store, folder)
        server.is_away = True
        write(folder, a_md="# A\n\nThe toll is nine coins.\n", b_md="# B\n\nThe ferry is free.\n")
        os.utime(folder / "a.md", ns=(1, 1))
        report = sync(store, folder)
        assert report.pending > 0
        assert "wait for the index" in report.notices[0]
        assert report.documents == {"changed": 1, "added": 1}
        server.is_away = False
        assert texts(search(store, "what is the toll in coins", k=1)) == ["The toll is nine coins."]
        assert store.projector.drain().pending == 0


def test_an_index_that_was_lost_is_made_again_from_the_ledger(tmp_path, folder):
    write(folder, a_md="# A\n\nThe toll is four coins.\n")
    with open_store(tmp_path / "data") as store:
        sync(store, folder)
    with open_store(tmp_path / "data") as store:  # another server: empty
        assert search(store, "toll").hits == () or texts(search(store, "toll")) == ["The toll is four coins."]
        store.projector.drain()
        assert texts(search(store, "toll")) == ["The toll is four coins."]
        assert store.embedder.passages_embedded == 0  # type: ignore[attr-defined]


def test_a_crash_between_stage_and_switch_leaves_the_old_version_and_no_trace(tmp_path, folder, monkeypatch):
    server = InProcessServer()
    with open_store(tmp_path / "data", server=server) as store:
        write(folder, a_md="# A\n\nThe toll is four coins.\n")
        sync(store, folder)
        write(folder, a_md="# A\n\nThe toll is nine coins.\n")
        os.utime(folder / "a.md", ns=(1, 1))

        def die(*_args: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as crash:
            crash.setattr(Store, "_switch", die)
            with pytest.raises(KeyboardInterrupt):
                sync(store, folder)
        assert texts(search(store, "toll")) == ["The toll is four coins."]
        write(folder, a_md="# A\n\nThe toll is eleven coins.\n")
        os.utime(folder / "a.md", ns=(2, 2))
        sync(store, folder)
        assert texts(search(store, "toll", k=50)) == ["The toll is eleven coins."]
        assert not any("nine" in t for t in ids(store, *Standing).values())
        (index,) = server.collections.values()
        assert index.count() == 2


def test_another_embedder_is_refused_with_the_way_out(tmp_path, folder):
    write(folder, a_md="# A\n\nThe toll is four coins.\n")
    with open_store(tmp_path / "data") as store:
        sync(store, folder)
    other = HashingEmbedder(model="other", dim=32)
    with open_store(tmp_path / "data", embedder=other) as store:
        with pytest.raises(EmbedderChanged, match="other") as refused:
            search(store, "toll")
        assert "kb reindex --embedder" in refused.value.hint
        write(folder, b_md="# B\n\nText.\n")
        with pytest.raises(EmbedderChanged):
            sync(store, folder)


def test_two_runs_of_one_source_exclude_each_other(store, folder):
    write(folder, a_md="# A\n\nOne.\n")
    with store.ledger.lock("ingest-default-docs"), pytest.raises(Locked):
        sync(store, folder)


def test_a_plan_embeds_and_writes_nothing(store, folder):
    split_into_sections(folder)
    plan = previewed(sync_of(store, folder)).as_json()
    assert plan["documents"]["added"] == 1
    assert plan["to_embed"]["texts"] > 1
    assert ids(store) == {}
    assert store.embedder.passages_embedded == 0
    sync(store, folder)
    assert previewed(sync_of(store, folder)).as_json()["documents"]["unchanged"] == 1


def test_counts_add_up_to_what_was_scanned(store, folder):
    write(folder, a_md="# A\n\nOne.\n", b_md="", c_md="# C\n\nThree.\n")
    (folder / "dangling").symlink_to(folder / "nowhere")
    report = sync(store, folder)
    assert sum(report.documents.values()) == 4
    assert report.documents == {"added": 2, "failed": 1, "skipped": 1}


def test_tenants_never_see_each_other(store, folder):
    write(folder, a_md="# A\n\nThe toll is four coins.\n")
    sync(store, folder, tenant="one")
    assert search(store, "toll", tenant="one").hits
    result = search(store, "toll", tenant="two")
    assert (result.hits, result.suppressed) == ((), ())


def test_a_folder_inside_another_source_is_one_source_however_it_is_reached(store, folder):
    write(folder, a_md="# A\n\nOne.\n", sub__b_md="# B\n\nTwo.\n")
    sync(store, folder)
    before = ids(store)
    report = sync(store, folder / "sub")
    assert (report.source_name, report.documents["unchanged"], report.documents["removed"]) == ("docs", 1, 0)
    assert ids(store) == before
    (folder / "sub" / "b.md").unlink()
    assert sync(store, folder / "sub").documents["removed"] == 1
    assert list(ids(store).values()) == ["# A\n\nOne."]


def test_a_source_of_its_own_is_left_out_of_the_folder_around_it(store, folder):
    write(folder, a_md="# A\n\nOne.\n", sub__b_md="# B\n\nTwo.\n")
    sync(store, folder / "sub")
    report = sync(store, folder)
    assert report.documents["added"] == 1
    assert sorted(m.source for m in store.page("default")) == ["file://docs/a.md", "file://sub/b.md"]


def test_metadata_that_no_index_row_can_hold_is_that_files_error(store, folder):
    write(folder, a_md=f"---\nnotes: {'x' * 70_000}\n---\n# A\n\nOne.\n", b_md="# B\n\nTwo.\n")
    report = sync(store, folder)
    assert [(f.source, f.code) for f in report.failures] == [("file://docs/a.md", "front_matter")]
    assert report.documents["added"] == 1


def test_an_index_of_another_schema_is_refused_and_reindexed(tmp_path, folder, monkeypatch):
    server = InProcessServer()
    write(folder, a_md="# A\n\nThe toll is four coins.\n")
    with open_store(tmp_path / "data", server=server) as store:
        sync(store, folder)
    monkeypatch.setattr(schema, "SCHEMA_VERSION", 2)
    with open_store(tmp_path / "data", server=server) as store:
        with pytest.raises(IndexOutdated) as refused:
            search(store, "toll")
        assert "kb reindex" in refused.value.hint
        assert reindex(store, re_embed=False).embedded == 0
        assert texts(search(store, "toll")) == ["The toll is four coins."]
        assert [name.split("_")[2] for name in server.collections] == ["v2"]


def test_a_new_embedder_takes_over_by_reindex(tmp_path, folder):
    server = InProcessServer()
    write(folder, a_md="# A\n\nThe toll is four coins.\n", b_md="# B\n\nThe ferry is free.\n")
    with open_store(tmp_path / "data", server=server) as store:
        sync(store, folder)
    other = HashingEmbedder(model="other", dim=32)
    with open_store(tmp_path / "data", server=server, embedder=other) as store:
        done = reindex(store, re_embed=True)
        assert (done.memories, done.embedded, done.pending) == (2, 2, 0)
        assert texts(search(store, "toll coins", k=1)) == ["The toll is four coins."]
        assert len(server.collections) == 1
        assert reconcile(store).ids == ()


def test_a_whole_story_runs_on_postgresql(tmp_path, folder, postgres_url):
    with open_store(tmp_path / "data", ledger_url=postgres_url) as store:
        write(folder, a_md="# A\n\nThe toll is four coins.\n", b_md="# B\n\nThe ferry is free.\n")
        assert sync(store, folder).documents["added"] == 2
        write(folder, a_md="# A\n\nThe toll is nine coins.\n")
        assert sync(store, folder, checksum=True).documents["changed"] == 1
        assert texts(search(store, "toll coins", k=1)) == ["The toll is nine coins."]
        (folder / "b.md").unlink()
        assert sync(store, folder).documents["removed"] == 1
        assert reconcile(store).ids == ()
        assert sync(store, folder).embedded == 0


def test_a_changed_half_life_is_followed_by_every_memory(tmp_path, folder):
    clock, server = FakeClock(), InProcessServer()
    write(folder, a_md="# A\n\nThe toll is four coins.\n")
    with open_store(tmp_path / "data", clock=clock, server=server) as store:
        sync(store, folder)
        store.add_note(Note(text="The bridge keeper sleeps at noon.", tenant="default"))
    short = {c: ClassSettings(half_life_days=1) for c in (SourceClass.DOCUMENT, SourceClass.PERSON)}
    clock.advance(DAY_MS)
    with open_store(tmp_path / "data", clock=clock, server=server, trust=short) as store:
        assert store.projector.drain().applied == 2
        for question in ("toll coins", "bridge keeper"):
            result = search(store, question)
            assert result.hits == ()
            assert "faded" in [s.reason.value for s in result.suppressed]


def test_two_ledgers_on_one_server_leave_each_other_alone(tmp_path, folder):
    server = InProcessServer()
    write(folder, a_md="# A\n\nThe toll is four coins.\n")
    with open_store(tmp_path / "one", server=server) as one, open_store(tmp_path / "two", server=server) as two:
        sync(one, folder)
        sync(two, folder)
        assert len(server.collections) == 2
        assert reconcile(one).ids == ()
        (folder / "a.md").write_text("# A\n\nThe toll is nine coins.\n")
        sync(two, folder, checksum=True)
        assert texts(search(one, "toll")) == ["The toll is four coins."]
        assert texts(search(two, "toll")) == ["The toll is nine coins."]


def test_a_killed_reindex_leaves_no_collection_behind(tmp_path, folder, monkeypatch):
    server = InProcessServer()
    write(folder, a_md="# A\n\nThe toll is four coins.\n")
    with open_store(tmp_path / "data", server=server) as store:
        sync(store, folder)

        def die(*_args: object, **_kwargs: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as crash:
            crash.setattr(rebuild, "_fill", die)
            with pytest.raises(KeyboardInterrupt):
                reindex(store, re_embed=False)
        assert texts(search(store, "toll")) == ["The toll is four coins."]
        reindex(store, re_embed=False)
        assert len(server.collections) == 1
        assert texts(search(store, "toll")) == ["The toll is four coins."]


def test_a_version_switched_while_a_reindex_holds_the_projector_is_found_at_once(store, folder, monkeypatch):
    monkeypatch.setattr(projector, "WAIT_S", 0.1)
    write(folder, a_md="# A\n\nThe toll is four coins.\n")
    sync(store, folder)
    with store.ledger.lock(projector.REINDEX_LOCK), store.ledger.lock(projector.LOCK):
        write(folder, a_md="# A\n\nThe toll is nine coins.\n")
        assert sync(store, folder, checksum=True).pending > 0
        assert texts(search(store, "toll", k=50)) == ["The toll is nine coins."]
    assert store.projector.drain().pending == 0


def test_metadata_of_the_authors_own_is_what_a_filter_finds(store, folder):
    write(folder, a_md="---\npage: 12\nteam: ops\n---\n# A\n\nThe toll is four coins.\n")
    sync(store, folder)
    assert search(store, "toll", metadata={"page": 12, "team": "ops"}).hits
    assert not search(store, "toll", metadata={"team": "sales"}).hits


def test_a_removal_that_meets_another_writer_is_repeated(store, folder, monkeypatch):
    write(folder, a_md="# A\n\nOne.\n", b_md="# B\n\nTwo.\n")
    sync(store, folder)
    (folder / "a.md").unlink()
    replace, met = LedgerMemories.replace, []

    def meets_another_once(self: LedgerMemories, changed: object) -> None:
        if changed and not met:
            met.append(changed)
            raise StaleRevision
        replace(self, changed)  # type: ignore[arg-type]

    monkeypatch.setattr(LedgerMemories, "replace", meets_another_once)
    report = sync(store, folder)
    assert met
    assert (report.documents["removed"], report.memories["superseded"]) == (1, 1)
