"""An agent's shell decides nothing, whatever the command and its flags; it may look."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import typer

from kb.errors import InputError, KbError, Refused
from kb_cli.acting import actor_of, is_agent
from kb_cli.main import app

if TYPE_CHECKING:
    from pathlib import Path

DECIDING = (
    ("memory", "forget", "m1", "--erase", "--yes"),
    ("memory", "forget", "m1", "--erase", "--yes", "--by", "ann", "--role", "person"),
    ("rollback", "--memory", "m1", "--yes"),
    ("rollback", "--memory", "m1", "--yes", "--by", "ann"),
    ("govern", "undo", "s1"),
    ("govern", "apply", "plan.json"),
    ("govern", "run", "prune"),
    ("govern", "run", "gc", "--allow-mass"),
    ("govern", "run", "recheck", "--slot", "now"),
    ("ingest", ".", "--verified"),
    ("ingest", ".", "--trust", "curated"),
    ("key", "create", "ann", "--scope", "govern"),
    ("key", "revoke", "0123456789abcdef"),
    ("ingest",),
    ("ingest", "."),
    ("ingest", ".", "--watch"),
    ("ingest", ".", "--no-verified", "--trust", "document"),
    ("import", "kb.tar"),
    ("reindex",),
    ("reconcile",),
    ("store", "migrate", "--to", "http://milvus:19530"),
    ("store", "migrate", "--ledger-to", "sqlite:///other.db"),
    ("daemon",),
    ("serve", "--with-daemon", "--port", "0"),
    ("serve", "--open", "--port", "0"),
)


@pytest.fixture(autouse=True)
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell of an agent, in a folder without a store."""
    monkeypatch.setenv("KB_ROLE", "agent")
    monkeypatch.setenv("KB_DATA_DIR", str(tmp_path / "kb"))
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> object:
    return typer.main.get_command(app).main(list(arguments), standalone_mode=False)


def said(*arguments: str) -> str:
    """Return why a command refuses, "" when it does not."""
    try:
        run(*arguments)
    except KbError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("arguments", DECIDING, ids=" ".join)
def test_an_agent_is_refused_before_anything_is_opened(arguments: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"agent.* may not"):
        run(*arguments)
    assert not (tmp_path / "kb" / "ledger.db").exists()


@pytest.mark.parametrize("arguments", DECIDING[:6], ids=" ".join)
def test_a_person_is_not_refused_for_what_they_are(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """What they name is not there; that is another matter."""
    monkeypatch.delenv("KB_ROLE")
    assert "may not" not in said(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("rollback", "--memory", "m1", "--plan"),
        ("memory", "forget", "m1", "--erase", "--plan"),
        ("govern", "plan", "prune"),
        ("govern", "run", "prune", "--dry-run"),
        ("govern", "review"),
        ("govern", "policy", "check"),
        ("ingest", ".", "--verified", "--plan"),
        ("import", "kb.tar", "--plan"),
        ("store", "migrate", "--ledger-to", "sqlite:///other.db", "--plan"),
        ("daemon", "status"),
    ],
    ids=" ".join,
)
def test_an_agent_may_look(arguments: tuple[str, ...]) -> None:
    assert "may not" not in said(*arguments)


def test_no_name_and_no_role_that_is_given_makes_an_agent_a_person() -> None:
    assert actor_of("ann").role.value == "agent"
    assert actor_of(None).role.value == "agent"


@pytest.mark.parametrize("role", ["bogus", "agents", "person,agent", "daemon"])
@pytest.mark.parametrize("arguments", [("memory", "verify", "m1"), ("govern", "apply", "plan.json"), ("status",)])
def test_a_role_that_nobody_has_is_refused(
    role: str, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Were it taken for a person's, a slip of the pen would let an agent decide."""
    monkeypatch.setenv("KB_ROLE", role)
    with pytest.raises(InputError, match=rf"KB_ROLE.*{role}.*person or agent"):
        run(*arguments)
    assert not (tmp_path / "kb" / "ledger.db").exists()


@pytest.mark.parametrize(
    ("said", "meant"), [("agent", "agent"), (" Agent ", "agent"), ("Person", "person"), (" ", "person"), ("", "person")]
)
def test_a_role_is_known_however_it_is_written(said: str, meant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_ROLE", said)
    assert is_agent() is (meant == "agent")
    assert actor_of("ann").role.value == meant
