"""What may enter the ledger: one rule for both databases, so that a value one of them would bend is refused by each.

PostgreSQL holds no NUL in text and no index entry above 2.7 kB; SQLite turns NaN into NULL; neither holds a lone
surrogate or an integer beyond 64 bits. Pure functions; each returns its argument or raises `InputError`
naming the field.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from kb.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kb.model import Json

MAX_NAME_BYTES = 256  # ids, tenants, roots, hashes, models
MAX_SOURCE_BYTES = 2_000  # with a tenant this still fits one PostgreSQL index entry
MAX_JSON_DEPTH = 64
MAX_INT_BITS = 14_000  # Python refuses to print or parse integers of more than 4,300 digits
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def checked_text(value: str, field: str) -> str:
    """Return `value`, which must be free of NUL and of lone surrogates.

    Raises:
        InputError: it is not.
    """
    if "\0" in value:
        raise InputError(f"{field} holds a NUL character (U+0000)", hint="remove the character and repeat")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            point = ord(value[error.start])
            raise InputError(
                f"{field} holds a lone surrogate (U+{point:04X})", hint="the text was decoded wrongly"
            ) from None
    return value


def storable(value: str) -> str:
    """Return `value` with a replacement character wherever it holds a NUL or a lone surrogate."""
    return value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def checked_name(value: str, field: str, *, limit: int = MAX_NAME_BYTES) -> str:
    """Return `value`, which must also be short enough for an index.

    Raises:
        InputError: it is not.
    """
    checked_text(value, field)
    if len(value) > limit // 4 and (size := len(value.encode())) > limit:
        raise InputError(f"{field} is {size} bytes long; at most {limit} are allowed")
    return value


def checked_key(value: str, field: str) -> str:
    """Return `value`, which must be a name and not empty.

    Raises:
        InputError: it is not.
    """
    if not value:
        raise InputError(f"{field} is empty")
    return checked_name(value, field)


def checked_source(value: str) -> str:
    """Return a source URI of at most 2,000 bytes.

    Raises:
        InputError: it is empty, longer, or not valid text.
    """
    if not value:
        raise InputError("source is empty")
    return checked_name(value, "source", limit=MAX_SOURCE_BYTES)


def checked_keys(values: Iterable[str], field: str) -> list[str]:
    """Return a list of names, each checked.

    Raises:
        InputError: one of them is not a name.
    """
    return [checked_key(value, field) for value in values]


def checked_int(value: int, field: str) -> int:
    """Return an instant or counter that fits 64 bits.

    Raises:
        InputError: it does not.
    """
    if not INT64_MIN <= value <= INT64_MAX:
        raise InputError(f"{field} is {value}; it must fit 64 bits")
    return value


def checked_int_or_none(value: int | None, field: str) -> int | None:
    """Return None, or an integer that fits 64 bits.

    Raises:
        InputError: it does not.
    """
    return None if value is None else checked_int(value, field)


def checked_real(value: float, field: str) -> float:
    """Return a finite number, zero without a sign: SQLite keeps none.

    Raises:
        InputError: it is NaN or infinite.
    """
    if not math.isfinite(value):
        raise InputError(f"{field} is {value}; it must be a finite number")
    return float(value) + 0.0


def checked_json(value: Json, field: str, *, depth: int = 0) -> Json:
    """Return a value that JSON holds without loss.

    Raises:
        InputError: a key is no text, a number is NaN or infinite, a type is foreign, or it is nested too deep.
    """
    if isinstance(value, str):
        checked_text(value, field)
    elif isinstance(value, dict | list | tuple):
        if depth >= MAX_JSON_DEPTH:
            raise InputError(f"{field} is nested deeper than {MAX_JSON_DEPTH} levels")
        if isinstance(value, dict):
            _check_names(value, field)
        for item in value.values() if isinstance(value, dict) else value:
            checked_json(item, field, depth=depth + 1)
    else:
        _check_plain(value, field)
    return value


def _check_names(members: dict[str, Json], field: str) -> None:
    for key in members:
        if not isinstance(key, str):
            raise InputError(f"{field} has the key {key!r}; keys must be text")
        checked_text(key, field)


def _check_plain(value: object, field: str) -> None:
    if isinstance(value, float):
        checked_real(value, field)
    elif isinstance(value, int):
        if value.bit_length() > MAX_INT_BITS:
            raise InputError(f"{field} holds an integer of more than {MAX_INT_BITS} bits")
    elif value is not None:
        raise InputError(f"{field} holds a {type(value).__name__}, which JSON cannot")


def json_text(value: object) -> str:
    """Return `value` as compact JSON; the one spelling for both databases."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
