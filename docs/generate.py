"""Writes docs/reference from the code, so that the reference cannot lie: `make docs`; `--check` fails on drift."""

from __future__ import annotations

import argparse
import enum
import re
import sys
import tomllib
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticUndefined

from crag_runtime.refusal import RefusalReason
from ingest.walk import SkipReason
from kb import errors, telemetry
from kb.settings import (
    ClassSettings,
    Settings,
    SourceSettings,
    ThresholdSettings,
    default_cache_dir,
    default_data_dir,
)
from kb.settings_governance import ClassRuleSettings, RuleSettings
from kb.telemetry.names import GAUGES, is_counter
from kb_cli.answers import WAYS_OUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pydantic.fields import FieldInfo

REFERENCE = Path(__file__).parent / "reference"
MARK = "<!-- Made by docs/generate.py from the code: edit there, then `make docs`. -->"

SETTINGS_INTRO = """A flag wins over the environment, the environment over `./kb.toml`, that over the user's own
`kb.toml` (`$XDG_CONFIG_HOME/kb/kb.toml`), and that over the default. `kb init` writes a commented `kb.toml`. An unknown
key or a value out of range is an error that names it. Secrets are never printed."""
CLASSES_INTRO = """Prior trust of a source class; a key that is not set keeps the default. Environment:
`KB_TRUST__<CLASS>__<KEY>`. The defaults:"""
THRESHOLDS_INTRO = """Bands of the evaluator and the gate, per type of question: `factual`, `analytical`, `creative`.
`kb eval calibrate` fits them and prints these lines."""
RULES_INTRO = """Rules of one source class, of one tenant, or of one class of one tenant. The narrower table wins; a key
that is not set is as in `[govern]`. Environment: `KB_GOVERN__CLASSES__<CLASS>__<KEY>`, and so on."""
FAILURES_INTRO = """A failing file never stops a run: the run exits 3 and lists each failure with its source, one of
these codes, a message and a hint. A failed file is tried again when it, or the pipeline, changes."""
TELEMETRY_INTRO = """Off, and free, until `telemetry_endpoint` (`KB_TELEMETRY_ENDPOINT`), or the standard
`OTEL_EXPORTER_OTLP_ENDPOINT`, names an OTLP/HTTP collector; metrics are also on the page `/metrics` of a server and a
daemon. [How to observe](../howto/observe.md). No secret is ever an attribute; questions, passages and answers are only
where `telemetry.capture_content` allows it. A span that failed has `error.type`."""

METRICS_INTRO = """Names that end in `_total` count up. Gauges are read from the ledger at most every
`telemetry.gauge_seconds`, in a thread of their own. The others are histograms. Prometheus writes the names of the
conventions with `_` for `.`, and their unit behind."""

REFUSALS_INTRO = """A refused question still exits 0, unless a dependency was away (4). `kb ask` names the reasons, the
main one first, and what to do about each."""

