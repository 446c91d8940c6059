"""Output: one JSON object on stdout with --json, readable text without. The only place that prints."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kb.errors import KbError
    from kb.model import Json


# What a terminal obeys instead of showing it: a memory's text must not move the cursor or turn the writing around.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def emit_json(value: Mapping[str, Json]) -> None:
    """Write one JSON object to stdout."""
    is_narrow = "utf" not in (sys.stdout.encoding or "utf").lower()
    _write(sys.stdout, json.dumps(value, ensure_ascii=is_narrow, allow_nan=False) + "\n")


def write(text: str) -> None:
    """Write text to stdout without ending the line: a piece of an answer that is still being written."""
    _write(sys.stdout, _shown(text))


def say(*lines: str) -> None:
    """Write lines to stdout."""
    _write(sys.stdout, _shown("".join(f"{line}\n" for line in lines)))


def tell(*lines: str) -> None:
    """Write lines to stderr: notices and progress that are not data."""
    _write(sys.stderr, _shown("".join(f"{line}\n" for line in lines)))


def _shown(text: str) -> str:
    return _OBEYED.sub("", text)


def _write(stream: TextIO, text: str) -> None:
    """Write at once: a watch goes on, and its reader waits. A reader who has gone (`| head`) does not stop the work.

    What the stream's encoding cannot say is written as an escape, never an error.

    Raises:
        DependencyError: stdout takes no more; a plan that is cut must not pass for a whole one.
    """
    try:
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        silence("stdout" if stream is sys.stdout else "stderr")
    except OSError as error:
        is_data = stream is sys.stdout
        silence("stdout" if is_data else "stderr")
        if is_data:
            from kb.errors import DependencyError

            hint = "free some space, or write it elsewhere; what the command did is done"
            raise DependencyError(f"the output cannot be written: {error.strerror}", hint=hint) from error


def silence(*names: Literal["stdout", "stderr"]) -> None:
    """Let all further output on these streams go nowhere, since nobody reads it."""
    nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    for name in names:
        first: TextIO | None = getattr(sys, f"__{name}__")
        if first is not None:
            os.dup2(nowhere.fileno(), first.fileno())  # what is left in its buffer goes there, too
        setattr(sys, name, nowhere)


def open_closed() -> None:
    """Let output go nowhere on streams that whoever called has closed (`>&-`): the work is done all the same."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - until the process ends


def is_heard() -> bool:
    """Return whether anybody reads the output."""
    return getattr(sys.stdout, "name", "") != os.devnull


def fail(error: KbError, *, as_json: bool) -> None:
    """Report an error: to stderr for people; as an object on stdout, too, for programs."""
    tell(f"error: {error}")
    if error.hint:
        tell(f"hint:  {error.hint}")
    if as_json:
        from ingest.report import error_json

        said = error_json(error)
        if moved := getattr(error, "moved", ()):  # what an exact plan, or an undo, found changed
            said["moved"] = [key.replace("\x1f", " ") for key in moved]
        from kb.errors import DependencyError

        with suppress(DependencyError):  # stdout takes no more: the code and stderr say it
            emit_json({"error": said})


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return a table as lines; columns as wide as their widest cell, wide characters counted as two."""
    cells = [list(head), *([str(c) for c in row] for row in rows)]
    widths = [max(_width(row[i]) for row in cells) for i in range(len(head))]
    return ["  ".join(c + " " * (w - _width(c)) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells]


def excerpt(text: str, width: int = 160) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def _width(text: str) -> int:
    return sum(2 if ord(c) > 0x2E7F else 1 for c in text)  # noqa: PLR2004 - where the wide scripts begin
