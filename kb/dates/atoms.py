"""The smallest things of which named periods are put together: see `kb.dates.mentions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.dates.almanac import Part, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Atom:
    """Characters [at, until) of a flat text that name a year, a part of a year, both, or a stretch of days."""

    at: int
    until: int
    year: int | None = None
    part: Part | None = None
    span: Span | None = None
    is_relative: bool = False

    @property
    def is_year(self) -> bool:
        """Whether it names a year and no part of it."""
        return self.year is not None and self.part is None

    @property
    def is_part(self) -> bool:
        """Whether it names a part of a year, not said which."""
        return self.part is not None and self.year is None
