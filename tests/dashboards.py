"""Reads what is deployed for Prometheus and Grafana: dashboards, rules, and the names that their queries use."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from kb.telemetry import Metric
from kb.telemetry.names import exposed

ROOT = Path(__file__).parents[1]
RULES = ROOT / "deploy" / "prometheus" / "kb-rules.yml"
DASHBOARDS = sorted((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json"))
OURS = {name for metric in Metric for name in exposed(metric)}
# As Milvus 2.5 and 2.6 register them (pkg/metrics: proxy_metrics.go, querynode_metrics.go), with the labels we read.
MILVUS: dict[str, tuple[str, ...]] = {
    "milvus_proxy_sq_latency_bucket": ("query_type", "le"),
    "milvus_proxy_search_vectors_count": (),
    "milvus_proxy_insert_vectors_count": (),
    "milvus_proxy_upsert_vectors_count": (),
    "milvus_proxy_delete_vectors_count": (),
    "milvus_proxy_mutation_latency_bucket": ("msg_type", "le"),
    "milvus_proxy_req_count": ("function_name", "status"),
    "milvus_querynode_sq_queue_latency_bucket": ("query_type", "le"),
    "milvus_querynode_entity_num": ("collection_name",),
}
PROCESS = {"process_resident_memory_bytes"}  # of the client library, on every page
_WORDS = {
    "and", "by", "histogram_quantile", "increase", "max", "min", "offset", "or", "rate", "sum", "time", "unless",
    "vector",
}  # fmt: skip


def dashboard(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def queries(path: Path) -> list[str]:
    """Return the queries of a dashboard."""
    return [target["expr"] for panel in dashboard(path)["panels"] for target in panel.get("targets", ())]


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def names(query: str) -> set[str]:
    """Return the metrics that a query names."""
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^]]*\]|\b(?:by|offset)\s*(?:\([^)]*\)|\w+)', " ", query)
    return set(re.findall(r"[a-z_][a-z0-9_:]*", re.sub(r"\b\d[\w.]*", " ", bare))) - _WORDS


def program(name: str) -> str:
    """Return where a program of Prometheus is."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (on Debian: apt-get install prometheus)")
    return found
