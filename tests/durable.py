"""Runtimes that keep unfinished questions, over one small store that all stories of durability share."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crag_runtime.checkpoints import open_checkpointer
from crag_runtime.evidence import Finding
from kb.memories import Note
from kb.settings import Settings
from tests.asking import open_runtime
from tests.fakes.evaluator import FakeEvaluator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from crag_runtime.evidence import Asked, Evidence
    from crag_runtime.runtime import CragRuntime
    from kb.memories import Memories

OPENS = "When does the bridge open?"  # answered from the store
NOON = "The bridge opens at noon for tall ships."
COLOUR = "What colour is the tower painted?"  # answered from the web only
FOUND = Finding(url="https://towers.test/colour", title="Towers", text="The tower is painted green every spring.")


def graded(asked: Asked, evidence: Evidence) -> float:
    """Return the relevance that the stories' passages have for their own question, and only for it."""
    return (
        0.95
        if ("bridge" in asked.question and "noon" in evidence.text)
        or ("tower" in asked.question and "green" in evidence.text)
        else 0.05
    )


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where unfinished questions are kept: none, sqlite or postgres (at `url`). `thread` is nobody else's."""

    kind: str
    url: str = ""
    thread: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def is_lasting(self) -> bool:
        return self.kind != "none"

    def settings(self, data_dir: Path) -> Settings:
        ask = {"checkpointer": self.kind, **({"checkpoint_url": self.url} if self.url else {})}
        return Settings(data_dir=data_dir, ask=ask)  # type: ignore[arg-type] # as from a file


@asynccontextmanager
async def kept(
    place: Place, memories: Memories, data_dir: Path, *, durability: str = "exit", **parts: Any
) -> AsyncIterator[CragRuntime]:
    """Open a runtime over the store whose evaluator knows the stories' passages."""
    given = {"evaluator": FakeEvaluator(graded), **parts}
    async with (
        open_checkpointer(place.settings(data_dir), needs_one=True) as saver,
        open_runtime(
            memories, data_dir, checkpointer=saver, durability=durability, is_lasting=place.is_lasting, **given
        ) as runtime,
    ):
        yield runtime


def remember(memories: Memories, *texts: str, tenant: str = "default") -> list[str]:
    """Store notes of a person and return their ids."""
    return [memories.add_note(Note(text=text, tenant=tenant))[0].id for text in texts]


async def until(claim: Callable[[], object]) -> None:
    """Return once the claim holds; what it looks at tells nobody when it changes."""
    while not claim():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.01)


def answers(memories: Memories, tenant: str = "default") -> int:
    """Return how many answers were written back."""
    with memories.ledger.read() as tx:
        return len(tx.answers.page(tenant, limit=1000))
