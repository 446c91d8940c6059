import pytest

from ingest.plan import Action, Guard, Known, Seen, guarded, is_stat_alike, planned
from kb.errors import FailureCode, MassDelete
from kb.ids import document_id
from kb.model import Document, Failure, Fingerprint

PIPELINE = "pipe"
GIVEN = "g" * 24


def seen(relative: str, raw: str | None, given: str = GIVEN) -> Seen:
    return Seen(relative=relative, source=f"file://docs/{relative}", size=1, mtime_ns=1, given=given, raw=raw)


def document(relative: str, raw: str, *, deleted_at: int | None = None, pipeline: str = PIPELINE) -> Document:
    source = f"file://docs/{relative}"
    fingerprint = Fingerprint(raw=raw, content="c", metadata=GIVEN + "f" * 24 + "p" * 16, pipeline=pipeline)
    return Document(
        id=document_id("t", source),
        tenant="t",
        root="docs",
        source=source,
        version=1,
        fingerprint=fingerprint,
        deleted_at=deleted_at,
    )


def failure(relative: str, raw: str, code: FailureCode, attempts: int = 1) -> Failure:
    return Failure(
        tenant="t", root="docs", source=f"file://docs/{relative}", raw=raw, pipeline=PIPELINE, code=code.value,
        message="m", attempts=attempts,
    )  # fmt: skip


def plan(files, documents=(), failures=(), gone=(), *, retry=False):
    known = Known(
        live={d.source: d for d in documents if d.deleted_at is None},
        deleted={d.source: d for d in documents if d.deleted_at is not None},
        failures={f.source: f for f in failures},
    )
    return planned(files, known, gone, PIPELINE, retry=retry)


def actions(items):
    return [(i.action, i.source.removeprefix("file://docs/")) for i in items]


def test_a_new_file_is_added_and_a_known_one_kept():
    items = plan([seen("a.md", "1"), seen("b.md", None)], [document("b.md", "2")])
    assert actions(items) == [(Action.ADD, "a.md"), (Action.KEEP, "b.md")]


def test_other_bytes_are_a_change_and_other_times_a_touch():
    known = [document("a.md", "1"), document("b.md", "2")]
    items = plan([seen("a.md", "9"), seen("b.md", "2")], known)
    assert actions(items) == [(Action.CHANGE, "a.md"), (Action.TOUCH, "b.md")]


@pytest.mark.parametrize("raw", [None, "1"])
def test_other_options_or_another_pipeline_are_a_recheck(raw):
    assert actions(plan([seen("a.md", raw, given="x" * 24)], [document("a.md", "1")])) == [(Action.RECHECK, "a.md")]
    assert actions(plan([seen("a.md", raw)], [document("a.md", "1", pipeline="old")])) == [(Action.RECHECK, "a.md")]


def test_the_same_bytes_at_another_path_are_a_rename_and_nothing_is_removed():
    old = document("old.md", "1")
    items = plan([seen("new.md", "1")], [old], gone=[old])
    assert actions(items) == [(Action.RENAME, "new.md")]
    assert items[0].document is old


def test_a_rename_to_another_kind_of_file_is_an_add_and_a_removal():
    old = document("old.md", "1")
    assert actions(plan([seen("new.txt", "1")], [old], gone=[old])) == [
        (Action.ADD, "new.txt"),
        (Action.REMOVE, "old.md"),
    ]


def test_a_copy_is_an_add_since_the_first_is_still_there():
    assert actions(plan([seen("a.md", None), seen("copy.md", "1")], [document("a.md", "1")])) == [
        (Action.KEEP, "a.md"),
        (Action.ADD, "copy.md"),
    ]


def test_equal_files_that_move_together_pair_in_the_order_of_their_names():
    old = [document("a.md", "1"), document("b.md", "1")]
    items = plan([seen("x.md", "1"), seen("y.md", "1")], old, gone=old)
    pairs = [(i.document.source[-4:], i.source[-4:]) for i in items if i.document]
    assert pairs == [("a.md", "x.md"), ("b.md", "y.md")]


