"""`kb govern run JOB`: one run of a job, by hand, by cron or by a Kubernetes CronJob."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kb_cli import render
from kb_cli.acting import acting
from kb_cli.session import AsJson, clock, settings_of
from kb_cli.sweeps import WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobs.command import SlotRun
    from jobs.context import JobContext
    from jobs.names import JobName
    from jobs.report import Tally
    from kb.model import Json

SHOWN = 20  # actions that a person sees; --json has them all


class JobOption(StrEnum):
    """Every job; the same names as in `[jobs]`, but for the hyphen."""

    SYNC = "sync"
    DECAY = "decay"
    PROMOTE = "promote"
    RECHECK = "recheck"
    PRUNE = "prune"
    GC = "gc"
    RECONCILE = "reconcile"
    VERIFY_INDEX = "verify-index"


JobArgument = Annotated[
    JobOption,
    typer.Argument(metavar="JOB", help="sync, decay, promote, recheck, prune, gc, reconcile or verify-index."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done; write nothing.")]
SlotOption = Annotated[
    str,
    typer.Option("--slot", help="The scheduled instant that this run is for, or `now`; a slot that is done is left."),
]
AllowMass = Annotated[bool, typer.Option("--allow-mass", help="Consent to retiring much of a tenant at once.")]


def run(
    job: JobArgument,
    dry_run: DryRun = False,
    slot: SlotOption = "",
    allow_mass: AllowMass = False,
    reason: Annotated[str, typer.Option("--reason", help="Why, in your own words; kept in the journal.")] = "",
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only this tenant; default: every tenant.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a job once, for every tenant.

    With --slot the run is recorded, and is made once however often and from wherever it is asked for.
    """
    from governance.running import REASON_BYTES
    from jobs.context import JobContext
    from jobs.names import JobName
    from jobs.stopping import ended_by_signals
    from kb.errors import InputError
    from kb_cli.daemon import opener

    if len(reason.encode("utf-8", "surrogatepass")) > REASON_BYTES:
        raise InputError(f"the reason is longer than {REASON_BYTES:,} bytes")
    if not dry_run:
        acting(None, f"run {job.value} on")
    if slot and (dry_run or tenant is not None):
        raise InputError("a slot is of a whole job: leave --dry-run and --tenant out")
    settings = settings_of()
    with ended_by_signals() as stop:
        context = JobContext(
            settings=settings,
            open_memories=opener(settings),
            clock=clock(),
            is_stopped=stop.is_set,
            actor="cli",
            reason=reason,
            tenant=tenant,
            is_dry=dry_run,
            allow_mass=allow_mass,
        )
        code = _run(JobName(job.value), slot, context, as_json=as_json)
    raise typer.Exit(code)


def _run(job: JobName, slot: str, context: JobContext, *, as_json: bool) -> int:
    from jobs.command import run_at_once, run_slot, slot_of
    from kb.clock import iso
    from kb.ledger import open_configured

    with open_configured(context.settings) as ledger:
        if not slot:
            tally = run_at_once(job, context, ledger)
            _show(tally, {}, as_json=as_json)
            return int(tally.exit_code)
        ran = run_slot(job, slot_of(slot, job, context), replace(context, actor="slot"), ledger)
    if ran.tally is None:
        _show_done(job, ran, as_json=as_json)
        return 0
    _show(ran.tally, {"slot": iso(ran.slot)}, as_json=as_json)
    return int(ran.tally.exit_code)


def _show(tally: Tally, more: dict[str, Json], *, as_json: bool) -> None:
    if as_json:
        render.emit_json({**tally.as_json(), **more})
    else:
        render.say(*lines(tally))
        render.tell(*problems(tally))


def _show_done(job: JobName, ran: SlotRun, *, as_json: bool) -> None:
    from kb.clock import iso

    before = ran.before
    if as_json:
        empty: dict[str, Json] = {"sweep_ids": [], "actions": [], "counts": {}, "errors": [], "notes": []}
        head: dict[str, Json] = {"job": job.value, "outcome": "already_done", "slot": iso(ran.slot), "exit_code": 0}
        done: dict[str, Json] | None = None
        if before is not None:
            done = {"holder": before.holder, "finished_at": iso(before.finished_at)}
        render.emit_json({**head, **empty, "done": done})
        return
    by = "" if before is None else f" at {iso(before.finished_at)} by {before.holder}"
    render.say(f"{job.value}: the slot {iso(ran.slot)} was done{by}")


def lines(tally: Tally) -> Iterator[str]:
    """Yield what a run did, for a person."""
    words = {name: WORDS.get(name, name).replace("_", " ") for name in tally.counts}
    counts = ", ".join(f"{n} {words[name]}" for name, n in sorted(tally.counts.items()) if n)
    would = " would do" if tally.is_dry else ""
    yield f"{tally.job.value}{would}: {counts or 'nothing'}; {tally.outcome.value}, {tally.seconds:.1f} s"
    for action in tally.actions[:SHOWN]:
        yield f"  {action['action']:10} {action['memory_id'] or '-':32} {action['reason']}"
    if len(tally.actions) > SHOWN:
        yield f"  … and {len(tally.actions) - SHOWN} more; --json lists all"
    for sweep_id in tally.sweep_ids:
        undo = "" if tally.job.value == "gc" else f"; `kb govern undo {sweep_id}` takes it back"
        yield f"  sweep {sweep_id}{undo}"
    for note in tally.notes:
        yield f"  note: {note}"


def problems(tally: Tally) -> Iterator[str]:
    """Yield what failed, for a person."""
    for trouble in tally.troubles:
        yield f"error: {trouble.where}: {trouble.error}"
        if trouble.error.hint:
            yield f"hint:  {trouble.error.hint}"
