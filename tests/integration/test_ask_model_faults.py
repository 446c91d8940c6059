"""A chat model that fails at any stage of a question, in any way: a typed outcome in bounded time, and no search paid.

The endpoint is a real server on loopback that misbehaves as told; the search would find the answer.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from crag_runtime.evidence import Finding, Outcome, Verdict
from crag_runtime.policy import RuntimePolicy
from crag_runtime.result import Answer, AskRequest
from kb.chat.openai import OpenAIChat
from kb.settings import Settings
from tests.agents import remember
from tests.asking import by_words, open_runtime, path_of
from tests.chatting import GRADE, PLAN, REWRITE, WRITE, Teller, asked_for, with_model
from tests.fakes.chat_server import ChatServer, Say
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.search import FakeSearch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from crag_runtime.runtime import CragRuntime, Event
    from kb.memories import Memories
    from tests.fakes.chat_server import Request

QUESTION = "How much does the Anping bridge cost?"
DECOY = "How much does the Anping bridge cost? is what visitors ask."
PRICE = "Anping bridge price: cost 40 euros."
PAINT = "The Anping bridge is painted green every spring."
PAGE = Finding(url="https://bridges.example/toll", title="Toll", text="The Anping bridge costs 40 euros.")
BOUND = 60.0  # seconds: far beyond what any path may take, far below a hang
FAULTS: dict[str, Callable[[], Say]] = {
    "timeout": lambda: Say(hangs=True),
    "429 with a long wait": lambda: Say(status=429, headers={"Retry-After": "3600"}),
    "500": lambda: Say(status=500),
    "malformed": lambda: Say(body=b'{"choices": [{"message": {"content": "'),
    "empty": lambda: Say(text=""),
    "cut": lambda: Say(text="The Anping bridge cost 40 euros [1].", cut_after=2),
    "ends early": lambda: Say(text="The Anping bridge cost 40 euros [1].", ends_early=True),
}
SOME = {  # of plan, grade and rewrite: each fault at one of them; every fault at each is a soak
    ("plan", "timeout"), ("plan", "malformed"), ("plan", "ends early"), ("grade", "429 with a long wait"),
    ("grade", "cut"), ("rewrite", "500"), ("rewrite", "empty"),
}  # fmt: skip
STAGES = {"plan": PLAN, "grade": GRADE, "rewrite": REWRITE, "generate": WRITE}
PRICED = {"price": 0.9}


def failing(stage: str, fault: Callable[[], Say]) -> Callable[[Request], Any]:
    """Say what is right but at one stage."""
    tell = Teller(grades=PRICED)

    def respond(request: Request) -> Any:
        return fault() if asked_for(request) == stage else tell(request)

    return respond


def local(stage: str) -> FakeEvaluator:
    """Return the cascade's first: the decoy is unclear to it, unless a rewrite is wanted; what answers is clear."""
    return FakeEvaluator(by_words({"price": 0.9} if stage == "rewrite" else {"price": 0.9, "visitors": 0.5}))


@asynccontextmanager
async def running(
    store: Memories, folder: Path, server: ChatServer, first: FakeEvaluator | None, search: FakeSearch, **given: Any
) -> AsyncIterator[CragRuntime]:
    chat_settings = {"timeout_seconds": 1.0, "retries": 0, **given.pop("chat", {})}
    chat = OpenAIChat.from_settings(Settings(chat=server.settings(**chat_settings).model_dump()))
    policy = RuntimePolicy(approve="always", **given)
    with with_model(chat, first) as parts:
        async with open_runtime(store, folder / "data", policy=policy, search=search, **parts) as runtime:
            yield runtime
    await chat.aclose()


async def streamed(runtime: CragRuntime, question: str = QUESTION) -> tuple[Answer, list[Event]]:
    """Ask and return the answer with all events, within bounds."""
    async with asyncio.timeout(BOUND):
        events = [event async for event in runtime.stream(AskRequest(question=question, tenant="default"))]
    answer = events[-1].result
    assert isinstance(answer, Answer)
    return answer, events


def valid_text(events: list[Event]) -> str:
    """Return what was streamed and not taken back."""
    last_void = max((n for n, event in enumerate(events) if event.kind == "void"), default=-1)
    return "".join(event.token for event in events[last_void + 1 :] if event.kind == "token")


