"""What must come out, and whether it did: each expectation with the figures that it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.pollution.metrics import paired

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.pollution.metrics import Asked

EVERGREEN_SLACK = 0.03
NULL_SLACK = 0.02
CHECK_BUDGET = 0.06
LATENCY_MS = 20.0
ARMS = (  # id, metric, the one that must be higher, the lower one
    ("E1", "accuracy", "governed", "plain"),
    ("E1", "accuracy", "plain", "append"),
    ("E2", "stale", "append", "plain"),
    ("E2", "stale", "article", "plain"),
    ("E2", "stale", "ttl", "plain"),
    ("E2", "stale", "plain", "governed"),
    ("E3", "polluted_known", "half_life", "plain"),
    ("E4", "polluted_cold", "append", "plain"),
    ("E4", "polluted_cold", "plain", "governed"),
    ("E6", "stale", "echo_as_evidence", "governed"),
    ("E7", "evergreen_late", "plain", "half_life"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Direction:
    """One expectation.

    Args:
        id: E1 to E11.
        said: what is expected.
        held: whether it came out, separated by the 95 % interval where it compares; None: what it needs was not run.
        figures: that it rests on.
    """

    id: str
    said: str
    held: bool | None
    figures: Mapping[str, float | None]


def directions(
    asked: Mapping[str, Sequence[Asked]],
    measured: Mapping[str, Mapping[str, float]],
    pair: Mapping[str, Mapping[str, float]] | None = None,
) -> list[Direction]:
    """Return every expectation that the runs at hand can speak of.

    Args:
        asked: by run name; `null/governed`, `permuted/governed`, `docs/append` and the like are other conditions.
        measured: by run name, `checks_a_question`.
        pair: by policy, `p95_ms` of plain and governed, measured in turn.
    """
    found = [_higher(asked, *arm) for arm in ARMS]
    found += [_rollback(asked), *_sanity(asked), *_costs(measured, pair)]
    for name in ("governed", "governed_reviewed"):
        found += [_evergreen(asked, name), _null(asked, name)]
    return [d for d in found if d.held is not None]


def _higher(asked: Mapping[str, Sequence[Asked]], id_: str, metric: str, more: str, less: str) -> Direction:
    said = f"{metric}: {more} above {less}"
    if more not in asked or less not in asked:
        return Direction(id=id_, said=said, held=None, figures={})
    difference = paired(asked[more], asked[less], metric)
    low = difference["low"]
    return Direction(id=id_, said=said, held=None if low is None else low > 0, figures=difference)


def _rollback(asked: Mapping[str, Sequence[Asked]]) -> Direction:
    said = "polluted_late of append: a rollback of documents alone changes little, one with lineage lowers it"
    names = ("append", "docs/append", "lineage/append")
    if any(n not in asked for n in names):
        return Direction(id="E5", said=said, held=None, figures={})
    docs = paired(asked["docs/append"], asked["append"], "polluted_late")
    lineage = paired(asked["docs/append"], asked["lineage/append"], "polluted_late")
    held = (docs["low"] or 0.0) <= 0 <= (docs["high"] or 0.0) and (lineage["low"] or 0.0) > 0
    figures = {"docs_less_none": docs["value"], "docs_less_lineage": lineage["value"], "low": lineage["low"]}
    return Direction(id="E5", said=said, held=held, figures=figures)


def _evergreen(asked: Mapping[str, Sequence[Asked]], name: str) -> Direction:
    said = f"evergreen_late: {name} within {EVERGREEN_SLACK} of plain"
    if name not in asked or "plain" not in asked:
        return Direction(id="E7", said=said, held=None, figures={})
    difference = paired(asked[name], asked["plain"], "evergreen_late")
    held = None if difference["value"] is None else difference["value"] >= -EVERGREEN_SLACK
    return Direction(id="E7", said=said, held=held, figures=difference)


def _null(asked: Mapping[str, Sequence[Asked]], name: str) -> Direction:
    said = f"null world: accuracy of {name} within {NULL_SLACK} of plain, abstention not higher by more"
    if not {f"null/{name}", "null/plain"} <= set(asked):
        return Direction(id="E9", said=said, held=None, figures={})
    accuracy = paired(asked[f"null/{name}"], asked["null/plain"], "accuracy")["value"] or 0.0
    abstained = paired(asked[f"null/{name}"], asked["null/plain"], "abstained")["value"] or 0.0
    held = abs(accuracy) <= NULL_SLACK and abstained <= NULL_SLACK
    return Direction(id="E9", said=said, held=held, figures={"accuracy": accuracy, "abstained": abstained})


def _sanity(asked: Mapping[str, Sequence[Asked]]) -> list[Direction]:
    found = []
    if {"governed", "plain", "no_information"} <= set(asked):
        whole = paired(asked["governed"], asked["plain"], "accuracy")
        blind = paired(asked["no_information"], asked["plain"], "accuracy")
        held = (blind["value"] or 0.0) < (whole["value"] or 0.0)
        said = "accuracy: without feedback and checks the advantage over plain shrinks"
        figures = {"whole": whole["value"], "blind": blind["value"]}
        found.append(Direction(id="E8", said=said, held=held, figures=figures))
    if {"permuted/governed", "permuted/plain", "governed", "plain"} <= set(asked):
        gain = paired(asked["governed"], asked["plain"], "accuracy")["value"] or 0.0
        dealt = paired(asked["permuted/governed"], asked["permuted/plain"], "accuracy")["value"] or 0.0
        said = "accuracy: with sources dealt out at random the gain from sources goes"
        found.append(Direction(id="E10", said=said, held=dealt < gain, figures={"whole": gain, "permuted": dealt}))
    return found


def _costs(
    measured: Mapping[str, Mapping[str, float]], pair: Mapping[str, Mapping[str, float]] | None
) -> list[Direction]:
    found = []
    if "governed" in measured:
        checks = measured["governed"]["checks_a_question"]
        said = f"costs: at most {CHECK_BUDGET} checks a question"
        found.append(Direction(id="E11", said=said, held=checks <= CHECK_BUDGET, figures={"checks": checks}))
    if pair:
        over = pair["governed"]["p95_ms"] - pair["plain"]["p95_ms"]
        said = f"costs: retrieval p95 at most {LATENCY_MS:.0f} ms above plain, asked in turn"
        figures = {"p95_over_ms": over, **{name: own["p95_ms"] for name, own in pair.items()}}
        found.append(Direction(id="E11", said=said, held=over <= LATENCY_MS, figures=figures))
    return found
