"""Sweeps, plans and journals as the command line shows them: to programs as JSON, to people as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from governance.objects import gone_among, whole_json
from kb_cli import render

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from governance.plan import Plan
    from kb.model import Json
    from kb.sweeps import Action, Journaled, Sweep

WORDS = {"look": "look noted"}  # it is kept that something was looked at, and no memory changes
SHOWN = 20  # actions that a person sees; a file or --json has them all


def plan_lines(made: Plan) -> list[str]:
    """Return a plan for a person: counts, the first actions, what a reader should know."""
    rows = [(_whom(a), a.kind.value, a.reason, _detail(a)) for a in made.actions]
    return [
        f"{made.job.value} of tenant {made.tenant} would do: {counted(made.counts) or 'nothing'}",
        *(render.table(("memory", "action", "reason", ""), rows[:SHOWN]) if rows else []),
        *_more(len(rows), "`kb govern plan JOB > plan.json` has them all"),
        *(f"note: {note}" for note in made.notes),
    ]


def show(sweep: Sweep, journal: Sequence[Journaled], *, as_json: bool) -> None:
    """Print a sweep with its journal."""
    if as_json:
        render.emit_json(whole_json(sweep, journal))
    else:
        render.say(*_head(sweep, gone_among(journal)), *_journal_lines(journal))


def history_lines(sweeps: Sequence[Sweep]) -> list[str]:
    """Return sweeps for a person, a line each."""
    from kb.clock import iso

    if not sweeps:
        return ["no sweep has changed anything yet"]
    rows = [
        (s.id, iso(s.started_at), s.job.value, s.status.value, s.actor, counted(s.counts), _about(s)) for s in sweeps
    ]
    return render.table(("sweep", "began", "job", "status", "by", "actions", ""), rows)


def counted(counts: Mapping[str, int]) -> str:
    """Return counts in words; "" for nothing."""
    return ", ".join(f"{n:,} {WORDS.get(kind, kind)}" for kind, n in counts.items() if n)


def _head(sweep: Sweep, gone: int) -> list[str]:
    from kb.clock import iso
    from kb.sweeps import SweepStatus

    facts = [
        ("done", counted(sweep.counts) or "nothing"),
        ("by", f"{sweep.actor}: “{sweep.reason}”" if sweep.reason else sweep.actor),
        ("began", f"{iso(sweep.started_at)}, ended {iso(sweep.finished_at) or '-'}, under policy {sweep.policy}"),
        ("undoes", sweep.undoes or ""),
        ("gone", f"{gone:,} of what it was to put back had been erased" if gone and sweep.undoes else ""),
        ("undone by", sweep.undone_by or ""),
    ]
    head = [f"{sweep.job.value} {sweep.id}: {sweep.status.value}", *(f"  {k:11}{v}" for k, v in facts if v)]
    is_final = sweep.status is not SweepStatus.DONE or sweep.counts.get("erase")
    return head if is_final else [*head, f"take it back with: kb govern undo {sweep.id}"]


def _journal_lines(journal: Sequence[Journaled]) -> list[str]:
    if not journal:
        return []
    rows = [(_whom(j.action), j.action.kind.value, j.action.reason, _result(j), _detail(j.action)) for j in journal]
    head = ("memory", "action", "reason", "result", "")
    return ["", *render.table(head, rows[:SHOWN]), *_more(len(rows), "--json has them all")]


def _result(journaled: Journaled) -> str:
    if journaled.skipped:
        return f"skipped: {journaled.skipped}"
    return "waits" if journaled.applied_at is None else "done"


def _whom(action: Action) -> str:
    return action.memory_id or str(action.detail.get("doc_id") or "-")


def _detail(action: Action) -> str:
    """Return the part of a detail that tells a person most."""
    match action.detail:
        case {"note": str(note)}:
            return f"“{note}”"
        case {"effective": float(effective)}:
            return f"confidence {effective:.3f}"
        case {"other": str(other)}:
            return f"against {other}"
        case {"said": str(said)}:
            return said
        case _:
            return _looked(action.detail)


def _looked(detail: Mapping[str, Json]) -> str:
    """Return what a look has left: how far it got, so that the next one goes on there, or what a check found."""
    from kb.clock import iso
    from kb.ledger.looking import START

    match detail:
        case {"upto": [int(at), _]} if at > START.at:
            return f"looked at what had changed up to {iso(at)}; nothing else changes"
        case {"upto": [_, str(id_)]}:
            return f"the next look goes on after {id_}" if id_ else "all were looked at; the next look begins anew"
        case {"found": str(found)}:
            return f"a check was made and found it {found}; nothing else changes"
    return ""


def _about(sweep: Sweep) -> str:
    return f"undoes {sweep.undoes}" if sweep.undoes else render.excerpt(sweep.reason, 50)


def _more(number: int, where: str) -> list[str]:
    return [f"… and {number - SHOWN:,} more; {where}"] if number > SHOWN else []