def told(store: Memories, folder: Path, server: ChatServer, first: Any, **given: Any) -> tuple[Answer, list[Event]]:
    """Ask once; no search may be made, and what the answer says it cost is what the endpoint counted."""
    search = FakeSearch([PAGE])

    async def story() -> tuple[Answer, list[Event]]:
        async with running(store, folder, server, first, search, **given) as runtime:
            return await streamed(runtime)

    answer, events = asyncio.run(story())
    assert search.calls == answer.usage.searches == 0
    assert answer.usage.llm_calls == len(server.requests)
    if answer.outcome is Outcome.REFUSED:
        assert valid_text(events) == ""
    else:
        assert valid_text(events) == answer.text
    return answer, events


def every_fault_at_every_stage() -> list[Any]:
    pairs = [(stage, fault) for stage in STAGES for fault in FAULTS]
    usual = {*SOME, *(pair for pair in pairs if pair[0] == "generate")}
    return [pytest.param(*pair, marks=() if pair in usual else pytest.mark.soak) for pair in pairs]


@pytest.mark.parametrize(("stage", "fault"), every_fault_at_every_stage())
def test_a_fault_at_any_stage_is_made_good_by_a_stand_in_and_said(
    store: Memories, tmp_path: Path, chat_server: ChatServer, stage: str, fault: str
) -> None:
    for note in (DECOY, PRICE):
        remember(store, note)
    chat_server.respond = failing(STAGES[stage], FAULTS[fault])
    answer, events = told(store, tmp_path, chat_server, local(stage), k=1 if stage == "rewrite" else 5)
    assert answer.outcome is Outcome.ANSWERED
    assert "40 euros" in answer.text
    assert [reason.split(":")[0] for reason in answer.degraded] == [stage]
    assert any(event.kind == "void" for event in events) is (stage == "generate")


@pytest.mark.parametrize("stage", STAGES)
def test_a_short_wait_that_is_asked_for_is_kept_and_harms_nothing(
    store: Memories, tmp_path: Path, chat_server: ChatServer, stage: str
) -> None:
    for note in (DECOY, PRICE):
        remember(store, note)
    once = [Say(status=429, headers={"Retry-After": "0.2"})]
    tell = Teller(grades=PRICED, query=lambda *_: "Anping bridge price cost")

    def respond(request: Request) -> Any:
        return once.pop() if once and asked_for(request) == STAGES[stage] else tell(request)

    chat_server.respond = respond
    chat, k = {"timeout_seconds": 20.0, "retries": 1}, 1 if stage == "rewrite" else 5
    answer, events = told(store, tmp_path, chat_server, local(stage), chat=chat, k=k)
    assert (answer.outcome, answer.degraded, once) == (Outcome.ANSWERED, (), [])
    assert not any(event.kind == "void" for event in events)


@pytest.mark.parametrize("stage", STAGES)
def test_an_endpoint_that_dies_at_any_stage_leaves_an_answer_by_rules_and_quotes(
    store: Memories, tmp_path: Path, chat_server: ChatServer, stage: str
) -> None:
    for note in (DECOY, PRICE):
        remember(store, note)
    tell, dead = Teller(grades=PRICED), []

    def respond(request: Request) -> Any:
        if dead or asked_for(request) == STAGES[stage]:
            dead.append(request)
            return Say(text="{}", cut_after=0)
        return tell(request)

    chat_server.respond = respond
    answer, events = told(store, tmp_path, chat_server, local(stage), k=1 if stage == "rewrite" else 5)
    assert dead
    assert answer.outcome is Outcome.ANSWERED
    assert "40 euros" in answer.text
    named = [reason.split(":")[0] for reason in answer.degraded]
    assert named[0] == stage
    assert named[-1] == "generate"
    assert any(event.kind == "void" for event in events)


def test_an_endpoint_that_is_not_there_costs_its_calls_and_nothing_else(store: Memories, tmp_path: Path) -> None:
    for note in (DECOY, PRICE):
        remember(store, note)
    with ChatServer() as gone:
        pass
    search = FakeSearch([PAGE])

    async def story() -> Answer:
        async with running(store, tmp_path, gone, local("rewrite"), search, k=1) as runtime:
            return (await streamed(runtime))[0]

    answer = asyncio.run(story())
    assert answer.outcome is Outcome.ANSWERED
    assert [reason.split(":")[0] for reason in answer.degraded] == ["plan", "rewrite", "generate"]
    assert search.calls == 0


