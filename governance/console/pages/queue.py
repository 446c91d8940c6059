"""The review queue: what waits for a person, beside what says otherwise; decisions on one or many."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from fastapi import APIRouter, Form, Query, Request, Response

from governance.console.difference import Piece, difference, folded
from governance.console.pages.done import after, can_undo, told
from governance.console.showing import page
from governance.console.visitor import Decides, Looks, parts_of
from governance.decisions import Decision  # noqa: TC001 - a form's field, read at run time
from governance.policy import policy_of
from governance.queue import Waits, review_queue
from governance.review import decide
from kb.errors import InputError, Refused
from kb.model import MemoryId, SourceClass
from kb.sweeps import SweepJob
from kb.trust import effective

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from governance.console.parts import Parts
    from governance.console.visitor import Visitor
    from governance.queue import ReviewItem
    from governance.review import Decided
    from kb.history import EvidenceEvent
    from kb.model import Memory

router = APIRouter()
SHOWN = 25
PAGES = 400
IDS = Form(max_length=500)
ONE_MEMORY = re.compile(r"/memories/[\w.:%~-]+", re.ASCII)
Nth = Annotated[int, Query(ge=0, le=SHOWN)]


class Place(NamedTuple):
    """Where in the queue a reader is."""

    why: Waits | None
    page: int  # from 1


@router.get("/queue")
async def queue(
    request: Request,
    who: Looks,
    why: Waits | None = None,
    number: Annotated[int, Query(alias="page", ge=1, le=PAGES)] = 1,
    at: Nth = 0,
    done: str = "",
    refused: int = 0,
) -> Response:
    """Show what waits, one page of it."""
    parts = parts_of(request)
    given = await parts.threads.call(_queue, parts, who.tenant, Place(why, number), done)
    return page(request, "queue.html", who, refused=refused, at=min(at, len(given["items"])), **given)


@router.post("/decide")
async def decided(
    request: Request,
    who: Decides,
    *,
    decision: Annotated[Decision, Form()],
    ids: Annotated[list[str] | None, IDS] = None,
    one: Annotated[str, Query(max_length=128)] = "",
    reason: Annotated[str, Form(max_length=2_000)] = "",
    back: Annotated[str, Form(max_length=200)] = "",
    why: Annotated[Waits | None, Form()] = None,
    number: Annotated[int, Form(alias="page", ge=1, le=PAGES)] = 1,
    order: Annotated[str, Form(max_length=SHOWN * 130)] = "",
) -> Response:
    """Carry out one decision, as one sweep: on the memory whose button it was, else on all that were chosen."""
    chosen = [one] if one else list(ids or ())
    if not chosen:
        raise InputError("nothing was chosen", hint="tick what the decision is about")
    parts = parts_of(request)
    made = await parts.threads.call(_decided, parts, who, decision, chosen, reason)
    if made.refused and made.sweep is None:
        raise Refused("; ".join(f"{id_}: {why}" for id_, why in list(made.refused.items())[:5]))
    sweeps = [made.sweep] if made.sweep else []
    refused = str(len(made.refused)) if made.refused else ""
    if ONE_MEMORY.fullmatch(back):
        return after(request, back, sweeps, refused=refused)
    at = next((n for n, id_ in enumerate(order.split(), 1) if id_ in chosen), 0)
    where = {"why": why.value if why else "", "page": str(number) if number > 1 else "", "at": str(at) if at else ""}
    return after(request, "/queue", sweeps, place=f"i-{at}" if at else "", refused=refused, **where)


def _decided(parts: Parts, who: Visitor, decision: Decision, ids: Sequence[str], reason: str) -> Decided:
    return decide(
        parts.memories,
        list(map(MemoryId, dict.fromkeys(ids))),
        SweepJob(decision.value),
        policy=policy_of(parts.settings, who.tenant),
        actor=who.actor,
        reason=reason,
    )


def _queue(parts: Parts, tenant: str, place: Place, done: str) -> dict[str, Any]:
    memories, now = parts.memories, parts.clock.now()
    whys = [place.why] if place.why else list(Waits)
    found = review_queue(memories, tenant, now, why=whys, limit=place.page * SHOWN + 1)
    number = max(1, min(place.page, -(-len(found) // SHOWN)))  # the last page may have been decided away
    items = found[(number - 1) * SHOWN : number * SHOWN]
    with memories.ledger.read() as tx:
        others = tx.memories.get({MemoryId(i.other_id) for i in items if i.other_id})
        heard = {i.memory.id: tx.evidence.of_memory(i.memory.id) for i in items}
    policy, sweep = policy_of(parts.settings, tenant), told(memories, tenant, done)
    return {
        "items": [_shown(i, others, heard) for i in items],
        "believed": {
            i.memory.id: effective(i.memory.trust, now, policy.trust[i.memory.source_class].half_life) for i in items
        },
        "gate": policy.gate,
        "until": now + policy.trust[SourceClass.CURATED].hold,
        "number": number,
        "more": len(found) > number * SHOWN,
        "why": place.why.value if place.why else "",
        "whys": [w.value for w in Waits],
        "sweep": sweep,
        "undoable": sweep is not None and can_undo(sweep),
    }


def _shown(
    item: ReviewItem, others: Mapping[MemoryId, Memory], heard: Mapping[MemoryId, Sequence[EvidenceEvent]]
) -> dict[str, Any]:
    other = others.get(MemoryId(item.other_id)) if item.other_id else None
    own, its = [Piece(item.memory.text, is_own=False)], [Piece("", is_own=False)]
    if other is not None:
        own, its = difference(item.memory.text, other.text)
    return {
        "item": item,
        "memory": item.memory,
        "other": other,
        "own": own,
        "own_folded": folded(own),
        "its": its,
        "its_folded": folded(its),
        "heard": heard[item.memory.id],
    }
