"""Decisions of people on single memories: each is a small sweep, journaled and undone like any other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from governance.actor import Actor, Role, vouching
from governance.decisions import DECISIONS, REASONS, refusal
from governance.plan import Plan
from governance.running import REASON_BYTES
from governance.sweep import apply
from kb.errors import InputError, UnknownMemory
from kb.evidence_rules import is_rejected
from kb.index.generations import META_KEY
from kb.model import MemoryId
from kb.sweeps import Action, SweepJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from governance.policy import Policy
    from kb.ledger.ledger import LedgerTx
    from kb.memories import Memories
    from kb.model import Json, Memory
    from kb.sweeps import Sweep

MAX_IDS = 1_000  # of one bulk decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What came of a decision.

    Args:
        sweep: that carried it out; None when it changed nothing.
        memories: as it left them, in the order asked for.
        refused: by memory, why it was not carried out.
    """

    sweep: Sweep | None
    memories: tuple[Memory, ...]
    refused: dict[MemoryId, str]


def decide(
    memories: Memories,
    ids: Sequence[MemoryId],
    job: SweepJob,
    *,
    policy: Policy,
    actor: Actor,
    reason: str = "",
) -> Decided:
    """Carry out a person's decision on memories: verify, reject, pin, unpin, restore or annotate.

    Args:
        memories: the store.
        ids: at most 1,000.
        job: the decision.
        policy: of the tenant.
        actor: who decides; an agent may only annotate.
        reason: the actor's own words, at most 2,048 bytes; an annotation needs some.

    Raises:
        UnknownMemory: the tenant has none with one of the ids; nothing was changed.
        InputError: too many ids, a reason that is too long, or an annotation without words.
        Refused: an agent decides what only a person may.
    """
    wanted = list(dict.fromkeys(ids))
    _check(job, wanted, actor, reason)
    now = memories.clock.now()
    with memories.ledger.read() as tx:
        found = _found(tx, wanted, policy.tenant)
        refused = _refused(tx, job, found)
        ledger_id = str(tx.meta.get(META_KEY) or "")
    open_ = [m for m in found if m.id not in refused]
    actions = tuple(_action(job, memory, actor, reason) for memory in open_)
    sweep = None
    if actions:
        plan = Plan(tenant=policy.tenant, job=job, policy=policy.hash, at=now, ledger=ledger_id, actions=actions)
        sweep = apply(memories, plan, policy=policy, actor=actor.name, reason=reason, allow_mass=True)
    with memories.ledger.read() as tx:
        after = tx.memories.get(wanted)
        if sweep is not None:
            refused |= _skipped(tx, sweep)
    return Decided(sweep=sweep, memories=tuple(after.values()), refused=refused)


def _check(job: SweepJob, ids: Sequence[MemoryId], actor: Actor, reason: str) -> None:
    if job not in DECISIONS:
        raise InputError(f"{job.value} is no decision on single memories")
    if not ids or len(ids) > MAX_IDS:
        raise InputError(f"name 1 to {MAX_IDS:,} memories, not {len(ids):,}")
    if len(reason.encode("utf-8", "surrogatepass")) > REASON_BYTES:
        raise InputError(f"the reason is longer than {REASON_BYTES:,} bytes")
    if job is SweepJob.ANNOTATE:
        if not reason.strip():
            raise InputError("an annotation needs words", hint="kb memory annotate ID --reason TEXT")
        if actor.role is not Role.DAEMON:
            return
    vouching(actor, job.value)


def _found(tx: LedgerTx, ids: Sequence[MemoryId], tenant: str) -> list[Memory]:
    found = tx.memories.get(ids)
    for id_ in ids:
        memory = found.get(id_)
        if memory is None or memory.tenant != tenant:
            raise UnknownMemory(f"there is no memory {id_} in tenant {tenant}")
    return list(found.values())


def _refused(tx: LedgerTx, job: SweepJob, found: Sequence[Memory]) -> dict[MemoryId, str]:
    reasons = {m.id: refusal(job, m, is_rejected=is_rejected(m, tx.evidence.of_memory(m.id))) for m in found}
    return {id_: why for id_, why in reasons.items() if why}


def _skipped(tx: LedgerTx, sweep: Sweep) -> dict[MemoryId, str]:
    journal = tx.sweeps.journal(sweep.id, limit=MAX_IDS)
    return {MemoryId(j.action.memory_id): j.skipped for j in journal if j.skipped}


def _action(job: SweepJob, memory: Memory, actor: Actor, reason: str) -> Action:
    detail: dict[str, Json] = {"by": actor.name}
    match job:
        case SweepJob.ANNOTATE:
            detail["note"] = reason
        case SweepJob.REJECT:
            said = f"rejected by {actor.name}"
            detail["said"] = f"{said}: {reason}" if reason else said
    return Action(memory_id=memory.id, kind=DECISIONS[job], reason=REASONS[job], rev=memory.rev, detail=detail)
