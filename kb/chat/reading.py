"""Structured replies as text: the schema that goes out, and the value that comes back. Pure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pydantic import TypeAdapter, ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

LONGEST = 100_000  # characters of a reply that are searched
TRIES = 40  # braces tried as the beginning of an object
SHOWN = 200  # characters of a reason

# Strict endpoints refuse these words; the reply is held to them here all the same.
_NOT_SENT = frozenset({"default", "title", "maxLength", "minLength", "examples"})
_THINKING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_ASK = (
    "Reply with one JSON object and nothing else: no explanation, no code fence. "
    "The object must be valid under this JSON schema:\n{schema}"
)


class UnreadableError(ValueError):
    """The reply does not fit the schema; the message says why, without quoting the reply.

    `is_shaped`: it is an object with the schema's names, and only a value in it is out of bounds, which grammars of
    some servers let through. The form of asking was understood then.
    """

    def __init__(self, reason: str, *, is_shaped: bool = False) -> None:
        super().__init__(reason)
        self.is_shaped = is_shaped


def strict_schema(schema: type[object]) -> dict[str, Any]:
    """Return a pydantic model's JSON schema in the form strict endpoints take: all required, nothing additional."""
    strict: dict[str, Any] = _strict(TypeAdapter(schema).json_schema())
    return strict


def in_words(schema: type[object]) -> str:
    """Return what to tell a model whose endpoint knows no schemas."""
    return _ASK.format(schema=json.dumps(strict_schema(schema), ensure_ascii=False))


def parsed(schema: type[T], text: str) -> T:
    """Return the value of a reply that must be one JSON object.

    Raises:
        UnreadableError: it is not, or does not fit.
    """
    try:
        value = json.loads(text, parse_constant=_refused_constant)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(_reason(schema, error)) from error
    return fitting(schema, value)


def found(schema: type[T], text: str) -> T:
    """Return the first JSON object in a reply that fits; whatever stands around it, thinking aloud included.

    Raises:
        UnreadableError: there is none.
    """
    reason = f"no JSON object in it for {schema.__name__}"
    for value in _objects(_THINKING.sub("", text[:LONGEST])):
        try:
            return _fitting(schema, value)
        except ValueError as error:
            reason = _reason(schema, error)
    raise UnreadableError(reason)


def fitting(schema: type[T], value: object) -> T:
    """Return a decoded JSON value as `schema`.

    Raises:
        UnreadableError: it does not fit.
    """
    try:
        return _fitting(schema, value)
    except ValueError as error:
        raise UnreadableError(_reason(schema, error), is_shaped=_is_shaped(schema, value)) from error


def _is_shaped(schema: type[object], value: object) -> bool:
    names = strict_schema(schema).get("properties", {})
    return isinstance(value, dict) and bool(names) and set(names) <= set(value)


def _fitting(schema: type[T], value: object) -> T:
    if not isinstance(value, dict):
        raise UnreadableError(f"a JSON {type(value).__name__}, not an object")
    fitted: T = TypeAdapter(schema).validate_python(value)
    return fitted


def _objects(text: str) -> Iterator[object]:
    """Yield the JSON objects in a text, in order; of nested ones the outermost that can be read."""
    decoder = json.JSONDecoder(strict=False, parse_constant=_refused_constant)
    at = text.find("{")
    for _ in range(TRIES):
        if at < 0:
            return
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            yield value
        at = text.find("{", end)


def _refused_constant(name: str) -> NoReturn:
    raise UnreadableError(f"{name} is no JSON number")


def _reason(schema: type[object], error: Exception) -> str:
    if isinstance(error, ValidationError):
        parts = [
            f"{'.'.join(map(str, e['loc'])) or 'value'}: {e['msg']}"
            for e in error.errors(include_input=False, include_url=False, include_context=False)
        ]
        return f"does not fit {schema.__name__}: {'; '.join(parts)}"[:SHOWN]
    if isinstance(error, UnreadableError):
        return str(error)[:SHOWN]
    return f"no JSON for {schema.__name__}"


def _strict(node: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return {"$ref": node["$ref"]}  # strict endpoints take it alone only
    named = {"properties", "$defs"}  # their keys are names, not words of the schema
    kept = {
        key: {name: _strict(part) for name, part in value.items()} if key in named else _strict(value)
        for key, value in node.items()
        if key not in _NOT_SENT
    }
    if isinstance(node.get("properties"), dict):
        kept |= {"required": list(node["properties"]), "additionalProperties": False}
    return kept
