"""Asking as users of the command line meet it: the sample, the real reader, the embedded default, no network."""

from __future__ import annotations

import re
import shutil
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.fakes.search_server import SearchServer
from tests.shell import ROOT, Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INSIDE = "How long are access logs kept?"
OUTSIDE = "What is the capital of France?"
KEYS = {
    "answer_id", "outcome", "answer", "verdict", "citations", "path", "suppressed", "usage", "degraded", "reasons",
    "missing", "conflicts", "plan",
}  # fmt: skip
PARIS = {
    "url": "https://atlas.example/france",
    "title": "France",
    "content": "Paris is the capital of France and its largest city.",
    "score": 0.9,
}


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory, model_cache: Path) -> Iterator[Shell]:
    home = tmp_path_factory.mktemp("asking")
    shutil.copytree(ROOT / "sample", home / "sample")
    with Shell(home, model_cache) as shell:
        assert shell.run("ingest", "sample").code == 0
        yield shell


@pytest.fixture(scope="module")
def inside(kb: Shell) -> dict[str, Any]:
    return kb.json("ask", INSIDE)


@pytest.fixture
def paris() -> Iterator[SearchServer]:
    with SearchServer() as server:
        server.results = [PARIS]
        yield server


def paid(server: SearchServer, **more: str) -> dict[str, str]:
    return {
        "KB_SEARCH__PROVIDER": "tavily", "KB_SEARCH__URL": server.base, "KB_SEARCH__API_KEY": "none", **more,
    }  # fmt: skip


def kept(server: SearchServer) -> dict[str, str]:
    return paid(server, KB_ASK__CHECKPOINTER="sqlite")


def confidences(kb: Shell) -> dict[str, float]:
    page = kb.json("memory", "list", "--limit", "1000")
    assert page["next"] is None
    return {m["id"]: m["confidence"] for m in page["memories"]}


@pytest.mark.parametrize(
    ("question", "value", "source"),
    [
        (INSIDE, "90 days", "file://sample/policy/data-retention.md"),
        ("访问日志保留多久？", "90天", "file://sample/zh/数据保留制度.md"),
    ],
)
def test_what_the_knowledge_base_covers_is_answered_from_it_alone(kb, question, value, source):
    answer = kb.json("ask", question)
    assert set(answer) == KEYS
    assert (answer["outcome"], answer["verdict"], answer["missing"], answer["degraded"]) == (
        "answered",
        "correct",
        [],
        [],
    )
    assert value in answer["answer"]
    cited = answer["citations"][0]
    assert (cited["source"], cited["url"], cited["supports"], cited["verified"]) == (source, None, True, True)
    nodes = [step["node"] for step in answer["path"]]
    assert nodes == ["begin", "plan", "retrieve", "grade", "judge", "refine", "generate", "check", "write_back"]
    usage = answer["usage"]
    assert (usage["llm_calls"], usage["searches"], usage["tokens"]) == (0, 0, 0)
    assert usage["embeddings"] >= 1


@pytest.mark.parametrize(
    ("question", "word"), [(OUTSIDE, "no web search is configured"), ("法国的首都是哪里？", "尚未配置网络搜索")]
)
def test_what_it_does_not_cover_is_refused_with_the_reason(kb, question, word):
    answer = kb.json("ask", question)
    assert (answer["outcome"], answer["verdict"], answer["citations"]) == ("refused", "incorrect", [])
    assert answer["reasons"] == ["nothing_found", "search_not_configured"]
    assert word in answer["answer"]
    nodes = [step["node"] for step in answer["path"]]
    assert "rewrite" in nodes
    assert nodes[-2:] == ["refuse", "write_back"]
    assert answer["usage"]["searches"] == 0


@pytest.mark.parametrize(
    ("question", "value", "missing"),
    [
        (f"How long are access logs kept, and {OUTSIDE[0].lower()}{OUTSIDE[1:]}", "90 days", OUTSIDE),
        ("访问日志保留多久？法国的首都是哪里？", "90天", "法国的首都是哪里？"),
    ],
)
def test_of_two_parts_the_one_that_is_covered_is_answered_and_the_other_named(kb, question, value, missing):
    answer = kb.json("ask", question)
    assert (answer["outcome"], answer["verdict"], answer["missing"]) == ("partial", "ambiguous", [missing])
    assert value in answer["answer"]
    assert missing in answer["answer"]
    assert len(answer["citations"]) == 1


