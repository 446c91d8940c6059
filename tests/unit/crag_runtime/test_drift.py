"""Drift alarm: what is frozen, what counts as drift, and what does not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from crag_runtime.calibrating.baseline import baseline_path, check_place, read_baseline, write_baseline
from crag_runtime.calibrating.drift import Tolerance, golden_hash
from crag_runtime.calibrating.drifting import DriftState
from crag_runtime.evidence import Verdict
from crag_runtime.ports import EvaluatorIdentity
from kb.errors import EvaluatorUnavailable, InputError, ModelUnavailable
from tests.fakes.evaluator import FakeEvaluator
from tests.golden import DAY, NOW, check, golden

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from crag_runtime.calibrating.drift import Baseline
    from crag_runtime.evidence import Asked, Evidence

GOOD, BAD = 0.9, 0.1


def grades(**changed: float | None) -> FakeEvaluator:
    """Grades relevant passages 0.9, others 0.1; `h3=0.4` gives harbour 3's relevant passage 0.4, `c3` its other."""

    def script(asked: Asked, evidence: Evidence) -> float | None:
        kind, usual = ("c", BAD) if "cats" in evidence.text else ("h", GOOD)
        return changed.get(f"{kind}{asked.question.split()[-1][:-1]}", usual)

    return FakeEvaluator(script)


@pytest.fixture
def frozen() -> Baseline:
    return check(grades(), golden()).now


def test_without_a_baseline_one_is_created() -> None:
    report = check(grades(), golden())
    assert (report.state, report.is_frozen, report.drift, report.before) == (DriftState.CREATED, True, None, None)
    run = report.now
    assert (run.measures.n, run.measures.accuracy, run.measures.auc) == (40, 1.0, 1.0)
    assert run.measures.ece == pytest.approx(0.1)
    assert (run.asked_at, run.frozen_at, run.golden) == (NOW, NOW, golden_hash(golden()))
    assert run.evaluator == EvaluatorIdentity(name="fake", model="script", version="1")
    assert [(g.verdict, g.relevance) for g in run.pairs[:2]] == [(Verdict.CORRECT, GOOD), (Verdict.INCORRECT, BAD)]


def test_the_same_grades_are_no_drift(frozen: Baseline) -> None:
    report = check(grades(), golden(), frozen)
    assert (report.state, report.is_frozen, report.reasons) == (DriftState.WITHIN, False, ())
    assert report.drift is not None
    assert (report.drift.compared, report.drift.flips, report.drift.moved, report.drift.p) == (40, (), 0.0, 1.0)
    assert report.drift.low < 0 == report.drift.change < report.drift.high


def test_flipped_verdicts_beyond_tolerance_are_drift_and_are_named(frozen: Baseline) -> None:
    report = check(grades(h1=0.4, h2=0.4, h3=BAD), golden(), frozen)
    assert report.state is DriftState.DRIFTED
    assert report.drift is not None
    assert report.drift.flipped == pytest.approx(3 / 40)
    assert [(f.before.verdict.value, f.now.verdict.value) for f in report.drift.flips] == [
        ("correct", "ambiguous"), ("correct", "ambiguous"), ("correct", "incorrect"),
    ]  # fmt: skip
    assert (report.drift.lost, report.drift.won, report.drift.p) == (3, 0, 0.25)
    assert report.drift.change == pytest.approx(-3 / 40)
    assert [reason.split(" ", 1)[1].split(",")[0] for reason in report.reasons] == [
        "of the verdicts flipped", "of accuracy lost",
    ]  # fmt: skip
    assert [flip["line"] for flip in report.as_json()["flips"]] == [3, 5, 7]  # type: ignore[index,union-attr,call-overload]


def test_exactly_the_tolerated_is_no_drift(frozen: Baseline) -> None:
    three = grades(h1=0.4, h2=0.4, h3=0.4)
    exact = Tolerance(flipped=3 / 40, drop=3 / 40, moved=1.0)
    assert check(three, golden(), frozen, tolerance=exact).state is DriftState.WITHIN
    for tighter in (replace(exact, flipped=0.07), replace(exact, drop=0.07)):
        assert check(three, golden(), frozen, tolerance=tighter).state is DriftState.DRIFTED


def test_relevances_that_move_without_a_flip_are_drift(frozen: Baseline) -> None:
    all_lower = grades(**{f"h{n}": 0.75 for n in range(20)})
    report = check(all_lower, golden(), frozen)
    assert report.drift is not None
    assert (report.drift.flips, report.drift.moved) == ((), pytest.approx(0.075))
    assert [r for r in report.reasons if "mean change" in r] == list(report.reasons)
    assert report.state is DriftState.DRIFTED


