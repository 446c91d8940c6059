"""Plans what time alone does: decay, prune, gc. Streamed and capped, so memory does not grow with the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from governance.candidates import decay_actions, gc_actions, key_actions, prune_actions
from governance.plan import Plan
from kb.errors import InputError
from kb.index.generations import META_KEY
from kb.model import MemoryId
from kb.sweeps import SweepJob

if TYPE_CHECKING:
    from collections.abc import Iterable

    from governance.policy import Policy
    from kb.ledger.ledger import LedgerTx
    from kb.memories import Memories
    from kb.model import Instant
    from kb.sweeps import Action

JOBS = (SweepJob.DECAY, SweepJob.PRUNE, SweepJob.GC)


@dataclass(slots=True)
class _Tally:
    """Keeps actions up to the cap and counts the rest."""

    cap: int
    actions: list[Action] = field(default_factory=list)
    left: int = 0

    def take(self, actions: Iterable[Action]) -> None:
        for action in actions:
            if len(self.actions) < self.cap:
                self.actions.append(action)
            else:
                self.left += 1


def planned(memories: Memories, job: SweepJob, policy: Policy, now: Instant) -> Plan:
    """Return what a sweep would do at `now`; the same store gives the same plan.

    Args:
        memories: the store; only its ledger is read.
        job: decay, prune or gc.
        policy: of the tenant.
        now: the instant that is decided for.

    Raises:
        InputError: another job.
        LedgerUnavailable: the ledger cannot be read.
    """
    if job not in JOBS:
        raise InputError(f"{job.value} is not planned by time alone")
    tally = _Tally(policy.cap)
    with memories.ledger.read() as tx:
        _fill(tally, tx, job, policy, now)
        live = tx.governed.live(policy.tenant)
        ledger = str(tx.meta.get(META_KEY) or "")
    left = f"{tally.left:,} more are due; the next sweep takes them up (govern.cap is {policy.cap:,})"
    return Plan(
        tenant=policy.tenant,
        job=job,
        policy=policy.hash,
        at=now,
        ledger=ledger,
        actions=tuple(tally.actions),
        left=tally.left,
        live=live,
        notes=(left,) if tally.left else (),
    )


def _fill(tally: _Tally, tx: LedgerTx, job: SweepJob, policy: Policy, now: Instant) -> None:
    if job is SweepJob.DECAY:
        tally.take(decay_actions(tx, policy, now))
    elif job is SweepJob.GC:
        tally.take(gc_actions(tx, policy, now))
    else:
        tally.take(prune_actions(tx, policy, now))
        retiring = [MemoryId(action.memory_id) for action in tally.actions]
        tally.take(key_actions(tx, policy, now, retiring))
