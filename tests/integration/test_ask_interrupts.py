"""A paid search waits for a person: nothing is paid before, nothing after a no, and the question outlives a restart."""

from __future__ import annotations

import asyncio

import pytest

from crag_runtime.evidence import Outcome
from crag_runtime.nodes.approve import decided
from crag_runtime.policy import RuntimePolicy
from crag_runtime.result import Answer, AskRequest, Waiting
from kb.errors import InputError, KbError
from kb.model import Scope, Standing
from kb.search import SearchRequest
from tests.asking import path_of
from tests.durable import COLOUR, FOUND, NOON, OPENS, Place, answers, kept, remember, until
from tests.fakes.search import FakeSearch


def asked(place, question=COLOUR, **request):
    return AskRequest(question=question, tenant="default", thread=place.thread, **request)


def test_nothing_is_searched_before_a_person_says_yes_and_once_after(store, tmp_path, any_place):
    async def story():
        search = FakeSearch([FOUND])
        async with kept(any_place, store, tmp_path, search=search) as runtime:
            waiting = await runtime.ask(asked(any_place))
            assert isinstance(waiting, Waiting)
            assert (search.calls, answers(store)) == (0, 0)
            assert (waiting.provider, waiting.max_searches, len(waiting.queries)) == ("fake", 2, 1)
            answer = await runtime.resume(any_place.thread, "default", decision="approve")
            assert search.queries == list(waiting.queries)
            assert (answer.outcome, answer.answer_id) == (Outcome.ANSWERED, waiting.answer_id)
            assert answer.citations[0].url == FOUND.url
            assert path_of(answer).count("approve") == 1

    remember(store, NOON)
    asyncio.run(story())
    assert answers(store) == 1
    found = store.search(SearchRequest(question="tower green", tenant="default", explain=False)).hits
    assert all(h.memory.standing is Standing.ACTIVE and h.memory.text != FOUND.text for h in found)


def test_a_no_makes_no_search_and_says_why(store, tmp_path, any_place):
    async def story():
        search = FakeSearch([FOUND])
        async with kept(any_place, store, tmp_path, search=search) as runtime:
            await runtime.ask(asked(any_place))
            answer = await runtime.resume(any_place.thread, "default", decision="decline")
        assert search.calls == 0
        assert answer.outcome is Outcome.REFUSED
        assert "search_declined" in answer.reasons

    remember(store, NOON)
    asyncio.run(story())
    assert answers(store) == 1


def test_a_no_leaves_what_the_store_itself_knows(store, tmp_path, any_place):
    async def story():
        search = FakeSearch([FOUND])
        async with kept(any_place, store, tmp_path, search=search) as runtime:
            waiting = await runtime.ask(asked(any_place, f"{OPENS[:-1]} and what colour is the tower painted?"))
            assert isinstance(waiting, Waiting)
            answer = await runtime.resume(any_place.thread, "default", decision="decline")
        assert search.calls == 0
        assert answer.outcome is Outcome.PARTIAL
        assert "noon" in answer.text
        assert len(answer.missing) == 1

    remember(store, NOON)
    asyncio.run(story())


def test_edited_words_are_searched_exactly(store, tmp_path, any_place):
    words = "  water tower paint colour 2026 "

    async def story():
        search = FakeSearch([FOUND])
        async with kept(any_place, store, tmp_path, search=search) as runtime:
            await runtime.ask(asked(any_place))
            answer = await runtime.resume(any_place.thread, "default", decision="edit", query=words)
        assert search.queries == [words.strip()]
        assert answer.outcome is Outcome.ANSWERED

    remember(store, NOON)
    asyncio.run(story())


BAD = [("yes", ""), ("APPROVE", ""), ("approve ", ""), ("edit", ""), ("edit", "  \n"), ("edit", "x" * 401),
       ("approve", "other words"), ("decline", "other words"), ("", "words alone"), ("", "")]  # fmt: skip


def test_what_is_no_decision_decides_nothing(store, tmp_path, any_place):
    async def story():
        search = FakeSearch([FOUND])
        async with kept(any_place, store, tmp_path, search=search) as runtime:
            await runtime.ask(asked(any_place))
            for decision, query in BAD:
                with pytest.raises(InputError):
                    await runtime.resume(any_place.thread, "default", decision=decision, query=query)
            assert search.calls == 0
            answer = await runtime.resume(any_place.thread, "default", decision="approve")  # it still waits
            assert (answer.outcome, search.calls) == (Outcome.ANSWERED, 1)

    remember(store, NOON)
    asyncio.run(story())


