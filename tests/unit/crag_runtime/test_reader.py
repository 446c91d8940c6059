from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from crag_runtime.evaluators.reader import BANDS, ReaderEvaluator
from crag_runtime.evaluators.reader_adapter import FOLDER
from crag_runtime.evidence import Asked, Evidence, Grade, Label, Origin, QuestionType
from crag_runtime.threads import Threads
from crag_runtime.verdict import Thresholds, label_of
from kb.dates.period import Period, TimeIntent
from kb.errors import EmbedderUnavailable, EvaluatorUnavailable
from tests.fakes.reading import WordReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crag_runtime.ports import Grading

YEAR = Period(start=1_704_067_200_000, end=1_735_689_600_000, label="2024")
TODAY = 1_780_000_000_000


@pytest.fixture
def threads() -> Iterator[Threads]:
    pool = Threads(2)
    yield pool
    pool.close()


def asked(question: str, *periods: Period, kind: QuestionType = QuestionType.FACTUAL) -> Asked:
    return Asked(question=question, type=kind, time=TimeIntent(periods=periods), today=TODAY, tenant="t")


def piece(text: str, name: str = "m") -> Evidence:
    return Evidence(id=name, origin=Origin.MEMORY, text=text)


def graded(reader: ReaderEvaluator, question: Asked, *texts: str) -> Grading:
    return asyncio.run(reader.grade(question, [piece(text, str(n)) for n, text in enumerate(texts)]))


def only(reader: ReaderEvaluator, question: Asked, text: str) -> Grade:
    (grade,) = graded(reader, question, text).grades
    return grade


def test_the_bands_are_the_adapters_own() -> None:
    own = json.loads((FOLDER / "adapter.json").read_bytes())["thresholds"]
    assert BANDS[QuestionType.FACTUAL] == Thresholds(lower=own["low"], upper=own["high"])
    assert BANDS[QuestionType.ANALYTICAL] == Thresholds(lower=own["low"], upper=own["mid"])
    assert BANDS[QuestionType.CREATIVE].upper <= BANDS[QuestionType.ANALYTICAL].upper
    assert set(BANDS) == set(QuestionType)


@pytest.mark.parametrize("kind", QuestionType)
def test_a_label_is_by_the_band_of_the_questions_type(threads: Threads, kind: QuestionType) -> None:
    reader = ReaderEvaluator(WordReader, BANDS, threads)
    for text in ("a b c d", "a b", "a", "z"):
        grade = only(reader, asked("a b c d", kind=kind), text)
        assert grade.label is label_of(grade.relevance, BANDS[kind])


def test_grades_come_in_order_with_their_ids_and_who_made_them(threads: Threads) -> None:
    reader = ReaderEvaluator(WordReader, BANDS, threads)
    grades = graded(reader, asked("a b"), "a", "a b", "", "c").grades
    assert [grade.id for grade in grades] == ["0", "1", "2", "3"]
    assert [grade.relevance for grade in grades] == [0.5, 1.0, 0.0, 0.0]
    identity = reader.identity
    assert {(g.evaluator, g.model, g.version) for g in grades} == {(identity.name, identity.model, identity.version)}


@pytest.mark.parametrize("kind", QuestionType)
def test_another_period_falls_below_the_band_however_well_it_fits(threads: Threads, kind: QuestionType) -> None:
    reader = ReaderEvaluator(WordReader, BANDS, threads)
    right = only(reader, asked("revenue grew", YEAR, kind=kind), "In 2024 revenue grew by 4 %.")
    wrong = only(reader, asked("revenue grew", YEAR, kind=kind), "In 2019 revenue grew by 4 %.")
    silent = only(reader, asked("revenue grew", YEAR, kind=kind), "Our revenue grew by 4 %.")
    assert (right.label, silent.label, wrong.label) == (Label.RELEVANT, Label.RELEVANT, Label.IRRELEVANT)
    assert wrong.relevance is not None
    assert 0 < wrong.relevance < BANDS[kind].lower
    assert "2024" in wrong.reason
    assert wrong.answer == ""
    assert all(strip.score <= wrong.relevance for strip in wrong.strips)


def test_a_period_in_the_headings_counts(threads: Threads) -> None:
    reader = ReaderEvaluator(WordReader, BANDS, threads)
    one = Evidence(
        id="m", origin=Origin.MEMORY, text="Revenue grew.", title="Report", heading_path=("Results of 2019",)
    )
    (grade,) = asyncio.run(reader.grade(asked("revenue grew", YEAR), [one])).grades
    assert grade.label is Label.IRRELEVANT


