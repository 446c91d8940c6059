"""The whole runtime with a real model behind a real OpenAI-compatible server. What the model says proves nothing.

It is at chance in quality: what is asserted is that the plumbing holds and that whatever comes is said honestly.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from crag_runtime.evidence import Outcome
from crag_runtime.result import Answer, AskRequest
from crag_runtime.wiring import build_runtime
from kb.chat.forms import Form
from kb.chat.openai import _KNOWN
from kb.settings import Settings
from tests.agents import remember
from tests.asking import path_of
from tests.fakes.search_server import SearchServer
from tests.real_chat import MODEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from crag_runtime.runtime import Event
    from kb.memories import Memories
    from tests.real_chat import RealChatServer

QUESTION = "How many tons does the Anping bridge carry?"
BRIDGE = "The Anping bridge carries 40 tons on a dry day."
BOUND = 120.0  # seconds: no path takes so long even on a busy machine


@contextmanager
def settings_of(server: RealChatServer, folder: Path, cache: Path, **given: Any) -> Iterator[tuple[Settings, Any]]:
    """Give settings with the real model and a paid search that is counted."""
    with SearchServer() as searched:
        chat = {"model": MODEL, "base_url": server.url, "max_tokens": 160, "retries": 0, **given.pop("chat", {})}
        web = {"provider": "tavily", "url": searched.base, "api_key": "tvly-x", "approve": "always"}
        ask = {"k": 1, "evaluator": "reader", **given}
        yield Settings(data_dir=folder / "data", cache_dir=cache, chat=chat, search=web, ask=ask), searched


def asked(
    settings: Settings, store: Memories, seen: Callable[[Event], None] = lambda _event: None
) -> tuple[Answer, list[Event]]:
    async def story() -> tuple[Answer, list[Event]]:
        events = []
        async with asyncio.timeout(BOUND), build_runtime(settings, store) as runtime:
            async for event in runtime.stream(AskRequest(question=QUESTION, tenant="default")):
                events.append(event)
                seen(event)
        answer = events[-1].result
        assert isinstance(answer, Answer)
        return answer, events

    return asyncio.run(story())


def is_honest(answer: Answer, events: list[Event], id_: str) -> None:
    """Assert that an answer cites what it rests on, or is none; and that the stream told the same."""
    last_void = max((n for n, event in enumerate(events) if event.kind == "void"), default=-1)
    valid = "".join(event.token for event in events[last_void + 1 :] if event.kind == "token")
    if answer.outcome is Outcome.REFUSED:
        assert (answer.citations, valid) == ((), "")
        assert answer.reasons
    else:
        assert valid == answer.text
        assert {c.memory_id for c in answer.citations} == {id_}
        assert "[1]" in answer.text


def test_the_whole_path_runs_streams_keeps_the_schema_and_is_paid_for(
    store: Memories, tmp_path: Path, model_cache: Path, real_chat: RealChatServer
) -> None:
    id_ = remember(store, BRIDGE)
    with settings_of(real_chat, tmp_path, model_cache, evaluator="llm") as (settings, searched):
        answer, events = asked(settings, store)
        assert len(searched.asked) == answer.usage.searches
    is_honest(answer, events, id_)
    assert any(event.kind == "token" for event in events)
    assert path_of(answer)[:5] == ["begin", "plan", "retrieve", "grade", "judge"]
    assert path_of(answer)[-1] == "write_back"
    assert answer.usage.llm_calls >= 2
    assert answer.usage.tokens_in > 100
    assert answer.usage.tokens_out > 5
    manners = _KNOWN.of(real_chat.url, MODEL)
    assert (manners.form, manners.is_settled) == (Form.SCHEMA, True)


def test_too_little_time_for_the_model_leaves_an_answer_by_quotes(
    store: Memories, tmp_path: Path, model_cache: Path, real_chat: RealChatServer
) -> None:
    id_ = remember(store, BRIDGE)
    hasty = {"timeout_seconds": 0.02}
    with settings_of(real_chat, tmp_path, model_cache, evaluator="llm", chat=hasty) as (settings, searched):
        answer, events = asked(settings, store)
        assert searched.asked == []
    is_honest(answer, events, id_)
    assert answer.outcome is Outcome.ANSWERED
    assert [reason.split(":")[0] for reason in answer.degraded] == ["plan", "grade", "generate"]
    assert all("timeout" in reason for reason in answer.degraded)


def test_a_server_that_is_killed_while_it_answers_leaves_an_answer_by_quotes(
    store: Memories, tmp_path: Path, model_cache: Path, mortal_chat: RealChatServer
) -> None:
    id_ = remember(store, BRIDGE)

    def kill(event: Event) -> None:
        if event.kind == "token":
            mortal_chat.kill()

    with settings_of(mortal_chat, tmp_path, model_cache, chat={"max_tokens": 48}) as (settings, searched):
        answer, events = asked(settings, store, kill)
        assert searched.asked == []
    is_honest(answer, events, id_)
    kinds = [event.kind for event in events]
    if "generate" in {reason.split(":")[0] for reason in answer.degraded}:  # else it had all been said already
        assert kinds.index("void") > kinds.index("token")
        assert answer.outcome is Outcome.ANSWERED


def test_a_server_that_is_gone_is_said_and_costs_no_search(
    store: Memories, tmp_path: Path, model_cache: Path, mortal_chat: RealChatServer
) -> None:
    id_ = remember(store, BRIDGE)
    mortal_chat.kill()
    with settings_of(mortal_chat, tmp_path, model_cache, evaluator="llm") as (settings, searched):
        answer, events = asked(settings, store)
        assert searched.asked == []
    is_honest(answer, events, id_)
    assert answer.outcome is Outcome.ANSWERED
    assert [reason.split(":")[0] for reason in answer.degraded] == ["plan", "grade", "generate"]
    assert (answer.usage.tokens_in, answer.usage.tokens_out) == (0, 0)
