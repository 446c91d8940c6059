"""Worked numbers of the trust rules."""

from __future__ import annotations

import math

import pytest

from kb.errors import ConfigError, InputError
from kb.model import FOREVER, SourceClass
from kb.settings import Settings
from kb.trust import (
    DAY_MS,
    MAX_STRENGTH,
    NEVER_BORN,
    TrustPolicy,
    after_evidence,
    birth_of,
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

H = 30 * DAY_MS
NOW = 1_790_000_000_000


def test_a_document_leaves_the_default_gate_after_ten_point_nine_days() -> None:
    trust = prior(TrustPolicy(confidence=0.9), NOW)
    days = (leaves_gate_at(trust, 0.7, H) - NOW) / DAY_MS
    assert days == pytest.approx(30 * math.log2(0.9 / 0.7), abs=1e-6)
    assert round(days, 1) == 10.9


def test_a_curated_memory_holds_for_180_days_and_then_decays() -> None:
    trust = prior(TrustPolicy(confidence=0.95, verified=True, hold_days=180), NOW)
    assert trust.verified
    assert trust.verified_at == NOW
    assert effective(trust, NOW + 179 * DAY_MS, H) == 0.95
    assert effective(trust, NOW + 210 * DAY_MS, H) == pytest.approx(0.475)
    assert passes(trust, 0.7, NOW + 193 * DAY_MS, H)
    assert not passes(trust, 0.7, NOW + 194 * DAY_MS, H)


def test_default_policies_are_those_of_the_design() -> None:
    policies = Settings.model_construct(trust={}).policies
    priors = {c: (p.confidence, p.verified, p.hold_days, p.quarantined) for c, p in policies.items()}
    assert priors == {
        SourceClass.CURATED: (0.95, True, 180, False),
        SourceClass.DOCUMENT: (0.9, False, 0, False),
        SourceClass.PERSON: (0.8, False, 0, False),
        SourceClass.AGENT: (0.5, False, 0, True),
        SourceClass.WEB: (0.5, False, 0, True),
        SourceClass.ANSWER: (0.0, False, 0, True),
    }
    assert {p.half_life_days for p in policies.values()} == {30.0}


def test_the_default_half_life_needs_one_clause_and_two_half_lives_need_two() -> None:
    one = {SourceClass.DOCUMENT: TrustPolicy(confidence=0.9), SourceClass.WEB: TrustPolicy(confidence=0.5)}
    (clause,) = gate_clauses(0.7, NOW, one)
    assert clause.policies == ()
    assert clause.above == 0.7
    two = {**one, SourceClass.CURATED: TrustPolicy(confidence=0.95, half_life_days=90)}
    short, long = gate_clauses(0.7, NOW, two)
    assert short.policies == (SourceClass.DOCUMENT.policy, SourceClass.WEB.policy)
    assert long.policies == (SourceClass.CURATED.policy,)
    assert long.born_after < short.born_after


def test_zero_confidence_is_a_value_and_never_passes() -> None:
    trust = trusted(0.0, NOW, H)
    assert trust.birth == NEVER_BORN
    assert effective(trust, NOW, H) == 0.0
    assert not passes(trust, 0.0, NOW, H)
    assert leaves_gate_at(trust, 0.0, H) == NEVER_BORN


def test_at_gate_zero_everything_believed_passes_forever() -> None:
    trust = trusted(0.01, NOW, H)
    assert passes(trust, 0.0, NOW + 10_000 * DAY_MS, H)
    assert leaves_gate_at(trust, 0.0, H) == FOREVER
    assert gate_cut(0.0, NOW, H) == NEVER_BORN


def test_at_gate_one_nothing_passes() -> None:
    assert not passes(trusted(1.0, NOW + H, H), 1.0, NOW, H)


def test_the_gate_is_strict() -> None:
    assert not passes(trusted(0.7, NOW, H), 0.7, NOW, H)
    assert passes(trusted(math.nextafter(0.7, 1), NOW + DAY_MS, H), 0.7, NOW, H)


def test_one_external_check_moves_a_note_as_the_posterior_mean_says() -> None:
    note = trusted(0.5, NOW, H)
    supported = after_evidence(note, [2.0], NOW, H)
    assert supported.confidence == pytest.approx((4 * 0.5 + 2) / 6)
    assert supported.strength == 6.0
    opposed = after_evidence(note, [-2.0], NOW, H)
    assert opposed.confidence == pytest.approx(4 * 0.5 / 6)


def test_evidence_counts_from_what_is_left_not_from_what_was() -> None:
    trust = trusted(0.8, NOW, H)
    later = after_evidence(trust, [1.0], NOW + H, H)
    assert later.confidence == pytest.approx((4 * 0.4 + 1) / 5)
    assert later.anchor == NOW + H


def test_support_keeps_a_hold_and_contradiction_ends_it() -> None:
    held = trusted(0.95, NOW + 180 * DAY_MS, H)
    assert after_evidence(held, [1.0], NOW, H).anchor == held.anchor
    assert after_evidence(held, [-0.5], NOW, H).anchor == NOW


def test_no_evidence_changes_nothing() -> None:
    trust = trusted(0.8, NOW, H)
    assert after_evidence(trust, [], NOW + H, H) is trust
    assert after_evidence(trust, [0.0], NOW + H, H) is trust


def test_strength_stops_at_twenty() -> None:
    trust = trusted(0.8, NOW, H)
    for _ in range(20):
        trust = after_evidence(trust, [2.0], NOW, H)
    assert trust.strength == MAX_STRENGTH


def test_renewal_restores_the_undecayed_confidence_and_keeps_a_hold() -> None:
    trust = trusted(0.9, NOW, H)
    again = renewed(trust, NOW + H, H)
    assert effective(again, NOW + H, H) == pytest.approx(0.9)
    held = trusted(0.95, NOW + H, H)
    assert renewed(held, NOW, H) == held


def test_renewal_is_due_in_the_second_half_of_the_way_to_the_gate() -> None:
    trust = trusted(0.9, NOW, H)
    half = (leaves_gate_at(trust, 0.7, H) - NOW) // 2
    assert not is_renewal_due(trust, 0.7, NOW + half - 1000, H)
    assert is_renewal_due(trust, 0.7, NOW + half + 1000, H)


def test_a_memory_below_the_gate_is_renewed_after_a_quarter_half_life() -> None:
    trust = trusted(0.6, NOW, H)
    assert not is_renewal_due(trust, 0.7, NOW + 7 * DAY_MS, H)
    assert is_renewal_due(trust, 0.7, NOW + 8 * DAY_MS, H)


@pytest.mark.parametrize("confidence", [-0.01, 1.01, math.nan, math.inf])
def test_confidence_out_of_range_is_refused(confidence: float) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        trusted(confidence, NOW, H)
    with pytest.raises(InputError):
        TrustPolicy(confidence=confidence)


@pytest.mark.parametrize("half_life_days", [0.0, -1.0, math.inf, math.nan])
def test_a_half_life_must_be_positive_and_finite(half_life_days: float) -> None:
    with pytest.raises(ConfigError, match="half_life_days"):
        TrustPolicy(confidence=0.9, half_life_days=half_life_days)


@pytest.mark.parametrize("hold_days", [-0.5, math.inf, math.nan])
def test_a_hold_must_be_finite_and_not_negative(hold_days: float) -> None:
    with pytest.raises(ConfigError, match="hold_days"):
        TrustPolicy(confidence=0.9, hold_days=hold_days)


def test_birth_is_the_instant_at_which_confidence_would_have_been_one() -> None:
    assert birth_of(1.0, NOW, H) == NOW
    assert birth_of(0.5, NOW, H) == NOW - H
    assert birth_of(0.25, NOW, H) == NOW - 2 * H
