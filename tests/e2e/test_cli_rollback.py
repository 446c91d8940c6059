"""Rolling back as users of the command line meet it: look, refuse, act, stay out, take back; and a memory's trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.rolling import LOAD, POISON, guide
from tests.shell import Shell
from tests.stores import write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUESTION = "How many tons does the Anping bridge carry on a dry day?"


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory, model_cache: Path) -> Iterator[Shell]:
    home = tmp_path_factory.mktemp("rolling")
    with Shell(home, model_cache) as shell:
        yield shell


@pytest.fixture(scope="module")
def poisoned(kb: Shell) -> dict[str, Any]:
    """A good guide, then a bad version of it, an answer from that, and a note from the answer."""
    write(kb.home / "docs", guide_md=guide())
    kb.json("ingest", "docs")
    write(kb.home / "docs", guide_md=guide(load=POISON))
    batch = kb.json("ingest", "docs")["run_id"]
    answer = kb.json("ask", QUESTION)
    note = kb.json("memory", "add", "Ninety tons may cross, I learned.", "--from", answer["answer_id"])
    return {"batch": batch, "answer": answer, "note": note}


def found(kb: Shell, words: str) -> list[str]:
    return [h["text"] for h in kb.json("search", words, "--gate", "0")["hits"] if words in h["text"]]


def test_a_rollback_is_looked_at_refused_done_and_undone(kb: Shell, poisoned: dict[str, Any]) -> None:
    named = ("rollback", "--batch", poisoned["batch"])
    assert found(kb, POISON)
    plan = kb.json(*named, "--plan")
    assert (plan["plan"], plan["sweep_id"]) == (True, None)
    assert plan["counts"] == {
        "quarantine": 3,
        "revive": 1,
        "put_back": 1,
    }  # passage, key, note; its elder; the document
    assert [a["answer_id"] for a in plan["answers"]] == [poisoned["answer"]["answer_id"]]
    assert plan["answers"][0]["question"] == QUESTION
    assert plan["radius"]["note"] == 1

    refused = kb.run(*named)
    assert refused.code == 5
    assert "--yes" in refused.err
    assert kb.json(*named, code=5)["error"]["type"] == "Refused"
    assert kb.json(*named, "--yes", code=5, KB_ROLE="agent")["error"]["message"].startswith("agent")
    assert kb.json(*named, "--plan", KB_ROLE="agent")["counts"] == plan["counts"], "an agent may look"
    assert found(kb, POISON), "neither the plan nor the refusals changed anything"

    done = kb.json(*named, "--yes", "--reason", "the build server was compromised")
    assert done["sweep_id"]
    assert done["counts"] == plan["counts"]
    assert not found(kb, POISON)
    assert not found(kb, "Ninety tons may cross")
    assert found(kb, LOAD)
    synced = kb.json("ingest", "docs")
    assert synced["documents"]["skipped"] == 1
    assert done["sweep_id"] in synced["skipped"][0]["reason"]
    again = kb.json(*named, "--yes")
    assert (again["sweep_id"], again["counts"]) == (None, {})
    assert "nothing to roll back" in kb.run(*named, "--yes").out

    kb.json("govern", "undo", done["sweep_id"])
    assert found(kb, POISON)
    assert not found(kb, LOAD)
    assert kb.json("ingest", "docs")["documents"]["unchanged"] == 1


def test_a_misspelt_source_is_an_error(kb: Shell, poisoned: dict[str, Any]) -> None:
    assert poisoned
    assert kb.json("rollback", "--source", "dosc", "--yes", code=2)["error"]["type"] == "InputError"
    assert kb.json("rollback", "--yes", code=2)["error"]["type"] == "InputError"


def test_a_memorys_trace_goes_up_and_down(kb: Shell, poisoned: dict[str, Any]) -> None:
    answer, note = poisoned["answer"], poisoned["note"]
    cited = answer["citations"][0]["memory_id"]
    down = kb.json("memory", "trace", cited, "--down")
    assert {answer["answer_id"], note["id"]} <= {step["id"] for step in down["down"]}
    assert down["up"] == []
    assert poisoned["batch"] in {v["run_id"] for v in down["document"]["versions"]}
    up = kb.json("memory", "trace", note["id"], "--up")
    ways = {step["id"]: (step["by"], step["distance"]) for step in up["up"]}
    assert ways[answer["answer_id"]] == ("derived", 1)
    assert ways[cited] == ("cited", 2)
    told = kb.run("memory", "trace", note["id"])
    assert told.code == 0
    assert answer["answer_id"] in told.out


def test_what_a_person_took_out_is_told_to_wait_for_nobody(kb: Shell) -> None:
    texts = {
        "rejected": "The ferry of Xiapu leaves at dawn, so the keeper says.",
        "rolled_back": "The ferry of Xiapu leaves at noon, so the miller says.",
        "quarantined": "The ferry of Xiapu leaves at dusk, so the smith says.",
    }
    by = {"quarantined": "agent"}
    ids = {why: kb.json("memory", "add", text, "--by", by.get(why, "person"))["id"] for why, text in texts.items()}
    kb.json("memory", "reject", ids["rejected"], "--by", "ann", "--reason", "hearsay of the keeper")
    kb.json("rollback", "--memory", ids["rolled_back"], "--yes")
    words = "When does the ferry of Xiapu leave?"
    stopped = kb.json("search", words)["suppressed"]
    assert {s["id"]: s["reason"] for s in stopped["memories"]} == {id_: why for why, id_ in ids.items()}
    assert stopped["reasons"] == dict.fromkeys(ids, 1)
    for command in ("search", "ask"):
        told = kb.run(command, words).out
        lines = {why: next(line for line in told.splitlines() if line.endswith(f"[{id_}]")) for why, id_ in ids.items()}
        assert "waits for corroboration or verification" in lines["quarantined"]
        for why in ("rejected", "rolled_back"):
            assert f"{why.replace('_', ' ')} (" in lines[why]
            assert "waits" not in lines[why]
            assert "only a person" in lines[why]
            assert "kb govern explain" in lines[why]
        assert "hearsay of the keeper" not in told
