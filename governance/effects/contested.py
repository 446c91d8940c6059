"""Effects of contradictions: contest, settle, and what a look leaves behind."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from governance.comparing.sayings import passed
from governance.contradict import Contradict, compare
from governance.effects.plain import ALREADY, GONE
from governance.marks import JOBS, LEFT, key_of, place_of
from kb.model import MemoryId, Standing
from kb.sweeps import ActionKind, Contradiction, ImageKind, SweepJob

if TYPE_CHECKING:
    from collections.abc import Mapping

    from governance.effects import Effect, Occasion
    from governance.writer import Writer
    from kb.model import Memory
    from kb.sweeps import Action

NOT_LIVE = "not_live"  # one of the two is not active any more
NO_LONGER = "no_longer"  # they do not contradict each other any more, or it was settled


def contest(writer: Writer, memory: Memory | None, action: Action, occasion: Occasion) -> str:
    """Note that another memory says otherwise. The lesser of the two writes what both say, read from their texts."""
    other = None if memory is None else _other(writer, memory, action)
    if memory is None or other is None:
        return GONE
    if Standing.ACTIVE is not memory.standing or Standing.ACTIVE is not other.standing:
        return NOT_LIVE
    one, two = sorted((memory, other), key=lambda m: m.id)
    kind = str(action.detail["kind"])
    known = next((c for c in _between(writer, one.id, two.id) if c.kind == kind), None)
    if memory is one and (known is None or _is_moot(known)):
        found = _found(one, two, action, occasion)
        if found is None:
            return NO_LONGER
        if known is None:
            writer.add_contradictions([found])
        else:
            writer.put_contradiction(known, replace(known, settled_at=None, settled_by=""))
    elif why := _why_not(writer, memory, known):
        return why
    for side in (memory, other):  # both: the other's own action is passed over when its memory has changed meanwhile
        writer.put_memory(side, replace(side, contested=True))
    return ""


def _why_not(writer: Writer, memory: Memory, known: Contradiction | None) -> str:
    if known is None or known.settled_at is not None:
        return NO_LONGER
    is_ours = writer.tx.sweeps.images_of_row(writer.sweep_id, ImageKind.MEMORY, memory.id)
    return ALREADY if memory.contested and not is_ours else ""


def settle(writer: Writer, memory: Memory | None, action: Action, _: Occasion) -> str:
    """Settle what two memories disagreed about; a side that nothing else contests is contested no longer.

    Each action sees to both sides: that of the other is passed over when its memory has changed meanwhile.
    """
    if memory is None:
        return GONE
    one, two = sorted((str(memory.id), str(action.detail["other"])))
    between = [c for c in _between(writer, one, two) if c.kind == action.detail["kind"]]
    settled = writer.settle(between, by=str(action.detail.get("by") or action.reason))
    after = _cleared(writer, memory)
    if settled and (other := _other(writer, memory, action)) is not None:
        _cleared(writer, other)
    return "" if settled or after is not memory else ALREADY


def _cleared(writer: Writer, memory: Memory) -> Memory:
    is_open = bool(writer.tx.contradictions.of_memories([memory.id], is_open=True))
    return writer.put_memory(memory, replace(memory, contested=is_open))


def look(writer: Writer, memory: Memory | None, action: Action, occasion: Occasion) -> str:
    """Keep how far a look got; of a single memory the journal alone tells that it was looked into."""
    if action.memory_id:
        return GONE if memory is None else ""
    job, place = SweepJob(str(action.detail["job"])), place_of(action.detail.get("upto"))
    if job not in JOBS or place is None:
        return "no place"
    writer.tx.meta.set(key_of(occasion.sweep.tenant, job), list(place))
    return ""


def _other(writer: Writer, memory: Memory, action: Action) -> Memory | None:
    id_ = MemoryId(str(action.detail["other"]))
    other = writer.tx.memories.get([id_]).get(id_)
    return other if other is not None and other.tenant == memory.tenant else None


def _between(writer: Writer, one: str, two: str) -> list[Contradiction]:
    return [c for c in writer.tx.contradictions.of_memories([one]) if (c.one, c.other) == (one, two)]


def _is_moot(known: Contradiction) -> bool:
    """Return whether it was settled only because one side had left; now both are back."""
    return known.settled_at is not None and known.settled_by.startswith(LEFT)


def _found(one: Memory, two: Memory, action: Action, occasion: Occasion) -> Contradiction | None:
    """Return the contradiction as the texts have it; what a judge has found, people read for themselves."""
    said = compare(passed(one), passed(two))
    if not isinstance(said, Contradict) and not action.detail.get("judged"):
        return None
    return Contradiction(
        tenant=one.tenant,
        one=one.id,
        other=two.id,
        kind=str(action.detail["kind"]),
        one_value=said.one_value if isinstance(said, Contradict) else "",
        other_value=said.other_value if isinstance(said, Contradict) else "",
        found_at=occasion.now,
    )


EFFECTS: Mapping[ActionKind, Effect] = MappingProxyType(
    {ActionKind.CONTEST: contest, ActionKind.SETTLE: settle, ActionKind.LOOK: look}
)
