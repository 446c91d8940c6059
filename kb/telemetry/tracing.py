"""Spans of OpenTelemetry. Loaded only while tracing is on."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from kb.telemetry.attributes import Recording, shown
from kb.telemetry.names import CLIENTS, PARTS, SERVERS, Attr, Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    from opentelemetry.util.types import AttributeValue

# How work ends early without having failed; by name, since the vendors that raise them may not be loaded.
_NO_FAULT = frozenset(
    {"CancelledError", "Exit", "GeneratorExit", "GraphDrained", "GraphInterrupt", "KeyboardInterrupt", "SystemExit"}
)
_PROPAGATOR = TraceContextTextMapPropagator()


class Opened:
    """A span from entry to exit, current in between."""

    __slots__ = ("_attributes", "_links", "_name", "_span", "_token", "_tracer")

    def __init__(
        self, tracer: trace.Tracer, name: Span, attributes: Mapping[str, AttributeValue], links: Sequence[str]
    ) -> None:
        self._tracer = tracer
        self._name = name
        self._attributes = attributes
        self._links = links

    def __enter__(self) -> Recording:
        self._span = self._tracer.start_span(
            self._name.value, kind=_kind(self._name), attributes=self._attributes, links=_links(self._links)
        )
        self._token = contexts.attach(trace.set_span_in_context(self._span))
        return Recording(self._span)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        del traceback
        if kind is not None and kind.__name__ not in _NO_FAULT:
            # A message may hold words of a document or of a question: it is content, and a stack trace more so.
            self._span.set_status(trace.Status(trace.StatusCode.ERROR, kind.__name__))
            self._span.set_attributes(shown({Attr.ERROR: kind.__name__, Attr.EXCEPTION: str(error)}))
        contexts.detach(self._token)
        self._span.end()


def opened(
    tracer: trace.Tracer, name: Span, attributes: Mapping[str, AttributeValue], links: Sequence[str]
) -> Opened | None:
    """Return the span to enter; None for one that only stands inside another, where there is no other."""
    if name in PARTS and not here().get_span_context().is_valid:
        return None
    return Opened(tracer, name, attributes, links)


def here() -> trace.Span:
    """Return the span that the caller is in; one that records nothing outside of any."""
    return trace.get_current_span()


def ids() -> tuple[str, str] | None:
    """See `recording.ids`."""
    found = here().get_span_context()
    if not found.is_valid:
        return None
    return trace.format_trace_id(found.trace_id), trace.format_span_id(found.span_id)


def traceparent() -> str:
    """See `recording.current`."""
    carrier: dict[str, str] = {}
    if here().get_span_context().trace_flags.sampled:
        _PROPAGATOR.inject(carrier)
    return carrier.get("traceparent", "")


@contextmanager
def continued(headers: Mapping[str, str]) -> Iterator[None]:
    """See `recording.continued`."""
    token = contexts.attach(_PROPAGATOR.extract({name.lower(): value for name, value in headers.items()}))
    try:
        yield
    finally:
        contexts.detach(token)


def followed(tracer: trace.Tracer, causes: Sequence[str], attributes: Mapping[str, AttributeValue]) -> None:
    """See `recording.followed`."""
    to = [trace.Link(here().get_span_context())]
    for cause in causes:
        parent = _PROPAGATOR.extract({"traceparent": cause})
        tracer.start_span(Span.FOLLOWED.value, context=parent, attributes=attributes, links=to).end()


def _kind(name: Span) -> trace.SpanKind:
    if name in CLIENTS:
        return trace.SpanKind.CLIENT
    return trace.SpanKind.SERVER if name in SERVERS else trace.SpanKind.INTERNAL


def _links(traceparents: Sequence[str]) -> list[trace.Link]:
    found = (
        trace.get_current_span(_PROPAGATOR.extract({"traceparent": one}, contexts.Context())).get_span_context()
        for one in traceparents
    )
    return [trace.Link(context) for context in found if context.is_valid]
