"""Values to plain JSON and back, so that a checkpoint holds nothing that must be imported to be read."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter

if TYPE_CHECKING:
    from kb.model import Json

T = TypeVar("T")


@lru_cache(maxsize=64)
def _adapter(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - any of our frozen values
    return TypeAdapter(kind)


def plain(value: object) -> dict[str, Json]:
    """Return a frozen value as plain JSON: enums as their words, tuples as lists."""
    kind: Any = type(value)
    dumped: dict[str, Json] = _adapter(kind).dump_python(value, mode="json")
    return dumped


def restored(kind: type[T], data: object) -> T:
    """Return the value that `plain` was given.

    Raises:
        pydantic.ValidationError: the data is of another shape.
    """
    known: Any = kind
    value: T = _adapter(known).validate_python(data)
    return value