def test_what_cannot_be_read_is_unknown_and_harms_no_other(threads: Threads) -> None:
    model = WordReader()
    model.broken = {"b"}
    grades = graded(ReaderEvaluator(lambda: model, BANDS, threads), asked("a"), "a", "b", "a").grades
    assert [grade.label for grade in grades] == [Label.RELEVANT, Label.UNKNOWN, Label.RELEVANT]
    assert grades[1].relevance is None
    assert "out of memory" in grades[1].reason


def test_when_nothing_can_be_read_the_reader_is_unavailable(threads: Threads) -> None:
    model = WordReader()
    model.broken = {"a", "b"}
    with pytest.raises(EvaluatorUnavailable, match="out of memory"):
        graded(ReaderEvaluator(lambda: model, BANDS, threads), asked("a"), "a", "b")


def test_no_evidence_loads_nothing(threads: Threads) -> None:
    def load() -> WordReader:
        raise AssertionError

    grading = graded(ReaderEvaluator(load, BANDS, threads), asked("a"))
    assert (grading.grades, grading.degraded) == ((), "")


def test_a_model_that_failed_to_load_is_tried_again(threads: Threads) -> None:
    tries: list[int] = []

    def load() -> WordReader:
        tries.append(1)
        if len(tries) == 1:
            raise EmbedderUnavailable("onnxruntime cannot be imported: no", hint="install onnxruntime")
        return WordReader()

    reader = ReaderEvaluator(load, BANDS, threads)
    with pytest.raises(EvaluatorUnavailable, match="onnxruntime cannot be imported") as caught:
        only(reader, asked("a"), "a")
    assert caught.value.hint == "install onnxruntime"
    assert only(reader, asked("a"), "a").label is Label.RELEVANT
    assert only(reader, asked("a"), "a").label is Label.RELEVANT
    assert len(tries) == 2


def test_the_event_loop_goes_on_while_the_reader_reads(threads: Threads) -> None:
    model = WordReader()
    model.gate.clear()

    async def story() -> Grading:
        reading = asyncio.create_task(
            ReaderEvaluator(lambda: model, BANDS, threads).grade(asked("a"), [piece("a", str(n)) for n in range(32)])
        )
        await asyncio.sleep(0)
        assert not reading.done()
        model.gate.set()  # only a loop that is free gets here
        return await reading

    assert len(asyncio.run(story()).grades) == 32


def test_other_bands_are_another_version(threads: Threads) -> None:
    one = ReaderEvaluator(WordReader, BANDS, threads).identity
    other = {**BANDS, QuestionType.FACTUAL: Thresholds(lower=0.2, upper=0.65)}
    two = ReaderEvaluator(WordReader, other, threads).identity
    assert one.version != two.version
    assert (one.name, one.model) == (two.name, two.model) == ("reader", "e5ce-lora int8")
    assert ReaderEvaluator(WordReader, dict(reversed(BANDS.items())), threads).identity == one


@pytest.mark.parametrize(
    ("question", "text"),
    [("price of the Solo plan", "the price of the Team plan"), ("专业版 价格", "团队版 价格")],
)
def test_a_passage_that_lacks_the_name_asked_about_is_irrelevant_and_says_why(
    threads: Threads, question: str, text: str
) -> None:
    grade = only(ReaderEvaluator(WordReader, BANDS, threads), asked(question), text)
    assert grade.label is Label.IRRELEVANT
    assert "it does not speak of" in grade.reason


@pytest.mark.parametrize("question", ["What does alert RELAY-301 mean?", "告警 RELAY-301 是什么意思？"])
def test_the_very_code_brings_a_passage_one_label_up(threads: Threads, question: str) -> None:
    reader = ReaderEvaluator(WordReader, BANDS, threads)
    assert only(reader, asked(question), "Down for 5 minutes (RELAY-301).").label is not Label.IRRELEVANT
    assert only(reader, asked(question), "Down for 5 minutes (RELAY-302).").label is Label.IRRELEVANT


def test_a_weak_answer_of_another_kind_than_asked_is_none(threads: Threads) -> None:
    reader = ReaderEvaluator(WordReader, BANDS, threads)
    grade = only(reader, asked("who stores it today please"), "it stores every message")
    assert grade.label is Label.IRRELEVANT
    assert "not of the kind" in grade.reason
