"""How a memory stands once a witness's words are taken back: as if it had never spoken, or with less, never with more.

Pure. Evidence is a chain of updates, each from the effective confidence of its instant; knowing the last confidence and
all weights, the chain runs backwards, too. What is not kept is when a sync has renewed a memory in between, nor what
its confidence was before anything was heard of it, unless a sweep kept an image; where the answer depends on that, the
least confidence is taken that fits what is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from kb.evidence_rules import NET_NEGATIVES, QUARANTINE_BELOW, net_negatives
from kb.history import EVIDENCE_WEIGHT, EvidenceKind
from kb.model import FOREVER, Standing
from kb.reputation import REASON as PRIOR_REASON
from kb.trust import MAX_STRENGTH, PRIOR_STRENGTH, after_evidence, renewed, trusted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from governance.policy import Policy
    from kb.history import EvidenceEvent
    from kb.model import Instant, Memory, Trust
    from kb.trust import TrustPolicy

    Decay = Callable[["_Told", "_Told"], float]  # what is left from one piece of evidence to the next

CORROBORATED = "corroborated by "  # begins the standing reason of what witnesses have let out of quarantine
CONTRADICTED = "contradicted: "  # likewise, of what witnesses have put there
REPLACED = "a newer version replaced it"
WAITS = "waits for corroboration or verification"
WITNESSING = (EvidenceKind.AGREEMENT, EvidenceKind.CONTRADICTION, EvidenceKind.CHECK)
_CLOSE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What images tell of a memory before it heard the first of the words that are taken back.

    Args:
        trust: as it was then; None when no image tells.
        standing: how it stood before witnesses changed that; None when no image tells.
        standing_reason: why.
    """

    trust: Trust | None = None
    standing: Standing | None = None
    standing_reason: str = ""


@dataclass(frozen=True, slots=True)
class _Told:
    """The evidence of one instant: sums of what stays, and of what is taken back."""

    at: Instant
    kept: tuple[float, ...]
    gone: tuple[float, ...]

    @property
    def weight(self) -> float:
        return math.fsum(map(abs, (*self.kept, *self.gone)))

    @property
    def support(self) -> float:
        return math.fsum(w for w in (*self.kept, *self.gone) if w > 0)


def unheard(
    memory: Memory, history: Sequence[EvidenceEvent], gone: Sequence[EvidenceEvent], policy: Policy, before: Before
) -> Memory:
    """Return a memory without what some witnesses had said of it; the same value when none of it was heard.

    Args:
        memory: as it stands.
        history: all its events, those that are taken back among them.
        gone: what is taken back.
        policy: of the tenant.
        before: what images tell.
    """
    keys = {(e.kind, e.witness) for e in gone}
    left = [e for e in history if (e.kind, e.witness) not in keys]
    if len(left) == len(history):
        return memory
    trust = _trust(memory, history, keys, policy, before.trust)
    if trust is not memory.trust and memory.trust.shown is not None:  # what decay has lowered for others stays so
        trust = replace(trust, shown=min(memory.trust.shown, trust.confidence))
    return _standing(replace(memory, trust=trust), left, policy, before)


def _trust(
    memory: Memory,
    history: Sequence[EvidenceEvent],
    gone: set[tuple[EvidenceKind, str]],
    policy: Policy,
    before: Trust | None,
) -> Trust:
    trust, half_life = memory.trust, policy.trust[memory.source_class].half_life
    chain = _chain(history, gone)
    first = next((n for n, told in enumerate(chain) if told.gone), None)
    if first is None:
        return trust
    own = policy.trust[memory.source_class]
    base = _base(trust, math.fsum(told.weight for told in chain), own)
    strength = min(MAX_STRENGTH, (base or own.strength) + math.fsum(abs(w) for told in chain for w in told.kept))
    vouched = max((e.at for e in history if e.kind is EvidenceKind.VERIFICATION), default=None)
    if vouched is not None and vouched >= chain[first].at:  # a person's word, whatever was heard before it
        return replace(trust, strength=min(strength, trust.strength))
    if vouched is not None or base is None:
        return _at_most(trust, chain, half_life)
    return _Chain(memory, chain, first, own, base).without(before)


