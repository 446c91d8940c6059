"""Rollback: what was bad and all that was made from it; how far it reaches is shown before anything is done."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Form, Query, Request, Response

from governance.console.pages.done import after, sure
from governance.console.showing import page
from governance.console.visitor import Decides, Looks, parts_of
from governance.policy import policy_of
from governance.rollback import carried_out, surveyed
from governance.selection import Selection
from kb.errors import InputError, StalePlan
from kb.ids import digest
from kb.statuses import status_of

if TYPE_CHECKING:
    from governance.console.parts import Parts
    from governance.console.visitor import Visitor
    from governance.rollback import Radius
    from kb.sweeps import Sweep

router = APIRouter()
SHOWN = 50
Named = Annotated[str, Query(max_length=2_048)]
Sent = Annotated[str, Form(max_length=2_048)]


@router.get("/rollback")
async def survey(
    request: Request, who: Looks, source: Named = "", document: Named = "", batch: Named = "", memory: Named = ""
) -> Response:
    """Ask what was bad; when it is said, show how far it reaches."""
    parts = parts_of(request)
    said = {"source": source, "document": document, "batch": batch, "memory": memory}
    radius, wrong, status = None, None, HTTPStatus.OK
    if any(said.values()):
        try:
            radius = await parts.threads.call(_survey, parts, who.tenant, said)
        except InputError as error:  # beside the form, so that what was typed can be mended
            wrong, status = error, status_of(error)
    given = {"radius": radius, "wrong": wrong, "shown": SHOWN, "key": _key(radius)}
    return page(request, "rollback.html", who, status=status, said=said, **given)


@router.post("/rollback")
async def roll_back(
    request: Request,
    who: Decides,
    *,
    key: Annotated[str, Form(max_length=128)],
    source: Sent = "",
    document: Sent = "",
    batch: Sent = "",
    memory: Sent = "",
    reason: Annotated[str, Form(max_length=2_000)] = "",
    ticked: Annotated[str, Form(alias="sure", max_length=8)] = "",
) -> Response:
    """Roll back what was shown, or refuse when it reaches further by now."""
    sure(ticked, "a rollback")
    parts = parts_of(request)
    said = {"source": source, "document": document, "batch": batch, "memory": memory}
    sweeps = await parts.threads.call(_roll_back, parts, who, said, key, reason)
    return after(request, f"/sweeps/{sweeps[-1].id}" if sweeps else "/sweeps", [])


def _selection(said: dict[str, str]) -> Selection:
    memory = said["memory"].strip()
    return Selection(
        source=said["source"].strip(),
        document=said["document"].strip(),
        batch=said["batch"].strip(),
        memories=(memory,) if memory else (),
    )


def _survey(parts: Parts, tenant: str, said: dict[str, str]) -> Radius:
    return surveyed(parts.memories, _selection(said), policy_of(parts.settings, tenant), parts.clock.now())


def _key(radius: Radius | None) -> str:
    """Return what tells one reach from another: whom it takes, and in which state."""
    if radius is None:
        return ""
    return digest("reach", *sorted(f"{a.memory_id} {a.kind.value} {a.rev}" for a in radius.plan.actions))[:32]


def _roll_back(parts: Parts, who: Visitor, said: dict[str, str], key: str, reason: str) -> list[Sweep]:
    policy = policy_of(parts.settings, who.tenant)
    radius = _survey(parts, who.tenant, said)
    if _key(radius) != key:
        raise StalePlan("it reaches further, or less far, by now: nothing was done", hint="look at it again")
    wanted = _selection(said)
    return carried_out(parts.memories, wanted, radius, policy=policy, actor=who.actor.name, reason=reason)
