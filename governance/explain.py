"""Why a memory stands where it stands: prior, evidence, decay, next crossing, and what sweeps did to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from governance.decide import falls_at, last_to_fall, lines_of
from kb.clock import iso
from kb.errors import UnknownMemory
from kb.evidence_rules import is_rejected
from kb.ledger.governed import governed_row
from kb.model import FOREVER, Kind, Standing
from kb.reputation import REASON as PRIOR_REASON
from kb.rolled_back import since_undone
from kb.sweeps import SweepId
from kb.trust import DAY_MS, effective, leaves_gate_at, passes, shown_confidence
from kb.vouching import vouchers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from governance.policy import Policy
    from kb.history import EvidenceEvent
    from kb.ledger.ledger import LedgerTx
    from kb.memories import Memories
    from kb.model import Instant, Memory, MemoryId
    from kb.sweeps import Contradiction, Journaled
    from kb.trust import TrustPolicy

LIVE = (Standing.ACTIVE, Standing.QUARANTINED)
_VISIBLE = 0.0005  # of a confidence in three digits


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
        memory = replace(memory, standing_reason=since_undone(memory.standing_reason, tx.sweeps.get))
        decisions = tx.sweeps.of_memory(id_)
        evidence = told_in_order(tx.evidence.of_memory(id_), decisions)
        contradictions = tx.contradictions.of_memories([id_])
        beside = _beside(tx, memory)
    return explained(
        memory, policy, now, evidence=evidence, decisions=decisions, contradictions=contradictions, beside=beside
    )


def explained(
    memory: Memory,
    policy: Policy,
    now: Instant,
    *,
    evidence: Sequence[EvidenceEvent] = (),
    decisions: Sequence[Journaled] = (),
    contradictions: Sequence[Contradiction] = (),
    beside: Sequence[Memory] = (),
) -> Explanation:
    """Return the explanation of a memory from what is known of it. Pure.

    Args:
        memory: as it is stored.
        policy: of its tenant.
        now: the instant that is explained.
        evidence: of the memory.
        decisions: of the memory.
        contradictions: of the memory, open and settled.
        beside: the other active memories of its document.
    """
    own = policy.trust[memory.source_class]
    is_open = memory.standing is Standing.ACTIVE and memory.kind is not Kind.ANSWER
    strength = effective(memory.trust, now, own.half_life)
    is_passing = is_open and passes(memory.trust, policy.gate, now, own.half_life)
    falls, is_last = _falls(memory, policy, beside)
    open_ = [c for c in contradictions if c.settled_at is None]
    return Explanation(
        memory=memory,
        now=now,
        prior=own,
        effective=strength,
        shown=shown_confidence(memory.trust),
        passes_gate=is_passing,
        why=(
            *_stands(memory, policy, strength, now, is_passing=is_passing),
            *_vouched(memory, evidence),
            *(_never_pruned(memory, evidence, open_, is_last=is_last) if memory.kind is not Kind.ANSWER else ()),
            *_moved(memory, policy, evidence),
        ),
        evidence=tuple(evidence),
        decisions=tuple(decisions),
        contradictions=tuple(contradictions),
        crossings=tuple(sorted(_crossings(memory, policy, now, falls), key=lambda c: (c.at, c.what))),
    )


def told_in_order(evidence: Sequence[EvidenceEvent], decisions: Sequence[Journaled]) -> list[EvidenceEvent]:
    """Return events oldest first, those of one instant in the order in which sweeps brought them about. Pure."""
    places: dict[tuple[str, str], int] = {}
    for place, journaled in enumerate(decisions):
        told = journaled.action.detail.get("events")
        for event in told if isinstance(told, list) else ():
            if isinstance(event, dict):
                places.setdefault((str(event.get("kind")), str(event.get("witness"))), place)
    sweeps = {journaled.sweep_id: place for place, journaled in enumerate(decisions)}

    def place_of(event: EvidenceEvent) -> int:
        by_sweep = sweeps.get(SweepId(event.witness.rpartition(" · ")[2]), -1)  # a person's decision names its own
        return places.get((event.kind.value, event.witness), by_sweep)

    return sorted(evidence, key=lambda e: (e.at, place_of(e)))


def _beside(tx: LedgerTx, memory: Memory) -> list[Memory]:
    document = None if memory.doc_id is None else tx.documents.get(memory.doc_id)
    ids = [] if document is None else [id_ for id_ in document.memory_ids if id_ != memory.id]
    return [m for m in tx.memories.get(ids).values() if m.standing is Standing.ACTIVE]


def _falls(memory: Memory, policy: Policy, beside: Sequence[Memory]) -> tuple[Instant | None, bool]:
    """Return when prune may retire a memory, None for never; and whether it is what prune leaves of its document."""
    lines, own = lines_of(policy), governed_row(memory)
    at = falls_at(own, lines[own.source_class])
    if at is None or memory.doc_id is None or memory.standing is not Standing.ACTIVE:
        return at, False
    rows = [own, *(governed_row(m) for m in beside)]
    all_fall = all(falls_at(row, lines[row.source_class]) is not None for row in rows)
    is_last = all_fall and last_to_fall(rows, lines).id == own.id
    return (None, True) if is_last else (at, False)


def _stands(memory: Memory, policy: Policy, strength: float, now: Instant, *, is_passing: bool) -> Iterator[str]:
    """Yield how it stands, and whether it is retrieved."""
    if memory.kind is Kind.ANSWER:
        yield "it is the key of an answer: it leads to the memories that the answer cited, and is never evidence"
        if memory.standing is Standing.ACTIVE:
            return
    trust = memory.trust
    if memory.standing is not Standing.ACTIVE:
        reason = f": {memory.standing_reason}" if memory.standing_reason else ""
        where = " but for the past" if memory.standing is Standing.SUPERSEDED else ""
        yield f"it is {memory.standing.value} and not retrieved{where}{reason}"
    elif is_passing:
        yield f"its confidence {strength:.3f} is above the gate {policy.gate:g}: it is retrieved"
    else:
        yield f"its confidence {strength:.3f} is not above the gate {policy.gate:g}: it is not retrieved"
    if trust.verified and trust.anchor < now and memory.standing is Standing.ACTIVE:
        yield f"its verification ran out on {iso(trust.anchor)}: it waits in the review queue"


def _vouched(memory: Memory, evidence: Sequence[EvidenceEvent]) -> Iterator[str]:
    """Yield whose word it is verified by, where that is no person's."""
    if roots := vouchers(memory, evidence):
        yield f"no person vouched for it: a check did, by {' and '.join(sorted(roots))}; another may take that back"


