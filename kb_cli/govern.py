"""`kb govern`: plan, apply, explain and undo what sweeps do to memories."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from governance.objects import gone_among, journal_of, sweep_json, sweep_of
from kb.sweeps import SweepJob
from kb_cli import render
from kb_cli.acting import acting
from kb_cli.decisions import By, Reason
from kb_cli.session import AsJson, Tenant, opened, settings_of
from kb_cli.sweeps import history_lines, plan_lines, show

if TYPE_CHECKING:
    from governance.plan import Plan
    from kb.memories import Memories
    from kb.model import Json
    from kb.settings import Settings

app = typer.Typer(help="Plan, apply, explain and undo what sweeps do to memories.", no_args_is_help=True)
MAKE = "make one with `kb govern plan JOB > plan.json`"


class SweepOption(StrEnum):
    """Jobs that change memories by a plan."""

    DECAY = "decay"
    PRUNE = "prune"
    PROMOTE = "promote"
    RECHECK = "recheck"
    GC = "gc"


JobArgument = Annotated[SweepOption, typer.Argument(metavar="JOB", help="decay, prune, promote, recheck or gc.")]
SweepArgument = Annotated[str, typer.Argument(metavar="SWEEP", help="The sweep's id; `kb govern history` shows ids.")]
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

    actor = acting(by, "apply plans to")
    made = plan_of_json(_object_in(file))
    settings = settings_of(tenant=tenant or made.tenant)
    if settings.tenant != made.tenant:
        hint = f"--tenant {made.tenant}, or leave it out"
        raise InputError(f"the plan is for tenant {made.tenant}, not {settings.tenant}", hint=hint)
    with opened(settings) as memories:
        sweep = applied(
            memories,
            made,
            policy=policy_of(settings, made.tenant),
            actor=actor.name,
            reason=reason,
            allow_mass=allow_mass,
            is_exact=True,
        )
        journal = journal_of(memories, sweep)
    show(sweep, journal, as_json=as_json)


@app.command("history")
def history(
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many.")] = 20,
    job: Annotated[
        SweepJob | None, typer.Option("--job", help="Only sweeps of this job, or decisions of this kind.")
    ] = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """List sweeps, the latest first: what jobs did, and what people decided."""
    settings = settings_of(tenant=tenant)
    with opened(settings) as memories, memories.ledger.read() as tx:
        sweeps = tx.sweeps.list(limit, tenant=settings.tenant, job=job)
    if as_json:
        render.emit_json({"sweeps": [sweep_json(s) for s in sweeps]})
    else:
        render.say(*history_lines(sweeps))


@app.command("show")
def shown(sweep: SweepArgument, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Show one sweep with its journal: what it did to which memory, and why."""
    settings = settings_of(tenant=tenant)
    with opened(settings) as memories:
        found = sweep_of(memories, sweep, settings.tenant)
        journal = journal_of(memories, found)
    show(found, journal, as_json=as_json)


@app.command("undo")
def undo(
    sweep: SweepArgument,
    by: By = None,
    reason: Reason = "",
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Put back what a sweep changed, or refuse and list what has changed since; exit code 3: some of it was erased."""
    from governance.policy import policy_of
    from governance.undo import undo as undone
    from kb.errors import ExitCode
    from kb.sweeps import SweepId

    actor = acting(by, "undo what was done to")
    settings = settings_of(tenant=tenant)
    with opened(settings) as memories:
        policy = policy_of(settings, settings.tenant)
        done = undone(memories, SweepId(sweep), settings.tenant, actor=actor.name, policy=policy, reason=reason)
        journal = journal_of(memories, done)
    show(done, journal, as_json=as_json)
    if gone_among(journal):
        raise typer.Exit(ExitCode.PARTIAL)


def planned_for(memories: Memories, settings: Settings, job: str) -> Plan:
    """Return the plan of a job for the settings' tenant at this instant."""
    from governance.policy import policy_of
    from jobs.sweeps import plan_of

    policy = policy_of(settings, settings.tenant)
    return plan_of(memories, settings, SweepJob(job), policy, memories.clock.now())


def _object_in(file: str) -> dict[str, Json]:
    """Return the JSON object in a file.

    Raises:
        InputError: there is none.
    """
    from pathlib import Path

    from kb.errors import InputError
    from kb_cli.values import from_stdin

    where = "standard input" if file == "-" else file
    try:
        text = from_stdin() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise InputError(f"{where} cannot be read: {why}", hint=MAKE) from error
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} holds no plan: it is not JSON", hint=MAKE) from error
    if not isinstance(found, dict):
        raise InputError(f"{where} holds no plan", hint=MAKE)
    return found
