"""A policy is judged before it is followed: the check rewrites nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kb.ledger import open_ledger
from kb.rebirth import META_KEY
from kb_cli.main import app
from tests.daemons import faded, seed

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

UNSAFE = "gate = 0.7\n[trust.document]\nhalf_life_days = 0.001\n[trust.person]\nhalf_life_days = 0.001\n"


def births(folder: Path) -> tuple[dict[str, int], object]:
    with open_ledger(None, data_dir=folder) as ledger, ledger.read() as tx:
        return {m.id: m.trust.birth for m in tx.memories.page("", 1000)}, tx.meta.get(META_KEY)


def run(*arguments: str) -> int:
    try:
        return int(typer.main.get_command(app).main(list(arguments), standalone_mode=False) or 0)
    except typer.Exit as end:
        return end.exit_code


def test_an_unsafe_half_life_is_refused_before_any_birth_follows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "kb"
    monkeypatch.setenv("KB_DATA_DIR", str(data))
    monkeypatch.chdir(tmp_path)
    with open_ledger(None, data_dir=data) as ledger:
        seed(ledger, faded(3))
    assert run("govern", "history") == 0  # every other command follows the settings: here they are the defaults
    before = births(data)
    (tmp_path / "kb.toml").write_text(UNSAFE)
    assert run("govern", "policy", "check") == 5
    assert run("govern", "forecast", "--days", "3") == 0
    assert births(data) == before
    assert run("govern", "history") == 0
    assert births(data) != before
