"""`kb ask` killed while its chat model is at work, and `kb ask --resume` after: all is real but the model."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.fakes.chat_server import ChatServer, Say
from tests.shell import Shell

QUESTION = "How long are access logs kept?"
TEXT = "Access logs are kept for 90 days."


def model(request):
    """Plan, grade and answer as a model would."""
    if request.asks_for == "ProposedPlan":
        return {"question": QUESTION, "sub_questions": [QUESTION], "type": "factual", "is_current": False}
    if request.asks_for:
        return {"reason": "it says so", "answer": "90 days", "label": "relevant", "relevance": 0.95}
    return f"{TEXT} [1]"


@pytest.fixture
def shell(tmp_path, model_cache):
    home = tmp_path / "home"
    (home / "docs").mkdir(parents=True)
    (home / "docs" / "retention.md").write_text(f"# Data retention\n\n## Logs\n\n{TEXT}\n")
    with ChatServer(model) as server, Shell(home, model_cache) as shell:
        shell.settings = {
            "KB_CHAT__MODEL": server.model, "KB_CHAT__BASE_URL": server.url, "KB_CHAT__API_KEY": "none",
            "KB_CHAT__TIMEOUT_SECONDS": "240", "KB_ASK__NODE_SECONDS": "250", "KB_ASK__EVALUATOR": "llm",
            "KB_ASK__CHECKPOINTER": "sqlite", "KB_ASK__DURABILITY": "sync",
        }  # fmt: skip
        assert shell.run("ingest", "docs").code == 0
        yield shell, server


def test_a_killed_command_is_gone_on_with_by_another(shell):
    shell, server = shell
    answering = []

    def hanging(request):
        said = model(request)
        if isinstance(said, dict):
            return said
        answering.append(request)
        os.kill(process.pid, signal.SIGKILL)
        return Say(hangs=True)

    server.respond = hanging
    process = shell.started("ask", QUESTION, "--thread", "t")
    process.communicate(timeout=200)
    assert (process.returncode, len(answering)) == (-signal.SIGKILL, 1)
    before = [request.asks_for for request in server.requests]
    assert before.count("ProposedPlan") == 1
    server.respond, asked = model, len(server.requests)

    refused = shell.run("ask", "--resume", "--thread", "other", **shell.settings)
    assert (refused.code, len(server.requests)) == (2, asked)
    answer = shell.json("ask", "--resume", "--thread", "t", **shell.settings)
    assert answer["outcome"] == "answered"
    assert "90 days" in answer["answer"]
    assert [request.asks_for for request in server.requests[asked:]] == [""]  # the answer alone is asked for again
    assert [step["node"] for step in answer["path"]].count("plan") == 1
    again = shell.run("ask", "--resume", "--thread", "t", **shell.settings)
    assert again.code == 2
    assert "no question waits" in again.err
    trace = shell.run("trace", answer["answer_id"], "--json", **shell.settings)
    assert (trace.code, json.loads(trace.out)["answer_id"]) == (0, answer["answer_id"])
