"""Measures with known values, thresholds, and labelled pairs read and graded."""

from __future__ import annotations

import asyncio
import json
import tomllib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from crag_runtime.caches.in_process import InProcessCache
from crag_runtime.calibrating.calibrate import calibrate, toml_lines
from crag_runtime.calibrating.calibration import accuracy, auc, band, best_threshold, calibrated, ece, majority, platt
from crag_runtime.calibrating.grading import Bench
from crag_runtime.calibrating.labelled import LabelledPair, read_pairs
from crag_runtime.evaluators.fast import FastEvaluator, own_bands
from crag_runtime.evaluators.remembered import Remembered
from crag_runtime.evidence import QuestionType
from crag_runtime.threads import Threads
from crag_runtime.verdict import Thresholds
from kb.errors import EvaluatorUnavailable, InputError
from kb.settings import AskSettings
from tests.fakes.embedder import HashingEmbedder
from tests.fakes.evaluator import FakeEvaluator
from tests.stores import FakeClock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from crag_runtime.calibrating.calibrate import CalibrationReport
    from crag_runtime.evidence import Asked, Evidence
    from crag_runtime.ports import Evaluator, Grading
    from kb.ports import Embedder

NOW = 1_796_000_000_000
YES, NO = True, False


@pytest.mark.parametrize(
    ("scores", "labels", "expected"),
    [
        ([0.1, 0.4, 0.35, 0.8], [NO, NO, YES, YES], 0.75),  # the textbook case
        ([0.1, 0.2, 0.8, 0.9], [NO, NO, YES, YES], 1.0),
        ([0.9, 0.1], [NO, YES], 0.0),
        ([0.5, 0.5, 0.5], [NO, YES, YES], 0.5),  # all tied
        ([0.5, 0.5, 0.9], [NO, YES, YES], 0.75),  # one tie of two pairs
    ],
)
def test_auc_of_known_cases(scores: list[float], labels: list[bool], expected: float) -> None:
    assert auc(scores, labels) == pytest.approx(expected)


def test_auc_of_one_label_is_an_error() -> None:
    with pytest.raises(InputError):
        auc([0.1, 0.2], [YES, YES])


@pytest.mark.parametrize(
    ("probabilities", "labels", "expected"),
    [
        ([1.0, 0.0], [YES, NO], 0.0),
        ([1.0, 0.0], [NO, YES], 1.0),
        ([0.75, 0.75, 0.75, 0.75], [YES, YES, YES, NO], 0.0),
        ([0.9, 0.9, 0.2, 0.2], [YES, NO, NO, NO], 0.3),  # (|1.8 - 1| + |0.4 - 0|) / 4
        ([0.05, 0.15], [NO, YES], 0.45),  # two bins: (0.05 + 0.85) / 2
        ([], [], 0.0),
    ],
)
def test_ece_of_known_cases(probabilities: list[float], labels: list[bool], expected: float) -> None:
    assert ece(probabilities, labels) == pytest.approx(expected)


def test_majority_and_accuracy_of_known_cases() -> None:
    assert majority([YES, NO, NO]) == pytest.approx(2 / 3)
    assert majority([YES, YES]) == 1.0
    assert majority([]) == 0.0
    assert accuracy([0.5, 0.4, 0.6], [YES, NO, NO], 0.5) == pytest.approx(2 / 3)  # the edge counts as relevant


def test_the_best_threshold_lies_between_its_neighbours() -> None:
    assert best_threshold([0.2, 0.4, 0.6, 0.8], [NO, NO, YES, YES]) == pytest.approx(0.5)
    assert best_threshold([0.2, 0.4], [YES, YES]) == 0.0


def test_a_band_leaves_the_mixed_middle_open() -> None:
    relevances = [*[0.1] * 10, 0.4, 0.5, 0.6, *[0.9] * 10]
    labels = [*[NO] * 10, YES, NO, NO, *[YES] * 10]
    found, reasons = band(relevances, labels, target=1.0)
    assert found == Thresholds(lower=0.25, upper=0.75)
    assert reasons == []


def test_an_unreachable_target_falls_back_and_says_so() -> None:
    relevances, labels = [0.1, 0.3, 0.5, 0.7, 0.9] * 4, [YES, NO, YES, NO, NO] * 4
    found, reasons = band(relevances, labels)
    assert found.lower == 0.1
    assert found.upper > 0.9
    assert len(reasons) == 2


