"""A plan: exactly what a sweep will do, as a value and as a file that can be read, signed off and applied later."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from reprlib import repr as shortened
from typing import TYPE_CHECKING, TypeVar

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
HINT = "make it anew with `kb govern plan JOB`"
E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")


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
    read = _Fields(data, "")
    if (made := read.whole("format")) != FORMAT:
        raise InputError(f"the plan has format {made}; this program reads format {FORMAT}", hint=HINT)
    plan = Plan(
        tenant=read.text("tenant"),
        job=read.one_of("job", SweepJob),
        policy=read.text("policy"),
        at=read.whole("at"),
        ledger=read.text("ledger"),
        actions=tuple(_action(data, place) for place, data in enumerate(read.each("actions"), 1)),
        left=read.whole("left"),
        live=read.whole("live"),
        notes=tuple(map(str, read.each("notes"))),
    )
    if read.text("hash") != plan.hash:
        raise InputError("the plan was changed after it was made: its hash does not fit", hint=HINT)
    _refuse_foreign(plan)
    return plan


def _refuse_foreign(plan: Plan) -> None:
    """Refuse a file that would do what its job never does: vouch for a memory, say, or erase what somebody said."""
    foreign = {a.kind.value for a in plan.actions} - PLANNED.get(plan.job, frozenset())
    foreign |= {a.reason for a in plan.actions if a.kind is ActionKind.ERASE and a.reason != WINDOW_ENDED}
    # what was asked outside cannot be asked again when it is applied: it stands in no file, since files ask nobody
    foreign |= {a.kind.value for a in plan.actions if a.kind is ActionKind.VOUCH and not a.detail.get(FINDINGS)}
    if foreign:
        raise InputError(f"no plan of {plan.job.value} holds: {', '.join(sorted(foreign))}", hint=HINT)


def _action(data: object, place: int) -> Action:
    where = f"action {place}"
    if not isinstance(data, dict):
        raise InputError(f"{where} is {shortened(data)}; it must be an object", hint=HINT)
    read = _Fields(data, f"{where}: ")
    return Action(
        memory_id=read.text("memory_id"),
        kind=read.one_of("action", ActionKind),
        reason=read.text("reason"),
        rev=read.whole("rev"),
        detail=dict(read.mapping("detail")),
    )


@dataclass(frozen=True, slots=True)
class _Fields:
    """Fields of an object in a file, each of the kind that is wanted, or refused in words."""

    data: Mapping[str, Any]
    where: str  # begins what is said

    def text(self, name: str) -> str:
        return self._of(name, str, "text")

    def whole(self, name: str) -> int:
        return self._of(name, int, "a whole number")

    def each(self, name: str) -> list[Any]:
        return self._of(name, list, "a list")

    def mapping(self, name: str) -> dict[str, Any]:
        return self._of(name, dict, "an object")

    def one_of(self, name: str, kinds: type[E]) -> E:
        values = [kind.value for kind in kinds]
        if self._there(name) not in values:
            raise self._refusal(name, f"one of {', '.join(values)}")
        return kinds(self.data[name])

    def _of(self, name: str, kind: type[T], told: str) -> T:
        value = self._there(name)
        if isinstance(value, bool) or not isinstance(value, kind):  # true is a number to Python alone
            raise self._refusal(name, told)
        return value

    def _there(self, name: str) -> Any:  # noqa: ANN401 - JSON of a file
        if name not in self.data:
            raise InputError(f"this is no plan of a sweep: {self.where}{name} is missing", hint=HINT)
        return self.data[name]

    def _refusal(self, name: str, told: str) -> InputError:
        said = f"{self.where}{name} is {shortened(self.data[name])}; it must be {told}"
        return InputError(f"this is no plan of a sweep: {said}", hint=HINT)
