"""Memory policies without governance, each on the product's store with its gate open: what others do.

A policy sees texts, sources, arrival days, feedback and results of checks; never a label. The reader is not its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from bench.pollution.shelf import BEGIN, TENANT, drop, keep, passage
from kb.model import Kind, SourceClass
from kb.search import SearchRequest
from kb.trust import DAY_MS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from bench.pollution.outside import Page
    from bench.pollution.schedule import Arrival
    from kb.memories import Memories
    from kb.model import Memory, MemoryId

K = 5
POOL = 20
OWNED_PRIOR, WEB_PRIOR, ECHO_PRIOR = 0.8, 0.5, 0.75  # what a confidence gate without evidence goes by
CLASSES = {True: (Kind.DOCUMENT, SourceClass.DOCUMENT), False: (Kind.WEB, SourceClass.WEB)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What the reader is shown for a question: passages, best first, and where each came from."""

    ids: tuple[MemoryId, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """An answer as it was given.

    Args:
        id: unique in its run.
        day: when.
        question: that it answers.
        echo: what an agent writes back of it: question and answer.
        support: passages that say what it says.
    """

    id: str
    day: int
    question: str
    echo: str
    support: tuple[MemoryId, ...]


class Policy(Protocol):
    """How memories are kept."""

    checks: int  # external checks so far

    def arrive(self, arrivals: Sequence[Arrival]) -> None:
        """Take in what arrives today."""
        ...

    def shown(self, question: str, day: int) -> Shown:
        """Return what the reader is to see."""
        ...

    def answered(self, given: Given) -> None:
        """Write back an answer that was given."""
        ...

    def unanswered(self, question: str, day: int, shown: Shown) -> Shown | None:
        """Return what to read instead when nothing answered, or None."""
        ...

    def disputed(self, question: str, day: int, sides: tuple[Sequence[MemoryId], Sequence[MemoryId]]) -> None:
        """Be told that what was shown gives two answers."""
        ...

    def feedback(self, given: Given, *, is_good: bool) -> None:
        """Be told by a user whether an answer was right; the user may err."""
        ...

    def night(self, day: int) -> None:
        """Run what runs at night."""
        ...

    def roll_back(self, sources: Sequence[str], *, with_lineage: bool) -> None:
        """Take out what named sources brought; with lineage, what was made of it too."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """What an ungoverned store does.

    Args:
        keeps_echoes: answers come back as passages.
        half_life: days in which a passage's weight in the ranking halves; None: age does not matter.
        ttl: days after which a passage is deleted; None: never.
        deletes_on_negative: one bad feedback deletes what supported the answer.
        is_article: top 3, confidence above 0.7 after the search, all of them where none is; the echo's confidence is
            the evaluator's.
        random_checks: share of questions that are checked outside, the result stored.
    """

    keeps_echoes: bool = False
    half_life: float | None = None
    ttl: int | None = None
    deletes_on_negative: bool = False
    is_article: bool = False
    random_checks: float = 0.0


@dataclass(slots=True)
class Ungoverned:
    """A store with habits."""

    memories: Memories
    habits: Habits
    check: Callable[[str, int], Sequence[Page]]
    draw: random.Random
    checks: int = 0
    made_of: dict[MemoryId, tuple[MemoryId, ...]] = field(default_factory=dict)
    ages: dict[MemoryId, int] = field(default_factory=dict)

    def arrive(self, arrivals: Sequence[Arrival]) -> None:
        """See `Policy.arrive`."""
        self._keep([(a.text, source_of(a), *CLASSES[a.is_owned]) for a in arrivals], ())

    def shown(self, question: str, day: int) -> Shown:
        """See `Policy.shown`."""
        if self.draw.random() < self.habits.random_checks:
            self.checks += 1
            pages = self.check(question, day)
            self._keep([(p.text, f"https://{p.host}/", Kind.WEB, SourceClass.WEB) for p in pages], ())
        request = SearchRequest(question=question, tenant=TENANT, k=POOL, gate=None, explain=False)
        hits = self.memories.search(request).hits
        ranked = sorted(((self._weight(h.memory, day) * h.score, h.memory) for h in hits), key=lambda p: -p[0])
        return self._first([m for _, m in ranked])

    def answered(self, given: Given) -> None:
        """See `Policy.answered`."""
        if self.habits.keeps_echoes:
            self._keep([(given.echo, f"note://agent/{given.id}", Kind.NOTE, SourceClass.AGENT)], given.support)

    def unanswered(self, question: str, day: int, shown: Shown) -> Shown | None:
        """Nothing is done about it."""
        del question, day, shown
        return None

    def disputed(self, question: str, day: int, sides: tuple[Sequence[MemoryId], Sequence[MemoryId]]) -> None:
        """Nothing is done about it."""

    def feedback(self, given: Given, *, is_good: bool) -> None:
        """See `Policy.feedback`."""
        if self.habits.deletes_on_negative and not is_good:
            drop(self.memories, given.support)

    def night(self, day: int) -> None:
        """Delete what is too old."""
        if self.habits.ttl is not None:
            old = [id_ for id_, born in self.ages.items() if day - born >= self.habits.ttl]
            drop(self.memories, old)
            for id_ in old:
                del self.ages[id_]

    def roll_back(self, sources: Sequence[str], *, with_lineage: bool) -> None:
        """See `Policy.roll_back`."""
        with self.memories.ledger.read() as tx:
            pages = [tx.memories.page("", 10_000, tenant=TENANT, source_prefix=prefix_of(s)) for s in sources]
            gone = {m.id for page in pages for m in page}
        if with_lineage:
            while grown := {id_ for id_, made_of in self.made_of.items() if gone & set(made_of)} - gone:
                gone |= grown
        drop(self.memories, sorted(gone))

    def _keep(self, said: Sequence[tuple[str, str, Kind, SourceClass]], made_of: tuple[MemoryId, ...]) -> None:
        made = [
            passage(self.memories, text, source=source, kind=kind, source_class=own, is_governed=False)
            for text, source, kind, own in said
        ]
        for memory in keep(self.memories, made):
            self.ages[memory.id] = day_of(memory)
            if made_of:
                self.made_of[memory.id] = made_of

    def _weight(self, memory: Memory, day: int) -> float:
        if self.habits.half_life is None:
            return 1.0
        return float(0.5 ** ((day - day_of(memory)) / self.habits.half_life))

    def _first(self, ranked: Sequence[Memory]) -> Shown:
        if self.habits.is_article:
            top = ranked[:3]
            ranked = [m for m in top if _confidence(m) > 0.7] or top
        best = ranked[:K]
        return Shown(ids=tuple(m.id for m in best), texts=tuple(m.text for m in best))


def source_of(arrival: Arrival) -> str:
    """Return the URI that an arrival came from: one document each, below its source's root or host."""
    if arrival.is_owned:
        return f"file://{arrival.source}/{arrival.order}.md"
    return f"https://{arrival.source}.example/{arrival.order}"


def prefix_of(source: str) -> str:
    """Return what every URI of a source begins with."""
    return f"file://{source}/" if source.startswith("own") else f"https://{source}.example/"


def day_of(memory: Memory) -> int:
    """Return the day on which a passage came."""
    return (memory.created_at - BEGIN) // DAY_MS


def _confidence(memory: Memory) -> float:
    return {Kind.DOCUMENT: OWNED_PRIOR, Kind.WEB: WEB_PRIOR}.get(memory.kind, ECHO_PRIOR)
