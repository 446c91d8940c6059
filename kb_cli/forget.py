"""`kb memory forget`: the one irreversible act. Says how far it reaches, asks, erases everywhere, reads back."""

from __future__ import annotations

import sys
from itertools import count
from typing import TYPE_CHECKING, Annotated

import typer

from kb_cli import render
from kb_cli.acting import RoleOption, acting
from kb_cli.decisions import As, By, Reason
from kb_cli.session import AsJson, Tenant, opened, settings_of

if TYPE_CHECKING:
    from governance.actor import Actor
    from governance.reach import Reach, Wanted
    from jobs.erasure import Erased

SHOWN = 20  # of each list that a person sees; --json has them all

Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Ids of memories, or of answers.")]
Source = Annotated[
    str, typer.Option("--source", help="All of a source: its registered name, a URI with all below it, or a host.")
]
Erase = Annotated[bool, typer.Option("--erase", help="Erase for good; without it, nothing is done.")]
Derived = Annotated[bool, typer.Option("--with-derived", help="Also what was written from it.")]
Copies = Annotated[bool, typer.Option("--with-copies", help="Also other memories that say one of its sentences.")]
PlanOnly = Annotated[bool, typer.Option("--plan", help="Say what would go; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]


def register(app: typer.Typer) -> None:
    """Add the command to `kb memory`."""
    app.command("forget")(forget)


def forget(
    ids: Ids = None,
    source: Source = "",
    erase: Erase = False,
    with_derived: Derived = False,
    with_copies: Copies = False,
    plan: PlanOnly = False,
    yes: Yes = False,
    by: By = None,
    role: As = RoleOption.PERSON,
    reason: Reason = "",
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Erase memories for good: texts, vectors, caches, checkpoints, and the answers that rest on them."""
    from governance.erase import refuse_nameless
    from governance.reach import Wanted
    from governance.selection import Selection
    from kb.errors import Refused
    from kb_cli.values import readable

    readable(*(ids or []), source, by or "", reason)
    if not erase:
        hint = "`kb memory reject ID` keeps it out of answers, `kb rollback` takes a source back; both can be undone"
        raise Refused("nothing was forgotten: to forget is to erase, and that needs --erase", hint=hint)
    refuse_nameless(ids or (), source)
    selection = Selection(memories=tuple(ids or ()), source=source)
    wanted = Wanted(selection=selection, with_derived=with_derived, with_copies=with_copies)
    settings = settings_of(tenant=tenant)
    if plan:
        _show_plan(settings, wanted, as_json=as_json)
        return
    erased = _erased(settings, wanted, acting(by, "erase", role), reason, yes=yes, as_json=as_json)
    if as_json:
        render.emit_json(erased.as_json())
    else:
        render.say(*_lines(erased))
    if not erased.is_complete:
        raise typer.Exit(_code())


def _show_plan(settings: object, wanted: Wanted, *, as_json: bool) -> None:
    from governance.erase import surveyed
    from governance.policy import policy_of
    from kb.settings import Settings

    assert isinstance(settings, Settings)
    with opened(settings) as memories:
        reach = surveyed(memories, wanted, policy_of(settings, settings.tenant), memories.clock.now())
    if as_json:
        render.emit_json({"plan": True, **reach.as_json()})
    else:
        render.say(*reach_lines(reach), "", "nothing was changed; --yes erases it")


def _erased(settings: object, wanted: Wanted, actor: Actor, reason: str, *, yes: bool, as_json: bool) -> Erased:
    from governance.policy import policy_of
    from jobs.erasure import forget as forgotten
    from kb.settings import Settings

    assert isinstance(settings, Settings)
    times = count()
    with opened(settings) as memories:
        return forgotten(
            memories,
            settings,
            wanted,
            policy=policy_of(settings, settings.tenant),
            actor=actor,
            reason=reason,
            consent=lambda reach: _consent(reach, yes=yes, as_json=as_json, has_grown=next(times) > 0),
        )


def _consent(reach: Reach, *, yes: bool, as_json: bool, has_grown: bool = False) -> None:
    """Ask the person, where there is one; again, when it has grown since.

    Raises:
        Refused: nobody can be asked, or the answer was no.
    """
    from kb.errors import Refused

    if yes:
        return
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        if not as_json:
            render.say(*reach_lines(reach))
        told = f"{len(reach.members)} memories and {len(reach.answers)} answers would go for good"
        raise Refused(f"nothing was erased: {told}", hint="if that is meant, repeat with --yes; --plan shows it")
    render.say(*(("", "more has come since, and would go as well:") if has_grown else ()), *reach_lines(reach))
    if not typer.confirm("Erase this for good? It cannot be undone.", err=True):
        raise Refused("nothing was erased", hint="--plan shows it again")


def reach_lines(reach: Reach) -> list[str]:
    """Return what an erasure takes and what it leaves, for people; no text of a memory."""
    from kb.clock import iso

    c = reach.counts
    rows = ", ".join(f"{c[name]} {name}" for name in _ROWS if c.get(name))
    lines = [
        f"memories   {len(reach.members)}, {len(reach.keys)} answer-keys; {len(reach.documents)} documents as a whole",
        f"rows       {rows or 'none'}",
        f"answers    {len(reach.answers)} rest on it and go, with their questions",
        *_some([f"   {iso(a.created_at)}  [{a.id}]" for a in reach.answers]),
    ]
    if reach.other_answers:
        lines.append(f"           and {len(reach.other_answers)} of other tenants")
    for what, flag, stay in (("derived", "--with-derived", reach.derived), ("copies", "--with-copies", reach.copies)):
        if stay:
            lines.append(f"{what:10} {len(stay)} stay: {flag} takes them, too")
            lines += _some([f"   {m.kind.value}, {m.standing.value}  [{m.id}]" for m in stay])
    return lines


_ROWS = ("vectors", "versions", "citations", "evaluations", "evidence", "contradictions", "lineage", "images")


def _some(lines: list[str]) -> list[str]:
    more = len(lines) - SHOWN
    return [*lines[:SHOWN], f"   and {more} more; --json lists them"] if more > 0 else lines


def _lines(erased: Erased) -> list[str]:
    lines = reach_lines(erased.reach) if erased.reach is not None else []
    lines += [f"finished   erasure {id_} of an earlier command" for id_ in erased.resumed]
    if erased.stayed:
        lines.append(f"copies     {len(erased.stayed)} were written while that was at work, and stay: erase them by id")
        lines += _some([f"   [{id_}]" for id_ in erased.stayed])
    if erased.reach is None and not erased.resumed:
        lines.append("all of it was erased before")
    lines += [f"sweep      {s.id}" for s in erased.sweeps]
    if purged := ", ".join(f"{n} {name}" for name, n in _counted(erased.purged).items() if n):
        lines.append(f"purged     {purged}")
    if erased.is_complete:
        return [*lines, "read back  nothing is left of it, in ledger and index; files were written anew"]
    left = ", ".join(f"{n} {name}" for name, n in erased.left.items() if n)
    lines += [f"left       {left}"] if left else []
    lines += [f"left       {erased.index_rows} rows in the index"] if erased.index_rows else []
    return [*lines, *(f"problem    {p}" for p in erased.problems), "repeat the command, or `kb govern run gc`"]


def _counted(purged: dict[str, int]) -> dict[str, int]:
    names = {"grades": "grades", "threads": "unfinished questions", "write_backs": "write-backs"}
    return {names.get(name, name): number for name, number in purged.items()}


def _code() -> int:
    from kb.errors import ExitCode

    return int(ExitCode.DEPENDENCY)
