"""Writes docs/reference from the code, so that the reference cannot lie: `make docs`; `--check` fails on drift."""

from __future__ import annotations

import argparse
import enum
import re
import sys
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticUndefined

from ingest.walk import SkipReason
from kb import errors, telemetry
from kb.settings import ClassSettings, Settings, SourceSettings, default_cache_dir, default_data_dir

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
FAILURES_INTRO = """A failing file never stops a run: the run exits 3 and lists each failure with its source, one of
these codes, a message and a hint. A failed file is tried again when it, or the pipeline, changes."""
TELEMETRY_INTRO = """Off, and free, until `telemetry_endpoint` (`KB_TELEMETRY_ENDPOINT`), or the standard
`OTEL_EXPORTER_OTLP_ENDPOINT`, names an OTLP/HTTP collector.
No document text and no secret is ever an attribute."""

# What a reader needs beyond the code's own one-line comment: when it happens, and what to do about it.
FAILURES = {
    errors.FailureCode.EMPTY: (
        "The file has no bytes, or only white space.",
        "Nothing to do; delete it or add it to `.kbignore` to silence the report.",
    ),
    errors.FailureCode.NO_TEXT: (
        "The file has bytes but no text: scanned pages, images, an outline without words.",
        "Run OCR over it first, and ingest the result.",
    ),
    errors.FailureCode.ENCRYPTED: (
        "A password or certificate is needed to read it.",
        "Save an unprotected copy.",
    ),
    errors.FailureCode.CORRUPT: (
        "The file is truncated, or not what its name says.",
        "Open it in its own program and save it again.",
    ),
    errors.FailureCode.UNSUPPORTED: (
        "No parser reads this kind of file.",
        "Convert it to one of the formats in the how-to on ingestion, or ignore it.",
    ),
    errors.FailureCode.LEGACY_FORMAT: (
        "A `.doc` or `.ppt` of the old binary kind.",
        "Save it as `.docx` or `.pptx`.",
    ),
    errors.FailureCode.ENCODING: (
        "The bytes fit no text encoding that we trust; guessing would store garbage.",
        "Save it as UTF-8.",
    ),
    errors.FailureCode.TOO_LARGE: (
        "It is over a limit of size, of unpacked size, or of chunks (`ingest.max_bytes`, `ingest.max_chunks`).",
        "Split it, or raise the limit.",
    ),
    errors.FailureCode.TIMEOUT: (
        "The parser was stopped at its wall-clock limit (`ingest.parse_seconds`).",
        "Split the file, or raise the limit.",
    ),
    errors.FailureCode.OUT_OF_MEMORY: (
        "The parser was stopped at its memory limit (`ingest.parse_memory`).",
        "Split the file, or raise the limit.",
    ),
    errors.FailureCode.PERMISSION: (
        "The file may not be read by the user who runs `kb`.",
        "Change its permissions.",
    ),
    errors.FailureCode.VANISHED: (
        "The file went away, or kept changing, while it was read.",
        "Run again; nothing was stored of it.",
    ),
    errors.FailureCode.FRONT_MATTER: (
        "The front matter does not parse, or a governed value in it is out of range. It is not guessed.",
        "Correct the value that the message names.",
    ),
    errors.FailureCode.PARSER_ERROR: (
        "The parser raised something unforeseen.",
        "Check that the file opens elsewhere; then report it with the message.",
    ),
    errors.FailureCode.EMBED_FAILED: (
        "The embedder refused this document's text for good; other documents go on.",
        "See the message: usually a text that the endpoint's policy or limits reject.",
    ),
    errors.FailureCode.STORE_FAILED: (
        "The ledger could not take this document; nothing of it was stored.",
        "Run again; `kb doctor` checks the ledger.",
    ),
}

EXITS = {
    errors.ExitCode.DONE: "Done.",
    errors.ExitCode.UNEXPECTED: "An unexpected error, or stored data that breaks an invariant.",
    errors.ExitCode.USAGE: "The command line, a setting or the request is wrong.",
    errors.ExitCode.PARTIAL: "Some items failed; each is listed with its code. The rest is done.",
    errors.ExitCode.DEPENDENCY: "A dependency (ledger, index, embedder) is unreachable; try again later.",
    errors.ExitCode.REFUSED: "A guard refused: a mass deletion, a changed embedder.",
    errors.ExitCode.LOCKED: "Another run holds the lock.",
    errors.ExitCode.INTERRUPTED: "Interrupted (Ctrl-C). What was stored stays; the next run goes on from there.",
}

