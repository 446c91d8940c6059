"""What each path of a question costs: its nodes in order, and every chat call, search and embedded text counted.

What an answer says it cost is compared with what the chat model, the search and the embedder were really asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from crag_runtime.caches.in_process import InProcessCache
from crag_runtime.evaluators.remembered import Remembered
from crag_runtime.evidence import Finding, Outcome, Verdict
from crag_runtime.policy import Budgets, RuntimePolicy
from crag_runtime.spending import BudgetedChat, Spending
from crag_runtime.threads import Threads
from kb.errors import EvaluatorUnavailable, Fault, SearchUnavailable
from tests.agents import remember
from tests.asking import ask, by_words, open_runtime, path_of
from tests.chatting import GRADE, PLAN, REWRITE, WRITE, CountingEmbedder, Teller, asked_for, vouched, with_model
from tests.fakes.chat import FakeChat
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.search import FakeSearch
from tests.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from crag_runtime.result import Answer
    from kb.memories import Memories

BRIDGE = "The Anping bridge carries 40 tons on a dry day."
OTHER_BRIDGE = "The Anping bridge carries 55 tons on a dry day."
PAINT = "The Anping bridge is painted green every spring."
DECOY = "How many tons does the Anping bridge carry? is what visitors ask."
LIMIT = "Load limit at the Anping bridge: 40 tons."
TOLL = "How much does the Anping bridge cost?"
TOLL_DECOY = "How much does the Anping bridge cost? is what visitors ask."
PRICE = "Anping bridge price: cost 40 euros."
QUESTION = "How many tons does the Anping bridge carry?"
COLOUR = "What colour is the Anping bridge painted?"
BOTH = f"{QUESTION[:-1]}, and {COLOUR[0].lower()}{COLOUR[1:]}"
PAGE = Finding(url="https://bridges.example/anping", title="Anping", text=BRIDGE)
DULL = Finding(url="https://ferries.example/", title="Ferries", text="Ferries leave at nine.")

GREEN = Finding(url="https://bridges.example/paint", title="Anping", text=PAINT)
ZH_BRIDGE, ZH_PAINT = "安平大桥晴天承重40吨。", "安平大桥每年春天刷成绿色。"
ZH_QUESTION = "安平大桥承重多少吨？"

FOUND = "begin plan retrieve grade judge refine generate check write_back"
LOOKED_TWICE = "begin plan retrieve grade judge rewrite retrieve judge"
SEARCHED = f"{LOOKED_TWICE} approve web grade judge refine generate check write_back"
REFUSED = f"{LOOKED_TWICE} refine refuse write_back"
ENDED_UNGRADED = "begin plan retrieve grade judge refine refuse write_back"
TON = {"tons": 0.9}
HALF = {"tons": 0.5}


def slow() -> SearchUnavailable:
    return SearchUnavailable("too slow", fault=Fault.TIMEOUT)


def broken() -> SearchUnavailable:
    return SearchUnavailable("broken", fault=Fault.SERVER)


def only_tons(asked: Any, evidence: Any) -> float:
    return 0.9 if "tons" in asked.question and "tons" in evidence.text else 0.05


def each_its_own(asked: Any, evidence: Any) -> float:
    return 0.9 if ("tons" in asked.question) == ("tons" in evidence.text) else 0.05


@dataclass(frozen=True, kw_only=True)
class Case:
    """A question, the world it meets, and the path and costs that must come of it.

    `says` is the chat model, None for none; `local` are the grades (by words, or a script) of the evaluator that
    needs no model: it grades alone without one, and is the cascade's first where both are given. `web` is what the
    search replies, None for no search. `asked` counts the chat calls by what they ask for.
    """

    question: str = QUESTION
    notes: tuple[str, ...] = (BRIDGE, PAINT)
    says: Teller | None = None
    local: Any = None
    web: Sequence[Any] | None = None
    approve: str = "always"
    k: int = 5
    budgets: Budgets = field(default_factory=Budgets)
    error: Exception | None = None
    is_index_away: bool = False
    nodes: str = FOUND
    asked: dict[str, int] = field(default_factory=dict)
    searches: int = 0
    embeddings: int = 2
    outcome: Outcome = Outcome.ANSWERED
    verdict: Verdict = Verdict.CORRECT
    reasons: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()
    cites: int = 1


NO_MODEL = {
    "local evidence suffices": Case(local=TON),
    "correct after one local rewrite": Case(
        question=TOLL, notes=(TOLL_DECOY, PRICE), k=1, local={"price": 0.9}, embeddings=3,
        nodes=f"{LOOKED_TWICE.removesuffix(' judge')} grade judge refine generate check write_back",
    ),
    "incorrect without a web": Case(
        local={}, nodes=REFUSED, embeddings=2, outcome=Outcome.REFUSED, verdict=Verdict.INCORRECT, cites=0,
        reasons=("nothing_found", "search_not_configured"),
    ),
    "incorrect, then the web": Case(
        notes=(PAINT,), local=TON, web=[[PAGE]], nodes=SEARCHED, searches=1, embeddings=4,
    ),
    "incorrect, and the policy never searches": Case(
        local={}, web=[[PAGE]], approve="never", outcome=Outcome.REFUSED, verdict=Verdict.INCORRECT, cites=0,
        nodes=f"{LOOKED_TWICE} approve refine refuse write_back", embeddings=2,
        reasons=("nothing_found", "search_declined"),
    ),
    "what the web found is graded and irrelevant": Case(
        local=TON, notes=(PAINT,), web=[[DULL]], searches=1, embeddings=3, cites=0,
        nodes=f"{LOOKED_TWICE} approve web grade judge refine refuse write_back", outcome=Outcome.REFUSED,
        verdict=Verdict.INCORRECT, reasons=("nothing_found",),
    ),
    "ambiguous without a web": Case(
        local=HALF, nodes=f"{LOOKED_TWICE} refine generate check write_back", embeddings=2,
        outcome=Outcome.PARTIAL, verdict=Verdict.AMBIGUOUS,
    ),
    "ambiguous, made good by the web": Case(
        notes=(DECOY,), local={"visitors": 0.5, "tons": 0.9}, web=[[PAGE]], nodes=SEARCHED, searches=1, embeddings=4,
    ),
    "one of two sub-questions is covered": Case(
        question=BOTH, notes=(BRIDGE,), local=only_tons, embeddings=3, outcome=Outcome.PARTIAL,
        verdict=Verdict.AMBIGUOUS, nodes=f"{LOOKED_TWICE} refine generate check write_back",
    ),
    "the other of two sub-questions is searched for": Case(
        question=BOTH, notes=(BRIDGE,), local=each_its_own, web=[[GREEN]], nodes=SEARCHED, searches=1, embeddings=5,
        cites=2,
    ),
    "local evidence suffices, in Chinese": Case(question=ZH_QUESTION, notes=(ZH_BRIDGE,), local={"40吨": 0.9}),
    "incorrect without a web, in Chinese": Case(
        question=ZH_QUESTION, notes=(ZH_PAINT,), local={}, nodes=REFUSED, embeddings=2, outcome=Outcome.REFUSED,
        verdict=Verdict.INCORRECT, cites=0, reasons=("nothing_found", "search_not_configured"),
    ),
    "conflict": Case(notes=(), local=TON, embeddings=1, outcome=Outcome.CONFLICT, cites=2),
    "search times out once": Case(
        notes=(PAINT,), local=TON, web=[slow(), [PAGE]], searches=2, embeddings=4, degraded=("web: fake: timeout",),
        nodes=f"{LOOKED_TWICE} approve web rewrite web grade judge refine generate check write_back",
    ),
    "search times out twice": Case(
        notes=(PAINT,), local=TON, web=[slow(), slow(), [PAGE]], searches=2, embeddings=2, cites=0,
        nodes=f"{LOOKED_TWICE} approve web rewrite web judge refine refuse write_back", outcome=Outcome.REFUSED,
        verdict=Verdict.INCORRECT, reasons=("nothing_found", "search_failed"), degraded=("web: fake: timeout",),
    ),
    "search fails otherwise": Case(
        notes=(PAINT,), local=TON, web=[broken(), [PAGE]], searches=1, embeddings=2, cites=0,
        nodes=f"{LOOKED_TWICE} approve web judge refine refuse write_back", outcome=Outcome.REFUSED,
        verdict=Verdict.INCORRECT, reasons=("nothing_found", "search_failed"), degraded=("web: fake: server",),
    ),
    "the evaluator fails": Case(
        local=TON, web=[[PAGE]], error=EvaluatorUnavailable("gone"), nodes=ENDED_UNGRADED, embeddings=1, cites=0,
        outcome=Outcome.REFUSED, verdict=Verdict.UNKNOWN, reasons=("evaluator_unavailable",),
        degraded=("grade: EvaluatorUnavailable: gone",),
    ),
    "the index is away": Case(
        local=TON, web=[[PAGE]], is_index_away=True, nodes="begin plan retrieve judge refine refuse write_back",
        embeddings=0, cites=0, outcome=Outcome.REFUSED, verdict=Verdict.INCORRECT, reasons=("index_unavailable",),
        degraded=("retrieve: IndexUnavailable: told to be away",),
    ),
}  # fmt: skip
WITH_MODEL = {
    "local evidence suffices, all by the model": Case(
        says=Teller(grades=TON), asked={PLAN: 1, GRADE: 2, WRITE: 1},
    ),
    "cascade: clear cases cost no call": Case(
        says=Teller(), local=TON, asked={PLAN: 1, WRITE: 1},
    ),
    "cascade: only the band is sent": Case(
        says=Teller(grades=TON), local=HALF, asked={PLAN: 1, GRADE: 1, WRITE: 1},
    ),
    "correct after a rewrite by the model": Case(
        notes=(DECOY, LIMIT), k=1, says=Teller(grades={"Load limit": 0.9}, query=lambda *_: "Anping load limit tons?"),
        asked={PLAN: 1, GRADE: 2, REWRITE: 1, WRITE: 1}, embeddings=3,
        nodes=f"{LOOKED_TWICE.removesuffix(' judge')} grade judge refine generate check write_back",
    ),
    "incorrect without a web: no draft is paid": Case(
        says=Teller(), asked={PLAN: 1, GRADE: 2, REWRITE: 1}, nodes=REFUSED, embeddings=2, cites=0,
        outcome=Outcome.REFUSED, verdict=Verdict.INCORRECT, reasons=("nothing_found", "search_not_configured"),
    ),
    "incorrect, then the web, by the model": Case(
        notes=(PAINT,), says=Teller(grades=TON), web=[[PAGE, DULL]], nodes=SEARCHED, searches=1, embeddings=5,
        asked={PLAN: 1, GRADE: 3, REWRITE: 1, WRITE: 1},
    ),
    "unsupported: once more, then refused": Case(
        says=Teller(grades=TON, answer="The Anping bridge carries 90 tons [1]."), cites=0,
        asked={PLAN: 1, GRADE: 2, WRITE: 2}, embeddings=1, outcome=Outcome.REFUSED, reasons=("not_supported",),
        nodes="begin plan retrieve grade judge refine generate check generate check refuse write_back",
    ),
    "search times out once, with the model": Case(
        notes=(PAINT,), says=Teller(grades=TON), web=[slow(), [PAGE]], searches=2, embeddings=4,
        asked={PLAN: 1, GRADE: 2, REWRITE: 2, WRITE: 1}, degraded=("web: fake: timeout",),
        nodes=f"{LOOKED_TWICE} approve web rewrite web grade judge refine generate check write_back",
    ),
    "the index is away: no draft is paid": Case(
        says=Teller(), web=[[PAGE]], is_index_away=True, nodes="begin plan retrieve judge refine refuse write_back",
        asked={PLAN: 1}, embeddings=0, cites=0, outcome=Outcome.REFUSED, verdict=Verdict.INCORRECT,
        reasons=("index_unavailable",), degraded=("retrieve: IndexUnavailable: told to be away",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*NO_MODEL, *WITH_MODEL])
def test_each_path_has_its_nodes_in_order_and_costs_exactly_this(name: str, tmp_path: Path) -> None:
    case = {**NO_MODEL, **WITH_MODEL}[name]
    chat = FakeChat(respond=case.says)
    search = None if case.web is None else FakeSearch(script=case.web)
    with open_store(tmp_path / "data", embedder=CountingEmbedder()) as store:
        _filled(store, case)
        answer, embedded = asyncio.run(_asked(store, tmp_path, case, chat, search))
    assert " ".join(path_of(answer)) == case.nodes
    assert (answer.outcome, answer.verdict, answer.reasons) == (case.outcome, case.verdict, case.reasons)
    assert answer.degraded == case.degraded
    assert len(answer.citations) == case.cites
    assert Counter(map(asked_for, chat.asked)) == case.asked
    assert (0 if search is None else search.calls) == case.searches
    assert embedded == case.embeddings
    _says_what_it_cost(answer, chat, case.searches, case.embeddings)


def _filled(store: Memories, case: Case) -> None:
    for note in case.notes:
        remember(store, note)
    if case.outcome is Outcome.CONFLICT:
        remember(store, BRIDGE, source="note://works/a")
        remember(store, OTHER_BRIDGE, source="note://town/b")


async def _asked(
    store: Memories, folder: Path, case: Case, chat: FakeChat, search: FakeSearch | None
) -> tuple[Answer, int]:
    """Return the answer, and how many texts were embedded for it."""
    embedder, server = store.embedder, store.generations.server
    script = by_words(case.local) if isinstance(case.local, dict) else case.local
    grades = None if script is None else FakeEvaluator(script)
    if grades is not None:
        grades.error = case.error
    with ExitStack() as stack:
        parts: dict[str, Any] = {"evaluator": grades}
        if case.says is not None:
            parts = stack.enter_context(with_model(chat, grades))
        policy = RuntimePolicy(k=case.k, budgets=case.budgets)
        async with open_runtime(store, folder / "data", policy=policy, search=search, **parts) as runtime:
            if case.is_index_away:
                runtime.deps.store.vectors.of([case.question])  # asked before, while the index was there
                server.is_away = True
            before = embedder.texts
            answer = await ask(runtime, case.question, approve=case.approve)
            return answer, embedder.texts - before


def _says_what_it_cost(answer: Answer, chat: FakeChat, searches: int, embeddings: int) -> None:
    usage = answer.usage
    assert (usage.llm_calls, usage.searches, usage.embeddings) == (len(chat.asked), searches, embeddings)
    assert usage.tokens_in == sum(len(asking.prompt.split()) for asking in chat.asked)


@pytest.mark.parametrize("calls", [0, 1, 2, 3, 5])
def test_no_question_makes_more_chat_calls_than_its_budget_and_spent_is_no_reason_to_search(
    tmp_path: Path, calls: int
) -> None:
    async def story(store: Memories, chat: FakeChat, search: FakeSearch) -> Answer:
        spending = Spending(calls, 60_000)
        with with_model(BudgetedChat(chat, spending), FakeEvaluator(default=0.5)) as parts:
            policy = RuntimePolicy(budgets=Budgets(llm_calls=calls))
            given = {**parts, "spending": spending, "policy": policy, "search": search}
            async with open_runtime(store, tmp_path / "data", **given) as runtime:
                return await ask(runtime, QUESTION, approve="always")

    chat, search = FakeChat(respond=Teller(grades=TON)), FakeSearch([PAGE])
    with open_store(tmp_path / "data", embedder=CountingEmbedder()) as store:
        for note in (PAINT, DECOY, BRIDGE, LIMIT):
            remember(store, note)
        answer = asyncio.run(story(store, chat, search))
    assert len(chat.asked) == answer.usage.llm_calls <= calls
    assert answer.degraded
    assert search.calls == 0


def _remembering(store: Memories, first: FakeEvaluator | Any) -> Remembered:
    return Remembered(first, InProcessCache(ttl_seconds=3600, clock=store.clock), Threads())


def test_the_same_question_again_costs_one_draft_and_no_grade_no_vector(tmp_path: Path) -> None:
    async def story(store: Memories, chat: FakeChat) -> None:
        with with_model(chat) as parts:
            given = {**parts, "evaluator": _remembering(store, parts["evaluator"])}
            async with open_runtime(store, tmp_path / "data", **given) as runtime:
                await ask(runtime, QUESTION)
                chat.asked.clear()
                before = store.embedder.texts
                again = await ask(runtime, f"  {QUESTION} ")
                assert Counter(map(asked_for, chat.asked)) == {PLAN: 1, WRITE: 1}
                assert store.embedder.texts == before
                _says_what_it_cost(again, chat, 0, 0)
                assert again.outcome is Outcome.ANSWERED

    with open_store(tmp_path / "data", embedder=CountingEmbedder()) as store:
        remember(store, BRIDGE)
        asyncio.run(story(store, FakeChat(respond=Teller(grades=TON))))


def test_a_changed_memory_is_graded_again(tmp_path: Path) -> None:
    async def story(store: Memories, id_: str, grades: FakeEvaluator) -> None:
        async with open_runtime(store, tmp_path / "data", evaluator=_remembering(store, grades)) as runtime:
            await ask(runtime, QUESTION)
            await ask(runtime, QUESTION)
            assert len(grades.graded) == 1
            vouched(store, id_)
            await ask(runtime, QUESTION)
            assert len(grades.graded) == 2

    with open_store(tmp_path / "data") as store:
        id_ = remember(store, BRIDGE)
        asyncio.run(story(store, id_, FakeEvaluator(default=0.9)))


def test_nearly_the_same_question_is_led_to_what_was_cited_without_another_rewrite(tmp_path: Path) -> None:
    async def story(store: Memories, grades: FakeEvaluator) -> None:
        policy = RuntimePolicy(k=1)
        async with open_runtime(store, tmp_path / "data", policy=policy, evaluator=grades) as runtime:
            first = await ask(runtime, TOLL)
            again = await ask(runtime, f"Now {TOLL[0].lower()}{TOLL[1:]}")
        assert path_of(first).count("rewrite") == 1
        assert " ".join(path_of(again)) == FOUND
        assert [c.memory_id for c in again.citations] == [c.memory_id for c in first.citations]
        assert again.usage.embeddings == 2  # the question, and its own answer-key

    with open_store(tmp_path / "data", embedder=CountingEmbedder()) as store:
        remember(store, TOLL_DECOY)
        remember(store, PRICE)
        asyncio.run(story(store, FakeEvaluator(by_words({"price": 0.9}))))


def test_the_cascade_sends_exactly_the_share_that_is_unclear_and_keeps_the_rest(tmp_path: Path) -> None:
    async def story(store: Memories, chat: FakeChat) -> None:
        first = FakeEvaluator(by_words({"tons": 0.9, "visitors": 0.5, "painted": None}))
        with with_model(chat, first) as parts:
            async with open_runtime(store, tmp_path / "data", **parts) as runtime:
                answer = await ask(runtime, QUESTION)
        sent = [asking.by_role("user") for asking in chat.asked if asked_for(asking) == GRADE]
        assert sorted("visitors" in prompt for prompt in sent) == [False, True]
        assert not any(BRIDGE in prompt for prompt in sent)
        with store.ledger.read() as tx:
            by = {e.memory_id: e.evaluator for e in tx.evaluations.of_answer(answer.answer_id)}
        assert Counter(by.values()) == {"llm": 2, "fake": 1}

    with open_store(tmp_path / "data") as store:
        for note in (BRIDGE, PAINT, "How heavy is the load of the Anping bridge? visitors ask."):
            remember(store, note)
        asyncio.run(story(store, FakeChat(respond=Teller())))
