"""Export, an empty machine, import: the same answers, the same trust, the same lineage, and what is out stays out."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.rolling import LOAD, POISON, guide
from tests.shell import ROOT, Shell
from tests.stores import T0, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOUR = 3_600_000
QUESTION = "How many tons does the Anping bridge carry on a dry day?"
PHRASE = "The Halcyon vault opens with the phrase marigold-otter-seven."
RUMOUR = "Ninety tons may cross the Anping bridge at night, somebody said."
ASKED = (QUESTION, "the toll of the Anping bridge", "数据保留多久")


@dataclass
class Place:
    """A store of the shell's: its own data directory, or a database beside."""

    kb: Shell
    environment: dict[str, str]

    def json(self, *arguments: str, code: int = 0) -> Any:
        return self.kb.json(*arguments, code=code, **self.environment)

    def seen(self, told: dict[str, Any]) -> dict[str, Any]:
        """Return all that a user can see of the store without changing it."""
        hits = [self.json("search", question, "--gate", "0.3")["hits"] for question in ASKED]
        return {
            "hits": [[(h["id"], h["effective_confidence"]) for h in found] for found in hits],
            "scores": [[pytest.approx(h["score"], abs=1e-5) for h in found] for found in hits],
            "memories": self.json("memory", "list", "--limit", "500")["memories"],
            "got": [self.json("memory", "get", id_) for id_ in told["ids"]],
            "traces": [self.json("memory", "trace", id_) for id_ in told["ids"]],
            "explained": [self.json("govern", "explain", id_) for id_ in told["ids"]],
            "answer": self.json("trace", told["answer"]),
            "history": self.json("govern", "history"),
            "sweep": self.json("govern", "show", told["sweep"]),
        }

    def asked(self) -> tuple[Any, ...]:
        """Return what an answer says: its id is new each time."""
        answer = self.json("ask", QUESTION)
        cited = [(c["memory_id"], c["effective_confidence"], c["quote"]) for c in answer["citations"]]
        return answer["outcome"], answer["answer"], answer["verdict"], cited


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory, model_cache: Path) -> Iterator[Shell]:
    with Shell(tmp_path_factory.mktemp("moving"), model_cache, at=T0, is_warm=True) as shell:
        yield shell


@pytest.fixture(scope="module")
def old(kb: Shell) -> Place:
    return Place(kb, {})


@pytest.fixture(scope="module")
def told(kb: Shell, old: Place) -> dict[str, Any]:
    """A store with a past: documents in two versions, answers, evidence, decisions, a rollback, an erasure."""
    shutil.copytree(ROOT / "sample" / "policy", kb.home / "docs")
    shutil.copytree(ROOT / "sample" / "zh", kb.home / "docs" / "zh")
    write(kb.home / "docs", guide_md=guide(load="The Anping bridge carries thirty tons on a dry day."))
    assert kb.run("ingest", "docs").code == 0
    write(kb.home / "docs", guide_md=guide())
    assert kb.run("ingest", "docs").code == 0
    answer = old.json("ask", QUESTION)
    old.json("feedback", answer["answer_id"], "--good", "--by", "ada")
    cited = answer["citations"][0]["memory_id"]
    other = next(h["id"] for h in old.json("search", ASKED[1])["hits"] if h["id"] != cited)
    old.json("memory", "verify", other, "--by", "ada", "--reason", "I paid it")
    note = old.json("memory", "add", "Forty tons, the answer said.", "--from", answer["answer_id"])["id"]
    rumour = old.json("memory", "add", RUMOUR)["id"]
    sweep = old.json("rollback", "--memory", rumour, "--yes", "--reason", "a rumour")["sweep_id"]
    secret = old.json("memory", "add", PHRASE)["id"]
    old.json("memory", "forget", secret, "--erase", "--yes", "--by", "ada")
    kb.at = T0 + HOUR
    return {"answer": answer["answer_id"], "ids": [cited, other, note, rumour], "rumour": rumour, "sweep": sweep}


@pytest.fixture(params=["sqlite", "postgresql"])
def new(kb: Shell, request: pytest.FixtureRequest, told: dict[str, Any]) -> Iterator[Place]:
    """An empty machine."""
    assert told
    data = kb.home / request.param
    environment = {"KB_DATA_DIR": str(data)}
    if request.param == "postgresql":
        environment["KB_LEDGER_URL"] = str(request.getfixturevalue("postgres_url"))
    yield Place(kb, environment)
    kb.run("store", "stop", **environment)


def test_a_store_on_an_empty_machine_is_the_same_store(
    kb: Shell, old: Place, new: Place, told: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    archive = f"{request.node.callspec.params['new']}.tar"
    before = old.seen(told)
    wrote = old.json("export", archive, "--with-embeddings")
    plan = new.json("import", archive, "--plan")
    assert (plan["plan"], plan["digest"], plan["tables"]) == (True, wrote["digest"], wrote["tables"])
    done = new.json("import", archive)
    assert (done["digest"], done["repaired"], done["embedded"]) == (wrote["digest"], 0, 0)
    assert done["notices"] == []
    assert new.json("reconcile")["repaired"] == 0

    assert new.seen(told) == before
    assert new.asked() == old.asked()
    assert LOAD in str(new.asked())

    refused = new.json("memory", "add", PHRASE, code=5)
    assert refused["error"]["type"] == "Refused"
    again = new.json("memory", "add", RUMOUR)
    assert again["standing"] == "quarantined", "what was rolled back stays out"
    write(kb.home / "docs", guide_md=guide())
    assert new.json("ingest", "docs")["documents"]["unchanged"] > 0
    assert new.json("import", archive, code=5)["error"]["type"] == "Refused"

    new.json("govern", "undo", told["sweep"])
    assert new.json("memory", "get", told["rumour"])["standing"] == "active"
    assert old.json("memory", "get", told["rumour"])["standing"] == "quarantined"
    assert POISON not in str(new.asked())


def test_a_damaged_archive_leaves_no_trace(kb: Shell, old: Place, told: dict[str, Any]) -> None:
    assert told
    old.json("export", "damaged")
    (kb.home / "damaged" / "memories.jsonl.gz").write_bytes(b"")
    empty = Place(kb, {"KB_DATA_DIR": str(kb.home / "nowhere")})
    assert empty.json("import", "damaged", code=5)["error"]["type"] == "Refused"
    assert not (kb.home / "nowhere").exists()
    assert old.json("export", "damaged", code=2)["error"]["type"] == "InputError"


def test_the_ledger_moves_to_postgresql_and_says_what_to_set(
    kb: Shell, old: Place, told: dict[str, Any], postgres_url: str
) -> None:
    before = old.seen(told)
    plan = old.json("store", "migrate", "--ledger-to", postgres_url, "--plan")
    assert plan["tables"]["memories"] == len(before["memories"])
    done = old.json("store", "migrate", "--ledger-to", postgres_url)
    assert (done["in_step"], done["embedded"], done["repaired"]) == (True, 0, 0)
    assert set(done["to_set"]) == {"ledger_url"}
    there = Place(kb, {"KB_LEDGER_URL": postgres_url})
    assert there.seen(told) == before
    assert old.seen(told) == before
    assert kb.run("store", "migrate").code == 2
    assert kb.run("store", "migrate", "--to", "lite").code == 2
