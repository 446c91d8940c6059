"""Retrieval times of two policies in one process, a question to each in turn: a busy machine is busy for both."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from bench.pollution.roster import maker
from bench.pollution.schedule import timeline
from bench.pollution.shelf import DayClock, opened
from bench.pollution.simulate import Going
from kb.log import configure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.pollution.schedule import Conditions
    from bench.pollution.world import Fact
    from bench.vectors import Vectors

WARM = 5  # days before anything counts


def interleaved(
    facts: Sequence[Fact], seed: int, conditions: Conditions, vectors: Vectors, names: tuple[str, str]
) -> dict[str, dict[str, float]]:
    """Return p50 and p95 of retrieval, in milliseconds, of two policies that live through one timeline side by side.

    The first of the two asks first in every other question, so that neither always finds the machine warm.
    """
    configure("error")
    events = timeline(facts, seed, conditions)
    taken: dict[str, list[float]] = {name: [] for name in names}
    with ExitStack() as stack:
        sides = {}
        for name in names:
            memories, settings = stack.enter_context(opened(vectors, DayClock()))
            sides[name] = Going(events, seed, conditions, maker(name), memories, settings)
        for day in range(conditions.days):
            for side in sides.values():
                side.morning(day)
            for step in range(len(events.asked[day])):
                for name in names if step % 2 else names[::-1]:
                    took = sides[name].ask(day, step)
                    taken[name] += [took] if day >= WARM else []
            for side in sides.values():
                side.night(day)
    return {name: _ends(own) for name, own in taken.items()}


def _ends(taken: Sequence[float]) -> dict[str, float]:
    ordered = sorted(taken)
    at = {"p50_ms": 0.5, "p95_ms": 0.95}
    return {name: 1000 * ordered[int(share * len(ordered))] if ordered else 0.0 for name, share in at.items()}
