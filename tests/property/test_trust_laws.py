"""The laws of trust, for every confidence, half-life, gate and instant the product can meet."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypothesis import assume, example, given
from hypothesis import strategies as st

from kb.model import SourceClass, Trust
from kb.trust import (
    DAY_MS,
    NEVER_BORN,
    TrustPolicy,
    after_evidence,
    effective,
    gate_clauses,
    gate_cut,
    is_renewal_due,
    leaves_gate_at,
    passes,
    prior,
    renewed,
    trusted,
)

if TYPE_CHECKING:
    import random

HOUR_MS = DAY_MS // 24
CLOSE = 1e-6  # a birth is a whole millisecond: with H >= 1 h that moves c(t) by less than 2e-7 of itself

confidences = st.floats(0.0, 1.0) | st.sampled_from([0.0, 0.2, 0.35, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0])
believed = st.floats(1e-6, 1.0)
gates = st.floats(0.0, 1.0) | st.sampled_from([0.0, 0.5, 0.7, 1.0])
half_lives = st.integers(HOUR_MS, 3650 * DAY_MS)
instants = st.integers(0, 4_102_444_800_000)  # 1970 to 2100
ages = st.integers(0, 2000 * DAY_MS)
weights = st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=1, max_size=6)
signed_weights = st.lists(st.sampled_from([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0]), max_size=8)


@st.composite
def trusts(draw: st.DrawFn, half_life: int, confidence: st.SearchStrategy[float] = believed) -> Trust:
    return trusted(draw(confidence), draw(instants), half_life, strength=draw(st.floats(0.1, 20.0)))


@st.composite
def trust_and_half_life(draw: st.DrawFn, confidence: st.SearchStrategy[float] = believed) -> tuple[Trust, int]:
    half_life = draw(half_lives)
    return draw(trusts(half_life, confidence)), half_life


@given(trust_and_half_life())
def test_confidence_halves_exactly_at_the_half_life(case: tuple[Trust, int]) -> None:
    trust, h = case
    assert math.isclose(effective(trust, trust.anchor + h, h), trust.confidence / 2, rel_tol=CLOSE)


@given(trust_and_half_life(), ages, ages)
def test_confidence_never_rises_with_time(case: tuple[Trust, int], first: int, more: int) -> None:
    trust, h = case
    assert effective(trust, trust.anchor + first + more, h) <= effective(trust, trust.anchor + first, h)


@given(trust_and_half_life(), ages, ages)
def test_decay_composes(case: tuple[Trust, int], first: int, second: int) -> None:
    trust, h = case
    assume((first + second) / h < 50)
    middle = trusted(min(1.0, effective(trust, trust.anchor + first, h)), trust.anchor + first, h)
    in_two_steps = effective(middle, middle.anchor + second, h)
    assert math.isclose(in_two_steps, effective(trust, trust.anchor + first + second, h), rel_tol=3 * CLOSE)


@given(trust_and_half_life(), st.lists(ages, max_size=5), ages)
def test_two_sweeps_equal_one_and_a_skipped_one_changes_nothing(
    case: tuple[Trust, int], sweeps: list[int], last: int
) -> None:
    trust, h = case
    alone = effective(trust, trust.anchor + last, h)
    for age in sweeps:
        effective(trust, trust.anchor + age, h)
        passes(trust, 0.7, trust.anchor + age, h)
    assert effective(trust, trust.anchor + last, h) == alone


@given(trust_and_half_life(confidences), st.integers(0, 2000 * DAY_MS))
def test_confidence_stays_between_zero_and_its_anchor_value(case: tuple[Trust, int], age: int) -> None:
    trust, h = case
    assert 0.0 <= effective(trust, trust.anchor + age, h) <= trust.confidence


@given(trust_and_half_life(), ages)
def test_nothing_fades_before_the_anchor(case: tuple[Trust, int], before: int) -> None:
    trust, h = case
    held = effective(trust, trust.anchor - before, h)
    assert math.isclose(held, trust.confidence, rel_tol=CLOSE)
    if before > 1:
        assert held == trust.confidence


@given(
    trust_and_half_life(confidences),
    gates,
    st.integers(-DAY_MS, DAY_MS * 900),
)
def test_the_stored_range_test_is_the_gate(case: tuple[Trust, int], gate: float, age: int) -> None:
    trust, h = case
    now = trust.anchor + age
    exact = trust.confidence if now <= trust.anchor else trust.confidence * math.exp2(-(now - trust.anchor) / h)
    assume(not math.isclose(exact, gate, rel_tol=CLOSE))
    assert passes(trust, gate, now, h) == (exact > gate)


@given(trust_and_half_life(confidences), gates, ages)
def test_what_is_shown_agrees_with_what_the_gate_does(case: tuple[Trust, int], gate: float, age: int) -> None:
    trust, h = case
    now = trust.anchor + age
    shown = effective(trust, now, h)
    assume(not math.isclose(shown, gate, rel_tol=CLOSE))
    assert passes(trust, gate, now, h) == (shown > gate)


@given(trust_and_half_life(), st.floats(1e-6, 1.0))
@example((trusted(0.9, 1_790_000_000_000, 30 * DAY_MS), 30 * DAY_MS), math.nextafter(0.5, 0))
def test_a_memory_passes_until_the_instant_it_is_said_to_leave(case: tuple[Trust, int], gate: float) -> None:
    trust, h = case
    assume(trust.confidence > gate)
    leaves = leaves_gate_at(trust, gate, h)
    assert passes(trust, gate, leaves - 1, h)
    assert not passes(trust, gate, leaves, h)


@given(trust_and_half_life(), gates, gates, ages)
def test_a_higher_gate_never_lets_more_pass(case: tuple[Trust, int], one: float, other: float, age: int) -> None:
    trust, h = case
    low, high = sorted((one, other))
    now = trust.anchor + age
    assert passes(trust, low, now, h) or not passes(trust, high, now, h)


@given(st.floats(0.001, 1.0), instants, st.floats(0.05, 3650), st.floats(0.05, 3650), gates)
def test_the_clauses_let_pass_exactly_what_each_policy_lets_pass(
    confidence: float, now: int, half_life: float, other: float, gate: float
) -> None:
    policies = {
        SourceClass.DOCUMENT: TrustPolicy(confidence=confidence, half_life_days=half_life),
        SourceClass.PERSON: TrustPolicy(confidence=confidence, half_life_days=other),
    }
    clauses = gate_clauses(gate, now + DAY_MS, policies)
    for source_class, policy in policies.items():
        trust = prior(policy, now)
        let_in = any(
            trust.confidence > clause.above and trust.birth > clause.born_after
            for clause in clauses
            if not clause.policies or source_class.policy in clause.policies
        )
        assert let_in == passes(trust, gate, now + DAY_MS, policy.half_life)


@given(instants, half_lives)
def test_the_ends_of_the_gate(now: int, half_life: int) -> None:
    assert gate_cut(0.0, now, half_life) == NEVER_BORN
    assert gate_cut(1.0, now, half_life) == now


@given(trust_and_half_life(), weights, st.integers(-DAY_MS, 900 * DAY_MS), ages)
def test_support_never_lowers_the_effective_confidence(
    case: tuple[Trust, int], events: list[float], age: int, later: int
) -> None:
    trust, h = case
    now = trust.anchor + age
    supported = after_evidence(trust, events, now, h)
    assert effective(supported, now + later, h) >= effective(trust, now + later, h) * (1 - CLOSE)


@given(trust_and_half_life(), weights, st.integers(-DAY_MS, 900 * DAY_MS), ages)
def test_contradiction_never_raises_the_effective_confidence(
    case: tuple[Trust, int], events: list[float], age: int, later: int
) -> None:
    trust, h = case
    now = trust.anchor + age
    opposed = after_evidence(trust, [-w for w in events], now, h)
    assert effective(opposed, now + later, h) <= effective(trust, now + later, h) * (1 + CLOSE)


@given(trust_and_half_life(), signed_weights, st.randoms(), st.integers(-900 * DAY_MS, 2000 * DAY_MS))
def test_evidence_of_one_instant_has_no_order(
    case: tuple[Trust, int], events: list[float], chance: random.Random, age: int
) -> None:
    trust, h = case
    shuffled = list(events)
    chance.shuffle(shuffled)
    now = trust.anchor + age
    assert after_evidence(trust, events, now, h) == after_evidence(trust, shuffled, now, h)


@given(trust_and_half_life(), weights, weights, ages)
def test_evidence_keeps_confidence_and_strength_in_range(
    case: tuple[Trust, int], support: list[float], against: list[float], age: int
) -> None:
    trust, h = case
    after = after_evidence(trust, [*support, *(-w for w in against)], trust.anchor + age, h)
    assert 0.0 <= after.confidence <= 1.0
    assert trust.strength <= after.strength <= 20.0


@given(trust_and_half_life(), st.integers(-900 * DAY_MS, 900 * DAY_MS), ages)
def test_renewal_never_lowers(case: tuple[Trust, int], age: int, later: int) -> None:
    trust, h = case
    now = trust.anchor + age
    assert effective(renewed(trust, now, h), now + later, h) >= effective(trust, now + later, h)


@given(trust_and_half_life(), gates, ages)
def test_renewal_is_idempotent_and_never_due_twice_at_one_instant(
    case: tuple[Trust, int], gate: float, age: int
) -> None:
    trust, h = case
    now = trust.anchor + age
    once = renewed(trust, now, h)
    assert renewed(once, now, h) == once
    assert not is_renewal_due(once, gate, now, h)


@given(st.floats(0.75, 1.0), st.integers(DAY_MS * 7, DAY_MS * 365))
def test_a_nightly_sync_rewrites_a_stable_memory_rarely_and_never_lets_it_fade(confidence: float, h: int) -> None:
    trust = trusted(confidence, 0, h)
    way_to_gate = leaves_gate_at(trust, 0.7, h) / DAY_MS
    assume(way_to_gate > 2)
    renewals = 0
    for night in range(1, 181):
        now = night * DAY_MS
        assert passes(trust, 0.7, now, h)
        if is_renewal_due(trust, 0.7, now, h):
            trust, renewals = renewed(trust, now, h), renewals + 1
    assert renewals <= 180 / (way_to_gate / 2) + 1