SKIPS = {
    SkipReason.TOO_LARGE: "Larger than `ingest.max_bytes`.",
    SkipReason.SPECIAL_FILE: "A FIFO, a socket or a device.",
    SkipReason.LINK_DANGLING: "A link to nothing.",
    SkipReason.LINK_OUTSIDE: "A link that leads out of the source's folder.",
    SkipReason.LINK_LOOP: "A link to a folder above itself, or to itself.",
    SkipReason.LINK_REPEATED: "A link to a file that was found under its own name already.",
    SkipReason.NAME_ENCODING: "Its name is not valid UTF-8: rename it.",
    SkipReason.NAME_REPEATED: "Another file's name is the same in Unicode NFC, or with `/` for `\\`: rename one.",
    SkipReason.NAME_TOO_LONG: "Its path is too long for a URI of 2,000 bytes: shorten a name.",
    SkipReason.UNREADABLE_FOLDER: "A folder that may not be listed. Deletions are withheld until it can be.",
    SkipReason.VANISHED: "Gone while the folder was walked.",
}


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
    ingest = Settings.model_fields["ingest"].annotation
    parts = [
        "# Settings",
        SETTINGS_INTRO,
        _table(("key", "environment", "value", "default", "meaning"), rows),
        "## `[ingest]`",
        _model_table(ingest, "KB_INGEST__"),
        "## `[trust.<class>]`",
        CLASSES_INTRO,
        _table(("key", "value"), [(f"`{n}`", _field_type(f)) for n, f in ClassSettings.model_fields.items()]),
        _policies(),
        "## `[[sources]]`",
        "A folder to keep in step; one entry each.",
        _model_table(SourceSettings, ""),
    ]
    return _page(parts)


_TABLES = {"ingest", "trust", "sources"}


def _policies() -> str:
    rows = [
        (
            f"`{c}`",
            f"{p.confidence:g}",
            _yes(flag=p.verified),
            f"{p.hold_days:g}",
            f"{p.half_life_days:g}",
            _yes(flag=p.quarantined),
        )
        for c, p in Settings.model_construct(trust={}).policies.items()
    ]
    return _table(("class", "confidence", "verified", "hold_days", "half_life_days", "quarantined"), rows)


def _yes(*, flag: bool) -> str:
    return "true" if flag else "false"


def _model_table(model: Any, prefix: str) -> str:  # noqa: ANN401
    assert issubclass(model, BaseModel)
    rows = [_setting_row(name, field, prefix) for name, field in model.model_fields.items()]
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
    if origin in (list, tuple):
        return _type_name(typing.get_args(annotation)[0])
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return " or ".join(f"`{member.value}`" for member in annotation)
    names = {str: "text", int: "integer", float: "number", bool: "true or false", Path: "path", SecretStr: "secret"}
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))


def failures_page() -> str:
    """Return the reference of every failure code."""
    rows = [(f"`{code}`", FAILURES[code][0], FAILURES[code][1]) for code in errors.FailureCode]
    return _page(
        [
            "# Why a document failed",
            FAILURES_INTRO,
            _table(("code", "when", "what to do"), rows),
            "## Why a file was skipped",
            "A skipped file is no failure: the run still exits 0. What an ignore rule leaves out is not listed.",
            _table(("reason", "what the file is"), [(f"`{reason}`", SKIPS[reason]) for reason in SkipReason]),
        ]
    )


def exits_page() -> str:
    """Return the reference of exit codes."""
    rows = [(str(code.value), EXITS[code]) for code in errors.ExitCode]
    return _page(["# Exit codes", "The same for every command.", _table(("code", "meaning"), rows)])


def telemetry_page() -> str:
    """Return the reference of span and metric names."""
    return _page(
        [
            "# Spans and metrics",
            TELEMETRY_INTRO,
            "## Spans",
            "\n".join(f"* `{span.value}`" for span in telemetry.Span),
            "## Metrics",
            "\n".join(f"* `{metric.value}`" for metric in telemetry.Metric),
        ]
    )


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
