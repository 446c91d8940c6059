"""Rules and dashboards name only what is measured, and are what their readers take."""

from __future__ import annotations

import subprocess
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from kb.telemetry.names import LABELS, Metric, exposed
from tests.dashboards import DASHBOARDS, MILVUS, OURS, PROCESS, RULES, dashboard, names, program, queries, rules

if TYPE_CHECKING:
    from pathlib import Path

RECORDED = {rule["record"] for rule in rules() if "record" in rule}
KNOWN = OURS | set(MILVUS) | PROCESS | RECORDED
WANTED = {
    "KbFallbackRateHigh", "KbOutboxLagging", "KbSweepFailed", "KbEvaluatorDegraded", "KbGateEmptied",
    "KbDaemonLeaderless", "KbJobFailing",
}  # fmt: skip
by_name = pytest.mark.parametrize("path", DASHBOARDS, ids=lambda p: p.stem)


def test_there_are_the_four_dashboards() -> None:
    assert [p.stem for p in DASHBOARDS] == ["kb-governance", "kb-overview", "kb-runtime", "kb-store"]
    assert len({dashboard(p)["uid"] for p in DASHBOARDS}) == 4


@by_name
def test_every_metric_of_a_dashboard_exists(path: Path) -> None:
    assert queries(path)
    assert {name for query in queries(path) for name in names(query)} <= KNOWN


@by_name
def test_a_dashboard_has_the_form_that_grafana_takes(path: Path) -> None:
    board = dashboard(path)
    assert {"uid", "title", "schemaVersion", "panels", "templating", "time"} <= board.keys()
    variables = {v["name"] for v in board["templating"]["list"]}
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    for panel in board["panels"]:
        assert panel["type"] in ("row", "timeseries", "stat", "alertlist")
        place = panel["gridPos"]
        assert 0 <= place["x"] < place["x"] + place["w"] <= 24
        assert panel["title"]
        for target in panel.get("targets", ()):
            assert target["datasource"]["uid"] == "${datasource}"
        assert len({t["refId"] for t in panel.get("targets", ())}) == len(panel.get("targets", ()))
    assert "datasource" in variables


@by_name
def test_no_panel_lies_over_another(path: Path) -> None:
    places = [panel["gridPos"] for panel in dashboard(path)["panels"]]
    for a, b in combinations(places, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        assert beside or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]


def test_every_metric_of_ours_that_tells_something_is_shown_or_watched() -> None:
    used = {name for path in DASHBOARDS for query in queries(path) for name in names(query)}
    used |= {name for rule in rules() for name in names(rule["expr"])}
    served = {Metric.HTTP_REQUESTS, Metric.HTTP_SECONDS, Metric.RATE_LIMITED, Metric.RATE_LIMITS_OWN}
    unseen = {metric for metric in Metric if not used & set(exposed(metric))}
    assert unseen <= served


def test_every_alert_that_operators_need_is_there_and_tells_what_to_do() -> None:
    alerts = {rule["alert"]: rule for rule in rules() if "alert" in rule}
    assert set(alerts) >= WANTED
    for alert in alerts.values():
        assert alert["annotations"]["summary"]
        assert alert["annotations"]["description"]
        assert alert["labels"]["severity"] in ("warning", "critical")
        assert names(alert["expr"]) <= KNOWN


def test_labels_that_queries_group_by_exist() -> None:
    """A label that is misspelt groups everything under nothing, and no query fails."""
    known = {str(label).replace(".", "_") for labels in LABELS.values() for label in labels} | {"le", "instance"}
    known |= {label for labels in MILVUS.values() for label in labels}
    texts = [q for p in DASHBOARDS for q in queries(p)] + [rule["expr"] for rule in rules()]
    grouped = {
        label.strip() for text in texts for part in text.split(" by (")[1:] for label in part.split(")")[0].split(",")
    }
    assert grouped <= known


@pytest.mark.parametrize(
    "arguments",
    [("check", "rules", "kb-rules.yml"), ("test", "rules", "kb-rules.test.yml"), ("check", "config", "prometheus.yml")],
    ids=" ".join,
)
def test_promtool_finds_nothing(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        [program("promtool"), *arguments], cwd=RULES.parent, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
