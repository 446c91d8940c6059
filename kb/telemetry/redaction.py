"""Keeps secrets out of what leaves the process: by the name they go under, and by their looks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

HIDDEN = "***"
_NAMES = re.compile(
    r"(?:^|[_.-])(?:api_?keys?|authorization|cookie|credentials?|passw(?:or)?d|secrets?|token|private_?key)$",
    re.IGNORECASE,
)
_LOOKS = (
    (re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+(?=@)"), rf"\1:{HIDDEN}"),  # a password in a URL
    (re.compile(r"(?i)\b(bearer|basic)\s+(?=\S*[\d=])[\w.~+/=-]{8,}"), rf"\1 {HIDDEN}"),
    (re.compile(r"\b(?:(?:sk|pk|tvly|lsv2|ghp|gho|xox[abp])[-_][\w-]{12,}|kb_[0-9a-f]{16}_[\w-]{20,})"), HIDDEN),
    (re.compile(r"(?i)\b(api[_-]?key|\w*token|password|secret)(\s*[=:]\s*)[^\s,;&\"']{4,}"), rf"\1\2{HIDDEN}"),
)
# None of the looks is without one of these, and most text has none: one pass instead of four.
_MAYBE = re.compile(r"(?i)://|bearer|basic|[a-z]{2,4}[-_]|key|token|password|secret")


def redacted(text: str) -> str:
    """Return the text without what looks like a secret."""
    if not _MAYBE.search(text):
        return text
    for looks, instead in _LOOKS:
        text = looks.sub(instead, text)
    return text


def is_secret(name: str) -> bool:
    """Return whether what goes under this name is never shown."""
    return _NAMES.search(name) is not None


def clean(values: Mapping[str, object]) -> dict[str, object]:
    """Return values without secrets, however deep they lie in mappings and lists."""
    return {name: HIDDEN if is_secret(str(name)) and value else _clean(value) for name, value in values.items()}


def _clean(value: object) -> object:
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, dict):
        return clean(value)
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value