def test_people_see_references_trust_what_was_held_back_and_what_to_do(kb):
    shown = kb.run("ask", "How much does the Team plan cost a month in Q3 2026?").out
    assert "75 euros" in shown.splitlines()[0]
    assert "\n[1] Halden Relay facts, Q3 2026, file://sample/product/facts-2026-q3.md\n    confidence 0.90  [" in shown
    assert (
        "suppressed: 1 matched but was stopped\n   file://sample/notes/unconfirmed-price.md: low confidence (0.60)"
        in shown
    )
    assert "answered; evidence correct; 0 chat calls, 0 searches, " in shown.splitlines()[-1]
    refused = kb.run("ask", OUTSIDE)
    assert (refused.code, refused.err) == (0, "")
    assert "next: to have the web searched, set provider under [search]" in refused.out


def test_a_second_ask_gives_the_same_answer_from_the_same_memories_in_pieces_if_wanted(kb, inside):
    lines = kb.run("ask", INSIDE, "--stream", "--json").lines
    *before, last = [line["event"] for line in lines]
    assert (before[0], last) == ("step", "answer")
    assert set(before) == {"step", "token"}
    assert "".join(line["token"] for line in lines if line["event"] == "token") == lines[-1]["answer"]
    assert set(lines[-1]) == {"event", *KEYS}
    assert lines[-1]["answer_id"] != inside["answer_id"]
    assert lines[-1]["answer"] == inside["answer"]
    assert [c["memory_id"] for c in lines[-1]["citations"]] == [c["memory_id"] for c in inside["citations"]]
    shown = kb.run("ask", INSIDE, "--stream")
    assert shown.out.startswith(lines[-1]["answer"] + "\n\n[1] ")
    assert "retrieve: 5 passages" in shown.err


def test_a_trace_is_what_the_answer_said_and_every_grade_behind_it(kb, inside):
    answer = inside
    trace = kb.json("trace", answer["answer_id"])
    for key in ("answer_id", "outcome", "answer", "verdict", "reasons", "missing", "plan"):
        assert trace[key] == answer[key], key
    assert trace["path"] == answer["path"][:-1]  # it was written before its own last step
    assert trace["question"] == INSIDE
    assert [c["memory_id"] for c in trace["citations"]] == [c["memory_id"] for c in answer["citations"]]
    assert {e["label"] for e in trace["evaluations"]} <= {"relevant", "ambiguous", "irrelevant"}
    assert {e["evaluator"] for e in trace["evaluations"]} == {"reader"}
    shown = kb.run("trace", answer["answer_id"]).out
    assert f"question  {INSIDE}" in shown
    assert f"grades for: {INSIDE}" in shown


def test_feedback_moves_what_the_answer_cited_and_nothing_else(kb):
    answer = kb.json("ask", INSIDE)
    (cited,) = {c["memory_id"] for c in answer["citations"]}
    before = confidences(kb)
    given = kb.json("feedback", answer["answer_id"], "--good", "--by", "ada")
    assert [(e["memory_id"], e["kind"], e["weight"]) for e in given["events"]] == [(cited, "feedback", 0.5)]
    praised = confidences(kb)
    assert {id_ for id_, c in praised.items() if c != before[id_]} == {cited}
    assert praised[cited] > before[cited]
    assert kb.json("feedback", answer["answer_id"], "--good", "--by", "ada")["events"] == []
    again = kb.json("ask", INSIDE)
    shown = kb.run("feedback", again["answer_id"], "--bad", "--memory", cited)
    assert (shown.code, "→" in shown.out) == (0, True)
    blamed = confidences(kb)
    assert {id_ for id_, c in blamed.items() if c != praised.get(id_, c)} == {cited}
    assert blamed[cited] < praised[cited]


