"""What bad witnesses have said of others: found in the evidence, to be taken back with them.

A memory speaks by its id, which stands in the reason of what it said; a root source that is bad as a whole speaks also
through memories that are gone by now and through external checks. Where a check has vouched by the words of stored
pages, the pages speak; and what it had vouched for spoke on their word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from governance.plan import FINDINGS
from kb.addresses import host_of, registrable
from kb.history import SAYS, EvidenceKind
from kb.model import Kind, MemoryId, Standing
from kb.sweeps import Action, ActionKind
from kb.vouching import AGAINST, FOR, VOUCHED, known_as, roots_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from governance.selection import Selection
    from kb.history import EvidenceEvent
    from kb.ledger.descent import Member
    from kb.ledger.ledger import LedgerTx
    from kb.model import Json

WITNESSES = 2  # root sources that a check needs
EVENTS = "events"  # in the detail of a withdrawal
ROLLED_BACK, ERASED, REJECTED = "witness_rolled_back", "witness_erased", "witness_rejected"  # reasons of actions
_SAID = "what a witness had said of it is withdrawn"
_JOINT = "+"  # between the root sources of a witness that was vouched for by others


def retracted(
    tx: LedgerTx, tenant: str, ids: AbstractSet[str], roots: Collection[str] = ()
) -> dict[MemoryId, list[EvidenceEvent]]:
    """Return what is to be taken back, by the memory that heard it, in order of those.

    Args:
        tx: reads, all of the tenant's testimony once or twice.
        tenant: whose.
        ids: of memories that are bad.
        roots: root sources that are bad as a whole.
    """
    known = frozenset(map(known_as, roots)) | frozenset(roots)
    found: dict[MemoryId, list[EvidenceEvent]] = {}
    checks: dict[MemoryId, list[EvidenceEvent]] = {}
    for event in tx.evidence.testimony(tenant):
        if is_bad(event, ids, known):
            found.setdefault(event.memory_id, []).append(event)
        elif event.kind is EvidenceKind.CHECK:
            checks.setdefault(event.memory_id, []).append(event)
    for id_, own in checks.items():
        witnesses = _of_pages(tx, id_, ids)
        if rests := [e for e in own if _is_of(e, witnesses)]:
            found.setdefault(id_, []).extend(rests)
    _echoed(tx, tenant, found)
    return dict(sorted(found.items()))


def _echoed(tx: LedgerTx, tenant: str, found: dict[MemoryId, list[EvidenceEvent]]) -> None:
    """Add what those have said of others that only bad checks had vouched for: it was said with their voices."""
    unvouched = {id_ for id_, own in found.items() if any(roots_of(e, VOUCHED) for e in own)}
    for event in tx.evidence.testimony(tenant) if unvouched else ():
        is_new = event not in found.get(event.memory_id, ())
        if event.teller in unvouched and _JOINT in event.witness and is_new:
            found.setdefault(event.memory_id, []).append(event)


def is_bad(event: EvidenceEvent, ids: AbstractSet[str], roots: AbstractSet[str]) -> bool:
    """Return whether what was said rests on bad memories or bad root sources. Pure."""
    if event.kind in SAYS:
        named = {event.witness, *event.witness.split(_JOINT)}
        return event.teller in ids or bool(named & roots)
    for prefix in (FOR, AGAINST, VOUCHED):
        own = roots_of(event, prefix)
        if own & roots and len(own - roots) < WITNESSES:
            return True
    return False


def withdrawals(
    tx: LedgerTx, tenant: str, found: Mapping[MemoryId, Sequence[EvidenceEvent]], reason: str
) -> list[Action]:
    """Return the actions that take it back, one a memory."""
    members = tx.descent.members(tenant, found)
    return [withdrawal(m, found[m.id], reason) for m in members.values() if _may_hear(m)]


def withdrawal(member: Member, events: Sequence[EvidenceEvent], reason: str) -> Action:
    """Return the action that takes back what was said of one memory."""
    told: list[Json] = [[e.kind.value, e.witness] for e in sorted(events, key=lambda e: (e.kind, e.witness))]
    detail: dict[str, Json] = {EVENTS: told, "said": _SAID}
    return Action(memory_id=member.id, kind=ActionKind.WITHDRAW, reason=reason, rev=member.rev, detail=detail)


def whole_roots(tx: LedgerTx, tenant: str, wanted: Selection) -> frozenset[str]:
    """Return the root sources that a selection names as a whole: a registered source, or all pages of an owner."""
    source = wanted.source
    if not source or wanted.since is not None or source.endswith("*"):
        return frozenset()
    if "://" not in source:
        is_owner = registrable(source) == source
        return frozenset({source}) if is_owner or tx.sources.get(tenant, source) is not None else frozenset()
    scheme, _, rest = source.partition("://")
    name = rest.rstrip("/")
    if scheme in ("http", "https"):
        host = host_of(source)
        return frozenset({host}) if name == host and registrable(host) == host else frozenset()
    return frozenset({name}) if scheme == "file" and name and "/" not in name else frozenset()


def _may_hear(member: Member) -> bool:
    return member.kind is not Kind.ANSWER and member.standing is not Standing.STAGED


def _of_pages(tx: LedgerTx, id_: MemoryId, ids: AbstractSet[str]) -> frozenset[str]:
    """Return the witnesses of checks of a memory that rest on stored pages of which one is bad.

    The journal tells which pages a check asked; what it weighed stands in the same sweep.
    """
    journal = tx.sweeps.of_memory(id_)
    bad = {j.sweep_id for j in journal if j.action.kind is ActionKind.VOUCH and _names(j.action, ids)}
    weighed = [j.action.detail.get(EVENTS) for j in journal if j.sweep_id in bad]
    told = {str(e["witness"]) for own in weighed if isinstance(own, list) for e in own if isinstance(e, dict)}
    return frozenset(told) | {f"{VOUCHED}{sweep_id}:" for sweep_id in bad}


def _names(action: Action, ids: AbstractSet[str]) -> bool:
    named = action.detail.get(FINDINGS)
    return isinstance(named, list) and any(id_ in ids for id_ in named)


def _is_of(event: EvidenceEvent, witnesses: AbstractSet[str]) -> bool:
    sweep, colon, _ = event.witness.removeprefix(VOUCHED).partition(":")
    return event.witness in witnesses or (event.witness.startswith(VOUCHED) and f"{VOUCHED}{sweep}{colon}" in witnesses)
