"""What a person approved is what is searched: no other words, not even after a timeout."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from crag_runtime.evidence import Finding, Outcome
from crag_runtime.result import AskRequest, Waiting
from kb.errors import Fault, InputError, SearchUnavailable
from tests.asking import by_words, open_runtime
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.search import FakeSearch
from tests.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from crag_runtime.result import Answer

FALCON = "How many tons does the secret Project Falcon bridge carry?"
PAGE = Finding(url="https://bridge.example/load", title="Load", text="Bridges of this kind carry 40 tons.")


def late() -> SearchUnavailable:
    return SearchUnavailable("slow", fault=Fault.TIMEOUT)


def decided(tmp_path: Path, search: FakeSearch, question: str, decision: str, query: str = "") -> Answer:
    async def story() -> Answer:
        with open_store(tmp_path / "data") as memories:
            evaluator = FakeEvaluator(by_words({"40 tons": 0.9}))
            async with open_runtime(memories, tmp_path, evaluator=evaluator, search=search) as runtime:
                waiting = await runtime.ask(AskRequest(question=question, tenant="default", thread="t"))
                assert isinstance(waiting, Waiting)
                answer = await runtime.resume("t", "default", decision=decision, query=query)
                assert not isinstance(answer, Waiting)
                return answer

    return asyncio.run(story())


@pytest.mark.parametrize("replies", [([PAGE],), (late(), [PAGE]), (late(), late())])
def test_an_edited_search_sends_the_edited_words_and_no_others(tmp_path: Path, replies: tuple[object, ...]) -> None:
    search = FakeSearch(script=replies)  # type: ignore[arg-type] # findings or errors
    decided(tmp_path, search, FALCON, "edit", "bridge load limits in general")
    assert set(search.queries) == {"bridge load limits in general"}
    assert search.calls == len(replies)


def test_approved_words_are_repeated_as_they_were_approved(tmp_path: Path) -> None:
    search = FakeSearch(script=[late(), [PAGE]])
    answer = decided(tmp_path, search, FALCON, "approve")
    assert search.calls == 2
    assert len(set(search.queries)) == 1
    assert answer.outcome is not Outcome.REFUSED


def test_an_edited_search_is_one_search_for_every_open_part(tmp_path: Path) -> None:
    search = FakeSearch([PAGE])
    question = "How many tons does the bridge carry, and who painted the tunnel?"
    answer = decided(tmp_path, search, question, "edit", "bridge load and tunnel paint")
    assert search.queries == ["bridge load and tunnel paint"]
    assert answer.citations


def test_a_decision_on_one_question_is_none_on_the_next(tmp_path: Path) -> None:
    search = FakeSearch([PAGE])

    async def story() -> None:
        with open_store(tmp_path / "data") as memories:
            evaluator = FakeEvaluator(by_words({"40 tons": 0.9}))
            async with open_runtime(memories, tmp_path, evaluator=evaluator, search=search) as runtime:
                first = await runtime.ask(AskRequest(question=FALCON, tenant="default", thread="t"))
                second = await runtime.ask(
                    AskRequest(question="Where does the mayor live?", tenant="default", thread="t")
                )
                assert isinstance(first, Waiting)
                assert isinstance(second, Waiting)
                with pytest.raises(InputError, match="another question waits"):
                    await runtime.resume("t", "default", decision="approve", answer_id=first.answer_id)
                assert search.calls == 0
                await runtime.resume("t", "default", decision="decline", answer_id=second.answer_id)

    asyncio.run(story())
    assert search.calls == 0


def test_a_gathering_asks_a_free_search_under_the_default_policy(tmp_path: Path) -> None:
    free, paid = FakeSearch([PAGE], is_paid=False), FakeSearch([PAGE])

    async def story(search: FakeSearch) -> None:
        with open_store(tmp_path / search.name / str(search.is_paid)) as memories:
            evaluator = FakeEvaluator(by_words({"40 tons": 0.9}))
            async with open_runtime(memories, tmp_path, evaluator=evaluator, search=search) as runtime:
                await runtime.gather(AskRequest(question="How many tons do bridges carry?", tenant="default"))

    asyncio.run(story(free))
    asyncio.run(story(paid))
    assert (free.calls, paid.calls) == (1, 0)
