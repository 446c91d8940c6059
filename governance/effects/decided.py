"""Effects of what a person decides: verify, reject, restore."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from governance.decisions import RESTORABLE, refusal, rejected, verified
from kb.evidence_rules import is_rejected
from kb.history import EvidenceEvent, EvidenceKind
from kb.model import Memory, MemoryId, Standing
from kb.sweeps import ActionKind, SweepJob, TombstoneKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from governance.effects import Effect, Occasion
    from governance.writer import Writer
    from kb.sweeps import Action

GONE = "the memory is gone"


def verify(writer: Writer, memory: Memory | None, action: Action, occasion: Occasion) -> str:
    """A person vouches: confidence, hold and standing of a curated memory; what it contradicts is settled."""
    if memory is None:
        return GONE
    if why := refusal(SweepJob.VERIFY, memory):
        return why
    after = verified(memory, occasion.policy, occasion.now)
    if memory.standing is Standing.QUARANTINED:
        writer.remove_tombstones(memory.tenant, TombstoneKind.TEXT, [memory.text])
    writer.put_memory(memory, after)
    writer.add_evidence([_event(EvidenceKind.VERIFICATION, after, action, occasion)])
    _settled(writer, memory, action)
    return ""


def reject(writer: Writer, memory: Memory | None, action: Action, occasion: Occasion) -> str:
    """A person refuses: quarantined until a person takes it back; what it contradicted is settled."""
    if memory is None:
        return GONE
    after = rejected(memory, str(action.detail.get("said") or "rejected"), occasion.now)
    if memory.standing in (Standing.SUPERSEDED, Standing.RETIRED):  # it is not live: it only must not come back so
        after = replace(after, standing=memory.standing)
    writer.put_memory(memory, after)
    writer.add_evidence([_event(EvidenceKind.REJECTION, after, action, occasion)])
    _settled(writer, memory, action)
    return ""


def restore(writer: Writer, memory: Memory | None, action: Action, occasion: Occasion) -> str:
    """A person takes back that a memory was retired or quarantined: it stands again as it stood before that."""
    if memory is None:
        return GONE
    history = writer.tx.evidence.of_memory(memory.id)
    if why := refusal(SweepJob.RESTORE, memory, is_rejected=is_rejected(memory, history)):
        return why
    was = _standing_before(writer, memory)
    writer.remove_tombstones(memory.tenant, TombstoneKind.TEXT, [memory.text])
    said = "" if was is Standing.ACTIVE else f"restored by {action.detail.get('by') or 'a person'}"
    writer.put_memory(memory, replace(memory, standing=was, standing_reason=said, updated_at=occasion.now))
    return ""


def _standing_before(writer: Writer, memory: Memory) -> Standing:
    """Return how a retired memory stood when it was retired; anything else that is restored is active."""
    if memory.standing is not Standing.RETIRED:
        return Standing.ACTIVE
    retired = [
        j
        for j in writer.tx.sweeps.of_memory(MemoryId(memory.id))
        if j.action.kind is ActionKind.RETIRE and j.applied_at is not None and not j.skipped
    ]
    was = str(retired[-1].action.detail.get("was")) if retired else ""
    return Standing(was) if was in {s.value for s in (*RESTORABLE, Standing.ACTIVE)} - {"retired"} else Standing.ACTIVE


def _event(kind: EvidenceKind, memory: Memory, action: Action, occasion: Occasion) -> EvidenceEvent:
    """Return the decision as evidence: decisive, not weighed; each decision counts, so its sweep tells them apart."""
    by = str(action.detail.get("by") or occasion.sweep.actor)
    return EvidenceEvent(
        memory_id=memory.id,
        tenant=memory.tenant,
        kind=kind,
        weight=0.0,
        witness=f"{by} · {occasion.sweep.id}",
        reason=f"{action.reason} by {by}",
        at=occasion.now,
    )


def _settled(writer: Writer, memory: Memory, action: Action) -> None:
    """Settle what the memory is a side of; the other side is contested no longer, unless somebody else contests it."""
    open_ = writer.tx.contradictions.of_memories([memory.id], is_open=True)
    if not open_:
        return
    writer.settle(open_, by=f"{action.reason} by {action.detail.get('by') or 'a person'}")
    others = {c.other if c.one == memory.id else c.one for c in open_}
    for id_, other in writer.tx.memories.get(map(MemoryId, sorted(others))).items():
        if other.contested and not writer.tx.contradictions.of_memories([id_], is_open=True):
            writer.put_memory(other, replace(other, contested=False))


EFFECTS: Mapping[ActionKind, Effect] = {
    ActionKind.VERIFY: verify,
    ActionKind.REJECT: reject,
    ActionKind.RESTORE: restore,
}