def test_better_grades_are_no_loss_but_their_flips_are_told() -> None:
    frozen = check(grades(h1=BAD, h2=BAD, h3=BAD), golden()).now
    report = check(grades(), golden(), frozen)
    assert report.drift is not None
    assert (report.drift.won, report.drift.lost, report.drift.change) == (3, 0, pytest.approx(3 / 40))
    assert [r for r in report.reasons if "accuracy" in r] == []
    assert report.state is DriftState.DRIFTED


def test_failed_grades_are_listed_and_are_no_flips(frozen: Baseline) -> None:
    report = check(grades(h1=None, c5=None), golden(), frozen)
    assert (report.state, report.drift and report.drift.compared) == (DriftState.WITHIN, 38)
    assert [(g.pair.line, g.problem) for g in report.unknown] == [
        (3, "cannot be graded, by script"), (12, "cannot be graded, by script"),
    ]  # fmt: skip


def test_what_failed_when_it_was_frozen_is_compared_with_nothing() -> None:
    frozen = check(grades(h1=None), golden()).now
    report = check(grades(), golden(), frozen)
    assert (report.state, report.drift and report.drift.compared) == (DriftState.WITHIN, 39)


@pytest.mark.parametrize("is_accepted", [False, True])
@pytest.mark.parametrize("has_baseline", [False, True])
def test_too_many_failures_tell_nothing_and_are_never_frozen(
    frozen: Baseline, *, has_baseline: bool, is_accepted: bool
) -> None:
    failing = grades(**dict.fromkeys(("h1", "h2", "h3", "h4", "h5"), None))
    before = frozen if has_baseline else None
    report = check(failing, golden(), before, is_accepted=is_accepted)
    assert (report.state, report.is_frozen) == (DriftState.UNGRADED, False)
    assert report.reasons == ("0.125 of the pairs could not be graded, 0.100 is tolerated",)


@pytest.mark.parametrize("error", [EvaluatorUnavailable("away"), ModelUnavailable("gone")])
def test_an_evaluator_that_is_away_is_unknown_for_every_pair(error: Exception, frozen: Baseline) -> None:
    away = grades()
    away.error = error
    report = check(away, golden(), frozen)
    assert (report.state, len(report.unknown), {g.problem for g in report.unknown}) == (
        DriftState.UNGRADED, 40, {str(error)},
    )  # fmt: skip


def test_grades_of_a_stand_in_are_none_of_the_evaluators(frozen: Baseline) -> None:
    report = check(FakeEvaluator(default=0.9, degraded="the reader graded"), golden(), frozen)
    assert (report.state, {g.problem for g in report.unknown}) == (DriftState.UNGRADED, {"the reader graded"})


def test_accepting_freezes_what_is_graded_now(frozen: Baseline) -> None:
    worse = grades(h1=BAD, h2=BAD, h3=BAD)
    report = check(worse, golden(), frozen, is_accepted=True, now=NOW + DAY)
    assert (report.state, report.is_frozen, len(report.reasons)) == (DriftState.ACCEPTED, True, 3)
    assert (report.now.asked_at, report.now.frozen_at) == (NOW, NOW + DAY)
    assert check(worse, golden(), report.now).state is DriftState.WITHIN


def test_a_later_run_asks_as_of_the_day_that_was_frozen(frozen: Baseline) -> None:
    """Else a question for the newest state would drift with the calendar."""
    later = grades()
    check(later, golden(), frozen, now=NOW + 400 * DAY)
    assert {asked.today for asked in later.asked} == {NOW}


def test_another_evaluator_is_told_and_is_by_itself_no_drift(frozen: Baseline) -> None:
    other = grades()
    other.identity = EvaluatorIdentity(name="fake", model="script", version="2")
    report = check(other, golden(), frozen)
    assert report.state is DriftState.WITHIN
    assert "the evaluator is another one than the baseline's" in report.warnings
    assert report.as_json()["baseline"]["evaluator_changed"] is True  # type: ignore[index,call-overload]


def test_a_corrected_label_is_no_drift(frozen: Baseline) -> None:
    pairs = golden()
    pairs[0] = replace(pairs[0], relevant=False)
    report = check(grades(), pairs, frozen)
    assert (report.state, report.drift and report.drift.change) == (DriftState.WITHIN, 0.0)
    assert any("golden set is not what it was" in w for w in report.warnings)


