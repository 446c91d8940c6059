"""Laws of the bounds, of the drift alarm, and of what is learned from a log of answers."""

from __future__ import annotations

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_runtime.calibrating.significance import mcnemar, paired_change, wilson_lower
from crag_runtime.calibrating.sources import MOST, NEED, TARGET, Judged, learned_sources, rows_of
from crag_runtime.evidence import QuestionType

SHARES = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
CHANGES = st.integers(1, 400).flatmap(
    lambda n: st.integers(0, n).flatmap(
        lambda lost: st.tuples(st.just(lost), st.integers(0, n - lost), st.just(n)),
    )
)
FACTUAL = st.builds(Judged, type=st.just(QuestionType.FACTUAL), sources=st.integers(0, 14), right=st.booleans())
MOSTLY_RIGHT = st.builds(
    Judged,
    type=st.just(QuestionType.FACTUAL),
    sources=st.integers(0, 5),
    right=st.integers(0, 19).map(lambda n: n > 0),
)
LOGS = st.one_of(
    st.lists(FACTUAL, min_size=1, max_size=80),
    st.lists(MOSTLY_RIGHT, min_size=30, max_size=120),
    st.lists(st.builds(Judged, type=st.sampled_from(QuestionType), sources=st.integers(0, 4), right=st.booleans()),
             min_size=1, max_size=80),
)  # fmt: skip


@given(SHARES)
def test_the_bound_is_below_the_share_and_within_0_and_1(share) -> None:
    hits, n = share
    assert 0.0 <= wilson_lower(hits, n) <= hits / n


@given(SHARES)
def test_one_more_hit_raises_the_bound_and_more_of_the_same_does_too(share) -> None:
    hits, n = share
    assert wilson_lower(hits, n) <= wilson_lower(hits + 1, n + 1)
    assert wilson_lower(hits, n) <= wilson_lower(2 * hits, 2 * n) + 1e-12
    assert wilson_lower(hits, n + 1) <= wilson_lower(hits, n)


def test_the_bound_of_known_cases() -> None:
    assert wilson_lower(0, 0) == 0.0
    assert wilson_lower(0, 10) == 0.0
    assert wilson_lower(20, 20) == pytest.approx(20 / (20 + 1.6448536**2))
    assert wilson_lower(24, 24) < 0.9 < wilson_lower(25, 25)


@given(CHANGES)
def test_the_interval_holds_the_change_and_turns_with_it(change) -> None:
    lost, won, n = change
    value, low, high = paired_change(lost, won, n)
    assert -1.0 <= low <= value <= high <= 1.0
    assert low < high
    assert paired_change(won, lost, n) == pytest.approx((-value, -high, -low))


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_exact_two_sided_binomial(lost: int, won: int) -> None:
    n = lost + won
    as_rare = sum(comb(n, i) for i in range(n + 1) if comb(n, i) <= comb(n, lost)) / 2**n
    assert mcnemar(lost, won) == pytest.approx(as_rare) == pytest.approx(mcnemar(won, lost))
    assert 0.0 < mcnemar(lost, won) <= 1.0


def test_mcnemar_of_known_cases() -> None:
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(3, 0) == 0.25
    assert mcnemar(5, 15) == pytest.approx(0.0414, abs=1e-4)
    assert mcnemar(0, 5000) == 0.0  # too small for a number; no overflow


@given(LOGS)
def test_more_sources_never_keep_more_answers(log) -> None:
    rows = rows_of(log)
    assert [r.sources for r in rows] == sorted({min(j.sources, MOST) for j in log if j.sources})
    kept, coverage = [r.kept for r in rows], [r.coverage for r in rows]
    assert kept == sorted(set(kept), reverse=True)
    assert coverage == sorted(coverage, reverse=True)
    for row in rows:
        own = [j for j in log if j.sources >= row.sources]
        assert (row.kept, row.right) == (len(own), sum(j.right for j in own))
        assert 0.0 <= row.bound <= row.right / row.kept <= 1.0
        assert row.coverage == row.kept / len(log) <= 1.0


@given(LOGS)
def test_nothing_is_learned_that_too_few_or_too_wrong_answers_support(log) -> None:
    for fit in learned_sources(log):
        good = [row for row in fit.rows if row.kept >= NEED and row.bound >= TARGET]
        assert fit.min_sources == (good[0].sources if good else 1)
        assert bool(fit.why) == (not good)
        assert 1 <= fit.min_sources <= MOST


@given(LOGS, st.randoms(use_true_random=False))
def test_the_order_of_a_log_does_not_matter(log, random) -> None:
    mixed = random.sample(log, len(log))
    assert learned_sources(mixed) == learned_sources(log)


@given(LOGS)
def test_each_type_of_question_learns_from_its_own_answers_alone(log) -> None:
    fits = learned_sources(log)
    assert [fit.type for fit in fits] == [kind for kind in QuestionType if any(j.type is kind for j in log)]
    for fit in fits:
        assert learned_sources([j for j in log if j.type is fit.type]) == (fit,)


@given(st.lists(st.booleans(), max_size=NEED - 1), st.integers(1, MOST))
def test_fewer_answers_than_needed_teach_nothing_however_right(rights, sources) -> None:
    log = [Judged(type=QuestionType.FACTUAL, sources=sources, right=right) for right in rights]
    log.append(Judged(type=QuestionType.FACTUAL, sources=0, right=True))
    (fit,) = learned_sources(log, target=0.01)
    assert (fit.min_sources, "too few" in fit.why) == (1, True)
