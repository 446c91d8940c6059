"""The effect of a withdrawal: what bad witnesses had said of a memory is taken back, and it stands as without them."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from governance import images
from governance.effects.plain import ALREADY, GONE
from governance.retraction import EVENTS
from governance.vouching import disavowed
from governance.withdrawal import WAITS, Before, unheard
from kb.history import EVIDENCE_WEIGHT
from kb.model import Standing
from kb.sweeps import ActionKind, ImageKind, SweepJob
from kb.trust import birth_of
from kb.vouching import VOUCHED, roots_of, vouchers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from governance.effects import Effect, Occasion
    from governance.writer import Writer
    from kb.history import EvidenceEvent
    from kb.ledger.ledger import LedgerTx
    from kb.model import Memory, MemoryId, Trust
    from kb.sweeps import Action, Image


def withdraw(writer: Writer, memory: Memory | None, action: Action, occasion: Occasion) -> str:
    """Take back what bad witnesses had said of a memory; whoever else says the same may be heard again."""
    if memory is None:
        return GONE
    named = action.detail.get(EVENTS)
    keys = {tuple(map(str, key)) for key in named if isinstance(key, list)} if isinstance(named, list) else set()
    gone = [e for e in writer.tx.evidence.of_memory(memory.id) if (e.kind.value, e.witness) in keys]
    if not gone:
        return ALREADY
    take_back(writer, memory, gone, occasion)
    return ""


def take_back(writer: Writer, memory: Memory, gone: Sequence[EvidenceEvent], occasion: Occasion) -> None:
    """Remove events of a memory, and write how it stands without them."""
    tx, policy = writer.tx, occasion.policy
    history = tx.evidence.of_memory(memory.id)
    left = [e for e in history if e not in gone]
    after = unheard(memory, history, gone, policy, _before(tx, memory, history, gone))
    if vouchers(memory, history) and not vouchers(memory, left):
        after = disavowed(_as_if_unheld(tx, after, gone, occasion), policy, left, WAITS)
    for event in gone:
        if occasion.sweep.job is SweepJob.ERASE:  # nothing brings it back, so its image would only name who is erased
            tx.sweeping.remove_event(event.memory_id, event.kind, event.witness)
        else:
            writer.remove_evidence(event)
    writer.put_memory(memory, after)


def take_back_said(writer: Writer, teller: Memory, occasion: Occasion) -> None:
    """Take back all that one memory has said of others."""
    heard: dict[MemoryId, list[EvidenceEvent]] = {}
    for event in writer.tx.evidence.told_by(teller.tenant, teller.id):
        heard.setdefault(event.memory_id, []).append(event)
    for id_, memory in sorted(writer.tx.memories.get(sorted(heard)).items()):
        take_back(writer, memory, heard[id_], occasion)


def _before(tx: LedgerTx, memory: Memory, history: Sequence[EvidenceEvent], gone: Sequence[EvidenceEvent]) -> Before:
    standing, why = _stood(tx, memory)
    weighed = [e for e in gone if e.kind in EVIDENCE_WEIGHT and e.weight]
    first = min(weighed, key=lambda e: e.at, default=None)
    if first is None:
        return Before(standing=standing, standing_reason=why)
    told = [e for e in history if e.at == first.at and e.kind in EVIDENCE_WEIGHT and e.weight]
    own = _written_with(tx, first)
    is_whole = sum(i.kind is ImageKind.EVIDENCE for i in own) == len(told)
    return Before(trust=_trust_in(memory, own) if is_whole else None, standing=standing, standing_reason=why)


def _stood(tx: LedgerTx, memory: Memory) -> tuple[Standing | None, str]:
    """Return how a memory stood before it came to stand as it does, and why; None when no image tells."""
    for journaled in reversed(tx.sweeps.of_memory(memory.id)):
        for image in reversed(tx.sweeps.images_of_row(journaled.sweep_id, ImageKind.MEMORY, memory.id)):
            before, after = image.before, image.after
            if before and after and before["standing"] != after["standing"] == memory.standing.value:
                return Standing(str(before["standing"])), str(before["standing_reason"])
    return None, ""


def _written_with(tx: LedgerTx, event: EvidenceEvent) -> list[Image]:
    """Return all images of the action that first wrote an event."""
    key = images.evidence_key(event)
    for sweep_id, seq in tx.sweeps.changed_rows(key):
        own = tx.sweeps.images(sweep_id, [seq]).get(seq, [])
        if any(i.key == key and i.before is None and i.after and i.after["at"] == event.at for i in own):
            return own
    return []


def _trust_in(memory: Memory, own: Sequence[Image]) -> Trust | None:
    """Return the trust before an action."""
    found = next((i.before for i in own if i.kind is ImageKind.MEMORY and i.key == memory.id), None)
    return None if found is None else images.memory_with(memory, found).trust


def _as_if_unheld(tx: LedgerTx, memory: Memory, gone: Sequence[EvidenceEvent], occasion: Occasion) -> Memory:
    """Return a memory without the hold that a check gave it."""
    vouched = min((e for e in gone if roots_of(e, VOUCHED)), key=lambda e: e.at, default=None)
    if vouched is None:
        return memory
    before = _trust_in(memory, _written_with(tx, vouched))
    anchor = min(memory.trust.anchor, vouched.at if before is None else before.anchor)
    birth = birth_of(memory.trust.confidence, anchor, occasion.policy.trust[memory.source_class].half_life)
    return replace(memory, trust=replace(memory.trust, anchor=anchor, birth=birth))


EFFECTS: Mapping[ActionKind, Effect] = MappingProxyType({ActionKind.WITHDRAW: withdraw})
