"""How strict a real runtime is: presets end to end, sources by type of question, and the web for questions of time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from crag_runtime.evidence import Finding, Outcome, QuestionType
from crag_runtime.policy import RuntimePolicy, policy_of
from crag_runtime.result import Answer, AskRequest
from crag_runtime.wiring import build_runtime
from kb.errors import ConfigError
from kb.settings import Settings
from tests.agents import remember
from tests.asking import ask, by_words, open_runtime, path_of
from tests.chatting import vouched
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.search import FakeSearch
from tests.stores import sync, write

if TYPE_CHECKING:
    from pathlib import Path

    from kb.memories import Memories

QUESTION, BRIDGE = "How many tons does the Anping bridge carry?", "The Anping bridge carries 40 tons on a dry day."
ZH_QUESTION, ZH_BRIDGE = "安平大桥承重多少吨？", "安平大桥晴天承重40吨。"
WHY = "Why does the Anping bridge carry 40 tons?"
AGAIN, ZH_AGAIN = "On a dry day the Anping bridge carries 40 tons.", "晴天时，安平大桥的承重是40吨。"
PAINT = "The Anping bridge is painted green every spring."
FORTY = {"40": 0.9}
PAGE = Finding(url="https://bridges.example/anping", title="Anping", text=BRIDGE)


def answered(store: Memories, folder: Path, policy: RuntimePolicy, question: str, **parts: Any) -> Answer:
    async def story() -> Answer:
        given = {"evaluator": FakeEvaluator(by_words(FORTY)), "policy": policy, **parts}
        async with open_runtime(store, folder / "data", **given) as runtime:
            return await ask(runtime, question, approve="always")

    return asyncio.run(story())


def two_sources(store: Memories, folder: Path, *texts: str) -> None:
    for name, text in zip(("town", "works"), texts, strict=False):
        write(folder / name, load_md=f"# Load\n\n{text}\n")
        sync(store, folder / name)


@pytest.mark.parametrize(("question", "text", "again"), [(QUESTION, BRIDGE, AGAIN), (ZH_QUESTION, ZH_BRIDGE, ZH_AGAIN)])
def test_a_type_of_question_may_need_more_independent_sources_than_the_others(
    store: Memories, tmp_path: Path, question: str, text: str, again: str
) -> None:
    policy = policy_of(Settings(ask={"thresholds": {"factual": {"min_sources": 2}}}))  # type: ignore[arg-type]
    assert [policy.sources_for(kind) for kind in QuestionType] == [2, 1, 1]
    two_sources(store, tmp_path, text)
    one = answered(store, tmp_path, policy, question)
    assert (one.outcome, one.verdict) == (Outcome.PARTIAL, "ambiguous")
    two_sources(store, tmp_path, text, again)
    assert answered(store, tmp_path, policy, question).outcome is Outcome.ANSWERED


def test_a_type_of_question_may_need_fewer_sources_than_the_others(store: Memories, tmp_path: Path) -> None:
    ask_ = {"min_sources": 3, "thresholds": {"factual": {"min_sources": 1}}}
    policy = policy_of(Settings(ask=ask_))  # type: ignore[arg-type]
    two_sources(store, tmp_path, BRIDGE)
    assert answered(store, tmp_path, policy, QUESTION).verdict == "correct"
    assert answered(store, tmp_path, policy, WHY).verdict == "ambiguous"


def under(preset: str, **more: Any) -> RuntimePolicy:
    return policy_of(Settings(ask={"preset": preset, **more}))  # type: ignore[arg-type]


@pytest.mark.parametrize(("question", "text", "again"), [(QUESTION, BRIDGE, AGAIN), (ZH_QUESTION, ZH_BRIDGE, ZH_AGAIN)])
def test_each_preset_asks_the_store_as_often_and_as_strictly_as_its_table_says(
    store: Memories, tmp_path: Path, question: str, text: str, again: str
) -> None:
    two_sources(store, tmp_path, text)
    nothing = {preset: answered(store, tmp_path, under(preset), question, evaluator=FakeEvaluator(default=0.0))
               for preset in ("fast", "balanced", "strict")}  # fmt: skip
    assert [path_of(answer).count("rewrite") for answer in nothing.values()] == [0, 1, 2]
    one = {preset: answered(store, tmp_path, under(preset), question) for preset in nothing}
    assert [answer.verdict for answer in one.values()] == ["correct", "correct", "ambiguous"]
    two_sources(store, tmp_path, text, again)
    assert answered(store, tmp_path, under("strict"), question).verdict == "correct"
    assert answered(store, tmp_path, under("strict", min_sources=1), question).verdict == "correct"


def test_under_strict_a_persons_note_is_not_read_until_somebody_vouches_for_it(store: Memories, tmp_path: Path) -> None:
    note = remember(store, BRIDGE)
    strict = under("strict", min_sources=1)
    assert answered(store, tmp_path, under("balanced"), QUESTION).outcome is Outcome.ANSWERED
    held = answered(store, tmp_path, strict, QUESTION)
    assert (held.outcome, [s["memory_id"] for s in held.suppressed]) == (Outcome.REFUSED, [note])
    vouched(store, note)
    assert answered(store, tmp_path, strict, QUESTION).outcome is Outcome.ANSWERED


def test_a_runtime_is_wired_with_the_evaluator_of_its_preset_unless_another_is_named(
    store: Memories, tmp_path: Path
) -> None:
    async def graders(**chosen: str) -> str:
        settings = Settings(data_dir=tmp_path / "data", ask=chosen)  # type: ignore[arg-type]
        async with build_runtime(settings, store) as runtime:
            return runtime.deps.evaluator.identity.name

    assert asyncio.run(graders(preset="fast")) == "fast"
    assert asyncio.run(graders(preset="balanced")) == "reader"
    assert asyncio.run(graders(preset="fast", evaluator="reader")) == "reader"


def test_a_runtime_with_remedies_that_make_no_sense_is_not_opened(store: Memories, tmp_path: Path) -> None:
    async def opened() -> None:
        settings = Settings(data_dir=tmp_path / "data", ask={"remedies": ["web", "web"]})  # type: ignore[arg-type]
        async with build_runtime(settings, store):
            raise AssertionError("it is open")

    with pytest.raises(ConfigError, match="'web' twice"):
        asyncio.run(opened())


def test_a_search_that_is_no_remedy_is_not_even_opened(store: Memories, tmp_path: Path) -> None:
    async def story() -> Answer:
        settings = Settings(
            data_dir=tmp_path / "data",
            ask={"remedies": ["rewrite"], "evaluator": "fast"},  # type: ignore[arg-type]
            search={"provider": "tavily", "api_key": "none"},  # type: ignore[arg-type]
        )
        async with build_runtime(settings, store) as runtime:
            assert runtime.deps.search is None
            answer = await runtime.ask(AskRequest(question=QUESTION, tenant="default"))
        assert isinstance(answer, Answer)
        return answer

    assert asyncio.run(story()).reasons == ("nothing_found",)


TIMELY = [
    "What is the latest load limit of the Anping bridge?",
    "How many tons did the Anping bridge carry in 2026?",
    "How many tons did the Anping bridge carry in Q3 2026?",
    "How did the year-on-year load of the Anping bridge change?",
    "What was the YoY growth of the load of the Anping bridge?",
    "How many tons did the Anping bridge carry last year?",
    "安平大桥最新的承重是多少吨？",
    "安平大桥去年承重多少吨？",
    "安平大桥的承重同比变化多少？",
    "安平大桥2026年第三季度承重多少吨？",
]
TIMELESS = [QUESTION, ZH_QUESTION, "What colour is the Anping bridge?", "安平大桥是什么颜色？"]


@pytest.mark.parametrize("question", TIMELY)
def test_where_the_web_is_for_questions_of_time_a_question_of_time_is_searched(
    store: Memories, tmp_path: Path, question: str
) -> None:
    search = FakeSearch([])
    answer = answered(store, tmp_path, RuntimePolicy(only_timely=True), question, search=search)
    assert search.calls == 1
    assert answer.reasons == ("nothing_found",)


@pytest.mark.parametrize("question", TIMELESS)
def test_where_the_web_is_for_questions_of_time_another_is_not_searched_and_the_reason_says_so(
    store: Memories, tmp_path: Path, question: str
) -> None:
    remember(store, PAINT)
    search = FakeSearch([PAGE])
    policy = policy_of(Settings(search={"only_when": "timely"}))  # type: ignore[arg-type]
    answer = answered(store, tmp_path, policy, question, search=search)
    assert (search.calls, answer.usage.searches) == (0, 0)
    assert answer.reasons == ("nothing_found", "search_not_timely")
    assert ("questions of time" in answer.text) or ("涉及时间" in answer.text)
    assert not {"approve", "web"} & set(path_of(answer))
    needed = answered(store, tmp_path, policy_of(Settings()), question, search=FakeSearch([PAGE]))
    assert needed.usage.searches == 1


def test_without_a_web_search_a_question_that_names_no_time_is_told_just_that(store: Memories, tmp_path: Path) -> None:
    answer = answered(store, tmp_path, RuntimePolicy(only_timely=True), QUESTION)
    assert answer.reasons == ("nothing_found", "search_not_configured")
