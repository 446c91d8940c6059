"""The units are what systemd understands, and leave a program no more than it needs."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.deploy.rendered import DEPLOY, units

if TYPE_CHECKING:
    from pathlib import Path

SERVICES = {name: keys for name, keys in units().items() if name.endswith(".service")}
ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")
MOST_EXPOSED = 2.5  # of 10


@pytest.fixture
def placed(tmp_path: Path) -> Path:
    """The units, with a program that exists here in the place of `kb`."""
    for name in units():
        text = (DEPLOY / "systemd" / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace("/opt/kb/bin/kb", shutil.which("true") or ""), encoding="utf-8")
    return tmp_path


@needs_systemd
def test_systemd_understands_every_unit(placed: Path) -> None:
    names = [n for n in units() if n.endswith((".timer", ".service")) and "@" not in n]
    paths = [str(placed / n) for n in [*names, "kb-job@sync.service"]]
    (placed / "kb-job@sync.service").write_text((placed / "kb-job@.service").read_text("utf-8"), encoding="utf-8")
    command = [str(ANALYZE), "verify", "--man=no", "--recursive-errors=no", *paths]
    environment = {"SYSTEMD_UNIT_PATH": f"{placed}:", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stderr.splitlines() if str(placed) in line], done.stderr


@needs_systemd
@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_confined_by_systemds_own_measure(name: str, placed: Path) -> None:
    limit = str(round(MOST_EXPOSED * 10))
    command = [str(ANALYZE), "security", "--offline=yes", f"--threshold={limit}", str(placed / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout.splitlines()[-1:]


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_a_user_bounds_and_folders_of_its_own(name: str) -> None:
    keys = SERVICES[name]
    assert keys["User"] == ["kb"]
    assert keys["NoNewPrivileges"] == ["yes"]
    assert keys["ProtectSystem"] == ["strict"]
    assert keys["CapabilityBoundingSet"] == [""]
    assert keys["StateDirectory"] == ["kb"]
    assert {"MemoryMax", "TasksMax", "TimeoutStopSec"} <= set(keys)


def test_secrets_come_from_a_file_that_only_root_reads() -> None:
    for name, keys in SERVICES.items():
        assert keys["EnvironmentFile"] == ["-/etc/kb/kb.env"], name
        assert not [v for line in keys["Environment"] for v in line.split() if "KEY" in v or "URL" in v]


def test_a_missed_time_is_made_up_for() -> None:
    timers = [keys for name, keys in units().items() if name.endswith(".timer")]
    assert timers
    assert all(keys["Persistent"] == ["yes"] for keys in timers)
