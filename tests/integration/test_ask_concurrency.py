"""Many questions at a time: nobody sees another tenant's, the loop stays free, and who leaves leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from crag_runtime.evidence import Outcome
from crag_runtime.generators.llm import LlmGenerator
from crag_runtime.recording.recorder import Recorder
from crag_runtime.recording.spool import Spool
from crag_runtime.result import AskRequest, Waiting, as_json
from crag_runtime.runs import Closed
from crag_runtime.store import Store
from crag_runtime.threads import Threads
from crag_runtime.vectors import QuestionVectors
from kb.errors import EmbedderUnavailable, KbError
from tests.asking import ask, open_runtime
from tests.durable import COLOUR, FOUND, NOON, OPENS, Place, answers, graded, kept, remember, until
from tests.fakes.chat import FakeChat
from tests.fakes.embedder import HashingEmbedder
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.generator import FakeGenerator
from tests.fakes.search import FakeSearch
from tests.measured_loop import run_measured
from tests.stores import open_store

TENANTS = ("north", "south", "east", "west")
DOORS = 8
BLOCKED = 0.05  # seconds


def code(tenant, door):
    return f"{tenant.upper()}{door}X"


def fill(memories):
    for tenant in TENANTS:
        remember(
            memories, *(f"The code of door {d} is {code(tenant, d)} since spring." for d in range(DOORS)), tenant=tenant
        )


def by_door(asked, evidence):
    door = asked.question.split("door ")[1][0]
    return 0.95 if f"door {door} " in evidence.text else 0.05


def foreign(tenant):
    return [code(other, d) for other in TENANTS if other != tenant for d in range(DOORS)]


async def ask_all(runtime):
    """Ask every tenant about every door, all at once, all on threads of the same names."""
    asked = [(tenant, door) for door in range(DOORS) for tenant in TENANTS]
    requests = (
        AskRequest(question=f"What is the code of door {door}?", tenant=tenant, thread=f"door {door}")
        for tenant, door in asked
    )
    return list(zip(asked, await asyncio.gather(*map(runtime.ask, requests)), strict=True))


def test_thirty_two_questions_of_four_tenants_never_meet(store, tmp_path, any_place):
    async def story():
        async with kept(any_place, store, tmp_path, evaluator=FakeEvaluator(by_door)) as runtime:
            return await ask_all(runtime)

    fill(store)
    ended = asyncio.run(story())
    own = {tenant: {m.id for m in store.page(tenant, limit=100)} for tenant in TENANTS}
    for (tenant, door), answer in ended:
        assert answer.outcome is Outcome.ANSWERED
        assert code(tenant, door) in answer.text
        assert {c.memory_id for c in answer.citations} <= own[tenant]
        assert {str(s["memory_id"]) for s in answer.suppressed} <= own[tenant]
        shown = str(as_json(answer))
        assert [word for word in foreign(tenant) if word in shown] == []
        with store.ledger.read() as tx:
            record = tx.answers.get(answer.answer_id, tenant)
            assert record is not None
            assert [word for word in foreign(tenant) if word in str(record)] == []
    assert [answers(store, tenant) for tenant in TENANTS] == [DOORS] * len(TENANTS)


def test_no_prompt_holds_another_tenants_memory(store, tmp_path):
    async def story():
        def quote(asking):
            line = next(line for line in asking.prompt.splitlines() if "The code of door" in line)
            return f"{line[line.index('The code') : line.index('spring') + 6]} [1]"

        chat, threads = FakeChat(respond=quote), Threads(2)
        parts = {"evaluator": FakeEvaluator(by_door), "generator": LlmGenerator(chat, threads)}
        async with open_runtime(store, tmp_path, **parts) as runtime:
            await ask_all(runtime)
        await threads.aclose()
        return chat.prompts

    fill(store)
    prompts = asyncio.run(story())
    assert len(prompts) >= len(TENANTS) * DOORS
    for prompt in prompts:
        assert len({tenant for tenant in TENANTS for d in range(DOORS) if code(tenant, d) in prompt}) == 1


@pytest.mark.parametrize("kind", ["none", "sqlite"])
def test_the_loop_is_never_held_up(store, tmp_path, kind):
    async def story():
        loop = asyncio.get_running_loop()
        parts = {"evaluator": FakeEvaluator(by_door), "durability": "sync"}
        async with kept(Place(kind=kind), store, tmp_path, **parts) as runtime:
            await ask(runtime, "What is the code of door 1?")  # what is loaded once is loaded
            walls = []
            for _ in range(3):
                await asyncio.sleep(0)
                loop.forget()
                await ask_all(runtime)
                assert loop.worst_cpu < BLOCKED, loop.worst
                walls.append(loop.worst_wall)
                if walls[-1] < BLOCKED:
                    return
            raise AssertionError(f"some callback always took longer than it may: {walls}")

    fill(store)
    run_measured(story())


def test_a_first_question_does_not_hold_the_loop_up_either(tmp_path, local_embedder, model_cache):
    """With the real embedder and the real reader, cold: models are loaded and run in threads."""
    from crag_runtime.evaluators.reader import ReaderEvaluator  # noqa: F401 - what is measured must be there
    from crag_runtime.wiring import build_runtime
    from kb.settings import Settings

    async def story(memories):
        loop = asyncio.get_running_loop()
        settings = Settings(data_dir=tmp_path, cache_dir=model_cache, ask={"evaluator": "reader"})
        async with build_runtime(settings, memories) as runtime:
            await asyncio.sleep(0)
            loop.forget()
            ended = await asyncio.gather(*(ask(runtime, OPENS, thread=f"t{n}") for n in range(4)))
            assert {answer.outcome for answer in ended} == {Outcome.ANSWERED}
            assert loop.worst_cpu < BLOCKED, loop.worst

    with open_store(tmp_path, embedder=local_embedder) as memories:
        remember(memories, NOON)
        run_measured(story(memories))


def test_who_gives_up_leaves_nothing_that_writes_later(store, tmp_path, any_place):
    async def story():
        evaluator, generator = FakeEvaluator(graded), FakeGenerator()
        evaluator.hangs = True
        async with kept(any_place, store, tmp_path, evaluator=evaluator, generator=generator) as runtime:
            before = asyncio.all_tasks()
            await cancelled(asyncio.create_task(ask(runtime, OPENS)), evaluator.entered.wait())
            evaluator.hangs = False
            evaluator.released.set()
            generator.hold.clear()
            await cancelled(asyncio.create_task(ask(runtime, OPENS)), until(lambda: generator.calls))
            generator.hold.set()
            events = runtime.stream(AskRequest(question=OPENS, tenant="default"))
            assert (await anext(events)).kind == "step"
            await events.aclose()
            assert len(runtime._runs) == 0
            assert [t for t in asyncio.all_tasks() - before if t.get_coro().__qualname__ != "Event.wait"] == []
            assert answers(store) == 0
            assert (await ask(runtime, OPENS)).outcome is Outcome.ANSWERED  # and still of use
            assert answers(store) == 1

    remember(store, NOON)
    before = threading.active_count()
    asyncio.run(story())
    assert answers(store) == 1
    assert threading.active_count() == before


async def cancelled(task, moment):
    await moment
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class Slow(Recorder):
    """Writes when it is told to."""

    def __init__(self, *args):
        super().__init__(*args)
        self.entered, self.released = threading.Event(), threading.Event()

    def record(self, learned):
        self.entered.set()
        self.released.wait(60)
        return super().record(learned)


def test_a_write_back_that_has_begun_is_whole_before_the_runtime_is_closed(store, tmp_path):
    async def story():
        recorder = Slow(Store(store), Spool(tmp_path))
        async with open_runtime(store, tmp_path, evaluator=FakeEvaluator(graded), recorder=recorder) as runtime:
            task = asyncio.create_task(ask(runtime, OPENS))
            await cancelled(task, until(recorder.entered.is_set))
            assert answers(store) == 0
            recorder.released.set()

    remember(store, NOON)
    asyncio.run(story())
    assert answers(store) == 1  # at the end of the context, not after it


def test_closing_lets_a_step_end_and_the_question_go_on_elsewhere(store, tmp_path, place):
    async def story():
        evaluator = FakeEvaluator(graded)
        evaluator.hangs = True
        async with kept(place, store, tmp_path, evaluator=evaluator) as runtime:
            asking = asyncio.create_task(ask(runtime, OPENS, thread=place.thread))
            await evaluator.entered.wait()
            closing = asyncio.create_task(runtime.aclose())
            await asyncio.sleep(0)
            evaluator.released.set()
            await closing
            with pytest.raises(Closed) as caught:
                await asking
            assert place.thread in caught.value.hint
            with pytest.raises(Closed):
                await ask(runtime, OPENS)
        assert answers(store) == 0
        again = FakeEvaluator(graded)
        async with kept(place, store, tmp_path, evaluator=again) as runtime:
            answer = await runtime.resume(place.thread, "default")
        assert (answer.outcome, again.calls) == (Outcome.ANSWERED, 0)

    remember(store, NOON)
    asyncio.run(story())


def test_closing_does_not_wait_for_what_hangs_nor_for_who_stopped_reading(store, tmp_path, any_place):
    async def story():
        evaluator = FakeEvaluator(graded)
        async with kept(any_place, store, tmp_path, evaluator=evaluator) as runtime:
            left = runtime.stream(AskRequest(question=OPENS, tenant="default"))
            await anext(left)  # and never again
            evaluator.hangs = True
            asking = asyncio.create_task(ask(runtime, OPENS))
            gathering = asyncio.create_task(runtime.gather(AskRequest(question=OPENS, tenant="default")))
            await until(lambda: evaluator.calls >= 2)
            await runtime.aclose(grace=0.2)
            for task in (asking, gathering):
                with pytest.raises(Closed):
                    await task
            await left.aclose()

    remember(store, NOON)
    asyncio.run(story())


def test_closing_twice_is_no_error_and_a_closed_pool_says_so():
    async def story():
        threads = Threads(1)
        await threads.aclose()
        await threads.aclose()
        with pytest.raises(KbError, match="closed"):
            await threads.call(time.monotonic)

    asyncio.run(story())


def test_a_call_that_nobody_waits_for_any_more_is_never_begun():
    async def story():
        threads, done, free = Threads(1), [], threading.Event()
        first = asyncio.create_task(threads.call(free.wait))
        await asyncio.sleep(0)
        second = asyncio.create_task(threads.call(done.append, "second"))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        free.set()
        await first
        await threads.aclose()
        assert done == []

    asyncio.run(story())


class Waited(HashingEmbedder):
    """Embeds a question when told; says when a first and a second one is asked for."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.go = threading.Event(), threading.Event(), threading.Event()

    def queries(self, texts):
        (self.second if self.first.is_set() else self.first).set()
        self.go.wait(60)
        return super().queries(texts)


