"""kill -9 while questions are worked on: each goes on at the step that was cut off, nothing before it is done again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from crag_runtime.evidence import Finding, Outcome
from crag_runtime.result import AskRequest
from kb.errors import InputError
from tests.asking import path_of
from tests.crash.asker import TOPICS, question, relevance, text
from tests.durable import Place, kept, remember
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.generator import FakeGenerator
from tests.fakes.search import FakeSearch
from tests.stores import open_store

ROOT = Path(__file__).parents[2]


def killed(place, data_dir, durability):
    """Ask in a process of its own, and kill it when every question hangs where it should."""
    command = [
        sys.executable,
        "-m",
        "tests.crash.asker",
        str(data_dir),
        place.kind,
        place.url,
        durability,
        place.thread,
    ]
    with (data_dir / "asker.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 120
            while any(not (data_dir / f"hung-{topic}").exists() for topic in TOPICS):
                assert process.poll() is None, (data_dir / "asker.log").read_text()[-3000:]
                assert time.monotonic() < deadline, sorted(path.name for path in data_dir.glob("hung-*"))
                time.sleep(0.02)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def memories(tmp_path):
    with open_store(tmp_path / "data") as opened:
        remember(opened, *(text(topic) for topic in TOPICS if topic != "tower"))
        yield opened


def recorded(memories, topic):
    with memories.ledger.read() as tx:
        return [a for a in tx.answers.page("default", limit=100) if topic in a.question]


def parts():
    found = Finding(url="https://towers.test/", title="Towers", text=text("tower"))
    return {
        "evaluator": FakeEvaluator(relevance),
        "generator": FakeGenerator(),
        "search": FakeSearch([found]),
    }


def test_a_killed_question_goes_on_where_it_was_cut_off(memories, tmp_path, place):
    data_dir = tmp_path / "data"
    killed(place, data_dir, "sync")
    assert len(recorded(memories, "pier")) == 1  # written back, and killed before that was known

    async def resumed(topic):
        own = parts()
        async with kept(place, memories, data_dir, **own) as runtime:
            answer = await runtime.resume(f"{place.thread}{topic}", "default")
            with pytest.raises(InputError, match="no question waits"):
                await runtime.resume(f"{place.thread}{topic}", "default")
        assert (answer.outcome, "green" in answer.text) == (Outcome.ANSWERED, True), topic
        assert path_of(answer).count("begin") == path_of(answer).count("plan") == 1
        assert len(recorded(memories, topic)) == 1, topic
        assert recorded(memories, topic)[0].id == answer.answer_id
        return own["evaluator"].calls, own["search"].calls, own["generator"].calls

    async def story():
        return {topic: await resumed(topic) for topic in TOPICS}

    assert asyncio.run(story()) == {  # gradings, searches, drafts
        "bridge": (5, 0, 1),
        "harbour": (0, 0, 1),
        "tower": (1, 1, 1),  # only the finding is graded
        "dock": (0, 0, 0),
        "pier": (0, 0, 0),
        "mole": (0, 0, 0),
    }


def test_with_a_checkpoint_at_the_end_only_a_killed_question_is_asked_anew(memories, tmp_path):
    place, data_dir = Place(kind="sqlite"), tmp_path / "data"
    killed(place, data_dir, "exit")
    spooled = list((data_dir / "write-backs").glob("*.json"))
    assert [path.stem for path in spooled] != []  # the refused one is kept beside the ledger
    assert recorded(memories, "mole") == []

    async def story():
        async with kept(place, memories, data_dir, **parts()) as runtime:
            for topic in TOPICS:
                with pytest.raises(InputError, match="no question waits"):
                    await runtime.resume(f"{place.thread}{topic}", "default")
            request = AskRequest(question=question("harbour"), tenant="default", thread=f"{place.thread}harbour")
            return await runtime.ask(request)

    assert asyncio.run(story()).outcome is Outcome.ANSWERED
    assert list((data_dir / "write-backs").iterdir()) == []
    assert [a.id for a in recorded(memories, "mole")] == [path.stem for path in spooled]  # written by the next answer
