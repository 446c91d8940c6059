"""Stories of several sources: which folder is whose, what is remembered of each, and what one does to another."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ingest.parse.raw import ParseLimits
from ingest.parse.worker import ParserWorker
from ingest.pipeline import Sync
from ingest.preview import previewed
from ingest.requests import Said, requests_of
from kb.errors import InputError, KbError, Refused
from kb.ledger.runs import RunStatus
from kb.model import DocumentId, SourceClass, Standing
from kb.settings import Settings, SourceSettings
from tests.stores import Silent, open_store, search, sync, sync_of, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path):
    with open_store(tmp_path / "data") as memories:
        yield memories


@pytest.fixture
def ingest(store, tmp_path: Path):
    """Syncs what paths and configured sources mean, as `kb ingest` does; returns the reports and errors by source."""

    def run(*paths: Path, sources: tuple[SourceSettings, ...] = (), **said: object):
        settings = Settings(data_dir=tmp_path / "data", sources=sources)  # type: ignore[arg-type]
        done = {}
        for request in requests_of(paths, store, settings, Said(**said)):
            try:
                if request.problem:
                    raise request.problem
                done[request.target.name] = sync_request(store, request, settings).run()
            except KbError as error:
                done[request.target.name] = error
        return done

    return run


def sync_request(store, request, settings) -> Sync:
    return Sync(
        store, request.target, request.options, settings,
        open_parser=lambda: ParserWorker(ParseLimits()), progress=Silent(),
    )  # fmt: skip


def sources(store) -> list[str]:
    return sorted(classes(store))


def classes(store) -> dict[str, SourceClass]:
    return {m.source: m.source_class for m in store.page("default", limit=1000, standings=(Standing.ACTIVE,))}


def folder(tmp_path: Path, name: str, **files: str) -> Path:
    path = tmp_path / name
    path.mkdir(parents=True, exist_ok=True)
    write(path, **(files or {"a_md": f"# A\n\nText of {name}.\n"}))
    return path


def test_two_folders_of_one_name_in_one_command_are_refused_and_lose_nothing(store, ingest, tmp_path):
    one, two = folder(tmp_path, "a/docs"), folder(tmp_path, "b/docs")
    with pytest.raises(Refused, match="docs"):
        ingest(one, two)
    assert sources(store) == []
    ingest(one)
    with pytest.raises(Refused, match="docs"):
        ingest(two)
    assert sources(store) == ["file://docs/a.md"]


def test_one_name_for_two_configured_folders_is_the_seconds_problem_alone(store, ingest, tmp_path):
    two = [SourceSettings(path=folder(tmp_path, f"{n}/docs")) for n in "ab"]
    done = ingest(sources=tuple(two))
    assert sources(store) == ["file://docs/a.md"]
    assert isinstance(done["docs"], Refused)


@pytest.mark.parametrize("count", [0, 2])
def test_a_source_name_belongs_to_exactly_one_path(ingest, tmp_path, count):
    configured = tuple(SourceSettings(path=folder(tmp_path, n)) for n in ("p", "q"))
    with pytest.raises(InputError, match="exactly one path"):
        ingest(*[s.path for s in configured][:count], sources=configured, source_name="x")


def test_metadata_that_the_ledger_cannot_hold_is_refused_before_any_document_fails(store, ingest, tmp_path):
    with pytest.raises(InputError, match="NUL"):
        ingest(folder(tmp_path, "docs"), metadata={"k": "\0"})
    assert failures(store) == []


def test_a_folder_given_with_one_inside_it_is_stored_once(store, ingest, tmp_path):
    home = folder(tmp_path, "n", x_md="# X\n\nOuter.\n", in__y_md="# Y\n\nInner.\n")
    ingest(home, home / "in", home)
    assert sources(store) == ["file://n/in/y.md", "file://n/x.md"]


def test_a_single_file_never_brings_in_its_folder(store, ingest, tmp_path):
    home = folder(
        tmp_path, "home", **{"pub[1]_md": "# P\n\nPublic.\n", "other_md": "# O\n\nOther.\n", "secret_md": "s"}
    )
    ingest(home / "pub[1].md")
    ingest()
    assert sources(store) == ["file://home/pub[1].md"]
    ingest(home / "other.md")
    (home / "other.md").write_text("# O\n\nAnother.\n")
    assert ingest()["home"].documents["changed"] == 1
    assert sources(store) == ["file://home/other.md", "file://home/pub[1].md"]
    ingest(home)
    assert "file://home/secret.md" in sources(store)
    write(home, late_md="# L\n\nLate.\n")
    assert ingest()["home"].documents["added"] == 1


def test_a_narrowing_for_once_is_not_remembered(store, ingest, tmp_path):
    home = folder(tmp_path, "docs", a_md="# A\n\nOne.\n", b_md="# B\n\nTwo.\n")
    ingest(home, trust=SourceClass.CURATED)
    ingest(home, include=("a.md",), trust=SourceClass.DOCUMENT)
    write(home, b_md="# B\n\nThree.\n")
    assert ingest(checksum=True)["docs"].documents["changed"] == 1
    assert set(classes(store).values()) == {SourceClass.CURATED}


def test_a_source_that_began_narrowed_stays_so_until_all_of_it_is_asked_for(store, ingest, tmp_path):
    home = folder(tmp_path, "docs", a_md="# A\n\nOne.\n", b_md="# B\n\nTwo.\n")
    ingest(home, exclude=("b.md",))
    assert ingest()["docs"].documents["added"] == 0
    with store.ledger.read() as tx:
        assert tx.sources.get("default", "docs").synced_at is not None
    ingest(home)
    assert ingest()["docs"].documents["unchanged"] == 2


def test_naming_the_source_that_a_file_is_in_changes_nothing(store, ingest, tmp_path):
    home = folder(tmp_path, "k", a_md="# A\n\nOuter.\n", sub__a_md="# A\n\nInner.\n")
    ingest(home)
    ingest(home / "sub" / "a.md", source_name="k")
    ingest(home / "sub", source_name="k")
    assert sources(store) == ["file://k/a.md", "file://k/sub/a.md"]
    assert {"Outer." in h.memory.text for h in search(store, "outer").hits} == {True, False}


def test_a_name_is_not_taken_by_a_file_elsewhere_nor_a_folder_by_a_second_name(ingest, tmp_path):
    ingest(folder(tmp_path, "k"))
    elsewhere = folder(tmp_path, "elsewhere")
    with pytest.raises(Refused, match="would take its name"):
        ingest(elsewhere / "a.md", source_name="k")
    with pytest.raises(Refused, match="'k' already"):
        ingest(tmp_path / "k", source_name="other")


def test_a_configured_folder_is_a_source_of_its_own_inside_another(store, ingest, tmp_path):
    home = folder(tmp_path, "docs", a_md="# A\n\nOuter.\n", policies__p_md="# P\n\nPolicy.\n")
    ingest(home)
    both = (SourceSettings(path=home), SourceSettings(path=home / "policies", trust="curated"))
    for _ in range(2):
        done = ingest(sources=both)
        assert classes(store) == {
            "file://docs/a.md": SourceClass.DOCUMENT,
            "file://policies/p.md": SourceClass.CURATED,
        }
    assert [r.documents["unchanged"] for r in done.values()] == [1, 1]
    assert all(r.documents["metadata_changed"] == 0 for r in done.values())


def test_a_source_that_vanished_keeps_no_other_from_its_sync(store, ingest, tmp_path):
    gone, stays = folder(tmp_path, "gone"), folder(tmp_path, "stays")
    ingest(gone, stays)
    gone.rename(tmp_path / "moved")
    write(stays, b_md="# B\n\nNew.\n")
    done = ingest(sources=(SourceSettings(path=tmp_path / "never"),))
    assert done["stays"].documents["added"] == 1
    assert "--source-name gone" in done["gone"].hint
    assert isinstance(done["never"], InputError)
    ingest(tmp_path / "moved", source_name="gone")
    assert done.keys() - {"never"} == ingest().keys()


def test_what_the_ledger_cannot_hold_fails_its_document_only(store, tmp_path):
    home = folder(tmp_path, "docs", a_md='---\nk: "\\0"\n---\n# A\n\nOne.\n', b_md="# B\n\nTwo.\n")
    report = sync(store, home)
    assert [(f.source, f.code) for f in report.failures] == [("file://docs/a.md", "front_matter")]
    assert report.documents["added"] == 1


def test_an_address_that_is_another_documents_fails_its_document_only(store, tmp_path):
    home = folder(tmp_path, "docs", a_md="# A\n\nOne.\n", b_md="# B\n\nTwo.\n")
    sync(store, home, tenant="model")
    with store.ledger.write() as tx:
        (taken,) = [d for d in tx.documents.of_root("model", "docs") if d.source.endswith("a.md")]
        tx.documents.put(replace(taken, id=DocumentId("0" * 32), tenant="default", root="another"))
    report = sync(store, home)
    assert [(f.source, f.code) for f in report.failures] == [("file://docs/a.md", "store_failed")]
    assert (report.documents["added"], report.failures[0].hint) == (1, "run `kb ingest` again")


def test_a_rename_meets_the_sidecar_of_its_new_place_in_the_same_run(store, tmp_path):
    home = folder(tmp_path, "docs", policies__a_md="# A\n\nThe toll is four coins.\n", b_md="# B\n\nTwo.\n")
    (home / ".kb.yaml").write_text("rules:\n  - match: policies/\n    verified: true\n")
    sync(store, home)
    assert search(store, "toll coins", k=1).hits[0].memory.trust.verified
    (home / "drafts").mkdir()
    (home / "policies" / "a.md").rename(home / "drafts" / "a.md")
    plan = previewed(sync_of(store, home)).as_json()
    assert (plan["documents"]["renamed"], plan["documents"]["unchanged"]) == (1, 1)
    report = sync(store, home)
    assert (report.documents, report.embedded) == ({"renamed": 1, "unchanged": 1}, 0)
    (hit, *_) = search(store, "toll coins", k=1).hits
    assert (hit.memory.trust.verified, hit.memory.source) == (False, "file://docs/drafts/a.md")
    assert sync(store, home).documents == {"unchanged": 2}


def test_a_failure_ends_with_what_failed(store, tmp_path):
    home = folder(tmp_path, "docs", a_md="# A\n\nOne.\n", b_md="# B\n\nTwo.\n")
    sync(store, home)
    before = (home / "a.md").stat()
    for content, mtime in (("", None), ("# A\n\nOne.\n", None), ("", None), ("# A\n\nOne.\n", before.st_mtime_ns)):
        (home / "a.md").write_text(content)
        if mtime is not None:
            os.utime(home / "a.md", ns=(mtime, mtime))
        write(home, never_md="" if not content else "# N\n\nText.\n")
        sync(store, home)
        assert failures(store) == ([] if content else ["file://docs/a.md", "file://docs/never.md"])
    write(home, born_dead_md="")
    sync(store, home)
    (home / "born_dead.md").unlink()
    sync(store, home / "a.md")
    sync(store, home, include=("b.md",))
    assert failures(store) == ["file://docs/born_dead.md"]
    sync(store, home)
    assert failures(store) == []


def failures(store) -> list[str]:
    with store.ledger.read() as tx:
        return [f.source for f in tx.failures.of_root("default", "docs")]


def test_a_failure_by_the_sidecar_ends_when_its_word_is_taken_back(store, tmp_path):
    home = folder(tmp_path, "docs")
    sync(store, home)
    (home / ".kb.yaml").write_text(f"rules:\n  - match: a.md\n    notes: {'x' * 70_000}\n")
    assert [f.code for f in sync(store, home).failures] == ["front_matter"]
    (home / ".kb.yaml").unlink()
    assert sync(store, home).documents == {"unchanged": 1}
    assert failures(store) == []


def test_a_run_that_died_counts_as_interrupted_at_the_next(store, tmp_path):
    home = folder(tmp_path, "docs")
    with store.ledger.write() as tx:
        tx.runs.start("dead", kind="ingest", tenant="default", root="docs", at=1)
        tx.runs.start("other", kind="ingest", tenant="default", root="elsewhere", at=1)
    sync(store, home)
    with store.ledger.read() as tx:
        assert tx.runs.get("dead").status is RunStatus.INTERRUPTED
        assert tx.runs.get("other").status is RunStatus.RUNNING


def test_a_folder_takes_in_what_a_narrowed_source_inside_it_leaves(store, ingest, tmp_path):
    home = folder(tmp_path, "home", a_md="# A\n\nA.\n", sub__p_md="# P\n\nP.\n", sub__q_md="# Q\n\nQ.\n")
    ingest(home / "sub" / "p.md")
    for paths in ((home,), ()):
        ingest(*paths)
        assert sources(store) == ["file://home/a.md", "file://home/sub/q.md", "file://sub/p.md"]