def _base(trust: Trust, weight: float, own: TrustPolicy) -> float | None:
    """Return the strength that a memory began with; None when more than its evidence has changed it."""
    begun = dict.fromkeys((own.strength, PRIOR_STRENGTH))  # a class's own may be newer than the memory
    return next((b for b in begun if math.isclose(trust.strength, min(MAX_STRENGTH, b + weight))), None)


def _chain(history: Sequence[EvidenceEvent], gone: set[tuple[EvidenceKind, str]]) -> list[_Told]:
    weighed = sorted((e for e in history if e.kind in EVIDENCE_WEIGHT and e.weight), key=lambda e: e.at)
    return [
        _Told(
            at,
            tuple(e.weight for e in own if (e.kind, e.witness) not in gone),
            tuple(e.weight for e in own if (e.kind, e.witness) in gone),
        )
        for at, group in groupby(weighed, key=lambda e: e.at)
        for own in [list(group)]
    ]


def _at_most(trust: Trust, chain: Sequence[_Told], half_life: float) -> Trust:
    """Return what is left when what happened in between is not known: support goes undecayed, nothing comes back."""
    support = math.fsum(w for told in chain for w in told.gone if w > 0)
    weight = math.fsum(abs(w) for told in chain for w in told.gone)
    strength = max(1.0, trust.strength - weight)
    least = max(0.0, (trust.confidence * trust.strength - support) / strength)
    confidence = min(trust.confidence, least)
    return _with(trust, confidence, trust.anchor, strength, half_life)


def _with(trust: Trust, confidence: float, anchor: Instant, strength: float, half_life: float) -> Trust:
    made = trusted(min(1.0, max(0.0, confidence)), anchor, half_life, strength=strength)
    return replace(made, verified=trust.verified, verified_at=trust.verified_at)


