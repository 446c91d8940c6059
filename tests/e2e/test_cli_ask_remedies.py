"""Presets, remedies and the web for questions of time, as the command line has them: real reader, real store."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.fakes.search_server import SearchServer
from tests.shell import ROOT, Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INSIDE = "How long are access logs kept?"
OUTSIDE = "What is the capital of France?"
NEEDLE, HAYSTACK = "What load does the Anping bridge carry?", "The Anping bridge carries 40 tons on a dry day."
BACKUP = {"KB_ASK__REMEDIES": '["rewrite", "backup"]', "KB_ASK__BACKUP_TENANT": "reference"}
HUMAN = {"KB_ASK__REMEDIES": '["human"]', "KB_ASK__CHECKPOINTER": "sqlite"}


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory, model_cache: Path) -> Iterator[Shell]:
    home = tmp_path_factory.mktemp("remedies")
    shutil.copytree(ROOT / "sample" / "policy", home / "sample" / "policy")
    with Shell(home, model_cache) as shell:
        assert shell.run("ingest", "sample").code == 0
        assert shell.run("memory", "add", HAYSTACK, "--tenant", "reference").code == 0
        yield shell


def nodes(answer: dict[str, object]) -> list[str]:
    return [step["node"] for step in answer["path"]]  # type: ignore[attr-defined]


def test_the_preset_of_one_question_grades_by_its_evaluator_and_an_explicit_one_wins(kb):
    def grader(*options: str, **environment: str) -> str:
        answer = kb.json("ask", INSIDE, *options, **environment)
        return next(step["why"] for step in answer["path"] if step["node"] == "grade").rsplit(" ", 1)[-1]

    assert grader("--preset", "fast") == "fast"
    assert grader("--preset", "fast", "--evaluator", "reader") == "reader"
    assert grader("--preset", "fast", KB_ASK__EVALUATOR="reader") == "reader"
    assert grader("--preset", "balanced") == grader() == "reader"
    refused = kb.json("ask", OUTSIDE, "--preset", "fast")
    assert (refused["outcome"], "rewrite" in nodes(refused)) == ("refused", False)


def test_a_second_source_answers_what_the_own_store_cannot_and_keeps_its_memories_as_they_were(kb):
    def theirs() -> list[dict[str, object]]:
        page = kb.json("memory", "list", "--tenant", "reference")
        return [
            {k: v for k, v in m.items() if k != "effective_confidence"} for m in page["memories"]
        ]  # that one decays

    before = theirs()
    alone = kb.json("ask", NEEDLE)
    assert alone["outcome"] == "refused"
    answer = kb.json("ask", NEEDLE, **BACKUP)
    assert "40 tons" in answer["answer"]
    assert [c["memory_id"] for c in answer["citations"]] == [m["id"] for m in before]
    given = kb.json("feedback", answer["answer_id"], "--good")
    assert (given["events"], given["memories"]) == ([], [])
    assert "the second source" in kb.run("feedback", answer["answer_id"], "--bad").out
    assert theirs() == before


def test_a_question_waits_for_a_person_who_decides_with_what_was_found(kb):
    shown = kb.run("ask", OUTSIDE, "--thread", "shown", **HUMAN)
    assert shown.code == 5
    assert "a person decides whether it is used" in shown.out
    assert "decide: kb ask --resume --thread shown" in shown.out
    waiting = kb.json("ask", OUTSIDE, "--thread", "t", code=5, **HUMAN)
    assert (waiting["kind"], waiting["queries"], waiting["resumable"]) == ("evidence", [OUTSIDE], True)
    edit = ("--decide", "edit", "--query", "access logs kept")
    answer = kb.json("ask", "--resume", "--thread", "t", *edit, **HUMAN)
    assert answer["answer_id"] == waiting["answer_id"]
    assert nodes(answer).count("human") == 1
    assert answer["outcome"] == "refused"  # the question is what it was, whatever was looked up


def test_where_nothing_is_kept_a_person_is_said_to_be_needed_and_what_to_do(kb):
    done = kb.run("ask", OUTSIDE, KB_ASK__REMEDIES='["human"]')
    assert done.code == 0
    assert "person_needed" in done.out
    assert "next: set checkpointer under [ask]" in done.out


@pytest.mark.parametrize(("question", "searches"), [("What is the latest news of France?", 1), (OUTSIDE, 0)])
def test_the_web_for_questions_of_time_is_asked_about_time_alone(kb, question, searches):
    with SearchServer() as server:
        timely = {"KB_SEARCH__PROVIDER": "searxng", "KB_SEARCH__URL": server.base, "KB_SEARCH__ONLY_WHEN": "timely"}
        answer = kb.json("ask", question, **timely)
        assert len(server.queries) == answer["usage"]["searches"] == searches
    assert ("search_not_timely" in answer["reasons"]) is (searches == 0)


@pytest.mark.parametrize("remedies", ['["rewrite", "pray"]', '["web", "web"]', '["backup"]'])
def test_remedies_that_make_no_sense_exit_2_and_say_what_to_do(kb, remedies):
    done = kb.run("ask", INSIDE, KB_ASK__REMEDIES=remedies)
    assert done.code == 2
    assert "ask." in done.err
    assert "hint" in done.err
