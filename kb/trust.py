"""How far a memory may be believed at an instant: pure functions of the design's trust rules.

    c(t) = c0                        while t <= anchor    (held)
    c(t) = c0 · 2^(−(t − anchor)/H)  afterwards           (decaying)

With the virtual birth `b = anchor + H·log2(c0)` the second line is 2^(−(t − b)/H), so for any gate θ in (0, 1]

    c(t) > θ   ⇔   c0 > θ  and  b > t − H·log2(1/θ)

which is a range test on two stored numbers, exact at every instant, with nothing rewritten as time passes.
Instants are epoch milliseconds; half-lives are milliseconds; confidences are in [0, 1].
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kb.errors import ConfigError, InputError
from kb.model import FOREVER, Instant, Trust

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kb.model import SourceClass

DAY_MS = 86_400_000
NEVER_BORN: Instant = -(2**63)  # birth of c0 = 0: INT64 minimum
MAX_STRENGTH = 20.0
MAX_DAYS = 36_500  # a century: longer is never, and would leave the range of instants
MIN_HALF_LIFE_DAYS = 0.001  # shorter than a minute or two, nothing would be retrieved twice
PRIOR_STRENGTH = 4.0
LEAST_STRENGTH = 0.1  # a prior of no weight at all would be overturned by a whisper
SHOWN_LEVELS = 1000  # thousandths: what other readers are told is this fine
_ROUNDING = 1e-9  # 0.29 * 1000 is a hair below 290


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustPolicy:
    """What a source class is worth before any evidence.

    Args:
        confidence: prior c0, in [0, 1].
        verified: whether a person, an owner or a check has vouched for the class.
        hold_days: days before decay starts, 0 to 36,500.
        half_life_days: days in which confidence halves, 0.001 to 36,500.
        quarantined: whether new memories wait, unretrieved, for corroboration or verification.
        strength: weight of the prior against evidence, 0.1 to 20: one of 1 weighs as much as one witness.
    """

    confidence: float
    verified: bool = False
    hold_days: float = 0.0
    half_life_days: float = 30.0
    quarantined: bool = False
    strength: float = PRIOR_STRENGTH

    def __post_init__(self) -> None:
        checked_confidence(self.confidence)
        if not LEAST_STRENGTH <= self.strength <= MAX_STRENGTH:
            raise ConfigError(f"strength is {self.strength}; it must be between {LEAST_STRENGTH} and {MAX_STRENGTH:g}")
        if not 0 <= self.hold_days <= MAX_DAYS:
            raise ConfigError(f"hold_days is {self.hold_days}; it must be between 0 and {MAX_DAYS:,}")
        if not MIN_HALF_LIFE_DAYS <= self.half_life_days <= MAX_DAYS:
            raise ConfigError(
                f"half_life_days is {self.half_life_days}; it must be between {MIN_HALF_LIFE_DAYS} and {MAX_DAYS:,}"
            )

    @property
    def half_life(self) -> float:
        """Half-life in milliseconds."""
        return self.half_life_days * DAY_MS

    @property
    def hold(self) -> int:
        """Hold in milliseconds."""
        return round(self.hold_days * DAY_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateClause:
    """One half-life's share of the gate: `policy in policies and confidence > above and birth > born_after`."""

    policies: tuple[int, ...]  # empty: every policy
    above: float
    born_after: Instant


def checked_confidence(confidence: float) -> float:
    """Return `confidence`, which must be in [0, 1].

    Raises:
        InputError: it is not, or it is NaN.
    """
    if not 0.0 <= confidence <= 1.0:
        raise InputError(f"confidence is {confidence}; it must be between 0 and 1")
    return confidence


def birth_of(confidence: float, anchor: Instant, half_life: float) -> Instant:
    """Return the virtual birth: the instant at which confidence would have been 1, rounded to the millisecond."""
    if confidence <= 0.0:
        return NEVER_BORN
    return max(NEVER_BORN, anchor + round(half_life * math.log2(confidence)))


def trusted(
    confidence: float,
    anchor: Instant,
    half_life: float,
    *,
    verified_at: Instant | None = None,
    strength: float = PRIOR_STRENGTH,
) -> Trust:
    """Return a trust whose birth agrees with its confidence and anchor."""
    return Trust(
        confidence=checked_confidence(confidence),
        anchor=anchor,
        birth=birth_of(confidence, anchor, half_life),
        verified=verified_at is not None,
        verified_at=verified_at,
        strength=strength,
    )


def prior(policy: TrustPolicy, now: Instant) -> Trust:
    """Return the trust of a memory of this class that is new at `now`."""
    verified_at = now if policy.verified else None
    anchor = now + policy.hold
    return trusted(policy.confidence, anchor, policy.half_life, verified_at=verified_at, strength=policy.strength)