def test_a_document_that_returns_takes_up_its_old_memories():
    was = document("a.md", "1", deleted_at=5)
    (item,) = plan([seen("a.md", "1")], [was])
    assert (item.action, item.document) == (Action.ADD, was)


def test_what_failed_for_good_waits_for_a_change():
    failed = failure("a.pdf", "1", FailureCode.ENCRYPTED)
    assert actions(plan([seen("a.pdf", "1")], failures=[failed])) == [(Action.FAILED_BEFORE, "a.pdf")]
    assert actions(plan([seen("a.pdf", "2")], failures=[failed])) == [(Action.ADD, "a.pdf")]
    assert actions(plan([seen("a.pdf", "1")], failures=[failed], retry=True)) == [(Action.ADD, "a.pdf")]


def test_what_may_pass_is_tried_three_times():
    for attempts, expected in ((1, Action.ADD), (2, Action.ADD), (3, Action.FAILED_BEFORE)):
        failed = failure("a.pdf", "1", FailureCode.TIMEOUT, attempts)
        assert actions(plan([seen("a.pdf", "1")], failures=[failed])) == [(expected, "a.pdf")]


def test_a_failed_change_waits_while_its_old_version_stays():
    known = document("a.md", "1")
    failed = failure("a.md", "2", FailureCode.EMPTY)
    (item,) = plan([seen("a.md", "2")], [known], failures=[failed])
    assert (item.action, item.document) == (Action.FAILED_BEFORE, known)


@pytest.mark.parametrize(
    ("removed", "live", "refused"),
    [(1, 1, False), (2, 2, True), (2, 3, False), (10, 20, False), (11, 20, True), (11, 200, False), (30, 200, True)],
)
def test_losing_much_or_all_of_a_source_asks_for_consent(removed, live, refused):
    gone = [document(f"{n}.md", str(n)) for n in range(removed)]
    items = plan([], gone, gone=gone)
    if refused:
        with pytest.raises(MassDelete):
            guarded(items, live, Guard(count=10, share=0.1))
    else:
        guarded(items, live, Guard(count=10, share=0.1))
    guarded(items, live, Guard(count=10, share=0.1, allowed=True))


def test_a_file_written_in_the_tick_of_its_last_sync_is_read_again():
    from dataclasses import replace

    known = replace(document("a.md", "1"), size=3, mtime_ns=10_000_000_000, updated_at=20_000)
    assert is_stat_alike(known, 3, 10_000_000_000)
    assert not is_stat_alike(replace(known, updated_at=10_500), 3, 10_000_000_000)
    assert not is_stat_alike(known, 4, 10_000_000_000)
    assert not is_stat_alike(None, 3, 10_000_000_000)


@pytest.mark.parametrize("change", [{"given": "x" * 24}, {"pipeline": "old"}])
def test_a_rename_to_where_other_rules_hold_is_also_a_recheck(change):
    old = document("policies/a.md", "1", pipeline=change.get("pipeline", PIPELINE))
    (item,) = plan([seen("drafts/a.md", "1", given=change.get("given", GIVEN))], [old], gone=[old])
    assert (item.action, item.is_to_prepare, item.counted("metadata_changed")) == (Action.RENAME, True, "renamed")
    (plain,) = plan([seen("b.md", "1")], [document("a.md", "1")], gone=[document("a.md", "1")])
    assert (plain.action, plain.is_to_prepare) == (Action.RENAME, False)


@pytest.mark.parametrize(("raw", "action"), [(None, Action.KEEP), ("1", Action.TOUCH)])
@pytest.mark.parametrize("failed_raw", ["1", "2"])
def test_what_is_as_it_was_stored_waits_for_no_failure_and_carries_it_to_be_cleared(raw, action, failed_raw):
    failed = failure("a.md", failed_raw, FailureCode.EMPTY)
    (item,) = plan([seen("a.md", raw)], [document("a.md", "1")], failures=[failed])
    assert (item.action, item.failure, item.is_to_prepare) == (action, failed, False)
