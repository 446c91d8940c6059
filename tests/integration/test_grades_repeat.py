"""Determinism: the same question and passage get the same grade twice, remembered or not, today or another day."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from crag_runtime.caches.in_process import InProcessCache
from crag_runtime.calibrating.drifting import DriftState
from crag_runtime.calibrating.labelled import read_pairs
from crag_runtime.evaluators import open_evaluator
from crag_runtime.evidence import Verdict
from crag_runtime.threads import Threads
from kb.chat import open_chat
from kb.settings import Settings
from tests.chatting import GRADE, Teller, asked_for
from tests.fakes.chat_server import ChatServer
from tests.golden import DAY, NOW, checking
from tests.shell import ROOT
from tests.stores import FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from crag_runtime.calibrating.drift import Baseline
    from crag_runtime.calibrating.drifting import DriftReport
    from crag_runtime.ports import GradeCache
    from kb.embedders.local import LocalEmbedder

DATA = ROOT / "tests" / "data"
PAIRS = [*read_pairs(DATA / "calibrate.jsonl")[:8], *read_pairs(DATA / "golden_timely.jsonl")]


def graded(
    settings: Settings,
    embedder: LocalEmbedder,
    baseline: Baseline | None = None,
    *,
    cache: GradeCache | None = None,
    now: int = NOW,
) -> DriftReport:
    """Return a run of the configured evaluator, opened as the runtime would, with nothing of an earlier one."""

    async def story() -> DriftReport:
        threads, chat = Threads(2), open_chat(settings)
        parts: dict[str, Any] = {"chat": chat, "cache": cache, "threads": threads, "clock": FakeClock()}
        evaluator = open_evaluator(settings, **parts, vector_space=embedder.identity.model)
        try:
            return await checking(evaluator, PAIRS, baseline, embedder=embedder, now=now)
        finally:
            threads.close()
            if chat is not None:
                await chat.aclose()

    return asyncio.run(story())


@pytest.fixture(params=["fast", "reader"])
def local(request: Any, tmp_path: Path, model_cache: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data", cache_dir=model_cache, ask={"evaluator": request.param})


@pytest.mark.usefixtures("reader_model")
def test_the_same_input_gets_the_same_verdict_from_cache_and_not(local: Settings, local_embedder) -> None:
    first = graded(local, local_embedder)
    assert (first.state, first.unknown) == (DriftState.CREATED, ())
    cache = InProcessCache(ttl_seconds=60, clock=FakeClock())
    anew, filling, served = (
        graded(local, local_embedder, first.now, cache=kept, now=NOW + 800 * DAY) for kept in (None, cache, cache)
    )
    for again in (anew, filling, served):
        assert again.state is DriftState.WITHIN
        assert again.now.pairs == first.now.pairs  # to the last bit of the relevance
        assert (again.now.evaluator, again.now.golden) == (first.now.evaluator, first.now.golden)
    assert {g.verdict for g in first.now.pairs} >= {Verdict.CORRECT, Verdict.INCORRECT}


@pytest.fixture
def served() -> Iterator[ChatServer]:
    with ChatServer(Teller(grades={"Saturdays": 0.9, "harbour": 0.6})) as server:
        yield server


def asking(server: ChatServer, tmp_path: Path, model_cache: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data", cache_dir=model_cache, chat=server.settings(), ask={"evaluator": "llm"})


def sent(server: ChatServer) -> list[str]:
    """Return what was sent since the last time, byte for byte; calls made at the same time come in any order."""
    assert {asked_for(request) for request in server.requests} <= {GRADE}
    bodies = sorted(json.dumps(request.body, ensure_ascii=False) for request in server.requests)
    server.requests.clear()
    return bodies


def test_a_chat_model_is_told_the_same_bytes_and_gives_the_same_verdicts(
    served: ChatServer, tmp_path: Path, model_cache: Path, local_embedder
) -> None:
    settings = asking(served, tmp_path, model_cache)
    first = graded(settings, local_embedder)
    told = sent(served)
    assert (first.state, len(told), len(set(told))) == (DriftState.CREATED, len(PAIRS), len(PAIRS))
    assert {json.loads(body)["temperature"] for body in told} == {0}
    cache = InProcessCache(ttl_seconds=60, clock=FakeClock())
    for kept, expected in ((None, told), (cache, told), (cache, [])):
        again = graded(settings, local_embedder, first.now, cache=kept, now=NOW + 800 * DAY)
        assert sent(served) == expected
        assert (again.state, again.now.pairs) == (DriftState.WITHIN, first.now.pairs)


def test_a_chat_model_that_grades_otherwise_sets_the_alarm_off(
    served: ChatServer, tmp_path: Path, model_cache: Path, local_embedder
) -> None:
    settings = asking(served, tmp_path, model_cache)
    first = graded(settings, local_embedder)
    served.respond = Teller(otherwise=0.9)  # the same name, another model behind it
    again = graded(settings, local_embedder, first.now)
    assert again.state is DriftState.DRIFTED
    assert again.now.evaluator == first.now.evaluator
    assert again.drift is not None
    assert again.drift.lost > 0


def test_a_chat_model_that_is_away_is_no_drift(
    served: ChatServer, tmp_path: Path, model_cache: Path, local_embedder
) -> None:
    settings = asking(served, tmp_path, model_cache)
    first = graded(settings, local_embedder)
    served.refuses = dict.fromkeys(("schema", "tool", "words"), 500)
    again = graded(settings, local_embedder, first.now)
    assert (again.state, again.drift, len(again.unknown)) == (DriftState.UNGRADED, None, len(PAIRS))
    assert all(g.problem for g in again.unknown)
