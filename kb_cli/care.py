"""Care of the store: `kb status`, `kb doctor`, `kb reindex`, `kb reconcile`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kb_cli import render
from kb_cli.acting import refuse_agents_care
from kb_cli.session import AsJson, Tenant, opened, settings_of

if TYPE_CHECKING:
    from kb.model import Json
    from kb.status import Status


def status(tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Count memories by standing and source, and say what leaves the gate when."""
    from kb.status import status as status_of

    settings = settings_of(tenant=tenant)
    with opened(settings) as memories:
        state = status_of(memories, settings.tenant, is_lite=settings.index_uri is None)
    if as_json:
        render.emit_json(_as_object(state))
    else:
        render.say(*_lines(state))


def doctor(as_json: AsJson = False) -> None:
    """Check each dependency and say how to mend what fails."""
    from dataclasses import asdict
    from itertools import chain

    from crag_runtime import doctor as runtime
    from kb.doctor import examined
    from kb.errors import ExitCode

    settings = settings_of()
    with opened(settings) as memories:
        checks = []
        for check in chain(examined(memories, settings), runtime.examined(settings, memories.clock)):
            checks.append(check)
            if not as_json:
                render.say(f"{'ok  ' if check.ok else 'FAIL'} {check.name:20} {check.detail}")
                if check.fix:
                    render.say(f"     fix: {check.fix}")
    healthy = all(check.ok for check in checks)
    if as_json:
        render.emit_json({"ok": healthy, "checks": [asdict(check) for check in checks]})
    raise typer.Exit(ExitCode.DONE if healthy else ExitCode.DEPENDENCY)


def reindex(
    embedder: Annotated[
        bool, typer.Option("--embedder", help="Embed every memory with the configured embedder first.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Rebuild the index from the ledger in a new collection, then switch to it."""
    from kb.rebuild import reindex as rebuild

    refuse_agents_care("rebuild the index")
    settings = settings_of()
    with opened(settings) as memories:
        done = rebuild(memories, re_embed=embedder)
    if as_json:
        render.emit_json(
            {
                "collection": done.collection,
                "memories": done.memories,
                "embedded": done.embedded,
                "outbox_pending": done.pending,
            }
        )
    else:
        render.say(f"{done.collection}: {done.memories} memories, {done.embedded} embedded anew")


def reconcile(as_json: AsJson = False) -> None:
    """Compare the index with the ledger and repair what differs."""
    from kb.rebuild import reconcile as repair

    refuse_agents_care("repair the index")
    settings = settings_of()
    with opened(settings) as memories:
        found = repair(memories)
    counts = {"missing": len(found.missing), "stale": len(found.stale), "orphaned": len(found.orphaned)}
    if as_json:
        render.emit_json({"repaired": len(found.ids), **counts})
    else:
        words = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
        render.say(f"repaired {words}" if words else "index and ledger agree")


def _as_object(state: Status) -> dict[str, Json]:
    from kb.clock import iso

    return {
        "tenant": state.tenant,
        "standings": dict(state.standings),
        "sources": [
            {"source": s.source, "source_class": s.source_class, "standing": s.standing, "count": s.count}
            for s in state.sources
        ],
        "failures": state.failures,
        "leaving": {
            "outside_gate": state.leaving.outside,
            "within_days": {str(days): n for days, n in state.leaving.within.items()},
            "first_at": iso(state.leaving.first_at),
            "due_for_verification": state.leaving.due,
        },
        "outbox": {"pending": state.outbox_pending, "oldest_at": iso(state.outbox_oldest_at)},
        "store": {
            "embedder": state.embedder,
            "collection": state.collection,
            "rows": state.rows,
            "advice": state.advice,
        },
    }


def _lines(state: Status) -> list[str]:
    from kb.clock import iso

    standings = ", ".join(f"{n} {name}" for name, n in state.standings.items() if n) or "no memories"
    lines = [f"tenant {state.tenant}: {standings}"]
    rows = [(s.source, s.source_class, s.standing, s.count) for s in state.sources]
    if rows:
        lines += [f"  {line}" for line in render.table(("source", "class", "standing", "count"), rows)]
    out = state.leaving
    leaving = ", ".join(f"{n} within {days} d" for days, n in out.within.items())
    lines.append(f"leaving the gate: {out.outside} are outside, {leaving}; next {iso(out.first_at) or 'never'}")
    if out.due:
        lines.append(f"due for re-verification: {out.due}")
    if state.failures:
        lines.append(f"failed documents: {state.failures}; `kb ingest --retry-failed` tries them again")
    lag = f"{state.outbox_pending} changes wait since {iso(state.outbox_oldest_at)}"
    lines.append(f"index: {lag if state.outbox_pending else 'in step'}; {state.rows} rows in {state.collection or '-'}")
    return [*lines, state.advice] if state.advice else lines
