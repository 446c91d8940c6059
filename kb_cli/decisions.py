"""`kb memory verify|reject|pin|unpin|restore|annotate`: decisions of people, journaled and undone like any sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from governance.objects import decided_object
from kb_cli import render
from kb_cli.acting import RoleOption, actor_of
from kb_cli.session import AsJson, Tenant, opened, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from governance.policy import Policy
    from governance.review import Decided
    from kb.memories import Memories
    from kb.sweeps import SweepJob

Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Memories' ids.")]
By = Annotated[str | None, typer.Option("--by", help="Who decides; default: the user who runs the command.")]
As = Annotated[
    RoleOption,
    typer.Option("--role", help="Whose credentials these are; an agent may only annotate. KB_ROLE=agent settles it."),
]
Reason = Annotated[str, typer.Option("--reason", help="Why, in your own words; kept in the journal.")]


HELP = {
    "verify": "Vouch for memories: verified, confidence 0.95, held as curated ones are; settles what contradicts them.",
    "reject": "Refuse memories: quarantined until a person verifies them or undoes this.",
    "pin": "Keep memories from ever being pruned; their confidence decays as before.",
    "unpin": "Let memories be pruned again when they are due.",
    "restore": "Take back that memories were retired or quarantined: they stand again as they stood before.",
    "annotate": "Leave a remark in the journal of memories, shown by `kb govern explain`.",
}


def register(app: typer.Typer) -> None:
    """Add the decisions to `kb memory`."""
    for name, told in HELP.items():
        app.command(name, help=told)(_deciding(name))


def _deciding(name: str) -> Callable[..., None]:
    """Return the command of a decision: all of them are asked for in the same way."""

    def command(
        ids: Ids,
        by: By = None,
        role: As = RoleOption.PERSON,
        reason: Reason = "",
        tenant: Tenant = None,
        as_json: AsJson = False,
    ) -> None:
        _decide(name, ids, by, role, reason, tenant, as_json=as_json)

    return command


def _decide(
    name: str, ids: list[str], by: str | None, role: RoleOption, reason: str, tenant: str | None, *, as_json: bool
) -> None:
    from governance.policy import policy_of
    from governance.review import decide
    from kb.model import MemoryId
    from kb.sweeps import SweepJob
    from kb_cli.values import readable

    readable(*ids, by or "", reason)
    settings = settings_of(tenant=tenant)
    actor = actor_of(by, role)
    job = SweepJob(name)
    with opened(settings) as memories:
        policy = policy_of(settings, settings.tenant)
        decided = decide(memories, list(map(MemoryId, ids)), job, policy=policy, actor=actor, reason=reason)
        notes = _notes(memories, job, decided, policy)
        shown, lines = decided_object(memories, decided, notes), _lines(memories, job, decided)
    if as_json:
        render.emit_json(shown)
    else:
        render.say(*lines)
        render.tell(*(f"refused: {id_}: {why}" for id_, why in decided.refused.items()), *notes)
    if decided.refused:
        raise typer.Exit(_code(decided))


def _lines(memories: Memories, job: SweepJob, decided: Decided) -> list[str]:
    from kb.trust import effective

    now, policies = memories.clock.now(), memories.policies
    rows = [
        (
            m.id,
            "refused" if m.id in decided.refused else "done",
            m.standing.value,
            f"{effective(m.trust, now, policies[m.source_class].half_life):.2f}",
            render.excerpt(m.text, 60),
        )
        for m in decided.memories
    ]
    lines = render.table(("memory", job.value, "standing", "confidence", "text"), rows)
    if decided.sweep is not None:
        lines.append(f"take it back with: kb govern undo {decided.sweep.id}")
    return lines


def _notes(memories: Memories, job: SweepJob, decided: Decided, policy: Policy) -> list[str]:
    """Return which restored memories the next prune would retire again."""
    from governance.explain import explain

    if job.value != "restore":
        return []
    now = memories.clock.now()
    done = [m.id for m in decided.memories if m.id not in decided.refused]
    explained = {id_: explain(memories, id_, policy, now) for id_ in done}
    due = [id_ for id_, e in explained.items() if any(c.what == "prune" and c.at <= now for c in e.crossings)]
    hint = "it is still faded, so the next prune retires it again, unless you verify or pin it"
    return [f"{id_}: {hint}" for id_ in due]


def _code(decided: Decided) -> int:
    from kb.errors import ExitCode

    return int(ExitCode.PARTIAL if len(decided.refused) < len(decided.memories) else ExitCode.REFUSED)
