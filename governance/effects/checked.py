"""Effects of external checks: vouch, and take back what only a check had vouched for."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from governance.effects.plain import ALREADY, GONE
from governance.plan import FINDINGS
from governance.vouching import REFUTED, WITNESSES, bearing_out, disavowed, vouched, why_not
from kb.evidence_rules import is_rejected
from kb.history import EvidenceEvent, EvidenceKind
from kb.independence import root_of
from kb.ledger.barring import barred_texts
from kb.model import MemoryId, Standing
from kb.sweeps import ActionKind
from kb.vouching import VOUCHED, check_witness, known_as, vouchers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from governance.effects import Effect, Occasion
    from governance.writer import Writer
    from kb.model import Memory
    from kb.sweeps import Action

NOT_BORNE_OUT = "not_borne_out"  # fewer than two sources, or their words are not what they were
PERSONS = "a person's"


def vouch(writer: Writer, memory: Memory | None, action: Action, occasion: Occasion) -> str:
    """An external check vouches: verified and held; active if the memory only waited for corroboration.

    What was vouched for by the words of stored pages is asked of them again. Whose word it is, is kept as an event of
    no weight, unless a person has vouched as well: theirs it stays.
    """
    if memory is None:
        return GONE
    history = writer.tx.evidence.of_memory(memory.id)
    why = why_not(memory, occasion.policy, history) or _barred(writer, memory)
    if why:
        return why
    roots = _roots(writer, memory, action)
    if len(set(roots)) < WITNESSES:
        return NOT_BORNE_OUT
    after = vouched(memory, occasion.policy, occasion.now)
    if after is memory:
        return ALREADY
    writer.put_memory(memory, after)
    own = vouchers(memory, history)
    if not memory.trust.verified or (own and set(map(known_as, roots)) - own):
        _keep(writer, memory, roots, occasion)
    return ""


def disavow(writer: Writer, memory: Memory | None, action: Action, occasion: Occasion) -> str:
    """A check refutes what checks alone had vouched for: not verified any more. Never what a person vouched for."""
    if memory is None:
        return GONE
    history = writer.tx.evidence.of_memory(memory.id)
    if not vouchers(memory, history):
        return PERSONS if memory.trust.verified else ALREADY
    said = str(action.detail.get("said") or REFUTED)
    writer.put_memory(memory, disavowed(memory, occasion.policy, history, said))
    return ""


def _barred(writer: Writer, memory: Memory) -> str:
    """Return whether what a memory says was rolled back, rejected or erased elsewhere: then it waits for a person."""
    if memory.standing is not Standing.QUARANTINED:
        return ""
    return "barred" if barred_texts(writer.tx, memory.tenant, [memory.text]) else ""


def _roots(writer: Writer, memory: Memory, action: Action) -> Sequence[str]:
    """Return the sources that bear a memory out: as the check named them, or as stored pages say by now."""
    found = action.detail.get(FINDINGS)
    if not found:
        named = action.detail.get("roots")
        return [str(root) for root in named] if isinstance(named, list) else []
    ids = [MemoryId(str(id_)) for id_ in found] if isinstance(found, list) else []
    pages = writer.tx.memories.get(ids).values()
    open_ = [p for p in pages if not is_rejected(p, writer.tx.evidence.of_memory(p.id))]
    bearing = bearing_out(memory, open_, writer.tx.looking.lines([memory.id, *ids]))
    return sorted({root_of(memory), *(root_of(p) for p in bearing)})


def _keep(writer: Writer, memory: Memory, roots: Sequence[str], occasion: Occasion) -> None:
    event = EvidenceEvent(
        memory_id=memory.id,
        tenant=memory.tenant,
        kind=EvidenceKind.CHECK,
        weight=0.0,
        witness=check_witness(f"{VOUCHED}{occasion.sweep.id}:", sorted(roots)),
        reason=f"a check vouched for it: {' and '.join(sorted(roots))} bear it out",
        at=occasion.now,
    )
    writer.add_evidence([event])


EFFECTS: Mapping[ActionKind, Effect] = MappingProxyType({ActionKind.VOUCH: vouch, ActionKind.DISAVOW: disavow})
