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
    from governance.forecast import Forecast
    from governance.policy import Policy
    from kb.model import Json

app = typer.Typer(help="The policy that sweeps follow: show it, check it before it runs.", no_args_is_help=True)
MOST_DAYS = 3650
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
    render.say(
        f"policy {of_file.hash} of tenant {of_file.tenant}: gate {of_file.gate:g}, "
        f"consent above {of_file.mass_share:.0%} of the tenant, {of_file.promote_witnesses} witnesses promote",
        "",
        *render.table(head, rows),
    )


@app.command("check")
def check(policy: PolicyFile = None, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Refuse a policy that contradicts itself or would empty the tenant, before it runs; exit code 5."""
    from governance.check import checked

    in_force, proposed = policies(policy, tenant)
    with opened(settings_of(tenant=tenant)) as memories:
        found = checked(memories, proposed, memories.clock.now(), in_force=in_force)
    if as_json:
        render.emit_json(found.as_json())
    else:
        render.say(*_check_lines(found))
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
    with opened(settings_of(tenant=tenant)) as memories:
        (seen,) = foreseen(memories, [chosen], memories.clock.now(), days)
    if plot is not None:
        from governance.plot import plotted

        plotted(seen, plot)
    if as_json:
        render.emit_json(seen.as_json())
    else:
        render.say(*_forecast_lines(seen), *([f"drawn: {plot}"] if plot else []))


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


def _check_lines(found: Checked) -> list[str]:
    said = [f"{'REFUSED' if f.is_refusal else 'note'}  {f.said}" for f in found.findings]
    verdict = "safe to run" if found.is_safe else "must not run"
    return [f"policy {found.policy.hash} of tenant {found.policy.tenant}: {verdict}", *said]


def _forecast_lines(seen: Forecast) -> list[str]:
    """Return a forecast for a person: today, then the sum over all days, by source."""
    rows = [
        (
            s.source,
            s.live,
            s.passing,
            s.above[-1],
            sum(s.leave),
            s.due + sum(s.fall_due),
            sum(s.pruned),
            sum(s.erased),
        )
        for s in seen.sources
    ]
    then = f"above in {seen.days} d"
    head = ("source", "live", "above the gate", then, "leave it", "fall due", "pruned", "erased")
    return [f"tenant {seen.tenant}, policy {seen.policy}, {seen.days} days", "", *render.table(head, rows)]
