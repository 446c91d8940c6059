"""JSON lines as a person writes them, read with errors that name the line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crag_runtime.evidence import QuestionType
from kb.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Line:
    """One object of a file.

    Args:
        row: the object.
        number: of the line, from 1.
        where: the file's name and the number, for people.
        form: what a line should look like, for people.
    """

    row: dict[str, Any]
    number: int
    where: str
    form: str

    def fault(self, what: str) -> InputError:
        """Return the error that says what is wrong with the line."""
        return InputError(f"{self.where}: {what}", hint=self.form)

    def text(self, key: str) -> str:
        """Return a text that is not empty.

        Raises:
            InputError: it is none.
        """
        value = self.row[key]
        if not isinstance(value, str) or not value.strip():
            raise self.fault(f"{key} must be text that is not empty")
        return value.encode("utf-8", "replace").decode("utf-8")  # JSON can name half characters; nothing else can

    def truth(self, key: str) -> bool:
        """Return true or false.

        Raises:
            InputError: it is neither.
        """
        value = self.row[key]
        if not isinstance(value, bool):
            raise self.fault(f"{key} must be true or false")
        return value

    def kind(self) -> QuestionType | None:
        """Return the type of question; None where the line names none.

        Raises:
            InputError: it is no type of question.
        """
        value = self.row.get("type")
        if value is None:
            return None
        try:
            return QuestionType(str(value))
        except ValueError as error:
            raise self.fault(f"type {value!r} is none of {', '.join(QuestionType)}") from error

    def need(self, *keys: str) -> None:
        """Raise InputError where one of the keys is missing."""
        missing = [key for key in keys if key not in self.row]
        if missing:
            raise self.fault(f"{', '.join(missing)} missing")


def read_lines(path: Path, form: str) -> Iterator[Line]:
    """Yield the objects of a JSON-lines file in UTF-8, with or without a byte order mark; blank lines are passed over.

    Raises:
        InputError: the file cannot be read, or a line is no JSON object.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from error
    lines = text.replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _line(line, number, path.name, form)


def _line(text: str, number: int, name: str, form: str) -> Line:
    where = f"{name}:{number}"
    try:
        row = json.loads(text)
    except ValueError as error:
        raise InputError(f"{where}: not JSON: {error}", hint=form) from error
    except RecursionError as error:
        raise InputError(f"{where}: not JSON that can be read: nested too deeply", hint=form) from error
    if not isinstance(row, dict):
        raise InputError(f"{where}: not a JSON object", hint=form)
    return Line(row, number, where, form)
