"""Parts of one question share what there is: each has its own passages, and its own share of the words."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from crag_runtime.policy import Budgets, RuntimePolicy
from kb.tokens import cl100k_count
from tests.agents import remember
from tests.asking import ask, open_runtime
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.generator import FakeGenerator

if TYPE_CHECKING:
    from pathlib import Path

    from crag_runtime.evidence import Asked, Evidence
    from kb.memories import Memories

ONE = "How many tons does the Anping bridge carry?"
BOTH = "How many tons does the Anping bridge carry, and what colour is the Luoyang tower painted?"
TOWER = "The Luoyang tower is painted green."


def own(asked: Asked, evidence: Evidence) -> float:
    return 0.9 if ("Anping" in asked.question) == ("Anping" in evidence.text) else 0.05


def asked(store: Memories, folder: Path, question: str, **parts: Any) -> Any:
    async def story() -> Any:
        async with open_runtime(store, folder / "data", **{"evaluator": FakeEvaluator(own), **parts}) as runtime:
            return await ask(runtime, question)

    return asyncio.run(story())


def test_every_part_of_a_question_has_passages_of_its_own_however_many_the_others_find(
    store: Memories, tmp_path: Path
) -> None:
    for n in range(6):
        remember(store, f"The Anping bridge carries 40 tons, says sign {n} of the Luoyang road.")
    tower = remember(store, TOWER)
    grades = FakeEvaluator(own)
    answer = asked(store, tmp_path, BOTH, evaluator=grades, policy=RuntimePolicy(k=2))
    by_part = Counter(question for question, _ in grades.graded)
    assert by_part == dict.fromkeys(answer.plan["sub_questions"], 2)
    assert tower in {c.memory_id for c in answer.citations}
    assert len(set(grades.graded)) == len(grades.graded)


@pytest.mark.parametrize(("question", "most"), [(ONE, 64), (BOTH, 64), (ONE, 200)])
def test_what_reaches_the_answer_stays_within_its_tokens_and_every_part_has_its_share(
    store: Memories, tmp_path: Path, question: str, most: int
) -> None:
    for n in range(5):
        remember(store, f"On day {n} the Anping bridge carries 4{n} tons. It carries 3{n} tons by night on the bridge.")
    remember(store, TOWER)
    generator = FakeGenerator()
    asked(store, tmp_path, question, generator=generator, budgets=Budgets(evidence_tokens=most))
    (task,) = generator.tasks
    parts = len(task.plan.sub_questions)
    spent = [0] * parts
    for excerpt in task.excerpts:
        spent[excerpt.sub] += sum(map(cl100k_count, excerpt.strips))
    assert all(0 < tokens <= most // parts for tokens in spent)
