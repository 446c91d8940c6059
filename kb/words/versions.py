"""Version numbers where a text states them: `version 2.4`, `v1.2.3`, `Python 3.12`, 版本 6.5. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.dates.flat_text import flat

if TYPE_CHECKING:
    from collections.abc import Iterator

_VERSION = re.compile(  # Chinese puts no space between words: what says 版 or v is told from its neighbours by that
    r"(?:(?<![\w.])|(?<=[\u3400-\u9fff])(?=版本|v(?:er\.?|ersion)?\s?\d|\d+(?:\.\d+)+\s?版))"
    r"(?:(?P<says>version|release|ver\.?|v|版本号?)\s?|(?P<name>build|(?-i:[A-Z][\w+#-]*))\s?)?"
    r"(?P<number>\d+(?:\.\d+)+(?:-?(?:rc|beta|alpha|b|a|p)\.?\d*)?)(?P<after>\s?版本?)?"
    r"(?(after)|(?(says)(?![A-Za-z\d_%])|(?![\w%])))(?!\.\d)",
    re.IGNORECASE,
)


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
        yield Version(
            number=match["number"].lower(),
            name="" if match["after"] else (match["name"] or "").lower(),
            is_said=match["says"] is not None or match["after"] is not None,
            start=match.start(),
            end=match.end(),
        )