MEANINGS: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "meanings.toml").read_text("utf-8"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of the command line, as the parser knows it."""

    path: str  # "kb memory add"
    help: str
    parameters: tuple[Any, ...]  # typer's own parameter objects
    is_group: bool


def commands() -> list[Command]:
    """Return every command and group that is not hidden, in the order in which `--help` lists them."""
    from typer.main import get_command  # noqa: PLC0415 - only this page needs the command line

    from kb_cli.main import app  # noqa: PLC0415

    return list(_walk("kb", get_command(app)))


def _walk(path: str, command: Any) -> Iterator[Command]:  # noqa: ANN401 - typer ships no public type for it
    children = getattr(command, "commands", {})
    shown = tuple(p for p in command.params if not getattr(p, "hidden", False) and p.name != "help")
    yield Command(path=path, help=command.help or "", parameters=shown, is_group=bool(children))
    for name, child in children.items():
        if not child.hidden:
            yield from _walk(f"{path} {name}", child)


def cli_page() -> str:
    """Return the reference of every command."""
    parts = ["# Commands", "Every command takes `--help`. Results go to stdout, progress and logs to stderr."]
    for command in commands():
        parts.append(f"## `{command.path}`")
        parts.append(_paragraphs(command.help))
        arguments = [p for p in command.parameters if not p.opts[0].startswith("-")]
        options = [p for p in command.parameters if p.opts[0].startswith("-")]
        if not command.is_group:
            words = [_argument_word(p) for p in arguments]
            parts.append(f"    {' '.join([command.path, *words, *(['[OPTIONS]'] if options else [])])}")
        rows = [_parameter_row(p) for p in command.parameters]
        if rows:
            parts.append(_table(("parameter", "value", "default", "meaning"), rows))
    return _page(parts)


def _paragraphs(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.strip() for line in text.replace("\b", "").splitlines())).strip()


def _argument_name(parameter: Any) -> str:  # noqa: ANN401
    return str(parameter.metavar or parameter.name.upper()).strip("[].")


def _argument_word(parameter: Any) -> str:  # noqa: ANN401
    word = _argument_name(parameter) + ("…" if parameter.nargs == -1 else "")
    return word if parameter.required else f"[{word}]"


def _parameter_row(parameter: Any) -> tuple[str, ...]:  # noqa: ANN401
    return (
        _parameter_names(parameter),
        _annotation(parameter),
        _parameter_default(parameter),
        _cell(parameter.help or ""),
    )


def _parameter_names(parameter: Any) -> str:  # noqa: ANN401
    if not parameter.opts[0].startswith("-"):
        return f"`{_argument_name(parameter)}`"
    return ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))


def _annotation(parameter: Any) -> str:  # noqa: ANN401
    if getattr(parameter, "is_flag", False):
        return "flag"
    is_option = parameter.opts[0].startswith("-")
    text = (parameter.metavar if is_option else None) or _type_name(parameter.type_descriptor.annotation)
    return f"{_cell(text)}{', repeatable' if getattr(parameter, 'multiple', False) or parameter.nargs == -1 else ''}"


def _parameter_default(parameter: Any) -> str:  # noqa: ANN401
    default = parameter.default
    if parameter.required:
        return "required"
    if default is None or default is False or default in ([], (), ""):
        return ""
    return f"`{default.value if isinstance(default, enum.Enum) else default}`"


def settings_page() -> str:
    """Return the reference of every setting."""
    rows = [_setting_row(name, field, "KB_") for name, field in Settings.model_fields.items() if name not in _TABLES]
    tables = [
        part
        for name in ("ingest", "chat", "search", "ask", "govern", "jobs", "telemetry")
        for part in (f"## `[{name}]`", _model_table(Settings.model_fields[name].annotation, f"KB_{name.upper()}__"))
    ]
    parts = [
        "# Settings",
        SETTINGS_INTRO,
        _table(("key", "environment", "value", "default", "meaning"), rows),
        *tables,
        "## `[ask.thresholds.<type>]`",
        THRESHOLDS_INTRO,
        _table(
            ("key", "value", "meaning"),
            [(f"`{n}`", _field_type(f), MEANINGS["thresholds"][n]) for n, f in ThresholdSettings.model_fields.items()],
        ),
        "## `[govern.classes.<class>]`, `[govern.tenants.<tenant>]`, `[govern.tenants.<tenant>.classes.<class>]`",
        RULES_INTRO,
        _table(
            ("key", "value", "in"),
            [
                (f"`{n}`", _field_type(f), "all three" if n in ClassRuleSettings.model_fields else "a tenant's table")
                for n, f in RuleSettings.model_fields.items()
                if n not in _NESTED
            ],
        ),
        "## `[trust.<class>]`",
        CLASSES_INTRO,
        _table(("key", "value"), [(f"`{n}`", _field_type(f)) for n, f in ClassSettings.model_fields.items()]),
        _policies(),
        "## `[[sources]]`",
        "A folder to keep in step; one entry each.",
        _model_table(SourceSettings, ""),
    ]
    return _page(parts)


_NESTED = {"thresholds", "classes", "tenants"}  # tables of their own
_TABLES = {"ingest", "chat", "search", "ask", "govern", "jobs", "telemetry", "trust", "sources"}


def _policies() -> str:
    rows = [
        (
            f"`{c}`",
            f"{p.confidence:g}",
            _yes(flag=p.verified),
            f"{p.hold_days:g}",
            f"{p.half_life_days:g}",
            _yes(flag=p.quarantined),
            f"{p.strength:g}",
        )
        for c, p in Settings.model_construct(trust={}).policies.items()
    ]
    return _table(("class", "confidence", "verified", "hold_days", "half_life_days", "quarantined", "strength"), rows)


def _yes(*, flag: bool) -> str:
    return "true" if flag else "false"


def _model_table(model: Any, prefix: str) -> str:  # noqa: ANN401
    assert issubclass(model, BaseModel)
    rows = [_setting_row(name, field, prefix) for name, field in model.model_fields.items() if name not in _NESTED]
    return _table(("key", "environment", "value", "default", "meaning"), rows)


def _setting_row(name: str, field: FieldInfo, prefix: str) -> tuple[str, ...]:
    variable = f"`{prefix}{name.upper()}`" if prefix else ""
    return (f"`{name}`", variable, _field_type(field), _field_default(field), _cell(field.description or ""))


def _field_type(field: FieldInfo) -> str:
    bounds = [
        f"{sign} {value:g}"
        for m in field.metadata
        for sign, value in (("≥", getattr(m, "ge", None)), (">", getattr(m, "gt", None)), ("≤", getattr(m, "le", None)))
        if value is not None
    ]
    return ", ".join([_cell(_type_name(field.annotation)), *bounds])


def _field_default(field: FieldInfo) -> str:
    known = {default_data_dir: "`$XDG_DATA_HOME/kb`", default_cache_dir: "`$XDG_CACHE_HOME/kb`"}
    if field.default_factory is not None:
        return known.get(typing.cast("Callable[[], Path]", field.default_factory), "")
    if field.default is PydanticUndefined:
        return "required"
    if field.default is None or field.default == "":
        return ""
    return f"`{field.default}`"


def _type_name(annotation: Any) -> str:  # noqa: ANN401
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        return " or ".join(f"`{value}`" for value in typing.get_args(annotation))
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_type_name(a) for a in typing.get_args(annotation) if a is not type(None))
    if origin in (list, tuple, typing.Annotated):
        return _type_name(typing.get_args(annotation)[0])
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return " or ".join(f"`{member.value}`" for member in annotation)
    names = {str: "text", int: "integer", float: "number", bool: "true or false", Path: "path", SecretStr: "secret"}
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))


def failures_page() -> str:
    """Return the reference of every failure code."""
    rows = [(f"`{code}`", *MEANINGS["failures"][code]) for code in errors.FailureCode]
    refusals = [
        (f"`{r}`", MEANINGS["refusals"][r], f"{WAYS_OUT[r][0].upper()}{WAYS_OUT[r][1:]}.") for r in RefusalReason
    ]
    return _page(
        [
            "# Why a document failed, a file was skipped, a question was refused",
            FAILURES_INTRO,
            _table(("code", "when", "what to do"), rows),
            "## Why a file was skipped",
            "A skipped file is no failure: the run still exits 0. What an ignore rule leaves out is not listed.",
            _table(("reason", "what the file is"), [(f"`{r}`", MEANINGS["skips"][r]) for r in SkipReason]),
            "## Why a question was refused",
            REFUSALS_INTRO,
            _table(("reason", "when", "what to do"), refusals),
        ]
    )


def exits_page() -> str:
    """Return the reference of exit codes."""
    rows = [(str(code.value), MEANINGS["exits"][code.name.lower()]) for code in errors.ExitCode]
    return _page(["# Exit codes", "The same for every command.", _table(("code", "meaning"), rows)])


def telemetry_page() -> str:
    """Return the reference of span and metric names."""
    return _page(
        [
            "# Spans and metrics",
            TELEMETRY_INTRO,
            "## Spans",
            _table(("span", "encloses; attributes"), [(f"`{s}`", MEANINGS["spans"][s]) for s in telemetry.Span]),
            "## Metrics",
            METRICS_INTRO,
            _table(
                ("metric", "kind", "measures; labels"),
                [(f"`{m}`", _kind(m), MEANINGS["metrics"][m]) for m in telemetry.Metric],
            ),
        ]
    )


def _kind(metric: telemetry.Metric) -> str:
    if is_counter(metric):
        return "counter"
    return "gauge" if metric in GAUGES else "histogram"


PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli_page,
    "settings.md": settings_page,
    "failures.md": failures_page,
    "exit-codes.md": exits_page,
    "spans-and-metrics.md": telemetry_page,
}


def stale(reference: Path = REFERENCE) -> list[str]:
    """Return the names of pages that are not what the code says."""
    return [name for name, page in PAGES.items() if _read(reference / name) != page()]


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _page(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in (MARK, *parts) if part) + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> int:
    """Write the pages, or with --check say which are stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is stale")
    if parser.parse_args().check:
        names = stale()
        if names:
            print(f"stale: {', '.join(names)}; run `make docs`", file=sys.stderr)
        return 1 if names else 0
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
