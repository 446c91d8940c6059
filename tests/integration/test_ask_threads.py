"""A thread's turns: nothing of one leaks into the next, none meets another person's, and each waits for the last."""

from __future__ import annotations

import asyncio

import pytest

from crag_runtime.evidence import Outcome
from crag_runtime.policy import Budgets
from crag_runtime.result import AskRequest, Waiting
from crag_runtime.turns import Turns
from kb.errors import Locked, SearchUnavailable
from kb.model import Scope
from tests.asking import ask, by_words, open_runtime, path_of
from tests.durable import COLOUR, FOUND, NOON, OPENS, Place, graded, kept, remember, until
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.generator import FakeGenerator
from tests.fakes.search import FakeSearch

PLANS = (
    "The Basic plan costs 10 dollars in 2023.",
    "The Basic plan costs 12 dollars in 2024.",
    "The Team plan costs 30 dollars in 2024.",
)


def test_a_turn_starts_with_its_full_budget(store, tmp_path, any_place):
    """The first turn spends all rewrites and searches; the second has them all again."""

    async def story():
        search = FakeSearch(script=[[], [FOUND]])
        evaluator = FakeEvaluator(default=0.05)
        budgets = Budgets(rewrites=1, searches=1)
        parts = {"search": search, "evaluator": evaluator, "budgets": budgets}
        async with kept(any_place, store, tmp_path, **parts) as runtime:
            request = {"tenant": "default", "thread": any_place.thread, "approve": "always"}
            first = await runtime.ask(AskRequest(question="Who keeps the lighthouse of Ambra?", **request))
            assert (first.outcome, first.usage.searches, search.calls) == (Outcome.REFUSED, 1, 1)
            evaluator.script = graded
            second = await runtime.ask(AskRequest(question=COLOUR, **request))
        assert (second.outcome, second.usage.searches, search.calls) == (Outcome.ANSWERED, 1, 2)
        assert (path_of(first).count("rewrite"), path_of(second).count("rewrite")) == (1, 1)
        assert path_of(second).count("begin") == 1
        assert first.answer_id != second.answer_id

    remember(store, NOON)
    asyncio.run(story())


def test_nothing_of_a_turn_is_seen_in_the_next(store, tmp_path, any_place):
    async def story():
        failing = FakeSearch(script=[SearchUnavailable("told to fail")])
        generator = FakeGenerator()
        async with kept(any_place, store, tmp_path, search=failing, generator=generator) as runtime:
            request = {"tenant": "default", "thread": any_place.thread, "approve": "always"}
            first = await runtime.ask(AskRequest(question=COLOUR, **request))
            assert first.outcome is Outcome.REFUSED
            assert first.degraded
            second = await runtime.ask(AskRequest(question=OPENS, **request))
        assert (second.outcome, second.degraded, second.reasons, second.missing) == (Outcome.ANSWERED, (), (), ())
        assert (second.usage.searches, second.verdict) == (0, "correct")
        assert "tower" not in str(second)
        assert "tower" not in str(generator.tasks)
        assert {asked.question for asked in runtime.deps.evaluator.asked} == {COLOUR, OPENS}

    remember(store, NOON)
    asyncio.run(story())


def test_what_a_caller_narrows_is_narrowed_once(store, tmp_path, place):
    async def story():
        async with kept(place, store, tmp_path) as runtime:
            narrow = await ask(runtime, OPENS, thread=place.thread, sources=("file://elsewhere",), at=1)
            wide = await ask(runtime, OPENS, thread=place.thread)
        assert (narrow.outcome, wide.outcome) == (Outcome.REFUSED, Outcome.ANSWERED)

    remember(store, NOON)
    asyncio.run(story())


def test_a_follow_up_takes_over_what_it_leaves_out_and_says_so(store, tmp_path):
    async def story():
        evaluator = FakeEvaluator(by_year)
        async with open_runtime(store, tmp_path, evaluator=evaluator) as runtime:
            first = await ask(runtime, "How much does the Basic plan cost in 2023?", thread="t")
            store.clock.advance(1000)
            second = await ask(runtime, "And in 2024?", thread="t")
            store.clock.advance(1000)
            third = await ask(runtime, "And the Team plan?", thread="t")
            store.clock.advance(1000)
            alone = await ask(runtime, "And in 2024?", thread="another")
        assert ("10 dollars" in first.text, "12 dollars" in second.text, "30 dollars" in third.text) == (True,) * 3
        assert first.plan["carried"] == ""
        assert "Basic plan" in second.plan["carried"]
        assert "carried over" in next(s["why"] for s in second.path if s["node"] == "plan")
        assert "2024" in third.plan["question"]
        assert alone.plan["carried"] == ""

    remember(store, *PLANS)
    asyncio.run(story())


def by_year(asked, evidence):
    named = [w for w in ("Basic", "Team", "2023", "2024") if w in asked.question]
    return 0.95 if named and all(w in evidence.text for w in named) else 0.05


PEOPLE = [
    {"tenant": "one"},
    {"tenant": "two"},
    {"tenant": "one", "scope": Scope(user="ann")},
    {"tenant": "one", "scope": Scope(user="bob")},
    {"tenant": "one", "scope": Scope(agent="ann")},
    {"tenant": "one", "scope": Scope(conversation="ann")},
]


