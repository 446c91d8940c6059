"""What the manifests name exists in the product: settings, command lines, schedules, ports, routes."""

from __future__ import annotations

import re
import shlex
import tomllib
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kb.settings import Settings, load_settings
from serving.middleware import PROBES
from tests.deploy.known import JOBS, calendar_of, cron_of, is_accepted, routes, schedules, variables
from tests.deploy.rendered import (
    DEPLOY,
    ROOT,
    command_lines,
    compose,
    dockerfile,
    everything,
    filled_in,
    kustomized,
    pods,
    units,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOT_OURS = {"PATH", "HOME", "PYTHONUNBUFFERED", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "OTEL_SERVICE_NAME"}
LENT = {  # what a Secret may hold
    "KB_LEDGER_URL": "postgresql://kb:s3cret@postgres.data.svc:5432/kb",
    "KB_ASK__GRADE_CACHE": "redis://:s3cret@redis.data.svc:6379/0",
    "KB_SERVE__LIMITS_URL": "redis://:s3cret@redis.data.svc:6379/1",
}


def environments() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the environment of everything that runs `kb`, references to secrets filled in."""
    for where, _, container in pods():
        yield where, {e["name"]: e.get("value", LENT.get(e["name"], "s3cret")) for e in container["env"]}
    for name, service in compose()["services"].items():
        if service["image"].startswith("kb:"):
            yield f"compose: {name}", {k: filled_in(v) for k, v in service["environment"].items()}
    for name, keys in units().items():
        pairs = [pair.split("=", 1) for line in keys.get("Environment", ()) for pair in line.split()]
        if pairs:
            yield f"systemd: {name}", dict(pairs)
    image = " ".join(value for word, value in dockerfile() if word == "ENV" and "KB_" in value)
    yield "Dockerfile", dict(pair.split("=", 1) for pair in image.split())


ALL = list(environments())
each = pytest.mark.parametrize("environment", [e for _, e in ALL], ids=[w for w, _ in ALL])


@each
def test_every_variable_is_a_setting(environment: dict[str, str]) -> None:
    assert set(environment) - NOT_OURS <= set(variables())


@each
def test_the_settings_of_every_process_are_valid(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in environment.items():
        if name.startswith("KB_"):
            monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    load_settings()


@pytest.mark.parametrize("example", [".env.example", "kb.env.example"])
def test_an_example_names_what_exists_and_holds_no_value(example: str) -> None:
    lines = (DEPLOY / example).read_text(encoding="utf-8").splitlines()
    pairs = [found for line in lines if (found := re.fullmatch(r"#?([A-Z_]+)=(.*)", line))]
    names = {pair[1] for pair in pairs}
    assert names
    assert [pair[0] for pair in pairs if pair[2]] == []
    if example == ".env.example":
        asked = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text(encoding="utf-8")))
        assert names == asked
    else:
        assert names <= set(variables())


@pytest.mark.parametrize("form", everything())
def test_the_configuration_of_the_cluster_is_valid(form: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (config,) = [t for t in everything()[form] if t["kind"] == "ConfigMap"]
    (tmp_path / "kb.toml").write_text(config["data"]["kb.toml"], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    settings = load_settings()
    assert settings.index_uri
    assert {"kb", "kb.kb.svc"} <= set(settings.serve.allowed_hosts), "as the Service is called"


LINES = list(command_lines())


@pytest.mark.parametrize("words", [words for _, words in LINES], ids=[f"{w}: {' '.join(c)}" for w, c in LINES])
def test_every_command_line_is_accepted(words: list[str]) -> None:
    assert is_accepted(words)


def written() -> Iterator[tuple[str, list[str]]]:
    """Yield the command lines that the pages of production run in a container, a pod or by its full path."""
    for page in ("production.md", "kubernetes.md"):
        text = (ROOT / "docs" / "howto" / page).read_text(encoding="utf-8").replace("\\\n", " ")
        for line in re.findall(
            r"(?:exec \S+ kb|-- kb|run .*kb-serve|/bin/kb|kb:\d\S+) ([a-z][^`\n]*)$", text, re.MULTILINE
        ):
            yield page, shlex.split(line, comments=True)


WRITTEN = list(written())


def test_the_pages_have_command_lines_to_check() -> None:
    assert len(WRITTEN) >= 9


@pytest.mark.parametrize("words", [w for _, w in WRITTEN], ids=[f"{p}: {' '.join(w)}" for p, w in WRITTEN])
def test_every_command_line_of_the_pages_is_accepted(words: list[str]) -> None:
    assert is_accepted(words)


@pytest.mark.parametrize("words", [["govern", "run", "tidy"], ["daemon", "--port", "1"], ["serv"], []], ids=str)
def test_a_wrong_command_line_would_be_found(words: list[str]) -> None:
    assert not is_accepted(words)


def test_every_job_has_a_cronjob_at_the_products_own_time() -> None:
    for form in ("kustomize cronjobs", "helm"):
        crons = {t["metadata"]["name"]: t["spec"] for t in everything()[form] if t["kind"] == "CronJob"}
        assert {name: spec["schedule"] for name, spec in crons.items()} == {
            f"kb-{job}": cron_of(schedule) for job, schedule in schedules().items()
        }
        assert all(s["timeZone"] == "Etc/UTC" and s["concurrencyPolicy"] == "Forbid" for s in crons.values())


def test_every_job_has_a_timer_at_the_products_own_time() -> None:
    timers = {name: keys for name, keys in units().items() if name.endswith(".timer")}
    assert {name: keys["OnCalendar"] for name, keys in timers.items()} == {
        f"kb-job-{job}.timer": [calendar_of(schedule)] for job, schedule in schedules().items()
    }
    assert {keys["Unit"][0] for keys in timers.values()} == {f"kb-job@{job}.service" for job in JOBS}


def test_a_cronjob_ends_before_its_next_slot_and_may_start_late() -> None:
    for cron in (t for t in kustomized("overlays/cronjobs") if t["kind"] == "CronJob"):
        job = cron["metadata"]["name"].removeprefix("kb-")
        period = schedules()[job].period / 1000
        assert cron["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"] < period
        assert 100 < cron["spec"]["startingDeadlineSeconds"] < period  # under ten seconds Kubernetes may miss it


def test_what_a_person_has_to_decide_is_not_tried_again() -> None:
    from kb.errors import ExitCode

    final = {int(ExitCode.USAGE), int(ExitCode.REFUSED)}
    for cron in (t for t in kustomized("overlays/cronjobs") if t["kind"] == "CronJob"):
        (rule,) = [r for r in cron["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"] if "onExitCodes" in r]
        assert set(rule["onExitCodes"]["values"]) == final
    assert [str(int(ExitCode.LOCKED))] == units()["kb-job@.service"]["SuccessExitStatus"]


def port() -> int:
    return int(Settings.model_fields["serve"].default.port)


def test_one_port_everywhere() -> None:
    for form, things in everything().items():
        (service,) = [t for t in things if t["kind"] == "Service"]
        (serve,) = [t for t in things if t["metadata"]["name"] == "kb-serve" and t["kind"] == "Deployment"]
        (exposed,) = serve["spec"]["template"]["spec"]["containers"][0]["ports"]
        assert service["spec"]["ports"][0]["port"] == exposed["containerPort"] == port(), form
        assert service["spec"]["ports"][0]["targetPort"] == exposed["name"]
    assert compose()["services"]["kb-serve"]["ports"] == [f"127.0.0.1:{port()}:{port()}"]
    words = dict(dockerfile())
    assert words["EXPOSE"] == str(port())
    assert f"127.0.0.1:{port()}/healthz" in words["HEALTHCHECK"]


def test_what_the_settings_point_at_may_be_reached() -> None:
    for form, things in everything().items():
        open_ports = {
            p["port"]
            for t in things
            if t["kind"] == "NetworkPolicy"
            for rule in t["spec"].get("egress", ())
            for p in rule["ports"]
        }
        (config,) = [t for t in things if t["kind"] == "ConfigMap"]
        uris = [tomllib.loads(config["data"]["kb.toml"])["index_uri"], *LENT.values()]
        wanted = {int(found[1]) for uri in uris if (found := re.search(r":(\d+)(?:/|$)", uri))}
        assert wanted == {5432, 19530, 6379}
        assert wanted <= open_ports, form


def test_the_probes_ask_for_pages_that_the_server_has() -> None:
    paths = {
        probe["httpGet"]["path"]
        for _, _, container in pods()
        for name, probe in container.items()
        if name.endswith("Probe") and "httpGet" in probe
    }
    scraped = {e["path"] for ts in everything().values() for t in ts for e in t.get("spec", {}).get("endpoints", ())}
    assert paths | scraped == {"/healthz", "/readyz", "/metrics"}
    assert paths | scraped <= routes()
    assert paths | scraped <= PROBES, "they are asked by the pod's address, not by an allowed host"


def seconds(text: str) -> float:
    amount, unit = re.fullmatch(r"(\d+)(s|m)?", text).groups()  # type: ignore[union-attr] # a mismatch should raise
    return timedelta(**{"minutes" if unit == "m" else "seconds": int(amount)}).total_seconds()


def test_nothing_is_killed_while_it_drains() -> None:
    drain = Settings.model_fields["serve"].default.drain_seconds
    for where, pod, container in pods():
        wait = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["sleep", "0"])
        if "args" not in container:
            continue
        if container["args"] == ["serve"]:
            assert int(wait[1]) >= 5, "time to be taken out of the routes"
            assert pod["terminationGracePeriodSeconds"] >= int(wait[1]) + drain + 10, where
        else:
            assert pod["terminationGracePeriodSeconds"] >= 120, where
    assert seconds(compose()["services"]["kb-serve"]["stop_grace_period"]) >= drain + 10
    assert seconds(compose()["services"]["kb-daemon"]["stop_grace_period"]) >= 120
    assert seconds(units()["kb-serve.service"]["TimeoutStopSec"][0]) >= drain + 10


def test_the_daemons_heart_beats_oftener_than_it_is_looked_for() -> None:
    every: Any = Settings.model_fields["jobs"].default.heartbeat_seconds
    asked = [c["livenessProbe"]["exec"]["command"] for w, _, c in pods() if c.get("args") == ["daemon"]]
    asked.append(compose()["services"]["kb-daemon"]["healthcheck"]["test"])
    for command in asked:
        (found,) = re.findall(r"find (\S+) -newermt '-(\d+) seconds'", " ".join(command))
        assert found[0] == "/tmp/kb-health"  # noqa: S108 - inside a container
        assert int(found[1]) > 3 * every
