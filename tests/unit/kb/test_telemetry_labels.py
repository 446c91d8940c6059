"""Every count and every measure in the code has just the labels that its metric is said to have."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from kb.telemetry import Attr, Metric
from kb.telemetry.names import GAUGES, LABELS, is_counter
from tests.architecture.tree import name, packages, python_files, syntax

if TYPE_CHECKING:
    from collections.abc import Iterator


def calls() -> Iterator[tuple[str, str, Metric, set[str], bool]]:
    """Yield where, by what, of which metric, with which labels by name, and whether there are more."""
    for path in python_files(*packages()):
        for node in ast.walk(syntax(path)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)):
                continue
            called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            metric = node.args[0] if node.args else None
            if called not in ("count", "observe") or not isinstance(metric, ast.Attribute):
                continue
            if isinstance(metric.value, ast.Name | ast.Attribute) and "Metric" in ast.unparse(metric.value):
                labels = {keyword.arg for keyword in node.keywords if keyword.arg not in (None, "amount")}
                has_more = any(keyword.arg is None for keyword in node.keywords)
                yield (
                    f"{name(path)}:{node.lineno}",
                    called,
                    Metric[metric.attr],
                    {str(label) for label in labels},
                    has_more,
                )


def test_every_call_gives_the_labels_of_its_metric_and_no_other() -> None:
    for where, _, metric, labels, has_more in calls():
        conventional = {label for label in LABELS.get(metric, ()) if isinstance(label, Attr)}
        assert labels == set(LABELS.get(metric, ())) - conventional, where
        assert has_more is bool(conventional), where


def test_counters_are_counted_and_histograms_observed() -> None:
    for where, called, metric, _, _ in calls():
        assert (called == "count") is is_counter(metric), where


def test_every_metric_is_measured_somewhere() -> None:
    measured = {metric for _, _, metric, _, _ in calls()}
    assert measured == set(Metric) - GAUGES


def test_no_code_names_an_attribute_by_hand() -> None:
    """A name written where it is used is a name that nobody finds; the names are in one module."""
    known = {a.value for a in Attr if "." in a.value and not a.value.startswith("exception.")}
    found = [
        f"{name(path)}:{node.lineno} {node.value}"
        for path in python_files(*packages())
        if name(path) != "kb/telemetry/names.py"
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.Constant) and node.value in known
    ]
    assert found == []
