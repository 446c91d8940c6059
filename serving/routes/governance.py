"""/v1/governance: plans, sweeps, undo, history, forecast, review queue, rollback: what operators do, over HTTP.

Erasure is not among it: the one act that nothing undoes is done at the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from governance.actor import vouching
from governance.candidates import foreseen
from governance.objects import (
    journal_of,
    rolled_back_object,
    sweep_json,
    sweep_of,
    whole_json,
)
from governance.plan import plan_of_json
from governance.policy import policy_of
from governance.queue import Waits, review_queue
from governance.rollback import carried_out, surveyed
from governance.selection import Selection
from governance.sweep import apply
from governance.undo import undo
from jobs.sweeps import plan_of
from kb.clock import iso
from kb.errors import InputError
from kb.sweeps import SweepId, SweepJob
from serving.principal import Governor, actor_of, service_of
from serving.service import Service

if TYPE_CHECKING:
    from kb.keys import Principal
    from kb.sweeps import Sweep

router = APIRouter(prefix="/v1/governance", tags=["governance"])
Parts = Annotated[Service, Depends(service_of)]
Object = dict[str, Any]
PLANNED = ("decay", "prune", "promote", "recheck", "gc")


class PlanBody(BaseModel):
    """Which job to plan."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"job": "prune"}]})
    job: str = Field(description=", ".join(PLANNED), max_length=32)


class ApplyBody(BaseModel):
    """A plan as it was made, and consent where it retires much."""

    model_config = ConfigDict(extra="forbid")
    plan: dict[str, Any]
    reason: str = Field(default="", max_length=2_000)
    allow_mass: bool = False


class UndoBody(BaseModel):
    """Which sweep to take back."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"sweep_id": "0f9c…"}]})
    sweep_id: str = Field(min_length=1, max_length=128)
    reason: str = Field(default="", max_length=2_000)


class RollbackBody(BaseModel):
    """What was bad: one of source, document, batch, memories; or since an instant. Without `apply`, only its reach."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"source": "kb://wiki/", "apply": False}]}
    )
    source: str = Field(default="", max_length=2_048)
    document: str = Field(default="", max_length=2_048)
    batch: str = Field(default="", max_length=128)
    memories: list[str] = Field(default_factory=list, max_length=500)
    since: int | None = Field(default=None, ge=0, lt=2**62, description="epoch milliseconds")
    apply: bool = False
    reason: str = Field(default="", max_length=2_000)


@router.post("/plan", summary="What a job would do now; changes nothing")
async def plan(body: PlanBody, caller: Governor, service: Parts) -> Object:
    """Return a plan for `POST /v1/governance/apply`."""
    if body.job not in PLANNED:
        raise InputError(f"{body.job!r} is no job with a plan", hint=", ".join(PLANNED))
    return await service.threads.call(_plan, service, caller.tenant, SweepJob(body.job))


@router.post("/apply", summary="Apply exactly that plan, or refuse and name what moved")
async def apply_(body: ApplyBody, caller: Governor, service: Parts) -> Object:
    """Apply a plan of the key's tenant."""
    return await service.threads.call(_apply, service, caller, body)


@router.post("/undo", summary="Put back everything that a sweep changed")
async def undo_(body: UndoBody, caller: Governor, service: Parts) -> Object:
    """Undo a sweep, or refuse and list what has changed since."""
    return await service.threads.call(_undo, service, caller, body)


@router.get("/history", summary="Sweeps, the latest first")
async def history(
    caller: Governor,
    service: Parts,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 20,
    job: SweepJob | None = None,
) -> Object:
    """List what jobs did, and what people decided."""
    return await service.threads.call(_history, service, caller.tenant, limit, job)


@router.get("/sweeps/{sweep_id}", summary="One sweep with its journal")
async def sweep(sweep_id: Annotated[str, Path(max_length=128)], caller: Governor, service: Parts) -> Object:
    """Return what a sweep did to which memory, and why."""
    return await service.threads.call(_sweep, service, caller.tenant, sweep_id)


