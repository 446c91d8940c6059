"""`kb rollback`: take back what was bad and all that was made from it; says how far it reaches before it acts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from governance.objects import rolled_back_object
from kb_cli import render
from kb_cli.session import AsJson, Tenant, opened, settings_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from governance.rollback import Radius
    from kb.ledger.descent import Given
    from kb.sweeps import Sweep

SHOWN = 20  # answers that a person sees; --json has them all

Source = Annotated[
    str, typer.Option("--source", help="A source's name, a URI with all below it, `URI*`, a host, or search://NAME/.")
]
Document = Annotated[str, typer.Option("--document", help="One document, by URI or id, with all its versions.")]
Batch = Annotated[str, typer.Option("--batch", help="What one run of `kb ingest` brought in, by its run_id.")]
Since = Annotated[str, typer.Option("--since", help="What was written since then: ISO 8601 or -7d; narrows a source.")]
Memory = Annotated[list[str] | None, typer.Option("--memory", help="A memory or an answer, by id; repeatable.")]
PlanOnly = Annotated[bool, typer.Option("--plan", help="Say how far it reaches; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
By = Annotated[str | None, typer.Option("--by", help="Who does it; default: the user who runs the command.")]
Reason = Annotated[str, typer.Option("--reason", help="Why, in your own words; kept in the journal.")]


def rollback(
    source: Source = "",
    document: Document = "",
    batch: Batch = "",
    since: Since = "",
    memory: Memory = None,
    plan: PlanOnly = False,
    yes: Yes = False,
    by: By = None,
    reason: Reason = "",
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Quarantine what was bad with all that was made from it, bring back what it had replaced, and keep it out."""
    from governance.policy import policy_of
    from governance.rollback import carried_out, surveyed
    from governance.selection import Selection
    from kb_cli.acting import acting, actor_of
    from kb_cli.session import clock
    from kb_cli.values import instant, readable

    readable(source, document, batch, since, *(memory or []), reason, by or "")
    actor = actor_of(by) if plan else acting(by, "roll back")  # anybody may look
    wanted = Selection(
        source=source,
        document=document,
        batch=batch,
        memories=tuple(memory or ()),
        since=instant(since, clock().now()) if since else None,
    )
    policy = policy_of(settings := settings_of(tenant=tenant), settings.tenant)
    with opened(settings) as memories:
        radius = surveyed(memories, wanted, policy, memories.clock.now())
        sweeps: list[Sweep] = []
        if not plan and radius.plan.actions:
            _consent(radius, yes=yes, as_json=as_json)
            sweeps = carried_out(memories, wanted, radius, policy=policy, actor=actor.name, reason=reason)
    if as_json:
        render.emit_json(rolled_back_object(radius, sweeps, is_plan=plan))
    else:
        render.say(*_lines(radius, sweeps, is_plan=plan))


def _consent(radius: Radius, *, yes: bool, as_json: bool) -> None:
    """Ask the person, where there is one.

    Raises:
        Refused: nobody can be asked, or the answer was no.
    """
    from kb.errors import Refused

    if yes:
        return
    counts = radius.counts
    reach = f"it would quarantine {counts['quarantined']} memories and reaches {counts['answers']} answers"
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        if not as_json:
            render.say(*report_lines(radius))
        raise Refused(f"nothing was rolled back: {reach}", hint="if that is meant, repeat with --yes; --plan shows it")
    render.say(*report_lines(radius))
    if not typer.confirm("Roll this back?", err=True):
        raise Refused("nothing was rolled back", hint="--plan shows it again")


def _lines(radius: Radius, sweeps: Sequence[Sweep], *, is_plan: bool) -> list[str]:
    if not radius.plan.actions:
        return ["nothing to roll back: all of it was rolled back before, or nothing was written"]
    if is_plan:
        return [*report_lines(radius), "", "nothing was changed; --yes rolls it back"]
    done = [f"sweep {s.id}: {_counted(s.counts)}" for s in sweeps]
    back = [f"take it back with: kb govern undo {s.id}" for s in reversed(sweeps)]
    return [*report_lines(radius, verb="quarantined"), "", *done, *back]


def report_lines(radius: Radius, verb: str = "would be quarantined") -> list[str]:
    """Return how far a rollback reaches, for people."""
    c = radius.counts
    kinds = ", ".join(f"{c[kind]} {name}" for kind, name in _KINDS if c[kind]) or "none"
    lines = [
        f"memories   {c['memories']} ({kinds}), {c['answer_keys']} answer-keys; {c['quarantined']} {verb}",
        f"documents  {c['documents_put_back']} back to an earlier version, {c['documents_deleted']} without one",
        f"revived    {c['revived']} memories that had been replaced",
        f"evidence   what it had said of {c['hearers']} other memories is withdrawn",
        f"answers    {c['answers']} rest on it",
    ]
    lines += [_answer_line(a) for a in radius.answers[:SHOWN]]
    if len(radius.answers) > SHOWN:
        lines.append(f"   and {len(radius.answers) - SHOWN} more; --json lists them")
    return [*lines, *(f"note       {note}" for note in radius.plan.notes)]


_KINDS = (("document", "from documents"), ("web", "from the web"), ("note", "notes"))


def _answer_line(answer: Given) -> str:
    from governance.rollback import excerpt
    from kb.clock import iso

    scope = answer.scope
    to = " ".join(part for part in (scope.user, scope.agent, scope.conversation) if part) or "everybody"
    return f"   {iso(answer.created_at)}  to {to}: {excerpt(answer.question)}  [{answer.id}]"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in counts.items()) or "nothing"
