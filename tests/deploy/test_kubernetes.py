"""What the cluster is given is valid, confined and complete; every form of it."""

from __future__ import annotations

import os
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped] # has no types
from kubernetes_validate.utils import schema_contents  # type: ignore[import-untyped] # likewise
from referencing import Registry, Resource

from kb.settings import Settings
from tests.deploy.rendered import (
    DEPLOY,
    ROOT,
    built,
    cases,
    everything,
    helmed,
    kustomized,
    pod_of,
    pods,
    project,
)

if TYPE_CHECKING:
    from pathlib import Path

OLDEST, NEWEST = "1.30", "1.37"
CUSTOM = {"ServiceMonitor"}  # resources of other programs have no schema here
ALL = list(cases())
PODS = list(pods())
each_object = pytest.mark.parametrize("thing", [t for _, t in ALL], ids=[w for w, _ in ALL])
each_pod = pytest.mark.parametrize(("pod", "container"), [p[1:] for p in PODS], ids=[p[0] for p in PODS])


@cache
def schema_of(name: str, release: str) -> dict[str, Any]:
    return dict(schema_contents(f"kubernetes-json-schema/v{release}.0-local-strict/{name}.json", release))


@cache
def validator(name: str, release: str) -> Draft202012Validator:
    parts = [Resource.from_contents(schema_of(n, release)) for n in ("_definitions", name)]
    return Draft202012Validator(schema_of(name, release), registry=parts @ Registry())


@each_object
@pytest.mark.parametrize("release", [OLDEST, NEWEST])
def test_every_object_is_valid_by_the_official_schema(thing: dict[str, Any], release: str) -> None:
    group, _, version = thing["apiVersion"].rpartition("/")
    name = "-".join(filter(None, (thing["kind"].lower(), group.split(".")[0], version)))
    if thing["kind"] not in CUSTOM:
        assert [e.message for e in validator(name, release).iter_errors(thing)] == []


def test_a_wrong_object_would_be_found() -> None:
    wrong = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kb"}, "spec": {"port": 8080}}
    assert list(validator("service-v1", NEWEST).iter_errors(wrong))


@each_pod
def test_every_pod_meets_the_restricted_standard(pod: dict[str, Any], container: dict[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert all(set(v) - {"name"} <= {"configMap", "emptyDir", "persistentVolumeClaim"} for v in pod["volumes"])


@each_pod
def test_no_pod_holds_a_token_of_the_cluster_or_variables_of_its_services(
    pod: dict[str, Any], container: dict[str, Any]
) -> None:
    """A Service called kb would set KB_PORT and its like in every pod, which read like settings."""
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert len(pod["containers"]) == 1
    assert container["name"] == "kb"


@each_pod
def test_every_container_asks_for_what_it_needs_and_no_more(pod: dict[str, Any], container: dict[str, Any]) -> None:
    del pod
    for kind in ("requests", "limits"):
        assert set(container["resources"][kind]) == {"cpu", "memory"}


@each_pod
def test_every_image_is_the_version_of_this_source(pod: dict[str, Any], container: dict[str, Any]) -> None:
    del pod
    assert container["image"] == f"kb:{project()['version']}"


@each_pod
def test_what_is_written_goes_to_volumes(pod: dict[str, Any], container: dict[str, Any]) -> None:
    mounts = {m["mountPath"]: m for m in container["volumeMounts"]}
    assert {"/etc/kb", "/var/lib/kb", "/tmp"} <= set(mounts)  # noqa: S108 - inside a container
    assert mounts["/etc/kb"]["readOnly"]
    if container.get("command") != ["sleep", "infinity"]:  # there documents are put in place
        assert mounts.get("/documents", {"readOnly": True})["readOnly"]
    assert {m["name"] for m in mounts.values()} == {v["name"] for v in pod["volumes"]}


def test_only_what_syncs_and_who_brings_them_sees_the_documents() -> None:
    seeing = {where.split(": ")[1] for where, _, c in PODS if any(m["name"] == "documents" for m in c["volumeMounts"])}
    assert seeing == {"CronJob/kb-sync", "Deployment/kb-daemon", "Deployment/kb-shell"}


@each_object
def test_secrets_stand_by_reference_only(thing: dict[str, Any]) -> None:
    assert thing["kind"] != "Secret"
    secrets = {f"KB_{n.upper()}" for n, f in Settings.model_fields.items() if "SecretStr" in str(f.annotation)}
    assert secrets >= {"KB_LEDGER_URL", "KB_INDEX_TOKEN"}
    text = str(thing)
    assert not re.search(r"'name': '\w*(?:KEY|TOKEN|LEDGER_URL|LIMITS_URL|GRADE_CACHE)', 'value'", text)


@pytest.mark.parametrize("form", everything())
def test_callers_reach_the_server_and_nobody_else_reaches_anything(form: str) -> None:
    policies = {t["metadata"]["name"]: t["spec"] for t in everything()[form] if t["kind"] == "NetworkPolicy"}
    assert policies["kb-deny"] == {
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "kb"}},
        "policyTypes": ["Ingress", "Egress"],
    }
    (entering,) = [rule for spec in policies.values() for rule in spec.get("ingress", ())]
    assert entering["ports"] == [{"port": 8080, "protocol": "TCP"}]
    assert all(peer for peer in entering["from"])
    leaving = [rule for spec in policies.values() for rule in spec.get("egress", ())]
    assert all(rule.get("to") and rule.get("ports") for rule in leaving), "an empty rule lets everything pass"
    (outside,) = [peer["ipBlock"] for rule in leaving for peer in rule["to"] if "ipBlock" in peer]
    assert {"169.254.0.0/16", "10.0.0.0/8"} <= set(outside["except"])


