"""Plans promote: quarantined memories that independent verified sources bear out become active.

Web findings and agents' notes wait in quarantine. What verified, independent neighbours say of them is evidence, once
per witness; when enough witnesses stand for one, net of those against it, it is activated. Answers, and what was
rejected or rolled back, never are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from governance.comparing.sayings import passed
from governance.contradict import compare
from governance.marks import mark_action, placed
from governance.neighbours import neighbourhoods
from governance.plan import Plan
from governance.testimony import can_hear, can_testify, counts, heard, weighing, witnessed
from governance.waiting import KINDS, is_waiting
from kb.errors import IndexOutdated, IndexUnavailable
from kb.history import EvidenceKind
from kb.index.generations import META_KEY
from kb.ledger.barring import barred_texts
from kb.ledger.looking import START
from kb.model import MemoryId, Standing
from kb.sweeps import Action, ActionKind, SweepJob
from kb.trust import gate_clauses
from kb.vouching import vouchers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from governance.neighbours import Neighbourhood
    from governance.policy import Policy
    from kb.ledger.ledger import LedgerTx
    from kb.memories import Memories
    from kb.model import Instant, Memory

LOOKS = 2_000  # memories of one promote; the next goes on where this one ends
CORROBORATED = "corroborated"
_WITNESSING = (EvidenceKind.AGREEMENT, EvidenceKind.CONTRADICTION, EvidenceKind.CHECK)


def plan_promote(memories: Memories, policy: Policy, now: Instant) -> Plan:
    """Return what a promotion would do at `now`.

    Args:
        memories: the store; nothing is written.
        policy: of the tenant.
        now: the instant that is decided for.

    Raises:
        LedgerUnavailable: the ledger cannot be read.
    """
    with memories.ledger.read() as tx:
        since = placed(tx, policy.tenant, SweepJob.PROMOTE).id
        page = _page(tx, policy.tenant, since)
        waiting = _waiting(tx, policy.tenant, page)
        live, ledger = tx.governed.live(policy.tenant), str(tx.meta.get(META_KEY) or "")
    actions, notes, last = _promotions(memories, policy, now, waiting)
    if not notes:
        upto = last or (str(page[-1].id) if len(page) == LOOKS else "")
        if upto != since:
            actions.append(mark_action(SweepJob.PROMOTE, (START.at, upto)))
    return Plan(
        tenant=policy.tenant,
        job=SweepJob.PROMOTE,
        policy=policy.hash,
        at=now,
        ledger=ledger,
        actions=tuple(actions),
        live=live,
        notes=tuple(notes),
    )


def promotion(memory: Memory, policy: Policy, witnesses: Sequence[str], against: int) -> Action | None:
    """Return that a memory is activated, when witnesses net of those against it are enough. Pure."""
    if memory.standing is not Standing.QUARANTINED or len(witnesses) - against < policy.promote_witnesses:
        return None
    said = f"corroborated by {', '.join(sorted(witnesses))}"
    return Action(
        memory_id=memory.id,
        kind=ActionKind.ACTIVATE,
        reason=CORROBORATED,
        rev=memory.rev,
        detail={"said": said, "witnesses": [*sorted(witnesses)], "against": against},
    )


def _page(tx: LedgerTx, tenant: str, since: str) -> list[Memory]:
    return tx.memories.page(since, LOOKS, tenant=tenant, standings=(Standing.QUARANTINED,), kinds=KINDS)


def _waiting(tx: LedgerTx, tenant: str, page: Sequence[Memory]) -> list[Memory]:
    barred = barred_texts(tx, tenant, [m.text for m in page])
    return [m for m in page if m.text not in barred and is_waiting(m, tx.evidence.of_memory(m.id))]


def _promotions(
    memories: Memories, policy: Policy, now: Instant, waiting: Sequence[Memory]
) -> tuple[list[Action], list[str], str]:
    """Return actions, notes, and the id that the look ended at early; "" when it took all."""
    actions: list[Action] = []
    gate = gate_clauses(policy.gate, now, policy.trust)
    try:
        for hood in neighbourhoods(memories, waiting, now, gate=gate, only=lambda n: can_testify(n, policy, now)):
            for memory, others in hood.pairs:
                actions += _heard(memory, others, hood, policy, now)
            last = hood.pairs[-1][0].id
            if len(actions) >= policy.cap and last != waiting[-1].id:
                return actions, [], last
    except (IndexUnavailable, IndexOutdated) as error:
        return actions, [f"corroboration was not looked for: {error}"], ""
    return actions, [], ""


def _heard(memory: Memory, others: Sequence[Memory], hood: Neighbourhood, policy: Policy, now: Instant) -> list[Action]:
    """Return the evidence that neighbours are for one memory, and its activation when that is enough."""
    with_history = hood.history.get(MemoryId(memory.id), [])
    if not can_hear(memory, with_history):
        return []
    said = {n.id: compare(passed(memory), passed(n)) for n in others}
    speaking = [n for n in others if counts(memory, n, hood.lines)]
    told = [(n, e) for n in speaking if (e := witnessed(memory, n, said[n.id], now, _by(hood, n))) is not None]
    new = heard(told, hood.lines, with_history)
    all_ = [e for e in (*with_history, *new) if e.kind in _WITNESSING]
    witnesses = sorted({e.witness for e in all_ if e.weight > 0})
    against = len({(e.kind, e.witness) for e in all_ if e.weight < 0})
    activated = promotion(memory, policy, witnesses, against)
    return [*([weighing(memory, new)] if new else []), *([activated] if activated else [])]


def _by(hood: Neighbourhood, witness: Memory) -> frozenset[str]:
    return vouchers(witness, hood.history.get(witness.id, ()))
