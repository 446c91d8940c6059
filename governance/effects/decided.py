"""Effects of what a person decides: verify, reject, restore."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from governance.decisions import refusal, rejected, verified
from governance.effects.withdrawn import take_back_said
from kb.erased import pieces
from kb.evidence_rules import is_rejected
from kb.history import EvidenceEvent, EvidenceKind
from kb.model import Kind, Memory, MemoryId, Standing
from kb.sweeps import ActionKind, ImageKind, SweepJob, TombstoneKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from governance.effects import Effect, Occasion
    from governance.writer import Writer
    from kb.sweeps import Action

GONE = "the memory is gone"
REJECTED = "rejected"


def verify(writer: Writer, memory: Memory | None, action: Action, occasion: Occasion) -> str:
    """A person vouches: confidence, hold and standing of a curated memory; what it contradicts is settled."""
    if memory is None:
        return GONE
    if why := refusal(SweepJob.VERIFY, memory):
        return why
    after = verified(memory, occasion.policy, occasion.now)
    if memory.standing is Standing.QUARANTINED or is_rejected(memory, writer.tx.evidence.of_memory(memory.id)):
        writer.remove_tombstones(memory.tenant, TombstoneKind.TEXT, pieces(memory.text))
    writer.put_memory(memory, after)
    writer.add_evidence([_event(EvidenceKind.VERIFICATION, after, action, occasion)])
    _settled(writer, memory, action)
    return ""


def reject(writer: Writer, memory: Memory | None, action: Action, occasion: Occasion) -> str:
    """A person refuses: quarantined until a person takes it back; what it contradicted is settled.

    A superseded memory is quarantined too: it would else speak for the past, and be active again when its document says
    so again. Its words leave a tombstone, so that the refusal outlives the memory, which prune and gc take in the end.
    """
    if memory is None:
        return GONE
    if why := refusal(SweepJob.REJECT, memory):
        return why
    after = rejected(memory, str(action.detail.get("said") or REJECTED), occasion.now)
    if memory.standing is Standing.RETIRED:  # not live, and nothing but a person's verification brings it back
        after = replace(after, standing=memory.standing)
    if memory.kind is not Kind.ANSWER:  # a question is nobody's claim
        writer.add_tombstones(memory.tenant, TombstoneKind.TEXT, [memory.text], reason=REJECTED)
    writer.put_memory(memory, after)
    writer.add_evidence([_event(EvidenceKind.REJECTION, after, action, occasion)])
    take_back_said(writer, memory, occasion)
    _settled(writer, memory, action)
    return ""


def restore(writer: Writer, memory: Memory | None, _: Action, occasion: Occasion) -> str:
    """A person takes back that a memory was retired or quarantined: it stands again as it stood before that.

    One that was quarantined when it was retired is quarantined again, for the same reason.
    """
    if memory is None:
        return GONE
    history = writer.tx.evidence.of_memory(memory.id)
    if why := refusal(SweepJob.RESTORE, memory, is_rejected=is_rejected(memory, history)):
        return why
    was, said = _before_retirement(writer, memory)
    if was is Standing.ACTIVE:
        writer.remove_tombstones(memory.tenant, TombstoneKind.TEXT, pieces(memory.text))
    writer.put_memory(memory, replace(memory, standing=was, standing_reason=said, updated_at=occasion.now))
    return ""


def _before_retirement(writer: Writer, memory: Memory) -> tuple[Standing, str]:
    """Return how a retired memory stood when it was retired, and why; anything else that is restored is active."""
    if memory.standing is not Standing.RETIRED:
        return Standing.ACTIVE, ""
    sweeps = writer.tx.sweeps
    for journaled in reversed(sweeps.of_memory(MemoryId(memory.id))):
        for image in reversed(sweeps.images_of_row(journaled.sweep_id, ImageKind.MEMORY, memory.id)):
            before, after = image.before, image.after
            if before and after and after["standing"] == memory.standing.value != before["standing"]:
                return Standing(str(before["standing"])), str(before["standing_reason"])
    return Standing.ACTIVE, ""


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