@pytest.mark.parametrize("form", everything())
def test_every_label_that_is_looked_for_is_on_something(form: str) -> None:
    things = everything()[form]
    on = [t["spec"]["template"]["metadata"]["labels"] for t in things if t["kind"] == "Deployment"]
    on += [t["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"] for t in things if t["kind"] == "CronJob"]
    wanted = [t["spec"].get("podSelector", t["spec"].get("selector")) for t in things if "spec" in t]
    for labels in (w.get("matchLabels", w) for w in wanted if w):
        assert any(labels.items() <= found.items() for found in on), labels


@pytest.mark.parametrize("form", everything())
def test_every_reference_leads_to_an_object(form: str) -> None:
    things = {(t["kind"], t["metadata"]["name"]) for t in everything()[form]}
    for _, pod, _ in (p for p in PODS if p[0].startswith(f"{form}: ")):
        for volume in pod["volumes"]:
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in things
            if "persistentVolumeClaim" in volume:
                assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in things
        assert ("ServiceAccount", pod["serviceAccountName"]) in things
    for scaler in (t for t in everything()[form] if t["kind"] == "HorizontalPodAutoscaler"):
        assert ("Deployment", scaler["spec"]["scaleTargetRef"]["name"]) in things


def test_a_replica_count_is_not_fought_over_with_the_autoscaler() -> None:
    for form, things in everything().items():
        scaled = {t["spec"]["scaleTargetRef"]["name"] for t in things if t["kind"] == "HorizontalPodAutoscaler"}
        fixed = {t["metadata"]["name"] for t in things if t["kind"] == "Deployment" and "replicas" in t["spec"]}
        assert not scaled & fixed, form


def test_the_namespace_enforces_the_restricted_standard() -> None:
    for overlay in ("overlays/cronjobs", "overlays/daemon"):
        (space,) = [t for t in kustomized(overlay) if t["kind"] == "Namespace"]
        assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_overlay_of_the_page_takes_the_components_and_replaces_what_it_must(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "howto" / "kubernetes.md").read_text(encoding="utf-8")
    (written,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    above = os.path.relpath(DEPLOY / "kubernetes", tmp_path.resolve())
    (tmp_path / "kb.toml").write_text('index_uri = "http://elsewhere:19530"\n', encoding="utf-8")
    (tmp_path / "kustomization.yaml").write_text(written.replace("../kb/deploy/kubernetes", above), encoding="utf-8")
    things = built(tmp_path)
    assert {"Ingress", "ServiceMonitor"} <= {t["kind"] for t in things}
    (config,) = [t for t in things if t["kind"] == "ConfigMap"]
    assert "elsewhere" in config["data"]["kb.toml"]
    images = {pod["containers"][0]["image"] for t in things if (pod := pod_of(t))}
    assert images == {"registry.example.com/kb:0.1.0"}
    mounted = {v["configMap"]["name"] for t in things if (pod := pod_of(t)) for v in pod["volumes"] if "configMap" in v}
    assert mounted == {config["metadata"]["name"]}
    (ingress,) = [t for t in things if t["kind"] == "Ingress"]
    assert {ingress["spec"]["rules"][0]["host"], *ingress["spec"]["tls"][0]["hosts"]} == {"kb.example.org"}
    assert stores(things) == stores(helmed(networkPolicy={"storeBlocks": ["10.20.0.0/16"]}))
    assert stores(things)["to"] == [*stores(helmed())["to"], {"ipBlock": {"cidr": "10.20.0.0/16"}}]


def stores(things: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """Return the rule that lets the stores be reached."""
    (policy,) = [t for t in things if t["kind"] == "NetworkPolicy" and t["metadata"]["name"] == "kb-stores"]
    (rule,) = [r for r in policy["spec"]["egress"] if {"port": 5432, "protocol": "TCP"} in r["ports"]]
    return dict(rule)
