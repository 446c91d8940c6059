"""From settings to what a runtime may spend, and how strict it is by type of question."""

from __future__ import annotations

import pytest

from crag_runtime.evidence import QuestionType
from crag_runtime.policy import Budgets, RuntimePolicy, bands_of, policy_of
from crag_runtime.verdict import Thresholds
from kb.errors import ConfigError
from kb.settings import Settings

OWN = {kind: Thresholds(lower=0.2, upper=0.6) for kind in QuestionType}


def test_a_runtime_without_settings_is_the_minimal_one() -> None:
    settings = Settings()
    assert policy_of(settings) == RuntimePolicy()
    assert (settings.search.provider, settings.ask.checkpointer, settings.search.approve) == ("none", "none", "ask")
    assert policy_of(settings).budgets == Budgets()


def test_every_budget_and_limit_is_the_settings_own() -> None:
    ask = {
        "k": 7, "min_sources": 2, "max_rewrites": 3, "max_searches": 4, "max_llm_calls": 5, "max_tokens": 6000,
        "evidence_tokens": 700, "node_seconds": 8.5, "grade_concurrency": 9,
    }  # fmt: skip
    policy = policy_of(Settings(ask=ask, search={"approve": "never", "max_results": 10}, gate=0.6))  # type: ignore[arg-type]
    assert (policy.k, policy.min_sources, policy.node_seconds, policy.grade_concurrency) == (7, 2, 8.5, 9)
    assert (policy.approve, policy.max_results) == ("never", 10)
    assert policy.budgets == Budgets(rewrites=3, searches=4, llm_calls=5, tokens=6000, evidence_tokens=700)
    assert set(policy.gate.values()) == {0.6}


def test_a_type_of_question_may_have_a_gate_and_a_band_of_its_own() -> None:
    thresholds = {"factual": {"upper": 0.8, "gate": 0.9}, "creative": {"lower": 0.1}}
    settings = Settings(gate=0.7, ask={"thresholds": thresholds})  # type: ignore[arg-type]
    assert policy_of(settings).gate == {
        QuestionType.FACTUAL: 0.9,
        QuestionType.ANALYTICAL: 0.7,
        QuestionType.CREATIVE: 0.7,
    }
    assert bands_of(settings, OWN) == {
        QuestionType.FACTUAL: Thresholds(lower=0.2, upper=0.8),
        QuestionType.ANALYTICAL: Thresholds(lower=0.2, upper=0.6),
        QuestionType.CREATIVE: Thresholds(lower=0.1, upper=0.6),
    }


def test_a_gate_and_edges_of_zero_are_said_and_not_left_out() -> None:
    settings = Settings(ask={"thresholds": {"factual": {"lower": 0.0, "upper": 0.0, "gate": 0.0}}})  # type: ignore[arg-type]
    assert policy_of(settings).gate[QuestionType.FACTUAL] == 0.0
    assert bands_of(settings, OWN)[QuestionType.FACTUAL] == Thresholds(lower=0.0, upper=0.0)


def test_half_a_band_that_does_not_fit_the_evaluators_own_other_half_is_refused() -> None:
    with pytest.raises(ConfigError, match="must rise"):
        bands_of(Settings(ask={"thresholds": {"factual": {"lower": 0.7}}}), OWN)  # type: ignore[arg-type]
