"""The jobs that are sweeps: decay, promote, recheck, prune, gc. Each tenant first goes on with what was interrupted."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from jobs.context import note_stranger, tenants_of
from jobs.erasure import finish
from jobs.tidy import tidy
from kb.sweeps import SweepJob, SweepStatus

if TYPE_CHECKING:
    from governance.plan import Plan
    from governance.policy import Policy
    from jobs.context import JobContext
    from jobs.report import Tally
    from kb.memories import Memories
    from kb.model import Instant
    from kb.settings import Settings

ROUNDS = 100  # sweeps of one decay job: a stable store is rewritten in part every night, and the cap is of one sweep
CHECKED = "policy_checked:"  # and the tenant: hash of the policy that was found safe


def decay(context: JobContext, memories: Memories, tally: Tally) -> None:
    """Write the decayed confidence where other readers see too much."""
    _sweep(context, memories, tally, SweepJob.DECAY)


def promote(context: JobContext, memories: Memories, tally: Tally) -> None:
    """Activate what independent sources bear out."""
    _sweep(context, memories, tally, SweepJob.PROMOTE)


def recheck(context: JobContext, memories: Memories, tally: Tally) -> None:
    """Check contested and due memories, or queue them for review."""
    _sweep(context, memories, tally, SweepJob.RECHECK)


def prune(context: JobContext, memories: Memories, tally: Tally) -> None:
    """Retire what has faded and nobody vouched for."""
    _sweep(context, memories, tally, SweepJob.PRUNE)


def collect(context: JobContext, memories: Memories, tally: Tally) -> None:
    """Erase what was retired long enough ago; finish interrupted erasures; tidy caches, checkpoints and records."""
    _sweep(context, memories, tally, SweepJob.GC)
    if not context.is_dry and not tally.is_stopped:
        tally.attempt("erasures", partial(finish, context, memories, tally))
    if context.tenant is None and not tally.is_stopped:
        tidy(context, memories, tally)


def _sweep(context: JobContext, memories: Memories, tally: Tally, job: SweepJob) -> None:
    note_stranger(context, memories, tally)
    for tenant in tenants_of(context, memories):
        if context.is_stopped():
            tally.is_stopped = True
            return
        tally.attempt(tenant, partial(_sweep_tenant, context, memories, tally, job, tenant=tenant))


def _sweep_tenant(context: JobContext, memories: Memories, tally: Tally, job: SweepJob, *, tenant: str) -> None:
    from governance.policy import policy_of  # noqa: PLC0415 - import what is used

    settings, clock = context.settings, context.clock
    policy = policy_of(settings, tenant)
    if context.is_dry:
        tally.planned(plan_of(memories, settings, job, policy, clock.now()))
        return
    _resume(context, memories, tally, policy)
    if tally.is_stopped:
        return
    _ensure_checked(memories, policy, clock.now())
    for _ in range(ROUNDS if job is SweepJob.DECAY else 1):
        plan = plan_of(memories, settings, job, policy, clock.now(), may_ask=True)
        if not _apply(context, memories, tally, plan, policy=policy) or not plan.left:
            return


def _ensure_checked(memories: Memories, policy: Policy, now: Instant) -> None:
    """Refuse a policy that would empty the tenant, the first time that a sweep is to follow it.

    Raises:
        UnsafePolicy: it would; nothing has been done.
    """
    from governance.check import ensure_safe  # noqa: PLC0415 - import what is used

    key = f"{CHECKED}{policy.tenant}"
    with memories.ledger.read() as tx:
        known = tx.meta.get(key)
    if known == policy.hash:
        return
    ensure_safe(memories, policy, now)
    with memories.ledger.write() as tx:
        tx.meta.set(key, policy.hash)


def plan_of(
    memories: Memories, settings: Settings, job: SweepJob, policy: Policy, now: Instant, *, may_ask: bool = False
) -> Plan:
    """Return what a sweep would do.

    Args:
        memories: the store; nothing is written.
        settings: of whom a recheck may ask.
        job: decay, prune, promote, recheck or gc.
        policy: of the tenant.
        now: the instant that is decided for.
        may_ask: whether a recheck asks outside the store, which costs.

    Raises:
        InputError: another job.
        ConfigError: what a recheck's search or model needs is missing or wrong.
        LedgerUnavailable: the ledger cannot be read.
    """
    match job:
        case SweepJob.PROMOTE:
            from governance.corroborate import plan_promote  # noqa: PLC0415 - import what is used

            return plan_promote(memories, policy, now)
        case SweepJob.RECHECK:
            return _plan_recheck(memories, settings, policy, now, may_ask=may_ask)
        case _:
            from governance.planning import planned  # noqa: PLC0415 - likewise

            return planned(memories, job, policy, now)


def _plan_recheck(memories: Memories, settings: Settings, policy: Policy, now: Instant, *, may_ask: bool) -> Plan:
    from governance.recheck import plan_recheck  # noqa: PLC0415 - import what is used
    from jobs.outside import outside  # noqa: PLC0415

    with outside(settings, checks=policy.checks, is_dry=not may_ask) as asked:
        plan = plan_recheck(memories, policy, now, checker=asked.checker, comparer=asked.comparer)
    return replace(plan, notes=(*plan.notes, asked.note)) if asked.note else plan


def _resume(context: JobContext, memories: Memories, tally: Tally, policy: Policy) -> None:
    """Go on with what a process that died has left: its journal says what is still to be done."""
    from governance.sweep import resume  # noqa: PLC0415 - import what is used

    for sweep in resume(memories, policy.tenant, policy, is_stopped=context.is_stopped, advance=context.advance):
        tally.swept(None, sweep)
        tally.is_stopped = tally.is_stopped or sweep.status is SweepStatus.RUNNING


def _apply(context: JobContext, memories: Memories, tally: Tally, plan: Plan, *, policy: Policy) -> bool:
    """Apply a plan; return whether it was done to its end, and there was something to do."""
    from governance.marks import is_place_alone, keep_places  # noqa: PLC0415 - import what is used
    from governance.sweep import apply  # noqa: PLC0415

    if is_place_alone(plan.actions):  # nothing was found: no sweep is made of that
        with memories.ledger.write() as tx:
            keep_places(tx, plan.tenant, plan.actions)
        plan = replace(plan, actions=())
    if not plan.actions:
        tally.planned(plan)  # its notes
        return False
    sweep = apply(
        memories,
        plan,
        policy=policy,
        actor=context.actor,
        reason=context.reason,
        allow_mass=context.allow_mass,
        is_stopped=context.is_stopped,
        advance=context.advance,
    )
    tally.swept(plan, sweep)
    is_cut = sweep.status is SweepStatus.RUNNING
    tally.is_stopped = tally.is_stopped or is_cut
    return not is_cut
