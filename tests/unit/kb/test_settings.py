"""Where a setting may come from, which place wins, and what is never shown."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from governance.policy import policy_of
from kb.errors import ConfigError
from kb.model import SourceClass
from kb.sample_settings import commented_toml
from kb.settings import Settings, load_settings, user_config


@pytest.fixture(autouse=True)
def _bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("KB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")


def project(text: str) -> None:
    Path("kb.toml").write_text(text, encoding="utf-8")


def user(text: str) -> None:
    user_config().parent.mkdir(parents=True)
    user_config().write_text(text, encoding="utf-8")


def test_with_nothing_set_nothing_is_needed() -> None:
    settings = load_settings()
    assert (settings.gate, settings.tenant, settings.embedder) == (0.7, "default", "local")
    assert [settings.ledger_url, settings.index_uri, settings.telemetry_endpoint] == [None] * 3


def test_a_user_without_a_home_needs_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KB_DATA_DIR", str(tmp_path))
    assert load_settings().data_dir == tmp_path
    assert "# data_dir = " in commented_toml(), "nor does `kb init`"
    assert policy_of(Settings.model_construct(), "default"), "nor what compares rules with the defaults"


def test_each_place_wins_over_those_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    user("gate = 0.1")
    assert load_settings().gate == 0.1
    project("gate = 0.2")
    assert load_settings().gate == 0.2
    monkeypatch.setenv("KB_GATE", "0.3")
    assert load_settings().gate == 0.3
    assert load_settings(gate=0.4).gate == 0.4


def test_a_flag_that_was_not_given_does_not_hide_what_is_set() -> None:
    project("gate = 0.2")
    assert load_settings(gate=None).gate == 0.2


def test_places_are_merged_key_by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    user("[ingest]\nmax_tokens = 300\ntarget_tokens = 200")
    project("[ingest]\nmax_tokens = 400")
    monkeypatch.setenv("KB_INGEST__MAX_CHUNKS", "7")
    ingest = load_settings().ingest
    assert (ingest.max_tokens, ingest.target_tokens, ingest.max_chunks) == (400, 200, 7)


def test_a_source_class_keeps_the_defaults_it_does_not_change(monkeypatch: pytest.MonkeyPatch) -> None:
    project("[trust.curated]\nhold_days = 90")
    monkeypatch.setenv("KB_TRUST__AGENT__CONFIDENCE", "0.4")
    policies = load_settings().policies
    curated, agent = policies[SourceClass.CURATED], policies[SourceClass.AGENT]
    assert (curated.confidence, curated.hold_days) == (0.95, 90)
    assert (agent.confidence, agent.quarantined) == (0.4, True)


SECRETS = {
    "ledger_url": "postgresql://kb:hunter2@db/kb",
    "index_token": "root:hunter2",
    "openai_api_key": "sk-hunter2",
}


@pytest.mark.parametrize(("name", "secret"), SECRETS.items())
def test_secrets_are_never_printed(name: str, secret: str) -> None:
    settings = load_settings(**{name: secret})
    for shown in (repr(settings), str(settings), settings.model_dump_json(), repr(getattr(settings, name))):
        assert "hunter2" not in shown
    assert getattr(settings, name).get_secret_value() == secret


def test_an_error_does_not_repeat_the_value_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_INDEX_TIMEOUT", "hunter2")
    with pytest.raises(ConfigError, match="index_timeout") as caught:
        load_settings()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("text", ["gait = 0.5", "[ingest]\ngait = 1", "[trust.agent]\ngait = 1"])
def test_an_unknown_key_is_an_error_that_names_it(text: str) -> None:
    project(text)
    with pytest.raises(ConfigError, match="gait"):
        load_settings()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("gate = 1.5", "gate"),
        ('gate = "high"', "gate"),
        ("gate = nan", "gate"),
        ("[ingest]\nmax_tokens = 1", "ingest.max_tokens"),
        ("[trust.document]\nhalf_life_days = 0", "trust.document.half_life_days"),
        ("[trust.rumour]\nconfidence = 0.1", "trust.rumour"),
        ('[[sources]]\npath = "docs"\ntrust = "holy"', "sources.0.trust"),
        ('embedder = "magic"', "embedder"),
        ('tenant = ""', "tenant"),
    ],
)
def test_a_bad_value_is_an_error_that_names_its_key(text: str, name: str) -> None:
    project(text)
    with pytest.raises(ConfigError, match=name):
        load_settings()


def test_every_bad_value_is_listed_at_once() -> None:
    project('gate = 2\nembedder = "magic"')
    with pytest.raises(ConfigError, match=r"gate: .*embedder: "):
        load_settings()


def test_a_file_that_does_not_parse_is_the_operators_error() -> None:
    project("gate = = 1")
    with pytest.raises(ConfigError, match="do not parse"):
        load_settings()


def test_a_dotenv_file_is_not_read() -> None:
    Path(".env").write_text("KB_GATE=0.1\n", encoding="utf-8")
    assert load_settings().gate == 0.7


def test_local_data_follows_the_xdg_folders(tmp_path: Path) -> None:
    assert load_settings().data_dir == tmp_path / "data" / "kb"
    assert load_settings(data_dir=tmp_path / "x").data_dir == tmp_path / "x"
