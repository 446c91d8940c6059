"""Values as people type them on a command line, made into typed ones."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from kb.clock import instant as instant  # noqa: PLC0414 - typed on command lines, too
from kb.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.model import Json


def pairs(texts: Sequence[str]) -> dict[str, Json]:
    """Return `key=value` texts as a mapping; a value that is JSON is taken as JSON, any other as text.

    Raises:
        InputError: a text has no `=`, or no key.
    """
    readable(*texts)
    result: dict[str, Json] = {}
    for text in texts:
        key, mark, value = text.partition("=")
        if not mark or not key.strip():
            raise InputError(f"{text!r} is not key=value")
        try:
            result[key.strip()] = json.loads(value, parse_constant=_no_constant)
        except ValueError:
            result[key.strip()] = value
    return result


def scalar_pairs(texts: Sequence[str]) -> dict[str, str | int | float | bool]:
    """Return `key=value` texts whose values are text, numbers or booleans.

    Raises:
        InputError: a value is something else.
    """
    scalars: dict[str, str | int | float | bool] = {}
    for key, value in pairs(texts).items():
        if not isinstance(value, (str, int, float, bool)):
            raise InputError(f"{key}: only text, numbers and booleans can be compared")
        scalars[key] = value
    return scalars


def readable(*texts: str) -> None:
    """Refuse texts that are not UTF-8 as they came from the shell.

    Raises:
        InputError: one holds bytes that no character stands for.
    """
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            raise InputError(f"{shown!r} is not UTF-8", hint="convert it first") from None


def from_stdin() -> str:
    """Return what standard input holds.

    Raises:
        InputError: it is not UTF-8.
    """
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not UTF-8: {error}", hint="convert it first") from None


def _no_constant(name: str) -> Json:
    raise ValueError(name)  # NaN and Infinity are no JSON; they stay text
