"""What callers say while they work: spans, events, counts. Each costs one test of a variable while nothing is on."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from kb.telemetry.attributes import Recording, shown
from kb.telemetry.names import UNITS, edges
from kb.telemetry.state import STATE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kb.telemetry.attributes import Attribute
    from kb.telemetry.names import Attr, Event, Metric, Span

_OFF = nullcontext(Recording())


def span(
    name: Span, attributes: Mapping[Attr, Attribute | None] | None = None, *, links: Sequence[str] = ()
) -> AbstractContextManager[Recording]:
    """Return a context that records `name`; an exception marks the span failed, by its type, and passes on.

    Args:
        name: what is done.
        attributes: known at the beginning; None values are left out.
        links: W3C traceparents of spans that it has to do with, in whatever trace.
    """
    if STATE.tracer is None:
        return _OFF
    from kb.telemetry import tracing  # noqa: PLC0415 - the vendor is loaded only while it is on

    context = tracing.opened(STATE.tracer, name, shown(attributes or {}), links)
    return _OFF if context is None else context


def annotate(attributes: Mapping[Attr, Attribute | None]) -> None:
    """Add attributes to the span that the caller is in, if it is one of ours."""
    if STATE.tracer is not None:
        from kb.telemetry import tracing  # noqa: PLC0415 - likewise

        Recording(tracing.here()).set(attributes)


def event(name: Event, attributes: Mapping[Attr, Attribute | None]) -> None:
    """Add an event to the span that the caller is in."""
    if STATE.tracer is not None:
        from kb.telemetry import tracing  # noqa: PLC0415 - likewise

        tracing.here().add_event(name.value, shown(attributes))


def current() -> str:
    """Return the W3C traceparent of the span that the caller is in; "" for none, or one that is not sampled."""
    if STATE.tracer is None:
        return ""
    from kb.telemetry import tracing  # noqa: PLC0415 - likewise

    return tracing.traceparent()


def ids() -> tuple[str, str] | None:
    """Return trace id and span id of where the caller is, as hexadecimal digits; None outside of any span."""
    if STATE.tracer is None:
        return None
    from kb.telemetry import tracing  # noqa: PLC0415 - likewise

    return tracing.ids()


def continued(headers: Mapping[str, str]) -> AbstractContextManager[None]:
    """Return a context whose spans belong to the trace that an incoming request names.

    Args:
        headers: of the request, in any case; `traceparent` and `tracestate` are read, and nothing else.
    """
    if STATE.tracer is None:
        return nullcontext()
    from kb.telemetry import tracing  # noqa: PLC0415 - likewise

    return tracing.continued(headers)


def followed(causes: Sequence[str], attributes: Mapping[Attr, Attribute | None]) -> None:
    """Leave in the traces that caused this a span that leads here: a link can only be followed from where it stands.

    Args:
        causes: W3C traceparents.
        attributes: of each such span.
    """
    if STATE.tracer is not None and causes:
        from kb.telemetry import tracing  # noqa: PLC0415 - likewise

        tracing.followed(STATE.tracer, causes, shown(attributes))


def is_traced() -> bool:
    """Return whether spans are made."""
    return STATE.tracer is not None


def count(metric: Metric, amount: int = 1, **labels: str) -> None:
    """Add to a counter."""
    if STATE.meter is None or amount == 0:
        return
    counter = STATE.counters.get(metric)
    if counter is None:
        counter = STATE.counters[metric] = STATE.meter.create_counter(metric.value)
    counter.add(amount, labels)


def observe(metric: Metric, value: float, **labels: str) -> None:
    """Record a value in a histogram; seconds where the name or the unit says so."""
    if STATE.meter is None:
        return
    histogram = STATE.histograms.get(metric)
    if histogram is None:
        # As advice, not as a View: whoever asks the collector's side for exponential buckets gets them there.
        histogram = STATE.histograms[metric] = STATE.meter.create_histogram(
            metric.value, unit=UNITS.get(metric, ""), explicit_bucket_boundaries_advisory=edges(metric)
        )
    histogram.record(value, labels)
