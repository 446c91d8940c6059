"""Why a memory stands where it stands: prior, evidence, decay, next crossing, and what sweeps did to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.errors import UnknownMemory
from kb.evidence_rules import is_rejected
from kb.model import FOREVER, Kind, Standing
from kb.reputation import REASON as PRIOR_REASON
from kb.sweeps import ActionKind
from kb.trust import DAY_MS, effective, gate_cut, leaves_gate_at, shown_confidence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from governance.policy import Policy
    from kb.history import EvidenceEvent
    from kb.memories import Memories
    from kb.model import Instant, Memory, MemoryId
    from kb.sweeps import Contradiction, Journaled
    from kb.trust import TrustPolicy

LIVE = (Standing.ACTIVE, Standing.QUARANTINED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Something that will happen to a memory by time alone, if nothing else does."""

    at: Instant
    what: str  # hold_ends, leaves_gate, prune, erase


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a memory stands where it stands.

    Args:
        memory: as it is stored.
        now: the instant that is explained.
        prior: what its source class is worth.
        effective: c(now).
        shown: confidence that its row tells other readers.
        passes_gate: whether it may be retrieved now.
        why: in sentences, the most important first.
        evidence: events, oldest first.
        decisions: actions of sweeps, oldest first.
        contradictions: open and settled.
        crossings: what comes next, soonest first.
    """

    memory: Memory
    now: Instant
    prior: TrustPolicy
    effective: float
    shown: float
    passes_gate: bool
    why: tuple[str, ...]
    evidence: tuple[EvidenceEvent, ...]
    decisions: tuple[Journaled, ...]
    contradictions: tuple[Contradiction, ...]
    crossings: tuple[Crossing, ...]


def explain(memories: Memories, id_: MemoryId, policy: Policy, now: Instant) -> Explanation:
    """Return why a memory stands where it stands.

    Raises:
        UnknownMemory: the tenant has none with this id.
    """
    with memories.ledger.read() as tx:
        memory = tx.memories.get([id_]).get(id_)
        if memory is None or memory.tenant != policy.tenant:
            raise UnknownMemory(f"there is no memory {id_} in tenant {policy.tenant}")
        evidence = tx.evidence.of_memory(id_)
        decisions = tx.sweeps.of_memory(id_)
        contradictions = tx.contradictions.of_memories([id_])
    return explained(memory, policy, now, evidence=evidence, decisions=decisions, contradictions=contradictions)


def explained(
    memory: Memory,
    policy: Policy,
    now: Instant,
    *,
    evidence: Sequence[EvidenceEvent] = (),
    decisions: Sequence[Journaled] = (),
    contradictions: Sequence[Contradiction] = (),
) -> Explanation:
    """Return the explanation of a memory from what is known of it. Pure."""
    own = policy.trust[memory.source_class]
    is_open = memory.standing is Standing.ACTIVE and memory.kind is not Kind.ANSWER
    strength = effective(memory.trust, now, own.half_life)
    passes = is_open and memory.trust.confidence > policy.gate
    passes = passes and memory.trust.birth > gate_cut(policy.gate, now, own.half_life)
    open_ = [c for c in contradictions if c.settled_at is None]
    return Explanation(
        memory=memory,
        now=now,
        prior=own,
        effective=strength,
        shown=shown_confidence(memory.trust),
        passes_gate=passes,
        why=(*_why(memory, policy, strength, evidence, open_, is_passing=passes), *_earned(memory)),
        evidence=tuple(evidence),
        decisions=tuple(decisions),
        contradictions=tuple(contradictions),
        crossings=tuple(sorted(_crossings(memory, policy, now, decisions), key=lambda c: (c.at, c.what))),
    )


def _why(
    memory: Memory,
    policy: Policy,
    strength: float,
    evidence: Sequence[EvidenceEvent],
    open_: Sequence[Contradiction],
    *,
    is_passing: bool,
) -> Iterator[str]:
    trust = memory.trust
    if memory.kind is Kind.ANSWER:
        yield "it is the key of an answer: it leads to the memories that the answer cited, and is never evidence"
        return
    if memory.standing is not Standing.ACTIVE:
        reason = f": {memory.standing_reason}" if memory.standing_reason else ""
        yield f"it is {memory.standing.value}{reason}, so it is not retrieved"
    else:
        side, so = ("above", "it is") if is_passing else ("not above", "it is not")
        yield f"its confidence {strength:.3f} is {side} the gate {policy.gate:g}, so {so} retrieved"
    if is_rejected(memory, evidence):
        yield "a person has rejected it; nothing but a person moves it any more"
    if trust.verified:
        yield "somebody vouched for it: it is never pruned"
    if memory.pinned:
        yield "it is pinned: it is never pruned"
    if memory.contested or open_:
        yield f"{len(open_) or 'other'} live memories say otherwise; decay does not settle that"
    counted = [e for e in evidence if e.weight]
    if counted:
        support = sum(1 for e in counted if e.weight > 0)
        yield f"{support} events spoke for it, {len(counted) - support} against it"
    prior = policy.trust[memory.source_class].confidence
    yield f"a {memory.source_class.value} memory begins at {prior:g}; at its anchor it stood at {trust.confidence:.3f}"


def _earned(memory: Memory) -> Iterator[str]:
    """Yield why it began with less than its class, when its source had earned that."""
    if why := memory.metadata.get(PRIOR_REASON):
        yield f"it began lower: {why}"


def _crossings(memory: Memory, policy: Policy, now: Instant, decisions: Sequence[Journaled]) -> Iterator[Crossing]:
    trust, own, rules = memory.trust, policy.trust[memory.source_class], policy.rules[memory.source_class]
    if memory.standing is Standing.RETIRED:
        retired = [
            j.applied_at for j in decisions if j.action.kind is ActionKind.RETIRE and j.applied_at and not j.skipped
        ]
        yield Crossing(at=(retired[-1] if retired else memory.updated_at) + rules.restore, what="erase")
        return
    if memory.standing not in LIVE or memory.kind is Kind.ANSWER:
        return
    if trust.anchor > now:
        yield Crossing(at=trust.anchor, what="hold_ends")
    leaves = leaves_gate_at(trust, policy.gate, own.half_life)
    if memory.standing is Standing.ACTIVE and now < leaves < FOREVER:
        yield Crossing(at=leaves, what="leaves_gate")
    if not trust.verified and not memory.pinned and not memory.contested:
        faded = max(leaves_gate_at(trust, rules.prune_below, own.half_life), memory.created_at + rules.prune_after)
        if faded < FOREVER:
            yield Crossing(at=max(now, faded), what="prune")


def days_until(crossing: Crossing, now: Instant) -> float:
    """Return how many days a crossing is away; 0 when it is due."""
    return max(0.0, (crossing.at - now) / DAY_MS)