def test_feedback_on_a_memory_that_was_not_cited_is_refused_and_moves_nothing(kb, inside):
    before = confidences(kb)
    cited = {c["memory_id"] for c in inside["citations"]}
    other = next(id_ for id_ in before if id_ not in cited)
    error = kb.json("feedback", inside["answer_id"], "--good", "--memory", other, code=2)["error"]
    assert error["type"] == "InputError"
    assert confidences(kb) == before


def test_a_follow_up_takes_over_what_the_turn_before_spoke_of_and_says_so(kb):
    first = kb.json("ask", "How long are audit logs kept on the Team plan?", "--thread", "logs")
    assert "180 days" in first["answer"]
    then = kb.run("ask", "And on the Business plan?", "--thread", "logs").out
    assert "365 days" in then
    assert "understood as: " in then
    trace = kb.json("trace", then.split()[-1])
    assert trace["plan"]["carried"]
    assert "Business" in trace["plan"]["question"]
    assert trace["thread"] == "logs"


def test_the_past_knows_nothing_of_today_and_the_future_has_forgotten(kb):
    past = kb.json("ask", INSIDE, "--at", "-30d")
    assert (past["outcome"], past["citations"]) == ("refused", [])
    facts = ("--source", "file://sample/product/facts-2026-q3.md")
    future = kb.json("ask", "How much does the Team plan cost a month?", "--at", "+60d", *facts)
    assert (future["outcome"], future["reasons"][0]) == ("refused", "only_suppressed")
    assert {s["reason"] for s in future["suppressed"]} == {"faded"}


def test_a_question_can_be_limited_to_a_document_and_comes_from_standard_input(kb):
    plans = "file://sample/product/plans.md"
    answer = kb.json("ask", "How long are audit logs kept on the Business plan?", "--source", plans)
    assert {c["source"] for c in answer["citations"]} == {plans}
    done = kb.run("ask", "-", "--json", stdin=f"{INSIDE}\n")
    assert done.lines[0]["outcome"] == "answered"


def test_a_paid_search_waits_for_a_person_and_goes_on_when_approved(kb, paris):
    waiting = kb.json("ask", OUTSIDE, "--thread", "approved", code=5, **kept(paris))
    assert (waiting["outcome"], waiting["thread"], waiting["resumable"]) == ("waiting", "approved", True)
    assert waiting["provider"] == "tavily"
    assert waiting["queries"]
    assert paris.queries == []
    answer = kb.json("ask", "--resume", "--thread", "approved", "--decide", "approve", **kept(paris))
    assert answer["answer_id"] == waiting["answer_id"]
    assert len(paris.queries) == answer["usage"]["searches"] == 1
    assert "Paris" in answer["answer"]
    (cited,) = answer["citations"]
    assert (cited["url"], cited["verified"]) == (PARIS["url"], False)
    memory = kb.json("memory", "get", cited["memory_id"])
    assert (memory["kind"], memory["standing"]) == ("web", "quarantined")
    again = kb.json("ask", OUTSIDE)
    assert again["outcome"] == "refused"
    assert (cited["memory_id"], "quarantined") in [(s["memory_id"], s["reason"]) for s in again["suppressed"]]


def test_a_declined_search_is_not_made_and_an_edited_one_asks_the_given_words(kb, paris):
    wanted = "What is the capital of Portugal?"
    kb.json("ask", wanted, "--thread", "declined", code=5, **kept(paris))
    declined = kb.json("ask", "--resume", "--thread", "declined", "--decide", "decline", **kept(paris))
    assert (declined["outcome"], declined["usage"]["searches"], paris.queries) == ("refused", 0, [])
    assert "search_declined" in declined["reasons"]
    shown = kb.run("ask", wanted, "--thread", "edited", "--user", "ada", **kept(paris))
    assert shown.code == 5
    assert re.search(
        r"decide: kb ask --resume --thread edited --tenant default --user ada --answer \w+ --decide", shown.out
    )
    lisbon = ("--user", "ada", "--decide", "edit", "--query", "Lisbon capital")
    kb.json("ask", "--resume", "--thread", "edited", *lisbon, **kept(paris))
    assert paris.queries == ["Lisbon capital"]