def effective(trust: Trust, now: Instant, half_life: float) -> float:
    """Return c(now), the confidence after decay; in [0, c0]. Computed from the birth, never accumulated."""
    if trust.confidence <= 0.0:
        return 0.0
    return min(trust.confidence, math.exp2(min(0.0, -(now - trust.birth) / half_life)))


def gate_cut(gate: float, now: Instant, half_life: float) -> Instant:
    """Return the birth that `gate` asks for at `now`: a memory passes only if it was born later.

    Args:
        gate: θ in [0, 1]. At 0 every birth passes (only confidence > 0 is asked); at 1 nothing passes.
        now: the instant of the question.
        half_life: in milliseconds.
    """
    if gate <= 0.0:
        return NEVER_BORN
    # `now` stays out of the float: a sum of 1.8e12 and a fraction would lose the fraction
    return max(NEVER_BORN, now + math.floor(half_life * math.log2(gate)))


def passes(trust: Trust, gate: float, now: Instant, half_life: float) -> bool:
    """Return whether c(now) > gate, by the very test that the index runs."""
    return trust.confidence > gate and trust.birth > gate_cut(gate, now, half_life)


def leaves_gate_at(trust: Trust, gate: float, half_life: float) -> Instant:
    """Return the first instant at which the memory no longer passes; NEVER_BORN if it never did, FOREVER at gate 0."""
    if trust.confidence <= gate:
        return NEVER_BORN
    if gate <= 0.0:
        return FOREVER
    return trust.birth - math.floor(half_life * math.log2(gate))


def gate_clauses(gate: float, now: Instant, policies: Mapping[SourceClass, TrustPolicy]) -> tuple[GateClause, ...]:
    """Return the gate as clauses to be OR-ed: one per distinct half-life, one in all when they agree."""
    checked_confidence(gate)
    by_half_life: dict[float, list[int]] = {}
    for source_class, policy in policies.items():
        by_half_life.setdefault(policy.half_life, []).append(source_class.policy)
    one = len(by_half_life) == 1
    return tuple(
        GateClause(policies=() if one else tuple(sorted(numbers)), above=gate, born_after=gate_cut(gate, now, h))
        for h, numbers in sorted(by_half_life.items())
    )


def renewed(trust: Trust, now: Instant, half_life: float) -> Trust:
    """Return the trust of a memory whose source still holds it: its undecayed c0, anchored at `now` or at its hold."""
    anchor = max(trust.anchor, now)
    return replace(trust, anchor=anchor, birth=birth_of(trust.confidence, anchor, half_life), shown=None)


def is_renewal_due(trust: Trust, gate: float, now: Instant, half_life: float) -> bool:
    """Return whether less than half of the decay from anchor to gate is left, so that stable sources rarely rewrite."""
    if trust.confidence <= gate:
        return now > trust.anchor and effective(trust, now, half_life) < trust.confidence * math.exp2(-0.25)
    leaves = leaves_gate_at(trust, gate, half_life)
    return leaves - now < (leaves - trust.anchor) / 2


def after_evidence(trust: Trust, weights: Sequence[float], now: Instant, half_life: float) -> Trust:
    """Return the trust after evidence of one instant: the posterior mean of a Beta prior of strength s.

        c0' = (s·c(t) + Σw⁺) / (s + Σw)     s' = min(s + Σw, 20)

    Support never lowers and contradiction never raises the effective confidence; the order does not matter.

    Args:
        trust: before.
        weights: one per event; positive supports, negative contradicts.
        now: the instant of the evidence.
        half_life: in milliseconds.
    """
    support = math.fsum(w for w in weights if w > 0)
    against = math.fsum(-w for w in weights if w < 0)
    total = support + against
    if total == 0:
        return trust
    s = trust.strength
    confidence = min(1.0, (s * effective(trust, now, half_life) + support) / (s + total))
    anchor = now if against else max(trust.anchor, now)
    return replace(
        trust,
        confidence=confidence,
        anchor=anchor,
        birth=birth_of(confidence, anchor, half_life),
        strength=min(s + total, MAX_STRENGTH),
        shown=None,
    )


def shown_level(trust: Trust) -> int:
    """Return the confidence that a row's metadata tells other readers, in thousandths, rounded down: never too high."""
    shown = trust.confidence if trust.shown is None else min(trust.shown, trust.confidence)
    return int(shown * SHOWN_LEVELS + _ROUNDING)


def shown_confidence(trust: Trust) -> float:
    """Return the confidence that a row's metadata tells other readers, in [0, 1]."""
    return trust.confidence if trust.shown is None else shown_level(trust) / SHOWN_LEVELS
