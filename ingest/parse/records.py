"""JSON and line-delimited JSON as text a person can read: `key: value` lines, one block a record."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from ingest.parse.builder import DocumentBuilder
from ingest.parse.decode import decode_text
from kb.errors import DocumentError, FailureCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.blocks import ParsedDocument
    from ingest.parse.raw import RawFile
    from kb.model import Json

MAX_DEPTH = 200

_HINT = "check it with a JSON validator; JSON with comments belongs in a .jsonc file"


def parse_json(file: RawFile) -> ParsedDocument:
    """Return the document of a .json file: a list's items, or an object's parts, are its blocks.

    Raises:
        DocumentError: ENCODING; CORRUPT, with line and column, when it is not JSON.
    """
    decoded = decode_text(file.data)
    value = _loaded(decoded.text, line=1)
    builder = DocumentBuilder()
    if isinstance(value, dict):
        flat: dict[str, Json] = {key: item for key, item in value.items() if not isinstance(item, dict | list)}
        _add(builder, flat)
        for key, item in value.items():
            if key not in flat:
                _add(builder, {key: item})
    else:
        for item in value if isinstance(value, list) else [value]:
            _add(builder, item)
    document = builder.build(properties={"encoding": decoded.encoding})
    return replace(document, warnings=decoded.warnings)


def parse_json_lines(file: RawFile) -> ParsedDocument:
    """Return the document of an .ndjson or .jsonl file: a block for each line.

    Raises:
        DocumentError: ENCODING; CORRUPT, with the line, when one is not JSON.
    """
    decoded = decode_text(file.data)
    builder = DocumentBuilder()
    records = 0
    for number, line in enumerate(decoded.text.split("\n"), 1):
        if line.strip():
            _add(builder, _loaded(line, line=number))
            records += 1
    document = builder.build(properties={"encoding": decoded.encoding, "records": records})
    return replace(document, warnings=decoded.warnings)


def _loaded(text: str, *, line: int) -> Json:
    try:
        value: Json = json.loads(text)
    except json.JSONDecodeError as error:
        message = f"not JSON at line {line + error.lineno - 1}, column {error.colno}: {error.msg}"
        raise DocumentError(FailureCode.CORRUPT, message, hint=_HINT) from error
    except (ValueError, RecursionError) as error:
        raise DocumentError(FailureCode.CORRUPT, f"not JSON that can be read: {error}", hint=_HINT) from error
    return value


def _add(builder: DocumentBuilder, value: Json) -> None:
    lines = list(_lines(value))
    nested = any(line.startswith((" ", "- ")) for line in lines)
    if nested:
        builder.unfenced("\n".join(lines))
    else:
        builder.paragraph("\n".join(lines))


def _lines(value: Json, depth: int = 0) -> Iterator[str]:
    """Yield a value as indented lines; strings of several lines keep them."""
    indent = "  " * depth
    if depth > MAX_DEPTH:
        raise DocumentError(FailureCode.CORRUPT, f"nested more than {MAX_DEPTH} deep", hint=_HINT)
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, dict | list) and item:
                yield f"{indent}{key}:"
                yield from _lines(item, depth + 1)
            elif not isinstance(item, dict | list):
                yield f"{indent}{key}: {_scalar(item, indent)}"
    elif isinstance(value, list):
        yield from _items(value, depth)
    else:
        yield f"{indent}{_scalar(value, indent)}"


def _items(values: list[Json], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for item in values:
        if isinstance(item, dict | list):
            nested = list(_lines(item, depth + 1))
            if nested:
                yield f"{indent}- {nested[0].lstrip()}"
                yield from nested[1:]
        else:
            yield f"{indent}- {_scalar(item, indent)}"


def _scalar(value: Json, indent: str) -> str:
    if isinstance(value, str):
        return value.strip().replace("\r", "").replace("\n", f"\n{indent}  ")
    return json.dumps(value)
