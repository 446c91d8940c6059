"""Looks for contradictions and evidence among live memories: what is new or changed, against its nearest neighbours.

Bounded: a look takes so many memories, and the next goes on where it ended. The place is kept by the sweep that
carries the look out, so that a plan which nobody applies is looked for again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from governance.comparing.sayings import passed
from governance.contradict import Contradict, compare, mirrored
from governance.marks import LEFT, mark_action, placed
from governance.neighbours import neighbourhoods
from governance.testimony import can_be_told, can_testify, counts, heard, weighing, witnessed
from kb.errors import IndexOutdated, IndexUnavailable
from kb.sweeps import Action, ActionKind, SweepJob
from kb.vouching import vouchers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from governance.neighbours import Neighbourhood
    from governance.policy import Policy
    from governance.ports import Comparer
    from kb.history import EvidenceEvent
    from kb.memories import Memories
    from kb.model import Instant, Json, Memory

LOOKS = 2_000  # memories of one look
OVERLAP = 600_000  # milliseconds that are looked at again: a writer may commit what it began long before
CONTRADICTION = "contradiction"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a look found.

    Args:
        actions: WEIGH for what verified memories say, CONTEST for both sides of each contradiction, and the place.
        notes: what a reader should know.
    """

    actions: tuple[Action, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Found:
    """What has been found so far, by memory."""

    memories: dict[str, Memory] = field(default_factory=dict)
    told: dict[str, dict[str, tuple[Memory, EvidenceEvent]]] = field(default_factory=dict)  # by hearer and witness
    history: dict[str, list[EvidenceEvent]] = field(default_factory=dict)
    lines: dict[str, frozenset[str]] = field(default_factory=dict)
    looked: set[str] = field(default_factory=set)  # whose neighbours are all heard
    contests: dict[tuple[str, str, str], bool] = field(default_factory=dict)  # whether a judge says so

    def actions(self) -> Iterator[Action]:
        for id_ in sorted(self.told):
            if new := self.new(id_):
                yield weighing(self.memories[id_], new)
        for (one, other, kind), is_judged in sorted(self.contests.items()):
            yield self._contest(one, other, kind, is_judged=is_judged)  # the lesser id first: it writes the row
            yield self._contest(other, one, kind, is_judged=is_judged)

    def new(self, id_: str) -> list[EvidenceEvent]:
        """Return what a memory is told that it had not heard."""
        return heard(self.told[id_].values(), self.lines, self.history[id_])

    def _contest(self, id_: str, other: str, kind: str, *, is_judged: bool) -> Action:
        detail: dict[str, Json] = {"other": other, "kind": kind}
        if is_judged:
            detail["judged"] = True
        memory = self.memories[id_]
        return Action(memory_id=id_, kind=ActionKind.CONTEST, reason=CONTRADICTION, rev=memory.rev, detail=detail)


def look(memories: Memories, policy: Policy, now: Instant, *, room: int, comparer: Comparer = compare) -> Look:
    """Return what is to be done about memories that are new or changed since the last look.

    Args:
        memories: the store; nothing is written.
        policy: of the tenant.
        now: the instant that is decided for.
        room: actions that may be returned.
        comparer: the rules, or a judge behind them.
    """
    with memories.ledger.read() as tx:
        since = placed(tx, policy.tenant, SweepJob.RECHECK)
        changed = tx.looking.changed(policy.tenant, since, LOOKS)
    found, last = _Found(), None
    try:
        for hood in neighbourhoods(memories, changed, now):
            _compare(hood, found, policy, now, comparer)
            last = hood.pairs[-1][0]
            if sum(map(len, found.told.values())) + 2 * len(found.contests) >= room:
                break
        _hear_out(memories, found, policy, now, comparer)
    except (IndexUnavailable, IndexOutdated) as error:
        return Look(notes=(f"contradictions were not looked for: {error}",))
    actions = tuple(found.actions())
    if last is None:
        return Look(actions=actions)
    at, id_ = min((last.updated_at, str(last.id)), (now - OVERLAP, ""))
    mark = mark_action(SweepJob.RECHECK, (at, id_)) if (at, id_) > since else None
    is_whole = last.id == changed[-1].id and len(changed) < LOOKS
    left = () if is_whole else ("more memories have changed; the next look goes on where this one ends",)
    return Look(actions=(*actions, *([mark] if mark else [])), notes=left)


def _compare(hood: Neighbourhood, found: _Found, policy: Policy, now: Instant, comparer: Comparer) -> None:
    known = {(c.one, c.other): c.settled_at for c in hood.contradictions if not c.settled_by.startswith(LEFT)}
    for memory, others in hood.pairs:
        found.looked.add(memory.id)
        for other in others:
            said = comparer(passed(memory), passed(other))
            for hearer, witness, told in ((memory, other, said), (other, memory, mirrored(said))):
                if _speaks(hood, hearer, witness, policy, now):
                    _hear(hood, found, hearer, witness, witnessed(hearer, witness, told, now, _by(hood, witness)))
            one, two = sorted((memory, other), key=lambda m: m.id)
            is_done = (one.id, two.id) in known and (known[one.id, two.id] is not None or _are_contested(one, two))
            if isinstance(said, Contradict) and one.scope == two.scope and not is_done:
                found.memories |= {one.id: one, two.id: two}
                found.contests[(one.id, two.id, said.kind.value)] = said.is_judged


def _are_contested(one: Memory, two: Memory) -> bool:
    """Return whether both bear the flag; one that had changed under the sweep that found them was passed over."""
    return one.contested and two.contested


def _hear(hood: Neighbourhood, found: _Found, hearer: Memory, witness: Memory, event: EvidenceEvent | None) -> None:
    if event is None:
        return
    found.memories[hearer.id] = hearer
    found.history[hearer.id] = hood.history[hearer.id]
    found.told.setdefault(hearer.id, {})[witness.id] = (witness, event)
    found.lines |= {id_: hood.lines[id_] for id_ in (hearer.id, witness.id) if id_ in hood.lines}


def _hear_out(memories: Memories, found: _Found, policy: Policy, now: Instant, comparer: Comparer) -> None:
    """Hear everybody near those that a changed witness speaks of: it may echo one that did not change."""
    hearers = [found.memories[id_] for id_ in sorted(found.told) if id_ not in found.looked and found.new(id_)]
    for hood in neighbourhoods(memories, hearers, now):
        for hearer, others in hood.pairs:
            for other in others:
                if other.id not in found.told[hearer.id] and _speaks(hood, hearer, other, policy, now):
                    said = comparer(passed(hearer), passed(other))
                    _hear(hood, found, hearer, other, witnessed(hearer, other, said, now, _by(hood, other)))


def _speaks(hood: Neighbourhood, hearer: Memory, witness: Memory, policy: Policy, now: Instant) -> bool:
    if not (can_testify(witness, policy, now) and can_be_told(hearer, witness, hood.history)):
        return False
    return counts(hearer, witness, hood.lines)


def _by(hood: Neighbourhood, witness: Memory) -> frozenset[str]:
    return vouchers(witness, hood.history.get(witness.id, ()))
