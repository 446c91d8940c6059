"""What is on in this process: nothing, or a tracer, a meter, or both. One instance, changed by the switch only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opentelemetry.metrics import Counter, Histogram, Meter
    from opentelemetry.trace import Tracer

    from kb.telemetry.gauges import Watch
    from kb.telemetry.names import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a provider ends: `finish` sends what is left, as long as that takes; `cut` makes it give up."""

    finish: Callable[[], object]
    cut: Callable[[], object] | None = None


@dataclass(slots=True, kw_only=True)
class State:
    """What is on.

    Args:
        tracer: makes spans; None: none are made.
        meter: makes instruments; None: nothing is measured.
        captures: whether content may leave with spans.
        counters: by metric, made when first used.
        histograms: likewise.
        watches: what gauges are read from.
        ends: how each provider that is ours ends.
        scrape: renders what Prometheus reads; None: not asked for.
    """

    tracer: Tracer | None = None
    meter: Meter | None = None
    captures: bool = False
    counters: dict[Metric, Counter] = field(default_factory=dict)
    histograms: dict[Metric, Histogram] = field(default_factory=dict)
    watches: list[Watch] = field(default_factory=list)
    ends: Sequence[End] = ()
    scrape: Callable[[], tuple[bytes, str]] | None = None

    @property
    def is_on(self) -> bool:
        """Whether anything is recorded."""
        return self.tracer is not None or self.meter is not None

    def off(self) -> None:
        """Go back to nothing. What watches the ledger goes on watching: its owner ends it."""
        self.tracer = self.meter = self.scrape = None
        self.captures = False
        self.counters, self.histograms, self.ends = {}, {}, ()


STATE = State()
