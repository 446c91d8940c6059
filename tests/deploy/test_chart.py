"""The chart and the overlays are two ways to say the same; and the chart refuses what it should."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from tests.deploy.known import settings
from tests.deploy.rendered import CHART, ROOT, Thing, helm_texts, helmed, kustomized, project

HELMS_OWN = {
    "helm.sh/chart",
    "helm.sh/resource-policy",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "checksum/config",
}


def plain(value: Any) -> Any:
    """Return a value without what only names the tool, and without the order of what has names."""
    if isinstance(value, dict):
        kept = {k: plain(v) for k, v in value.items() if k not in HELMS_OWN}
        return {k: v for k, v in kept.items() if not (k in {"annotations", "labels"} and not v)}
    if isinstance(value, list):
        items = [plain(item) for item in value]
        if items and all(isinstance(i, dict) and "name" in i for i in items):
            return sorted(items, key=lambda i: (i["name"], str(i)))
        return items
    return re.sub(r"^(kb-config)-[a-z0-9]{10}$", r"\1", value) if isinstance(value, str) else value


def comparable(things: tuple[Thing, ...]) -> dict[str, Thing]:
    found: dict[str, Thing] = {}
    for thing in map(plain, things):
        if thing["kind"] == "Namespace":
            continue  # `helm install --create-namespace` makes it
        thing["metadata"].pop("namespace", None)
        if thing["kind"] == "ConfigMap":
            thing["data"] = tomllib.loads(thing["data"]["kb.toml"])
        found[f"{thing['kind']}/{thing['metadata']['name']}"] = thing
    return found


def is_refused(values: dict[str, Any]) -> bool:
    import helm_python

    with helm_python.Chart.load(str(CHART)) as chart:
        try:
            chart.validate_schema(values)
        except helm_python.HelmValuesError:
            return True
    return False


@pytest.mark.parametrize(("overlay", "mode"), [("cronjobs", "cronjobs"), ("daemon", "daemon")])
def test_the_chart_and_the_overlay_make_the_same_objects(overlay: str, mode: str) -> None:
    chart = comparable(helmed(jobs={"mode": mode}))
    overlaid = comparable(kustomized(f"overlays/{overlay}"))
    assert chart.keys() == overlaid.keys()
    for name, thing in chart.items():
        assert thing == overlaid[name], name


@pytest.mark.parametrize("component", ["ingress", "service-monitor"])
def test_the_chart_and_the_components_make_the_same_objects(component: str) -> None:
    kind = {"ingress": "Ingress", "service-monitor": "ServiceMonitor"}[component]
    extra = comparable(helmed(ingress={"enabled": True}, serviceMonitor={"enabled": True}))
    path = ROOT / "deploy" / "kubernetes" / "components" / component / f"{component}.yaml"
    import yaml

    assert extra[f"{kind}/kb"] == comparable((yaml.safe_load(path.read_text(encoding="utf-8")),))[f"{kind}/kb"]


def test_the_chart_is_clean_by_helms_own_check() -> None:
    import helm_python

    report = helm_python.lint(str(CHART))
    assert report["errors"] == []
    assert [m["error"] for m in report["messages"]] in ([], ["icon is recommended"])


def test_two_releases_share_no_name() -> None:
    one, other = helmed("kb", "kb"), helmed("second", "kb")
    assert not {(t["kind"], t["metadata"]["name"]) for t in one} & {(t["kind"], t["metadata"]["name"]) for t in other}


def test_the_ingress_host_is_a_host_that_the_server_answers_to() -> None:
    (config,) = [t for t in helmed(ingress={"enabled": True, "host": "kb.example.org"}) if t["kind"] == "ConfigMap"]
    assert "kb.example.org" in tomllib.loads(config["data"]["kb.toml"])["serve"]["allowed_hosts"]


def test_a_changed_setting_rolls_the_pods() -> None:
    def checksum(**values: Any) -> str:
        (serve,) = [t for t in helmed(**values) if t["metadata"]["name"] == "kb-serve" and t["kind"] == "Deployment"]
        return str(serve["spec"]["template"]["metadata"]["annotations"]["checksum/config"])

    assert checksum() == checksum()
    assert checksum() != checksum(config={"gate": 0.6})


@pytest.mark.parametrize(
    "values",
    [
        {"jobs": {"mode": "cron"}},
        {"image": {"repository": "kb", "tag": "latest"}},
        {"jobs": {"schedules": {"backup": "0 1 * * *"}}},
        {"serve": {"replicas": 0}},
        {"ingress": {"enabled": "yes"}},
        {"replicas": 3},
    ],
    ids=str,
)
def test_the_chart_refuses_values_that_mean_nothing(values: dict[str, Any]) -> None:
    assert is_refused(values)


def test_the_chart_refuses_every_secret_among_the_settings() -> None:
    secrets = [path for path, setting in settings().items() if setting.is_secret]
    assert len(secrets) >= 7
    for path in secrets:
        config: dict[str, Any] = {path[-1]: "s3cret"}
        for table in reversed(path[:-1]):
            config = {table: config}
        assert is_refused({"config": config}), path


def test_the_versions_agree() -> None:
    import yaml

    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["version"] == chart["appVersion"] == project()["version"]


def test_the_notes_name_what_is_there() -> None:
    notes = helm_texts()["kb/templates/NOTES.txt"]
    assert "deployment/kb-shell" in notes
    assert "kb-secrets" in notes
