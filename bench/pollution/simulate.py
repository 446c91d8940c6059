"""One run: a policy, a timeline, 120 days. The policy never sees a label; whoever scores never sees the policy."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench.pollution.metrics import Asked, asked_of
from bench.pollution.outside import Outside, statement
from bench.pollution.policies import Given
from bench.pollution.reader import read
from bench.pollution.schedule import timeline
from bench.pollution.shelf import TENANT, DayClock, opened
from bench.pollution.world import value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.pollution.policies import Policy, Shown
    from bench.pollution.schedule import Conditions, Timeline
    from bench.pollution.world import Fact
    from bench.vectors import Vectors
    from kb.memories import Memories
    from kb.model import MemoryId
    from kb.settings import Settings

    Make = Callable[[Memories, Settings, Outside, random.Random], Policy]

ASKED_AT = 600  # minute of the day at which questions begin; documents come in the morning
NIGHT_AT = 1_380


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run came to.

    Args:
        asked: every question.
        checks: external checks.
        seconds: retrieval time of every question.
        live: memories that could be retrieved in the end, echoes included.
        rows: memories stored in the end.
    """

    asked: tuple[Asked, ...]
    checks: int
    seconds: tuple[float, ...]
    live: int
    rows: int


def simulate(
    facts: Sequence[Fact],
    seed: int,
    conditions: Conditions,
    make: Make,
    vectors: Vectors,
    *,
    rollback: str = "none",
    reader: Callable[[Fact, Sequence[str]], str | None] = read,
    is_permuted: bool = False,
) -> Run:
    """Return what a policy makes of a world.

    Args:
        facts: of the world.
        seed: of the timeline; feedback and checks draw from it too.
        conditions: of the run.
        make: the policy, on a store.
        vectors: shared by all runs.
        rollback: none, docs or lineage, on the rollback day.
        reader: the same for every policy.
        is_permuted: sources change places, so that they tell nothing.
    """
    events = timeline(facts, seed, conditions)
    events = _permuted(events, seed) if is_permuted else events
    with opened(vectors, DayClock()) as (memories, settings):
        going = Going(events, seed, conditions, make, memories, settings, reader)
        for day in range(conditions.days):
            going.morning(day, rollback)
            for step in range(len(events.asked[day])):
                going.ask(day, step)
            going.night(day)
        return going.run()


class Going:
    """One policy on its way through a timeline, a question at a time.

    Args:
        events: what happens.
        seed: of feedback and checks.
        conditions: of the run.
        make: the policy, on a store.
        memories: the store, whose clock is a `DayClock`.
        settings: of the store.
        reader: the same for every policy.
    """

    def __init__(
        self,
        events: Timeline,
        seed: int,
        conditions: Conditions,
        make: Make,
        memories: Memories,
        settings: Settings,
        reader: Callable[[Fact, Sequence[str]], str | None] = read,
    ) -> None:
        self._events, self._seed, self._conditions, self._reader = events, seed, conditions, reader
        self._memories, self._draw = memories, random.Random(f"run {seed}")
        outside = Outside(events, conditions.check_right, random.Random(f"outside {seed}"))
        self._policy = make(memories, settings, outside, self._draw)
        self._asked: list[Asked] = []
        self._seconds: list[float] = []
        self._waiting: list[tuple[Given, bool]] = []

    def morning(self, day: int, rollback: str = "none") -> None:
        """Let arrive what arrives, then what users say of yesterday's answers, then what an operator rolls back."""
        self._clock.set(day)
        self._policy.arrive([a for a in self._events.arrivals if a.day == day])
        for earlier, is_good in self._waiting:
            self._policy.feedback(earlier, is_good=is_good)
        self._waiting = []
        if day == self._conditions.rollback_day and rollback != "none":
            self._policy.roll_back(_attackers(self._events), with_lineage=rollback == "lineage")

    def ask(self, day: int, step: int) -> float:
        """Ask the day's next question; return how long the retrieval took, in seconds."""
        self._clock.set(day, ASKED_AT + step)
        index = self._events.asked[day][step]
        value, given, took = _ask(self._policy, self._events, day, step, index, self._reader)
        self._asked.append(asked_of(self._events, self._seed, day, index, value))
        self._seconds.append(took)
        if given is not None and self._draw.random() < self._conditions.feedback:
            is_error = self._draw.random() < self._conditions.feedback_error
            self._waiting.append((given, (value == self._events.truth(index, day)) is not is_error))
        return took

    def night(self, day: int) -> None:
        """Let run what runs at night."""
        self._clock.set(day, NIGHT_AT)
        self._policy.night(day)

    def run(self) -> Run:
        """Return what it has come to so far."""
        live, rows = _counted(self._memories)
        return Run(
            asked=tuple(self._asked), checks=self._policy.checks, seconds=tuple(self._seconds), live=live, rows=rows
        )

    @property
    def _clock(self) -> DayClock:
        clock = self._memories.clock
        assert isinstance(clock, DayClock)
        return clock


def _attackers(events: Timeline) -> list[str]:
    """Return the sources that an operator names on the rollback day: the forged ones, not the compromised."""
    return sorted({a.source for a in events.arrivals if a.source.startswith("att")})


def _ask(
    policy: Policy,
    events: Timeline,
    day: int,
    step: int,
    index: int,
    reader: Callable[[Fact, Sequence[str]], str | None],
) -> tuple[str | None, Given | None, float]:
    """Ask one question, read, let the policy know, write back; return the value, the answer, and the retrieval time."""
    fact = events.facts[index]
    began = time.perf_counter()
    shown = policy.shown(fact.question, day)
    took = time.perf_counter() - began
    value = reader(fact, shown.texts)
    if value is None:
        instead = policy.unanswered(fact.question, day, shown)
        if instead is not None:
            shown, value = instead, reader(fact, instead.texts)
    sides = _sides(fact, shown)
    if sides["true"] and sides["false"]:
        policy.disputed(fact.question, day, (sides["true"], sides["false"]))
    if value is None:
        return None, None, took
    given = Given(
        id=f"{day}-{step}",
        day=day,
        question=fact.question,
        echo=statement(fact, value),
        support=tuple(sides[value]),
    )
    policy.answered(given)
    return value, given, took


def _sides(fact: Fact, shown: Shown) -> dict[str, list[MemoryId]]:
    sides: dict[str, list[MemoryId]] = {"true": [], "false": []}
    for id_, text in zip(shown.ids, shown.texts, strict=True):
        if (value := value_of(text, fact)) is not None:
            sides[value].append(id_)
    return sides


def _permuted(events: Timeline, seed: int) -> Timeline:
    """Return the timeline with sources dealt out anew among its passages."""
    sources = [a.source for a in events.arrivals]
    random.Random(f"permuted {seed}").shuffle(sources)
    dealt = (replace(a, source=s) for a, s in zip(events.arrivals, sources, strict=True))
    return replace(events, arrivals=tuple(dealt))


def _counted(memories: Memories) -> tuple[int, int]:
    with memories.ledger.read() as tx:
        counts = tx.memories.counts(TENANT)
    return sum(c.count for c in counts if c.standing.value == "active"), sum(c.count for c in counts)