@pytest.mark.parametrize(
    "said",
    [None, True, 1, "yes", "", [], ["approve"], {}, {"decision": None}, {"decision": ["approve"]}, {"decision": "ok"},
     {"decision": "edit"}, {"decision": "edit", "query": "   "}, {"query": "words"}],
)  # fmt: skip
def test_anything_but_a_clear_yes_is_a_no(said):
    update = decided([{"sub": 0, "query": "q"}], said)
    assert (update["approval"], update["web_queries"]) == ("declined", [])


def test_the_wait_outlives_a_restart(store, tmp_path, place):
    async def story():
        first, second = FakeSearch([FOUND]), FakeSearch([FOUND])
        async with kept(place, store, tmp_path, search=first) as runtime:
            waiting = await runtime.ask(asked(place))
        async with kept(place, store, tmp_path, search=second) as runtime:
            graded = runtime.deps.evaluator.calls
            answer = await runtime.resume(place.thread, "default", decision="approve")
            assert (graded, runtime.deps.evaluator.calls) == (0, 1)  # what was graded before is not graded again
        assert (first.calls, second.calls) == (0, 1)
        assert (answer.outcome, answer.answer_id) == (Outcome.ANSWERED, waiting.answer_id)

    remember(store, NOON)
    asyncio.run(story())


def test_a_wait_without_a_thread_is_resumed_by_the_answers_id(store, tmp_path, place):
    async def story():
        search = FakeSearch([FOUND])
        async with kept(place, store, tmp_path, search=search) as runtime:
            waiting = await runtime.ask(AskRequest(question=COLOUR, tenant="default"))
            assert waiting.thread == waiting.answer_id
        async with kept(place, store, tmp_path, search=search) as runtime:
            answer = await runtime.resume(waiting.thread, "default", decision="approve")
        assert answer.outcome is Outcome.ANSWERED

    remember(store, NOON)
    asyncio.run(story())


def test_what_waits_in_a_process_ends_with_it(store, tmp_path):
    place = Place(kind="none")

    async def story():
        async with kept(place, store, tmp_path, search=FakeSearch([FOUND])) as runtime:
            await runtime.ask(asked(place))
        async with kept(place, store, tmp_path, search=FakeSearch([FOUND])) as runtime:
            with pytest.raises(InputError, match="no question waits"):
                await runtime.resume(place.thread, "default", decision="approve")

    asyncio.run(story())


def test_a_decision_counts_once(store, tmp_path, any_place):
    async def story():
        search = FakeSearch([FOUND])
        async with kept(any_place, store, tmp_path, search=search) as runtime:
            await runtime.ask(asked(any_place))
            again = (runtime.resume(any_place.thread, "default", decision="approve") for _ in range(3))
            ended = await asyncio.gather(*again, return_exceptions=True)
            with pytest.raises(InputError, match="no question waits"):
                await runtime.resume(any_place.thread, "default", decision="approve")
        assert sorted(type(e).__name__ for e in ended) == ["Answer", "InputError", "InputError"]
        assert search.calls == 1

    remember(store, NOON)
    asyncio.run(story())


def test_two_runtimes_that_are_told_at_once_search_once(store, tmp_path, place):
    async def story():
        search = FakeSearch([FOUND])
        search.hold.clear()
        async with (
            kept(place, store, tmp_path, search=search) as one,
            kept(place, store, tmp_path, search=search) as two,
        ):
            await one.ask(asked(place))
            told = [asyncio.create_task(r.resume(place.thread, "default", decision="approve")) for r in (one, two)]
            await until(lambda: search.calls)
            search.hold.set()
            ended = await asyncio.gather(*told, return_exceptions=True)
        assert sorted(type(e).__name__ for e in ended) == ["Answer", "InputError"]
        assert search.calls == 1

    remember(store, NOON)
    asyncio.run(story())
    assert answers(store) == 1


