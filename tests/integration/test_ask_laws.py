"""What every question keeps to: who is graded, what is used, what is left out, what is written, and where it looks."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import pytest

from crag_runtime import graph as graph_module
from crag_runtime.evaluators.fast import FastEvaluator, own_bands
from crag_runtime.evidence import Finding, Outcome, QuestionType, Usage
from crag_runtime.policy import Budgets, RuntimePolicy
from crag_runtime.remedies import Remedy
from crag_runtime.state import NodeName, Update
from crag_runtime.threads import Threads
from crag_runtime.verdict import Thresholds
from kb.errors import Fault, SearchUnavailable
from kb.model import Kind, MemoryId
from kb.trust import DAY_MS
from tests.agents import remember
from tests.asking import ask, by_words, open_runtime, path_of
from tests.fakes.evaluator import BAND, FakeEvaluator
from tests.fakes.generator import FakeGenerator
from tests.fakes.search import FakeSearch
from tests.stores import sync, write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from crag_runtime.evidence import Asked, Evidence, Plan
    from crag_runtime.ports import Grading
    from crag_runtime.result import Answer
    from kb.history import Evaluation
    from kb.memories import Memories

QUESTION = "How many tons does the Anping bridge carry?"
BRIDGE = "The Anping bridge carries 40 tons on a dry day."
OTHER_BRIDGE = "The Anping bridge carries 55 tons on a dry day."
PAINT = "The Anping bridge is painted green every spring."
VISITORS = "Visitors of the Anping bridge ask how much it carries."
COLOUR = "what colour is the Anping bridge painted?"
PAGE = Finding(url="https://bridges.example/anping", title="Anping", text=BRIDGE)
GREEN = Finding(url="https://bridges.example/paint", title="Anping", text=PAINT)
TON = {"tons": 0.9}


def asked(store: Memories, folder: Path, question: str = QUESTION, request: Any = None, **parts: Any) -> Answer:
    """Ask in a runtime of its own, searches approved."""

    async def story() -> Answer:
        async with open_runtime(store, folder / "data", **{"evaluator": FakeEvaluator(by_words(TON)), **parts}) as own:
            return await ask(own, question, **{"approve": "always", **(request or {})})

    return asyncio.run(story())


def evaluations(store: Memories, answer: Answer) -> list[Evaluation]:
    with store.ledger.read() as tx:
        return list(tx.evaluations.of_answer(answer.answer_id))


def test_every_passage_gets_one_grade_and_its_whole_basis_is_kept(store: Memories, tmp_path: Path) -> None:
    ids = {remember(store, text) for text in (BRIDGE, PAINT, VISITORS)}
    answer = asked(store, tmp_path, evaluator=FakeEvaluator(by_words({**TON, "Visitors": None}, default=0.5)))
    kept = {e.memory_id: e for e in evaluations(store, answer)}
    assert set(kept) == ids
    assert len(evaluations(store, answer)) == 3
    assert Counter(e.label for e in kept.values()) == {"relevant": 1, "ambiguous": 1, "unknown": 1}
    for id_, e in kept.items():
        known = store.get(MemoryId(id_), "default")
        basis = (e.question, e.evaluator, e.model, e.version, e.rev, e.at)
        assert basis == (QUESTION, "fake", "script", "1", known.rev, store.clock.now())
        assert e.reason
        assert (e.relevance is None) == (e.label == "unknown")


def test_what_is_left_out_is_told_with_its_reason_and_in_no_task(store: Memories, tmp_path: Path) -> None:
    for text in (BRIDGE, PAINT, VISITORS):
        remember(store, text)
    generator = FakeGenerator()
    answer = asked(store, tmp_path, generator=generator, evaluator=FakeEvaluator(by_words({**TON, "Visitors": 0.5})))
    (task,) = generator.tasks
    assert [e.strips for e in task.excerpts] == [(BRIDGE,)]
    assert "green" not in str(task)
    assert "Visitors" not in str(task)
    left_out = {e.label: e.reason for e in evaluations(store, answer) if e.label != "relevant"}
    assert left_out == {"irrelevant": "relevance 0.05 by script", "ambiguous": "relevance 0.50 by script"}
    (why,) = [step["why"] for step in answer.path if step["node"] == "judge"]
    assert why == "correct (1 relevant, 1 ambiguous, 1 irrelevant)"


@pytest.mark.parametrize(
    ("pages", "verdict", "searches"),
    [((), "incorrect", 1), (("one/a", "one/b"), "ambiguous", 1), (("one/a", "two/b"), "correct", 0)],
)
def test_pages_of_one_source_are_one_witness_however_many_say_it(
    store: Memories, tmp_path: Path, pages: Sequence[str], verdict: str, searches: int
) -> None:
    remember(store, PAINT)
    for page in pages:
        write(tmp_path / "sources", **{f"{page.replace('/', '__')}_md": f"# Load\n\n{BRIDGE} See page {page[-1]}.\n"})
    for name in sorted({page.split("/")[0] for page in pages}):
        sync(store, tmp_path / "sources" / name)
    search = FakeSearch([])
    answer = asked(store, tmp_path, policy=RuntimePolicy(min_sources=2), search=search)
    assert (answer.verdict, search.calls) == (verdict, searches)


def test_passages_that_do_not_fit_start_no_search_where_one_suffices(store: Memories, tmp_path: Path) -> None:
    for text in (BRIDGE, PAINT, VISITORS, "Ferries to the Anping bridge leave at nine."):
        remember(store, text)
    search = FakeSearch([PAGE])
    answer = asked(store, tmp_path, search=search)
    assert (answer.outcome, answer.verdict, search.calls) == (Outcome.ANSWERED, "correct", 0)
    assert not {"rewrite", "approve", "web"} & set(path_of(answer))


@pytest.mark.parametrize(
    ("question", "local", "gone"),
    [
        (
            "Compare the price of the Basic plan and the Team plan.",
            ("The price of the Basic plan is 12 dollars.", "The price of the Team plan is 30 dollars."),
            "Team plan",
        ),
        ("比较安平大桥和洛阳大桥的承重。", ("安平大桥的承重是40吨。", "洛阳大桥的承重是55吨。"), "洛阳大桥"),
    ],
)
def test_a_comparison_covers_both_things_or_says_which_it_does_not(
    store: Memories, tmp_path: Path, question: str, local: Sequence[str], gone: str
) -> None:
    def own(asked: Asked, evidence: Evidence) -> float:
        return 0.9 if (gone in asked.question) == (gone in evidence.text) else 0.05

    first = remember(store, local[0])
    half = asked(store, tmp_path, question, evaluator=FakeEvaluator(own))
    assert half.outcome is Outcome.PARTIAL
    assert [c.memory_id for c in half.citations] == [first]
    (missing,) = half.missing
    assert gone in missing
    assert gone in half.text
    both = {first, remember(store, local[1])}
    whole = asked(store, tmp_path, question, evaluator=FakeEvaluator(own))
    assert (whole.outcome, whole.missing) == (Outcome.ANSWERED, ())
    assert {c.memory_id for c in whole.citations} == both


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("What is the price of the Team plan in Q3 2031?", "The price of the Team plan was 30 dollars in Q3 2024."),
        ("2031年第三季度团队版的价格是多少？", "2024年第三季度团队版的价格是30美元。"),
    ],
)
def test_a_period_that_nothing_speaks_of_is_refused_as_such_or_asked_of_the_web(
    store: Memories, tmp_path: Path, question: str, text: str
) -> None:
    """By the real evaluator that needs no model: what fits but for its period is no answer."""
    remember(store, text)
    with _fast() as evaluator:
        alone = asked(store, tmp_path, question, evaluator=evaluator)
        search = FakeSearch([])
        searched = asked(store, tmp_path, question, evaluator=evaluator, search=search)
    assert (alone.outcome, alone.reasons) == (Outcome.REFUSED, ("period_not_covered", "search_not_configured"))
    assert "30" not in alone.text
    assert (searched.outcome, searched.reasons, search.calls) == (Outcome.REFUSED, ("period_not_covered",), 1)
    assert "2031" in search.queries[0]


@contextmanager
def _fast() -> Iterator[FastEvaluator]:
    threads = Threads(1)
    try:
        yield FastEvaluator(own_bands(), threads, vector_space="hashing")
    finally:
        threads.close()


KINDS = {
    "How many tons does the Anping bridge carry?": QuestionType.FACTUAL,
    "Why does the Anping bridge carry 40 tons?": QuestionType.ANALYTICAL,
    "Write a poem about the Anping bridge.": QuestionType.CREATIVE,
}


@pytest.mark.parametrize(("question", "kind"), KINDS.items())
def test_how_strict_a_grade_and_the_gate_are_depends_on_the_type_of_question(
    store: Memories, tmp_path: Path, question: str, kind: QuestionType
) -> None:
    remember(store, BRIDGE, confidence=0.75)
    bands = {**dict.fromkeys(QuestionType, BAND), kind: Thresholds(lower=0.2, upper=0.5)}
    gates = {**dict.fromkeys(QuestionType, 0.7), kind: 0.8}
    lenient = asked(store, tmp_path, question, evaluator=FakeEvaluator(default=0.6, bands=bands))
    assert (lenient.plan["type"], lenient.verdict) == (kind, "correct")
    assert asked(store, tmp_path, question, evaluator=FakeEvaluator(default=0.6)).verdict == "ambiguous"
    gated = asked(store, tmp_path, question, policy=RuntimePolicy(gate=gates))
    assert (gated.outcome, gated.reasons[0], len(gated.suppressed)) == (Outcome.REFUSED, "only_suppressed", 1)


def test_the_whole_path_with_its_loops_is_kept_with_the_answer(store: Memories, tmp_path: Path) -> None:
    remember(store, PAINT)
    slow = SearchUnavailable("too slow", fault=Fault.TIMEOUT)
    answer = asked(store, tmp_path, search=FakeSearch(script=[slow, [PAGE]]))
    with store.ledger.read() as tx:
        record = tx.answers.get(answer.answer_id, "default")
    assert record is not None
    kept: Any = record.report["path"]
    assert [step["node"] for step in kept] == path_of(answer)[:-1]  # all but the write-back itself
    assert Counter(step["node"] for step in kept) >= Counter(retrieve=2, judge=3, rewrite=2, web=2)
    assert all(step["why"] for step in kept)


def test_evidence_of_an_earlier_round_is_not_lost_to_a_later_one(store: Memories, tmp_path: Path) -> None:
    """The first round has one part; other words, then the web, are for the other part only."""
    question = f"{QUESTION[:-1]}, and {COLOUR}"

    def own(asked: Asked, evidence: Evidence) -> float:
        words = "tons" if "tons" in asked.question else "green"
        return 0.9 if words in evidence.text else 0.05

    local = remember(store, BRIDGE)
    remember(store, f"Visitors ask: {COLOUR}")  # all that the later round finds
    generator, search = FakeGenerator(), FakeSearch([GREEN])
    parts = {"evaluator": FakeEvaluator(own), "generator": generator, "policy": RuntimePolicy(k=1)}
    answer = asked(store, tmp_path, question, search=search, **parts)
    (task,) = generator.tasks
    assert [(e.sub, e.evidence.origin.value) for e in task.excerpts] == [(0, "memory"), (1, "web")]
    assert answer.citations[0].memory_id == local
    assert "tons" not in search.queries[0]


def test_a_finding_is_one_piece_of_evidence_from_the_web_however_often_it_comes(
    store: Memories, tmp_path: Path
) -> None:
    generator = FakeGenerator()
    search = FakeSearch([PAGE, replace(PAGE, url=f"{PAGE.url}#load"), PAGE])
    answer = asked(store, tmp_path, search=search, generator=generator)
    (task,) = generator.tasks
    assert len({e.evidence.id for e in task.excerpts}) == len(task.excerpts)
    assert {e.evidence.origin.value for e in task.excerpts} == {"web"}
    assert {c.url for c in answer.citations} <= {PAGE.url, f"{PAGE.url}#load"}


@pytest.mark.parametrize(("relevance", "outcome"), [(0.5, Outcome.PARTIAL), (0.0, Outcome.REFUSED)])
def test_what_was_not_fully_answered_becomes_no_key_for_later(
    store: Memories, tmp_path: Path, relevance: float, outcome: Outcome
) -> None:
    remember(store, BRIDGE)
    answer = asked(store, tmp_path, evaluator=FakeEvaluator(default=relevance))
    assert answer.outcome is outcome
    assert store.page("default", kinds=(Kind.ANSWER,)) == []


@pytest.mark.parametrize("new", [BRIDGE, OTHER_BRIDGE])
def test_being_newer_settles_no_conflict(store: Memories, tmp_path: Path, new: str) -> None:
    """Whoever wrote last is not right for that: both are shown."""
    old = BRIDGE if new == OTHER_BRIDGE else OTHER_BRIDGE
    remember(store, old, source="note://works/a", confidence=0.95)
    store.clock.advance(5 * DAY_MS)
    remember(store, new, source="note://town/b")
    answer = asked(store, tmp_path)
    assert answer.outcome is Outcome.CONFLICT
    assert "40 tons" in answer.text
    assert "55 tons" in answer.text


def test_being_read_graded_and_cited_makes_nothing_more_believed(store: Memories, tmp_path: Path) -> None:
    """Relevance is not confidence, and use is no reason to believe: trust and its age stay as they were."""
    ids = [MemoryId(remember(store, text)) for text in (BRIDGE, PAINT)]
    before = [store.get(id_, "default").trust for id_ in ids]
    for _ in range(3):
        store.clock.advance(DAY_MS)
        answer = asked(store, tmp_path, evaluator=FakeEvaluator(default=1.0))
        assert answer.outcome is Outcome.ANSWERED
    assert [store.get(id_, "default").trust for id_ in ids] == before
    with store.ledger.read() as tx:
        assert [event for id_ in ids for event in tx.evidence.of_memory(id_)] == []


class Crowded(FakeEvaluator):
    """Counts who is being graded at one time; lets nobody go before as many as may have come in."""

    def __init__(self, places: int) -> None:
        super().__init__(default=0.9)
        self.places, self.inside, self.most = places, 0, 0
        self.full = asyncio.Event()

    async def grade(self, asked: Asked, evidence: Sequence[Evidence]) -> Grading:
        self.inside += 1
        self.most = max(self.most, self.inside)
        if self.inside == self.places:
            self.full.set()
        await self.full.wait()
        for _ in range(20):  # whoever else could come in would
            await asyncio.sleep(0)
        self.inside -= 1
        return await super().grade(asked, evidence)


@pytest.mark.parametrize("places", [1, 3])
def test_passages_are_graded_side_by_side_and_no_more_of_them_than_may_be(
    store: Memories, tmp_path: Path, places: int
) -> None:
    for n in range(5):
        remember(store, f"{BRIDGE} Sign {n} says so.")
    evaluator = Crowded(places)
    answer = asked(store, tmp_path, evaluator=evaluator, policy=RuntimePolicy(grade_concurrency=places))
    assert (evaluator.most, len(evaluator.graded)) == (places, 5)
    assert answer.outcome is Outcome.ANSWERED


WRITES = {
    NodeName.BEGIN: set(Update.__annotations__) - {"approve"},
    NodeName.PLAN: {"plan", "queries", "tried", "degraded", "usage", "path"},
    NodeName.RETRIEVE: {"as_of", "candidates", "suppressed", "usage", "path"},
    NodeName.GRADE: {"grades", "usage", "degraded"},
    NodeName.JUDGE: {"verdicts", "verdict", "faults", "judged", "path"},
    NodeName.REWRITE: {"tried", "queries", "web_queries", "rewrites", "usage", "degraded", "faults", "path"},
    NodeName.BACKUP: {"is_backed_up", "borrowed", "candidates", "usage", "path"},
    NodeName.HUMAN: {"person", "path"},
    NodeName.APPROVE: {"approval", "web_queries", "path"},
    NodeName.WEB: {
        "found", "candidates", "searched", "searches", "web_queries", "is_retry", "faults", "degraded", "usage", "path",
    },
    NodeName.REFINE: {"excerpts", "grades", "conflicts", "agreements", "missing", "path"},
    NodeName.GENERATE: {"draft", "attempts", "usage", "degraded", "path"},
    NodeName.CHECK: {"conflicts", "complaint", "outcome", "text", "reasons", "missing", "attempts", "path"},
    NodeName.REFUSE: {"outcome", "text", "reasons", "draft", "path"},
    NodeName.WRITE_BACK: {"degraded", "usage", "path"},
}  # fmt: skip


def test_every_node_writes_what_is_its_own_and_nothing_else(
    store: Memories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: dict[str, set[str]] = {}
    every = graph_module._nodes

    def watched(name: NodeName, node: Any) -> Any:
        @wraps(node)
        async def watching(state: Any, runtime: Any) -> Any:
            update = await node(state, runtime)
            written.setdefault(name, set()).update(update)
            return update

        return watching

    monkeypatch.setattr(graph_module, "_nodes", lambda limits: [(n, watched(n, f), e) for n, f, e in every(limits)])
    remember(store, PAINT)
    slow = SearchUnavailable("too slow", fault=Fault.TIMEOUT)
    wrong = FakeGenerator("The Anping bridge carries 90 tons [1].")
    asked(store, tmp_path, search=FakeSearch(script=[slow, [PAGE]]))
    asked(store, tmp_path, policy=RuntimePolicy(remedies=(Remedy.BACKUP, Remedy.HUMAN), backup_tenant="reference"))
    asked(store, tmp_path, search=FakeSearch([PAGE]), generator=wrong)
    assert set(written) == set(NodeName) - {NodeName.HAND_OVER}
    assert {
        name: keys - WRITES[NodeName(name)] for name, keys in written.items() if keys - WRITES[NodeName(name)]
    } == {}
    assert written[NodeName.BEGIN] == set(Update.__annotations__)


class Endless:
    """A rewriter that always knows other words."""

    async def rewrite(self, query: str, tried: Sequence[str], _plan: Plan, _now: int) -> tuple[str, Usage, str]:
        assert query == tried[-1]
        return f"{tried[0]} in words number {len(tried)}", Usage(), ""


@pytest.mark.parametrize("rewrites", [0, 1, 2, 3])
def test_a_question_is_rewritten_exactly_as_often_as_it_may_be(store: Memories, tmp_path: Path, rewrites: int) -> None:
    remember(store, PAINT)
    rewriter = Endless()
    budgets = Budgets(rewrites=rewrites)
    answer = asked(store, tmp_path, budgets=budgets, evaluator=FakeEvaluator(), rewriter=rewriter)
    nodes = Counter(path_of(answer))
    assert (nodes["rewrite"], nodes["retrieve"], nodes["generate"]) == (rewrites, rewrites + 1, 0)
    assert answer.outcome is Outcome.REFUSED
