"""Words that may not be given out do not leave by the way: by a refused draft, or by a conflict whose side has gone."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from crag_runtime.evidence import Conflict, Evidence, Excerpt, Finding, Label, Origin, Outcome, Side
from crag_runtime.result import as_json
from crag_runtime.task import standing
from kb.memories import Note
from kb.model import MemoryId, Standing
from tests.asking import ask, open_runtime
from tests.fakes.generator import FakeGenerator
from tests.fakes.search import FakeSearch
from tests.integration.test_ask_gate_holds import changed, reject
from tests.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from crag_runtime.evidence import Task
    from crag_runtime.result import Answer
    from kb.memories import Memories
    from kb.model import Memory

QUESTION = "What load does the Harbour Bridge carry?"
TRUE = "The Harbour Bridge carries a load of 40 tons on dry days."
FALSE = "The Harbour Bridge carries a load of 55 tons on dry days."
LOAD = re.compile(r"(?<![\w.:-])55(?!\w|[.:]\d)")  # of the false side; digits of an id or an instant are none


def told(folder: Path, *script: Callable[[Memories, Memory, Task], str]) -> tuple[Answer, str]:
    """Ask while a script writes the drafts and changes the store; return the answer, and all that is kept of it."""

    async def story(memories: Memories) -> tuple[Answer, str]:
        memories.add_note(Note(text=TRUE, tenant="default", source="note://works/a"))
        other = memories.add_note(Note(text=FALSE, tenant="default", source="note://town/b"))[0]
        drafts = [lambda task, write=write: write(memories, other, task) for write in script]
        generator = FakeGenerator(script=drafts)
        async with open_runtime(memories, folder, generator=generator) as runtime:
            answer = await ask(runtime, QUESTION)
        with memories.ledger.read() as tx:
            return answer, repr(tx.answers.get(answer.answer_id, "default"))

    with open_store(folder / "data") as memories:
        return asyncio.run(story(memories))


def cited(task: Task, text: str) -> str:
    """Return a text as a sentence that cites the evidence which has it."""
    ids = list(dict.fromkeys(e.evidence.id for e in task.excerpts))
    having = next(excerpt.evidence.id for excerpt in task.excerpts if text in excerpt.strips)
    return f"{text} [{ids.index(having) + 1}]"


@pytest.mark.parametrize("spilled", ["Mallory rules the harbour.", "The harbour costs 8812 gold pieces.", "“zanzibar”"])
def test_a_refused_drafts_words_are_neither_told_nor_kept(tmp_path: Path, spilled: str) -> None:
    answer, kept = told(tmp_path, *[lambda _m, _o, _t: f"{spilled} [1]"] * 2)
    assert answer.outcome is Outcome.REFUSED
    told_and_kept = json.dumps(as_json(answer), ensure_ascii=False) + kept
    for word in ("Mallory", "8812", "zanzibar"):
        assert word not in told_and_kept


def test_a_side_that_may_not_speak_any_more_is_in_no_task_answer_or_record(tmp_path: Path) -> None:
    tasks = []

    def leave(memories: Memories, other: Memory, task: Task) -> str:
        tasks.append(task)
        changed(memories, other, standing=Standing.QUARANTINED)
        return "Mallory rules."

    def write(_memories: Memories, _other: Memory, task: Task) -> str:
        tasks.append(task)
        return cited(task, TRUE)

    answer, kept = told(tmp_path, leave, write)
    assert [len(task.conflicts) for task in tasks] == [1, 0]
    assert answer.outcome is Outcome.ANSWERED
    assert not LOAD.search(json.dumps(as_json(answer)) + kept)


def test_a_side_that_goes_while_a_draft_is_checked_is_not_told_either(tmp_path: Path) -> None:
    def write(memories: Memories, other: Memory, task: Task) -> str:
        changed(memories, other, standing=Standing.QUARANTINED)
        return cited(task, TRUE)

    answer, kept = told(tmp_path, write)
    assert (answer.outcome, answer.conflicts) == (Outcome.ANSWERED, ())
    assert not LOAD.search(json.dumps(as_json(answer)) + kept)


def test_a_side_whose_quoted_source_has_gone_is_told_in_the_words_of_another() -> None:
    def excerpt(id_: str, text: str) -> Excerpt:
        evidence = Evidence(id=id_, origin=Origin.MEMORY, text=text, source=f"note://{id_}")
        return Excerpt(evidence=evidence, sub=0, strips=(text,), relevance=0.9, label=Label.RELEVANT)

    own, other = excerpt("a", TRUE), excerpt("b", FALSE)
    sides = (
        Side(
            value="40 tons", ids=("a", "gone"), quote="It is 40 tons, says the vanished survey.", source="note://gone"
        ),
        Side(value="55 tons", ids=("b",), quote=FALSE, source="note://b"),
    )
    conflict = Conflict(sub=0, kind="number", sides=sides)
    (left,) = standing([conflict], [own, other])
    assert left.sides == (replace(sides[0], ids=("a",), quote=TRUE, source="note://a"), sides[1])
    assert standing([conflict], [other]) == ()


def test_a_page_that_is_refused_while_its_question_is_under_way_is_no_evidence_any_more(tmp_path: Path) -> None:
    page = Finding(url="https://bridge.example/load", title="Load", text=TRUE)

    async def story(memories: Memories) -> Answer:
        search = FakeSearch([page], is_paid=False)
        async with open_runtime(memories, tmp_path, search=search) as runtime:
            first = await ask(runtime, QUESTION)
        assert first.outcome is Outcome.ANSWERED

        def leave(_task: Task) -> str:
            reject(memories, MemoryId(first.citations[0].memory_id))
            return "Mallory rules."

        generator = FakeGenerator(script=[leave])
        async with open_runtime(memories, tmp_path, search=search, generator=generator) as runtime:
            return await ask(runtime, QUESTION)

    with open_store(tmp_path / "data") as memories:
        answer = asyncio.run(story(memories))
    assert answer.outcome is Outcome.REFUSED
    assert "40 tons" not in json.dumps(as_json(answer))
