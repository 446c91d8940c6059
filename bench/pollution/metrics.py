"""What a run was worth: shares over questions asked, with bootstrap intervals over facts and seeds."""

from __future__ import annotations

import random
import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bench.pollution.schedule import Timeline

RESAMPLES = 1_000
WARM = 5  # days before anything counts
EVERGREEN_FROM = 90
RECOVERY = 0.05  # trailing share of polluted answers at which a store counts as recovered
WINDOW = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question asked and what came of it."""

    seed: int
    fact: int
    day: int
    kind: str  # class of the fact
    given: str | None  # "true", "false", None: abstained
    truth: str
    since_flip: int  # days since the fact flipped; negative before, 0 for facts that never do


Counted = tuple[float, float]  # of how many

METRICS: dict[str, Callable[[Asked], bool | None]] = {
    "accuracy": lambda a: None if a.day < WARM else a.given == a.truth,
    "abstained": lambda a: None if a.day < WARM else a.given is None,
    "polluted_known": lambda a: a.given == "false" if a.kind == "poisoned_known" and a.day >= 40 else None,
    "polluted_cold": lambda a: a.given == "false" if a.kind == "poisoned_cold" and a.day >= 20 else None,
    "polluted_late": lambda a: a.given == "false" if a.kind.startswith("poisoned") and a.day >= 61 else None,
    "stale": lambda a: a.given == "false" if a.kind == "updated" and a.since_flip >= WINDOW else None,
    "premature": lambda a: a.given == "true" if a.kind == "updated" and a.since_flip < 0 and a.day >= WARM else None,
    "evergreen_late": lambda a: a.given == a.truth if a.kind == "evergreen" and a.day >= EVERGREEN_FROM else None,
}


def asked_of(timeline: Timeline, seed: int, day: int, fact: int, given: str | None) -> Asked:
    """Return a question that was asked, with what it takes to score it."""
    flip = timeline.flips.get(fact)
    return Asked(
        seed=seed,
        fact=fact,
        day=day,
        kind=timeline.classes[fact],
        given=given,
        truth=timeline.truth(fact, day),
        since_flip=0 if flip is None else day - flip,
    )


def scored(asked: Iterable[Asked]) -> dict[str, dict[str, float | None]]:
    """Return every metric with its 95 % bootstrap interval over (fact, seed) clusters."""
    clusters: dict[tuple[int, int], list[Asked]] = defaultdict(list)
    for a in asked:
        clusters[(a.seed, a.fact)].append(a)
    return {name: _interval([_counted(own, ask) for own in clusters.values()]) for name, ask in METRICS.items()}


def paired(ours: Sequence[Asked], theirs: Sequence[Asked], name: str) -> dict[str, float | None]:
    """Return the difference of a metric, ours less theirs, with its 95 % interval over paired (fact, seed) clusters."""
    sides = []
    for asked in (ours, theirs):
        clusters: dict[tuple[int, int], list[Asked]] = defaultdict(list)
        for a in asked:
            clusters[(a.seed, a.fact)].append(a)
        sides.append({key: _counted(own, METRICS[name]) for key, own in clusters.items()})
    keys = sorted(set(sides[0]) & set(sides[1]))
    pairs = [(sides[0][k], sides[1][k]) for k in keys if sides[0][k][1] or sides[1][k][1]]
    if not pairs:
        return {"value": None, "low": None, "high": None}

    def difference(of: Sequence[tuple[Counted, Counted]]) -> float:
        return _share([p[0] for p in of]) - _share([p[1] for p in of])

    draw = random.Random("paired")
    drawn = sorted(difference(draw.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    return {"value": difference(pairs), **_ends(drawn)}


def recovery(asked: Sequence[Asked]) -> dict[str, float | None]:
    """Return in which share of seeds the store recovered from the poison of days 40-44, and the median day."""
    days = []
    seeds = sorted({a.seed for a in asked})
    for seed in seeds:
        day = _recovered([a for a in asked if a.seed == seed and a.kind == "poisoned_known"])
        if day is not None:
            days.append(day)
    return {
        "recovered": len(days) / len(seeds) if seeds else None,
        "median_day": float(statistics.median(days)) if days else None,
    }


def _recovered(asked: Sequence[Asked]) -> int | None:
    last = max((a.day for a in asked), default=0)
    good = 0
    for day in range(45, last + 1):
        window = [a for a in asked if day - WINDOW < a.day <= day]
        share = sum(a.given == "false" for a in window) / len(window) if window else 0.0
        good = good + 1 if share <= RECOVERY else 0
        if good == WINDOW:
            return day - WINDOW + 1
    return None


def _counted(asked: Sequence[Asked], ask: Callable[[Asked], bool | None]) -> Counted:
    counted = [hit for a in asked if (hit := ask(a)) is not None]
    return float(sum(counted)), float(len(counted))


def _interval(counted: Sequence[Counted]) -> dict[str, float | None]:
    counted = [c for c in counted if c[1]]
    if not counted:
        return {"value": None, "low": None, "high": None}
    draw = random.Random("interval")
    drawn = sorted(_share(draw.choices(counted, k=len(counted))) for _ in range(RESAMPLES))
    return {"value": _share(counted), **_ends(drawn)}


def _ends(drawn: Sequence[float]) -> dict[str, float | None]:
    return {"low": drawn[int(0.025 * len(drawn))], "high": drawn[int(0.975 * len(drawn)) - 1]}


def _share(counted: Sequence[Counted]) -> float:
    hits, of = sum(c[0] for c in counted), sum(c[1] for c in counted)
    return hits / of if of else 0.0
