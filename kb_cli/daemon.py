"""`kb daemon`: runs the jobs by their schedules; `kb daemon status`: who leads, what ran, what comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kb_cli import render
from kb_cli.acting import refuse_agents
from kb_cli.session import AsJson, clock, ledger_of, loaded, log_by_default, settings_of, switch_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from jobs.status import DaemonStatus, JobLine
    from kb.memories import Memories
    from kb.settings import Settings

app = typer.Typer(help="Run the jobs by their schedules.", invoke_without_command=True)


@app.callback()
def daemon(context: typer.Context) -> None:
    """Run the jobs of `[jobs]` by their schedules until SIGTERM or Ctrl-C; then finish the running batch and exit 0.

    Any number of daemons may run on one ledger: one leads, the others take over within seconds when it dies.
    """
    if context.invoked_subcommand is not None:
        return
    refuse_agents("run the jobs", "they prune, erase and vouch", "`kb daemon status` tells what runs")
    from jobs.stopping import ended_by_signals

    with ended_by_signals() as stop:  # heard from the first moment: what is told to end while it starts ends in order
        from jobs.daemon import Daemon
        from kb.vitals import watching

        log_by_default(context)
        settings, time = loaded(), clock()
        switch_on(settings, prometheus=settings.jobs.health_port is not None)
        with ledger_of(settings) as ledger, watching(ledger, settings, time):
            Daemon(settings, ledger, clock=time, open_memories=opener(settings), stop=stop).serve()


@app.command("status")
def status(as_json: AsJson = False) -> None:
    """Say which daemons live, which of them leads, and of each job its last and its next slot."""
    from jobs.status import status_of

    settings = settings_of()
    with ledger_of(settings) as ledger:
        now = clock().now()
        state = status_of(ledger, settings.jobs, now)
    if as_json:
        render.emit_json(state.as_json())
    else:
        render.say(*_lines(state))


def opener(settings: Settings) -> Callable[[], AbstractContextManager[Memories]]:
    """Return what opens the store for one run of a job, and closes it after."""
    from kb.memories import open_memories

    return lambda: open_memories(settings, clock())


def _lines(state: DaemonStatus) -> Iterator[str]:
    from kb.clock import iso

    if not state.daemons:
        yield "no daemon has run on this ledger; `kb daemon` starts one"
    else:
        rows = [
            (
                d.beat.id[:8],
                d.health,
                "leads" if d.beat.id == state.leader else "",
                d.beat.state,
                f"{d.beat.host}:{d.beat.pid}",
                iso(d.beat.heartbeat_at) or "",
            )
            for d in state.daemons
        ]
        yield from render.table(("daemon", "health", "", "state", "process", "heartbeat"), rows)
    yield ""
    jobs = [(j.job.value, j.schedule, iso(j.next) or "never", _last(j)) for j in state.jobs]
    yield from render.table(("job", "schedule (UTC)", "next", "last"), jobs)


def _last(line: JobLine) -> str:
    from kb.clock import iso

    due = "; due now" if line.is_due else ""
    if line.last is None:
        return f"never ran{due}"
    tries = f", attempt {line.last.attempts}" if line.last.attempts > 1 else ""
    return f"{iso(line.last.slot)} {line.outcome}{tries}{due}"
