"""Feedback: on what an answer itself says, once a person and question, and never against a person's own decision."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from crag_runtime.evidence import Outcome
from crag_runtime.recording.feedback import give_feedback
from crag_runtime.result import AskRequest
from kb.errors import InputError
from kb.history import EvidenceEvent, EvidenceKind
from kb.model import MemoryId
from tests.agents import remember
from tests.asking import ask, open_runtime
from tests.chatting import vouched
from tests.fakes.evaluator import FakeEvaluator

if TYPE_CHECKING:
    from pathlib import Path

    from crag_runtime.result import Answer, Context
    from kb.memories import Memories

QUESTION = "How many tons does the Anping bridge carry?"
BRIDGE = "The Anping bridge carries 40 tons on a dry day."
OTHER = "The Anping bridge carries 55 tons on a dry day."


def asked(store: Memories, tmp_path: Path, *questions: str) -> list[Answer]:
    async def story() -> list[Answer]:
        async with open_runtime(store, tmp_path, evaluator=FakeEvaluator(default=0.9)) as runtime:
            return [await ask(runtime, question) for question in questions]

    return asyncio.run(story())


def gathered(store: Memories, tmp_path: Path) -> Context:
    async def story() -> Context:
        async with open_runtime(store, tmp_path, evaluator=FakeEvaluator(default=0.9)) as runtime:
            return await runtime.gather(AskRequest(question=QUESTION, tenant="default"))

    return asyncio.run(story())


def confidence(store: Memories, id_: str) -> float:
    return store.get(MemoryId(id_), "default").trust.confidence


def test_a_person_counts_once_on_a_question_however_often_it_is_answered(store: Memories, tmp_path: Path) -> None:
    id_ = remember(store, BRIDGE)
    answers = asked(store, tmp_path, QUESTION, f"  {QUESTION.lower()}", "What tons can the Anping bridge carry?")
    for by, counted in (("ada", 1), ("", 1), ("bob", 1), ("ada", 0)):
        given = [give_feedback(store, a.answer_id, "default", is_good=False, by=by) for a in answers[:2]]
        assert sum(len(g.events) for g in given) == counted, by
    with store.ledger.read() as tx:
        assert len(tx.evidence.of_memory(MemoryId(id_))) == 3
    assert len(give_feedback(store, answers[2].answer_id, "default", is_good=False, by="ada").events) == 1


def test_nobody_raises_a_memory_by_asking_and_praising_over_and_over(store: Memories, tmp_path: Path) -> None:
    id_ = remember(store, BRIDGE, confidence=0.72)
    for answer in asked(store, tmp_path, *[QUESTION] * 5):
        give_feedback(store, answer.answer_id, "default", is_good=True)
    assert confidence(store, id_) == pytest.approx((4 * 0.72 + 0.5) / 4.5)


def test_an_answer_that_shows_a_conflict_is_judged_by_naming_a_side(store: Memories, tmp_path: Path) -> None:
    right = vouched(store, remember(store, BRIDGE, source="https://official.example/a")).id
    wrong = remember(store, OTHER, source="https://blog.example/b")
    (answer,) = asked(store, tmp_path, QUESTION)
    assert answer.outcome is Outcome.CONFLICT
    for is_good in (True, False):
        with pytest.raises(InputError, match="both sides") as refused:
            give_feedback(store, answer.answer_id, "default", is_good=is_good)
        assert "--memory" in refused.value.hint
    before = confidence(store, wrong)
    for id_, is_good in ((right, True), (wrong, False)):
        given = give_feedback(store, answer.answer_id, "default", is_good=is_good, only=MemoryId(id_))
        assert [e.memory_id for e in given.events] == [id_]
    assert confidence(store, wrong) < before


def test_what_was_handed_over_supports_nothing_and_is_not_cited(store: Memories, tmp_path: Path) -> None:
    id_ = vouched(store, remember(store, BRIDGE)).id
    context = gathered(store, tmp_path)
    assert [(c.memory_id, c.supports) for c in context.answer.citations] == [(id_, False)]
    with store.ledger.read() as tx:
        record = tx.answers.get(context.answer.answer_id, "default")
        (use,) = tx.utility.get([MemoryId(id_)]).values()
        assert tx.lineage.children(id_) == []
    assert record is not None
    assert ([c.memory_id for c in record.citations], record.report["handed_over"]) == ([id_], True)
    assert (use.retrieved, use.relevant, use.cited) == (1, 1, 0)


def test_feedback_on_what_was_handed_over_names_the_memory(store: Memories, tmp_path: Path) -> None:
    id_ = remember(store, BRIDGE)
    answer_id = gathered(store, tmp_path).answer.answer_id
    with pytest.raises(InputError, match="handed over"):
        give_feedback(store, answer_id, "default", is_good=False)
    with pytest.raises(InputError, match="not cited"):
        give_feedback(store, answer_id, "default", is_good=False, only=MemoryId("elsewhere"))
    before = confidence(store, id_)
    given = give_feedback(store, answer_id, "default", is_good=False, only=MemoryId(id_))
    assert [e.memory_id for e in given.events] == [id_]
    assert confidence(store, id_) < before


def test_what_a_person_has_rejected_no_feedback_raises(store: Memories, tmp_path: Path) -> None:
    id_ = remember(store, BRIDGE)
    (answer,) = asked(store, tmp_path, QUESTION)
    with store.ledger.write() as tx:
        tx.evidence.add(
            [EvidenceEvent(memory_id=MemoryId(id_), tenant="default", kind=EvidenceKind.REJECTION, weight=0.0,
                           witness="ada", at=store.clock.now())]
        )  # fmt: skip
    before = store.get(MemoryId(id_), "default")
    given = give_feedback(store, answer.answer_id, "default", is_good=True)
    assert (given.events, given.memories, given.rejected) == ((), (), (id_,))
    assert store.get(MemoryId(id_), "default") == before
