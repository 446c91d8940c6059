"""The reader: its model file, what it tells apart, and that a grade is the passage's own."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crag_runtime.evaluators.reader import BANDS, ReaderEvaluator, open_reader
from crag_runtime.evaluators.reader_model import ENCODER, ReaderModel
from crag_runtime.evidence import Asked, Evidence, Grade, Label, Origin, QuestionType
from crag_runtime.threads import Threads
from kb.dates.periods import time_intent
from kb.embedders.built import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kb.embedders.local import LocalEmbedder

ROOT = Path(__file__).parents[2]
TODAY = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp() * 1000)
PAIRS = [  # question, passage that answers, its answer, passage on the same product that does not
    (
        "How long is the warranty of the Aurora heat pump?",
        "The Aurora heat pump has a warranty of seven years.",
        "seven years",
        "The Aurora heat pump is painted white or grey.",
    ),
    (
        "How loud is the Aurora at night?",
        "At night the Aurora runs at 31 decibels.",
        "31 decibels",
        "The Aurora is installed by two technicians.",
    ),
    (
        "Who designed the Aurora?",
        "The Aurora was designed by Mira Kestrel in Tromsø.",
        "Mira Kestrel",
        "Spare parts of the Aurora are sold online.",
    ),
    (
        "What refrigerant does the Aurora use?",
        "It is filled with R-290, a natural refrigerant.",
        "R-290",
        "The manual of the Aurora has forty pages.",
    ),
    (
        "Where is the Aurora made?",
        "Every Aurora is assembled in the plant at Lakeview.",
        "Lakeview",
        "The Aurora saves up to 40 % of energy.",
    ),
    (
        "When must the filter be changed?",
        "Change the filter every six months.",
        "six months",
        "The display shows the outside temperature.",
    ),
    ("极光热泵的保修期是多久？", "极光热泵的保修期为七年，可延长至十年。", "七年", "极光热泵的外壳有白色和灰色两种。"),
    ("极光热泵夜间噪音是多少分贝？", "夜间模式下，极光热泵的噪音为31分贝。", "31分贝", "极光热泵由两名技术人员安装。"),
    ("极光热泵是谁设计的？", "极光热泵由工程师林若溪设计。", "林若溪", "极光热泵的备件可以在网上购买。"),
    ("极光热泵使用什么制冷剂？", "极光热泵采用天然制冷剂R-290。", "R-290", "极光热泵的说明书共有四十页。"),
    ("极光热泵在哪里生产？", "所有极光热泵都在湖景镇的工厂组装。", "湖景镇", "极光热泵最多可节能百分之四十。"),
    ("滤网多久更换一次？", "滤网应每六个月更换一次。", "六个月", "显示屏会显示室外温度。"),
]
FILLER = "The old mill by the river was painted again in spring, and the children came to watch. "


@pytest.fixture
def threads() -> Iterator[Threads]:
    pool = Threads(4)
    yield pool
    pool.close()


@pytest.fixture
def reader(reader_model: ReaderModel, threads: Threads) -> ReaderEvaluator:
    return ReaderEvaluator(lambda: reader_model, BANDS, threads)


def asked(question: str) -> Asked:
    return Asked(
        question=question, type=QuestionType.FACTUAL, time=time_intent(question, TODAY), today=TODAY, tenant="t"
    )


def graded(reader: ReaderEvaluator, question: str, texts: Sequence[str]) -> list[Grade]:
    evidence = [Evidence(id=text[:20], origin=Origin.MEMORY, text=text) for text in texts]
    return list(asyncio.run(reader.grade(asked(question), evidence)).grades)


@pytest.mark.parametrize(("question", "good", "answer", "other"), PAIRS, ids=lambda v: v[:12])
def test_what_answers_is_told_from_what_does_not(
    reader: ReaderEvaluator, question: str, good: str, answer: str, other: str
) -> None:
    right, wrong = graded(reader, question, [good, other])
    assert right.relevance is not None
    assert wrong.relevance is not None
    assert right.relevance > wrong.relevance
    assert right.label is not Label.IRRELEVANT
    assert answer in right.answer
    assert right.answer in good


def test_an_answer_deep_in_a_long_passage_is_found(reader: ReaderEvaluator) -> None:
    for question, good, answer, _ in PAIRS[:2] + PAIRS[6:8]:
        text = FILLER * 12 + good + " " + FILLER * 12
        (grade,) = graded(reader, question, [text])
        assert grade.label is Label.RELEVANT
        assert answer in grade.answer
        assert len(grade.strips) == 2
        best = max(grade.strips, key=lambda strip: strip.score)
        assert good in text[best.start : best.end]


def test_another_year_is_irrelevant_and_says_why(reader: ReaderEvaluator) -> None:
    for question, passage in [
        ("What was the price of the Aurora in 2024?", "In {} the Aurora cost 7,900 euros."),
        ("极光热泵2024年的价格是多少？", "{}年极光热泵的价格为7900元。"),
    ]:
        now, then = graded(reader, question, [passage.format(2024), passage.format(2019)])
        assert now.label is Label.RELEVANT
        assert then.label is Label.IRRELEVANT
        assert "another time" in then.reason


def test_a_grade_does_not_depend_on_its_company(reader: ReaderEvaluator) -> None:
    texts = [text for pair in PAIRS for text in (pair[1], pair[3])] + [FILLER * 20]
    question = PAIRS[0][0]
    together = graded(reader, question, texts)
    assert graded(reader, question, texts[::-1]) == together[::-1]
    assert [graded(reader, question, [text])[0] for text in texts[:6]] == together[:6]


def test_many_questions_at_once_get_what_each_gets_alone(reader: ReaderEvaluator) -> None:
    async def story() -> list[tuple[Grade, ...]]:
        calls = [
            reader.grade(asked(pair[0]), [Evidence(id="m", origin=Origin.MEMORY, text=pair[1])])
            for pair in (PAIRS * 3)[:32]
        ]
        return [grading.grades for grading in await asyncio.gather(*calls)]

    at_once = asyncio.run(story())
    for index, pair in enumerate(PAIRS):
        (alone,) = graded(reader, pair[0], [pair[1]])
        assert {(grades[0].relevance, grades[0].answer) for grades in at_once[index :: len(PAIRS)]} == {
            (alone.relevance, alone.answer)
        }


def test_reader_and_embedder_share_one_tokenizer(model_cache: Path, local_embedder: LocalEmbedder) -> None:
    local_embedder.count_tokens(["load it"])
    assert ReaderModel.open(model_cache)._tokenizer is local_embedder._tokenizer


@pytest.fixture
def cache(model_cache: Path, reader_model: ReaderModel, tmp_path: Path) -> Path:
    """A cache of this test's own, already built."""
    shutil.copytree(model_cache, tmp_path / "cache", ignore=shutil.ignore_patterns(".*"))
    return tmp_path / "cache"