def test_platt_undoes_a_known_distortion() -> None:
    """Relevance 0.8 that is right half of the time, and 0.2 that is right in one of ten."""
    scaling = platt([0.8] * 400 + [0.2] * 400, [YES, NO] * 200 + ([YES] + [NO] * 9) * 40)
    assert scaling(0.8) == pytest.approx(0.5, abs=0.01)
    assert scaling(0.2) == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize(
    ("relevances", "labels"),
    [([], []), ([0.1, 0.2], [YES, YES]), ([0.1, 0.2], [NO, NO]), ([0.1, 1.2], [NO, YES]), ([0.1], [NO, YES])],
)
def test_what_cannot_be_calibrated_is_a_typed_error(relevances: list[float], labels: list[bool]) -> None:
    with pytest.raises(InputError):
        calibrated(relevances, labels)


def test_few_pairs_are_warned_about() -> None:
    found = calibrated([0.1, 0.9], [NO, YES])
    assert any("only 2 labelled pairs" in w for w in found.warnings)
    assert any("only 1 pairs of the rarer label" in w for w in found.warnings)


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "pairs.jsonl"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


GOOD = '{"question": "q", "passage": "p", "relevant": true}'


def test_pairs_are_read_with_mark_blank_lines_and_all_keys(tmp_path: Path) -> None:
    more = '"type":"creative","title":"T","date":"2024-09-30","x":1'
    full = f'{{"question":"问","passage":"答\u2028文","relevant":false,{more}}}'
    found = read_pairs(written(tmp_path, f"\ufeff{GOOD}\r\n\n   \n{full}\n"))
    assert found[0] == LabelledPair(question="q", passage="p", relevant=True)
    assert found[1] == LabelledPair(
        question="问",
        passage="答\u2028文",
        relevant=False,
        type=QuestionType.CREATIVE,
        title="T",
        dated=1_727_654_400_000,
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ('{"question": "q"}', "passage, relevant missing"),
        ('{"question": "q", "passage": "p", "relevant": 1}', "true or false"),
        ('{"question": "q", "passage": "p", "relevant": "yes"}', "true or false"),
        ('{"question": " ", "passage": "p", "relevant": true}', "question must be text"),
        ('{"question": "q", "passage": 3, "relevant": true}', "passage must be text"),
        ('{"question": "q", "passage": "p", "relevant": true, "type": "poem"}', "type 'poem' is none of factual"),
        ('{"question": "q", "passage": "p", "relevant": true, "date": "soon"}', "no ISO date"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_bad_line_is_named(line: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words) as caught:
        read_pairs(written(tmp_path, f"{GOOD}\n\n{line}\n"))
    assert "pairs.jsonl:3" in str(caught.value)
    assert caught.value.hint


def test_a_file_that_is_no_text_or_not_there_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not UTF-8"):
        read_pairs(written(tmp_path, b'{"question": "\xff\xfe"}'))
    with pytest.raises(InputError, match="cannot be read"):
        read_pairs(tmp_path / "absent.jsonl")


def pairs(count: int = 60, kind: QuestionType = QuestionType.FACTUAL) -> list[LabelledPair]:
    good = [
        LabelledPair(
            question=f"How deep is harbour {n}?", passage=f"Harbour {n} is {n} deep.", relevant=True, type=kind
        )
        for n in range(count // 2)
    ]
    return [*good, *(LabelledPair(question=p.question, passage="A cat.", relevant=False, type=kind) for p in good)]


def run(
    evaluator: Evaluator, given: Sequence[LabelledPair], embedder: Embedder | None = None
) -> tuple[CalibrationReport, list[tuple[int, int]]]:
    threads, seen = Threads(1), []
    try:
        found = asyncio.run(
            calibrate(
                Bench(evaluator=evaluator, embedder=embedder, threads=threads),
                given,
                NOW,
                lambda done, total: seen.append((done, total)),
            )
        )
    finally:
        threads.close()
    return found, seen


def test_a_good_evaluator_gets_good_figures_and_usable_thresholds() -> None:
    found, seen = run(FastEvaluator(own_bands()), pairs(), HashingEmbedder(dim=384))
    assert found.overall.n == 60
    assert found.overall.auc > 0.95
    assert found.overall.accuracy > found.overall.majority == 0.5
    assert seen[0] == (0, 60)
    assert seen[-1] == (60, 60)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_the_lines_for_the_settings_file_are_accepted_by_the_settings() -> None:
    report, _ = run(FastEvaluator(own_bands()), [*pairs(), *pairs(40, QuestionType.CREATIVE)])
    lines = tomllib.loads(toml_lines(report))["ask"]
    assert set(lines["thresholds"]) == {"factual", "creative"}
    own = AskSettings(**lines).thresholds["factual"]
    assert own.lower is not None
    assert own.upper is not None
    assert own.lower <= own.upper


def test_the_report_is_plain_json() -> None:
    report, _ = run(FastEvaluator(own_bands()), pairs())
    plain = json.loads(json.dumps(report.as_json(), allow_nan=False))
    assert plain["evaluator"]["name"] == "fast"
    assert set(plain["types"]["factual"]) >= {"lower", "upper", "auc", "ece", "accuracy", "majority", "n", "scaling"}


def test_pairs_that_cannot_be_graded_are_counted_apart() -> None:
    def grade(asked: Asked, evidence: Evidence) -> float | None:
        if asked.question == "How deep is harbour 7?":
            return None
        return 0.1 if evidence.text == "A cat." else 0.9

    report, _ = run(FakeEvaluator(grade), pairs())
    assert report.unknown == 2
    assert report.overall.n == 58
    assert "2 pairs could not be graded" in report.warnings[0]


def test_grades_of_a_stand_in_do_not_count() -> None:
    with pytest.raises(InputError, match="none of the 60 pairs could be graded"):
        run(FakeEvaluator(default=0.5, degraded="somebody else graded"), pairs())


def test_a_type_with_one_label_keeps_its_thresholds() -> None:
    creative = [p for p in pairs(40, QuestionType.CREATIVE) if p.relevant]
    report, _ = run(FastEvaluator(own_bands()), [*pairs(), *creative])
    assert [c.type for c in report.types] == ["factual"]
    assert any("creative" in w for w in report.warnings)


def test_an_evaluator_no_better_than_chance_is_warned_about() -> None:
    report, _ = run(FakeEvaluator(default=0.5), pairs())
    assert any("no threshold is better" in w for w in report.warnings)
    assert report.overall.auc == 0.5


@pytest.mark.parametrize("given", [[], [p for p in pairs() if p.relevant]], ids=["none", "one label"])
def test_nothing_is_graded_when_it_cannot_lead_anywhere(given: list[LabelledPair]) -> None:
    evaluator = FakeEvaluator()
    with pytest.raises(InputError):
        run(evaluator, given)
    assert evaluator.calls == 0


def test_an_evaluator_that_is_away_says_so() -> None:
    evaluator = FakeEvaluator()
    evaluator.error = EvaluatorUnavailable("away")
    with pytest.raises(EvaluatorUnavailable):
        run(evaluator, pairs())


def test_a_pair_that_fails_leaves_the_grades_of_its_question_alone() -> None:
    """Two passages of one question, of which a cascade's chat model could not grade one."""

    class Stumbling(FakeEvaluator):
        async def grade(self, asked: Asked, evidence: Sequence[Evidence]) -> Grading:
            found = await super().grade(asked, evidence)
            return replace(found, degraded="llm could not grade it") if evidence[0].text == "A cat." else found

    report, _ = run(Stumbling(default=0.9), [*pairs(), LabelledPair(question="q", passage="p", relevant=False)])
    assert (report.unknown, report.overall.n) == (30, 31)


def test_a_changed_passage_is_graded_anew_where_grades_are_remembered() -> None:
    inner = FakeEvaluator(lambda _asked, evidence: 0.1 if evidence.text == "A cat." else 0.9)
    threads = Threads(1)
    remembered = Remembered(inner, InProcessCache(ttl_seconds=60, clock=FakeClock()), threads)
    first, again, changed = pairs(), pairs(), [replace(p, passage=f"{p.passage} It is new.") for p in pairs()]
    graded = [len(inner.graded) for given in (first, again, changed) if run(remembered, given)]
    threads.close()
    assert graded == [60, 60, 120]
