"""The pollution benchmark's parts: worlds, timelines, reader and scores say what they claim."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from bench.pollution.cells import grid
from bench.pollution.directions import directions
from bench.pollution.metrics import asked_of, recovery, scored
from bench.pollution.reader import read, read_first
from bench.pollution.roster import NAMES, maker
from bench.pollution.schedule import Conditions, timeline
from bench.pollution.world import RGB, fixture, folded, rgb, value_of

FACTS = fixture()


def test_the_shipped_world_has_forty_facts_in_two_languages_and_clean_passages() -> None:
    assert Counter(f.language for f in FACTS) == {"en": 20, "zh": 20}
    assert len({f.id for f in FACTS}) == len({f.question for f in FACTS}) == 40
    for fact in FACTS:
        assert {value_of(p, fact) for p in fact.says_true} == {"true"}
        assert {value_of(p, fact) for p in fact.says_false} == {"false"}
        assert {value_of(p, fact) for p in fact.says_neither} == {None}


@pytest.mark.corpus
@pytest.mark.skipif(not RGB.is_dir(), reason="RGB is not here")
def test_the_rgb_world_is_the_one_of_the_notes() -> None:
    facts = rgb()
    assert (len(facts), sum(f.is_dev for f in facts)) == (197, 83)


def test_one_seed_is_one_timeline_and_another_is_another() -> None:
    one = timeline(FACTS, 0, Conditions())
    assert one == timeline(FACTS, 0, Conditions())
    assert one != timeline(FACTS, 1, Conditions())
    assert len(one.asked) == 120
    assert {len(day) for day in one.asked} == {40}


@pytest.mark.parametrize("seed", range(5))
def test_facts_fall_into_their_classes_and_passages_come_when_they_must(seed: int) -> None:
    events = timeline(FACTS, seed, Conditions())
    assert Counter(events.classes) == {
        "evergreen": 12,
        "updated": 10,
        "poisoned_known": 10,
        "poisoned_cold": 8,
    }
    for a in events.arrivals:
        kind, value = events.classes[a.fact], value_of(a.text, FACTS[a.fact])
        if a.is_poison:
            assert value == "false"
            assert (40 <= a.day <= 44) if kind == "poisoned_known" else a.day <= 3
        elif kind == "updated" and value is not None:
            flip = events.flips[a.fact]
            assert a.day <= 3 if value == "false" else flip <= a.day <= flip + 6
        else:
            assert value != "false"


def test_a_null_world_has_neither_update_nor_poison() -> None:
    events = timeline(FACTS, 0, replace(Conditions(), is_null=True))
    assert set(events.classes) == {"evergreen"}
    assert not any(a.is_poison for a in events.arrivals)
    assert not events.flips


def test_what_nearer_passages_say_is_read_and_what_says_both_counts_for_nothing() -> None:
    fact = FACTS[0]
    true, false, neither = fact.says_true[0], fact.says_false[0], fact.says_neither[0]
    assert read(fact, [true, false]) == "true"
    assert read(fact, [false, true]) == "false"
    assert read(fact, [false, true, fact.says_true[1], fact.says_true[2]]) == "true"
    assert read_first(fact, [neither, false, true, true]) == "false"
    assert read(fact, [neither, f"{true} {false}"]) is None


def test_values_are_looked_for_without_regard_to_case_width_and_space() -> None:
    assert folded("１４  March\n2025") == "14 march 2025"


def test_scores_count_what_they_say() -> None:
    events = timeline(FACTS, 0, Conditions())
    known = events.classes.index("poisoned_known")
    updated = events.classes.index("updated")
    flip = events.flips[updated]
    asked = [
        asked_of(events, 0, 3, known, "false"),  # before anything counts
        asked_of(events, 0, 50, known, "false"),
        asked_of(events, 0, 51, known, "true"),
        asked_of(events, 0, 70, known, None),
        asked_of(events, 0, flip + 6, updated, "false"),  # within the week of grace
        asked_of(events, 0, flip + 7, updated, "false"),
        asked_of(events, 0, flip - 1, updated, "true"),
    ]
    found = {name: own["value"] for name, own in scored(asked).items()}
    assert found["accuracy"] == pytest.approx(1 / 6)
    assert found["abstained"] == pytest.approx(1 / 6)
    assert found["polluted_known"] == pytest.approx(1 / 3)
    assert found["polluted_late"] == 0.0
    assert found["stale"] == 1.0
    assert found["premature"] == 1.0
    assert found["polluted_cold"] is None


def test_a_store_has_recovered_after_a_clean_week_of_weeks() -> None:
    events = timeline(FACTS, 0, Conditions())
    known = events.classes.index("poisoned_known")
    sick = [asked_of(events, 0, day, known, "false" if day < 60 else "true") for day in range(40, 120)]
    assert recovery(sick) == {"recovered": 1.0, "median_day": 66.0}
    assert recovery([replace(a, given="false") for a in sick])["recovered"] == 0.0


def test_every_policy_of_the_grid_can_be_made_and_an_unknown_one_cannot() -> None:
    assert {cell.policy for cell in grid(None, Conditions(), is_stressed=True)} == set(NAMES)
    assert all(callable(maker(name)) for name in NAMES)
    with pytest.raises(KeyError):
        maker("wishful")


def test_a_direction_that_was_not_run_is_not_claimed() -> None:
    assert directions({}, {}) == []
