"""What the product knows: its settings, its command lines, its schedules and its routes."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel, SecretStr

from jobs.schedule import DAY, HOUR, MINUTE, WEEK, Schedule, parsed
from kb.settings import Settings
from kb.settings_governance import JobsSettings
from tests.deploy.rendered import ROOT

JOBS = ("sync", "decay", "promote", "recheck", "prune", "gc", "reconcile", "verify-index")
DAYS = ("thu", "fri", "sat", "sun", "mon", "tue", "wed")  # as the epoch's first week has them


@dataclass(frozen=True)
class Setting:
    """One setting."""

    is_secret: bool


@cache
def settings() -> dict[tuple[str, ...], Setting]:
    """Return every setting by its path, e.g. ("serve", "port")."""
    return dict(_walk(Settings, ()))


def _walk(model: type[BaseModel], above: tuple[str, ...]) -> Any:
    for name, field in model.model_fields.items():
        path = (*above, name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _walk(field.annotation, path)
        else:
            kinds = {field.annotation, *get_args(field.annotation)}
            yield path, Setting(is_secret=SecretStr in kinds)


def variables() -> dict[str, Setting]:
    """Return every setting by its variable of the environment."""
    return {"KB_" + "__".join(path).upper(): setting for path, setting in settings().items()}


def is_accepted(words: list[str]) -> bool:
    """Return whether the command line's parser takes these words; nothing is run."""
    from typer.main import get_command

    from kb_cli.main import app

    try:
        return _descended(get_command(app), words)
    except Exception as error:
        if not hasattr(error, "exit_code"):
            raise
        return bool(error.exit_code == 0)  # the parser's own: a usage error, or the end after --help


def _descended(command: Any, words: list[str]) -> bool:
    context: Any = None
    while True:
        context = command.make_context(command.name, list(words), parent=context)
        rest = [*getattr(context, "_protected_args", ()), *context.args]
        if not hasattr(command, "commands") or not rest:
            return not rest
        _, command, words = command.resolve_command(context, rest)


def schedules() -> dict[str, Schedule]:
    """Return the default schedule of every job, by its name on the command line."""
    defaults = JobsSettings().model_dump()
    return {job: parsed(defaults[job.replace("-", "_")], setting=job) for job in JOBS}


def cron_of(schedule: Schedule) -> str:
    """Return a schedule as cron has it; Sunday is 0."""
    minute, hour, day = _clock(schedule)
    match schedule.period:
        case p if p == HOUR:
            return f"{minute} * * * *"
        case p if p == DAY:
            return f"{minute} {hour} * * *"
        case p if p == WEEK:
            return f"{minute} {hour} * * {(day + 4) % 7}"
    raise AssertionError(schedule.text)


def calendar_of(schedule: Schedule) -> str:
    """Return a schedule as systemd has it."""
    minute, hour, day = _clock(schedule)
    match schedule.period:
        case p if p == HOUR:
            return f"*-*-* *:{minute:02}:00 UTC"
        case p if p == DAY:
            return f"*-*-* {hour:02}:{minute:02}:00 UTC"
        case p if p == WEEK:
            return f"{DAYS[day].title()} *-*-* {hour:02}:{minute:02}:00 UTC"
    raise AssertionError(schedule.text)


def _clock(schedule: Schedule) -> tuple[int, int, int]:
    return schedule.phase % HOUR // MINUTE, schedule.phase % DAY // HOUR, schedule.phase // DAY


def routes() -> set[str]:
    """Return every path that the server's sources register by a decorator or a route object."""
    found: set[str] = set()
    for source in sorted((ROOT / "serving").rglob("*.py")):
        for call in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call):
                found |= {a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    return {path for path in found if path.startswith("/")}
