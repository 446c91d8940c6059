"""The gate holds until the answer is given, for every instant that a question may be about."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from crag_runtime.evidence import Finding, Outcome
from crag_runtime.policy import RuntimePolicy
from crag_runtime.result import AskRequest, Waiting
from crag_runtime.store import Lookup, Store
from kb.history import EvidenceEvent, EvidenceKind
from kb.memories import Note
from kb.model import MemoryId, Standing
from kb.trust import DAY_MS, trusted
from tests.asking import ask, by_words, open_runtime, path_of
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.generator import FakeGenerator
from tests.fakes.search import FakeSearch
from tests.stores import FakeClock, open_store

if TYPE_CHECKING:
    from pathlib import Path

    from kb.memories import Memories
    from kb.model import Memory

BRIDGE = "The bridge carries forty tons on a dry day."
QUESTION = "What does the bridge carry?"
PAGE = Finding(url="https://bridge.example/load", title="Load", text="The bridge carries ninety tons, says this page.")


def noted(memories: Memories, text: str = BRIDGE, **note: object) -> Memory:
    return memories.add_note(Note(**{"text": text, "tenant": "default", **note}))[0]  # type: ignore[arg-type]


def changed(memories: Memories, memory: Memory, **fields: object) -> Memory:
    with memories.ledger.write() as tx:
        now = tx.memories.get([memory.id])[memory.id]
        after = replace(now, rev=now.rev + 1, **fields)
        tx.memories.replace([after])
        tx.outbox.mark([after.id], memories.clock.now())
    memories.projector.drain()
    return after


@pytest.mark.parametrize("change", ["quarantined", "faded", "superseded"])
def test_what_may_not_speak_any_more_when_the_answer_is_given_is_in_no_task(tmp_path: Path, change: str) -> None:
    clock, search = FakeClock(), FakeSearch([PAGE])
    evaluator = FakeEvaluator(by_words({"forty": 0.9, "opens at noon": 0.1}), default=0.1)
    generator = FakeGenerator()

    async def story(memories: Memories) -> None:
        memory = noted(memories)
        two_sources = replace(RuntimePolicy(), min_sources=2)  # so that it is not enough, and a person is asked
        parts = {"evaluator": evaluator, "search": search, "generator": generator, "policy": two_sources}
        async with open_runtime(memories, tmp_path, **parts) as runtime:
            waiting = await runtime.ask(AskRequest(question=QUESTION, tenant="default", thread="t"))
            assert isinstance(waiting, Waiting)
            if change == "faded":
                clock.advance(40 * DAY_MS)
            elif change == "quarantined":
                changed(memories, memory, standing=Standing.QUARANTINED)
            else:
                changed(memories, memory, standing=Standing.SUPERSEDED, valid_to=clock.now())
            answer = await runtime.resume("t", "default", decision="decline")
            assert answer.outcome is Outcome.REFUSED  # type: ignore[union-attr]
            assert answer.citations == ()  # type: ignore[union-attr]

    with open_store(tmp_path / "data", clock=clock) as memories:
        asyncio.run(story(memories))
    assert generator.calls == search.calls == 0


def test_a_page_that_a_person_rejected_does_not_answer_again(tmp_path: Path) -> None:
    search = FakeSearch([PAGE])
    evaluator = FakeEvaluator(by_words({"ninety": 0.9}))

    async def story(memories: Memories) -> None:
        async with open_runtime(memories, tmp_path, evaluator=evaluator, search=search) as runtime:
            first = await ask(runtime, QUESTION, approve="always")
            assert first.outcome is Outcome.ANSWERED
            id_ = MemoryId(first.citations[0].memory_id)
            reject(memories, id_)
            again = await ask(runtime, QUESTION, approve="always")
            assert again.outcome is Outcome.REFUSED
            assert "1 refused before" in str(again.path)

    with open_store(tmp_path / "data") as memories:
        asyncio.run(story(memories))
    assert search.calls == 2


def reject(memories: Memories, id_: MemoryId) -> None:
    now = memories.clock.now()
    memory = memories.get(id_, "default")
    half_life = memories.policies[memory.source_class].half_life
    event = EvidenceEvent(
        memory_id=id_, tenant="default", kind=EvidenceKind.REJECTION, weight=0.0, witness="a person", at=now
    )
    with memories.ledger.write() as tx:
        tx.evidence.add([event])
    changed(memories, memory, trust=trusted(0.0, now, half_life))


def test_a_page_that_was_verified_meanwhile_is_local_evidence(tmp_path: Path) -> None:
    search = FakeSearch([PAGE])
    evaluator = FakeEvaluator(by_words({"ninety": 0.9}))

    async def story(memories: Memories) -> None:
        async with open_runtime(memories, tmp_path, evaluator=evaluator, search=search) as runtime:
            first = await ask(runtime, QUESTION, approve="always")
            memory = memories.get(MemoryId(first.citations[0].memory_id), "default")
            now, half_life = memories.clock.now(), memories.policies[memory.source_class].half_life
            trust = trusted(0.95, now, half_life, verified_at=now)
            changed(memories, memory, trust=trust, standing=Standing.ACTIVE)
            again = await ask(runtime, QUESTION, approve="never")
            assert again.outcome is Outcome.ANSWERED
            assert again.citations[0].memory_id == memory.id
            assert again.citations[0].verified
            lookup = Lookup(tenant="default", k=5, gate=0.7)
            screened = Store(memories).screened([memory.id, "unknown"], lookup)
            assert screened.stored == {memory.id}
            assert screened.refused == frozenset()

    with open_store(tmp_path / "data") as memories:
        asyncio.run(story(memories))


@pytest.mark.parametrize(
    "question", ["As of March 2024, what does the bridge carry?", "截至2024年3月，桥能承重多少吨？"]
)
def test_words_about_an_earlier_time_find_what_came_in_later(tmp_path: Path, question: str) -> None:
    text = "As of March 2024, the bridge carries forty tons. 截至2024年3月，桥承重四十吨。"

    async def story(memories: Memories) -> None:
        noted(memories, text)
        async with open_runtime(memories, tmp_path, evaluator=FakeEvaluator(default=0.9)) as runtime:
            answer = await ask(runtime, question)
            assert "1 passages above gate" in str(answer.path)

    with open_store(tmp_path / "data") as memories:
        asyncio.run(story(memories))


def test_the_past_is_not_asked_of_todays_web(tmp_path: Path) -> None:
    search = FakeSearch([PAGE], is_paid=False)

    async def story(memories: Memories) -> None:
        noted(memories)
        async with open_runtime(memories, tmp_path, evaluator=FakeEvaluator(default=0.0), search=search) as runtime:
            answer = await ask(runtime, QUESTION, at=memories.clock.now() - 300 * DAY_MS)
            assert "web" not in path_of(answer)

    with open_store(tmp_path / "data") as memories:
        asyncio.run(story(memories))
    assert search.calls == 0


def test_a_passage_in_another_script_is_kept_though_it_shares_no_word(tmp_path: Path) -> None:
    async def story(memories: Memories) -> None:
        noted(memories, "晴天时这座桥可以承重四十吨。")
        async with open_runtime(memories, tmp_path, evaluator=FakeEvaluator(default=0.9)) as runtime:
            answer = await ask(runtime, "How much weight can the bridge hold on a dry day?")
            assert "1 excerpts" in str(answer.path)

    with open_store(tmp_path / "data") as memories:
        asyncio.run(story(memories))


def test_a_follow_up_takes_nothing_over_from_what_may_not_speak_any_more(tmp_path: Path) -> None:
    clock = FakeClock()

    async def story(memories: Memories) -> None:
        memory = noted(memories, "The Anping bridge was designed by Mallory Blackwood.")
        async with open_runtime(memories, tmp_path, evaluator=FakeEvaluator(default=0.9)) as runtime:
            first = await ask(runtime, "Who designed the Anping bridge?", thread="t")
            assert first.outcome is Outcome.ANSWERED
            clock.advance(1000)
            second = await ask(runtime, "Where was he born?", thread="t")
            assert "Mallory Blackwood" in str(second.plan["question"])
            assert "“" not in str(second.plan["question"])
            changed(memories, memory, standing=Standing.QUARANTINED)
            clock.advance(1000)
            third = await ask(runtime, "When was he born?", thread="t")
            assert "Mallory" not in str(third.plan)

    with open_store(tmp_path / "data", clock=clock) as memories:
        asyncio.run(story(memories))
