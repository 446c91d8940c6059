"""What an author may decide about a document's trust: a value out of range is an error, never a guess. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kb.errors import DocumentError, FailureCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kb.model import Json

_HINT = "correct it in the file, or remove it to use the source's default"
_SHOWN = 60  # characters of a wrong value that a message repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class Governed:
    """What was said about a document; None or empty where nothing was.

    Args:
        confidence: in [0, 1].
        verified: whether its owner vouches for it.
        title: its title.
        tags: without repetition, in order.
        rest: every other key, kept as metadata.
    """

    confidence: float | None = None
    verified: bool | None = None
    title: str | None = None
    tags: tuple[str, ...] = ()
    rest: Mapping[str, Json] = field(default_factory=dict)


def governed(front_matter: Mapping[str, Json]) -> Governed:
    """Return the governed values of a front matter, and the rest of it. A key without a value says nothing.

    Raises:
        DocumentError: FRONT_MATTER; the message names key, value and what is allowed.
    """
    rest = dict(front_matter)
    return Governed(
        confidence=_confidence(rest.pop("confidence", None)),
        verified=_verified(rest.pop("verified", None)),
        title=_title(rest.pop("title", None)),
        tags=_tags(rest.pop("tags", None)),
        rest=rest,
    )


def _confidence(value: Json) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:  # false for NaN
        return float(value)
    raise _wrong("confidence", value, "a number from 0 to 1")


def _verified(value: Json) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise _wrong("verified", value, "true or false")


def _title(value: Json) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool | list | dict):
        raise _wrong("title", value, "a text")
    return " ".join(str(value).split()) or None


def _tags(value: Json) -> tuple[str, ...]:
    if value is None:
        return ()
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list) or any(tag is None or isinstance(tag, bool | list | dict) for tag in given):
        raise _wrong("tags", value, "a list of texts, or texts parted by commas")
    return tuple(dict.fromkeys(tag for tag in (str(tag).strip() for tag in given) if tag))


def _wrong(key: str, value: Json, allowed: str) -> DocumentError:
    try:
        shown = repr(value)
    except ValueError:  # Python prints no integer of more than 4300 digits
        shown = "an integer of thousands of digits"
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    return DocumentError(FailureCode.FRONT_MATTER, f"{key}: {shown} is not allowed; it must be {allowed}", hint=_HINT)