@pytest.mark.parametrize("fault", ["timeout", "cut"])
def test_what_the_cascade_could_not_ask_the_model_about_is_no_reason_to_pay_for_a_search(
    store: Memories, tmp_path: Path, chat_server: ChatServer, fault: str
) -> None:
    remember(store, PRICE)
    chat_server.respond = failing(GRADE, FAULTS[fault])
    answer, _ = told(store, tmp_path, chat_server, FakeEvaluator(by_words({"price": 0.5})))
    assert (answer.outcome, answer.verdict) == (Outcome.PARTIAL, Verdict.AMBIGUOUS)
    assert [reason.split(":")[0] for reason in answer.degraded] == ["grade"]
    assert "approve" not in path_of(answer)


@pytest.mark.parametrize("fault", ["timeout", "500", "malformed", "empty"])
def test_a_model_that_can_grade_nothing_ends_in_a_refusal_that_says_so(
    store: Memories, tmp_path: Path, chat_server: ChatServer, fault: str
) -> None:
    remember(store, PRICE)
    chat_server.respond = failing(GRADE, FAULTS[fault])
    answer, _ = told(store, tmp_path, chat_server, None)
    assert (answer.outcome, answer.verdict) == (Outcome.REFUSED, Verdict.UNKNOWN)
    assert answer.reasons == ("evaluator_unavailable",)
    assert [reason.split(":")[0] for reason in answer.degraded] == ["grade"]


def test_one_passage_that_cannot_be_graded_harms_no_other(
    store: Memories, tmp_path: Path, chat_server: ChatServer
) -> None:
    search = FakeSearch([PAGE])
    for note in (PRICE, PAINT):
        remember(store, note)
    tell = Teller(grades=PRICED)

    def respond(request: Request) -> Any:
        return Say(status=500) if asked_for(request) == GRADE and "green" in request.prompt else tell(request)

    chat_server.respond = respond

    async def story() -> Answer:
        async with running(store, tmp_path, chat_server, None, search) as runtime:
            return (await streamed(runtime, f"{QUESTION} And what colour is it?"))[0]

    answer = asyncio.run(story())
    assert "40 euros" in answer.text
    with store.ledger.read() as tx:
        labels = sorted(e.label for e in tx.evaluations.of_answer(answer.answer_id))
    assert "relevant" in labels
    assert search.calls == 0


def test_a_draft_that_is_refused_is_taken_back_from_the_stream(
    store: Memories, tmp_path: Path, chat_server: ChatServer
) -> None:
    remember(store, PRICE)
    chat_server.respond = Teller(grades=PRICED, answer="The Anping bridge cost 90 euros [1].")
    answer, events = told(store, tmp_path, chat_server, None)
    assert (answer.outcome, answer.reasons) == (Outcome.REFUSED, ("not_supported",))
    assert "90" in "".join(event.token for event in events)
    assert sum(event.kind == "void" for event in events) == 2


def test_the_second_draft_replaces_the_first_in_the_stream(
    store: Memories, tmp_path: Path, chat_server: ChatServer
) -> None:
    remember(store, PRICE)
    drafts = ["The Anping bridge cost 90 euros [1].", "The Anping bridge cost 40 euros [1]."]
    chat_server.respond = Teller(grades=PRICED, answer=lambda prompt: drafts["not accepted" in prompt])
    answer, events = told(store, tmp_path, chat_server, None)
    assert (answer.outcome, answer.text) == (Outcome.ANSWERED, drafts[1])
    assert sum(event.kind == "void" for event in events) == 1


def test_a_step_that_outlasts_its_own_limit_is_a_typed_refusal(
    store: Memories, tmp_path: Path, chat_server: ChatServer
) -> None:
    remember(store, PRICE)
    chat_server.respond = failing(WRITE, FAULTS["timeout"])
    search = FakeSearch([PAGE])

    async def story() -> Answer:
        chat = {"timeout_seconds": 30.0}
        async with running(store, tmp_path, chat_server, None, search, chat=chat, node_seconds=1.5) as runtime:
            return (await streamed(runtime))[0]

    answer = asyncio.run(story())
    assert (answer.outcome, answer.reasons) == (Outcome.REFUSED, ("model_unavailable",))
    assert answer.degraded == ("generate: generate ran out of time",)
    assert search.calls == 0
