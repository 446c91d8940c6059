"""The image is made of the whole product and nothing else, and runs as nobody in particular."""

from __future__ import annotations

import re
import subprocess

from tests.architecture.tree import packages
from tests.deploy.rendered import BIN, DEPLOY, ROOT, dockerfile

FINAL = dockerfile()[max(i for i, (word, _) in enumerate(dockerfile()) if word == "FROM") :]


def test_the_linter_finds_nothing() -> None:
    done = subprocess.run(
        [str(BIN / "hadolint"), str(DEPLOY / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_every_package_goes_in_and_may_go_in() -> None:
    copied = {value.split()[0] for word, value in dockerfile() if word == "COPY"}
    allowed = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(packages()) <= copied
    assert set(packages()) <= allowed
    assert {"pyproject.toml", "README.md", "LICENSE", "NOTICE"} <= allowed, "the wheel is made of them, too"


def test_what_stays_outside_is_everything_that_is_not_named() -> None:
    lines = [
        s for s in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if s and not s.startswith("#")
    ]
    assert lines[0] == "*"
    assert not {"!deploy", "!.env", "!.git", "!tests"} & set(lines)


def test_nothing_unpinned_is_installed() -> None:
    installs = re.findall(r"pip [^&]*install[^&]*", " ".join(v for w, v in dockerfile() if w == "RUN"))
    assert len(installs) == 3
    assert all("--require-hashes" in i or "--no-index" in i for i in installs)


def test_it_runs_as_a_user_of_its_own() -> None:
    words = dict(FINAL)
    assert words["USER"] == "10001:10001"
    last = max(i for i, (word, _) in enumerate(FINAL) if word in {"RUN", "COPY"})
    assert next(i for i, (word, _) in enumerate(FINAL) if word == "USER") > last


def test_signals_reach_the_program() -> None:
    words = dict(FINAL)
    assert words["ENTRYPOINT"] == '["/usr/bin/tini", "--", "kb"]'
    assert words["CMD"].startswith('["')
    assert words["STOPSIGNAL"] == "SIGTERM"


def test_no_secret_and_no_argument_is_baked_in() -> None:
    assert [w for w, _ in dockerfile() if w == "ARG"] == []
    assert not re.search(r"(?i)password|token|api_key", " ".join(v for w, v in dockerfile() if w == "ENV"))


def test_secrets_of_an_installation_are_not_committed() -> None:
    for path in ("deploy/.env", "deploy/kb.env"):
        ignored = subprocess.run(["git", "-C", str(ROOT), "check-ignore", "--quiet", path], check=False)
        assert ignored.returncode == 0, path