def test_a_few_new_pairs_are_told_and_many_make_it_another_set(frozen: Baseline) -> None:
    few, many = [*golden(42)[2:]], golden(60)
    report = check(grades(), few, frozen)
    assert (report.state, report.new, report.gone, report.drift and report.drift.compared) == (
        DriftState.WITHIN, 2, 2, 38,
    )  # fmt: skip
    unasked = grades()
    with pytest.raises(InputError, match="20 of the 60 pairs") as caught:
        check(unasked, many, frozen)
    assert "--accept" in caught.value.hint
    assert unasked.calls == 0
    assert check(grades(), many, frozen, is_accepted=True).state is DriftState.ACCEPTED


def test_the_hash_of_a_golden_set_is_that_of_its_pairs_and_labels() -> None:
    pairs = golden()
    assert golden_hash(pairs) == golden_hash(pairs[::-1])
    assert golden_hash(pairs) != golden_hash([replace(pairs[0], relevant=False), *pairs[1:]])
    assert golden_hash(pairs) != golden_hash(pairs[1:])


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([], "the 0 pairs of the golden set are not of both labels"),
        ([p for p in golden() if p.relevant], "are not of both labels"),
        ([*golden(), replace(golden()[2], line=41)], "lines 3 and 41 of the golden set are one pair"),
        ([*golden(), replace(golden()[2], line=41, relevant=False)], "lines 3 and 41"),
    ],
)
def test_what_is_no_golden_set_is_refused_before_anything_is_graded(pairs, words) -> None:
    evaluator = grades()
    with pytest.raises(InputError, match=words):
        check(evaluator, pairs)
    assert evaluator.calls == 0


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_tolerance_is_a_share(value: float) -> None:
    with pytest.raises(InputError, match="within 0 and 1"):
        Tolerance(moved=value)


def test_a_baseline_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = baseline_path(tmp_path / "golden.jsonl")
    assert path.name == "golden.baseline.json"
    assert read_baseline(path) is None
    run = check(grades(h1=None, h2=1 / 3), golden()).now
    write_baseline(path, run)
    assert read_baseline(path) == run
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert path.read_text(encoding="utf-8").endswith("}\n")


def changed(change: Callable[[dict], object]) -> Callable[[str], str]:
    def text(whole: str) -> str:
        data = json.loads(whole)
        change(data)
        return json.dumps(data)

    return text


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: "",
        lambda text: text[: len(text) // 2],
        lambda _: "[" * 100_000,
        lambda _: "[]",
        lambda _: "{}",
        changed(lambda d: d.update(form=2)),
        changed(lambda d: d.pop("pairs")),
        changed(lambda d: d["pairs"][0].update(verdict="splendid")),
        changed(lambda d: d["pairs"][0].update(relevance=1.5)),
        changed(lambda d: d["pairs"][0].update(relevance=float("nan"))),
        changed(lambda d: d["pairs"][0].update(relevance=None)),
        changed(lambda d: d["pairs"].append(d["pairs"][0])),
    ],
)
def test_a_spoilt_baseline_is_a_typed_error_that_names_the_file(spoil, tmp_path: Path, frozen: Baseline) -> None:
    path = tmp_path / "b.json"
    write_baseline(path, frozen)
    path.write_text(spoil(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(InputError, match=r"b\.json is no baseline") as caught:
        read_baseline(path)
    assert caught.value.hint


def test_a_baseline_that_cannot_be_replaced_stays_whole(tmp_path: Path, frozen: Baseline) -> None:
    path = tmp_path / "b.json"
    path.mkdir()  # nothing replaces a folder by a file
    with pytest.raises(InputError, match="cannot be written"):
        write_baseline(path, frozen)
    assert [p.name for p in tmp_path.iterdir()] == ["b.json"]
    with pytest.raises(InputError, match="cannot be read"):
        read_baseline(path)


def test_a_link_to_a_baseline_stays_a_link(tmp_path: Path, frozen: Baseline) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("")
    link.symlink_to(real)
    write_baseline(link, frozen)
    assert link.is_symlink()
    assert read_baseline(real) == frozen


def test_a_place_for_a_baseline_is_checked_before_anything_is_paid_for(tmp_path: Path) -> None:
    golden_file = tmp_path / "golden.jsonl"
    golden_file.write_text("")
    check_place(baseline_path(golden_file), golden_file)
    with pytest.raises(InputError, match="golden set itself"):
        check_place(tmp_path / "." / "golden.jsonl", golden_file)
    with pytest.raises(InputError, match="no baseline can be written into"):
        check_place(tmp_path / "absent" / "b.json", golden_file)
