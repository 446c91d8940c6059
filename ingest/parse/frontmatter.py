"""Reads what an author wrote above the text: YAML between `---` lines, or TOML between `+++` lines."""

from __future__ import annotations

import datetime as dt
import math
import re
import tomllib
from typing import TYPE_CHECKING, Any

from kb.errors import DocumentError, FailureCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kb.model import Json

MAX_VALUES = 10_000  # an alias bomb unfolds to billions
MAX_DEPTH = 50

_YAML = re.compile(r"\A---[ \t]*\n(.*?)(?:^|\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TOML = re.compile(r"\A\+\+\+[ \t]*\n(.*?)(?:^|\n)\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL)
_KEY = re.compile(r"\s*(#.*)?\n*\s*[\"']?[\w][\w .-]{0,60}[\"']?\s*:(\s|$)")
_HINT = "correct the block between the `---` lines at the top of the file, or remove it"


def split_front_matter(text: str) -> tuple[dict[str, Json], str]:
    """Return the front matter as JSON values and the text below it.

    Dates become ISO 8601 strings. A text that merely starts with a rule (`---`) has no front matter.

    Raises:
        DocumentError: FRONT_MATTER, with the file's line, when it does not parse.
    """
    text = text.lstrip("\n") if text[:1] == "\n" and text.lstrip("\n").startswith("---\n") else text
    found = _YAML.match(text)
    if found is not None:
        values = _yaml(found[1])
        return ({}, text) if values is None else (values, text[found.end() :])
    found = _TOML.match(text)
    if found is not None:
        return _toml(found[1]), text[found.end() :]
    return {}, text


def _yaml(block: str) -> dict[str, Json] | None:
    import yaml  # noqa: PLC0415 - loaded when first needed

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        values = yaml.load(block, Loader=loader)  # noqa: S506 - both loaders are the safe one
    except yaml.MarkedYAMLError as error:
        if not _KEY.match(block):
            return None
        line = error.problem_mark.line + 2 if error.problem_mark is not None else 1
        raise _wrong(f"front matter does not parse at line {line}: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        if not _KEY.match(block):
            return None
        raise _wrong(f"front matter does not parse: {error}") from error
    if values is None:
        return {}
    return _mapping(values) if isinstance(values, dict) else None


def _toml(block: str) -> dict[str, Json]:
    try:
        return _mapping(dict(tomllib.loads(block)))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _wrong(f"front matter does not parse: {error}") from error


def _mapping(values: Mapping[Any, object]) -> dict[str, Json]:
    result = _json(values, budget=[MAX_VALUES])
    assert isinstance(result, dict)
    return result


def _json(value: object, *, budget: list[int], depth: int = 0) -> Json:
    budget[0] -= 1
    if budget[0] < 0 or depth > MAX_DEPTH:
        raise _wrong(f"front matter holds more than {MAX_VALUES} values, or nests more than {MAX_DEPTH} deep")
    if isinstance(value, dict):
        return {_key(key): _json(item, budget=budget, depth=depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_json(item, budget=budget, depth=depth + 1) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    return value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)


def _key(key: object) -> str:
    return key.isoformat() if isinstance(key, dt.date) else str(key)


def _wrong(message: str) -> DocumentError:
    return DocumentError(FailureCode.FRONT_MATTER, message, hint=_HINT)
