"""How events move a memory's confidence: pure, the design's trust rules. What a person has rejected stays so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kb.history import EVIDENCE_WEIGHT, EvidenceEvent, EvidenceKind
from kb.model import Kind, Memory, MemoryId, SourceClass, Standing
from kb.trust import after_evidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kb.model import Instant
    from kb.trust import TrustPolicy

QUARANTINE_BELOW = 0.35  # confidence
NET_NEGATIVES = 2  # events against less events for
_DECISIVE = (EvidenceKind.VERIFICATION, EvidenceKind.REJECTION)


def is_rejected(memory: Memory, history: Iterable[EvidenceEvent]) -> bool:
    """Return whether a person's last decision on a memory was to reject it; of one instant's, its trust tells."""
    decisive = [e for e in history if e.kind in _DECISIVE]
    last = max((e.at for e in decisive), default=0)
    kinds = {e.kind for e in decisive if e.at == last}
    return EvidenceKind.REJECTION in kinds and not (EvidenceKind.VERIFICATION in kinds and memory.trust.verified)


def applied(
    memory: Memory,
    events: Sequence[EvidenceEvent],
    *,
    policy: TrustPolicy,
    now: Instant,
    history: Sequence[EvidenceEvent] = (),
) -> Memory:
    """Return the memory after weighed evidence of one instant; the same value when nothing new is among it.

    One negative never kills: an active memory is quarantined only when its confidence is below 0.35 and at least two
    more events spoke against it than for it. A verified memory stays verified and is never quarantined here: what a
    person vouched for, a person withdraws. But anything that speaks against a memory starts its decay, by the
    design's rule: of a verified one that was held for 180 days, a single bad feedback ends the hold, and it leaves
    the gate within days unless it is verified again. Decisive kinds (verification, rejection) change nothing here,
    and nothing changes a memory that was rejected.

    Evidence that arrives late counts from the memory's last change on, never before it: what happened since is not
    undone.

    Args:
        memory: before.
        events: that are new; those of other memories are left out, those that `history` has count once.
        policy: of the memory's source class.
        now: the instant of the evidence.
        history: the memory's earlier events.
    """
    told = {(e.kind, e.witness) for e in history}
    new: dict[tuple[EvidenceKind, str], EvidenceEvent] = {}
    for event in sorted(events, key=lambda e: (e.at, e.weight)):
        key = (event.kind, event.witness)
        if event.memory_id == memory.id and event.kind in EVIDENCE_WEIGHT and event.weight and key not in told:
            new.setdefault(key, event)
    if not new or is_rejected(memory, history):
        return memory
    instant = max(now, memory.updated_at)
    trust = after_evidence(memory.trust, [e.weight for e in new.values()], instant, policy.half_life)
    changed = replace(memory, trust=trust, updated_at=instant, rev=memory.rev + 1)
    against = net_negatives((*history, *new.values()))
    is_doomed = trust.confidence < QUARANTINE_BELOW and against >= NET_NEGATIVES
    if not is_doomed or trust.verified or memory.standing is not Standing.ACTIVE:
        return changed
    reason = f"contradicted: confidence {trust.confidence:.2f}, {against} more events against it than for it"
    return replace(changed, standing=Standing.QUARANTINED, standing_reason=reason)


def changed_by(
    events: Iterable[EvidenceEvent],
    memories: Mapping[MemoryId, Memory],
    history: Mapping[MemoryId, Iterable[EvidenceEvent]],
    policies: Mapping[SourceClass, TrustPolicy],
    now: Instant,
) -> list[Memory]:
    """Return the memories that events change, in order of their ids, all events of one memory at once.

    Args:
        events: that are new.
        memories: by id, before.
        history: by id, the events before.
        policies: of the source classes.
        now: the instant of the events.
    """
    by_memory: dict[MemoryId, list[EvidenceEvent]] = {}
    for event in events:
        by_memory.setdefault(event.memory_id, []).append(event)
    changed = []
    for id_, own in sorted(by_memory.items()):
        memory = memories.get(id_)
        if memory is None or memory.kind is Kind.ANSWER:
            continue
        policy, earlier = policies[memory.source_class], tuple(history.get(id_, ()))
        after = applied(memory, own, policy=policy, now=now, history=earlier)
        if after is not memory:
            changed.append(after)
    return changed


def net_negatives(events: Iterable[EvidenceEvent]) -> int:
    """Return how many more events spoke against a memory than for it."""
    return sum((e.weight < 0) - (e.weight > 0) for e in events if e.kind in EVIDENCE_WEIGHT)
