"""Output: one JSON object on stdout with --json, readable text without. The only place that prints."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kb.errors import KbError
    from kb.model import Json


def emit_json(value: Mapping[str, Json]) -> None:
    """Write one JSON object to stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()  # a watch goes on, and its reader waits for this line


def say(*lines: str) -> None:
    """Write lines to stdout."""
    sys.stdout.writelines(f"{line}\n" for line in lines)


def tell(*lines: str) -> None:
    """Write lines to stderr: notices and progress that are not data."""
    sys.stderr.writelines(f"{line}\n" for line in lines)


def fail(error: KbError, *, as_json: bool) -> None:
    """Report an error: to stderr for people; as an object on stdout, too, for programs."""
    tell(f"error: {error}")
    if error.hint:
        tell(f"hint:  {error.hint}")
    if as_json:
        emit_json(
            {
                "error": {
                    "type": type(error).__name__,
                    "message": str(error),
                    "hint": error.hint,
                    "exit_code": int(error.exit_code),
                }
            }
        )


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
