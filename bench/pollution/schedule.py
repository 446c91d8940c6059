"""When what arrives from whom: one seeded timeline of 120 days. Facts are of four classes, as notes of method say.

evergreen       30 %   said on days 0-3, never again
updated         25 %   old value on days 0-3; flips on a day of 20-80, the new value is said within 6 days
poisoned_known  25 %   said on days 0-3; up to 3 forgeries on days 40-44
poisoned_cold   20 %   up to 3 forgeries on days 0-3; the truth on days 10-13
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.pollution.world import Fact

DAYS = 120
CLASSES = (("evergreen", 0.30), ("updated", 0.55), ("poisoned_known", 0.80), ("poisoned_cold", 1.01))
FORGERIES = 3
OWNED, OWNED_SHARE = 4, 0.6  # the operator's own sources and their share of what is said honestly
HOSTS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a run is like; every number is swept in stress runs."""

    days: int = DAYS
    asked_a_day: int = 40
    attackers: int = 2  # forged sources
    compromised: float = 0.15  # share of the poison that comes through the operator's own sources
    feedback: float = 0.10  # share of answers that get a verdict the next day
    feedback_error: float = 0.10
    check_right: float = 0.85  # an external check tells the truth; of the rest 2 in 3 find nothing, 1 in 3 are wrong
    rollback_day: int = 60
    zipf: float = 0.6
    is_null: bool = False  # no update and no poison: nothing to win


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Arrival:
    """A passage that arrives.

    Args:
        day: when.
        order: among those of one world.
        fact: index of the fact.
        text: what it says.
        source: `own0`…, `web0`… or `att0`….
        is_poison: for the metrics alone; no policy sees it.
    """

    day: int
    order: int
    fact: int
    text: str
    source: str
    is_poison: bool = False

    @property
    def is_owned(self) -> bool:
        """Whether it came through one of the operator's own sources."""
        return self.source.startswith("own")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What happens in a run, the same for every policy."""

    facts: tuple[Fact, ...]
    arrivals: tuple[Arrival, ...]
    classes: tuple[str, ...]
    flips: Mapping[int, int]
    asked: tuple[tuple[int, ...], ...]  # by day, indices of facts

    def truth(self, fact: int, day: int) -> str:
        """Return which of a fact's values is true on a day: "true", or "false" before it flips."""
        return "false" if day < self.flips.get(fact, 0) else "true"


def timeline(facts: Sequence[Fact], seed: int, conditions: Conditions) -> Timeline:
    """Return the timeline of a seed."""
    draw = random.Random(f"timeline {seed}")
    classes = _classes(len(facts), draw, conditions)
    flips = {i: draw.randint(20, 80) for i, c in enumerate(classes) if c == "updated"}
    arrivals: list[Arrival] = []
    for i, fact in enumerate(facts):
        for day, text, source, is_poison in _of_fact(fact, classes[i], flips.get(i, 0), draw, conditions):
            arrivals.append(
                Arrival(day=day, order=len(arrivals), fact=i, text=text, source=source, is_poison=is_poison)
            )
    return Timeline(
        facts=tuple(facts),
        arrivals=tuple(sorted(arrivals)),
        classes=tuple(classes),
        flips=flips,
        asked=_asked(len(facts), seed, conditions),
    )


def _classes(n: int, draw: random.Random, conditions: Conditions) -> list[str]:
    order = list(range(n))
    draw.shuffle(order)
    classes = [""] * n
    for place, i in enumerate(order):
        name = next(name for name, below in CLASSES if place < below * n)
        classes[i] = "evergreen" if conditions.is_null else name
    return classes


def _of_fact(
    fact: Fact, name: str, flip: int, draw: random.Random, conditions: Conditions
) -> list[tuple[int, str, str, bool]]:
    said: list[tuple[int, str, str, bool]] = []
    if name == "updated":
        said += [(draw.randint(0, 3), text, _honest(draw), False) for text in fact.says_false]
        said += [(flip + draw.randint(0, 6), text, _honest(draw), False) for text in fact.says_true]
    else:
        begins = 10 if name == "poisoned_cold" else 0
        said += [(begins + draw.randint(0, 3), text, _honest(draw), False) for text in fact.says_true]
    if name.startswith("poisoned"):
        begins = 40 if name == "poisoned_known" else 0
        ends = 44 if name == "poisoned_known" else 3
        for k, text in enumerate(fact.says_false[:FORGERIES]):
            is_inside = draw.random() < conditions.compromised
            source = f"own{draw.randrange(OWNED)}" if is_inside else f"att{k % conditions.attackers}"
            said.append((draw.randint(begins, ends), text, source, True))
    said += [(draw.randint(0, 60), text, _honest(draw), False) for text in fact.says_neither]
    return said


def _honest(draw: random.Random) -> str:
    return f"own{draw.randrange(OWNED)}" if draw.random() < OWNED_SHARE else f"web{draw.randrange(HOSTS)}"


def _asked(n: int, seed: int, conditions: Conditions) -> tuple[tuple[int, ...], ...]:
    draw = random.Random(f"asked {seed}")
    order = list(range(n))
    draw.shuffle(order)
    weights = [1 / (rank + 1) ** conditions.zipf for rank in range(n)]
    return tuple(
        tuple(order[place] for place in draw.choices(range(n), weights, k=conditions.asked_a_day))
        for _ in range(conditions.days)
    )
