"""Effects that change one memory and need nothing else: show, retire, quarantine, activate, revive, weigh, pin."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from kb import sweeps
from kb.evidence_rules import applied, is_rejected
from kb.history import AnswerId, EvidenceEvent, EvidenceKind
from kb.model import FOREVER, Kind, Standing
from kb.rolled_back import is_rolled_back
from kb.sweeps import ActionKind, TombstoneKind
from kb.trust import checked_confidence

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from governance.effects import Effect, Occasion
    from governance.writer import Writer
    from kb.model import Memory
    from kb.sweeps import Action, Tombstone

GONE = sweeps.GONE
ALREADY = "already"  # it is so, and was not made so by this action
LEADS = "leads_on"  # an answer-key behind which there is something, by now or still
PAST = "past"  # its document no longer holds it, or says when it ended
DISOWNED = "disowned"  # who said it has gone, or was rolled back or rejected, since this was planned
LAST = "last"  # nothing else is left of its document
LIVE = (Standing.ACTIVE, Standing.QUARANTINED)


def show(writer: Writer, memory: Memory | None, action: Action, _: Occasion) -> str:
    """Write the decayed confidence for readers that know no decay; the gate never reads it."""
    if memory is None:
        return GONE
    confidence = checked_confidence(float(action.detail["confidence"]))  # type: ignore[arg-type] # JSON of a plan
    after = replace(memory, trust=replace(memory.trust, shown=min(confidence, memory.trust.confidence)))
    return _put(writer, memory, after)


def retire(writer: Writer, memory: Memory | None, action: Action, _: Occasion) -> str:
    """Prune a memory. The guards are asked again: what was vouched for meanwhile, or is all that is left, stays."""
    if memory is None:
        return GONE
    if why := _kept(writer, memory):
        return why
    strength = action.detail.get("effective")
    said = f"faded: confidence {strength:.3f}" if isinstance(strength, float) else action.reason
    return _put(writer, memory, replace(memory, standing=Standing.RETIRED, standing_reason=said))


def _kept(writer: Writer, memory: Memory) -> str:
    """Return why a memory may not be pruned; "" when it may."""
    guards = (
        (memory.standing is Standing.RETIRED, ALREADY),
        (memory.standing not in LIVE, memory.standing.value),
        (memory.trust.verified, "verified"),
        (memory.pinned, "pinned"),
        (memory.contested, "contested"),
    )
    if why := next((why for is_so, why in guards if is_so), ""):
        return why
    if memory.kind is Kind.ANSWER:
        return LEADS if writer.tx.governed.leads_on(memory.id) else ""
    is_evidence = memory.standing is Standing.ACTIVE and memory.doc_id is not None
    is_last = is_evidence and not writer.tx.sweeping.has_other_live(memory.doc_id, memory.id)  # type: ignore[arg-type]
    return LAST if is_last else ""


def quarantine(writer: Writer, memory: Memory | None, action: Action, _: Occasion) -> str:
    """Keep a memory and never retrieve it; where the action says so, its words stay out when they come again.

    One that was superseded or retired is quarantined too: neither a search in the past nor a restoration may bring it
    back unsaid.
    """
    if memory is None:
        return GONE
    if memory.standing is Standing.STAGED:
        return memory.standing.value
    said = str(action.detail.get("said") or action.reason)
    left: list[Tombstone] = []
    if action.detail.get("tombstone"):
        left = writer.add_tombstones(memory.tenant, TombstoneKind.TEXT, [memory.text], reason=action.reason)
    why = _put(writer, memory, replace(memory, standing=Standing.QUARANTINED, standing_reason=said))
    return "" if left else why


def activate(writer: Writer, memory: Memory | None, action: Action, occasion: Occasion) -> str:
    """Let a memory be retrieved, if the gate lets it pass. What a newer version has replaced stays replaced."""
    if memory is None:
        return GONE
    if memory.standing in (Standing.SUPERSEDED, Standing.STAGED):
        return memory.standing.value
    if memory.valid_to != FOREVER:
        return PAST
    own = (j for j in writer.tx.sweeps.of_memory(memory.id) if j.sweep_id == occasion.sweep.id)
    if any(j.skipped == DISOWNED for j in own):
        return DISOWNED
    said = str(action.detail.get("said") or "")
    return _put(writer, memory, replace(memory, standing=Standing.ACTIVE, standing_reason=said))


def revive(writer: Writer, memory: Memory | None, action: Action, _: Occasion) -> str:
    """Make a memory current again that a version had superseded which was rolled back."""
    if memory is None:
        return GONE
    if memory.standing is not Standing.SUPERSEDED:
        return ALREADY if memory.standing is Standing.ACTIVE else memory.standing.value
    said = str(action.detail.get("said") or "")
    after = replace(memory, standing=Standing.ACTIVE, standing_reason=said, valid_to=FOREVER)
    return _put(writer, memory, after)


def weigh(writer: Writer, memory: Memory | None, action: Action, occasion: Occasion) -> str:
    """Let evidence move a memory's confidence, each witness once. An answer's key is no evidence and hears none."""
    if memory is None:
        return GONE
    if memory.kind is Kind.ANSWER:
        return "answer"
    history = writer.tx.evidence.of_memory(memory.id)
    told = {(e.kind, e.witness) for e in history}
    events = [e for e in _events(memory, action, occasion) if (e.kind, e.witness) not in told]
    if any(_is_out(writer, e) for e in events):
        return DISOWNED
    policy = occasion.policy.trust[memory.source_class]
    # what this sweep did to it before, perhaps after an interruption, is no later than the evidence
    heard = replace(memory, updated_at=min(memory.updated_at, occasion.now))
    after = applied(heard, events, policy=policy, now=occasion.now, history=history)
    if after is heard:
        return ALREADY if not events else "rejected"
    writer.add_evidence(events)
    writer.put_memory(memory, after)
    return ""


def _is_out(writer: Writer, event: EvidenceEvent) -> bool:
    """Return whether the memory that says it has gone, or was rolled back or rejected, since this was planned."""
    if event.teller is None:
        return False
    teller = writer.tx.memories.get([event.teller]).get(event.teller)
    if teller is None:
        return True
    return is_rolled_back(teller) or is_rejected(teller, writer.tx.evidence.of_memory(teller.id))


def _events(memory: Memory, action: Action, occasion: Occasion) -> list[EvidenceEvent]:
    told: list[dict[str, Any]] = list(action.detail.get("events") or ())  # type: ignore[arg-type] # JSON of a plan
    return [
        EvidenceEvent(
            memory_id=memory.id,
            tenant=memory.tenant,
            kind=EvidenceKind(event["kind"]),
            weight=float(event["weight"]),
            witness=str(event["witness"]),
            answer_id=AnswerId(event["answer_id"]) if event.get("answer_id") else None,
            reason=str(event.get("reason") or action.reason),
            at=occasion.now,
        )
        for event in told
    ]


def pin(writer: Writer, memory: Memory | None, _: Action, __: Occasion) -> str:
    """Keep a memory from being pruned."""
    return GONE if memory is None else _put(writer, memory, replace(memory, pinned=True))


def unpin(writer: Writer, memory: Memory | None, _: Action, __: Occasion) -> str:
    """Let a memory be pruned again."""
    return GONE if memory is None else _put(writer, memory, replace(memory, pinned=False))


def annotate(_: Writer, memory: Memory | None, __: Action, ___: Occasion) -> str:
    """Change nothing: a person's note is read from the journal."""
    return GONE if memory is None else ""


def _put(writer: Writer, before: Memory, after: Memory) -> str:
    return ALREADY if writer.put_memory(before, after) is before else ""


EFFECTS: Mapping[ActionKind, Effect] = MappingProxyType(
    {
        ActionKind.SHOW: show,
        ActionKind.RETIRE: retire,
        ActionKind.QUARANTINE: quarantine,
        ActionKind.ACTIVATE: activate,
        ActionKind.REVIVE: revive,
        ActionKind.WEIGH: weigh,
        ActionKind.PIN: pin,
        ActionKind.UNPIN: unpin,
        ActionKind.ANNOTATE: annotate,
    }
)
