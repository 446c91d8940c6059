"""The world outside the store: what an external check says, right most of the time, wrong some of it.

A check asks once and brings two pages of different owners that say the same, which is the least that decides anything.
"""

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
WORDS = {  # what two owners write, by language: one sentence, and the same among others
    "en": (
        "To the matter of {question} the answer on record is {value}.",
        "Asked about it, we can say: to the matter of {question} the answer on record is {value}. More news below.",
    ),
    "zh": (
        "关于{question}这一问题，有记录的答案是{value}。",
        "关于{question}这一问题，有记录的答案是{value}。更多消息请看下文。",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page that a check brings."""

    host: str
    text: str


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

    def pages(self, question: str, day: int) -> tuple[Page, ...]:
        """Return the pages that answer a question, perhaps wrongly; none when nothing is found."""
        index = self._facts[question]
        value = self.value(index, day)
        if value is None:
            return ()
        said = spoken(self.timeline.facts[index], value)
        return tuple(Page(host=host, text=text) for host, text in zip(self._hosts(), said, strict=True))

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

    def _hosts(self) -> tuple[str, str]:
        """Return who answers this time: other owners every time."""
        return f"check{self.asked}a.example", f"check{self.asked}b.example"

    def says(self, question: str, text: str) -> str | None:
        """Return the value that a text gives to a question."""
        return value_of(text, self.timeline.facts[self._facts[question]])

    def checker(self, day: int) -> Desk:
        """Return who is asked in the nightly recheck of a day."""
        return Desk(self, day)


@dataclass(slots=True)
class Desk:
    """A `governance.ports.Checker` of one day; counts what it is asked."""

    outside: Outside
    day: int
    asked: int = 0

    def check(self, claims: Sequence[Claim]) -> list[Checked]:
        """Return what is found of each claim: of its first fact that its words give a value of."""
        self.asked += len(claims)
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
            roots = self.outside._hosts()  # noqa: SLF001 - the desk is a part of it
            outcome = Outcome.SUPPORTED if found == said else Outcome.CONTRADICTED
            return Checked(outcome=outcome, roots=roots, urls=tuple(f"https://{r}/" for r in roots))
        return Checked(outcome=Outcome.NOTHING)


def spoken(fact: Fact, value: str) -> tuple[str, ...]:
    """Return what the pages of a check say."""
    said = (fact.true if value == "true" else fact.false)[0]
    question = fact.question.strip().rstrip("?？。. ")
    return tuple(words.format(question=question, value=said) for words in WORDS[fact.language])


def statement(fact: Fact, value: str) -> str:
    """Return a sentence that gives a value to a fact's question."""
    return f"{fact.question} {(fact.true if value == 'true' else fact.false)[0]}"
