"""However evidence, search and model turn out, a question ends within its budgets and is written back once."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from itertools import permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver

from crag_runtime.evidence import Finding, Outcome
from crag_runtime.generators.llm import LlmGenerator
from crag_runtime.policy import Budgets, RuntimePolicy
from crag_runtime.recording.recorder import Recorder
from crag_runtime.recording.spool import Spool
from crag_runtime.remedies import DEFAULT_ORDER, Remedy
from crag_runtime.result import AskRequest, Waiting
from crag_runtime.spending import BudgetedChat, Spending
from crag_runtime.store import Store
from crag_runtime.threads import Threads
from kb.errors import EvaluatorUnavailable, Fault, KbError, LedgerUnavailable, SearchUnavailable
from kb.memories import Note
from tests.asking import open_runtime
from tests.fakes.chat import FakeChat
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.search import FakeSearch
from tests.stores import open_store

QUESTIONS = (
    "When does the bridge open?",
    "When does the bridge open and what colour is the tower painted?",
    "Compare the bridge and the tower.",
    "桥什么时候开放？",
)
TEXTS = ("The bridge opens at noon for tall ships.", "The tower is painted green every spring.", "桥中午开放。")


@dataclass(frozen=True)
class World:
    """What may happen: drawn once, played by a seed, so that a failing example replays."""

    question: str
    budgets: Budgets
    seed: int
    relevances: tuple[float | None, ...]
    is_paid: bool
    decisions: tuple[str, ...]
    failing: float  # share of calls that fail
    remedies: tuple[Remedy, ...]

    @property
    def policy(self) -> RuntimePolicy:
        backup = "reference" if Remedy.BACKUP in self.remedies else ""
        return RuntimePolicy(remedies=self.remedies, backup_tenant=backup)


ORDERS = [order for number in range(len(Remedy) + 1) for order in permutations(Remedy, number)]
budgets = st.builds(
    Budgets,
    rewrites=st.integers(0, 3),
    searches=st.integers(0, 4),
    llm_calls=st.integers(0, 6),
    steps=st.just(Budgets().steps),
)
worlds = st.builds(
    World,
    question=st.sampled_from(QUESTIONS),
    budgets=budgets,
    seed=st.integers(0, 2**32),
    relevances=st.lists(st.sampled_from((None, 0.05, 0.5, 0.95)), min_size=1, max_size=4).map(tuple),
    is_paid=st.booleans(),
    decisions=st.lists(st.sampled_from(("approve", "decline", "edit")), min_size=1, max_size=2).map(tuple),
    failing=st.sampled_from((0.0, 0.2, 0.6, 1.0)),
    remedies=st.one_of(st.just(DEFAULT_ORDER), st.sampled_from(ORDERS)),
)


class Playing:
    """Parts that behave as the seed says, and count."""

    def __init__(self, world: World) -> None:
        self.random = Random(world.seed)
        self.world = world
        self.records = 0
        self.search = FakeSearch(is_paid=world.is_paid)
        self.search.script = self  # type: ignore[assignment] # plays the deque's part
        self.chat = FakeChat(respond=self.said)

    def fails(self) -> bool:
        return self.random.random() < self.world.failing

    def popleft(self) -> list[Finding] | SearchUnavailable:
        if self.fails():
            return SearchUnavailable("told to", fault=self.random.choice(list(Fault)))
        return [
            Finding(url=f"https://t.test/{self.random.random()}", title="t", text=self.random.choice(TEXTS))
            for _ in range(self.random.randint(0, 3))
        ]

    def __bool__(self) -> bool:
        return True

    def relevance(self, _asked: object, _evidence: object) -> float | None:
        return self.random.choice(self.world.relevances)

    def said(self, _asking: object) -> str | Fault:
        if self.fails():
            return self.random.choice(list(Fault))
        return self.random.choice(
            (f"{TEXTS[0]} [1]", f"{TEXTS[1]} [1]", "It costs 7,777 dollars. [9]", "Who knows?", " ")
        )


class Flaky(FakeEvaluator):
    """Fails now and then."""

    def __init__(self, playing: Playing) -> None:
        super().__init__(playing.relevance)
        self.playing = playing

    async def grade(self, asked, evidence):
        if evidence and self.playing.fails() and self.playing.random.random() < 0.3:
            raise EvaluatorUnavailable("told to")
        return await super().grade(asked, evidence)


class CountingRecorder(Recorder):
    """Counts what is written back; fails now and then."""

    playing: Playing

    def record(self, learned):
        self.playing.records += 1
        return super().record(learned)

    def _write(self, learned):
        if self.playing.fails():
            raise LedgerUnavailable("told to")
        return super()._write(learned)


async def played(memories, data_dir, world):
    """Ask in a world, decide whatever is asked, and return the answer with what was counted."""
    playing = Playing(world)
    store = Store(memories)
    recorder = CountingRecorder(store, Spool(data_dir), "fake")
    recorder.playing = playing
    threads, spending = Threads(2), Spending(world.budgets.llm_calls, world.budgets.tokens)
    parts = {
        "evaluator": Flaky(playing), "search": playing.search, "recorder": recorder, "spending": spending,
        "generator": LlmGenerator(BudgetedChat(playing.chat, spending), threads), "budgets": world.budgets,
        "policy": world.policy, "checkpointer": InMemorySaver(), "is_lasting": True,
    }  # fmt: skip
    async with aclosing(threads), open_runtime(memories, data_dir, **parts) as runtime:
        result = await runtime.ask(AskRequest(question=world.question, tenant="default", thread="t"))
        for decision in (*world.decisions, "decline"):
            if not isinstance(result, Waiting):
                break
            words = "other words" if decision == "edit" else ""
            result = await runtime.resume("t", "default", decision=decision, query=words)
    return result, playing


def check_world(memories, data_dir, world):
    answer, playing = asyncio.run(played(memories, data_dir, world))
    assert answer.outcome in Outcome
    nodes = [step["node"] for step in answer.path]
    assert len(nodes) <= world.budgets.steps
    assert nodes.count("rewrite") <= world.budgets.rewrites + nodes.count("web")  # one more for a search that timed out
    assert playing.search.calls == answer.usage.searches <= world.budgets.searches
    if not any("approved words once more" in str(step["why"]) for step in answer.path):
        assert len(set(playing.search.queries)) == playing.search.calls  # one search per distinct query
    assert nodes.count("generate") <= 2
    assert len(playing.chat.asked) == answer.usage.llm_calls <= world.budgets.llm_calls
    assert max(nodes.count(node) for node in ("approve", "backup", "human")) <= 1
    leads_to = {"rewrite": Remedy.REWRITE, "backup": Remedy.BACKUP, "approve": Remedy.WEB, "human": Remedy.HUMAN}
    assert not {n for n, remedy in leads_to.items() if remedy not in world.remedies} & set(nodes) - {"rewrite"}
    assert nodes.count("write_back") == playing.records == 1
    assert nodes[0] == "begin"
    assert nodes[-1] == "write_back"
    if answer.outcome is Outcome.REFUSED:
        assert answer.reasons
        assert not answer.citations
    else:
        assert answer.text
        assert answer.citations


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    with open_store(tmp_path_factory.mktemp("world")) as memories:
        for text in TEXTS:
            memories.add_note(Note(text=text, tenant="default"))
            memories.add_note(Note(text=f"{text} So it was.", tenant="reference"))
        yield memories


@settings(max_examples=40)
@given(world=worlds)
def test_every_question_ends_within_its_budgets(filled, tmp_path_factory, world):
    check_world(filled, tmp_path_factory.mktemp("spool"), world)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@settings(max_examples=2000)
@given(world=worlds)
def test_every_question_of_two_thousand_ends_within_its_budgets(filled, tmp_path_factory, world):
    check_world(filled, tmp_path_factory.mktemp("spool"), world)


@pytest.mark.parametrize("steps", [1, 3, 5, 7])
def test_a_question_that_takes_too_many_steps_is_stopped_with_a_typed_error(filled, tmp_path, steps):
    async def story():
        budgets = Budgets(steps=steps)
        async with open_runtime(filled, tmp_path, budgets=budgets, evaluator=FakeEvaluator(default=0.05)) as runtime:
            request = AskRequest(question=QUESTIONS[0], tenant="default")
            for ask in (runtime.ask, runtime.gather):
                with pytest.raises(KbError, match=f"more than {steps} steps"):
                    await ask(request)

    asyncio.run(story())
