"""Version numbers where a text states them: `version 2.4`, `v1.2.3`, `Python 3.12`, 版本 6.5. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.dates.flat_text import flat

if TYPE_CHECKING:
    from collections.abc import Iterator

_VERSION = re.compile(
    r"(?<![\w.])(?:(?P<label>version|release|ver\.?|build|v|版本号?|(?-i:[A-Z][\w+#-]*))\s?)?"
    r"(?P<number>\d+(?:\.\d+)+(?:-?(?:rc|beta|alpha|b|a|p)\.?\d*)?)(?![\w%])(?!\.\d)",
    re.IGNORECASE,
)
_SAYS_VERSION = re.compile(r"version|release|ver\.?|v|版本号?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version number: characters [start, end) of the text.

    Args:
        number: in lower case, as `2.4.1-rc1`.
        name: what it may be a version of, in lower case; "" when the text does not say.
        is_said: the text calls it a version; else it may be a decimal number.
    """

    number: str
    name: str
    is_said: bool
    start: int
    end: int

    @property
    def is_sure(self) -> bool:
        """Whether it cannot be a decimal number: it is called a version, or it has three parts."""
        return self.is_said or self.number.count(".") > 1


def versions_of(text: str) -> Iterator[Version]:
    """Yield what may be version numbers, in order of place; see `Version.is_sure`."""
    for match in _VERSION.finditer(flat(text)):
        label = match["label"] or ""
        is_said = _SAYS_VERSION.fullmatch(label) is not None
        yield Version(
            number=match["number"].lower(),
            name="" if is_said else label.lower(),
            is_said=is_said,
            start=match.start(),
            end=match.end(),
        )
