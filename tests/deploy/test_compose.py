"""The compose file is valid, publishes nothing beyond loopback, and starts things when what they need is well."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

import pytest
import yaml
from jsonschema.validators import validator_for  # type: ignore[import-untyped] # has no types

from tests.deploy.rendered import DEPLOY, compose, dockerfile, project

SERVICES = compose()["services"]
WITHOUT_A_SHELL = {"otel-collector"}  # nothing in its image could ask it
each = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)


def test_it_is_valid_by_the_compose_specification() -> None:
    vendored = files("check_jsonschema").joinpath("builtin_schemas/vendor/compose-spec.json")
    schema = json.loads(vendored.read_text(encoding="utf-8"))
    assert [e.message for e in validator_for(schema)(schema).iter_errors(compose())] == []


def test_it_has_what_a_full_installation_has() -> None:
    assert set(SERVICES) == {
        *("kb-serve", "kb-daemon", "postgres", "redis", "milvus", "etcd", "minio"),
        *("otel-collector", "prometheus", "grafana"),
    }


@each
def test_every_image_has_a_version(service: dict[str, Any]) -> None:
    name, colon, tag = service["image"].rpartition(":")
    assert colon
    assert re.search(r"\d+\.\d+|RELEASE\.\d{4}", tag), name
    if name == "kb":
        assert tag == project()["version"]


def test_the_image_is_built_on_a_version_and_says_its_own() -> None:
    bases = [value.split()[0] for word, value in dockerfile() if word == "FROM"]
    assert len(set(bases)) == 1
    assert re.fullmatch(r"python:3\.11-slim-\w+", bases[0])
    assert f'version="{project()["version"]}"' in dict(dockerfile())["LABEL"]


@each
def test_nothing_is_published_beyond_loopback(service: dict[str, Any]) -> None:
    assert [p for p in service.get("ports", ()) if not p.startswith("127.0.0.1:")] == []


@each
def test_everything_is_bounded_and_comes_back(service: dict[str, Any]) -> None:
    assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}
    assert service["restart"] == "unless-stopped"
    assert service["logging"]["options"]["max-size"]


def test_everything_can_be_asked_how_it_is() -> None:
    image = {word for word, _ in dockerfile()}
    assert "HEALTHCHECK" in image
    silent = {n for n, s in SERVICES.items() if "healthcheck" not in s and s["image"].rpartition(":")[0] != "kb"}
    assert silent == WITHOUT_A_SHELL


def test_who_waits_for_another_waits_until_it_is_well() -> None:
    for name, service in SERVICES.items():
        for needed, how in service.get("depends_on", {}).items():
            healthy = needed not in WITHOUT_A_SHELL
            assert how["condition"] == ("service_healthy" if healthy else "service_started"), (name, needed)
            assert needed in SERVICES


def test_every_volume_is_named_and_used() -> None:
    mounts = [m.split(":")[0] for s in SERVICES.values() for m in s.get("volumes", ())]
    named = {m for m in mounts if not m.startswith((".", "$"))}
    assert named == set(compose()["volumes"])


def test_every_file_that_is_mounted_exists() -> None:
    mounts = {m.split(":")[0] for s in SERVICES.values() for m in s.get("volumes", ()) if m.startswith("./")}
    assert mounts
    assert [m for m in mounts if not (DEPLOY / m).exists()] == []


def test_grafana_finds_its_source_and_its_dashboards() -> None:
    sources, boards = (
        yaml.safe_load((DEPLOY / "grafana" / "provisioning" / path).read_text(encoding="utf-8"))
        for path in ("datasources/prometheus.yaml", "dashboards/kb.yaml")
    )
    mounts = {m.split(":")[1]: m.split(":")[0] for m in SERVICES["grafana"]["volumes"]}
    assert mounts["/etc/grafana/provisioning"] == "./grafana/provisioning"
    (provider,) = boards["providers"]
    assert list((DEPLOY / mounts[provider["options"]["path"]]).glob("*.json"))
    assert sources["datasources"][0]["url"] == "http://prometheus:9090"


def test_no_secret_is_written_down() -> None:
    for name, service in SERVICES.items():
        for key, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|TOKEN|API_KEY|REDISCLI_AUTH|_URL$", key):
                assert "${" in value, (name, key)
        assert "${REDIS_PASSWORD" in " ".join(service["command"]) if name == "redis" else True


@pytest.mark.parametrize("name", ["kb-serve", "kb-daemon", "otel-collector", "prometheus"])
def test_what_needs_no_more_is_confined(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_the_collectors_pipelines_are_made_of_what_is_defined() -> None:
    config = yaml.safe_load((DEPLOY / "otel-collector.yaml").read_text(encoding="utf-8"))
    for pipeline in config["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= set(config[kind])
        assert pipeline["processors"][0] == "memory_limiter"
    assert set(config["service"]["extensions"]) <= set(config["extensions"])
    sent_to = SERVICES["kb-serve"]["environment"]["KB_TELEMETRY_ENDPOINT"]
    assert sent_to.rpartition(":")[2] == config["receivers"]["otlp"]["protocols"]["http"]["endpoint"].rpartition(":")[2]


def test_what_is_scraped_is_not_counted_again_by_what_is_pushed() -> None:
    config = yaml.safe_load((DEPLOY / "otel-collector.yaml").read_text(encoding="utf-8"))
    (condition,) = config["processors"]["filter/scraped"]["metrics"]["metric"]
    names = {n: SERVICES[n]["environment"]["OTEL_SERVICE_NAME"] for n in ("kb-serve", "kb-daemon")}
    assert names["kb-serve"] in condition
    assert names["kb-daemon"] not in condition


def test_prometheus_scrapes_services_that_are_there() -> None:
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    targets = [t for j in scraped["scrape_configs"] for s in j.get("static_configs", ()) for t in s["targets"]]
    assert {t.rpartition(":")[0] for t in targets} <= {*SERVICES, "localhost", "127.0.0.1"}
    assert {"kb-serve:8080", "otel-collector:8889", "milvus:9091"} <= set(targets)
