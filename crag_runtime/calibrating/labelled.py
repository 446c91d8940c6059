"""Labelled pairs as a person writes them: JSON lines, read with errors that name the line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from crag_runtime.evidence import QuestionType
from kb.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from kb.model import Instant

FORM = (
    'one JSON object a line: {"question": "...", "passage": "...", "relevant": true}; type, title and date may follow'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledPair:
    """A passage, and whether a person says that it answers the question.

    Args:
        question: self-contained.
        passage: verbatim.
        relevant: the label.
        type: of question.
        title: of the passage's document.
        dated: when the passage was published; None when unknown.
    """

    question: str
    passage: str
    relevant: bool
    type: QuestionType = QuestionType.FACTUAL
    title: str = ""
    dated: Instant | None = None


def read_pairs(path: Path) -> list[LabelledPair]:
    """Return the pairs of a JSON-lines file in UTF-8, with or without a byte order mark; blank lines are passed over.

    Raises:
        InputError: the file cannot be read, or a line is not a labelled pair; the message says which and why.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from error
    lines = text.replace("\r\n", "\n").split("\n")
    return [_pair(line, f"{path.name}:{number}") for number, line in enumerate(lines, start=1) if line.strip()]


def _pair(line: str, where: str) -> LabelledPair:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InputError(f"{where}: not JSON: {error}", hint=FORM) from error
    except RecursionError as error:
        raise InputError(f"{where}: not a labelled pair: nested too deeply", hint=FORM) from error
    if not isinstance(row, dict):
        raise InputError(f"{where}: not a JSON object", hint=FORM)
    missing = [key for key in ("question", "passage", "relevant") if key not in row]
    if missing:
        raise InputError(f"{where}: {', '.join(missing)} missing", hint=FORM)
    if not isinstance(row["relevant"], bool):
        raise InputError(f"{where}: relevant must be true or false", hint=FORM)
    return LabelledPair(
        question=_text(row, "question", where),
        passage=_text(row, "passage", where),
        relevant=row["relevant"],
        type=_type(row.get("type"), where),
        title=_text(row, "title", where) if row.get("title") else "",
        dated=_instant(row.get("date"), where),
    )


def _text(row: dict[str, Any], key: str, where: str) -> str:
    value = row[key]
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{where}: {key} must be text that is not empty", hint=FORM)
    return value.encode("utf-8", "replace").decode("utf-8")  # JSON can name half characters; nothing downstream can


def _type(value: object, where: str) -> QuestionType:
    if value is None:
        return QuestionType.FACTUAL
    try:
        return QuestionType(str(value))
    except ValueError as error:
        known = ", ".join(QuestionType)
        raise InputError(f"{where}: type {value!r} is none of {known}", hint=FORM) from error


def _instant(value: object, where: str) -> Instant | None:
    """Return an ISO date or date-time as an instant; without a zone it is UTC."""
    if value is None or value == "":
        return None
    try:
        at = datetime.fromisoformat(str(value))
    except ValueError as error:
        raise InputError(f"{where}: date {value!r} is no ISO date such as 2024-09-30", hint=FORM) from error
    try:
        return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (OverflowError, ValueError) as error:
        raise InputError(f"{where}: date {value!r} is out of range", hint=FORM) from error
