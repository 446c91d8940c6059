"""Watching the evaluator from the command line: a golden set frozen, drifting, accepted; sources learned from a log."""

from __future__ import annotations

import json
import shutil
import tomllib
from typing import TYPE_CHECKING

import pytest

from kb.telemetry import Metric
from tests.chatting import Teller
from tests.fakes.chat_server import ChatServer
from tests.fakes.collector import Collector
from tests.shell import ROOT, Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOWER = {"KB_ASK__THRESHOLDS": '{"factual": {"lower": 0.999, "upper": 0.999}}'}


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory, model_cache: Path) -> Iterator[Shell]:
    with Shell(tmp_path_factory.mktemp("watching"), model_cache) as shell:
        yield shell


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    path = tmp_path / "golden.jsonl"
    shutil.copy(ROOT / "tests" / "data" / "calibrate.jsonl", path)
    return path


@pytest.mark.parametrize("evaluator", ["fast", "reader"])
def test_a_golden_set_is_frozen_once_and_does_not_drift_by_itself(kb, golden, evaluator):
    arguments = ("eval", "drift", str(golden), "--evaluator", evaluator)
    first = kb.json(*arguments)
    frozen = golden.with_name("golden.baseline.json")
    assert (first["state"], first["path"], first["baseline"]) == ("created", str(frozen), None)
    before = frozen.read_bytes()
    again = kb.json(*arguments)
    assert (again["state"], again["flips"], again["unknown"]) == ("within", [], [])
    assert again["comparison"]["moved"] == 0.0
    assert again["comparison"]["interval"][0] < 0 < again["comparison"]["interval"][1]
    assert again["measures"] == first["measures"] == again["baseline"]["measures"]
    assert (again["baseline"]["evaluator_changed"], again["baseline"]["golden_changed"]) == (False, False)
    assert frozen.read_bytes() == before
    shown = kb.run(*arguments)
    assert (shown.code, shown.out.splitlines()[-1]) == (0, "no drift")


def test_drift_exits_5_names_the_flips_counts_and_is_accepted_on_request(kb, golden):
    arguments = ("eval", "drift", str(golden), "--evaluator", "fast")
    assert "there was no baseline" in kb.run(*arguments).out
    frozen = golden.with_name("golden.baseline.json").read_bytes()
    with Collector() as collector:
        report = kb.json(*arguments, code=5, KB_TELEMETRY_ENDPOINT=collector.endpoint, **LOWER)
    assert Metric.DRIFT_CHECKS in collector.metrics
    assert (report["state"], report["baseline"]["evaluator_changed"]) == ("drifted", True)
    lost = [flip for flip in report["flips"] if flip["before"]["verdict"] == "correct"]
    assert report["comparison"]["lost"] == len(lost) > 2
    assert {flip["now"]["verdict"] for flip in report["flips"]} == {"incorrect"}
    lines = golden.read_text(encoding="utf-8").splitlines()
    assert all(json.loads(lines[flip["line"] - 1])["question"] == flip["question"] for flip in report["flips"])
    shown = kb.run(*arguments, **LOWER)
    assert shown.code == 5
    assert f"flipped: line {lost[0]['line']}: correct → incorrect: " in shown.out
    assert "drifted: " in shown.out
    assert golden.with_name("golden.baseline.json").read_bytes() == frozen
    wide = ("--max-flipped", "1", "--max-drop", "1", "--max-moved", "1")
    assert kb.json(*arguments, *wide, **LOWER)["state"] == "within"
    assert kb.json(*arguments, "--accept", **LOWER)["state"] == "accepted"
    assert kb.json(*arguments, **LOWER)["state"] == "within"


