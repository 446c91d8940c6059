"""One setting of a kb.toml changes, and no other line."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest

from kb.addresses import without_secret
from kb.errors import ConfigError
from kb.moving.config_file import changed, is_secret, write_setting

if TYPE_CHECKING:
    from pathlib import Path

FILE = """# settings
# index_uri = unset
gate = 0.6  # stricter
index_uri = "http://old:19530"

[ask]
# index_uri = "not this one"
k = 3

[[sources]]
path = "docs"
"""


def test_a_setting_is_replaced_where_it_stands() -> None:
    after = changed(FILE, "index_uri", "http://new:19530")
    assert after == FILE.replace("http://old:19530", "http://new:19530")


def test_a_setting_is_taken_out_and_put_in_before_the_first_table() -> None:
    without = changed(FILE, "index_uri", None)
    assert "old" not in without
    assert len(without.splitlines()) == len(FILE.splitlines()) - 1
    again = changed(without, "index_uri", 'unix:/a "b"')
    assert tomllib.loads(again) == {**tomllib.loads(FILE), "index_uri": 'unix:/a "b"'}
    assert again.index("index_uri =", again.index("gate")) < again.index("[ask]")


def test_a_file_without_a_last_line_end_or_without_anything_takes_it() -> None:
    for text in ("", "gate = 0.6", "[ask]\nk = 3"):
        assert tomllib.loads(changed(text, "index_uri", "x")) == {**tomllib.loads(text), "index_uri": "x"}


@pytest.mark.parametrize("text", ["gate =", 'ledger_url = """\nindex_uri = 5\n"""\n', 'index_uri = """\nx\n"""\n'])
def test_a_file_that_cannot_be_changed_by_lines_is_left_to_people(text: str) -> None:
    with pytest.raises(ConfigError):
        changed(text, "index_uri", "x")


def test_the_file_that_names_the_setting_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    user = tmp_path / "config" / "kb" / "kb.toml"
    assert write_setting("index_uri", "a").read_text() == 'index_uri = "a"\n'
    (tmp_path / "kb.toml").write_text("gate = 0.6\n")
    user.parent.mkdir(parents=True)
    user.write_text('index_uri = "b"\n')
    assert write_setting("index_uri", "c") == user
    assert (user.read_text(), (tmp_path / "kb.toml").read_text()) == ('index_uri = "c"\n', "gate = 0.6\n")


def test_passwords_are_neither_shown_nor_written() -> None:
    uri = "postgresql://ada:s3cret@db:5432/kb?sslpassword=x"
    assert is_secret(uri)
    assert not is_secret("postgresql://ada@db/kb")
    assert without_secret(uri) == "postgresql://db:5432/kb"
    assert without_secret("unix:/run/kb.sock") == "unix:/run/kb.sock"