def _never_pruned(
    memory: Memory, evidence: Sequence[EvidenceEvent], open_: Sequence[Contradiction], *, is_last: bool
) -> Iterator[str]:
    if is_rejected(memory, evidence):
        yield "a person rejected it: only a person lets it back"
    was_pruned = memory.standing is Standing.RETIRED
    fate = "erased" if was_pruned else "pruned"
    if memory.contested or open_:
        who = "another memory says" if len(open_) == 1 else f"{len(open_) or 'other'} memories say"
        kept = f": it is never {fate} before that is settled" if memory.contested else ""
        yield f"{who} otherwise{kept}"
    if memory.trust.verified and not was_pruned:
        yield "it is verified: it is never pruned"
    if memory.pinned:
        yield f"it is pinned: it is never {fate}"
    if is_last:
        yield "it is what is left of its document when the rest has faded: it is never pruned"


def _moved(memory: Memory, policy: Policy, evidence: Sequence[EvidenceEvent]) -> Iterator[str]:
    """Yield where its confidence comes from."""
    if memory.kind is Kind.ANSWER:
        return
    prior = policy.trust[memory.source_class].confidence
    at = memory.trust.confidence
    has_moved = abs(at - prior) >= _VISIBLE
    moved = f"; this one was at {at:.3f} when it was last weighed, verified or renewed" if has_moved else ""
    yield f"memories of class {memory.source_class.value} begin at {prior:g}{moved}"
    if counted := [e for e in evidence if e.weight]:
        support = sum(1 for e in counted if e.weight > 0)
        yield f"{support} events spoke for it, {len(counted) - support} against it"
    if why := memory.metadata.get(PRIOR_REASON):  # its source had earned that
        yield f"it began lower: {why}"


def _crossings(memory: Memory, policy: Policy, now: Instant, falls: Instant | None) -> Iterator[Crossing]:
    trust, own = memory.trust, policy.trust[memory.source_class]
    if memory.standing is Standing.RETIRED and not memory.pinned and not memory.contested:
        erased = memory.updated_at + policy.rules[memory.source_class].restore
        yield Crossing(at=max(now, erased), what="erase")
    if memory.standing not in LIVE or memory.kind is Kind.ANSWER:
        return
    if trust.anchor > now:
        yield Crossing(at=trust.anchor, what="hold_ends")
    leaves = leaves_gate_at(trust, policy.gate, own.half_life)
    if memory.standing is Standing.ACTIVE and now < leaves < FOREVER:
        yield Crossing(at=leaves, what="leaves_gate")
    if falls is not None:
        yield Crossing(at=max(now, falls), what="prune")


def days_until(crossing: Crossing, now: Instant) -> float:
    """Return how many days a crossing is away; 0 when it is due."""
    return max(0.0, (crossing.at - now) / DAY_MS)
