"""How answers are shown: nothing that was withdrawn is left standing, nothing that a terminal obeys gets through."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from crag_runtime.evidence import Outcome, Usage, Verdict
from crag_runtime.objects import waiting_json
from crag_runtime.refusal import RefusalReason
from crag_runtime.result import Answer, Cited, Waiting
from crag_runtime.runtime import Event
from kb.history import AnswerId
from kb_cli.answers import WAYS_OUT, as_lines, waiting_lines
from kb_cli.search import ADVICE
from kb_cli.showing import Show


def answer(text: str = "Ninety days. [1]", **changes) -> Answer:
    given = {
        "answer_id": AnswerId("a1"),
        "outcome": Outcome.ANSWERED,
        "text": text,
        "verdict": Verdict.CORRECT,
        "citations": (),
        "path": (),
        "suppressed": (),
        "usage": Usage(embeddings=1),
        "degraded": (),
        "reasons": (),
        "missing": (),
        "conflicts": (),
        "plan": {"question": "How long?", "sub_questions": ["How long?"], "carried": ""},
    }
    return Answer(**{**given, **changes})


def cited(number: int = 1, **changes) -> Cited:
    given = {
        "number": number, "memory_id": f"m{number}", "source": "file://docs/a.md", "url": "", "title": "A", "quote": "",
        "supports": True, "verified": False, "effective_confidence": 0.9, "dated": None,
    }  # fmt: skip
    return Cited(**{**given, **changes})


def shown(capsys, *events: Event, end: Answer, as_json: bool = False) -> str:
    show = Show(as_json=as_json, is_streaming=True)
    for event in events:
        show.event(event)
    show.answer(end)
    return capsys.readouterr().out


def tokens(*pieces: str) -> list[Event]:
    return [Event(kind="token", token=piece) for piece in pieces]


def test_a_streamed_answer_is_not_said_twice(capsys):
    out = shown(capsys, *tokens("Ninety ", "days. [1]"), end=answer())
    assert out.count("Ninety days. [1]") == 1
    assert "withdrawn" not in out


def test_a_draft_that_did_not_become_the_answer_is_withdrawn_and_the_answer_follows(capsys):
    refused = answer("Nothing supports it.", outcome=Outcome.REFUSED, reasons=("not_supported",))
    out = shown(capsys, *tokens("Nine days."), end=refused)
    assert out.startswith("Nine days.\n(withdrawn: it did not pass the check)\nNothing supports it.\n")


def test_a_void_draft_is_withdrawn_once(capsys):
    out = shown(
        capsys, *tokens("Nine."), Event(kind="void"), Event(kind="void"), *tokens("Ninety days. [1]"), end=answer()
    )
    assert out.count("withdrawn") == 1
    assert out.count("Ninety days. [1]") == 1


def test_a_json_stream_says_void_before_an_answer_that_differs(capsys):
    out = shown(capsys, *tokens("Nine."), end=answer(), as_json=True)
    assert [json.loads(line)["event"] for line in out.splitlines()] == ["token", "void", "answer"]


@pytest.mark.parametrize("as_json", [False, True])
def test_nothing_that_a_terminal_obeys_is_printed(capsys, as_json):
    text = "a\x1b]0;owned\x07b\u202ec\x9b31md"
    out = shown(capsys, *tokens(text), end=answer(text), as_json=as_json)
    assert not {"\x1b", "\x07"} & set(out)
    if not as_json:
        assert not {"\u202e", "\x9b"} & set(out)


def test_a_reference_says_what_it_is_worth():
    found = cited(2, url="https://a.example/", effective_confidence=0.5)
    lines = as_lines(answer(citations=(cited(verified=True), found, cited(3, supports=False))), advice=ADVICE)
    assert "[1] A, file://docs/a.md" in lines
    assert "    verified, confidence 0.90  [m1]" in lines
    assert "    from the web, not verified, confidence 0.50  [m2]" in lines
    assert "    confidence 0.90, the other side  [m3]" in lines


def test_many_suppressed_memories_are_counted_and_few_are_listed():
    held = tuple(
        {"memory_id": f"m{n}", "source": "file://a", "reason": "faded", "effective_confidence": 0.5} for n in range(9)
    )
    lines = as_lines(answer(suppressed=held), advice=ADVICE)
    assert "suppressed: 9 matched but were stopped" in lines
    assert "   and 4 more; --json lists them" in lines
    assert sum("faded (0.50)" in line for line in lines) == 5


def test_what_is_missing_is_named_unless_it_is_the_question_itself():
    assert not any("not covered" in line for line in as_lines(answer(missing=("How long?",)), advice=ADVICE))
    plan = {"question": "Both?", "sub_questions": ["One?", "Two?"], "carried": "Team"}
    lines = as_lines(answer(missing=("Two?",), plan=plan), advice=ADVICE)
    assert "not covered: Two?" in lines
    assert "understood as: Both?" in lines


@pytest.mark.parametrize("reason", RefusalReason)
def test_every_reason_for_a_refusal_has_a_way_out(reason):
    lines = as_lines(answer(outcome=Outcome.REFUSED, reasons=(reason.value,)), advice=ADVICE)
    assert f"next: {WAYS_OUT[reason.value]}" in lines
    assert lines[-1].startswith(f"refused ({reason.value}); ")


def test_a_waiting_search_names_its_words_its_limit_and_how_to_go_on():
    waiting = Waiting(answer_id=AnswerId("a"), thread="t", provider="tavily", queries=("France",), max_searches=1)
    first, query, decide = waiting_lines(waiting, "kb ask --resume --thread t")
    assert "tavily would be asked, 1 search at most" in first
    assert query.strip() == "France"
    assert decide == "decide: kb ask --resume --thread t"
    assert len(waiting_lines(waiting)) == 2


def test_evidence_that_waits_is_shown_with_its_grade_and_without_a_word_of_its_text():
    found = {
        "memory_id": "m1",
        "source": "file://a.md",
        "url": None,
        "title": "A",
        "label": "ambiguous",
        "relevance": 0.5,
    }
    waiting = Waiting(
        answer_id=AnswerId("a"), thread="t", provider="", queries=("How long?",), max_searches=0, kind="evidence",
        found=(found, {**found, "title": "", "url": "https://a.example/", "relevance": None}),
    )  # fmt: skip
    first, query, one, other, decide = waiting_lines(waiting, "kb ask --resume --thread t")
    assert "a person decides" in first
    assert query.strip() == "How long?"
    assert one == "found: A, file://a.md: ambiguous, relevance 0.50  [m1]"
    assert other == "found: https://a.example/: not graded  [m1]"
    assert decide.startswith("decide: ")
    assert "nothing that may answer" in waiting_lines(replace(waiting, found=()))[-1]
    shown = waiting_json(waiting, is_kept=True)
    assert (shown["kind"], shown["found"][0], shown["resumable"]) == ("evidence", found, True)
