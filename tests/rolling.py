"""A poisoned store for stories of rollback: what was good, what replaced it, and all that was made from that."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

from crag_runtime.result import Answer, AskRequest
from governance.rollback import Radius, carried_out, surveyed
from governance.selection import Selection
from governance.undo import undo
from ingest.parse import parse
from ingest.parse.raw import ParseLimits
from kb.memories import Note
from kb.model import Kind, SourceClass, Standing
from kb.trust import DAY_MS
from tests import stores
from tests.asking import by_words, open_runtime
from tests.fakes.evaluator import FakeEvaluator
from tests.stores import FakeClock, search, write
from tests.swept import policy

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.blocks import ParsedDocument
    from ingest.report import Report
    from kb.memories import Memories
    from kb.model import Memory
    from kb.sweeps import Sweep

FILLER = " ".join(f"Sentence {n} of the guide adds a detail that nobody asks for." for n in range(14))
LOAD, TOLL = "The Anping bridge carries forty tons on a dry day.", "The toll of the Anping bridge is three coins."
POISON = "The Anping bridge carries ninety tons on a dry day."
QUESTION = "How many tons does the Anping bridge carry on a dry day?"


def guide(load: str = LOAD, toll: str = TOLL, more: str = "") -> str:
    """Return a guide whose sections are passages of their own."""
    parts = [f"# Guide\n\n## Load\n\n{load} {FILLER}", f"## Toll\n\n{toll} {FILLER.replace('guide', 'toll')}"]
    return "\n\n".join([*parts, *([f"## More\n\n{more} {FILLER.replace('guide', 'rest')}"] if more else [])]) + "\n"


def asked(memories: Memories, tmp_path: Path, question: str = QUESTION, **parts: Any) -> Answer:
    """Ask; whatever speaks of tons is relevant."""

    async def story() -> Answer:
        given = {"evaluator": FakeEvaluator(by_words({"tons": 0.9})), **parts}
        async with open_runtime(memories, tmp_path, **given) as runtime:
            answer = await runtime.ask(AskRequest(question=question, tenant="default", approve="always"))
            assert isinstance(answer, Answer)
            return answer

    return asyncio.run(story())


def look(memories: Memories, /, **wanted: Any) -> Radius:
    """Return how far a rollback would reach."""
    return surveyed(memories, Selection(**wanted), policy(), memories.clock.now())


def roll_back(memories: Memories, /, **wanted: Any) -> list[Sweep]:
    """Roll back and return the sweeps that did."""
    selection = Selection(**wanted)
    radius = surveyed(memories, selection, policy(), memories.clock.now())
    return carried_out(memories, selection, radius, policy=policy(), actor="ann")


def take_back(memories: Memories, *sweeps: Sweep) -> None:
    """Undo sweeps, the last one first."""
    for sweep in reversed(sweeps):
        undo(memories, sweep.id, "default", actor="ann", policy=policy())


def says(memories: Memories, words: str, **request: Any) -> list[str]:
    """Return the sources of what is retrieved and has these words, at any confidence."""
    hits = search(memories, words, **{"k": 50, "gate": None, **request}).hits
    return sorted(h.memory.source for h in hits if words in h.memory.text)


def stored(memories: Memories, words: str) -> list[Memory]:
    """Return all memories that have these words, whatever their standing."""
    with memories.ledger.read() as tx:
        return [m for m in tx.memories.page("", 10_000, tenant="default") if words in m.text]


def keys(memories: Memories) -> list[Memory]:
    """Return the answer-keys."""
    return memories.page("default", limit=1000, kinds=[Kind.ANSWER], standings=list(Standing))


class HereParser:
    """The real parser without a process of its own: these files are ours, and there are many syncs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""

    def parse(self, name: str, data: bytes) -> ParsedDocument:
        return parse(name, data, ParseLimits())


def sync(memories: Memories, folder: Path, **options: Any) -> Report:
    """Ingest a folder."""
    return stores.sync(memories, folder, parser=HereParser(), **options)


def later(memories: Memories, days: float = 1.0) -> None:
    clock = memories.clock
    assert isinstance(clock, FakeClock)
    clock.advance(round(days * DAY_MS))


def poison(memories: Memories, folder: Path) -> str:
    """Sync a good guide, then one whose load is wrong; return the bad batch."""
    write(folder, guide_md=guide())
    sync(memories, folder)
    later(memories)
    write(folder, guide_md=guide(load=POISON))
    return sync(memories, folder).run_id


def note(memories: Memories, text: str, *parents: str, by: SourceClass = SourceClass.PERSON) -> Memory:
    return memories.add_note(Note(text=text, tenant="default", by=by, derived_from=parents))[0]
