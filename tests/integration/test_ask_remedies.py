"""Remedies of a real runtime: their order, a second source that is read and never written, and a person who decides."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from crag_runtime.evidence import Finding, Outcome
from crag_runtime.policy import Budgets, RuntimePolicy
from crag_runtime.recording.feedback import give_feedback
from crag_runtime.remedies import Remedy
from crag_runtime.result import Answer, AskRequest, Waiting
from kb.errors import EvaluatorUnavailable
from kb.model import Kind, MemoryId, Scope
from kb.search import SearchRequest
from tests.agents import remember
from tests.asking import ask, by_words, open_runtime, path_of
from tests.chatting import CountingEmbedder
from tests.durable import Place, kept
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.search import FakeSearch
from tests.stores import open_store, sync, write

if TYPE_CHECKING:
    from pathlib import Path

    from kb.memories import Memories

R = Remedy
QUESTION, BRIDGE = "How many tons does the Anping bridge carry?", "The Anping bridge carries 40 tons on a dry day."
PAINT = "The Anping bridge is painted green every spring."
ZH_QUESTION, ZH_BRIDGE, ZH_PAINT = "安平大桥承重多少吨？", "安平大桥晴天承重40吨。", "安平大桥每年春天刷成绿色。"
COLOUR = "What colour is the Anping bridge painted?"
PAGE = Finding(url="https://bridges.example/anping", title="Anping", text=BRIDGE)
TON = {"tons": 0.9, "40吨": 0.9}
HALF = {"tons": 0.5, "40吨": 0.5}
LOOKED = "begin plan retrieve grade judge"
ENDED = "refine generate check write_back"


def policy(*remedies: Remedy, **more: Any) -> RuntimePolicy:
    backup = {"backup_tenant": "reference"} if R.BACKUP in remedies else {}
    return RuntimePolicy(remedies=remedies, **{**backup, **more})


def answered(store: Memories, folder: Path, rules: RuntimePolicy, question: str = QUESTION, **given: Any) -> Answer:
    request = {"approve": "always", **given.pop("request", {})}

    async def story() -> Answer:
        parts = {"evaluator": FakeEvaluator(by_words(TON)), "policy": rules, **given}
        async with open_runtime(store, folder / "data", **parts) as runtime:
            return await ask(runtime, question, **request)

    return asyncio.run(story())


def whole(store: Memories, id_: str) -> tuple[Any, ...]:
    """Return all that the ledger holds of a memory of the second source, and about it."""
    with store.ledger.read() as tx:
        key = MemoryId(id_)
        return tx.memories.get([key])[key], tx.evidence.of_memory(key), tx.utility.get([key])


@pytest.mark.parametrize(
    ("question", "own", "reference"), [(QUESTION, PAINT, BRIDGE), (ZH_QUESTION, ZH_PAINT, ZH_BRIDGE)]
)
def test_a_second_source_is_cited_and_nothing_is_written_into_it(
    store: Memories, tmp_path: Path, question: str, own: str, reference: str
) -> None:
    mine, theirs = remember(store, own), remember(store, reference, tenant="reference")
    before = whole(store, theirs)
    answer = answered(store, tmp_path, policy(R.REWRITE, R.BACKUP), question)
    assert answer.outcome is Outcome.ANSWERED
    assert [c.memory_id for c in answer.citations] == [theirs]
    assert "40" in answer.text
    assert " ".join(path_of(answer)) == f"{LOOKED} rewrite retrieve judge backup grade judge {ENDED}"
    (why,) = [step["why"] for step in answer.path if step["node"] == "backup"]
    assert why == "1 passages of reference above gate 0.7"
    given = give_feedback(store, answer.answer_id, "default", is_good=True)
    assert (given.events, given.memories, given.borrowed) == ((), (), (theirs,))
    assert whole(store, theirs) == before
    assert {m.id for m in store.page("reference", limit=100)} == {theirs}
    with store.ledger.read() as tx:
        assert tx.answers.page("reference", limit=10) == []
        assert {e.memory_id for e in tx.evaluations.of_answer(answer.answer_id)} == {mine, theirs}


def test_the_second_source_has_the_same_gate_and_its_private_and_doubtful_memories_stay_there(
    store: Memories, tmp_path: Path
) -> None:
    remember(store, f"{BRIDGE} So Ann says.", tenant="reference", scope=Scope(user="ann"))
    remember(store, f"{BRIDGE} Perhaps.", tenant="reference", confidence=0.7)
    remember(store, f"{BRIDGE} Elsewhere.", tenant="third")
    answer = answered(store, tmp_path, policy(R.BACKUP), request={"scope": Scope(user="ann")})
    assert (answer.outcome, answer.citations, answer.suppressed) == (Outcome.REFUSED, (), ())
    assert answer.reasons == ("nothing_found",)


def test_the_own_store_comes_first_and_an_answer_key_never_leads_to_the_second_source(
    store: Memories, tmp_path: Path
) -> None:
    theirs = remember(store, BRIDGE, tenant="reference")
    rules = policy(R.BACKUP)
    first = answered(store, tmp_path, rules)
    assert [c.memory_id for c in first.citations] == [theirs]
    assert store.page("default", kinds=(Kind.ANSWER,))
    without = answered(store, tmp_path, policy(R.REWRITE))
    assert (without.outcome, without.citations) == (Outcome.REFUSED, ())
    mine = remember(store, "On a dry day 40 tons are carried by the Anping bridge.")
    second = answered(store, tmp_path, rules)
    assert [c.memory_id for c in second.citations] == [mine]
    assert "backup" not in path_of(second)


def test_a_question_asked_of_the_second_source_itself_or_narrowed_is_not_asked_there_again(
    store: Memories, tmp_path: Path
) -> None:
    remember(store, BRIDGE, tenant="reference", source="note://works/load")
    nothing = FakeEvaluator(default=0.0)
    own = answered(store, tmp_path, policy(R.BACKUP), COLOUR, evaluator=nothing, request={"tenant": "reference"})
    narrowed = answered(store, tmp_path, policy(R.BACKUP), request={"sources": ("note://works/load",)})
    for answer in (own, narrowed):
        assert answer.outcome is Outcome.REFUSED
        assert "backup" not in path_of(answer)


def test_a_second_source_counts_as_a_witness_of_its_own(store: Memories, tmp_path: Path) -> None:
    write(tmp_path / "town", load_md=f"# Load\n\n{BRIDGE}\n")
    write(tmp_path / "works", load_md="# Load\n\nOn a dry day the Anping bridge carries 40 tons.\n")
    sync(store, tmp_path / "town")
    sync(store, tmp_path / "works", tenant="reference")
    alone = answered(store, tmp_path, policy(R.REWRITE, min_sources=2))
    both = answered(store, tmp_path, policy(R.BACKUP, min_sources=2))
    assert (alone.outcome, both.outcome) == (Outcome.PARTIAL, Outcome.ANSWERED)
    assert both.verdict == "correct"


ORDERS = {
    (R.WEB, R.REWRITE): f"{LOOKED} approve web judge rewrite retrieve judge refine refuse write_back",
    (R.BACKUP, R.WEB, R.REWRITE): (
        f"{LOOKED} backup judge approve web judge rewrite retrieve judge refine refuse write_back"
    ),
    (R.REWRITE, R.BACKUP, R.WEB): (
        f"{LOOKED} rewrite retrieve judge backup judge approve web judge refine refuse write_back"
    ),
    (R.HUMAN, R.WEB): f"{LOOKED} human approve web judge refine refuse write_back",
    (R.WEB,): f"{LOOKED} approve web judge refine refuse write_back",
    (): f"{LOOKED} refine refuse write_back",
}


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: " ".join(order) or "none")
@pytest.mark.parametrize(("question", "own"), [(QUESTION, PAINT), (ZH_QUESTION, ZH_PAINT)])
def test_a_question_that_nothing_answers_tries_each_remedy_once_in_the_order_that_is_configured(
    tmp_path: Path, order: tuple[Remedy, ...], question: str, own: str
) -> None:
    search = FakeSearch([])
    with open_store(tmp_path / "store", embedder=CountingEmbedder()) as store:
        remember(store, own)
        before = store.embedder.texts
        answer = answered(store, tmp_path, policy(*order), question, search=search)
        embedded = store.embedder.texts - before
    assert " ".join(path_of(answer)) == ORDERS[order]
    assert answer.outcome is Outcome.REFUSED
    assert search.calls == answer.usage.searches == int(R.WEB in order)
    assert answer.usage.llm_calls == 0
    assert answer.usage.embeddings == embedded == 1 + (R.REWRITE in order)  # the second source costs none of its own
    assert ("search_not_configured" in answer.reasons) is False


def test_a_declined_search_goes_on_with_the_next_remedy_and_makes_none(store: Memories, tmp_path: Path) -> None:
    theirs = remember(store, BRIDGE, tenant="reference")
    search = FakeSearch([PAGE])
    rules = policy(R.WEB, R.BACKUP)
    answer = answered(store, tmp_path, rules, search=search, request={"approve": "never"})
    assert [c.memory_id for c in answer.citations] == [theirs]
    assert (search.calls, answer.outcome) == (0, Outcome.ANSWERED)


@pytest.mark.parametrize("order", [(R.REWRITE, R.BACKUP, R.WEB), (R.WEB, R.BACKUP), (R.BACKUP, R.HUMAN, R.WEB)])
def test_an_evaluator_that_fails_leads_to_no_remedy_whatever_the_order(
    store: Memories, tmp_path: Path, order: tuple[Remedy, ...]
) -> None:
    remember(store, BRIDGE)
    remember(store, BRIDGE, tenant="reference")
    grades, search = FakeEvaluator(default=0.9), FakeSearch([PAGE])
    grades.error = EvaluatorUnavailable("gone")
    answer = answered(store, tmp_path, policy(*order), search=search, evaluator=grades)
    assert " ".join(path_of(answer)) == "begin plan retrieve grade judge refine refuse write_back"
    assert (search.calls, answer.reasons) == (0, ("evaluator_unavailable",))


def test_an_index_that_fails_in_the_second_source_is_said_and_never_paid_for(store: Memories, tmp_path: Path) -> None:
    search = FakeSearch([PAGE])
    server = store.generations.server
    remember(store, PAINT)

    async def story() -> Answer:
        class Leaving(FakeEvaluator):
            async def grade(self, asked: Any, evidence: Any) -> Any:
                server.is_away = True  # after the own store was searched
                return await super().grade(asked, evidence)

        parts = {"evaluator": Leaving(by_words(TON)), "policy": policy(R.BACKUP, R.WEB), "search": search}
        async with open_runtime(store, tmp_path / "data", **parts) as runtime:
            return await ask(runtime, QUESTION, approve="always")

    answer = asyncio.run(story())
    assert (answer.outcome, answer.reasons, search.calls) == (Outcome.REFUSED, ("index_unavailable",), 0)
    assert any(note.startswith("backup: IndexUnavailable") for note in answer.degraded)


def test_where_nothing_is_kept_to_wait_with_the_outcome_says_that_a_person_is_needed(
    store: Memories, tmp_path: Path
) -> None:
    remember(store, BRIDGE)
    unsure = answered(store, tmp_path, policy(R.HUMAN), evaluator=FakeEvaluator(by_words(HALF)))
    assert (unsure.outcome, unsure.reasons) == (Outcome.PARTIAL, ("person_needed",))
    nothing = answered(store, tmp_path, policy(R.HUMAN), evaluator=FakeEvaluator(default=0.0))
    assert (nothing.outcome, nothing.reasons) == (Outcome.REFUSED, ("nothing_found", "person_needed"))
    assert "person" in nothing.text
    sure = answered(store, tmp_path, policy(R.HUMAN))
    assert (sure.outcome, sure.reasons) == (Outcome.ANSWERED, ())


def test_a_gathering_waits_for_nobody_and_says_that_a_person_is_needed(
    store: Memories, tmp_path: Path, place: Place
) -> None:
    async def story() -> None:
        parts = {"evaluator": FakeEvaluator(by_words(HALF)), "policy": policy(R.HUMAN)}
        async with kept(place, store, tmp_path, **parts) as runtime:
            context = await runtime.gather(AskRequest(question=QUESTION, tenant="default"))
        assert (context.answer.outcome, context.answer.reasons) == (Outcome.PARTIAL, ("person_needed",))
        assert len(context.excerpts) == 1

    remember(store, BRIDGE)
    asyncio.run(story())


async def waiting_for(runtime: Any, place: Place, question: str = QUESTION) -> Waiting:
    waiting = await runtime.ask(AskRequest(question=question, tenant="default", thread=place.thread))
    assert isinstance(waiting, Waiting)
    return waiting


@pytest.mark.parametrize(("question", "own"), [(QUESTION, BRIDGE), (ZH_QUESTION, ZH_BRIDGE)])
@pytest.mark.parametrize(
    ("decision", "outcome", "reasons"),
    [("approve", Outcome.PARTIAL, ()), ("decline", Outcome.REFUSED, ("person_declined",))],
)
def test_a_person_sees_what_was_found_and_decides_whether_it_is_used_across_a_restart(
    store: Memories,
    tmp_path: Path,
    place: Place,
    question: str,
    own: str,
    decision: str,
    outcome: Outcome,
    reasons: tuple[str, ...],
) -> None:
    async def story() -> None:
        parts = {"evaluator": FakeEvaluator(by_words(HALF)), "policy": policy(R.HUMAN)}
        async with kept(place, store, tmp_path, **parts) as runtime:
            waiting = await waiting_for(runtime, place, question)
        assert (waiting.kind, waiting.provider, waiting.queries) == ("evidence", "", (question,))
        (found,) = waiting.found
        assert (found["memory_id"], found["label"], found["relevance"]) == (id_, "ambiguous", 0.5)
        assert own not in str(waiting)
        async with kept(place, store, tmp_path, **parts) as runtime:
            answer = await runtime.resume(place.thread, "default", decision=decision, answer_id=waiting.answer_id)
        assert isinstance(answer, Answer)
        assert (answer.outcome, answer.reasons, answer.verdict) == (outcome, reasons, "ambiguous")
        assert ("40" in answer.text) is (decision == "approve")
        assert path_of(answer).count("human") == 1

    id_ = remember(store, own)
    asyncio.run(story())


def test_a_no_leaves_what_is_settled_without_what_was_found(store: Memories, tmp_path: Path, place: Place) -> None:
    def grade(asked: Any, evidence: Any) -> float:
        if "tons" in asked.question:
            return 0.5 if "tons" in evidence.text else 0.05
        return 0.9 if "green" in evidence.text else 0.05

    async def story() -> None:
        parts = {"evaluator": FakeEvaluator(grade), "policy": policy(R.HUMAN)}
        async with kept(place, store, tmp_path, **parts) as runtime:
            waiting = await waiting_for(runtime, place, f"{QUESTION[:-1]}, and {COLOUR[0].lower()}{COLOUR[1:]}")
            assert len(waiting.queries) == 1
            answer = await runtime.resume(place.thread, "default", decision="decline")
        assert isinstance(answer, Answer)
        assert (answer.outcome, answer.reasons) == (Outcome.PARTIAL, ("person_declined",))
        assert "green" in answer.text
        assert "40" not in answer.text
        assert answer.missing == waiting.queries

    remember(store, BRIDGE)
    remember(store, PAINT)
    asyncio.run(story())


def test_other_words_of_a_person_are_looked_up_once_and_the_remedies_after_go_on(
    store: Memories, tmp_path: Path, place: Place
) -> None:
    async def story() -> None:
        search = FakeSearch([PAGE], is_paid=False)
        parts = {
            "evaluator": FakeEvaluator(by_words(TON)),
            "policy": policy(R.HUMAN, R.WEB, k=1),
            "search": search,
        }
        async with kept(place, store, tmp_path, **parts) as runtime:
            await waiting_for(runtime, place)
            answer = await runtime.resume(place.thread, "default", decision="edit", query="painted green")
        assert isinstance(answer, Answer)
        assert " ".join(path_of(answer)) == f"{LOOKED} human retrieve judge approve web grade judge {ENDED}"
        assert search.queries == ["painted green"]
        assert answer.outcome is Outcome.ANSWERED

    remember(store, PAINT)
    asyncio.run(story())


def test_a_question_may_wait_for_a_search_and_then_with_what_was_found(
    store: Memories, tmp_path: Path, place: Place
) -> None:
    async def story() -> None:
        search = FakeSearch([PAGE])
        parts = {"evaluator": FakeEvaluator(by_words(HALF)), "policy": policy(R.WEB, R.HUMAN), "search": search}
        async with kept(place, store, tmp_path, **parts) as runtime:
            first = await waiting_for(runtime, place)
            second = await runtime.resume(place.thread, "default", decision="approve")
            assert isinstance(second, Waiting)
            assert (first.kind, second.kind, search.calls) == ("search", "evidence", 1)
            assert [found["url"] for found in second.found] == [PAGE.url]
            answer = await runtime.resume(place.thread, "default", decision="approve")
        assert isinstance(answer, Answer)
        assert (answer.outcome, answer.citations[0].url) == (Outcome.PARTIAL, PAGE.url)

    remember(store, PAINT)
    asyncio.run(story())


def test_the_longest_way_through_all_remedies_stays_within_the_steps_of_a_question(
    store: Memories, tmp_path: Path, place: Place
) -> None:
    async def story() -> None:
        search = FakeSearch([])
        rules = policy(R.REWRITE, R.BACKUP, R.WEB, R.HUMAN, budgets=Budgets(rewrites=3, searches=10))
        parts = {"evaluator": FakeEvaluator(default=0.0), "policy": rules, "search": search}
        async with kept(place, store, tmp_path, **parts) as runtime:
            await waiting_for(runtime, place)
            await runtime.resume(place.thread, "default", decision="approve")
            answer = await runtime.resume(place.thread, "default", decision="edit", query="a bridge")
        assert isinstance(answer, Answer)
        assert answer.outcome is Outcome.REFUSED
        assert len(answer.path) < Budgets().steps

    remember(store, PAINT)
    asyncio.run(story())


def test_what_the_store_finds_for_a_tenant_is_that_tenants_alone(store: Memories) -> None:
    remember(store, BRIDGE, tenant="reference")
    assert store.search(SearchRequest(question=QUESTION, tenant="default", explain=False)).hits == ()
