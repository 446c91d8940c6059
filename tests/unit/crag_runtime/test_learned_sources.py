"""How many sources a correct verdict should need: read from a log, fitted, and written for the settings."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest

from crag_runtime.calibrating.judged import read_log
from crag_runtime.calibrating.sources import Judged, learned_sources, toml_lines
from crag_runtime.evidence import QuestionType
from crag_runtime.planning.question_types import question_type
from kb.errors import InputError
from kb.settings import AskSettings

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_796_000_000_000
HASH = "0123456789abcdef" * 4


def judged(sources: int, right: int, wrong: int = 0, kind: QuestionType = QuestionType.FACTUAL) -> list[Judged]:
    return [Judged(type=kind, sources=sources, right=n < right) for n in range(right + wrong)]


def test_the_smallest_number_of_sources_that_reaches_the_target_is_learned() -> None:
    log = [*judged(1, 30, 20), *judged(2, 40, 1), *judged(3, 30)]
    (fit,) = learned_sources(log)
    assert (fit.min_sources, fit.n, fit.why) == (2, 121, "")
    assert [(r.sources, r.kept, r.right, round(r.coverage, 3)) for r in fit.rows] == [
        (1, 121, 100, 1.0), (2, 71, 70, 0.587), (3, 30, 30, 0.248),
    ]  # fmt: skip


def test_one_source_is_learned_where_it_is_enough() -> None:
    (fit,) = learned_sources([*judged(1, 60, 1), *judged(2, 10)])
    assert (fit.min_sources, fit.why) == (1, "")


def test_where_nothing_reaches_the_target_one_stays_and_the_best_is_told() -> None:
    (fit,) = learned_sources([*judged(1, 30, 20), *judged(2, 30, 5)])
    assert fit.min_sources == 1
    assert fit.why.startswith("at best 30 of 35 right, with 2 or more sources: surely above 0.7")


def test_a_number_that_no_answer_has_is_not_recommended() -> None:
    """Answers of three sources and more say nothing of answers of one."""
    (fit,) = learned_sources([*judged(3, 40), *judged(0, 0, 5)])
    assert (fit.min_sources, [r.sources for r in fit.rows]) == (3, [3])


def test_answers_without_a_source_are_never_kept() -> None:
    (fit,) = learned_sources(judged(0, 50))
    assert (fit.min_sources, fit.rows, fit.why) == (1, (), "0 answers with a source are too few; 20 are needed")


def test_more_sources_than_the_settings_take_count_as_the_most_they_take() -> None:
    (fit,) = learned_sources(judged(25, 40))
    assert (fit.min_sources, fit.rows[0].kept) == (10, 40)


@pytest.mark.parametrize(
    "given", [{"target": 0.0}, {"target": 1.0}, {"target": float("nan")}, {"need": 0}, {"judged": []}]
)
def test_what_cannot_be_learned_from_is_a_typed_error(given) -> None:
    with pytest.raises(InputError):
        learned_sources(**{"judged": judged(1, 30), **given})


def test_the_lines_for_the_settings_freeze_what_was_learned_and_say_from_what() -> None:
    log = [*judged(1, 10, 20), *judged(2, 40), *judged(1, 3, kind=QuestionType.CREATIVE)]
    lines = toml_lines(learned_sources(log), name="dev\n[x].jsonl", log=HASH, now=NOW)
    settings = AskSettings(**tomllib.loads(lines)["ask"])
    assert {kind: own.min_sources for kind, own in settings.thresholds.items()} == {"factual": 2}
    assert lines.startswith("# learned by `kb eval sources` on 2026-11-30 from dev?[x].jsonl (0123456789ab); frozen")
    assert "# creative: not learned: 3 answers with a source are too few; 20 are needed" in lines


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_log_names_the_type_or_the_question_and_sources_by_number_or_name(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        '{"type": "creative", "sources": 0, "right": false}',
        "",
        '{"question": "Why did it fall?", "sources": ["docs", "wiki", "docs"], "right": true}',
        '{"question": "为什么倒了？", "type": "factual", "sources": [], "right": true, "x": 1}',
    )
    log = read_log(path, question_type)
    assert log.answers == (
        Judged(type=QuestionType.CREATIVE, sources=0, right=False),
        Judged(type=QuestionType.ANALYTICAL, sources=2, right=True),
        Judged(type=QuestionType.FACTUAL, sources=0, right=True),
    )
    assert (log.name, len(log.hash), log.left_out) == ("log.jsonl", 64, {})
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert read_log(path, question_type).hash != log.hash


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "not JSON"),
        ("7", "not a JSON object"),
        ('{"type": "factual"}', "sources, right missing"),
        ('{"sources": 1, "right": true}', "question missing"),
        ('{"question": "", "sources": 1, "right": true}', "question must be text"),
        ('{"type": "poem", "sources": 1, "right": true}', "type 'poem' is none of factual"),
        ('{"type": "factual", "sources": -1, "right": true}', "sources must be a number"),
        ('{"type": "factual", "sources": true, "right": true}', "sources must be a number"),
        ('{"type": "factual", "sources": 1.5, "right": true}', "sources must be a number"),
        ('{"type": "factual", "sources": [1], "right": true}', "sources must be a number"),
        ('{"type": "factual", "sources": 1, "right": "yes"}', "right must be true or false"),
    ],
)
def test_a_bad_line_of_a_log_is_named(line: str, words: str, tmp_path: Path) -> None:
    good = '{"type": "factual", "sources": 1, "right": true}'
    with pytest.raises(InputError, match=words) as caught:
        read_log(written(tmp_path, good, line), question_type)
    assert "log.jsonl:2" in str(caught.value)
    assert caught.value.hint
