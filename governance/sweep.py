"""Sweeps: a plan is journalled whole, then applied in batches; an interrupted one goes on where its journal says.

Every decision that changes memories goes this way, a nightly job's and a person's alike, so that each can be
explained and undone. The next sweep of a tenant first finishes what was interrupted; one that cannot go on is undone
as it stands, which clears the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from governance.effects.plain import GONE
from governance.running import Run, begin, effect_of, ignore, never, resumed, run_to_end
from kb.errors import InputError, MassRetire, StalePlan
from kb.index.generations import META_KEY
from kb.sweeps import ActionKind, SweepJob
from kb.telemetry import Metric, count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from governance.plan import Plan
    from governance.policy import Policy
    from kb.ledger.ledger import LedgerTx
    from kb.memories import Memories
    from kb.sweeps import Sweep

__all__ = ["GONE", "apply", "ignore", "mass_refusal", "moved_since", "never", "resume"]

NAMED = 5  # ids in a message


def apply(
    memories: Memories,
    plan: Plan,
    *,
    policy: Policy,
    actor: str,
    reason: str = "",
    allow_mass: bool = False,
    is_stopped: Callable[[], bool] = never,
    advance: Callable[[int], None] = ignore,
    is_exact: bool = False,
) -> Sweep:
    """Apply a plan, after the tenant's interrupted sweeps, and return the sweep as the ledger keeps it.

    An action whose memory has changed since it was planned is skipped: `moved`, or `gone`. An index that is away
    delays what can be found, never what is applied.

    Args:
        memories: whose.
        plan: what is done.
        policy: of the plan's tenant.
        actor: who sets it off.
        reason: a person's own words.
        allow_mass: a plan that retires a large share of the tenant was consented to.
        is_stopped: asked before each batch; a sweep that is stopped stays in the journal and is resumed later.
        advance: told after each batch how many actions it took.
        is_exact: do exactly this, or nothing.

    Raises:
        InputError: the plan is another tenant's, or holds a kind of action that no effect carries out.
        MassRetire: it retires a large share of the tenant's memories, and nobody consented.
        StalePlan: `is_exact`, and the policy, the ledger or a memory is not what it was planned for.
        Locked: another sweep of the tenant is running.
    """
    _check(plan, policy)
    run = Run(memories=memories, policy=policy, is_stopped=is_stopped, advance=advance)
    with run.alone() as run:
        resumed(run)
        with memories.ledger.write() as tx:
            if is_exact:
                _refuse_stale(tx, plan, policy)
            if not allow_mass:
                _refuse_mass(tx, plan, policy, is_exact=is_exact)
            sweep = begin(tx, plan, actor=actor, reason=reason, now=memories.clock.now())
        return run_to_end(run, sweep)


def resume(
    memories: Memories,
    tenant: str,
    policy: Policy,
    *,
    is_stopped: Callable[[], bool] = never,
    advance: Callable[[int], None] = ignore,
) -> list[Sweep]:
    """Finish the tenant's interrupted sweeps and return them, those that began first first. None: nothing is done.

    Raises:
        InputError: the policy is another tenant's.
        Locked: another sweep of the tenant is running.
    """
    if policy.tenant != tenant:
        raise InputError(f"the policy is of tenant {policy.tenant}, not of {tenant}")
    run = Run(memories=memories, policy=policy, is_stopped=is_stopped, advance=advance)
    with run.alone() as run:
        return resumed(run)


def mass_refusal(plan: Plan, policy: Policy, live: int) -> str:
    """Return why a plan needs consent: it retires more than a few and more than a share of the live; "" if not. Pure.

    What a prune's cap put off until the next sweep counts too: in small helpings it would be as much.
    """
    retired = _retired(plan)
    if retired <= policy.mass_count or retired <= policy.mass_share * live:
        return ""
    return f"this would retire {retired:,} of {live:,} live memories, more than {policy.mass_share:.0%}"


def _retired(plan: Plan) -> int:
    now = sum(1 for a in plan.actions if a.kind is ActionKind.RETIRE)
    return now + (plan.left if plan.job is SweepJob.PRUNE else 0)


def moved_since(tx: LedgerTx, plan: Plan) -> tuple[str, ...]:
    """Return the ids of the plan's memories that have changed, or gone, since it was made; in order of their ids."""
    planned = {a.memory_id: a.rev for a in plan.actions if a.memory_id}
    stored = tx.sweeping.revisions(planned, plan.tenant)
    return tuple(id_ for id_, rev in sorted(planned.items()) if stored.get(id_) != rev)


def _check(plan: Plan, policy: Policy) -> None:
    if plan.tenant != policy.tenant:
        raise InputError(f"the plan is of tenant {plan.tenant}, the policy of {policy.tenant}")
    unknown = {a.kind.value for a in plan.actions if effect_of(plan.job, a.kind) is None}
    if unknown or plan.job is SweepJob.UNDO:
        raise InputError(f"no plan can hold these actions: {', '.join(sorted(unknown)) or plan.job.value}")


def _refuse_mass(tx: LedgerTx, plan: Plan, policy: Policy, *, is_exact: bool) -> None:
    """Refuse without consent; a plan out of a file says how many lived when it was made, so they are counted anew."""
    live = tx.governed.live(plan.tenant) if is_exact or not plan.live else plan.live
    if why := mass_refusal(plan, policy, live):
        count(Metric.SWEEPS_REFUSED, job=plan.job.value, why="mass")
        raise MassRetire(why, retired=_retired(plan), live=live)


def _refuse_stale(tx: LedgerTx, plan: Plan, policy: Policy) -> None:
    """Refuse a plan that was made for something else than what is here now."""
    why, moved = _staleness(tx, plan, policy)
    if why:
        count(Metric.SWEEPS_REFUSED, job=plan.job.value, why="stale")
        raise StalePlan(why, moved=moved)


def _staleness(tx: LedgerTx, plan: Plan, policy: Policy) -> tuple[str, tuple[str, ...]]:
    if plan.policy != policy.hash:
        return f"the policy has changed since the plan was made ({plan.policy}, now {policy.hash})", ()
    own = tx.meta.get(META_KEY)
    if plan.ledger != (own if isinstance(own, str) else ""):
        return "the plan was made from another ledger", ()
    moved = moved_since(tx, plan)
    if not moved:
        return "", ()
    return f"{len(moved):,} of its memories changed since the plan was made: {named(moved)}", moved


def named(ids: Sequence[str]) -> str:
    """Return the first few ids, and that there are more."""
    return ", ".join(ids[:NAMED]) + (", …" if len(ids) > NAMED else "")