def test_the_same_name_is_another_thread_for_everybody_else(store, tmp_path, any_place):
    async def story():
        search = FakeSearch([FOUND])
        search.hold.clear()
        async with kept(any_place, store, tmp_path, search=search) as runtime:
            waiting = await asyncio.gather(
                *(runtime.ask(AskRequest(question=COLOUR, thread=any_place.thread, **who)) for who in PEOPLE)
            )
            assert {type(w) for w in waiting} == {Waiting}
            assert len({w.answer_id for w in waiting}) == len(PEOPLE)
            search.hold.set()
            for number, who in enumerate(PEOPLE):
                answer = await runtime.resume(any_place.thread, decision="approve", **who)
                assert (answer.answer_id, search.calls) == (waiting[number].answer_id, number + 1)

    asyncio.run(story())


def test_a_follow_up_never_hears_of_another_persons_turn(store, tmp_path):
    async def story():
        async with open_runtime(store, tmp_path, evaluator=FakeEvaluator(by_year)) as runtime:
            for who in PEOPLE:
                store.clock.advance(1000)
                question = "How much does the Basic plan cost in 2023?" if who is PEOPLE[0] else "And in 2024?"
                answer = await runtime.ask(AskRequest(question=question, thread="t", **who))
                assert (answer.plan["carried"], answer.plan["question"]) == ("", question)

    remember(store, *PLANS, tenant="one")
    asyncio.run(story())


def test_turns_of_one_thread_wait_for_each_other_and_others_do_not(store, tmp_path, any_place):
    async def story():
        evaluator = FakeEvaluator(by_words({"noon": 0.95}))
        evaluator.hangs = True
        async with kept(any_place, store, tmp_path, evaluator=evaluator) as runtime:
            first = asyncio.create_task(ask(runtime, OPENS, thread=any_place.thread))
            await evaluator.entered.wait()
            second = asyncio.create_task(ask(runtime, OPENS, thread=any_place.thread))
            entered = evaluator.calls
            others = [asyncio.create_task(ask(runtime, OPENS, thread=f"{any_place.thread}{n}")) for n in range(3)]
            await until(lambda: evaluator.calls >= entered + 3)  # all others are at work beside the first
            assert not second.done()
            assert evaluator.calls == entered + 3  # the second turn is not
            evaluator.hangs = False
            evaluator.released.set()
            ended = await asyncio.gather(first, second, *others)
        assert {answer.outcome for answer in ended} == {Outcome.ANSWERED}

    remember(store, NOON)
    asyncio.run(story())


def test_a_turn_in_another_runtime_is_waited_for(store, tmp_path, place):
    async def story():
        slow, quick = FakeEvaluator(graded), FakeEvaluator(graded)
        slow.hangs = True
        async with (
            kept(place, store, tmp_path, evaluator=slow) as one,
            kept(place, store, tmp_path, evaluator=quick) as two,
        ):
            first = asyncio.create_task(ask(one, OPENS, thread=place.thread))
            await slow.entered.wait()
            second = asyncio.create_task(ask(two, OPENS, thread=place.thread))
            elsewhere = await ask(two, OPENS, thread="elsewhere")
            assert (elsewhere.outcome, second.done()) == (Outcome.ANSWERED, False)
            assert quick.calls == 1
            slow.released.set()
            assert (await first).outcome is (await second).outcome is Outcome.ANSWERED
            assert quick.calls == 2

    remember(store, NOON)
    asyncio.run(story())


def test_who_waits_too_long_for_another_process_is_told(store):
    from crag_runtime.threads import Threads

    async def story():
        threads = Threads(2)
        one, two = (Turns(threads, store.ledger, is_shared=True, patience=0.1) for _ in range(2))
        async with one.of("abcdef", is_known=True):
            with pytest.raises(Locked):
                async with two.of("abcdef", is_known=True):
                    pass
            async with two.of("fedcba", is_known=True), two.of("abcdef", is_known=False):
                pass  # other threads, and those that nobody else can name, wait for nobody
        waits = asyncio.create_task(two.of("abcdef", is_known=True).__aenter__())
        await asyncio.sleep(0)
        waits.cancel()
        await asyncio.wait({waits})
        async with one.of("abcdef", is_known=True):
            pass  # a wait that was broken off keeps nothing
        await threads.aclose()

    asyncio.run(story())


def test_a_turn_that_fails_leaves_the_thread_usable(store, tmp_path, any_place):
    async def story():
        evaluator = FakeEvaluator(graded)
        async with kept(any_place, store, tmp_path, evaluator=evaluator) as runtime:
            evaluator.error = RuntimeError("a defect")
            with pytest.raises(RuntimeError, match="a defect"):
                await ask(runtime, OPENS, thread=any_place.thread)
            evaluator.error = None
            again = await ask(runtime, OPENS, thread=any_place.thread)
        assert (again.outcome, path_of(again).count("begin"), again.degraded) == (Outcome.ANSWERED, 1, ())

    remember(store, NOON)
    asyncio.run(story())


def test_a_place_that_is_the_process_needs_no_lock_of_the_ledger(store, tmp_path):
    async def story():
        async with kept(Place(kind="none"), store, tmp_path) as runtime:
            await ask(runtime, OPENS, thread="t")

    asyncio.run(story())
    assert list((tmp_path / "data").rglob("turn*")) == []
