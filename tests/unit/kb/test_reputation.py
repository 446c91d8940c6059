"""Laws of reputation: never more than the class, nothing for one mistake, never below half."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kb.reputation import FLOOR, LEAST_BAD, REASON, UNKNOWN, Record, discounted, factor, prior_reason, reputed
from kb.trust import TrustPolicy
from tests.disputing import FORTY, POLICIES, said
from tests.stores import T0

counts = st.integers(0, 10_000)
records = st.builds(lambda good, bad: Record(good=good, bad=bad), counts, counts)


@given(records)
def test_a_factor_is_within_half_and_one(record: Record) -> None:
    assert FLOOR <= factor(record) <= 1.0
    policy = TrustPolicy(confidence=0.9)
    assert discounted(policy, record).confidence <= policy.confidence


@given(counts, st.integers(0, LEAST_BAD - 1))
def test_no_history_and_a_mistake_or_two_cost_nothing(good: int, bad: int) -> None:
    assert factor(UNKNOWN) == factor(Record(good=good, bad=bad)) == 1.0
    assert prior_reason(Record(good=good, bad=bad), TrustPolicy(confidence=0.9)) == ""


def test_a_history_of_refusals_costs_what_the_mean_says_down_to_half() -> None:
    cases = {(0, 3): 4 / 7, (3, 3): 7 / 10, (96, 3): 100 / 103, (0, 4): 0.5, (0, 1_000): FLOOR}
    assert {key: factor(Record(good=key[0], bad=key[1])) for key in cases} == cases


@given(records)
def test_more_against_a_source_never_helps_it_and_more_for_it_never_hurts(record: Record) -> None:
    worse, better = Record(good=record.good, bad=record.bad + 1), Record(good=record.good + 1, bad=record.bad)
    assert factor(worse) <= factor(record) <= factor(better)


@given(records)
def test_a_new_memory_says_why_it_begins_lower(record: Record) -> None:
    fresh, own = said("a", FORTY), next(iter(POLICIES.values()))
    after = reputed(fresh, own, record, T0)
    if factor(record) == 1.0:
        assert after is fresh
    else:
        assert after.trust.confidence == own.confidence * factor(record)
        assert str(record.bad) in str(after.metadata[REASON])
