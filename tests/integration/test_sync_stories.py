"""Stories of a folder kept in step: what a sync writes, embeds, keeps and refuses. Index in process, all else real."""

from __future__ import annotations

import os

from ingest.prior import Given
from kb.model import SourceClass, Standing
from kb.trust import DAY_MS
from tests.stores import GUIDE, FakeClock, ids, open_store, search, split_into_sections, sync, texts, write


def test_a_second_run_writes_and_embeds_nothing(store, folder):
    split_into_sections(folder)
    write(folder, other_md="# Other\n\nA ferry crosses the river at night.\n")
    first = sync(store, folder)
    assert (first.documents["added"], first.failures) == (2, [])
    assert first.embedded == first.memories["added"] > 2
    before = ids(store)
    revisions = {m.id: m.rev for m in store.page("default", limit=1000)}
    second = sync(store, folder)
    assert second.documents["unchanged"] == 2
    assert (second.embedded, second.memories["added"], second.memories["renewed"]) == (0, 0, 0)
    assert ids(store) == before
    assert {m.id: m.rev for m in store.page("default", limit=1000)} == revisions


def test_editing_one_passage_embeds_one_and_keeps_every_other_id(store, folder):
    split_into_sections(folder)
    sync(store, folder)
    before = ids(store)
    split_into_sections(folder, GUIDE.replace("green", "blue"))
    report = sync(store, folder)
    after = ids(store)
    assert report.documents["changed"] == 1
    assert (report.embedded, report.memories["added"], report.memories["superseded"]) == (1, 1, 1)
    assert len(before.keys() - after.keys()) == len(after.keys() - before.keys()) == 1
    assert any("blue" in t for t in texts(search(store, "what colour is the bridge painted")))
    assert not any("green" in t for t in texts(search(store, "what colour is the bridge painted", k=50)))


def test_a_rename_embeds_nothing_and_keeps_ids(store, folder):
    split_into_sections(folder)
    sync(store, folder)
    before = ids(store)
    (folder / "sub").mkdir()
    (folder / "guide.md").rename(folder / "sub" / "bridge.md")
    report = sync(store, folder)
    assert (report.documents["renamed"], report.documents["removed"], report.embedded) == (1, 0, 0)
    assert ids(store) == before
    (hit, *_) = search(store, "tall ships at noon").hits
    assert hit.memory.source == "file://docs/sub/bridge.md"


def test_a_metadata_only_change_embeds_nothing(store, folder):
    split_into_sections(folder)
    sync(store, folder)
    before = ids(store)
    text = (folder / "guide.md").read_text()
    (folder / "guide.md").write_text(f"---\ntags: [bridge]\nconfidence: 0.8\n---\n{text}")
    report = sync(store, folder)
    assert (report.documents["metadata_changed"], report.embedded) == (1, 0)
    assert ids(store) == before
    (hit, *_) = search(store, "tall ships at noon").hits
    assert hit.memory.metadata["tags"] == ["bridge"]
    assert hit.memory.trust.confidence == 0.8


def test_a_deleted_document_leaves_search_and_stays_in_the_ledger(store, folder):
    write(folder, a_md="# A\n\nThe ferry crosses at night.\n", b_md="# B\n\nThe bridge opens at noon.\n")
    sync(store, folder)
    (folder / "a.md").unlink()
    report = sync(store, folder)
    assert (report.documents["removed"], report.memories["superseded"]) == (1, 1)
    assert not any("ferry" in t for t in texts(search(store, "ferry at night", k=50)))
    assert any("ferry" in t for t in ids(store, Standing.SUPERSEDED).values())


def test_a_document_that_returns_is_embedded_no_second_time(store, folder):
    write(folder, a_md="# A\n\nThe ferry crosses at night.\n", b_md="# B\n\nThe bridge opens.\n")
    sync(store, folder)
    before = ids(store)
    text = (folder / "a.md").read_text()
    (folder / "a.md").unlink()
    sync(store, folder)
    (folder / "a.md").write_text(text)
    report = sync(store, folder)
    assert (report.documents["added"], report.embedded) == (1, 0)
    assert ids(store) == before


def test_a_copy_shares_the_vectors_and_is_a_document_of_its_own(store, folder):
    write(folder, a_md="# A\n\nThe ferry crosses at night.\n")
    sync(store, folder)
    write(folder, copy_md="# A\n\nThe ferry crosses at night.\n")
    report = sync(store, folder)
    assert (report.documents["added"], report.embedded, report.memories["added"]) == (1, 0, 1)
    assert {h.memory.source for h in search(store, "ferry").hits} == {"file://docs/a.md", "file://docs/copy.md"}


