"""`kb govern`: plan, apply, explain and undo what sweeps do to memories."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kb_cli import render
from kb_cli.session import AsJson, Tenant, opened, settings_of

if TYPE_CHECKING:
    from governance.explain import Explanation
    from governance.plan import Plan
    from kb.memories import Memories
    from kb.model import Json
    from kb.settings import Settings
    from kb.sweeps import Journaled, Sweep

app = typer.Typer(help="Plan, apply, explain and undo what sweeps do to memories.", no_args_is_help=True)
SHOWN = 20  # actions that a person sees; a file or --json has them all


class SweepOption(StrEnum):
    """Jobs that change memories by a plan."""

    DECAY = "decay"
    PRUNE = "prune"
    PROMOTE = "promote"
    RECHECK = "recheck"
    GC = "gc"


JobArgument = Annotated[SweepOption, typer.Argument(metavar="JOB", help="decay, prune, promote, recheck or gc.")]
SweepArgument = Annotated[str, typer.Argument(metavar="SWEEP", help="The sweep's id; `kb govern history` shows ids.")]
By = Annotated[str | None, typer.Option("--by", help="Who does it; default: the user who runs the command.")]
Reason = Annotated[str, typer.Option("--reason", help="Why, in your own words; kept in the journal.")]
AllowMass = Annotated[bool, typer.Option("--allow-mass", help="Consent to retiring much of the tenant at once.")]


@app.command("plan")
def plan(job: JobArgument, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Print what a job would do now, as a file for `kb govern apply`; changes nothing."""
    settings = settings_of(tenant=tenant)
    with opened(settings) as memories:
        made = planned_for(memories, settings, job.value)
    if as_json or not sys.stdout.isatty():
        render.emit_json(made.as_json())
    else:
        render.say(*plan_lines(made))


