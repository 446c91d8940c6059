"""The chat budget of a question: one count in front of the model, whoever asks it."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from crag_runtime.breaker import Breaker, CircuitState
from crag_runtime.evaluators.guarded import Guarded
from crag_runtime.evidence import Asked, Evidence, Origin, QuestionType
from crag_runtime.spending import KEPT, BudgetedChat, Spending
from kb.chat import Message
from kb.dates.period import TimeIntent
from kb.errors import Fault, ModelUnavailable
from tests.fakes.chat import FakeChat
from tests.fakes.evaluator import FakeEvaluator
from tests.stores import FakeClock

HELLO = [Message(role="user", content="hello there")]


class Word(BaseModel):
    word: str


def asked_of(
    chat: BudgetedChat, spending: Spending, times: int, *, reserve: int = 0, question: str = "q"
) -> list[object]:
    async def story() -> list[object]:
        with spending.of(question, {}, reserve=reserve):
            calls = [chat.complete(HELLO) for _ in range(times)]
            return list(await asyncio.gather(*calls, return_exceptions=True))

    return asyncio.run(story())


@given(limit=st.integers(0, 6), reserve=st.integers(0, 2), times=st.integers(0, 12))
def test_a_burst_never_exceeds_the_budget_and_leaves_what_is_reserved(limit: int, reserve: int, times: int) -> None:
    fake, spending = FakeChat(), Spending(limit, 10**6)
    results = asked_of(BudgetedChat(fake, spending), spending, times, reserve=reserve)
    allowed = min(times, max(0, limit - reserve))
    assert len(fake.asked) == allowed
    refused = [r for r in results if isinstance(r, ModelUnavailable)]
    assert len(refused) == times - allowed
    assert {r.fault for r in refused} <= {Fault.BUDGET}


def test_questions_have_accounts_of_their_own() -> None:
    fake, spending = FakeChat(), Spending(1, 10**6)
    chat = BudgetedChat(fake, spending)
    for question in ("a", "b", "a"):
        asked_of(chat, spending, 1, question=question)
    assert len(fake.asked) == 2


def test_what_is_on_record_counts_after_a_restart() -> None:
    fake, spending = FakeChat(), Spending(3, 10**6)

    async def story() -> None:
        with spending.of("q", {"llm_calls": 3}, reserve=0), pytest.raises(ModelUnavailable, match="budget of 3"):
            await BudgetedChat(fake, spending).structured(HELLO, Word)

    asyncio.run(story())
    assert fake.asked == []


def test_tokens_are_a_budget_too() -> None:
    fake, spending = FakeChat("one two three"), Spending(10, 4)
    results = asked_of(BudgetedChat(fake, spending), spending, 1)
    assert not isinstance(results[0], Exception)
    late = asked_of(BudgetedChat(fake, spending), spending, 1)
    assert isinstance(late[0], ModelUnavailable)


def test_a_failed_call_and_its_repeats_count() -> None:
    fake, spending = FakeChat(Fault.TIMEOUT, "word"), Spending(2, 10**6)
    results = asked_of(BudgetedChat(fake, spending), spending, 3)
    faults = [r.fault for r in results if isinstance(r, ModelUnavailable)]
    assert faults == [Fault.TIMEOUT, Fault.BUDGET]


def test_outside_of_a_question_nothing_is_counted() -> None:
    fake, spending = FakeChat(), Spending(0, 1)

    async def story() -> None:
        await BudgetedChat(fake, spending).complete(HELLO)

    asyncio.run(story())
    assert len(fake.asked) == 1


def test_accounts_are_bounded() -> None:
    spending = Spending(1, 1)
    for n in range(KEPT + 10):
        with spending.of(str(n), {}, reserve=0):
            pass
    assert len(spending._questions) == KEPT


def test_a_question_that_may_not_ask_says_nothing_of_the_service() -> None:
    primary, stand_in, breaker = FakeEvaluator(name="llm"), FakeEvaluator(default=0.9, name="fast"), Breaker()
    primary.error = ModelUnavailable("spent", fault=Fault.BUDGET)
    guarded = Guarded(primary, [stand_in], breaker, FakeClock())
    asked = Asked(question="q", type=QuestionType.FACTUAL, time=TimeIntent(), today=0, tenant="t")

    async def story() -> None:
        for _ in range(10):
            grading = await guarded.grade(asked, [Evidence(id="m", origin=Origin.MEMORY, text="a text")])
            assert grading.degraded

    asyncio.run(story())
    assert breaker.state(FakeClock().now()) is CircuitState.CLOSED
    assert primary.calls == 10
