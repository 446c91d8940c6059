"""Laws of the measures and of the thresholds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_runtime.calibrating.calibration import accuracy, auc, band, calibrated, ece, platt
from crag_runtime.evidence import Label
from crag_runtime.verdict import Thresholds, label_of

PAIRS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=2, max_size=60).filter(
    lambda pairs: len({label for _, label in pairs}) == 2
)
COARSE = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), st.booleans()), min_size=2, max_size=60
).filter(lambda pairs: len({label for _, label in pairs}) == 2)
BOTH = st.one_of(PAIRS, COARSE)


def parts(pairs: list[tuple[float, bool]]) -> tuple[list[float], list[bool]]:
    return [r for r, _ in pairs], [label for _, label in pairs]


@given(BOTH)
def test_auc_of_reversed_scores_is_what_is_missing_to_one(pairs) -> None:
    relevances, labels = parts(pairs)
    assert auc([-r for r in relevances], labels) == pytest.approx(1 - auc(relevances, labels))


@given(BOTH)
def test_auc_is_the_share_of_ordered_pairs(pairs) -> None:
    yes, no = [r for r, label in pairs if label], [r for r, label in pairs if not label]
    counted = sum((y > n) + 0.5 * (y == n) for y in yes for n in no) / (len(yes) * len(no))
    assert auc(*parts(pairs)) == pytest.approx(counted)


@given(BOTH)
def test_ece_is_a_share(pairs) -> None:
    assert 0.0 <= ece(*parts(pairs)) <= 1.0


@given(BOTH)
def test_thresholds_rise_and_figures_are_shares(pairs) -> None:
    found = calibrated(*parts(pairs))
    assert 0.0 <= found.lower <= found.upper <= 1.0
    for value in (found.accuracy, found.majority, found.auc, found.ece, found.ece_scaled, found.unsure, found.middle):
        assert 0.0 <= value <= 1.0


@given(PAIRS)
def test_no_threshold_is_more_accurate_than_the_middle(pairs) -> None:
    relevances, labels = parts(pairs)
    found = calibrated(relevances, labels)
    assert all(accuracy(relevances, labels, r) <= found.accuracy for r in relevances)


@given(BOTH)
def test_outside_the_band_the_target_holds_or_the_fall_back_is_safe(pairs) -> None:
    relevances, labels = parts(pairs)
    found, reasons = band(relevances, labels)
    if found.lower == found.upper:
        return  # the two met; accuracy is what counts
    given_labels = [label_of(r, found) for r in relevances]
    for wanted, named, truth in ((Label.RELEVANT, "upper", True), (Label.IRRELEVANT, "lower", False)):
        own = [label is truth for label, given_label in zip(labels, given_labels, strict=True) if given_label is wanted]
        fell_back = any(named in reason for reason in reasons)
        if own and not (fell_back and max(relevances) == 1.0):
            assert sum(own) >= 0.9 * len(own)


@given(
    st.lists(st.floats(0, 0.45), min_size=1, max_size=30),
    st.lists(st.floats(0.55, 1), min_size=1, max_size=30),
)
def test_separated_labels_are_told_apart_without_a_mistake(low, high) -> None:
    relevances, labels = [*low, *high], [False] * len(low) + [True] * len(high)
    found = calibrated(relevances, labels)
    assert found.accuracy == 1.0
    assert found.auc == 1.0
    own = [label_of(r, Thresholds(lower=found.lower, upper=found.upper)) for r in relevances]
    for label, given_label in zip(labels, own, strict=True):
        assert given_label is not (Label.IRRELEVANT if label else Label.RELEVANT)


@given(BOTH)
def test_scaling_is_finite_and_stays_a_share(pairs) -> None:
    scaling = platt(*parts(pairs))
    assert all(0.0 <= scaling(p) <= 1.0 for p in (0.0, 0.3, 0.5, 1.0))
