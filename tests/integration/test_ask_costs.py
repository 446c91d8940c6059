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
from crag_runtime.threads import Threads
from kb.errors import EvaluatorUnavailable, Fault, SearchUnavailable
from tests.agents import remember
from tests.asking import ask, by_words, open_runtime, path_of
from tests.chatting import GRADE, PLAN, REWRITE, WRITE, CountingEmbedder, Teller, asked_for, with_model
from tests.fakes.chat import FakeChat
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.search import FakeSearch
from tests.stores import InProcessServer, open_store

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
QUESTION = "How many tons does the Anping bridge carry?"
COLOUR = "What colour is the Anping bridge painted?"
BOTH = f"{QUESTION[:-1]}, and {COLOUR[0].lower()}{COLOUR[1:]}"
PAGE = Finding(url="https://bridges.example/anping", title="Anping", text=BRIDGE)
DULL = Finding(url="https://ferries.example/", title="Ferries", text="Ferries leave at nine.")

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


@dataclass(frozen=True, kw_only=True)
class Case:
    """A question, the world it meets, and the path and costs that must come of it.

    `says` is the chat model, None for none; `local` are the grades of the evaluator that needs no model: it grades
    alone without one, and is the cascade's first where both are given. `web` is what the search replies, None for no
    search. `asked` counts the chat calls by what they ask for.
    """

    question: str = QUESTION
    notes: tuple[str, ...] = (BRIDGE, PAINT)
    says: Teller | None = None
    local: dict[str, float | None] | None = None
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
        notes=(DECOY, LIMIT), k=1, local={"Load limit": 0.9}, embeddings=3,
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
        question=BOTH, notes=(BRIDGE,), local=TON, embeddings=3,
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
        embeddings=1, cites=0, outcome=Outcome.REFUSED, verdict=Verdict.INCORRECT, reasons=("index_unavailable",),
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
        asked={PLAN: 1}, embeddings=1, cites=0, outcome=Outcome.REFUSED, verdict=Verdict.INCORRECT,
        reasons=("index_unavailable",), degraded=("retrieve: IndexUnavailable: told to be away",),
    ),
    "the budget is spent before the draft": Case(
        says=Teller(), local=TON, budgets=Budgets(llm_calls=1), asked={PLAN: 1},
        degraded=("generate: the budget of chat calls is spent",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*NO_MODEL, *WITH_MODEL])
def test_each_path_has_its_nodes_in_order_and_costs_exactly_this(name: str, tmp_path: Path) -> None:
    case = {**NO_MODEL, **WITH_MODEL}[name]
    embedder, server = CountingEmbedder(), InProcessServer()
    chat = FakeChat(respond=case.says)
    search = None if case.web is None else FakeSearch(script=case.web)
    with open_store(tmp_path / "data", embedder=embedder, server=server) as store:
        _filled(store, case)
        before = embedder.texts
        server.is_away = case.is_index_away
        answer = asyncio.run(_asked(store, tmp_path, case, chat, search))
    assert " ".join(path_of(answer)) == case.nodes
    assert (answer.outcome, answer.verdict, answer.reasons) == (case.outcome, case.verdict, case.reasons)
    assert answer.degraded == case.degraded
    assert len(answer.citations) == case.cites
    assert Counter(map(asked_for, chat.asked)) == case.asked
    assert (0 if search is None else search.calls) == case.searches
    assert embedder.texts - before == case.embeddings
    _says_what_it_cost(answer, chat, case.searches, case.embeddings)


def _filled(store: Memories, case: Case) -> None:
    for note in case.notes:
        remember(store, note)
    if case.outcome is Outcome.CONFLICT:
        remember(store, BRIDGE, source="note://works/a")
        remember(store, OTHER_BRIDGE, source="note://town/b")


async def _asked(store: Memories, folder: Path, case: Case, chat: FakeChat, search: FakeSearch | None) -> Answer:
    grades = None if case.local is None else FakeEvaluator(by_words(case.local))
    if grades is not None:
        grades.error = case.error
    with ExitStack() as stack:
        parts: dict[str, Any] = {"evaluator": grades}
        if case.says is not None:
            parts = stack.enter_context(with_model(chat, grades))
        policy = RuntimePolicy(k=case.k, budgets=case.budgets)
        async with open_runtime(store, folder / "data", policy=policy, search=search, **parts) as runtime:
            return await ask(runtime, case.question, approve=case.approve)


def _says_what_it_cost(answer: Answer, chat: FakeChat, searches: int, embeddings: int) -> None:
    usage = answer.usage
    assert (usage.llm_calls, usage.searches, usage.embeddings) == (len(chat.asked), searches, embeddings)
    assert usage.tokens_in == sum(len(asking.prompt.split()) for asking in chat.asked)
