"""Sweeps, decisions, explanations and rollbacks as JSON objects, the same on the command line and over HTTP."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from governance.plan import action_json
from kb.clock import iso
from kb.errors import UnknownSweep
from kb.objects import memory_object
from kb.sweeps import GONE, SweepId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from governance.explain import Explanation
    from governance.review import Decided
    from governance.rollback import Radius
    from kb.memories import Memories
    from kb.model import Json
    from kb.sweeps import Contradiction, Journaled, Sweep


def sweep_of(memories: Memories, id_: str, tenant: str) -> Sweep:
    """Return a tenant's sweep.

    Raises:
        UnknownSweep: it has none with this id.
    """
    with memories.ledger.read() as tx:
        found = tx.sweeps.get(SweepId(id_))
    if found is None or found.tenant != tenant:
        raise UnknownSweep(f"there is no sweep {id_} in tenant {tenant}")
    return found


def journal_of(memories: Memories, sweep: Sweep) -> list[Journaled]:
    """Return a sweep's whole journal."""
    journal: list[Journaled] = []
    while True:
        with memories.ledger.read() as tx:
            page = tx.sweeps.journal(sweep.id, after=journal[-1].seq if journal else -1)
        if not page:
            return journal
        journal += page


def sweep_json(sweep: Sweep) -> dict[str, Json]:
    """Return a sweep under the stable keys of docs/reference/json.md."""
    return {
        "sweep_id": sweep.id,
        "tenant": sweep.tenant,
        "job": sweep.job.value,
        "status": sweep.status.value,
        "actor": sweep.actor,
        "reason": sweep.reason,
        "policy": sweep.policy,
        "plan": sweep.plan,
        "at": iso(sweep.at),
        "started_at": iso(sweep.started_at),
        "finished_at": iso(sweep.finished_at),
        "counts": dict(sweep.counts),
        "undoes": sweep.undoes,
        "undone_by": sweep.undone_by,
    }


def whole_json(sweep: Sweep, journal: Sequence[Journaled]) -> dict[str, Json]:
    """Return a sweep with its journal under the stable keys of docs/reference/json.md."""
    return {**sweep_json(sweep), "gone": gone_among(journal), "actions": [journaled_json(j) for j in journal]}


def gone_among(journal: Sequence[Journaled]) -> int:
    """Return how many actions found that what they were about is there no more."""
    return sum(j.skipped == GONE for j in journal)


def journaled_json(journaled: Journaled) -> dict[str, Json]:
    """Return an action of a journal under the stable keys of docs/reference/json.md."""
    return {
        **action_json(journaled.action),
        "sweep_id": journaled.sweep_id,
        "applied_at": iso(journaled.applied_at),
        "skipped": journaled.skipped or None,
    }


def explanation_object(memories: Memories, e: Explanation) -> dict[str, Json]:
    """Return an explanation under the stable keys of docs/reference/json.md."""
    return {
        "memory": memory_object(memories, e.memory),
        "at": iso(e.now),
        "prior": asdict(e.prior),
        "effective_confidence": round(e.effective, 6),
        "shown_confidence": e.shown,
        "passes_gate": e.passes_gate,
        "why": list(e.why),
        "evidence": [
            {"kind": v.kind.value, "weight": v.weight, "witness": v.witness, "reason": v.reason, "at": iso(v.at)}
            for v in e.evidence
        ],
        "decisions": [journaled_json(j) for j in e.decisions],
        "contradictions": [_contradiction_json(e, c) for c in e.contradictions],
        "next": [{"at": iso(c.at), "what": c.what} for c in e.crossings],
    }


def _contradiction_json(e: Explanation, c: Contradiction) -> dict[str, Json]:

    other, value, other_value = other_side(e, c)
    return {
        "memory_id": other,
        "kind": c.kind,
        "value": value,
        "other_value": other_value,
        "found_at": iso(c.found_at),
        "settled_at": iso(c.settled_at),
        "settled_by": c.settled_by or None,
    }


def other_side(e: Explanation, c: Contradiction) -> tuple[str, str, str]:
    """Return the other side of a contradiction, what the memory itself says, and what the other does."""
    if c.one == e.memory.id:
        return c.other, c.one_value, c.other_value
    return c.one, c.other_value, c.one_value


def decided_object(memories: Memories, decided: Decided, notes: Sequence[str] = ()) -> dict[str, Json]:
    """Return what came of a decision under the stable keys of docs/reference/json.md."""
    return {
        "sweep_id": None if decided.sweep is None else decided.sweep.id,
        "counts": {} if decided.sweep is None else dict(decided.sweep.counts),
        "memories": [memory_object(memories, m) for m in decided.memories],
        "refused": [{"memory_id": id_, "reason": why} for id_, why in decided.refused.items()],
        "notes": list(notes),
    }


def rolled_back_object(radius: Radius, sweeps: Sequence[Sweep], *, is_plan: bool) -> dict[str, Json]:
    """Return what a rollback did, or would do, under the stable keys of docs/reference/json.md."""
    counts: dict[str, int] = dict(radius.plan.counts) if is_plan else {}
    for sweep in sweeps:
        for kind, number in sweep.counts.items():
            counts[kind] = counts.get(kind, 0) + number
    return {
        "sweep_id": sweeps[0].id if sweeps else None,
        "sweeps": [s.id for s in sweeps],
        "plan": is_plan,
        "counts": dict(counts),
        **radius.as_json(),
    }
