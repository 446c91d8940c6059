"""The pollution benchmark on the real store, small: policies see no labels, and governance keeps cold poison out."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from bench.pollution.governed import CHECK_BUDGET, Governed, Parts
from bench.pollution.latency import interleaved
from bench.pollution.metrics import scored
from bench.pollution.policies import Given
from bench.pollution.roster import maker
from bench.pollution.schedule import Arrival, Conditions
from bench.pollution.shelf import DayClock, opened
from bench.pollution.simulate import simulate
from bench.pollution.world import fixture
from bench.vectors import Vectors
from tests.fakes.embedder import HashingEmbedder

SMALL = Conditions(days=12, asked_a_day=3, rollback_day=10)
FACTS = [f for f in fixture() if f.is_dev]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Vectors:
    return Vectors(HashingEmbedder(), tmp_path_factory.mktemp("vectors"))


def test_one_seed_is_one_result(vectors: Vectors) -> None:
    one, two = (simulate(FACTS, 3, SMALL, maker("governed"), vectors) for _ in range(2))
    assert one.asked == two.asked
    assert one.checks == two.checks


@pytest.mark.parametrize("name", ["governed", "governed_own_extractor"])
def test_no_policy_asks_outside_more_often_than_the_budget_allows(vectors: Vectors, name: str) -> None:
    run = simulate(FACTS, 2, SMALL, maker(name), vectors)
    assert run.checks <= math.ceil(1 + CHECK_BUDGET * len(run.asked))


def test_a_policy_that_is_told_garbage_for_labels_shows_the_same(vectors: Vectors) -> None:
    """Swapping what counts as true swaps no passage that a policy shows: it never saw which was which."""
    swapped = [replace(f, true=f.false, false=f.true, says_true=f.says_true, says_false=f.says_false) for f in FACTS]
    honest = simulate(FACTS, 1, SMALL, maker("without_checks"), vectors)
    garbled = simulate(swapped, 1, SMALL, maker("without_checks"), vectors)
    turned = {"true": "false", "false": "true", None: None}
    before = [a for a in honest.asked if a.day == 0]
    after = [a for a in garbled.asked if a.day == 0]
    assert [turned[a.given] for a in before] == [b.given for b in after]


def test_cold_poison_stays_out_of_a_governed_store(vectors: Vectors) -> None:
    conditions = replace(SMALL, days=34, compromised=0.0)
    plain = scored(simulate(FACTS, 0, conditions, maker("append"), vectors).asked)
    governed = scored(simulate(FACTS, 0, conditions, maker("governed"), vectors).asked)
    assert (governed["polluted_cold"]["value"] or 0.0) <= (plain["polluted_cold"]["value"] or 0.0)
    assert governed["polluted_cold"]["value"] == 0.0


def test_a_governed_store_shows_no_echo_however_often_it_answered(vectors: Vectors) -> None:
    clock = DayClock()
    with opened(vectors, clock) as (memories, settings):
        policy = Governed(
            memories, settings, Parts(checks=False), lambda *_: None, lambda *_: None, lambda _: pytest.fail("asked")
        )
        text = "The Harwick Bridge carries forty tonnes."
        policy.arrive([Arrival(day=0, order=0, fact=0, text=text, source="own0")])
        question = "What does the Harwick Bridge carry?"
        for n in range(3):
            clock.set(n)
            shown = policy.shown(question, n)
            assert shown.texts == (text,)
            echo = f"{question} ninety tonnes"
            policy.answered(Given(id=f"a{n}", day=n, question=question, echo=echo, support=shown.ids))


@pytest.mark.parametrize("decay", [True, False])
def test_a_store_that_never_fades_shows_what_it_holds_at_any_time(vectors: Vectors, *, decay: bool) -> None:
    clock = DayClock()
    with opened(vectors, clock) as (memories, settings):
        policy = Governed(
            memories,
            settings,
            Parts(decay=decay, checks=False),
            lambda *_: None,
            lambda *_: None,
            lambda _: pytest.fail("asked"),
        )
        policy.arrive([Arrival(day=0, order=0, fact=0, text="The Harwick Bridge carries forty tonnes.", source="own0")])
        shown = []
        for day in (0, 100):
            clock.set(day)
            shown.append(len(policy.shown("What does the Harwick Bridge carry?", day).texts))
    assert shown == ([1, 0] if decay else [1, 1])


def test_two_policies_are_timed_in_turn_on_one_timeline(vectors: Vectors) -> None:
    short = replace(SMALL, days=7)
    pair = interleaved(FACTS, 0, short, vectors, ("plain", "governed"))
    assert set(pair) == {"plain", "governed"}
    assert all(0 < own["p50_ms"] <= own["p95_ms"] for own in pair.values())
