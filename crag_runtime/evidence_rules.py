"""Which events move the confidence of which memories, and how: pure, the design's trust rules for the runtime.

What trusted evidence says of untrusted evidence counts, once per witness; what an answer, the web or an evaluator says
counts for nothing.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Protocol

from crag_runtime.evidence import Origin
from crag_runtime.independence import independent
from kb.errors import InputError
from kb.history import EVIDENCE_WEIGHT, EvidenceEvent, EvidenceKind
from kb.model import MemoryId, SourceClass, Standing
from kb.trust import after_evidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from crag_runtime.evidence import Conflict, Evidence
    from kb.history import AnswerId, AnswerRecord
    from kb.model import Instant, Memory
    from kb.trust import TrustPolicy

QUARANTINE_BELOW = 0.35  # confidence
NET_NEGATIVES = 2  # events against less events for
VALUE_CHARS = 120  # of a value in a reason


class Agreeing(Protocol):
    """Pieces of evidence that give the same value for one sub-question."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Of the evidence."""
        ...

    @property
    def value(self) -> str:
        """What they agree on."""
        ...


def corroboration(
    agreements: Sequence[Agreeing],
    conflicts: Sequence[Conflict],
    *,
    evidence: Mapping[str, Evidence],
    ancestors: Mapping[str, frozenset[str]],
    answer_id: AnswerId,
    tenant: str,
    now: Instant,
) -> tuple[EvidenceEvent, ...]:
    """Return what verified memories say of unverified ones: one event per memory, kind and witness.

    A witness is the root source of an independent, verified memory. Verified memories lose nothing by a
    contradiction; web findings and answers witness nothing.

    Args:
        agreements: groups that give the same value.
        conflicts: groups that give different ones; those on one side agree with each other.
        evidence: by id; ids without an entry are left out.
        ancestors: see `crag_runtime.independence.independent`.
        answer_id: the answer it came about with.
        tenant: of the memories.
        now: when.
    """
    groups = [(a.ids, a.value) for a in agreements] + [(s.ids, s.value) for c in conflicts for s in c.sides]
    events: dict[tuple[str, EvidenceKind, str], EvidenceEvent] = {}
    for kind, hearer, witness, reason in (*_agreed(groups), *_contradicted(conflicts)):
        one, other = evidence.get(hearer), evidence.get(witness)
        if one is None or other is None or not _is_hearer(one) or not _is_witness(other):
            continue
        if not independent(one, other, ancestors):
            continue
        sign = 1.0 if kind is EvidenceKind.AGREEMENT else -1.0
        event = EvidenceEvent(
            memory_id=MemoryId(hearer),
            tenant=tenant,
            kind=kind,
            weight=sign * EVIDENCE_WEIGHT[kind],
            witness=other.root,
            answer_id=answer_id,
            reason=reason,
            at=now,
        )
        events.setdefault((hearer, kind, other.root), event)
    return tuple(events[key] for key in sorted(events))


def feedback_events(
    answer: AnswerRecord, *, is_good: bool, only: MemoryId | None = None, by: str = "", now: Instant
) -> tuple[EvidenceEvent, ...]:
    """Return what feedback on an answer says of the memories that it cited and that support it; of no others.

    Args:
        answer: as it was given.
        is_good: whether it was right.
        only: credit this memory alone; None for all.
        by: who says so; the same person's second word on the same answer counts for nothing.
        now: when.

    Raises:
        InputError: `only` was not cited, or stands on the other side of a conflict.
    """
    supporting = dict.fromkeys(c.memory_id for c in answer.citations if c.supports)
    if only is not None and only not in supporting:
        cited = any(c.memory_id == only for c in answer.citations)
        what = "contradicts it" if cited else "was not cited by it"
        raise InputError(
            f"feedback on answer {answer.id} cannot credit memory {only}: it {what}",
            hint="only memories that the answer cites as support are credited; `kb trace` lists them",
        )
    weight = EVIDENCE_WEIGHT[EvidenceKind.FEEDBACK] * (1.0 if is_good else -1.0)
    return tuple(
        EvidenceEvent(
            memory_id=id_,
            tenant=answer.tenant,
            kind=EvidenceKind.FEEDBACK,
            weight=weight,
            witness=f"feedback:{answer.id}:{by}",
            answer_id=answer.id,
            reason=f"an answer that rests on it was called {'good' if is_good else 'bad'}",
            at=now,
        )
        for id_ in supporting
        if only is None or id_ == only
    )


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
    person vouched for, a person withdraws. Decisive kinds (verification, rejection) change nothing here.

    Args:
        memory: before.
        events: that are new; those of other memories are left out, those that `history` has count once.
        policy: of the memory's source class.
        now: the instant of the evidence.
        history: the memory's earlier events.
    """
    told = {(e.kind, e.witness) for e in history}
    new: dict[tuple[EvidenceKind, str], EvidenceEvent] = {}
    for event in events:
        key = (event.kind, event.witness)
        if event.memory_id == memory.id and event.kind in EVIDENCE_WEIGHT and event.weight and key not in told:
            new.setdefault(key, event)
    if not new:
        return memory
    trust = after_evidence(memory.trust, [e.weight for e in new.values()], now, policy.half_life)
    changed = replace(memory, trust=trust, updated_at=now, rev=memory.rev + 1)
    against = _net_negatives((*history, *new.values()))
    is_doomed = trust.confidence < QUARANTINE_BELOW and against >= NET_NEGATIVES
    if not is_doomed or trust.verified or memory.standing is not Standing.ACTIVE:
        return changed
    reason = f"contradicted: confidence {trust.confidence:.2f}, {against} more events against it than for it"
    return replace(changed, standing=Standing.QUARANTINED, standing_reason=reason)


def _agreed(groups: Iterable[tuple[tuple[str, ...], str]]) -> Iterator[tuple[EvidenceKind, str, str, str]]:
    for ids, value in groups:
        for hearer, witness in product(ids, ids):
            if hearer != witness:
                yield EvidenceKind.AGREEMENT, hearer, witness, f"memory {witness} says so too: {value[:VALUE_CHARS]}"


def _contradicted(conflicts: Iterable[Conflict]) -> Iterator[tuple[EvidenceKind, str, str, str]]:
    for conflict in conflicts:
        stands = [id_ for side in conflict.sides for id_ in set(side.ids)]
        undecided = {id_ for id_ in stands if stands.count(id_) > 1}  # it gives both values
        for one, other in product(conflict.sides, conflict.sides):
            if one is other:
                continue
            for hearer, witness in product(one.ids, other.ids):
                if not {hearer, witness} & undecided:
                    reason = f"memory {witness} says otherwise: {other.value[:VALUE_CHARS]}"
                    yield EvidenceKind.CONTRADICTION, hearer, witness, reason


def _is_witness(evidence: Evidence) -> bool:
    return evidence.verified and evidence.origin is Origin.MEMORY and evidence.source_class is not SourceClass.ANSWER


def _is_hearer(evidence: Evidence) -> bool:
    return not evidence.verified and evidence.source_class is not SourceClass.ANSWER


def _net_negatives(events: Iterable[EvidenceEvent]) -> int:
    return sum((e.weight < 0) - (e.weight > 0) for e in events if e.kind in EVIDENCE_WEIGHT)
