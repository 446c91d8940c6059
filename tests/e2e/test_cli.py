"""The command line as its users meet it: real processes, the real embedder, the embedded default."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KB = [sys.executable, "-c", "from kb_cli.main import main; main()"]


@dataclass
class Shell:
    """Runs `kb` in a folder of its own."""

    home: Path
    environment: dict[str, str]

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*KB, *arguments],
            cwd=self.home,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )

    def json(self, *arguments: str, code: int = 0, **environment: str) -> dict:
        done = self.run(*arguments, "--json", **environment)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory, model_cache: Path):
    home = tmp_path_factory.mktemp("home")
    keep = {k: v for k, v in os.environ.items() if not k.startswith("KB_")}
    shell = Shell(
        home,
        {**keep, "KB_DATA_DIR": str(home / "data"), "KB_CACHE_DIR": str(model_cache), "PYTHONPATH": str(ROOT)},
    )
    shutil.copytree(ROOT / "sample" / "product", home / "docs" / "product")
    shutil.copytree(ROOT / "sample" / "zh", home / "docs" / "zh")
    yield shell
    shell.run("store", "stop")


@pytest.fixture(scope="module")
def ingested(shell: Shell) -> dict:
    return shell.json("ingest", "docs")


def test_ingest_reports_under_the_documented_keys(ingested):
    assert ingested["documents"]["added"] == sum(ingested["documents"].values()) > 5
    assert set(ingested["documents"]) == {
        "added", "changed", "renamed", "metadata_changed", "unchanged", "removed", "failed", "skipped",
    }  # fmt: skip
    assert set(ingested["memories"]) == {"added", "superseded", "renewed", "unchanged"}
    assert ingested["embedded"] == ingested["memories"]["added"]
    assert ingested["failures"] == []
    assert ingested["leaves_gate_at"].endswith("Z")
    assert ingested["seconds"] > 0


def test_a_second_ingest_is_quiet(shell, ingested):
    again = shell.json("ingest", "docs")
    assert (again["embedded"], again["memories"]["added"]) == (0, 0)
    assert again["documents"]["unchanged"] == ingested["documents"]["added"]


@pytest.mark.parametrize("question", ["price of the Team plan since July 2026", "2026年第三季度团队版每月多少钱"])
def test_search_finds_the_passage_in_either_language(shell, ingested, question):
    result = shell.json("search", question, "-k", "5")
    assert len(result["hits"]) == 5
    assert any("75" in h["text"] for h in result["hits"])
    hit = result["hits"][0]
    assert {"id", "text", "source", "score", "confidence", "effective_confidence", "verified", "standing", "kind",
            "metadata"} <= set(hit)  # fmt: skip
    assert hit["effective_confidence"] <= hit["confidence"]
    assert set(result["suppressed"]) >= {"count", "reasons"}


@pytest.mark.parametrize("mode", ["dense", "text", "hybrid"])
def test_every_mode_answers(shell, ingested, mode):
    assert shell.json("search", "Team plan price", "--mode", mode)["hits"]


def test_an_agents_note_is_suppressed_and_says_why(shell, ingested):
    added = shell.json("memory", "add", "The Team plan costs nothing on Sundays.", "--by", "agent")
    assert added["standing"] == "quarantined"
    result = shell.json("search", "Team plan costs nothing on Sundays", "-k", "3")
    assert added["id"] not in [h["id"] for h in result["hits"]]
    assert result["suppressed"]["reasons"]["quarantined"] == 1
    assert shell.json("memory", "get", added["id"])["text"].startswith("The Team plan")
    listed = shell.json("memory", "list", "--standing", "quarantined")
    assert [m["id"] for m in listed["memories"]] == [added["id"]]


def test_a_scoped_note_is_seen_by_its_user_only(shell, ingested):
    shell.json("memory", "add", "Ada prefers the blue dashboard.", "--user", "ada")
    text = "Ada prefers the blue dashboard."
    assert text not in [h["text"] for h in shell.json("search", "blue dashboard")["hits"]]
    assert text in [h["text"] for h in shell.json("search", "blue dashboard", "--user", "ada")["hits"]]


def test_status_doctor_reconcile_and_reindex_agree(shell, ingested):
    status = shell.json("status")
    assert status["standings"]["active"] >= ingested["memories"]["added"]
    assert status["outbox"]["pending"] == 0
    assert shell.json("doctor")["ok"] is True
    assert shell.json("reconcile")["repaired"] == 0
    rebuilt = shell.json("reindex")
    assert (rebuilt["memories"], rebuilt["embedded"]) == (status["store"]["rows"], 0)
    assert shell.json("search", "Team plan price")["hits"]
    assert shell.json("reconcile")["repaired"] == 0


def test_the_store_can_be_stopped_and_comes_back(shell, ingested):
    assert shell.json("store", "status")["running"] is True
    assert shell.json("store", "stop")["stopped"] is True
    assert shell.json("store", "status")["running"] is False
    assert shell.json("search", "Team plan price")["hits"]


def test_a_run_with_failures_exits_3_and_lists_them(shell, tmp_path):
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "good.md").write_text("# Good\n\nA fine text.\n")
    (folder / "empty.md").write_text("")
    result = shell.json("ingest", str(folder), code=3)
    (failure,) = result["failures"]
    assert (failure["code"], failure["source"]) == ("empty", "file://mixed/empty.md")
    assert failure["message"]
    assert failure["hint"]
    assert shell.json("ingest", str(folder), "--plan", code=3)["failures"]


def test_of_several_sources_one_that_is_refused_keeps_no_other_from_its_sync(shell, tmp_path):
    emptied, kept = tmp_path / "emptied", tmp_path / "kept"
    for folder in (emptied, kept):
        folder.mkdir()
        for name in ("a", "b"):
            (folder / f"{name}.md").write_text(f"# {name}\n\nSeveral texts {name}.\n")
    shell.json("ingest", str(emptied), str(kept))
    for name in ("a", "b"):
        (emptied / f"{name}.md").unlink()
    (kept / "c.md").write_text("# C\n\nA third text.\n")
    total = shell.json("ingest", str(emptied), str(kept), code=5)
    refused, done = total["runs"]
    assert (refused["source_name"], refused["error"]["type"], refused["error"]["exit_code"]) == (
        "emptied",
        "MassDelete",
        5,
    )
    assert "error" not in done
    assert total["documents"]["added"] == done["documents"]["added"] == 1
    plans = shell.json("ingest", str(emptied), str(kept), "--plan", code=5)["plans"]
    assert [p.get("error", {}).get("type") for p in plans] == ["MassDelete", None]


def test_a_usage_error_is_an_object_too(shell):
    error = shell.json("ingest", "--nonsense", code=2)["error"]
    assert (error["type"], error["exit_code"]) == ("UsageError", 2)
    assert "--nonsense" in error["message"]


@pytest.mark.parametrize("arguments", [("--help",), ("store", "status")])
def test_a_reader_who_has_gone_is_no_error(shell, arguments):
    process = subprocess.Popen(
        [*KB, *arguments], cwd=shell.home, env=shell.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert (process.stderr.read(), process.wait(timeout=60)) == (b"", 0)
    process.stderr.close()


def test_a_note_from_standard_input_that_is_not_utf8_is_refused(shell):
    done = subprocess.run(
        [*KB, "memory", "add", "-", "--json"],
        cwd=shell.home, env=shell.environment, input="café".encode("latin-1"), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["type"] == "InputError"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("ingest", "nowhere"), 2),
        (("search", "x", "--gate", "1.5"), 2),
        (("search", "x", "--at", "yesterday"), 2),
        (("search", "   "), 2),
        (("search", "x", "-k", "0"), 2),
        (("memory", "get", "0123"), 2),
        (("memory", "add", "  "), 2),
        (("memory", "add", "caf\udce9"), 2),  # a byte that is no UTF-8, as Python hands it on
        (("search", "caf\udce9"), 2),
        (("ingest", "docs", "--confidence", "7"), 2),
        (("ingest", "docs", "--metadata", "novalue"), 2),
        (("nonsense",), 2),
    ],
)
def test_bad_requests_exit_2_and_say_what_to_do(shell, ingested, arguments, code):
    done = shell.run(*arguments)
    assert done.returncode == code
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr


def test_a_bad_setting_names_itself(shell):
    done = shell.run("status", KB_GATE="high")
    assert done.returncode == 2
    assert "gate" in done.stderr


def test_an_index_that_cannot_be_reached_exits_4(shell, ingested):
    done = shell.run("search", "Team plan", "--json", KB_INDEX_URI="http://127.0.0.1:9", KB_INDEX_TIMEOUT="2")
    assert done.returncode == 4
    assert json.loads(done.stdout)["error"]["hint"]


def test_a_source_that_is_being_synced_exits_75(shell, ingested):
    locks = shell.home / "data" / "locks"
    (lock,) = [p for p in locks.iterdir() if "ingest" in p.name and "docs" in p.name]
    with lock.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert shell.run("ingest", "docs").returncode == 75


def test_an_emptied_source_exits_5_and_changes_nothing(shell, tmp_path):
    folder = tmp_path / "fleeting"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.md").write_text(f"# {name}\n\nFleeting text {name}.\n")
    shell.json("ingest", str(folder))
    for path in folder.iterdir():
        path.unlink()
    done = shell.run("ingest", str(folder))
    assert done.returncode == 5
    assert "--allow-mass-delete" in done.stderr
    assert shell.json("ingest", str(folder), "--allow-mass-delete")["documents"]["removed"] == 2


def test_init_writes_settings_that_load_and_keeps_a_file_that_is_there(shell, tmp_path):
    target = tmp_path / "kb.toml"
    assert shell.run("init", str(target)).returncode == 0
    uncommented = [
        line.removeprefix("# ")
        for line in target.read_text().splitlines()
        if " = " in line and line.startswith("# ") and "unset" not in line and "sources" not in line
    ]
    assert "gate = 0.7" in uncommented
    assert shell.run("init", str(target)).returncode == 5


def test_a_plan_writes_nothing(shell, tmp_path):
    folder = tmp_path / "planned"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nText to plan.\n")
    before = shell.json("status")["standings"]
    plan = shell.json("ingest", str(folder), "--plan")
    assert plan["documents"]["added"] == 1
    assert plan["to_embed"]["texts"] == 1
    assert shell.json("status")["standings"] == before


def test_the_network_is_never_asked(shell, ingested):
    """Every connection but those on unix sockets is refused inside the process; nothing changes."""
    guard = (
        "import socket\n"
        "real = socket.socket.connect\n"
        "def connect(self, address):\n"
        "    assert self.family == socket.AF_UNIX, f'network: {address}'\n"
        "    return real(self, address)\n"
        "socket.socket.connect = connect\n"
        "socket.getaddrinfo = None\n"
        "from kb_cli.main import main\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", guard, "search", "Team plan price", "--json"],
        cwd=shell.home, env=shell.environment, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["hits"]


def test_a_watch_follows_changes_until_it_is_interrupted(shell, tmp_path):
    folder = tmp_path / "watched"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nThe lighthouse is red.\n")
    (folder / "b.md").write_text("# B\n\nThe pier is short.\n")
    process = subprocess.Popen(
        [*KB, "ingest", str(folder), "--watch", "--json"],
        cwd=shell.home, env=shell.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    assert json.loads(process.stdout.readline())["documents"]["added"] == 2
    assert "watching" in process.stderr.readline()
    second = ""
    while not second:  # a change before the watch is armed would be missed: change again
        (folder / "a.md").write_text(f"# A\n\nThe lighthouse is white since {time.monotonic()}.\n")
        ready, _, _ = select.select([process.stdout], [], [], 15)
        second = process.stdout.readline() if ready else ""
    assert json.loads(second)["documents"]["changed"] == 1
    for name in ("a", "b"):
        (folder / f"{name}.md").unlink()
    while "error" not in (refused := json.loads(process.stdout.readline())):
        """A change from before came on its own."""
    assert refused["error"]["type"] == "MassDelete"
    (folder / "b.md").write_text("# B\n\nThe pier is long.\n")
    assert json.loads(process.stdout.readline())["documents"]["changed"] == 1
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode in (0, 130)  # 130: the signal met the end of the sync, just before it watches again