def test_a_search_that_nobody_can_be_asked_about_is_not_made(kb, paris):
    waiting = kb.json("ask", OUTSIDE, code=5, **paid(paris))
    assert (waiting["outcome"], waiting["resumable"], paris.queries) == ("waiting", False, [])
    assert kb.json("ask", OUTSIDE, "--approve", "never", **paid(paris))["reasons"][-1] == "search_declined"
    assert kb.json("ask", OUTSIDE, "--approve", "always", **paid(paris))["outcome"] == "answered"


def test_a_dependency_that_is_away_is_a_typed_refusal_with_exit_code_4(kb):
    away = {"KB_INDEX_URI": "http://127.0.0.1:9", "KB_INDEX_TIMEOUT": "1"}
    answer = kb.json("ask", INSIDE, code=4, **away)
    assert (answer["outcome"], answer["reasons"][0]) == ("refused", "index_unavailable")
    assert answer["degraded"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("ask",),
        ("ask", "  "),
        ("ask", "x" * 8001),
        ("ask", "caf\udce9"),
        ("ask", "x", "--thread", "caf\udce9"),
        ("ask", "x", "--at", "yesterday"),
        ("ask", "x", "--decide", "approve"),
        ("ask", "x", "--query", "y"),
        ("ask", "x", "--evaluator", "llm"),
        ("ask", "x", "--resume", "--thread", "t"),
        ("ask", "--resume", "--decide", "approve"),
        ("ask", "--resume", "--thread", "t", "--decide", "edit"),
        ("ask", "--resume", "--thread", "t", "--at", "-1d"),
        ("ask", "--resume", "--thread", "nowhere", "--decide", "approve"),
        ("trace", "unknown"),
        ("trace", "caf\udce9"),
        ("feedback", "unknown", "--good"),
        ("feedback", "unknown"),
        ("feedback", "unknown", "--good", "--bad"),
        ("eval", "calibrate", "nowhere.jsonl"),
    ],
)
def test_a_bad_request_exits_2_and_says_what_to_do(kb, arguments):
    done = kb.run(*arguments)
    assert done.code == 2
    assert done.err.startswith("error: ") or "Usage" in done.err
    assert "Traceback" not in done.err
    assert kb.run(*arguments, "--json").lines[0]["error"]["exit_code"] == 2


def test_a_question_that_is_not_utf8_is_refused(kb):
    done = kb.run("ask", "-", "--json", stdin="caf\udce9")
    assert (done.code, done.lines[0]["error"]["type"]) == (2, "InputError")


@pytest.mark.parametrize("evaluator", ["reader", "fast"])
def test_calibrating_reports_quality_beside_the_majority_and_gives_thresholds(kb, evaluator):
    pairs = str(ROOT / "tests" / "data" / "calibrate.jsonl")
    report = kb.json("eval", "calibrate", pairs, "--evaluator", evaluator)
    assert report["evaluator"]["name"] == evaluator
    overall = report["overall"]
    assert overall["n"] >= 40
    assert overall["accuracy"] > overall["majority"]
    assert overall["auc"] > 0.8
    assert 0 <= overall["ece"] <= 1
    assert 0 <= overall["lower"] <= overall["upper"] <= 1
    shown = kb.run("eval", "calibrate", pairs, "--evaluator", evaluator)
    assert "[ask.thresholds.factual]\nlower = " in shown.out
    assert shown.err.splitlines()[-1] == f"graded {overall['n']} of {overall['n']}"


def test_ctrl_c_ends_a_question_cleanly(kb):
    process = kb.started("ask", INSIDE, "--stream", "--json")
    assert process.stdout is not None
    assert process.stdout.readline().startswith('{"event": "step", "node": "begin"')
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (
        130,
        "interrupted; what was stored stays, the next run goes on from there\n",
    )


def test_a_reader_who_leaves_during_a_stream_is_no_error(kb):
    process = kb.started("ask", INSIDE, "--stream", "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert (process.stderr.read(), process.wait(timeout=120)) == ("", 0)
    process.stderr.close()