def test_a_damaged_model_is_built_again(cache: Path) -> None:
    (path,) = cache.glob(f"*/{ENCODER}")
    good = path.read_bytes()
    middle = len(good) // 2
    path.write_bytes(good[:middle] + bytes([good[middle] ^ 0x55]) + good[middle + 1 :])
    ReaderModel.open(cache)
    assert path.read_bytes() == good
    assert len(good) < 25_000_000


def run(code: str, cache: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "KB_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_processes_that_start_at_once_build_one_model(cache: Path) -> None:
    (folder,) = (path.parent for path in cache.glob(f"*/{ENCODER}"))
    shutil.rmtree(folder)
    code = """
from crag_runtime.evaluators.reader_model import ReaderModel
from kb.settings import Settings
model = ReaderModel.open(Settings().cache_dir)
print([(r.p, r.answer) for r in model.read("How long is the warranty?", "The warranty lasts seven years.")])
"""
    processes = [run(code, cache) for _ in range(2)]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert outputs[0] == outputs[1]
    assert (folder / MANIFEST).is_file()
    assert [path.name for path in cache.iterdir() if "build" in path.name] == []


@pytest.mark.parametrize("blocked", ["onnxruntime", "tokenizers"])
def test_without_a_package_the_reader_is_unavailable_and_says_which(model_cache: Path, blocked: str) -> None:
    code = f"""
import asyncio, sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
from crag_runtime.evaluators.reader import BANDS, open_reader
from crag_runtime.evidence import *
from crag_runtime.threads import Threads
from kb.errors import EvaluatorUnavailable
from kb.settings import Settings
threads = Threads(1)
reader = open_reader(Settings().cache_dir, BANDS, threads)
asked = Asked(question="q", type=QuestionType.FACTUAL, time=TimeIntent(), today=0, tenant="t")
try:
    asyncio.run(reader.grade(asked, [Evidence(id="m", origin=Origin.MEMORY, text="t")]))
except EvaluatorUnavailable as error:
    print(error, error.hint)
threads.close()
"""
    process = run(code, model_cache)
    output = process.communicate()[0]
    assert process.returncode == 0, output
    assert "the reader cannot be loaded" in output
    assert f"install {blocked}" in output


def test_opening_loads_nothing(tmp_path: Path, threads: Threads) -> None:
    reader = open_reader(tmp_path / "cache", BANDS, threads)
    assert reader.identity.version
    assert not (tmp_path / "cache").exists()
