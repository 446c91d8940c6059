"""`kb govern run` and `kb daemon status`: what they print and how they end, over a real ledger."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import structlog
import typer

from jobs.names import JobName
from jobs.slots import job_lock
from kb.errors import ExitCode, InputError, Locked
from kb.ledger import open_ledger
from kb_cli import daemon, jobs
from kb_cli.jobs import JobOption
from tests.daemons import faded, retired, seed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kb.ledger import Ledger

app = typer.Typer(pretty_exceptions_enable=False)
app.command("run")(jobs.run)
app.add_typer(daemon.app, name="daemon")


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    monkeypatch.setenv("KB_DATA_DIR", str(tmp_path / "kb"))
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # the log is no part of what is printed
    with open_ledger(None, data_dir=tmp_path / "kb") as opened:
        yield opened
    structlog.reset_defaults()


@pytest.fixture
def kb(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def called(*arguments: str) -> tuple[int, str]:
        code = app(list(arguments), standalone_mode=False)
        return int(code or 0), capsys.readouterr().out

    return called


def shown(answer: tuple[int, str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer[1])
    return found


def test_every_job_can_be_named() -> None:
    assert [option.value for option in JobOption] == [job.value for job in JobName]


def test_a_run_gives_its_sweeps_actions_and_counts(ledger: Ledger, kb: Callable[..., tuple[int, str]]) -> None:
    memories = faded(3)
    seed(ledger, memories)
    dry = shown(kb("run", "prune", "--dry-run", "--json"))
    assert (dry["sweep_ids"], dry["counts"], dry["dry_run"]) == ([], {"retire": 3}, True)
    assert retired(ledger) == 0
    done = shown(kb("run", "prune", "--json"))
    assert len(done["sweep_ids"]) == 1
    assert {a["memory_id"] for a in done["actions"]} == {m.id for m in memories}
    assert {(a["action"], a["reason"]) for a in done["actions"]} == {("retire", "faded")}
    assert (done["counts"], done["outcome"], done["errors"], done["exit_code"]) == ({"retire": 3}, "done", [], 0)
    assert retired(ledger) == 3
    with ledger.read() as tx:
        assert tx.slots.latest("prune") == [], "a run by hand is no slot"


def test_a_run_is_told_to_people(ledger: Ledger, kb: Callable[..., tuple[int, str]]) -> None:
    seed(ledger, faded(2))
    code, out = kb("run", "prune")
    assert code == 0
    assert out.startswith("prune: 2 retire; done")
    assert "kb govern undo" in out


def test_one_tenant_can_be_named(ledger: Ledger, kb: Callable[..., tuple[int, str]]) -> None:
    seed(ledger, [*faded(1, tenant="one"), *faded(1, tenant="two")])
    kb("run", "prune", "--tenant", "two")
    assert (retired(ledger, "one"), retired(ledger, "two")) == (0, 1)


def test_a_refused_sweep_ends_with_its_own_code(ledger: Ledger, kb: Callable[..., tuple[int, str]]) -> None:
    seed(ledger, faded(20))
    code, out = kb("run", "prune", "--json")
    assert code == ExitCode.REFUSED
    assert shown((code, out))["errors"][0]["hint"].endswith("--allow-mass")
    assert retired(ledger) == 0
    assert kb("run", "prune", "--allow-mass")[0] == 0
    assert retired(ledger) == 20


def test_a_slot_is_run_once(ledger: Ledger, kb: Callable[..., tuple[int, str]]) -> None:
    seed(ledger, faded(1))
    first = shown(kb("run", "prune", "--slot", "now", "--json"))
    assert first["counts"] == {"retire": 1}
    seed(ledger, faded(1, first=1))
    again = shown(kb("run", "prune", "--slot", "now", "--json"))
    assert (again["outcome"], again["slot"], again["sweep_ids"]) == ("already_done", first["slot"], [])
    assert retired(ledger) == 1
    code, out = kb("run", "prune", "--slot", "now")
    assert code == 0
    assert re.match(rf"prune: the slot {first['slot']} was done at 20\S+ by \S+:\d+:", out)
    assert shown(kb("run", "prune", "--slot", "2026-03-01T04:00:00+00:00", "--json"))["counts"] == {"retire": 1}


def test_a_job_that_is_off_has_a_slot_each_minute(
    ledger: Ledger, kb: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_JOBS__PRUNE", "off")
    assert shown(kb("run", "prune", "--slot", "now", "--json"))["slot"].endswith(":00Z")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--slot", "tomorrow"),
        ("--slot", "2999-01-01T00:00:00Z"),
        ("--slot", "now", "--dry-run"),
        ("--slot", "now", "--tenant", "acme"),
    ],
)
def test_what_is_no_slot_is_refused(kb: Callable[..., tuple[int, str]], arguments: tuple[str, ...]) -> None:
    with pytest.raises(InputError):
        kb("run", "prune", *arguments)


def test_a_job_that_runs_elsewhere_is_locked(ledger: Ledger, kb: Callable[..., tuple[int, str]]) -> None:
    with ledger.lock(job_lock(JobName.PRUNE)):
        for arguments in ((), ("--slot", "now")):
            with pytest.raises(Locked):
                kb("run", "prune", *arguments)
        assert kb("run", "prune", "--dry-run")[0] == 0


def test_status_shows_every_job_where_no_daemon_ever_ran(kb: Callable[..., tuple[int, str]]) -> None:
    code, out = kb("daemon", "status")
    assert code == 0
    assert "no daemon has run" in out
    assert all(job.value in out for job in JobName)
    state = shown(kb("daemon", "status", "--json"))
    assert (state["leader"], state["alive"], len(state["jobs"])) == (None, 0, len(JobName))
