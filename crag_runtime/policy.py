"""What the runtime may spend and how strict it is: small frozen values made from the settings, once."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from crag_runtime.evidence import QuestionType
from crag_runtime.remedies import DEFAULT_ORDER, Remedy, ordered
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
        own_min_sources: the same for types of question that have a number of their own.
        node_seconds: limit of one node.
        grade_concurrency: passages graded at a time.
        approve: ask, always or never: who decides on a paid search.
        max_results: of one web search.
        only_timely: whether the web is for questions of time only.
        remedies: what is tried when evidence does not suffice, in order.
        backup_tenant: the second source of evidence; "" for none.
        budgets: hard limits.
    """

    k: int = 5
    gate: Mapping[QuestionType, float] = field(default_factory=lambda: dict.fromkeys(QuestionType, 0.7))
    min_sources: int = 1
    own_min_sources: Mapping[QuestionType, int] = field(default_factory=dict)
    node_seconds: float = 60.0
    grade_concurrency: int = 4
    approve: str = "ask"
    max_results: int = 5
    only_timely: bool = False
    remedies: tuple[Remedy, ...] = DEFAULT_ORDER
    backup_tenant: str = ""
    budgets: Budgets = field(default_factory=Budgets)

    def sources_for(self, kind: QuestionType) -> int:
        """Return how many independent sources a correct verdict on a question of this type needs."""
        return self.own_min_sources.get(kind, self.min_sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Values for settings that are set nowhere.

    Args:
        ask: by their names in `[ask]`.
        gate: effective confidence to exceed when asking; None: as set for all of the store.
        raised: share of the way from an evaluator's own upper edge to 1 by which the edge is raised.
    """

    ask: Mapping[str, object] = field(default_factory=dict)
    gate: float | None = None
    raised: float = 0.0


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "fast": Preset(
            ask={
                "evaluator": "fast",
                "k": 3,
                "max_rewrites": 0,
                "max_searches": 1,
                "max_llm_calls": 4,
                "max_tokens": 20_000,
                "evidence_tokens": 800,
            }
        ),
        "balanced": Preset(),
        "strict": Preset(
            ask={
                "k": 8,
                "min_sources": 2,
                "max_rewrites": 2,
                "max_searches": 3,
                "max_llm_calls": 48,
                "max_tokens": 120_000,
                "evidence_tokens": 2500,
            },
            gate=0.8,
            raised=0.25,
        ),
    }
)

Bands = dict[QuestionType, Thresholds]


def applied(settings: Settings) -> Settings:
    """Return the settings with the preset's values where `[ask]` sets none; twice is once.

    What is set anywhere wins, by flag, environment, file or constructor, also where it says what the default says.
    """
    ask = settings.ask
    filled = {name: value for name, value in PRESETS[ask.preset].ask.items() if name not in ask.model_fields_set}
    return settings.model_copy(update={"ask": ask.model_copy(update=filled)})


def policy_of(settings: Settings) -> RuntimePolicy:
    """Return the policy that the settings say, with their preset.

    Raises:
        ConfigError: `ask.remedies` names what is none, or one of them twice, or does not fit `ask.backup_tenant`.
    """
    settings = applied(settings)
    ask, own = settings.ask, settings.ask.thresholds
    sources = {t: own[t.value].min_sources for t in QuestionType if t.value in own}
    return RuntimePolicy(
        k=ask.k,
        gate=_gates(settings),
        min_sources=ask.min_sources,
        own_min_sources={t: number for t, number in sources.items() if number is not None},
        node_seconds=ask.node_seconds,
        grade_concurrency=ask.grade_concurrency,
        approve=settings.search.approve,
        max_results=settings.search.max_results,
        only_timely=settings.search.only_when == "timely",
        remedies=ordered(ask.remedies, has_backup=ask.backup_tenant is not None),
        backup_tenant=ask.backup_tenant or "",
        budgets=Budgets(
            rewrites=ask.max_rewrites,
            searches=ask.max_searches,
            llm_calls=ask.max_llm_calls,
            tokens=ask.max_tokens,
            evidence_tokens=ask.evidence_tokens,
        ),
    )


def _gates(settings: Settings) -> dict[QuestionType, float]:
    preset, own = PRESETS[settings.ask.preset], settings.ask.thresholds
    is_open = preset.gate is not None and "gate" not in settings.model_fields_set
    whole = preset.gate if is_open and preset.gate is not None else settings.gate
    gates = {t: own[t.value].gate if t.value in own else None for t in QuestionType}
    return {t: whole if gate is None else gate for t, gate in gates.items()}


def bands_of(settings: Settings, own: Mapping[QuestionType, Thresholds]) -> Bands:
    """Return an evaluator's own bands, raised by the preset, with what the settings change; validated together.

    Raises:
        ConfigError: lower would be above upper.
    """
    changed, raised = settings.ask.thresholds, PRESETS[settings.ask.preset].raised
    bands: Bands = {}
    for kind, band in own.items():
        given = changed.get(kind.value)
        lower = band.lower if given is None or given.lower is None else given.lower
        higher = band.upper + raised * (1.0 - band.upper)
        upper = higher if given is None or given.upper is None else given.upper
        bands[kind] = Thresholds(lower=lower, upper=upper)
    return bands