@app.command("apply")
def apply(
    file: Annotated[str, typer.Argument(metavar="PLAN", help="File from `kb govern plan`; `-`: standard input.")],
    by: By = None,
    reason: Reason = "",
    allow_mass: AllowMass = False,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Apply exactly that plan, or refuse and name what has moved since it was made."""
    from governance.plan import plan_of_json
    from governance.policy import policy_of
    from governance.sweep import apply as applied
    from kb.errors import InputError
    from kb_cli.decisions import user_name

    made = plan_of_json(_object_in(file))
    settings = settings_of(tenant=tenant or made.tenant)
    if settings.tenant != made.tenant:
        raise InputError(f"the plan is for tenant {made.tenant}, not {settings.tenant}")
    with opened(settings) as memories:
        sweep = applied(
            memories,
            made,
            policy=policy_of(settings, made.tenant),
            actor=by or user_name(),
            reason=reason,
            allow_mass=allow_mass,
            is_exact=True,
        )
        journal = journal_of(memories, sweep)
    _show_sweep(sweep, journal, as_json=as_json)


@app.command("explain")
def explain(
    id_: Annotated[str, typer.Argument(metavar="MEMORY", help="The memory's id.")],
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Show why a memory stands where it stands: prior, evidence, decay, next crossing, what sweeps did."""
    from governance.explain import explain as explained
    from governance.policy import policy_of
    from kb.model import MemoryId

    settings = settings_of(tenant=tenant)
    with opened(settings) as memories:
        policy = policy_of(settings, settings.tenant)
        shown = explained(memories, MemoryId(id_), policy, memories.clock.now())
        whole = explanation_json(memories, shown)
    if as_json:
        render.emit_json(whole)
    else:
        render.say(*_explanation_lines(shown))


@app.command("history")
def history(
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many.")] = 20,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """List sweeps, the latest first."""
    from kb.clock import iso

    settings = settings_of(tenant=tenant)
    with opened(settings) as memories, memories.ledger.read() as tx:
        sweeps = tx.sweeps.list(limit, tenant=settings.tenant)
    if as_json:
        render.emit_json({"sweeps": [sweep_json(s) for s in sweeps]})
        return
    rows = [(s.id, iso(s.started_at), s.job.value, s.status.value, s.actor, _counted(s.counts)) for s in sweeps]
    render.say(*render.table(("sweep", "began", "job", "status", "by", "actions"), rows))


@app.command("show")
def show(sweep: SweepArgument, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Show one sweep with its journal: what it did to which memory, and why."""
    settings = settings_of(tenant=tenant)
    with opened(settings) as memories:
        found = sweep_of(memories, sweep, settings.tenant)
        journal = journal_of(memories, found)
    _show_sweep(found, journal, as_json=as_json)


@app.command("undo")
def undo(
    sweep: SweepArgument,
    by: By = None,
    reason: Reason = "",
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Put back everything that a sweep changed, or refuse and list what has changed since."""
    from governance.policy import policy_of
    from governance.undo import undo as undone
    from kb.sweeps import SweepId
    from kb_cli.decisions import user_name

    settings = settings_of(tenant=tenant)
    with opened(settings) as memories:
        policy = policy_of(settings, settings.tenant)
        done = undone(memories, SweepId(sweep), settings.tenant, actor=by or user_name(), policy=policy, reason=reason)
        journal = journal_of(memories, done)
    _show_sweep(done, journal, as_json=as_json)


def planned_for(memories: Memories, settings: Settings, job: str) -> Plan:
    """Return the plan of a job for the settings' tenant at this instant."""
    from governance.policy import policy_of
    from jobs.sweeps import plan_of
    from kb.sweeps import SweepJob

    policy = policy_of(settings, settings.tenant)
    return plan_of(memories, settings, SweepJob(job), policy, memories.clock.now())


def sweep_of(memories: Memories, id_: str, tenant: str) -> Sweep:
    """Return a tenant's sweep.

    Raises:
        UnknownSweep: it has none with this id.
    """
    from kb.errors import UnknownSweep
    from kb.sweeps import SweepId

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
    from kb.clock import iso

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


def journaled_json(journaled: Journaled) -> dict[str, Json]:
    """Return an action of a journal under the stable keys of docs/reference/json.md."""
    from governance.plan import action_json
    from kb.clock import iso

    return {
        **action_json(journaled.action),
        "sweep_id": journaled.sweep_id,
        "applied_at": iso(journaled.applied_at),
        "skipped": journaled.skipped or None,
    }


def plan_lines(made: Plan) -> list[str]:
    """Return a plan for a person: counts, the first actions, what a reader should know."""
    actions = [(a.memory_id or str(a.detail.get("doc_id")), a.kind.value, a.reason) for a in made.actions]
    lines = render.table(("memory", "action", "reason"), actions[:SHOWN])
    more = len(actions) - SHOWN
    return [
        f"{made.job.value}: {_counted(made.counts) or 'nothing to do'}",
        *(lines if actions else []),
        *([f"… and {more:,} more"] if more > 0 else []),
        *([f"{made.left:,} more wait for the next sweep"] if made.left else []),
        *made.notes,
    ]


def _show_sweep(sweep: Sweep, journal: list[Journaled], *, as_json: bool) -> None:
    if as_json:
        render.emit_json({**sweep_json(sweep), "actions": [journaled_json(j) for j in journal]})
        return
    rows = [(j.action.memory_id or "-", j.action.kind.value, j.action.reason, j.skipped or "done") for j in journal]
    more = len(rows) - SHOWN
    render.say(
        f"{sweep.job.value} {sweep.id}: {sweep.status.value}; {_counted(sweep.counts) or 'nothing done'}",
        *(render.table(("memory", "action", "reason", "result"), rows[:SHOWN]) if rows else []),
        *([f"… and {more:,} more; --json has them all"] if more > 0 else []),
    )


def explanation_json(memories: Memories, e: Explanation) -> dict[str, Json]:
    """Return an explanation under the stable keys of docs/reference/json.md."""
    from dataclasses import asdict

    from kb.clock import iso
    from kb_cli.memory import as_object as memory_object

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
        "contradictions": [
            {
                "memory_id": c.other if c.one == e.memory.id else c.one,
                "kind": c.kind,
                "settled_at": iso(c.settled_at),
                "settled_by": c.settled_by or None,
            }
            for c in e.contradictions
        ],
        "next": [{"at": iso(c.at), "what": c.what} for c in e.crossings],
    }


def _explanation_lines(e: Explanation) -> list[str]:
    from governance.explain import days_until
    from kb.clock import iso

    parts = {
        "why": list(e.why),
        "evidence": [f"{iso(v.at)}  {v.kind.value} {v.weight:+g}  {v.reason}" for v in e.evidence],
        "what sweeps did": [
            f"{iso(j.applied_at) or 'waiting'}  {j.action.kind.value}: {j.skipped or j.action.reason}"
            f"{_remark(j)}  [{j.sweep_id}]"
            for j in e.decisions
        ],
        "next": [f"{iso(c.at)}  {c.what.replace('_', ' ')} (in {days_until(c, e.now):.1f} days)" for c in e.crossings],
    }
    head = [f"{e.memory.id}  {e.memory.source}", render.excerpt(e.memory.text, 100)]
    body = [line for name, own in parts.items() if own for line in ("", name, *(f"   {text}" for text in own))]
    return [*head, *body]


def _remark(journaled: Journaled) -> str:
    note = journaled.action.detail.get("note")
    return f" “{note}”" if note else ""


def _counted(counts: object) -> str:
    return ", ".join(f"{n} {kind}" for kind, n in counts.items() if n) if isinstance(counts, dict) else ""


def _object_in(file: str) -> dict[str, Json]:
    """Return the JSON object in a file.

    Raises:
        InputError: there is none.
    """
    from pathlib import Path

    from kb.errors import InputError

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        found = json.loads(text)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{file} holds no plan: {error}", hint="make one with `kb govern plan JOB > p.json`"
        ) from error
    if not isinstance(found, dict):
        raise InputError(f"{file} holds no plan", hint="make one with `kb govern plan JOB > p.json`")
    return found
