"""A plan: exactly what a sweep will do, as a value and as a file that can be read, signed off and applied later."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.erased import WINDOW_ENDED
from kb.errors import InputError
from kb.ids import digest
from kb.sweeps import Action, ActionKind, SweepJob

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from kb.model import Instant, Json

FORMAT = 1
PLANNED: Mapping[SweepJob, frozenset[str]] = {  # what a job does; the rest is for people and rollbacks, not for files
    SweepJob.DECAY: frozenset({ActionKind.SHOW}),
    SweepJob.PRUNE: frozenset({ActionKind.RETIRE}),
    SweepJob.GC: frozenset({ActionKind.ERASE}),
    SweepJob.PROMOTE: frozenset({ActionKind.WEIGH, ActionKind.ACTIVATE, ActionKind.LOOK}),
    SweepJob.RECHECK: frozenset(
        {ActionKind.WEIGH, ActionKind.CONTEST, ActionKind.SETTLE, ActionKind.LOOK, ActionKind.VOUCH}
    ),
}
FINDINGS = "findings"  # in the detail of a vouching: stored pages that bear it out, and are asked again
HASH_LENGTH = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one sweep will do.

    Args:
        tenant: whose memories.
        job: what it does.
        policy: hash of the policy that it was made under.
        at: the instant that its decisions were made for.
        ledger: id of the ledger that it was made from.
        actions: in the order in which they will be applied.
        left: actions that would have followed but for the cap.
        live: the tenant's live memories, for the share that a mass guard asks about.
        notes: what a reader should know, in sentences.
    """

    tenant: str
    job: SweepJob
    policy: str
    at: Instant
    ledger: str = ""
    actions: tuple[Action, ...] = ()
    left: int = 0
    live: int = 0
    notes: tuple[str, ...] = ()

    @property
    def hash(self) -> str:
        """Digest of everything in it: what was signed off is what will be applied."""
        return digest("plan", json.dumps(self._body(), sort_keys=True, ensure_ascii=False))[:HASH_LENGTH]

    @property
    def counts(self) -> dict[str, int]:
        """Actions by kind."""
        return dict(sorted(Counter(a.kind.value for a in self.actions).items()))

    def as_json(self) -> dict[str, Json]:
        """Return the plan under the stable keys of docs/reference/json.md."""
        return {**self._body(), "hash": self.hash, "counts": dict(self.counts)}

    def _body(self) -> dict[str, Json]:
        return {
            "format": FORMAT,
            "tenant": self.tenant,
            "job": self.job.value,
            "policy": self.policy,
            "at": self.at,
            "ledger": self.ledger,
            "actions": [action_json(a) for a in self.actions],
            "left": self.left,
            "live": self.live,
            "notes": list(self.notes),
        }


def action_json(action: Action) -> dict[str, Json]:
    """Return an action under the stable keys of docs/reference/json.md."""
    return {
        "memory_id": action.memory_id,
        "action": action.kind.value,
        "reason": action.reason,
        "rev": action.rev,
        "detail": dict(action.detail),
    }


def plan_of_json(data: Mapping[str, Any]) -> Plan:
    """Return the plan in a file, untouched since it was written.

    Raises:
        InputError: it is no plan, of another format, or was changed since: its hash does not fit.
    """
    hint = "make it anew with `kb govern plan JOB`"
    try:
        if data["format"] != FORMAT:
            raise InputError(f"the plan has format {data['format']}; this program reads format {FORMAT}", hint=hint)
        plan = Plan(
            tenant=str(data["tenant"]),
            job=SweepJob(data["job"]),
            policy=str(data["policy"]),
            at=int(data["at"]),
            ledger=str(data["ledger"]),
            actions=tuple(_action_of_json(a) for a in data["actions"]),
            left=int(data["left"]),
            live=int(data["live"]),
            notes=tuple(map(str, data["notes"])),
        )
        stated = data["hash"]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"this is no plan of a sweep: {type(error).__name__} {error}", hint=hint) from error
    if stated != plan.hash:
        raise InputError("the plan was changed after it was made: its hash does not fit", hint=hint)
    _refuse_foreign(plan, hint)
    return plan


def _refuse_foreign(plan: Plan, hint: str) -> None:
    """Refuse a file that would do what its job never does: vouch for a memory, say, or erase what somebody said."""
    foreign = {a.kind.value for a in plan.actions} - PLANNED.get(plan.job, frozenset())
    foreign |= {a.reason for a in plan.actions if a.kind is ActionKind.ERASE and a.reason != WINDOW_ENDED}
    # what was asked outside cannot be asked again when it is applied: it stands in no file, since files ask nobody
    foreign |= {a.kind.value for a in plan.actions if a.kind is ActionKind.VOUCH and not a.detail.get(FINDINGS)}
    if foreign:
        raise InputError(f"no plan of {plan.job.value} holds: {', '.join(sorted(foreign))}", hint=hint)


def _action_of_json(data: Mapping[str, Any]) -> Action:
    return Action(
        memory_id=str(data["memory_id"]),
        kind=ActionKind(data["action"]),
        reason=str(data["reason"]),
        rev=int(data["rev"]),
        detail=dict(data["detail"]),
    )
