"""Sweeps: what was done, by whom and why, and the way back; what a job would do, and doing exactly that.

A preview is made again, for the same instant, when it is applied: if the plan is no longer the one that was shown, the
store has moved and nothing is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response

from governance.console.pages.done import after, can_undo, sure, told
from governance.console.showing import page
from governance.console.visitor import Decides, Looks, parts_of
from governance.corroborate import plan_promote
from governance.objects import journal_of, sweep_of
from governance.planning import planned
from governance.policy import policy_of
from governance.recheck import plan_recheck
from governance.sweep import apply
from governance.undo import undo
from kb.errors import InputError, StalePlan
from kb.model import MemoryId
from kb.sweeps import SweepId, SweepJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from governance.console.parts import Parts
    from governance.console.visitor import Visitor
    from governance.plan import Plan
    from kb.model import Instant, Memory
    from kb.sweeps import Sweep

router = APIRouter()
SHOWN = 200
HISTORY = 50
PAGES = 200
JOBS = (SweepJob.DECAY, SweepJob.PROMOTE, SweepJob.RECHECK, SweepJob.PRUNE, SweepJob.GC)
FAR = 2**62


@router.get("/sweeps")
async def history(
    request: Request, who: Looks, number: Annotated[int, Query(alias="page", ge=1, le=PAGES)] = 1, done: str = ""
) -> Response:
    """List sweeps, the latest first."""
    parts = parts_of(request)
    given = await parts.threads.call(_history, parts, who.tenant, number, done)
    return page(request, "sweeps.html", who, jobs=[j.value for j in JOBS], **given)


@router.get("/sweeps/preview")
async def preview(
    request: Request,
    who: Looks,
    job: str,
    at: Annotated[int | None, Query(ge=0, lt=FAR)] = None,
    seq: Annotated[int, Query(ge=0)] = 0,
) -> Response:
    """Show what a job would do now, or would have done at the instant of the preview's first page; changes nothing."""
    parts = parts_of(request)
    now = parts.clock.now()
    plan = await parts.threads.call(_plan, parts, who.tenant, job, now if at is None else min(at, now))
    actions = plan.actions[seq : seq + SHOWN]
    memories = await parts.threads.call(_memories, parts, who.tenant, [a.memory_id for a in actions])
    return page(
        request,
        "preview.html",
        who,
        plan=plan,
        actions=actions,
        memories=memories,
        total=len(plan.actions),
        following=seq + SHOWN,
    )


@router.post("/sweeps/apply")
async def applied(
    request: Request,
    who: Decides,
    job: Annotated[str, Form(max_length=32)],
    at: Annotated[int, Form(ge=0, lt=FAR)],
    plan: Annotated[str, Form(max_length=64)],
    allow_mass: Annotated[str, Form(max_length=8)] = "",
    reason: Annotated[str, Form(max_length=2_000)] = "",
    ticked: Annotated[str, Form(alias="sure", max_length=8)] = "",
) -> Response:
    """Do exactly what the preview showed."""
    if job == SweepJob.GC:
        sure(ticked, "an erasure")
    parts = parts_of(request)
    sweep = await parts.threads.call(_applied, parts, who, job, at, plan, bool(allow_mass), reason)
    return after(request, f"/sweeps/{sweep.id}", [])


@router.get("/sweeps/{sweep_id}")
async def one(request: Request, who: Looks, sweep_id: str, seq: Annotated[int, Query(ge=0)] = 0) -> Response:
    """Show a sweep with its journal."""
    parts = parts_of(request)
    sweep, journal = await parts.threads.call(_one, parts, who.tenant, sweep_id)
    shown = journal[seq : seq + SHOWN]
    memories = await parts.threads.call(_memories, parts, who.tenant, [j.action.memory_id for j in shown])
    following = seq + SHOWN if len(journal) > seq + SHOWN else None
    return page(
        request,
        "sweep.html",
        who,
        sweep=sweep,
        journal=shown,
        memories=memories,
        total=len(journal),
        following=following,
        undoable=can_undo(sweep),
    )


@router.post("/sweeps/{sweep_id}/undo")
async def undone(
    request: Request, who: Decides, sweep_id: str, reason: Annotated[str, Form(max_length=2_000)] = ""
) -> Response:
    """Put back all that a sweep changed."""
    parts = parts_of(request)
    sweep = await parts.threads.call(_undone, parts, who, sweep_id, reason)
    return after(request, "/sweeps", [sweep])


def _history(parts: Parts, tenant: str, number: int, done: str) -> dict[str, Any]:
    with parts.memories.ledger.read() as tx:
        found = tx.sweeps.list(number * HISTORY + 1, tenant=tenant)
    sweeps = found[(number - 1) * HISTORY : number * HISTORY]
    return {
        "number": number,
        "more": len(found) > number * HISTORY,
        "sweeps": sweeps,
        "undoable": {s.id for s in sweeps if can_undo(s)},
        "sweep": told(parts.memories, tenant, done),
    }


def _plan(parts: Parts, tenant: str, job: str, at: Instant) -> Plan:
    if job not in [j.value for j in JOBS]:
        raise InputError(f"{job!r} is no job with a preview")
    policy = policy_of(parts.settings, tenant)
    if job == SweepJob.PROMOTE:
        return plan_promote(parts.memories, policy, at)
    if job == SweepJob.RECHECK:
        return plan_recheck(parts.memories, policy, at)
    return planned(parts.memories, SweepJob(job), policy, at)


def _memories(parts: Parts, tenant: str, ids: Sequence[str]) -> dict[str, Memory]:
    with parts.memories.ledger.read() as tx:
        found = tx.memories.get({MemoryId(id_) for id_ in ids if id_})
    return {id_: memory for id_, memory in found.items() if memory.tenant == tenant}


def _applied(
    parts: Parts,
    who: Visitor,
    job: str,
    at: Instant,
    shown: str,
    allow_mass: bool,  # noqa: FBT001 - a thread's call
    reason: str,
) -> Sweep:
    plan = _plan(parts, who.tenant, job, at)
    if plan.hash != shown:
        raise StalePlan("the store has changed since the preview: nothing was done", hint="look at a new preview")
    return apply(
        parts.memories,
        plan,
        policy=policy_of(parts.settings, who.tenant),
        actor=who.actor.name,
        reason=reason,
        allow_mass=allow_mass,
        is_exact=True,
    )


def _one(parts: Parts, tenant: str, sweep_id: str) -> tuple[Sweep, list[Any]]:
    sweep = sweep_of(parts.memories, sweep_id, tenant)
    return sweep, list(journal_of(parts.memories, sweep))


def _undone(parts: Parts, who: Visitor, sweep_id: str, reason: str) -> Sweep:
    policy = policy_of(parts.settings, who.tenant)
    return undo(parts.memories, SweepId(sweep_id), who.tenant, actor=who.actor.name, policy=policy, reason=reason)
