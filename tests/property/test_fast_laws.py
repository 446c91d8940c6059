"""What speaks against a passage never raises its relevance, whatever else is true of it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from crag_runtime.evaluators.coefficients import coefficients
from crag_runtime.evaluators.features import features_of, query_of
from crag_runtime.evidence import Asked, Evidence, Origin, QuestionType
from kb.dates.periods import time_intent

TODAY = 1_796_000_000_000  # 2026-11-30
KNOWN = coefficients()
REGRESSIONS = st.sampled_from([KNOWN.full, KNOWN.cross, KNOWN.lexical, KNOWN.cosine])
FOR = ("coverage", "best_strip", "rarest", "pairs", "title_entity", "answer_type", "cosine")
AGAINST = ("period_mismatch", "entity_missing", "number_missing")
SHARE = st.floats(0, 1)
VALUES = st.fixed_dictionaries(dict.fromkeys((*FOR, *AGAINST, "length"), SHARE))
WORDS = st.lists(
    st.sampled_from(
        ["harbour", "opens", "Tampa", "nine", "revenue", "港口", "开放", "营收", "第三", "boats", "of", "the", "12"]
    ),
    max_size=12,
)


@given(VALUES, st.sampled_from(AGAINST), SHARE, REGRESSIONS)
def test_more_against_it_never_raises_relevance(values, name, more, regression) -> None:
    worse = values | {name: max(values[name], more)}
    assert KNOWN.relevance(worse, regression) <= KNOWN.relevance(values, regression)


@given(VALUES, st.sampled_from(FOR), SHARE, REGRESSIONS)
def test_more_for_it_never_lowers_relevance(values, name, more, regression) -> None:
    better = values | {name: max(values[name], more)}
    assert KNOWN.relevance(better, regression) >= KNOWN.relevance(values, regression)


@given(VALUES, REGRESSIONS)
def test_relevance_is_a_share(values, regression) -> None:
    assert 0.0 <= KNOWN.relevance(values, regression) <= 1.0


@given(VALUES, REGRESSIONS)
def test_another_period_is_below_every_upper_threshold(values, regression) -> None:
    relevance = KNOWN.relevance(values | {"period_mismatch": 1.0}, regression)
    assert all(relevance < band.upper for band in KNOWN.bands.values())


@given(WORDS, st.sampled_from(["Q3 2024", "2024", "2024年三季度", "2024年"]), st.booleans(), st.floats(0.6, 1.0))
def test_a_passage_never_gains_by_naming_the_wrong_period(words, right, before, cosine) -> None:
    """The same words, once with the period that is asked for and once with the year before."""
    question = f"revenue of the Tampa harbour in {right} 港口营收"
    asked = Asked(
        question=question, type=QuestionType.FACTUAL, time=time_intent(question, TODAY), today=TODAY, tenant="t"
    )
    query = query_of(asked, KNOWN.rarity)
    text = " ".join(words)

    def relevance(period: str) -> float:
        body = f"{period} {text}" if before else f"{text} {period}"
        evidence = Evidence(id="m", origin=Origin.MEMORY, text=body)
        values = features_of(query, evidence, KNOWN.rarity) | {"cosine": cosine}
        return KNOWN.relevance(values, KNOWN.full)

    assert relevance(right.replace("2024", "2023")) <= relevance(right)


@given(WORDS, st.floats(0.6, 1.0))
def test_a_passage_never_gains_by_losing_the_name(words, cosine) -> None:
    asked = Asked(
        question="revenue of Acme",
        type=QuestionType.FACTUAL,
        time=time_intent("", TODAY),
        today=TODAY,
        tenant="t",
    )
    query = query_of(asked, KNOWN.rarity)
    whole = Evidence(id="m", origin=Origin.MEMORY, text=" ".join(["Acme", *words]))
    swapped = replace(whole, text=" ".join(["Globex", *words]))
    own, other = (
        KNOWN.relevance(features_of(query, e, KNOWN.rarity) | {"cosine": cosine}, KNOWN.full) for e in (whole, swapped)
    )
    assert other < own