def test_a_thread_that_does_not_wait_cannot_be_resumed(store, tmp_path, any_place):
    async def story():
        async with kept(any_place, store, tmp_path, search=FakeSearch([FOUND])) as runtime:
            for decision in ("", "approve", "decline"):
                with pytest.raises(InputError, match="no question waits"):
                    await runtime.resume("never asked", "default", decision=decision)
            assert isinstance(await runtime.ask(asked(any_place, OPENS)), Answer)
            with pytest.raises(InputError, match="no question waits"):
                await runtime.resume(any_place.thread, "default", decision="approve")
            await runtime.ask(asked(any_place))
            for tenant, scope in (("other", Scope()), ("default", Scope(user="eve")), ("default", Scope(agent="a"))):
                with pytest.raises(InputError, match="no question waits"):
                    await runtime.resume(any_place.thread, tenant, scope=scope, decision="approve")

    remember(store, NOON)
    asyncio.run(story())


def test_without_a_paid_search_nothing_is_kept_to_resume(store, tmp_path):
    async def story():
        from tests.asking import open_runtime

        async with open_runtime(store, tmp_path) as runtime:
            with pytest.raises(InputError, match="nothing is kept"):
                await runtime.resume("t", "default", decision="approve")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("is_paid", "setting", "request_says", "searches"),
    [(False, "ask", "", 1), (True, "always", "", 1), (True, "ask", "always", 1), (True, "never", "always", 1),
     (True, "never", "", 0), (True, "ask", "never", 0), (True, "always", "never", 0), (False, "ask", "never", 0)],
)  # fmt: skip
def test_who_need_not_be_asked_is_not_asked(store, tmp_path, is_paid, setting, request_says, searches):
    place = Place(kind="none")

    async def story():
        search = FakeSearch([FOUND], is_paid=is_paid)
        policy = RuntimePolicy(approve=setting)
        async with kept(place, store, tmp_path, search=search, policy=policy) as runtime:
            answer = await runtime.ask(asked(place, approve=request_says))
        assert isinstance(answer, Answer)
        assert search.calls == searches
        assert answer.outcome is (Outcome.ANSWERED if searches else Outcome.REFUSED)

    remember(store, NOON)
    asyncio.run(story())


def test_a_new_question_takes_the_place_of_one_that_waits(store, tmp_path, any_place):
    async def story():
        search = FakeSearch([FOUND])
        async with kept(any_place, store, tmp_path, search=search) as runtime:
            await runtime.ask(asked(any_place))
            answer = await runtime.ask(asked(any_place, OPENS))
            assert (answer.outcome, search.calls) == (Outcome.ANSWERED, 0)
            assert "approve" not in path_of(answer)
            with pytest.raises(InputError, match="no question waits"):
                await runtime.resume(any_place.thread, "default", decision="approve")

    remember(store, NOON)
    asyncio.run(story())


def test_a_question_may_wait_twice_on_one_thread(store, tmp_path, place):
    async def story():
        search = FakeSearch([FOUND])
        async with kept(place, store, tmp_path, search=search) as runtime:
            first = await runtime.ask(asked(place))
            second = await runtime.ask(asked(place, "What colour is the tower painted in spring?"))
            assert first.answer_id != second.answer_id
            answer = await runtime.resume(place.thread, "default", decision="approve")
            assert (answer.answer_id, search.queries) == (second.answer_id, list(second.queries))
            assert path_of(answer).count("rewrite") == 1  # the first question's rewrite was not taken off its budget

    remember(store, NOON)
    asyncio.run(story())


def test_the_evidence_of_a_waiting_question_is_read_anew(store, tmp_path, place):
    """What is forgotten while a question waits is not used after."""

    async def story():
        question = f"{OPENS[:-1]} and what colour is the tower painted?"
        async with kept(place, store, tmp_path, search=FakeSearch([FOUND])) as runtime:
            await runtime.ask(asked(place, question))
            with store.ledger.write() as tx:
                tx.memories.remove(noon)
            answer = await runtime.resume(place.thread, "default", decision="decline")
        assert answer.outcome is Outcome.REFUSED
        assert "noon" not in answer.text

    noon = remember(store, NOON)
    asyncio.run(story())


def test_a_gathering_never_waits(store, tmp_path, any_place):
    async def story():
        search = FakeSearch([FOUND])
        async with kept(any_place, store, tmp_path, search=search) as runtime:
            context = await runtime.gather(asked(any_place))
            assert (context.answer.outcome, context.excerpts, search.calls) == (Outcome.REFUSED, (), 0)
            context = await runtime.gather(asked(any_place, approve="always"))
            assert (len(context.excerpts), search.calls) == (1, 1)
            await runtime.aclose()
            with pytest.raises(KbError, match="closed"):
                await runtime.gather(asked(any_place))

    remember(store, NOON)
    asyncio.run(story())
