"""What stands in two places of `deploy/`, or in a manifest and on a page, says the same in both."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from kb.errors import ExitCode
from tests.deploy.known import JOBS
from tests.deploy.rendered import ROOT, compose, dockerfile, everything, helmed, pods, units
from tests.deploy.test_chart import is_refused

LISTENING = {  # by the programs' own documentation
    "kb-serve": {8080},
    "postgres": {5432},
    "redis": {6379},
    "milvus": {19530, 9091},
    "etcd": {2379},
    "minio": {9000},
    "otel-collector": {4318, 8889},
}
SERVICES = compose()["services"]
UNITS = {name: keys for name, keys in units().items() if name.endswith(".service")}


def page(name: str) -> str:
    return (ROOT / "docs" / "howto" / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SERVICES)
def test_every_address_leads_to_a_service_that_listens_there(name: str) -> None:
    values = [*map(str, SERVICES[name].get("environment", {}).values()), *SERVICES[name].get("command", ())]
    addresses = [a for v in values for a in re.findall(r"(?:://|@|^)([a-z][a-z-]*):(\d+)", v)]
    assert [f"{host}:{port}" for host, port in addresses if int(port) not in LISTENING.get(host, ())] == []
    assert addresses or name not in {"kb-serve", "kb-daemon", "milvus"}


def test_who_logs_in_is_known_where_it_does() -> None:
    ours, theirs = SERVICES["kb-serve"]["environment"], SERVICES["postgres"]["environment"]
    login = re.fullmatch(r"postgresql://(\w+):(\$\{.*\})@postgres:5432/(\w+)", ours["KB_LEDGER_URL"])
    assert login
    assert login.groups() == (theirs["POSTGRES_USER"], theirs["POSTGRES_PASSWORD"], theirs["POSTGRES_DB"])
    milvus, minio = SERVICES["milvus"]["environment"], SERVICES["minio"]["environment"]
    assert ours["KB_INDEX_TOKEN"] == f"root:{milvus['COMMON_SECURITY_DEFAULTROOTPASSWORD']}"
    assert milvus["COMMON_SECURITY_AUTHORIZATIONENABLED"] == "true"
    assert milvus["MINIO_ACCESS_KEY_ID"] == minio["MINIO_ROOT_USER"]
    assert milvus["MINIO_SECRET_ACCESS_KEY"] == minio["MINIO_ROOT_PASSWORD"]
    password = SERVICES["redis"]["environment"]["REDISCLI_AUTH"]
    assert SERVICES["redis"]["command"][-2:] == ["--requirepass", password]
    assert all(
        ours[name].startswith(f"redis://:{password}@") for name in ("KB_ASK__GRADE_CACHE", "KB_SERVE__LIMITS_URL")
    )


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_looks_for_settings_and_data_where_systemd_puts_them(name: str) -> None:
    keys = UNITS[name]
    set_to = dict(pair.split("=", 1) for line in keys["Environment"] for pair in line.split())
    assert f"{set_to['XDG_CONFIG_HOME']}/kb" == f"/etc/{keys['ConfigurationDirectory'][0]}"
    assert keys["EnvironmentFile"] == [f"-/etc/{keys['ConfigurationDirectory'][0]}/kb.env"]
    assert set_to["KB_DATA_DIR"] == set_to["HOME"] == f"/var/lib/{keys['StateDirectory'][0]}"
    assert set_to["KB_CACHE_DIR"] == f"/var/cache/{keys['CacheDirectory'][0]}"


@pytest.mark.parametrize("name", ["kb-serve.service", "kb-daemon.service"])
def test_a_unit_is_not_started_again_when_a_person_has_to_act(name: str) -> None:
    final = {int(ExitCode.USAGE), int(ExitCode.REFUSED)}
    assert set(map(int, UNITS[name]["RestartPreventExitStatus"][0].split())) == final


def test_no_unit_is_killed_within_a_batch() -> None:
    assert {UNITS[n]["TimeoutStopSec"][0] for n in ("kb-daemon.service", "kb-job@.service")} == {"120"}


def test_the_image_looks_for_settings_and_data_where_they_are_mounted() -> None:
    words = " ".join(value for word, value in dockerfile() if word == "ENV" and "XDG_CONFIG_HOME" in value)
    set_to = dict(pair.split("=", 1) for pair in words.split())
    assert dict(dockerfile())["VOLUME"] == f'["{set_to["KB_DATA_DIR"]}"]'
    assert any(f"KB_CACHE_DIR={set_to['KB_CACHE_DIR']} " in value for word, value in dockerfile() if word == "RUN")
    for where, _, container in pods():
        mounts = {m["mountPath"] for m in container["volumeMounts"]}
        assert {f"{set_to['XDG_CONFIG_HOME']}/kb", set_to["KB_DATA_DIR"], set_to["XDG_CACHE_HOME"]} <= mounts, where


@pytest.mark.parametrize("form", everything())
def test_names_can_be_looked_up(form: str) -> None:
    rules = [r for t in everything()[form] if t["kind"] == "NetworkPolicy" for r in t["spec"].get("egress", ())]
    wanted = [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]
    assert [r for r in rules if r["ports"] == wanted]


def test_the_secret_of_the_page_has_the_keys_that_the_pods_ask_for() -> None:
    named = set(re.findall(r"--from-literal=([a-z-]+)=", page("kubernetes.md")))
    asked: dict[str, bool] = {}
    for _, _, container in pods():
        for key in (e["valueFrom"]["secretKeyRef"] for e in container["env"] if "valueFrom" in e):
            asked[key["key"]] = not key.get("optional", False)
    assert {key for key, is_needed in asked.items() if is_needed} == {"ledger-url"}
    assert "ledger-url" in named
    text = page("kubernetes.md")
    assert set(asked) == named | {key for key in asked if f"`{key}`" in text}
    assert named <= set(asked)


def test_the_values_that_the_page_sets_are_values_of_the_chart() -> None:
    values: dict[str, Any] = {}
    for path, text in re.findall(r"--set '?([\w.]+)=([^\s']+)", page("kubernetes.md")):
        *tables, last = path.split(".")
        table = values
        for name in tables:
            table = table.setdefault(name, {})
        listed = text.strip("{}").split(",") if text.startswith("{") else text
        table[last] = {"true": True, "false": False}.get(text, listed) if isinstance(listed, str) else listed
    assert len(values) >= 4
    assert not is_refused(values)
    (config,) = [t for t in helmed(**values) if t["kind"] == "ConfigMap"]
    assert tomllib.loads(config["data"]["kb.toml"])["index_uri"] == values["config"]["index_uri"]


def test_the_timers_of_the_page_are_those_that_there_are() -> None:
    (named,) = re.findall(r"kb-job-\{([a-z,-]+)\}\.timer", page("production.md"))
    assert named.split(",") == list(JOBS)
    assert {f"kb-job-{job}.timer" for job in JOBS} == {name for name in units() if name.endswith(".timer")}
