"""Feedback on an answer: credits only memories that it cited and that support it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crag_runtime.recording.evidence_rules import feedback_events, heeds_agents
from kb.errors import StaleRevision, UnknownAnswer
from kb.evidence_rules import changed_by, is_rejected

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kb.history import AnswerId, AnswerRecord, EvidenceEvent
    from kb.memories import Memories
    from kb.model import Instant, Memory, MemoryId

ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What came of a feedback.

    Args:
        events: that were new.
        memories: as these left them.
        rejected: memories that a person has rejected: nothing was counted for or against them.
        borrowed: memories of a second source, which is another tenant's: nothing is written about them.
        unmoved: memories that an agent's word does not move: vouched for, or not to be retrieved any more.
    """

    events: tuple[EvidenceEvent, ...]
    memories: tuple[Memory, ...]
    rejected: tuple[MemoryId, ...] = ()
    borrowed: tuple[MemoryId, ...] = ()
    unmoved: tuple[MemoryId, ...] = ()


def answer_record(memories: Memories, answer_id: AnswerId, tenant: str) -> AnswerRecord:
    """Return an answer as it was given.

    Raises:
        UnknownAnswer: the tenant has none with this id.
    """
    with memories.ledger.read() as tx:
        record = tx.answers.get(answer_id, tenant)
    if record is None:
        raise UnknownAnswer(f"there is no answer {answer_id} in tenant {tenant}")
    return record


def give_feedback(
    memories: Memories,
    answer_id: AnswerId,
    tenant: str,
    *,
    is_good: bool,
    only: MemoryId | None = None,
    by: str = "",
    is_agent: bool = False,
) -> Feedback:
    """Record feedback and move the confidence of the memories it credits.

    A person's word on a question counts once per memory, however often the question is asked and answered anew.

    Args:
        memories: the store.
        answer_id: the answer.
        tenant: whose.
        is_good: whether the answer was right.
        only: credit this memory alone; must be given for an answer that shows a conflict or only hands passages over.
        by: who says so; "" for one anonymous person.
        is_agent: `by` is an agent, whose word carries nothing over the gate, and nothing that is vouched for under it.

    Raises:
        UnknownAnswer: the tenant has none with this id.
        InputError: `only` was not cited, does not support the answer, or is missing where it must be given.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            now = memories.clock.now()
            record = answer_record(memories, answer_id, tenant)
            events = feedback_events(record, is_good=is_good, only=only, by=by, is_agent=is_agent, now=now)
            return _given(memories, events, tenant, now, is_agent=is_agent)
        except StaleRevision:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError


def _given(
    memories: Memories, events: Sequence[EvidenceEvent], tenant: str, now: Instant, *, is_agent: bool
) -> Feedback:
    with memories.ledger.write() as tx:
        ids = [e.memory_id for e in events]
        tx.sweeping.revisions(ids, tenant, is_locking=True)  # memories before evidence, as sweeps do
        found = tx.memories.get(ids)
        known = {id_: memory for id_, memory in found.items() if memory.tenant == tenant}
        borrowed = tuple(id_ for id_ in found if id_ not in known)
        history = {id_: tx.evidence.of_memory(id_) for id_ in known}
        rejected = tuple(id_ for id_, memory in known.items() if is_rejected(memory, history[id_]))
        unmoved = _unmoved(memories, known, now) if is_agent else ()
        new = tx.evidence.add([e for e in events if e.memory_id in known.keys() - {*rejected, *unmoved}])
        moved = changed_by(new, known, history, memories.policies, now)
        tx.memories.replace(moved)
        tx.outbox.mark([m.id for m in moved], now)
    memories.projector.drain()
    return Feedback(events=tuple(new), memories=tuple(moved), rejected=rejected, borrowed=borrowed, unmoved=unmoved)


def _unmoved(memories: Memories, known: Mapping[MemoryId, Memory], now: Instant) -> tuple[MemoryId, ...]:
    policies, gate = memories.policies, memories.gate
    return tuple(
        id_ for id_, m in known.items() if not heeds_agents(m, policy=policies[m.source_class], gate=gate, now=now)
    )
