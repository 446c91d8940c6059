"""`kb govern policy` and `kb govern forecast`: what the policy is, whether it is safe, what it will do."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kb_cli import render
from kb_cli.session import AsJson, Tenant, opened, settings_of

if TYPE_CHECKING:
    from governance.check import Checked
    from governance.forecast import Forecast, SourceForecast
    from governance.policy import Policy
    from kb.model import Json

app = typer.Typer(help="The policy that sweeps follow: show it, check it before it runs.", no_args_is_help=True)
MOST_DAYS = 3650
SHOWN = 20  # days that a person sees
_EVENTS = ("leave", "fall_due", "pruned", "erased")
TABLES = ("gate", "trust", "govern")  # of kb.toml: what a policy is made of

PolicyFile = Annotated[
    Path | None,
    typer.Option("--policy", help="TOML file with `gate`, `[trust.*]` and `[govern]` as in kb.toml, to try instead."),
]


@app.command("show")
def show(policy: PolicyFile = None, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Show the policy of a tenant, as the settings make it, with its hash."""
    _, of_file = policies(policy, tenant)
    if as_json:
        render.emit_json({**of_file.as_json(), "hash": of_file.hash})
        return
    rows = [
        (
            c.value,
            f"{t.confidence:g}",
            "yes" if t.verified else "no",
            f"{t.hold_days:g}",
            f"{t.half_life_days:g}",
            "yes" if t.quarantined else "no",
            f"{of_file.rules[c].prune_below:g} after {of_file.rules[c].prune_after_days:g} d",
            f"{of_file.rules[c].restore_days:g} d",
        )
        for c, t in of_file.trust.items()
    ]
    head = ("class", "prior", "verified", "hold d", "half-life d", "waits", "pruned below", "restorable")
    render.say(*_policy_lines(of_file), "", *render.table(head, rows))


@app.command("check")
def check(policy: PolicyFile = None, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Refuse a policy that contradicts itself or would empty the tenant, before it runs; exit code 5."""
    from governance.check import checked

    in_force, proposed = policies(policy, tenant)
    with opened(settings_of(tenant=tenant), is_following=False) as memories:
        found = checked(memories, proposed, memories.clock.now(), in_force=in_force)
    if as_json:
        render.emit_json({**found.as_json(), "forecast": _forecast_json(found.forecast)})
    else:
        render.say(*_check_lines(found, policy))
    if not found.is_safe:
        from kb.errors import ExitCode

        raise typer.Exit(int(ExitCode.REFUSED))


def forecast(
    days: Annotated[int, typer.Option("--days", min=1, max=MOST_DAYS, help="How far to look ahead.")] = 60,
    policy: PolicyFile = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw it into this PNG file.")] = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Tell, per day and source, what will leave the gate, fall due, be pruned and be erased."""
    from governance.candidates import foreseen

    _, chosen = policies(policy, tenant)
    with opened(settings_of(tenant=tenant), is_following=False) as memories:
        (seen,) = foreseen(memories, [chosen], memories.clock.now(), days)
    if plot is not None:
        from governance.plot import plotted
        from kb.errors import InputError

        try:
            marks = plotted(seen, plot)
        except OSError as error:
            raise InputError(f"{plot} cannot be written: {error.strerror}", hint="name another file") from error
        render.tell(*(f"{mark} in the picture is {words}: no font here can show it" for mark, words in marks.items()))
    if as_json:
        render.emit_json(_forecast_json(seen))
    else:
        render.say(*_forecast_lines(seen), *([f"drawn: {plot}"] if plot else []))


def _policy_lines(p: Policy) -> list[str]:
    return [
        f"policy {p.hash} of tenant {p.tenant}",
        f"  gate       {p.gate:g}: effective confidence to exceed for retrieval",
        f"  consent    above {p.mass_share:.0%} of the tenant and {p.mass_count:,} memories a sweep (--allow-mass)",
        f"  cap        {p.cap:,} actions a sweep, {p.batch:,} a transaction",
        f"  promotion  by {p.promote_witnesses} independent witnesses",
        f"  checks     {p.checks:,} a recheck, of one memory every {p.check_every_days:g} days",
    ]


def policies(file: Path | None, tenant: str | None) -> tuple[Policy, Policy]:
    """Return the policy in force, and the one in a file (the same without one).

    Raises:
        InputError: the file is no TOML, or holds anything else than a policy.
    """
    from governance.policy import policy_of
    from kb.settings import load_settings

    settings = settings_of(tenant=tenant)
    in_force = policy_of(settings, settings.tenant)
    if file is None:
        return in_force, in_force
    proposed = load_settings(tenant=tenant, **_tables(file))
    return in_force, policy_of(proposed, settings.tenant)


def _tables(file: Path) -> dict[str, Json]:
    from kb.errors import InputError

    try:
        tables: dict[str, Json] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read as TOML: {error}") from error
    if unknown := sorted(set(tables) - set(TABLES)):
        hint = f"a policy is made of {', '.join(TABLES)}, written as in kb.toml"
        raise InputError(f"{file} holds what is no policy: {', '.join(unknown)}", hint=hint)
    return tables


def _check_lines(found: Checked, file: Path | None) -> list[str]:
    seen, policy = found.forecast, found.policy
    verdict = "safe to run" if found.is_safe else "must not run"
    said = [f"{'refused' if f.is_refusal else 'warning'}  {f.code}: {f.said}" for f in found.findings]
    option = f" --policy {file}" if file else ""
    above = f"{seen.now('passing'):,} → {seen.total('above')[-1]:,}"
    return [
        f"policy {policy.hash} of tenant {policy.tenant}: {verdict}",
        f"in {seen.days} days: {above} above the gate, {seen.now('active'):,} → {seen.kept[-1]:,} active",
        *said,
        f"day by day: kb govern forecast --days {seen.days}{option}",
    ]


def _forecast_json(seen: Forecast) -> dict[str, Json]:
    from kb.clock import iso

    return {**seen.as_json(), "at": iso(seen.at)}


def _forecast_lines(seen: Forecast) -> list[str]:
    """Return a forecast for a person: the sum over all days, by source; then the days on which something happens."""
    rows = [_summed(s) for s in seen.sources]
    if len(rows) > 1:
        rows.append(("all", *(sum(column) for column in zip(*(row[1:] for row in rows), strict=True))))
    then = f"in {seen.days} d"
    head = ("source", "live", "above the gate", then, "leave it", "fall due", "pruned", "erased")
    first = f"tenant {seen.tenant}, policy {seen.policy}, {seen.days} days; no document changes, and nobody decides"
    if not rows:
        return [first, "", "nothing is stored that could change"]
    return [first, "", *render.table(head, rows), *_day_lines(seen)]


def _summed(s: SourceForecast) -> tuple[str | int, ...]:
    due = s.due + sum(s.fall_due)
    return (s.source, s.live, s.passing, s.above[-1], sum(s.leave), due, sum(s.pruned), sum(s.erased))


def _day_lines(seen: Forecast) -> list[str]:
    from kb.clock import iso
    from kb.trust import DAY_MS

    daily = zip(*(seen.total(name) for name in ("above", *_EVENTS)), strict=True)
    rows = [(str(iso(seen.at + (n + 1) * DAY_MS))[:10], *day) for n, day in enumerate(daily) if any(day[1:])]
    if not rows:
        return ["", "on no day does a memory leave the gate, fall due, or go"]
    more = [f"… and {len(rows) - SHOWN:,} more days; --json has them all"] if len(rows) > SHOWN else []
    return ["", *render.table(("day", "above", "leave it", "fall due", "pruned", "erased"), rows[:SHOWN]), *more]
