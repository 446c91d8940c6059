"""How far a look got, per tenant and job: kept in the ledger by the sweep that carries the look out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb.ledger.looking import START, Place
from kb.sweeps import Action, ActionKind, SweepJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.ledger.ledger import LedgerTx
    from kb.model import Json

LOOKED = "looked"
LEFT = "left: "  # begins what settled a contradiction only because one side was no longer live
JOBS = (SweepJob.PROMOTE, SweepJob.RECHECK)


def key_of(tenant: str, job: SweepJob) -> str:
    """Return the ledger's key of a mark."""
    return f"looked:{job.value}:{tenant}"


def placed(tx: LedgerTx, tenant: str, job: SweepJob) -> Place:
    """Return where the next look begins."""
    return place_of(tx.meta.get(key_of(tenant, job))) or START


def mark_action(job: SweepJob, place: Sequence[int | str]) -> Action:
    """Return the action that keeps a place: the last of its plan."""
    detail: dict[str, Json] = {"job": job.value, "upto": [int(place[0]), str(place[1])]}
    return Action(memory_id="", kind=ActionKind.LOOK, reason=LOOKED, rev=0, detail=detail)


def is_place_alone(actions: Sequence[Action]) -> bool:
    """Return whether all that came of a look is how far it got: nothing that a sweep would tell or take back."""
    return bool(actions) and all(a.kind is ActionKind.LOOK and not a.memory_id for a in actions)


def keep_places(tx: LedgerTx, tenant: str, actions: Sequence[Action]) -> None:
    """Keep how far looks got, without a sweep."""
    for action in actions:
        job, place = SweepJob(str(action.detail["job"])), place_of(action.detail.get("upto"))
        if job in JOBS and place is not None:
            tx.meta.set(key_of(tenant, job), list(place))


def place_of(value: Json) -> Place | None:
    """Return a place as it was kept; None for anything else."""
    match value:
        case [int(at), str(id_)]:
            return Place(at, id_)
        case _:
            return None
