"""From grades to verdicts: the edges of a band, the rule for a set, independent sources, and a whole question."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_runtime.evidence import Grade, Label, Verdict
from crag_runtime.verdict import Thresholds, best, combined, label_of, verdict_of
from kb.errors import ConfigError

BAND = Thresholds(lower=0.3, upper=0.7)
YES, MAYBE, NO, UNKNOWN = Label.RELEVANT, Label.AMBIGUOUS, Label.IRRELEVANT, Label.UNKNOWN
CORRECT, AMBIGUOUS, INCORRECT = Verdict.CORRECT, Verdict.AMBIGUOUS, Verdict.INCORRECT
labels = st.lists(st.sampled_from(list(Label)), max_size=8)


@pytest.mark.parametrize(
    ("relevance", "label"),
    [
        (1.0, YES),
        (0.7, YES),
        (math.nextafter(0.7, 0), MAYBE),
        (0.3, MAYBE),
        (math.nextafter(0.3, 0), NO),
        (0.0, NO),
        (None, UNKNOWN),
        (math.nan, UNKNOWN),
    ],
)
def test_both_edges_of_a_band_belong_to_the_better_label(relevance: float | None, label: Label) -> None:
    assert label_of(relevance, BAND) is label


@pytest.mark.parametrize(("lower", "upper"), [(0.7, 0.3), (-0.1, 0.5), (0.5, 1.1), (math.nan, 0.5)])
def test_a_band_that_does_not_rise_within_zero_and_one_is_refused(lower: float, upper: float) -> None:
    with pytest.raises(ConfigError, match="must rise"):
        Thresholds(lower=lower, upper=upper)


@pytest.mark.parametrize(
    ("given_labels", "verdict"),
    [
        ([], INCORRECT),
        ([NO], INCORRECT),
        ([NO, NO, NO], INCORRECT),  # however sure the grades are: a sure no is a no
        ([YES], CORRECT),
        ([NO] * 9 + [YES], CORRECT),  # nine bad ones take nothing from a good one: no mean
        ([YES, UNKNOWN], CORRECT),
        ([MAYBE], AMBIGUOUS),
        ([MAYBE, NO], AMBIGUOUS),
        ([NO, UNKNOWN], AMBIGUOUS),  # what could not be graded might have been the answer
        ([MAYBE, UNKNOWN], AMBIGUOUS),
        ([UNKNOWN], Verdict.UNKNOWN),
        ([UNKNOWN, UNKNOWN], Verdict.UNKNOWN),
    ],
)
def test_one_relevant_passage_is_correct_none_at_all_is_incorrect_and_between_is_ambiguous(
    given_labels: list[Label], verdict: Verdict
) -> None:
    assert verdict_of(given_labels) is verdict
    assert verdict_of(given_labels[::-1]) is verdict


@pytest.mark.parametrize(
    ("sources", "verdict"),
    [
        ([], INCORRECT),
        (["docs"], AMBIGUOUS),
        (["docs", "docs", "docs"], AMBIGUOUS),  # passages of one source are one source
        (["docs", "wiki"], CORRECT),
        (["docs", "docs", "wiki"], CORRECT),
    ],
)
def test_support_is_counted_by_independent_source_and_never_by_passage(sources: list[str], verdict: Verdict) -> None:
    given_labels = [*[YES] * len(sources), NO, NO]
    assert verdict_of(given_labels, [*sources, "elsewhere", "nowhere"], min_sources=2) is verdict


def test_a_source_that_is_not_relevant_supports_nothing() -> None:
    assert verdict_of([YES, MAYBE, NO], ["a", "b", "c"], min_sources=2) is AMBIGUOUS


@given(labels, st.randoms())
def test_the_order_of_passages_decides_nothing(given_labels: list[Label], random: object) -> None:
    shuffled = list(given_labels)
    random.shuffle(shuffled)  # type: ignore[attr-defined] # a random.Random
    assert verdict_of(shuffled) is verdict_of(given_labels)


@given(labels)
def test_another_irrelevant_passage_makes_nothing_better_and_nothing_sufficient_worse(
    given_labels: list[Label],
) -> None:
    before, after = verdict_of(given_labels), verdict_of([*given_labels, NO])
    assert (before is CORRECT) == (after is CORRECT)
    assert (before is INCORRECT) == (after is INCORRECT)


@pytest.mark.parametrize(
    ("verdicts", "whole"),
    [
        ([], INCORRECT),
        ([CORRECT, CORRECT], CORRECT),
        ([INCORRECT, INCORRECT], INCORRECT),
        ([CORRECT, INCORRECT], AMBIGUOUS),
        ([CORRECT, AMBIGUOUS], AMBIGUOUS),
        ([CORRECT, Verdict.UNKNOWN], AMBIGUOUS),
        ([Verdict.UNKNOWN, Verdict.UNKNOWN], Verdict.UNKNOWN),
    ],
)
def test_a_question_is_correct_or_incorrect_only_if_all_its_parts_are(verdicts: list[Verdict], whole: Verdict) -> None:
    assert combined(verdicts) is whole
    assert combined(verdicts[::-1]) is whole


def test_the_best_grade_is_the_most_relevant_and_the_first_of_equals() -> None:
    grades = [
        Grade(id="unknown", label=UNKNOWN, relevance=None),
        Grade(id="first", label=YES, relevance=0.9),
        Grade(id="second", label=YES, relevance=0.9),
        Grade(id="worse", label=NO, relevance=0.0),
    ]
    assert best(grades) is grades[1]
    assert best(grades[:1]) is None