def test_a_question_is_embedded_once_however_many_ask_it():
    embedder = Waited()
    vectors = QuestionVectors(embedder)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(vectors.of, [OPENS])]
        assert embedder.first.wait(60)
        asked += [pool.submit(vectors.of, [OPENS, OPENS]) for _ in range(3)]
        assert not embedder.second.wait(0.2)
        embedder.go.set()
        assert [future.result()[1] for future in asked] == [1, 0, 0, 0]
    assert embedder.calls == 1


def test_who_waited_for_a_vector_that_failed_makes_it():
    embedder = Waited()
    vectors = QuestionVectors(embedder)
    with ThreadPoolExecutor(2) as pool:
        failing = pool.submit(vectors.of, [OPENS])
        assert embedder.first.wait(60)
        embedder.unavailable = True
        waiting = pool.submit(vectors.of, [OPENS])
        embedder.go.set()
        for future in (failing, waiting):
            with pytest.raises(EmbedderUnavailable):
                future.result()
    embedder.unavailable = False
    assert vectors.of([OPENS])[1] == 1


def test_a_runtime_inside_another_graph_is_not_a_part_of_it(store, tmp_path):
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, StateGraph

    async def story():
        search = FakeSearch([FOUND])
        async with kept(Place(kind="sqlite"), store, tmp_path, search=search) as runtime:

            async def node(state: dict) -> dict:
                result = await runtime.ask(AskRequest(question=state["question"], tenant="default", thread="inner"))
                return {"answer": "waiting" if isinstance(result, Waiting) else result.text}

            graph = StateGraph(dict)
            graph.add_node("ask", node)
            graph.add_edge(START, "ask")
            graph.add_edge("ask", END)
            outer = graph.compile(checkpointer=InMemorySaver())
            config = {"configurable": {"thread_id": "outer"}}
            assert "noon" in (await outer.ainvoke({"question": OPENS}, config))["answer"]
            assert (await outer.ainvoke({"question": COLOUR}, config))["answer"] == "waiting"  # not: the caller's own
            assert search.calls == 0

    remember(store, NOON)
    asyncio.run(story())
