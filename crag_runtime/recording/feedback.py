"""Feedback on an answer: credits only memories that it cited and that support it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crag_runtime.recording.evidence_rules import feedback_events
from kb.errors import StaleRevision, UnknownAnswer
from kb.evidence_rules import changed_by, is_rejected

if TYPE_CHECKING:
    from kb.history import AnswerId, AnswerRecord, EvidenceEvent
    from kb.memories import Memories
    from kb.model import Memory, MemoryId

ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What came of a feedback.

    Args:
        events: that were new.
        memories: as these left them.
        rejected: memories that a person has rejected: nothing was counted for or against them.
        borrowed: memories of a second source, which is another tenant's: nothing is written about them.
    """

    events: tuple[EvidenceEvent, ...]
    memories: tuple[Memory, ...]
    rejected: tuple[MemoryId, ...] = ()
    borrowed: tuple[MemoryId, ...] = ()


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
    memories: Memories, answer_id: AnswerId, tenant: str, *, is_good: bool, only: MemoryId | None = None, by: str = ""
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

    Raises:
        UnknownAnswer: the tenant has none with this id.
        InputError: `only` was not cited, does not support the answer, or is missing where it must be given.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _given(memories, answer_id, tenant, is_good=is_good, only=only, by=by)
        except StaleRevision:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError


def _given(
    memories: Memories, answer_id: AnswerId, tenant: str, *, is_good: bool, only: MemoryId | None, by: str
) -> Feedback:
    record = answer_record(memories, answer_id, tenant)
    now = memories.clock.now()
    events = feedback_events(record, is_good=is_good, only=only, by=by, now=now)
    with memories.ledger.write() as tx:
        ids = [e.memory_id for e in events]
        tx.sweeping.revisions(ids, tenant, is_locking=True)  # memories before evidence, as sweeps do
        found = tx.memories.get(ids)
        known = {id_: memory for id_, memory in found.items() if memory.tenant == tenant}
        borrowed = tuple(id_ for id_ in found if id_ not in known)
        history = {id_: tx.evidence.of_memory(id_) for id_ in known}
        rejected = tuple(id_ for id_, memory in known.items() if is_rejected(memory, history[id_]))
        new = tx.evidence.add([e for e in events if e.memory_id in known and e.memory_id not in rejected])
        moved = changed_by(new, known, history, memories.policies, now)
        tx.memories.replace(moved)
        tx.outbox.mark([m.id for m in moved], now)
    memories.projector.drain()
    return Feedback(events=tuple(new), memories=tuple(moved), rejected=rejected, borrowed=borrowed)
