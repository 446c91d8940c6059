"""Erasing as users of the command line meet it: refused, looked at, done with consent, never again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.erasing import files, spellings
from tests.shell import Shell
from tests.stores import write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENGLISH = "The Halcyon vault opens with the phrase marigold-otter-seven every Tuesday."
CHINESE = "青鸾库房的备用口令是紫檀渡口三百二十七号。"
WORDS = ("marigold-otter-seven", "Halcyon", "青鸾", "紫檀渡口")


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory, model_cache: Path) -> Iterator[Shell]:
    home = tmp_path_factory.mktemp("forgetting")
    with Shell(home, model_cache, {"KB_ASK__GRADE_CACHE": "sqlite", "KB_ASK__CHECKPOINTER": "sqlite"}) as shell:
        yield shell


def places(kb: Shell) -> list[str]:
    held = {str(path): path.read_bytes() for path in files(kb.home / "data")}
    return sorted(p for p, data in held.items() for w in WORDS for s in spellings(w).values() if s in data)


def test_a_secret_is_erased_with_consent_and_for_good(kb: Shell) -> None:
    write(
        kb.home / "docs", vault_md=f"# Vault\n\n{ENGLISH}\n\n{CHINESE}\n", bridge_md="# Bridge\n\nIt opens at noon.\n"
    )
    kb.json("ingest", "docs")
    answer = kb.json("ask", "With which phrase does the Halcyon vault open?")
    (hit, *_) = kb.json("search", "the phrase of the vault")["hits"]
    named = ("memory", "forget", hit["id"])

    assert kb.json(*named, code=5)["error"]["type"] == "Refused"
    assert "--erase" in kb.run(*named).err
    plan = kb.json(*named, "--erase", "--plan")
    assert plan["plan"] is True
    assert [a["id"] for a in plan["answers"]] == [answer["answer_id"]]
    refused = kb.run(*named, "--erase")
    assert (refused.code, "1 rest on it and go" in refused.out, "--yes" in refused.err) == (5, True, True)
    assert kb.json(*named, "--erase", "--yes", "--role", "agent", code=5)["error"]["message"].startswith("agent")
    assert kb.json(*named, "--erase", "--yes", code=5, KB_ROLE="agent")["error"]["message"].startswith("agent")
    assert places(kb)

    done = kb.json(*named, "--erase", "--yes", "--by", "ada", "--reason", "request 17")
    assert (done["complete"], done["index_rows"], any(done["left"].values())) == (True, 0, False)
    assert [m["id"] for m in done["memories"]] == [hit["id"]]
    assert places(kb) == []
    assert kb.json("search", "the phrase of the vault")["hits"][0]["id"] != hit["id"]
    assert kb.run("memory", "get", hit["id"]).code == 2
    assert kb.run("trace", answer["answer_id"]).code == 2
    again = kb.run(*named, "--erase", "--yes")
    assert (again.code, "erased before" in again.out) == (0, True)
    undo = kb.run("govern", "undo", done["sweep_id"])
    assert (undo.code, "cannot be undone" in undo.err) == (5, True)
    assert kb.json("ingest", "docs")["documents"]["failed"] == 0
    assert places(kb) == []


def test_a_source_or_ids_must_be_named_and_known(kb: Shell) -> None:
    assert kb.run("memory", "forget", "--erase").code == 2
    assert kb.run("memory", "forget", "0" * 32, "--source", "docs", "--erase").code == 2
    assert kb.run("memory", "forget", "0" * 32, "--erase", "--yes").code == 2
    assert kb.run("memory", "forget", "--source", "nowhere", "--erase", "--yes").code == 2


def test_no_log_says_what_a_memory_says_whatever_is_done_with_it(kb: Shell) -> None:
    secret, also = "periwinkle-badger-nine", "碧螺春四百零九"
    text = f"The Orchid cellar opens with the phrase {secret} every Monday. 兰花地窖的口令是{also}号。"
    other = f"The Orchid cellar opens with the phrase {secret} every Friday. 兰花地窖的口令是{also}号。"
    write(kb.home / "cellar", cellar_md=f"# Cellar\n\n{text}\n")
    logs: list[str] = []

    def told(*arguments: str) -> dict[str, Any]:
        done = kb.run("--log-level", "debug", *arguments, "--json")
        assert done.code == 0, done.err
        logs.append(done.err)
        return done.lines[0]

    told("ingest", "cellar")
    answer = told("ask", "With which phrase does the Orchid cellar open?")
    assert secret in str(answer)
    note = told("memory", "add", other)
    told("govern", "run", "recheck")
    told("rollback", "--source", "cellar", "--yes")
    told("ingest", "cellar")
    (hit, *_) = [m for m in told("memory", "list", "--limit", "100")["memories"] if m["kind"] == "document"]
    told("memory", "forget", hit["id"], note["id"], "--erase", "--yes", "--with-derived", "--with-copies")
    assert any('"event"' in log for log in logs), "it is logged what is done"
    said = [line for log in logs for line in log.splitlines() for w in ("periwinkle", "碧") if w in line]
    assert said == []


def test_an_undo_says_how_much_of_its_sweep_was_erased_since(kb: Shell) -> None:
    one, two = (
        kb.json("memory", "add", f"The bell of the {name} pier rings at noon.", "--by", "person")["id"]
        for name in ("east", "west")
    )
    pinned = kb.json("memory", "pin", one, two, "--by", "ada")["sweep_id"]
    kb.json("memory", "forget", one, "--erase", "--yes", "--by", "ada")
    undone = kb.run("govern", "undo", pinned, "--by", "ada")
    assert (undone.code, "1 of what it was to put back had been erased" in undone.out) == (3, True)
    shown = kb.json("govern", "show", kb.json("govern", "history")["sweeps"][0]["sweep_id"])
    assert (shown["gone"], shown["counts"]) == (1, {"pin": 1, "skipped": 1})

    verified = kb.json("memory", "verify", two, "--by", "ada")["sweep_id"]
    kb.json("memory", "forget", two, "--erase", "--yes", "--by", "ada")
    refused = kb.json("govern", "undo", verified, "--by", "ada", code=5)["error"]
    assert refused["type"] == "Refused"
    assert "is left to put back" in refused["message"]
    assert kb.json("govern", "show", verified)["status"] == "done"