def test_a_failing_file_stops_nobody_and_keeps_its_old_version(store, folder):
    write(folder, a_md="# A\n\nThe ferry crosses at night.\n", b_md="# B\n\nThe bridge opens.\n")
    sync(store, folder)
    write(folder, a_md="   \n", c_md="# C\n\nA tunnel was dug.\n")
    report = sync(store, folder)
    assert [(f.source, f.code) for f in report.failures] == [("file://docs/a.md", "empty")]
    assert report.failures[0].hint
    assert report.documents["added"] == 1
    assert any("ferry" in t for t in texts(search(store, "ferry at night")))
    again = sync(store, folder)
    assert [f.code for f in again.failures] == ["empty"]
    write(folder, a_md="# A\n\nThe ferry crosses at dawn.\n")
    healed = sync(store, folder)
    assert (healed.failures, healed.documents["changed"]) == ([], 1)


def test_front_matter_out_of_range_is_that_files_error(store, folder):
    write(folder, a_md="---\nconfidence: 1.5\n---\n# A\n\nText.\n", b_md="# B\n\nThe bridge opens.\n")
    report = sync(store, folder)
    assert [(f.source, f.code) for f in report.failures] == [("file://docs/a.md", "front_matter")]
    assert "1.5" in report.failures[0].message


def test_verified_front_matter_makes_a_document_curated(store, folder):
    write(folder, a_md="---\nverified: true\n---\n# A\n\nThe bridge opens.\n")
    sync(store, folder)
    (hit,) = search(store, "bridge").hits
    assert (hit.memory.source_class, hit.memory.trust.verified) == (SourceClass.CURATED, True)


def test_the_callers_word_stands_over_the_files(store, folder):
    write(folder, a_md="---\nverified: true\nconfidence: 0.75\n---\n# A\n\nThe bridge opens.\n")
    sync(store, folder, given=Given(confidence=0.85, verified=False, metadata={"team": "ops"}))
    (hit,) = search(store, "bridge").hits
    assert (hit.memory.trust.confidence, hit.memory.trust.verified) == (0.85, False)
    assert hit.memory.metadata["team"] == "ops"


def test_an_unchanged_document_is_renewed_lazily_and_never_leaves_the_gate(tmp_path, folder):
    clock = FakeClock()
    write(folder, a_md="# A\n\nThe bridge opens.\n")
    with open_store(tmp_path / "data", clock=clock) as store:
        sync(store, folder)
        renewals = 0
        for _ in range(60):
            clock.advance(DAY_MS)
            renewals += sync(store, folder).memories["renewed"]
            assert search(store, "bridge").hits
        assert 5 <= renewals <= 12


def test_a_document_without_a_sync_fades_and_is_explained(tmp_path, folder):
    clock = FakeClock()
    write(folder, a_md="# A\n\nThe bridge opens.\n")
    with open_store(tmp_path / "data", clock=clock) as store:
        report = sync(store, folder)
        days = (report.leaves_gate_at - clock.now()) / DAY_MS
        assert 10.8 < days < 11.0
        clock.instant = report.leaves_gate_at - 1
        assert search(store, "bridge").hits
        clock.advance(1)
        result = search(store, "bridge")
        assert result.hits == ()
        assert [s.reason.value for s in result.suppressed] == ["faded"]


def test_the_past_reads_the_version_of_its_day(tmp_path, folder):
    clock = FakeClock()
    with open_store(tmp_path / "data", clock=clock) as store:
        write(folder, a_md="# A\n\nThe bridge toll is four coins.\n")
        sync(store, folder)
        clock.advance(5 * DAY_MS)
        write(folder, a_md="# A\n\nThe bridge toll is nine coins.\n")
        os.utime(folder / "a.md", ns=(1, 1))
        sync(store, folder)
        assert texts(search(store, "bridge toll")) == ["The bridge toll is nine coins."]
        past = clock.now() - 2 * DAY_MS
        assert texts(search(store, "bridge toll", at=past)) == ["The bridge toll is four coins."]
        assert search(store, "bridge toll", at=clock.now() + 20 * DAY_MS).hits == ()
        assert search(store, "bridge toll", at=clock.now() - 20 * DAY_MS).hits == ()
