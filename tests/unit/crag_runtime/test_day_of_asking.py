"""Relative words mean what they mean on the day of asking, wherever a question is looked at."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from crag_runtime.planning.plan_rules import planned
from tests.agents import remember
from tests.asking import ask, open_runtime
from tests.fakes.evaluator import FakeEvaluator
from tests.stores import FakeClock, open_store

if TYPE_CHECKING:
    from pathlib import Path


def at(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)


WORDS = ("What was the revenue of Acme last year?", "去年阿克米公司的营收是多少？")


@pytest.mark.parametrize("question", WORDS)
@pytest.mark.parametrize("year", [2026, 2031])
def test_last_year_is_the_year_before_the_day_of_asking(question: str, year: int) -> None:
    (period,) = planned(question, (), at(f"{year}-06-01")).time.periods
    assert (period.start, period.end) == (at(f"{year - 1}-01-01"), at(f"{year}-01-01"))


@pytest.mark.parametrize("question", WORDS)
def test_an_evaluator_is_told_the_day_of_asking_and_the_periods_of_that_day(question: str, tmp_path: Path) -> None:
    clock, evaluator = FakeClock(at("2030-12-30")), FakeEvaluator(default=0.9)

    async def story() -> None:
        async with open_runtime(store, tmp_path, evaluator=evaluator) as runtime:
            await ask(runtime, question)
            clock.instant = at("2031-01-05")
            await ask(runtime, question)

    with open_store(tmp_path / "data", clock=clock) as store:
        remember(store, "The revenue of Acme was 41 million. 阿克米公司的营收是4100万元。", confidence=1.0)
        asyncio.run(story())
    said = [(asked.today, *((p.start, p.end) for p in asked.time.periods)) for asked in evaluator.asked]
    assert said == [
        (at("2030-12-30"), (at("2029-01-01"), at("2030-01-01"))),
        (at("2031-01-05"), (at("2030-01-01"), at("2031-01-01"))),
    ]
