"""What `deploy/` comes to: the overlays built by kubectl's kustomize, the chart rendered by Helm's own engine."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "kb"
OVERLAYS = ("cronjobs", "daemon")
BIN = Path(sys.executable).parent

Thing = dict[str, Any]  # a Kubernetes object


def project() -> dict[str, Any]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"])


@cache
def kustomized(folder: str) -> tuple[Thing, ...]:
    """Return the objects of a folder below deploy/kubernetes."""
    return built(DEPLOY / "kubernetes" / folder)


def built(folder: Path) -> tuple[Thing, ...]:
    """Return the objects of a folder that kustomize builds."""
    command = [str(BIN / "kubectl"), "kustomize", "--load-restrictor=LoadRestrictionsRootOnly", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def helmed(name: str = "kb", namespace: str = "kb", **values: Any) -> tuple[Thing, ...]:
    """Return the objects of the chart."""
    texts = helm_texts(name, namespace, **values)
    objects = (thing for path, text in texts.items() if path.endswith(".yaml") for thing in yaml.safe_load_all(text))
    return tuple(thing for thing in objects if thing)


def helm_texts(name: str = "kb", namespace: str = "kb", **values: Any) -> dict[str, str]:
    import helm_python

    with helm_python.Chart.load(str(CHART)) as chart:
        return dict(chart.render(values, name=name, namespace=namespace))


@cache
def everything() -> dict[str, tuple[Thing, ...]]:
    """Return every form in which the cluster may be given it."""
    full: dict[str, Any] = {
        "jobs": {"mode": "daemon"},
        "serviceMonitor": {"enabled": True},
        "ingress": {"enabled": True},
        "serve": {"autoscaling": {"enabled": False}},
        "podLabels": {"team": "search"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "pull"}],
    }
    return {
        **{f"kustomize {overlay}": kustomized(f"overlays/{overlay}") for overlay in OVERLAYS},
        "helm": helmed(),
        "helm with everything on": helmed(**full),
    }


def cases() -> Iterator[tuple[str, Thing]]:
    """Yield every object with a name that tells where it is from."""
    for form, things in everything().items():
        for thing in things:
            yield f"{form}: {thing['kind']}/{thing['metadata']['name']}", thing


def pod_of(thing: Thing) -> Thing | None:
    """Return the pod's spec of what makes pods."""
    match thing["kind"]:
        case "Deployment":
            return dict(thing["spec"]["template"]["spec"])
        case "CronJob":
            return dict(thing["spec"]["jobTemplate"]["spec"]["template"]["spec"])
    return None


def pods() -> Iterator[tuple[str, Thing, Thing]]:
    """Yield (where from, the object, its pod's spec, its container)."""
    for where, thing in cases():
        pod = pod_of(thing)
        if pod is not None:
            yield where, pod, pod["containers"][0]


@cache
def compose() -> Thing:
    return dict(yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8")))


def filled_in(text: str) -> str:
    """Return what compose makes of a value once .env is filled in."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", re.sub(r"\$\{\w+:\?[^}]*\}", "s3cret", text))


@cache
def units() -> dict[str, dict[str, list[str]]]:
    """Return the keys of every systemd unit, whatever their section, by the unit's name."""
    found: dict[str, dict[str, list[str]]] = {}
    for path in sorted((DEPLOY / "systemd").glob("*.*")):
        keys: dict[str, list[str]] = found.setdefault(path.name, {})
        for line in path.read_text(encoding="utf-8").splitlines():
            key, equals, value = line.partition("=")
            if equals and not line.startswith("#"):
                keys.setdefault(key, []).append(value)
    return found


@cache
def dockerfile() -> tuple[tuple[str, str], ...]:
    """Return the image's instructions, continuation lines joined, comments left out."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    return tuple((line.split()[0], line.split(maxsplit=1)[1]) for line in joined.splitlines() if line.strip())


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Yield every command line of `kb` that a manifest runs, or tells a person to run."""
    yield from ((where, list(container["args"])) for where, _, container in pods() if "args" in container)
    for name, service in compose()["services"].items():
        if service["image"].startswith("kb:"):
            yield f"compose: {name}", list(service["command"])
    for name, keys in units().items():
        yield from ((f"systemd: {name}", shlex.split(s.replace("%i", "sync"))[1:]) for s in keys.get("ExecStart", ()))
    steps = " ".join(value for word, value in dockerfile() if word == "RUN")
    notes = helm_texts()["kb/templates/NOTES.txt"]
    yield from (("Dockerfile", words.split()) for words in re.findall(r"/opt/kb/bin/kb ([a-z ]+)", steps))
    yield from (("the chart's notes", words.split()) for words in re.findall(r"-- kb ([a-z -]+)", notes))
