"""Streams that take nothing, plans that are none, pictures that cannot be written: said, with the right code."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.shell import KB, Shell

if TYPE_CHECKING:
    from collections.abc import Iterator

FULL = Path("/dev/full")


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory, model_cache: Path) -> Iterator[Shell]:
    with Shell(tmp_path_factory.mktemp("streams"), model_cache) as shell:
        yield shell


def streamed(kb: Shell, command: str, streams: str) -> subprocess.CompletedProcess[str]:
    """Run a command line through a shell that redirects its streams."""
    line = f'"$@" {streams}'
    arguments = ["sh", "-c", line, "sh", *KB, *command.split()]
    return subprocess.run(arguments, cwd=kb.home, env=kb.environment, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
def test_output_that_does_not_fit_is_no_defect_and_no_success(kb: Shell) -> None:
    done = streamed(kb, "govern history --json", f">{FULL}")
    assert (done.returncode, "cannot be written: No space left" in done.stderr) == (4, True)
    assert "defect" not in done.stderr
    assert streamed(kb, "govern show nope --json", f">{FULL}").returncode == 2, "its own code stands"
    quiet = streamed(kb, "govern history --json", f"2>{FULL}")
    assert (quiet.returncode, json.loads(quiet.stdout)["sweeps"]) == (0, [])


def test_closed_streams_keep_no_command_from_its_work(kb: Shell) -> None:
    assert streamed(kb, "govern history --json", ">&- 2>&-").returncode == 0
    assert streamed(kb, "govern plan decay", ">&-").returncode == 0


def test_what_is_no_plan_is_refused_however_deep_it_is(kb: Shell) -> None:
    (kb.home / "deep.json").write_text("[" * 100_000)
    assert "no plan" in kb.json("govern", "apply", "deep.json", code=2)["error"]["message"]


def test_a_picture_that_cannot_be_written_is_said(kb: Shell) -> None:
    error = kb.json("govern", "forecast", "--plot", "nowhere/x.png", code=2)["error"]
    assert error["message"] == "nowhere/x.png cannot be written: No such file or directory"


def test_forgetting_names_what_it_needs(kb: Shell) -> None:
    for named in ([], ["--source", "docs", "a1"]):
        error = kb.json("memory", "forget", *named, "--erase", "--yes", code=2)["error"]
        assert error["message"] == "say what to forget: ids of memories, or --source"


def test_a_job_tells_of_a_tenant_that_has_nothing_and_of_a_reason_without_end(kb: Shell) -> None:
    for job in ("decay", "sync"):
        assert kb.json("govern", "run", job, "--tenant", "nobdoy")["notes"] == [
            "nothing of a tenant 'nobdoy' is stored"
        ]
    error = kb.json("govern", "run", "decay", "--reason", "由" * 1_000, code=2)["error"]
    assert error["message"] == "the reason is longer than 2,048 bytes"