@router.get("/forecast", summary="What will leave the gate, fall due, be pruned and be erased")
async def forecast(caller: Governor, service: Parts, days: Annotated[int, Query(ge=1, le=3_650)] = 60) -> Object:
    """Return the forecast per day and source under the policy in force."""
    return await service.threads.call(_forecast, service, caller.tenant, days)


@router.get("/policy", summary="The policy in force, with its hash")
async def policy(caller: Governor, service: Parts) -> Object:
    """Return the policy of the key's tenant."""
    own = policy_of(service.settings, caller.tenant)
    return {**own.as_json(), "hash": own.hash}


@router.get("/review", summary="What waits for a person, and why")
async def review(
    caller: Governor,
    service: Parts,
    why: Annotated[list[Waits] | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
) -> Object:
    """List contested memories, verified ones that fell due, and quarantined ones."""
    return await service.threads.call(_review, service, caller.tenant, list(why or Waits), limit)


@router.post("/rollback", summary="Take back what was bad and all that was made from it; or say how far it reaches")
async def rollback(body: RollbackBody, caller: Governor, service: Parts) -> Object:
    """Roll back, where `apply` says so; each sweep is undone by `POST /v1/governance/undo`, the last one first."""
    return await service.threads.call(_rollback, service, caller, body)


def _plan(service: Service, tenant: str, job: SweepJob) -> Object:
    memories = service.memories
    own = policy_of(service.settings, tenant)
    return plan_of(memories, service.settings, job, own, memories.clock.now()).as_json()


def _apply(service: Service, caller: Principal, body: ApplyBody) -> Object:
    actor = vouching(actor_of(caller), "apply plans to")
    made = plan_of_json(body.plan)
    if made.tenant != caller.tenant:
        raise InputError(f"the plan is of tenant {made.tenant}: this key is not")
    done = apply(
        service.memories,
        made,
        policy=policy_of(service.settings, made.tenant),
        actor=actor.name,
        reason=body.reason,
        allow_mass=body.allow_mass,
        is_exact=True,
    )
    return _whole(service, done)


def _undo(service: Service, caller: Principal, body: UndoBody) -> Object:
    actor = vouching(actor_of(caller), "undo what was done to")
    own = policy_of(service.settings, caller.tenant)
    done = undo(
        service.memories, SweepId(body.sweep_id), caller.tenant, actor=actor.name, policy=own, reason=body.reason
    )
    return _whole(service, done)


def _whole(service: Service, done: Sweep) -> Object:
    return whole_json(done, journal_of(service.memories, done))


def _history(service: Service, tenant: str, limit: int, job: SweepJob | None) -> Object:
    with service.memories.ledger.read() as tx:
        return {"sweeps": [sweep_json(s) for s in tx.sweeps.list(limit, tenant=tenant, job=job)]}


def _sweep(service: Service, tenant: str, sweep_id: str) -> Object:
    return _whole(service, sweep_of(service.memories, sweep_id, tenant))


def _forecast(service: Service, tenant: str, days: int) -> Object:
    memories = service.memories
    (seen,) = foreseen(memories, [policy_of(service.settings, tenant)], memories.clock.now(), days)
    return {**seen.as_json(), "at": iso(seen.at)}


def _review(service: Service, tenant: str, why: list[Waits], limit: int) -> Object:
    now = service.clock.now()
    found = review_queue(service.memories, tenant, now, why=why, limit=limit + 1)
    listed = [item.as_json() for item in found[:limit]]
    return {"tenant": tenant, "at": iso(now), "items": listed, "more": len(found) > limit}


def _rollback(service: Service, caller: Principal, body: RollbackBody) -> Object:
    actor = vouching(actor_of(caller), "roll back")
    memories, own = service.memories, policy_of(service.settings, caller.tenant)
    wanted = Selection(
        source=body.source,
        document=body.document,
        batch=body.batch,
        memories=tuple(body.memories),
        since=body.since,
    )
    radius = surveyed(memories, wanted, own, memories.clock.now())
    sweeps: list[Sweep] = []
    if body.apply and radius.plan.actions:
        sweeps = carried_out(memories, wanted, radius, policy=own, actor=actor.name, reason=body.reason)
    return rolled_back_object(radius, sweeps, is_plan=not body.apply)
