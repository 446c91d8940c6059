"""What the runtime may spend and how strict it is: small frozen values made from the settings, once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crag_runtime.evidence import QuestionType
from crag_runtime.verdict import Thresholds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kb.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Hard limits of one question."""

    rewrites: int = 1
    searches: int = 2
    llm_calls: int = 24
    tokens: int = 60_000
    evidence_tokens: int = 1500
    steps: int = 60  # graph steps; a run beyond it is a defect


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimePolicy:
    """How one runtime works.

    Args:
        k: passages retrieved per sub-question.
        gate: effective confidence to exceed, per type of question.
        min_sources: independent sources that a correct verdict needs.
        node_seconds: limit of one node.
        grade_concurrency: passages graded at a time.
        approve: ask, always or never: who decides on a paid search.
        max_results: of one web search.
        budgets: hard limits.
    """

    k: int = 5
    gate: Mapping[QuestionType, float] = field(default_factory=lambda: dict.fromkeys(QuestionType, 0.7))
    min_sources: int = 1
    node_seconds: float = 60.0
    grade_concurrency: int = 4
    approve: str = "ask"
    max_results: int = 5
    budgets: Budgets = field(default_factory=Budgets)


Bands = dict[QuestionType, Thresholds]


def policy_of(settings: Settings) -> RuntimePolicy:
    """Return the policy that the settings say."""
    ask, own = settings.ask, settings.ask.thresholds
    gates = {t: own[t.value].gate if t.value in own else None for t in QuestionType}
    return RuntimePolicy(
        k=ask.k,
        gate={t: settings.gate if gate is None else gate for t, gate in gates.items()},
        min_sources=ask.min_sources,
        node_seconds=ask.node_seconds,
        grade_concurrency=ask.grade_concurrency,
        approve=settings.search.approve,
        max_results=settings.search.max_results,
        budgets=Budgets(
            rewrites=ask.max_rewrites,
            searches=ask.max_searches,
            llm_calls=ask.max_llm_calls,
            tokens=ask.max_tokens,
            evidence_tokens=ask.evidence_tokens,
        ),
    )


def bands_of(settings: Settings, own: Mapping[QuestionType, Thresholds]) -> Bands:
    """Return an evaluator's own bands with what the settings change; validated together.

    Raises:
        ConfigError: lower would be above upper.
    """
    changed = settings.ask.thresholds
    bands: Bands = {}
    for kind, band in own.items():
        given = changed.get(kind.value)
        lower = band.lower if given is None or given.lower is None else given.lower
        upper = band.upper if given is None or given.upper is None else given.upper
        bands[kind] = Thresholds(lower=lower, upper=upper)
    return bands
