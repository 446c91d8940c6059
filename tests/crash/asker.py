"""One process that asks, to be killed from outside: `python -m tests.crash.asker DATA_DIR KIND URL DURABILITY`.

Each topic's question hangs at another step, after its mark `hung-TOPIC` was left; what is done is told in `done-TOPIC`.
Real ledger, real graph, real checkpoints; the index is in process, built anew from the ledger.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_runtime.policy import RuntimePolicy
from crag_runtime.recording.recorder import Recorder
from crag_runtime.recording.spool import Spool
from crag_runtime.result import AskRequest
from crag_runtime.store import Store
from kb.errors import LedgerUnavailable
from kb.rebuild import reindex
from tests.durable import Place, kept
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.generator import FakeGenerator
from tests.fakes.search import FakeSearch
from tests.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crag_runtime.evidence import Asked, Draft, Evidence, Finding, Task
    from crag_runtime.ports import Grading
    from crag_runtime.recording.learned import Learned
    from crag_runtime.recording.recorder import Recorded

TOPICS = {  # where each hangs
    "bridge": "grade",
    "harbour": "generate",
    "tower": "web",
    "dock": "before the write-back",
    "pier": "after the write-back",
    "mole": "after the ledger refused it",
}


def question(topic: str) -> str:
    """Return the question about a topic."""
    return f"What colour is the {topic} painted?"


def text(topic: str) -> str:
    """Return what answers it."""
    return f"The {topic} is painted green every spring."


def relevance(asked: Asked, evidence: Evidence) -> float:
    """Return how a passage fits: by its topic."""
    return 0.95 if any(t in asked.question and t in evidence.text for t in TOPICS) else 0.05


class Marks:
    """Leaves marks beside the ledger."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def hangs_at(self, step: str, words: str) -> bool:
        """Leave a mark and return true when the topic in `words` hangs at this step."""
        topic = next(t for t in TOPICS if t in words)
        if TOPICS[topic] == step:
            (self._folder / f"hung-{topic}").touch()
        return TOPICS[topic] == step


class Evaluator(FakeEvaluator):
    """Hangs for one topic."""

    def __init__(self, marks: Marks) -> None:
        super().__init__(relevance)
        self._marks = marks

    async def grade(self, asked: Asked, evidence: Sequence[Evidence]) -> Grading:
        if self._marks.hangs_at("grade", asked.question):
            await asyncio.Event().wait()
        return await super().grade(asked, evidence)


class Generator(FakeGenerator):
    """Hangs for one topic."""

    def __init__(self, marks: Marks) -> None:
        super().__init__()
        self._marks = marks

    async def generate(self, task: Task, on_token: Callable[[str], None]) -> Draft:
        if self._marks.hangs_at("generate", task.plan.question):
            await asyncio.Event().wait()
        return await super().generate(task, on_token)


class Search(FakeSearch):
    """Hangs for one topic."""

    def __init__(self, marks: Marks) -> None:
        super().__init__()
        self._marks = marks

    async def search(self, query: str, *, limit: int) -> list[Finding]:
        if self._marks.hangs_at("web", query):
            await asyncio.Event().wait()
        return await super().search(query, limit=limit)


class HangingRecorder(Recorder):
    """Hangs before or after the write, for a topic each; the ledger refuses one."""

    marks: Marks

    def record(self, learned: Learned) -> Recorded:
        if self.marks.hangs_at("before the write-back", learned.question):
            time.sleep(600)
        recorded = super().record(learned)
        if self.marks.hangs_at("after the write-back", learned.question) or recorded.problem:
            self.marks.hangs_at("after the ledger refused it", learned.question)
            time.sleep(600)
        return recorded

    def _write(self, learned: Learned) -> Recorded:
        if "mole" in learned.question:
            raise LedgerUnavailable("told to refuse")
        return super()._write(learned)


async def main(data_dir: Path, place: Place, durability: str) -> None:
    """Ask about every topic at once."""
    marks = Marks(data_dir)
    with open_store(data_dir) as memories:
        reindex(memories, re_embed=False)
        store = Store(memories)
        recorder = HangingRecorder(store, Spool(data_dir), "fake")
        recorder.marks = marks
        parts: dict[str, Any] = {
            "evaluator": Evaluator(marks),
            "generator": Generator(marks),
            "search": Search(marks),
            "recorder": recorder,
            "policy": RuntimePolicy(node_seconds=600.0, approve="always"),
        }
        async with kept(place, memories, data_dir, durability=durability, **parts) as runtime:
            requests = [AskRequest(question=question(t), tenant="default", thread=f"{place.thread}{t}") for t in TOPICS]
            await asyncio.gather(*map(runtime.ask, requests))


if __name__ == "__main__":
    folder, kind, url, durability, thread = sys.argv[1:]
    asyncio.run(main(Path(folder), Place(kind=kind, url=url, thread=thread), durability))
