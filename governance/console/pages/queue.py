"""The review queue: what waits for a person, beside what says otherwise; decisions on one or many."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Form, Request, Response

from governance.console.difference import Piece, difference
from governance.console.pages.done import after, can_undo, told
from governance.console.showing import page
from governance.console.visitor import Decides, Looks, parts_of
from governance.policy import policy_of
from governance.queue import Waits, review_queue
from governance.review import decide
from kb.errors import InputError
from kb.model import MemoryId
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
SHOWN = 50
IDS = Form(max_length=500)


class Decision(StrEnum):
    """What the buttons decide."""

    VERIFY = "verify"
    REJECT = "reject"
    PIN = "pin"
    UNPIN = "unpin"
    RESTORE = "restore"
    ANNOTATE = "annotate"


@router.get("/queue")
async def queue(request: Request, who: Looks, why: Waits | None = None, done: str = "", refused: int = 0) -> Response:
    """Show what waits."""
    parts = parts_of(request)
    given = await parts.threads.call(_queue, parts, who.tenant, why, done)
    return page(request, "queue.html", who, refused=refused, **given)


@router.post("/decide")
async def decided(
    request: Request,
    who: Decides,
    decision: Annotated[Decision, Form()],
    ids: Annotated[list[str] | None, IDS] = None,
    reason: Annotated[str, Form(max_length=2_000)] = "",
    back: Annotated[str, Form(max_length=200)] = "/queue",
) -> Response:
    """Carry out one decision on what was chosen, as one sweep."""
    if not ids:
        raise InputError("nothing was chosen", hint="tick what the decision is about")
    parts = parts_of(request)
    made = await parts.threads.call(_decided, parts, who, decision, ids, reason)
    if made.refused and made.sweep is None:
        raise InputError("; ".join(f"{id_}: {why}" for id_, why in list(made.refused.items())[:5]))
    home = back if back.startswith("/") and not back.startswith(("//", "/\\")) and "?" not in back else "/queue"
    refused = str(len(made.refused)) if made.refused else ""
    return after(request, home, [made.sweep] if made.sweep else [], refused=refused)


def _decided(parts: Parts, who: Visitor, decision: Decision, ids: Sequence[str], reason: str) -> Decided:
    return decide(
        parts.memories,
        list(map(MemoryId, dict.fromkeys(ids))),
        SweepJob(decision.value),
        policy=policy_of(parts.settings, who.tenant),
        actor=who.actor,
        reason=reason,
    )


def _queue(parts: Parts, tenant: str, why: Waits | None, done: str) -> dict[str, Any]:
    memories, now = parts.memories, parts.clock.now()
    found = review_queue(memories, tenant, now, why=[why] if why else list(Waits), limit=SHOWN + 1)
    items = found[:SHOWN]
    with memories.ledger.read() as tx:
        others = tx.memories.get({MemoryId(i.other_id) for i in items if i.other_id})
        heard = {i.memory.id: tx.evidence.of_memory(i.memory.id) for i in items}
    half_lives = {c: p.half_life for c, p in memories.policies.items()}
    sweep = told(memories, tenant, done)
    return {
        "items": [_shown(i, others, heard) for i in items],
        "believed": {i.memory.id: effective(i.memory.trust, now, half_lives[i.memory.source_class]) for i in items},
        "more": len(found) > SHOWN,
        "why": why.value if why else "",
        "whys": [w.value for w in Waits],
        "sweep": sweep,
        "undoable": sweep is not None and can_undo(sweep),
    }


def _shown(
    item: ReviewItem, others: Mapping[MemoryId, Memory], heard: Mapping[MemoryId, Sequence[EvidenceEvent]]
) -> dict[str, Any]:
    other = others.get(MemoryId(item.other_id)) if item.other_id else None
    own, its = difference(item.memory.text, other.text) if other is not None else ([Piece(item.memory.text, is_own=False)], [])
    return {"item": item, "memory": item.memory, "other": other, "own": own, "its": its, "heard": heard[item.memory.id]}