def test_a_chat_model_that_is_away_exits_4_and_freezes_nothing(kb, golden):
    with ChatServer() as server:
        server.refuses = dict.fromkeys(("schema", "tool", "words"), 503)
        chat = {"KB_CHAT__MODEL": server.model, "KB_CHAT__BASE_URL": server.url, "KB_CHAT__RETRIES": "0"}
        arguments = ("eval", "drift", str(golden), "--evaluator", "llm")
        report = kb.json(*arguments, code=4, **chat)
        shown = kb.run(*arguments, **chat)
    assert (report["state"], len(report["unknown"]), report["comparison"]) == ("ungraded", 44, None)
    assert all(pair["problem"] for pair in report["unknown"])
    assert (shown.code, shown.out.count("not graded: line ")) == (4, 44)
    assert not golden.with_name("golden.baseline.json").exists()


def test_grades_that_are_remembered_do_not_hide_drift(kb, golden):
    golden.write_text("".join(golden.read_text(encoding="utf-8").splitlines(keepends=True)[:8]), encoding="utf-8")
    with ChatServer(Teller(grades={"Saturdays": 0.9})) as server:
        chat = {"KB_CHAT__MODEL": server.model, "KB_CHAT__BASE_URL": server.url, "KB_ASK__GRADE_CACHE": "sqlite"}
        for command in ("calibrate", "drift"):
            kb.json("eval", command, str(golden), "--evaluator", "llm", **chat)
        assert len(server.requests) == 16
        kb.json("eval", "calibrate", str(golden), "--evaluator", "llm", **chat)
        assert len(server.requests) == 16
        server.respond = Teller(otherwise=0.9)
        report = kb.json("eval", "drift", str(golden), "--evaluator", "llm", code=5, **chat)
    assert report["baseline"]["evaluator_changed"] is False
    assert report["comparison"]["compared"] == 8


def test_a_baseline_elsewhere_is_used_and_a_spoilt_one_exits_2(kb, golden, tmp_path):
    place = tmp_path / "frozen.json"
    arguments = ("eval", "drift", str(golden), "--evaluator", "fast", "--baseline", str(place))
    assert kb.json(*arguments)["path"] == str(place)
    assert not golden.with_name("golden.baseline.json").exists()
    place.write_text("{}")
    assert kb.json(*arguments, code=2)["error"]["message"].endswith("is no baseline of form 1")
    assert kb.run(*arguments[:-1], str(golden)).code == 2
    assert kb.run(*arguments, "--max-drop", "7").code == 2


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    rows = [
        *({"question": "How deep is it?", "sources": 1, "right": n % 4 > 0} for n in range(40)),
        *({"question": "How deep is it?", "sources": ["a", "b"], "right": True} for _ in range(40)),
        *({"type": "creative", "sources": 1, "right": True} for _ in range(5)),
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_sources_are_learned_from_a_log_and_given_as_lines_for_the_settings(kb, log):
    learned = kb.json("eval", "sources", str(log))
    factual, creative = learned["types"]["factual"], learned["types"]["creative"]
    assert (factual["min_sources"], factual["learned"]) == (2, True)
    assert [(row["sources"], row["kept"], row["right"]) for row in factual["rows"]] == [(1, 80, 70), (2, 40, 40)]
    assert (creative["min_sources"], creative["learned"]) == (1, False)
    assert tomllib.loads(learned["toml"]) == {"ask": {"thresholds": {"factual": {"min_sources": 2}}}}
    shown = kb.run("eval", "sources", str(log))
    assert shown.code == 0
    assert "[ask.thresholds.factual]\nmin_sources = 2" in shown.out
    assert learned["log"][:12] in shown.out
    assert "creative: one source stays enough: 5 answers" in shown.out
    assert kb.json("eval", "sources", str(log), "--target", "0.8")["types"]["factual"]["min_sources"] == 1
    assert kb.json("eval", "sources", str(log), "--need", "50")["types"]["factual"]["learned"] is False


def test_a_history_without_feedback_or_two_logs_at_once_exit_2(kb, log):
    assert kb.json("eval", "sources", "--from-history", code=2)["error"]["type"] == "InputError"
    assert kb.run("eval", "sources").code == 2
    assert kb.run("eval", "sources", str(log), "--from-history").code == 2