class _Chain:
    """All evidence of a memory, of which nothing but evidence and renewals has changed the trust.

    Args:
        memory: as it stands.
        chain: its evidence, by instant.
        first: place of the first instant of which something is taken back.
        own: policy of its class.
        base: strength that it began with.
    """

    def __init__(self, memory: Memory, chain: Sequence[_Told], first: int, own: TrustPolicy, base: float) -> None:
        self._memory = memory
        self._trust = memory.trust
        self._half_life = own.half_life
        self._prior = own.confidence
        self._base = base
        self._first = first
        self._can_renew = memory.doc_id is not None or memory.trust.verified  # anything but evidence may anchor it
        # evidence that came late was weighed when it came: nothing but that anchors later what no sync renews
        is_late = not self._can_renew and memory.trust.anchor > chain[-1].at > memory.created_at
        self._chain = [*chain[:-1], replace(chain[-1], at=memory.trust.anchor)] if is_late else list(chain)
        self._last = self._chain[-1].at

    def without(self, before: Trust | None) -> Trust:
        """Return the trust without what is taken back.

        Args:
            before: as it was before the first of that, if an image tells.
        """
        is_last = self._first == len(self._chain) - 1
        if self._can_renew and not is_last:
            return self._bounded()
        start = self._start(before)
        made = start
        for told in self._chain[self._first :]:
            made = after_evidence(made, told.kept, told.at, self._half_life)
        made = replace(made, verified=self._trust.verified, verified_at=self._trust.verified_at)
        if self._memory.doc_id is not None and self._trust.anchor > max(made.anchor, self._last):
            return renewed(made, self._trust.anchor, self._half_life)  # a sync has found it since
        return made

    def _start(self, before: Trust | None) -> Trust:
        """Return the trust before the first instant of which something is taken back."""
        if before is not None:
            return before
        value = self._effective_before(self._first, lambda earlier, later: self._decay(later.at - earlier.at))
        strength = self._strength_before(self._first)
        at = self._chain[self._first].at
        if self._first and self._can_renew:
            return self._made(value, at, strength)
        if self._first:
            earlier = self._chain[self._first - 1].at
            return self._made(value / self._decay(at - earlier), earlier, strength)
        return self._made(*self._birthright(value, at), strength)

    def _birthright(self, value: float, at: Instant) -> tuple[float, Instant]:
        """Return confidence and anchor before any evidence, so that `value` was left at `at`."""
        born, prior = self._memory.created_at, self._prior
        if not self._can_renew:  # nothing but evidence has ever anchored it
            confidence = value / self._decay(max(0, at - born))
            if confidence <= 1 + _CLOSE:
                snapped = prior if math.isclose(confidence, prior, rel_tol=_CLOSE) else confidence
                return min(1.0, snapped), min(born, at)
            return value, at
        if PRIOR_REASON not in self._memory.metadata and 0 < value <= prior * (1 + _CLOSE):
            anchor = at + round(self._half_life * math.log2(min(1.0, value / prior)))
            if anchor >= born:
                return prior, anchor
        return value, at

    def _bounded(self) -> Trust:
        """Return the least that fits, whether or not a sync had renewed it between two pieces of evidence."""
        never = self._replayed(lambda earlier, later: self._decay(later.at - earlier.at))
        always = self._replayed(lambda _, __: 1.0)
        kept = math.fsum(abs(w) for told in self._chain for w in told.kept)
        strength = min(MAX_STRENGTH, self._base + kept)
        return self._made(min(never, always, self._trust.confidence), self._trust.anchor, strength)

    def _replayed(self, decay: Decay) -> float:
        """Return the confidence at the last instant, had nothing of what is taken back been said."""
        value = self._effective_before(self._first, decay)
        strength = self._strength_before(self._first)
        for n, told in enumerate(self._chain[self._first :], self._first):
            if n > self._first:
                value *= decay(self._chain[n - 1], told)
            weight = math.fsum(map(abs, told.kept))
            value = (strength * value + math.fsum(w for w in told.kept if w > 0)) / (strength + weight)
            strength = min(MAX_STRENGTH, strength + weight)
        return value

    def _effective_before(self, place: int, decay: Decay) -> float:
        """Return the effective confidence right before the evidence at a place, from the confidence of today."""
        value = self._trust.confidence
        for n in range(len(self._chain) - 1, place - 1, -1):
            told, strength = self._chain[n], self._strength_before(n)
            value = (value * (strength + told.weight) - told.support) / strength
            value = min(1.0, max(0.0, value))
            if n > place:
                value = min(1.0, value / decay(self._chain[n - 1], told))
        return value

    def _strength_before(self, place: int) -> float:
        return min(MAX_STRENGTH, self._base + math.fsum(told.weight for told in self._chain[:place]))

    def _decay(self, span: int) -> float:
        return max(math.exp2(-span / self._half_life), 1e-300)

    def _made(self, confidence: float, anchor: Instant, strength: float) -> Trust:
        return _with(self._trust, confidence, anchor, strength, self._half_life)


def _standing(memory: Memory, left: Sequence[EvidenceEvent], policy: Policy, before: Before) -> Memory:
    """Return the memory where it stands when only what is left had spoken for it and against it."""
    said = memory.standing_reason
    if memory.standing is Standing.ACTIVE and said.startswith(CORROBORATED):
        heard = [e for e in left if e.kind in WITNESSING]
        witnesses = sorted({e.witness for e in heard if e.weight > 0})
        against = len({(e.kind, e.witness) for e in heard if e.weight < 0})
        if len(witnesses) - against >= policy.promote_witnesses:
            return replace(memory, standing_reason=f"{CORROBORATED}{', '.join(witnesses)}")
        why = before.standing_reason if before.standing is Standing.QUARANTINED else ""
        return replace(memory, standing=Standing.QUARANTINED, standing_reason=why or WAITS)
    if memory.standing is Standing.QUARANTINED and said.startswith(CONTRADICTED):
        is_doomed = memory.trust.confidence < QUARANTINE_BELOW and net_negatives(left) >= NET_NEGATIVES
        if not is_doomed and memory.valid_to != FOREVER:  # while it was quarantined its document has moved on
            return replace(memory, standing=Standing.SUPERSEDED, standing_reason=REPLACED)
        if not is_doomed:
            why = before.standing_reason if before.standing is Standing.ACTIVE else ""
            return replace(memory, standing=Standing.ACTIVE, standing_reason=why)
    return memory
