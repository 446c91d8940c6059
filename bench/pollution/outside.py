"""The world outside the store: what an external check says, right most of the time, wrong some of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.pollution.world import value_of
from governance.ports import Checked, Outcome

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from bench.pollution.schedule import Timeline
    from bench.pollution.world import Fact
    from governance.ports import Claim

NOTHING_OF_THE_REST = 2 / 3


@dataclass(slots=True)
class Outside:
    """Answers checks for one run.

    Args:
        timeline: what is true when.
        right: share of checks that tell the truth.
        draw: for the rest: two in three find nothing, one in three is wrong.
        asked: checks so far.
    """

    timeline: Timeline
    right: float
    draw: random.Random
    asked: int = 0
    _facts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._facts = {fact.question: i for i, fact in enumerate(self.timeline.facts)}

    def statement(self, question: str, day: int) -> str | None:
        """Return a sentence that answers a question, perhaps a wrong one; None when nothing is found."""
        index = self._facts[question]
        value = self.value(index, day)
        return None if value is None else statement(self.timeline.facts[index], value)

    def value(self, index: int, day: int) -> str | None:
        """Return what a check finds of a fact."""
        self.asked += 1
        truth = self.timeline.truth(index, day)
        luck = self.draw.random()
        if luck < self.right:
            return truth
        if luck < self.right + (1 - self.right) * NOTHING_OF_THE_REST:
            return None
        return "false" if truth == "true" else "true"

    def says(self, question: str, text: str) -> str | None:
        """Return the value that a text gives to a question."""
        return value_of(text, self.timeline.facts[self._facts[question]])

    def checker(self, day: int) -> Desk:
        """Return who is asked in the nightly recheck of a day."""
        return Desk(self, day)


@dataclass(frozen=True, slots=True)
class Desk:
    """A `governance.ports.Checker` of one day."""

    outside: Outside
    day: int

    def check(self, claims: Sequence[Claim]) -> list[Checked]:
        """Return what is found of each claim: of its first fact that its words give a value of."""
        return [self._checked(claim) for claim in claims]

    def _checked(self, claim: Claim) -> Checked:
        facts = self.outside.timeline.facts
        for index, fact in enumerate(facts):
            said = value_of(claim.said.text, fact)
            if said is None or (claim.rival is not None and value_of(claim.rival.text, fact) is None):
                continue
            found = self.outside.value(index, self.day)
            if found is None:
                return Checked(outcome=Outcome.NOTHING)
            number = self.outside.asked
            roots = (f"check{number}a.example", f"check{number}b.example")
            outcome = Outcome.SUPPORTED if found == said else Outcome.CONTRADICTED
            return Checked(outcome=outcome, roots=roots, urls=tuple(f"https://{r}/" for r in roots))
        return Checked(outcome=Outcome.NOTHING)


def statement(fact: Fact, value: str) -> str:
    """Return a sentence that gives a value to a fact's question."""
    return f"{fact.question} {(fact.true if value == 'true' else fact.false)[0]}"
