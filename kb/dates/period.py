"""Stretches of time that a text names, and what a question wants of time: frozen values. Instants: epoch ms, UTC."""

from __future__ import annotations

from dataclasses import dataclass

from kb.model import Instant  # noqa: TC001 - these values are restored from JSON by their annotations


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A stretch of time that a text names: [start, end), and its words ("Q3 2024", "去年")."""

    start: Instant
    end: Instant
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeIntent:
    """What a question wants of time.

    Args:
        is_current: it asks for the newest state (latest, now, 最新, 目前).
        periods: periods it names, relative ones resolved against today.
        is_compared: it compares with the same time a year, or a period, before (year-on-year, 同比, 环比).
        as_of: an instant whose knowledge it asks for ("as of March 2024", 截至…): older versions are wanted.
    """

    is_current: bool = False
    periods: tuple[Period, ...] = ()
    as_of: Instant | None = None
    is_compared: bool = False

    @property
    def is_time_sensitive(self) -> bool:
        """Whether the answer depends on when it is asked."""
        return self.is_current or self.is_compared or bool(self.periods) or self.as_of is not None
