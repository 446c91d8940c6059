"""Presets: what is set wins, balanced is the defaults, strict is never the laxer one."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_runtime.evidence import QuestionType, Verdict
from crag_runtime.policy import PRESETS, RuntimePolicy, applied, bands_of, policy_of
from crag_runtime.verdict import Thresholds, label_of, verdict_of
from kb.settings import AskSettings, Settings, load_settings
from kb.trust import passes, trusted

PAGE = Path(__file__).parents[3] / "docs/explanation/runtime.md"
OWN = {kind: Thresholds(lower=0.2, upper=0.6) for kind in QuestionType}
DAY = 86_400_000
NOW = 1_800_000_000_000


@pytest.fixture(autouse=True)
def _bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("KB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


def asking(preset: str, **more: Any) -> Settings:
    ask = {"preset": preset, **more.pop("ask", {})}
    return Settings(ask=ask, **more)


def test_balanced_is_the_defaults_and_the_default() -> None:
    assert AskSettings().preset == "balanced"
    assert policy_of(asking("balanced")) == policy_of(Settings()) == RuntimePolicy()
    assert bands_of(asking("balanced"), OWN) == OWN
    assert applied(asking("balanced")) == asking("balanced")


def test_every_preset_names_settings_that_there_are_and_values_that_they_take() -> None:
    for preset in PRESETS.values():
        AskSettings(**preset.ask)  # type: ignore[arg-type] # validated by pydantic, which forbids what is not there
    assert set(PRESETS) == set(AskSettings.model_fields["preset"].annotation.__args__)  # type: ignore[union-attr]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_applied_once_however_often(preset: str) -> None:
    assert applied(applied(asking(preset))) == applied(asking(preset))


def place_of(place: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Say k, min_sources, max_rewrites, evaluator and gate in one place, each as the defaults have it."""
    ask = {"k": 5, "min_sources": 1, "max_rewrites": 1, "evaluator": "auto"}
    if place == "constructor":
        return Settings(ask={"preset": "strict", **ask}, gate=0.7)  # type: ignore[arg-type]
    if place == "environment":
        for name, value in ask.items():
            monkeypatch.setenv(f"KB_ASK__{name.upper()}", str(value))
        monkeypatch.setenv("KB_GATE", "0.7")
    else:
        file = Path("kb.toml") if place == "kb.toml" else Path(os.environ["XDG_CONFIG_HOME"]) / "kb/kb.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"{name} = {value!r}" for name, value in ask.items()]
        file.write_text("\n".join(["gate = 0.7", "[ask]", *lines]), encoding="utf-8")
    return load_settings(ask={"preset": "strict"})


@pytest.mark.parametrize("place", ["constructor", "environment", "kb.toml", "user config"])
def test_what_is_set_anywhere_wins_over_a_preset_also_where_it_says_what_the_default_says(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = policy_of(place_of(place, monkeypatch))
    assert (policy.k, policy.min_sources, policy.budgets.rewrites, set(policy.gate.values())) == (5, 1, 1, {0.7})
    assert policy.budgets.searches == PRESETS["strict"].ask["max_searches"]  # what is not set is filled


def test_a_gate_an_edge_and_a_number_of_sources_of_a_type_of_question_win_over_a_preset() -> None:
    own = {"factual": {"upper": 0.6, "gate": 0.5, "min_sources": 1}}
    settings = asking("strict", ask={"thresholds": own})
    policy = policy_of(settings)
    assert policy.gate == {
        QuestionType.FACTUAL: 0.5, QuestionType.ANALYTICAL: 0.8, QuestionType.CREATIVE: 0.8,
    }  # fmt: skip
    assert [policy.sources_for(kind) for kind in QuestionType] == [1, 2, 2]
    bands = bands_of(settings, OWN)
    assert bands[QuestionType.FACTUAL].upper == 0.6
    assert bands[QuestionType.CREATIVE].upper == pytest.approx(0.7)


def test_fast_costs_no_more_than_balanced_and_strict_no_less_in_anything_that_is_counted() -> None:
    fast, balanced, strict = (policy_of(asking(preset)) for preset in ("fast", "balanced", "strict"))
    for less, more in ((fast, balanced), (balanced, strict)):
        assert less.k < more.k
        assert less.min_sources <= more.min_sources
        assert all(less.gate[kind] <= more.gate[kind] for kind in QuestionType)
        for name in ("rewrites", "searches", "llm_calls", "tokens", "evidence_tokens"):
            assert getattr(less.budgets, name) < getattr(more.budgets, name), name
    assert applied(asking("fast")).ask.evaluator == "fast"


unit = st.floats(0, 1)
bands = st.tuples(unit, unit).map(lambda pair: Thresholds(lower=min(pair), upper=max(pair)))
passages = st.lists(
    st.tuples(st.one_of(st.none(), unit), st.sampled_from("abc"), unit, st.integers(0, 400)), max_size=8
)
chosen = st.fixed_dictionaries(
    {},
    optional={
        "ask": st.fixed_dictionaries(
            {},
            optional={
                "min_sources": st.integers(1, 3),
                "k": st.integers(1, 50),
                "thresholds": st.fixed_dictionaries(
                    {},
                    optional={
                        "factual": st.fixed_dictionaries(
                            {},
                            optional={"gate": unit, "min_sources": st.integers(1, 3), "upper": st.floats(0.9, 1)},
                        )
                    },
                ),
            },
        ),
        "gate": unit,
    },
)


def verdict_under(settings: Settings, own: Thresholds, given_passages: list[Any]) -> Verdict:
    """Return the verdict on passages (relevance, root, confidence, days of age) as a runtime comes to it."""
    policy, kind = policy_of(settings), QuestionType.FACTUAL
    band = bands_of(settings, {kind: own})[kind]
    half_life = 30 * DAY
    seen = [
        (label_of(relevance, band), root)
        for relevance, root, confidence, days in given_passages
        if passes(trusted(confidence, NOW - days * DAY, half_life), policy.gate[kind], NOW, half_life)
    ]
    labels, roots = [label for label, _ in seen], [root for _, root in seen]
    return verdict_of(labels, roots, min_sources=policy.sources_for(kind))


@given(own=bands, given_passages=passages, more=chosen)
def test_strict_never_calls_correct_what_balanced_would_not(
    own: Thresholds, given_passages: list[Any], more: dict[str, Any]
) -> None:
    """The same passages, grades and settings beside the preset."""
    own = Thresholds(lower=min(own.lower, 0.5), upper=own.upper)
    if verdict_under(asking("strict", **dict(more)), own, given_passages) is Verdict.CORRECT:
        assert verdict_under(asking("balanced", **dict(more)), own, given_passages) is Verdict.CORRECT


@given(own=bands)
def test_a_raised_edge_stays_a_band_and_is_never_lower(own: Thresholds) -> None:
    (raised,) = bands_of(asking("strict"), {QuestionType.FACTUAL: own}).values()
    assert own.upper <= raised.upper <= 1
    assert raised.lower == own.lower


def test_the_page_shows_the_presets_as_they_are() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| (.+?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    shown = {name: values for name, *values in rows}
    for name in {name for preset in PRESETS.values() for name in preset.ask}:
        default = AskSettings.model_fields[name].default
        assert shown[name] == [str(preset.ask.get(name, default)) for preset in PRESETS.values()]
    text = PAGE.read_text(encoding="utf-8")
    assert f"| gate when asking | `gate` | `gate` | {PRESETS['strict'].gate:g} |" in text
    assert f"{PRESETS['strict'].raised:.0%} nearer to 1 |" in text
