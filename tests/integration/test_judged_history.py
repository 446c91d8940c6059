"""Answers that got feedback teach how many sources are needed: counted by root source, once a person and question."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from crag_runtime.calibrating.judged import read_history
from crag_runtime.calibrating.sources import Judged, learned_sources
from crag_runtime.evidence import QuestionType
from crag_runtime.planning.question_types import question_type
from crag_runtime.recording.feedback import give_feedback
from kb.history import AnswerId, AnswerRecord, CitedMemory
from kb.model import MemoryId
from tests.agents import remember
from tests.asking import ask, open_runtime
from tests.chatting import vouched
from tests.fakes.evaluator import FakeEvaluator

if TYPE_CHECKING:
    from pathlib import Path

    from kb.memories import Memories

PLACES = ("https://a.example/1", "https://a.example/2", "https://www.a.example/3", "https://b.example/1")


def told(store: Memories, number: int, *sources: str, tenant: str = "default") -> AnswerId:
    """Keep an answer that cites a note of each source."""
    question = f"How deep is harbour {number}?"
    ids = [remember(store, f"Harbour {number} is nine deep, says {s}.", source=s, tenant=tenant) for s in sources]
    record = AnswerRecord(
        id=AnswerId(f"{tenant}-{number}"),
        tenant=tenant,
        question=question,
        text="Nine [1].",
        outcome="answered",
        verdict="correct",
        citations=tuple(
            CitedMemory(memory_id=MemoryId(id_), rev=1, source=s) for id_, s in zip(ids, sources, strict=True)
        ),
        created_at=store.clock.now(),
    )
    with store.ledger.write() as tx:
        tx.answers.add(record)
    return record.id


def judge(store: Memories, answer: AnswerId, verdict: str, *, by: str = "ada", tenant: str = "default") -> None:
    assert give_feedback(store, answer, tenant, is_good=verdict == "good", by=by).events


def test_sources_are_counted_by_their_root_and_never_by_passage(store: Memories) -> None:
    for number, places in enumerate((PLACES[:1], PLACES[:3], PLACES)):
        judge(store, told(store, number, *places), "good")
    log = read_history(store, "default", question_type)
    assert log.answers == tuple(Judged(type=QuestionType.FACTUAL, sources=n, right=True) for n in (1, 1, 2))
    assert log.left_out == {}


def test_an_answer_is_right_where_more_people_say_so_and_undecided_where_as_many(store: Memories) -> None:
    for number, verdicts in enumerate((("bad",), ("good", "bad"), ("good", "bad", "good"))):
        answer = told(store, number, *PLACES)
        for by, verdict in zip(("ada", "bob", "cyd"), verdicts, strict=False):
            judge(store, answer, verdict, by=by)
    log = read_history(store, "default", question_type)
    assert [(j.sources, j.right) for j in log.answers] == [(2, False), (2, True)]
    assert log.left_out == {"feedback is as much for it as against it": 1}


def test_only_the_tenants_own_answers_with_feedback_are_read(store: Memories) -> None:
    judge(store, told(store, 1, *PLACES, tenant="other"), "good", tenant="other")
    told(store, 2, *PLACES)
    empty = read_history(store, "default", question_type)
    assert (empty.answers, empty.left_out) == ((), {})
    assert len(read_history(store, "other", question_type).answers) == 1


def test_the_hash_tells_one_history_from_another(store: Memories) -> None:
    judge(store, told(store, 1, *PLACES), "good")
    before = read_history(store, "default", question_type)
    assert read_history(store, "default", question_type) == before
    judge(store, told(store, 2, PLACES[0]), "bad")
    assert read_history(store, "default", question_type).hash != before.hash


def test_real_answers_are_read_with_the_type_that_was_planned(store: Memories, tmp_path: Path) -> None:
    vouched(store, remember(store, "The Anping bridge closed because its arch cracked.", source=PLACES[0]))
    vouched(store, remember(store, "The Anping bridge carries 40 tons.", source=PLACES[3]))

    async def story() -> list[AnswerId]:
        async with open_runtime(store, tmp_path, evaluator=FakeEvaluator(default=0.9)) as runtime:
            asked = ("Why did the Anping bridge close?", "How many tons does the Anping bridge carry?")
            return [AnswerId((await ask(runtime, question)).answer_id) for question in asked]

    why, tons = asyncio.run(story())
    for answer in (why, tons):
        judge(store, answer, "good")
        judge(store, answer, "good", by="bob")
    log = read_history(store, "default", lambda _question: QuestionType.CREATIVE)
    assert sorted(j.type.value for j in log.answers) == ["analytical", "factual"]
    assert all(j.right and j.sources >= 1 for j in log.answers)


def test_what_is_learned_from_history_changes_nothing_by_itself(store: Memories) -> None:
    for number in range(30):
        judge(store, told(store, number, PLACES[0], PLACES[3]), "good")
        judge(store, told(store, 100 + number, PLACES[0]), "bad" if number % 3 else "good")
    with store.ledger.read() as tx:
        before = tx.evidence.since("default", 0)
    (fit,) = learned_sources(read_history(store, "default", question_type).answers)
    assert (fit.min_sources, fit.n, fit.why) == (2, 60, "")
    with store.ledger.read() as tx:
        assert tx.evidence.since("default", 0) == before
